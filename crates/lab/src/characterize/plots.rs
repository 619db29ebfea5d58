//! Figures of the paper, drawn from a report: the reference drive in grey, this device in colour.

mod figures;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::Characterization;

/// Plot error: a figure was not written.
#[derive(Debug)]
pub enum PlotError {
    /// The folder cannot be created.
    Folder(PathBuf, io::Error),
    /// The file cannot be written.
    File(PathBuf, String),
}

impl fmt::Display for PlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path, why) => write!(f, "cannot create {}: {why}", path.display()),
            Self::File(path, why) => write!(f, "cannot write {}: {why}", path.display()),
        }
    }
}

impl std::error::Error for PlotError {}

/// Writes all figures that the report has points for, as SVG. Returns their paths.
///
/// # Errors
/// The folder cannot be created, or a file not written.
pub fn write_plots(report: &Characterization, folder: &Path) -> Result<Vec<PathBuf>, PlotError> {
    std::fs::create_dir_all(folder).map_err(|why| PlotError::Folder(folder.to_owned(), why))?;
    let mut written = Vec::new();
    for chart in figures::all(report) {
        if chart.is_empty() {
            continue;
        }
        let path = folder.join(format!("{}.svg", chart.file));
        chart.write(&path).map_err(|why| PlotError::File(path.clone(), why))?;
        written.push(path);
    }
    Ok(written)
}
