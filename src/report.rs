//! Findings of whole files for other tools and for people: SARIF, and HTML pages that need nothing else.

pub mod html;
pub mod sarif;

use crate::analysis::Finding;
use crate::analysis::pair::Version;
use crate::annotations::ignores::Ignore;

/// What was found in one file.
#[derive(Clone, Copy, Debug)]
pub struct FileReport<'a> {
    /// Relative URI of the file.
    pub uri: &'a str,
    pub version: Version<'a>,
    pub findings: &'a [Reported<'a>],
}

/// A finding, and why it is passed over, where it is.
#[derive(Clone, Copy, Debug)]
pub struct Reported<'a> {
    pub finding: &'a Finding,
    pub ignored: Option<&'a Ignore>,
}
