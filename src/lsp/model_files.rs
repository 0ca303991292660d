//! The files of the model in use: when they change, it is loaded again.

use crate::lsp::reports::{self, Stamp};
use crate::lsp::shared::Shared;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tower_lsp::ls_types::MessageType;

/// A model directory holds a handful of files.
const MOST_FILES: usize = 1000;
/// Files that are being copied come to rest first.
const REST: Duration = Duration::from_millis(300);
const MOST_RESTS: usize = 200;

/// A model directory as it was when the model was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelFiles {
    pub(crate) directory: PathBuf,
    files: BTreeMap<PathBuf, Stamp>,
}

impl ModelFiles {
    /// Looks at the files of a directory and of the folders in it.
    pub(crate) fn look(directory: &Path) -> ModelFiles {
        let walk = ignore::WalkBuilder::new(directory).standard_filters(false).max_depth(Some(2)).build();
        let files = walk.filter_map(Result::ok).filter(|entry| !entry.path().is_dir()).take(MOST_FILES);
        let files = files.map(|entry| (entry.path().to_path_buf(), reports::stamp(entry.path()))).collect();
        ModelFiles { directory: directory.to_path_buf(), files }
    }
}

/// Whether one of the paths lies in the directory of the model in use.
pub(crate) fn are_of_the_model(shared: &Shared, paths: &[PathBuf]) -> bool {
    let known = shared.model_files();
    let Some(known) = known.as_ref() else { return false };
    let real = known.directory.canonicalize().ok();
    paths.iter().any(|path| {
        path.starts_with(&known.directory) || real.as_ref().is_some_and(|real| path.starts_with(real))
    })
}

/// Loads the model again if its files are others than when it was loaded, once they have come to rest.
pub(crate) async fn check(shared: Arc<Shared>) {
    let Some(known) = shared.model_files().clone() else { return };
    if shared.checks_model.swap(true, Ordering::SeqCst) {
        return;
    }
    let look = || {
        let directory = known.directory.clone();
        async move { tokio::task::spawn_blocking(move || ModelFiles::look(&directory)).await.ok() }
    };
    let mut now = look().await;
    if now.as_ref().is_some_and(|now| *now != known) {
        for _ in 0..MOST_RESTS {
            tokio::time::sleep(REST).await;
            let later = look().await;
            if later == now {
                break;
            }
            now = later;
        }
    }
    shared.checks_model.store(false, Ordering::SeqCst);
    // It may have been loaded again meanwhile, or another one may be in use.
    let is_current = shared.model_files().as_ref() == now.as_ref();
    let is_same_directory =
        shared.model_files().as_ref().is_some_and(|files| files.directory == known.directory);
    if let Some(now) = now.filter(|now| !is_current && is_same_directory && *now != known) {
        let message =
            format!("the files in {} have changed: the model is loaded again", now.directory.display());
        shared.outbox.log(MessageType::INFO, message);
        shared.queue.start(None);
    }
}
