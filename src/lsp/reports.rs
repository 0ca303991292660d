//! Diagnostics of files that are not open: shown until the file is opened, changes, or leaves the workspace.

use crate::lsp::proto::from_proto;
use crate::lsp::shared::Shared;
use std::collections::HashMap;
use std::path::Path;
use std::time::SystemTime;
use tower_lsp::ls_types::{Diagnostic, Uri};

/// A file as it was when it was read.
pub(crate) type Stamp = Option<(SystemTime, u64)>;

/// The files of which diagnostics are shown.
pub(crate) type Reported = HashMap<Uri, Stamp>;

pub(crate) fn stamp(path: &Path) -> Stamp {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// Shows what was found in a file, in the place of what was shown before.
pub(crate) fn report(shared: &Shared, uri: &Uri, stamp: Stamp, diagnostics: Vec<Diagnostic>) {
    let mut reported = shared.reported();
    let was_shown = match diagnostics.is_empty() {
        true => reported.remove(uri).is_some(),
        false => {
            reported.insert(uri.clone(), stamp);
            true
        }
    };
    if was_shown {
        shared.outbox.diagnostics(uri.clone(), diagnostics, None);
    }
}

/// The document was opened, so that its own diagnostics count.
pub(crate) fn opened(shared: &Shared, uri: &Uri) {
    if shared.reported().remove(uri).is_some() {
        shared.outbox.diagnostics(uri.clone(), Vec::new(), None);
    }
}

/// Takes back what is not true any more: the file has changed or is in no workspace folder.
pub(crate) fn take_back_stale(shared: &Shared) {
    let roots = shared.settings().roots();
    let is_current = |uri: &Uri, stamp_then: &Stamp| {
        from_proto::file_path(uri).is_some_and(|path| {
            roots.iter().any(|root| path.starts_with(root)) && stamp(&path) == *stamp_then
        })
    };
    take_back(shared, |uri, stamp| !is_current(uri, stamp));
}

/// Takes back everything, as when another model is loaded.
pub(crate) fn take_back_all(shared: &Shared) {
    take_back(shared, |_, _| true);
}

fn take_back(shared: &Shared, is_stale: impl Fn(&Uri, &Stamp) -> bool) {
    let mut reported = shared.reported();
    let stale: Vec<Uri> =
        reported.iter().filter(|(uri, stamp)| is_stale(uri, stamp)).map(|(uri, _)| uri.clone()).collect();
    for uri in stale {
        reported.remove(&uri);
        shared.outbox.diagnostics(uri, Vec::new(), None);
    }
}
