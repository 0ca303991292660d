//! Ground truth for the functions of a file.

use super::output::{Failure, Output};
use super::source::Document;
use crate::analysis::agreement::GroundTruth;
use crate::config::Settings;
use crate::syntax::Function;
use std::path::PathBuf;

#[derive(Debug)]
pub(super) struct Truth {}

impl Truth {
    pub(super) fn load(
        _files: &[PathBuf],
        _settings: &Settings,
        _document: &Document,
        _output: &mut Output,
    ) -> Result<Truth, Failure> {
        Ok(Truth {})
    }
    pub(super) fn of(&self, _document: &Document, _function: &Function) -> Option<GroundTruth> {
        None
    }
    pub(super) fn of_text(&self, _document: &Document, _function: &Function) -> Option<GroundTruth> {
        None
    }
}
