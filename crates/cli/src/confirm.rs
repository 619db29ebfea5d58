//! Data-loss confirmation: the operator agrees with `--yes` or at a prompt before a device is
//! overwritten.

use std::io::{self, IsTerminal};

use zonal_host::DeviceContents;
use zonal_hostdev::{DeviceSpec, OpenError};

use crate::contents::Contents;
use crate::failure::Failure;
use crate::inspect::DeviceInspector;

/// Confirms that the device may be overwritten. An empty or missing device needs no consent.
/// Otherwise the function asks at the terminal, and refuses if there is no terminal.
///
/// # Errors
/// The operator does not agree, or the device cannot be read.
pub fn confirm_data_loss(spec: &DeviceSpec, is_agreed: bool) -> Result<(), Failure> {
    if is_agreed {
        return Ok(());
    }
    let survey = match DeviceInspector::open(spec) {
        Ok(survey) => survey,
        // A missing file is created later, so nothing can be lost.
        Err(OpenError::NotMadeYet { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if *survey.holds() == DeviceContents::Nothing {
        return Ok(());
    }
    let about = Contents::of(&survey)?.about;
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(Failure::request(format!("{spec} holds {about}: add --yes to erase it")));
    }
    eprint!("{spec} holds {about}\nThis data will be lost. Type yes to continue: ");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(Failure::work)?;
    match answer.trim() {
        "yes" => Ok(()),
        _ => Err(Failure::request(format!("aborted: {spec} is unchanged"))),
    }
}
