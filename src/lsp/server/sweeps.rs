//! Analysing whole files and folders.

use super::commands::serialized;
use super::{Server, explain_error, guarded};
use crate::detector::Cancellation;
use crate::lsp::progress::Expected;
use crate::lsp::proto::ext::{
    AnalysisMessage, AnalyzeFileParams, AnalyzeWorkspaceParams, COMMAND_ANALYZE_FILE, FlaggedMessage,
    FunctionFailure,
};
use crate::lsp::proto::{from_proto, to_proto};
use crate::lsp::queue::{ExplainFailure, SweepJob, Swept, Target};
use crate::lsp::shared::Shared;
use crate::sources;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::oneshot;
use tower_lsp::jsonrpc::{Error, Result};
use tower_lsp::ls_types::{MessageType, ProgressToken, Uri};

/// Cancels a sweep whose handler is dropped, which is how tower-lsp cancels a request.
struct StopOnDrop {
    cancel: Cancellation,
    shared: Arc<Shared>,
    is_done: bool,
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if !self.is_done {
            self.shared.queue.stop_sweep(&self.cancel);
        }
    }
}

/// A sweep that was asked for, and is cancelled under the client's token from then on.
pub(super) struct Asked {
    token: Option<ProgressToken>,
    cancel: Cancellation,
    _expected: Option<Expected>,
}

impl Server {
    pub(super) async fn analyze_file(&self, params: AnalyzeFileParams) -> Result<Option<Value>> {
        let AnalyzeFileParams { text_document, work_done_token } = params;
        let asked = self.asked(work_done_token);
        let (title, targets) = guarded(COMMAND_ANALYZE_FILE, || self.file_targets(&text_document.uri))?;
        let swept = self.sweep(title, targets, asked).await?;
        self.summarized(&swept)
    }

    pub(super) fn file_targets(&self, uri: &Uri) -> Result<(String, Vec<Target>)> {
        let snapshot = self.open_document(uri)?;
        let title = format!("linelens: analysing {}", to_proto::file_name(&snapshot));
        Ok((title, vec![Target::Document(uri.clone())]))
    }

    pub(super) async fn analyze_workspace(&self, params: AnalyzeWorkspaceParams) -> Result<Option<Value>> {
        let AnalyzeWorkspaceParams { folder, work_done_token } = params;
        let asked = self.asked(work_done_token);
        let targets = self.folder_targets(folder).await?;
        let swept = self.sweep("linelens: analysing the workspace".to_string(), targets, asked).await?;
        self.summarized(&swept)
    }

    /// The C and C++ files of a workspace folder, or of all.
    pub(super) async fn folder_targets(&self, folder: Option<Uri>) -> Result<Vec<Target>> {
        let roots = self.shared.settings().roots();
        let roots: Vec<PathBuf> = match folder {
            None => roots,
            Some(folder) => {
                let path = from_proto::file_path(&folder);
                roots.into_iter().filter(|root| Some(root) == path.as_ref()).collect()
            }
        };
        if roots.is_empty() {
            return Err(from_proto::invalid_params("there is no such workspace folder open"));
        }
        let shared = Arc::clone(&self.shared);
        let search = move || {
            let mut paths: Vec<PathBuf> = Vec::new();
            for root in roots {
                let found = sources::below(&root);
                for problem in found.problems {
                    shared.outbox.log(MessageType::WARNING, problem);
                }
                paths.extend(found.paths);
            }
            // Folders may lie in each other.
            paths.sort();
            paths.dedup();
            paths.into_iter().map(Target::File).collect()
        };
        tokio::task::spawn_blocking(search).await.map_err(|_| Error::internal_error())
    }

    pub(super) fn asked(&self, token: Option<ProgressToken>) -> Asked {
        let cancel = Cancellation::new();
        let _expected = self.shared.progress.register(token.as_ref(), self.shared.stopping(&cancel));
        Asked { token, cancel, _expected }
    }

    pub(super) async fn sweep(&self, title: String, targets: Vec<Target>, asked: Asked) -> Result<Swept> {
        self.worker.launch(&self.shared);
        let Asked { token, cancel, _expected } = asked;
        let mut stop =
            StopOnDrop { cancel: cancel.clone(), shared: Arc::clone(&self.shared), is_done: false };
        let (answer, swept) = oneshot::channel();
        self.shared.queue.sweep(SweepJob { title, targets, token, cancel, answer });
        let swept = swept.await;
        stop.is_done = true;
        match swept {
            Ok(swept) => swept.map_err(|failure| match failure {
                ExplainFailure::Failed(reason) => self.refused(&reason),
                failure => explain_error(failure),
            }),
            Err(_) => Err(explain_error(ExplainFailure::Cancelled)),
        }
    }

    fn summarized(&self, swept: &Swept) -> Result<Option<Value>> {
        let summary = summary(swept);
        self.show_to_plain_clients(&sentence(&summary));
        serialized(summary).map(Some)
    }
}

fn summary(swept: &Swept) -> AnalysisMessage {
    let flagged = swept.files.iter().flat_map(|file| {
        let flagged = file.findings.iter().zip(&file.ignored);
        let flagged = flagged.filter(|(finding, ignored)| finding.flagged && ignored.is_none());
        flagged.map(|(finding, _)| FlaggedMessage {
            uri: file.snapshot.uri.clone(),
            function: to_proto::function_message(finding),
            probability: finding.probability,
            threshold: finding.threshold,
        })
    });
    let failed = swept.files.iter().flat_map(|file| {
        file.failed.iter().map(|(function, reason)| FunctionFailure {
            uri: file.snapshot.uri.clone(),
            function: function.clone(),
            reason: reason.clone(),
        })
    });
    AnalysisMessage {
        files: swept.read,
        functions: swept.functions,
        flagged: flagged.collect(),
        ignored: swept.files.iter().flat_map(|file| &file.ignored).flatten().count(),
        failed: failed.collect(),
        unreadable: swept.unreadable.clone(),
    }
}

fn sentence(summary: &AnalysisMessage) -> String {
    let files = if summary.files == 1 { "file" } else { "files" };
    let functions = if summary.functions == 1 { "function" } else { "functions" };
    let mut sentence = format!(
        "{} of {} {functions} flagged in {} {files}",
        summary.flagged.len(),
        summary.functions,
        summary.files
    );
    if summary.ignored > 0 {
        sentence.push_str(&format!(", {} ignored", summary.ignored));
    }
    let failed = summary.failed.len() + summary.unreadable.len();
    if failed > 0 {
        let what = if failed == 1 { "function or file" } else { "functions or files" };
        sentence.push_str(&format!("; {failed} {what} could not be analysed, see the log"));
    }
    sentence
}
