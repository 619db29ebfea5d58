//! Whether what a device holds may be lost: the operator says so beforehand with `--yes`, or when asked.

use std::io::{self, IsTerminal};

use zonal_host::DeviceContents;
use zonal_hostdev::{DeviceSpec, OpenError};

use crate::contents::Contents;
use crate::failure::Failure;
use crate::survey::Survey;

/// A device that holds nothing is free to be written. For another the operator at the terminal is asked; where there is
/// none, it is refused.
///
/// # Errors
/// The operator does not agree, or the device cannot be looked at.
pub fn agree_to_loss(spec: &DeviceSpec, is_agreed: bool) -> Result<(), Failure> {
    if is_agreed {
        return Ok(());
    }
    let survey = match Survey::open(spec) {
        Ok(survey) => survey,
        // A file that is not there yet is made.
        Err(OpenError::NotMadeYet { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if *survey.holds() == DeviceContents::Nothing {
        return Ok(());
    }
    let about = Contents::of(&survey)?.about;
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(Failure::request(format!("{spec} holds {about}: add --yes to lose it")));
    }
    eprint!("{spec} holds {about}\nIt will be lost. Write yes to go on: ");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(Failure::work)?;
    match answer.trim() {
        "yes" => Ok(()),
        _ => Err(Failure::request(format!("{spec} is as it was"))),
    }
}
