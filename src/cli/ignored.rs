//! What is passed over: the decisions of the workspaces that the files lie in.

use super::output::Output;
use super::source::Document;
use super::truth::workspace_of;
use crate::analysis::Finding;
use crate::annotations::ignores::{Ignore, Ignores, Scope};
use crate::annotations::problem::counted;
use crate::detector::DetectorInfo;
use std::collections::HashMap;
use std::path::PathBuf;

/// More bad rows are counted, not listed.
const MOST_WARNINGS: usize = 20;

/// The decisions of each workspace, read when the first file of it comes.
#[derive(Debug, Default)]
pub(super) struct IgnoredFunctions {
    workspaces: HashMap<PathBuf, Ignores>,
}

impl IgnoredFunctions {
    pub(super) fn of(&mut self, document: &Document, output: &mut Output) -> &Ignores {
        self.workspaces.entry(workspace_of(document)).or_insert_with_key(|workspace| {
            let ignores = Ignores::load(workspace);
            for problem in ignores.problems().iter().take(MOST_WARNINGS) {
                output.warn(&problem.to_string());
            }
            let more = ignores.problems().len().saturating_sub(MOST_WARNINGS);
            if more > 0 {
                let (one, many) =
                    ("more row of ignored functions is bad", "more rows of ignored functions are bad");
                output.warn(&counted(more, one, many));
            }
            ignores
        })
    }
}

/// Why a flagged function is passed over, where it is.
pub(super) fn decision<'a>(
    ignores: &'a Ignores,
    document: &Document,
    finding: &Finding,
    model: &DetectorInfo,
) -> Option<&'a Ignore> {
    let scope = Scope { model: &model.name, sha256: &model.sha256, threshold: finding.threshold };
    let text = finding.function.span.of(&document.text).unwrap_or_default();
    ignores.of(&finding.function.name, text, &scope).filter(|_| finding.flagged)
}
