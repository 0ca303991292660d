//! What linelens found on this machine: library, execution providers, model, and what to do where something is wrong.

use crate::config::Machine;
use crate::detector::session::Runtime;
use crate::detector::{Detector, DetectorInfo};
use std::path::PathBuf;

/// One execution provider: whether it really works and, if not, why and what to do.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderReport {
    pub name: String,
    pub works: bool,
    pub reason: Option<String>,
    pub advice: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub version: String,
    /// Path, version and how it was found; or the error.
    pub library: Result<(PathBuf, String, String), String>,
    pub providers: Vec<ProviderReport>,
    /// How the model directory was found, and its facts; or the error.
    pub model: Result<(String, DetectorInfo), String>,
    /// Sentences that say what to do next; empty when all is well.
    pub advice: Vec<String>,
}

impl Report {
    pub fn healthy(&self) -> bool {
        self.library.is_ok() && self.model.is_ok()
    }
    /// The text of `linelens doctor`; also shown when start-up fails.
    pub fn to_text(&self) -> String {
        todo!()
    }
}

/// Looks at the whole set-up. Never panics; every failure is part of the report.
pub fn examine(_machine: &Machine, _workspace: &[PathBuf]) -> Report {
    todo!()
}

/// Loads library and model, or says in the words of [`Report::to_text`] why that does not work.
/// `workspace` are folders that the user has open: nothing is discovered inside them.
pub fn start(_machine: &Machine, _workspace: &[PathBuf]) -> Result<(Runtime, Detector), Box<Report>> {
    todo!()
}
