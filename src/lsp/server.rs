//! The handlers. Each translates, does one thing and translates back; what changes state does so before its first
//! `await`, since handlers run concurrently.

mod commands;
mod export;
mod models;
mod navigation;
mod pointing;
mod settings;
mod sweeps;

use crate::config::{Problem, Source, WORKSPACE_FILE};
use crate::detector::Cancellation;
use crate::lsp::documents::Snapshot;
use crate::lsp::hints;
use crate::lsp::lens;
use crate::lsp::model_files;
use crate::lsp::options;
use crate::lsp::parent::ParentWatch;
use crate::lsp::progress::Expected;
use crate::lsp::proto::capabilities::{self, ClientFacts};
use crate::lsp::proto::from_proto;
use crate::lsp::publish;
use crate::lsp::queue::ExplainFailure;
use crate::lsp::reports;
use crate::lsp::shared::{EngineState, Shared};
use crate::lsp::truth;
use crate::lsp::worker::{self, StartEngine};
use crate::sources;
use settings::{ReadFiles, read_workspace_files};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tower_lsp::jsonrpc::{Error, ErrorCode, Result};
use tower_lsp::ls_types::*;
use tower_lsp::{Client, LanguageServer};

/// Longer than the debounce, a pull waits this long for findings; then it is answered with what there is.
const PULL_PATIENCE: Duration = Duration::from_millis(250);
/// However long the debounce.
const MAX_PULL_PATIENCE: Duration = Duration::from_secs(1);
const CONFIGURATION_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Server {
    shared: Arc<Shared>,
    client: Client,
    worker: Arc<WorkerSlot>,
    parent: Arc<ParentWatch>,
    /// Whether the client asked for the shutdown.
    shutdown: Arc<AtomicBool>,
    /// Found before there was a client to tell.
    problems: Mutex<Vec<Problem>>,
    /// Counts requests for configuration, so that an old answer is not taken for the newest.
    configuration: Arc<AtomicU64>,
}

/// The worker before and after it is started.
pub(crate) struct WorkerSlot {
    start: Mutex<Option<StartEngine>>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl std::fmt::Debug for WorkerSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerSlot").finish_non_exhaustive()
    }
}

impl WorkerSlot {
    pub(crate) fn new(start: StartEngine) -> WorkerSlot {
        WorkerSlot { start: Mutex::new(Some(start)), thread: Mutex::new(None) }
    }

    fn launch(&self, shared: &Arc<Shared>) {
        let Some(start) = self.start.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        shared.queue.start(None);
        match worker::spawn(Arc::clone(shared), start) {
            Ok(thread) => *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread),
            Err(error) => {
                let reason = format!("the worker could not be started: {error}");
                shared.show_once(MessageType::ERROR, &format!("linelens: {reason}"));
                shared.set_engine(EngineState::Failed(reason.into()));
                shared.queue.close();
            }
        }
    }

    /// Whether no worker runs any more.
    pub(crate) fn is_finished(&self) -> bool {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.as_ref().is_none_or(std::thread::JoinHandle::is_finished)
    }
}

impl Server {
    pub(crate) fn new(
        client: Client,
        shared: Arc<Shared>,
        worker: Arc<WorkerSlot>,
        parent: Arc<ParentWatch>,
        shutdown: Arc<AtomicBool>,
        problems: Vec<Problem>,
    ) -> Server {
        Server {
            shared,
            client,
            worker,
            parent,
            shutdown,
            problems: Mutex::new(problems),
            configuration: Arc::default(),
        }
    }

    // window/workDoneProgress/cancel

    pub(crate) async fn cancel_progress(&self, params: WorkDoneProgressCancelParams) {
        self.shared.progress.cancel(&params.token);
    }
}

impl LanguageServer for Server {
    async fn initialize(&self, params: InitializeParams) -> Result<InitializeResult> {
        guarded("initialize", || {
            let facts = ClientFacts::new(&params.capabilities);
            let capabilities = capabilities::server(&facts);
            self.shared.set_facts(facts);
            self.parent.set_client(params.process_id);
            self.add_folders(workspace_folders(&params));
            // The first request may come before what `initialized` starts is done.
            let roots = self.shared.settings().roots();
            for root in roots {
                let file = options::read_file(root);
                let problems = self.shared.settings_mut().set_file(file);
                self.problems.lock().unwrap_or_else(PoisonError::into_inner).extend(problems);
            }
            if let Some(section) = params.initialization_options.and_then(from_proto::section) {
                let problems =
                    self.shared.settings_mut().set_everywhere(Source::InitializationOptions, &section);
                self.problems.lock().unwrap_or_else(PoisonError::into_inner).extend(problems);
            }
            Ok(InitializeResult {
                capabilities,
                server_info: Some(ServerInfo {
                    name: "linelens".to_string(),
                    version: Some(env!("CARGO_PKG_VERSION").to_string()),
                }),
                ..Default::default()
            })
        })
    }

    async fn initialized(&self, _: InitializedParams) {
        let problems = std::mem::take(&mut *self.problems.lock().unwrap_or_else(PoisonError::into_inner));
        self.shared.report(&problems);
        self.worker.launch(&self.shared);
        self.register();
        let files = read_workspace_files(Arc::clone(&self.shared), ReadFiles::All);
        let configuration = self.shared.facts().configuration.then(|| self.pull_configuration());
        tokio::spawn(async move {
            files.await;
            if let Some(configuration) = configuration {
                configuration.await;
            }
        });
    }

    async fn shutdown(&self) -> Result<()> {
        self.shutdown.store(true, Ordering::SeqCst);
        self.shared.queue.stop();
        Ok(())
    }

    async fn did_open(&self, params: DidOpenTextDocumentParams) {
        notified("textDocument/didOpen", || {
            self.worker.launch(&self.shared);
            let snapshot = Snapshot::new(params.text_document);
            let uri = snapshot.uri.clone();
            reports::opened(&self.shared, &uri);
            if self.shared.documents.open(snapshot) {
                self.shared.queue.closed(&uri);
            }
            self.shared.queue.wake();
        });
    }

    async fn did_change(&self, params: DidChangeTextDocumentParams) {
        notified("textDocument/didChange", || {
            let VersionedTextDocumentIdentifier { uri, version } = params.text_document;
            let encoding = self.shared.facts().encoding;
            match self.shared.documents.change(&uri, version, params.content_changes, encoding) {
                Some(edits) => self.shared.queue.edited(&uri, &edits),
                None => self.unknown_document("textDocument/didChange", &uri),
            }
        });
    }

    async fn did_save(&self, params: DidSaveTextDocumentParams) {
        tracing::debug!("saved {}", params.text_document.uri.as_str());
        tokio::spawn(read_workspace_files(Arc::clone(&self.shared), ReadFiles::Outdated));
        tokio::spawn(model_files::check(Arc::clone(&self.shared)));
    }

    async fn did_close(&self, params: DidCloseTextDocumentParams) {
        notified("textDocument/didClose", || {
            let uri = params.text_document.uri;
            match self.shared.documents.close(&uri) {
                Some(document) => {
                    self.shared.queue.closed(&uri);
                    self.shared.truth_mut().forget(&uri);
                    publish::clear(&self.shared, &uri, &document);
                }
                None => self.unknown_document("textDocument/didClose", &uri),
            }
        });
    }

    async fn hover(&self, params: HoverParams) -> Result<Option<Hover>> {
        guarded("textDocument/hover", || Ok(self.start_hover(params)))
    }

    async fn diagnostic(&self, params: DocumentDiagnosticParams) -> Result<DocumentDiagnosticReportResult> {
        let uri = params.text_document.uri;
        if !self.shared.facts().pull_diagnostics {
            return Err(Error::method_not_found());
        }
        let patience = (self.shared.settings_of(&uri).debounce + PULL_PATIENCE).min(MAX_PULL_PATIENCE);
        let mut quiet = self.shared.queue.quiet();
        if matches!(self.shared.engine(), EngineState::Ready(_)) {
            let _ = tokio::time::timeout(patience, quiet.wait_for(|quiet| *quiet)).await;
        }
        let shared = Arc::clone(&self.shared);
        // A large text may have to be parsed first.
        let diagnostics = tokio::task::spawn_blocking(move || publish::pull(&shared, &uri)).await;
        let items = diagnostics.map_err(|_| Error::internal_error())?.unwrap_or_default();
        Ok(DocumentDiagnosticReportResult::Report(report(items, params.previous_result_id)))
    }

    async fn execute_command(&self, params: ExecuteCommandParams) -> Result<Option<LSPAny>> {
        self.execute(params).await
    }

    async fn code_action(&self, params: CodeActionParams) -> Result<Option<CodeActionResponse>> {
        guarded("textDocument/codeAction", || Ok(self.start_actions(params)))
    }

    async fn code_lens(&self, params: CodeLensParams) -> Result<Option<Vec<CodeLens>>> {
        let shared = Arc::clone(&self.shared);
        // A large text may have to be parsed first.
        let lenses = tokio::task::spawn_blocking(move || lens::lenses(&shared, &params.text_document.uri));
        lenses.await.map_err(|_| Error::internal_error())
    }

    async fn inlay_hint(&self, params: InlayHintParams) -> Result<Option<Vec<InlayHint>>> {
        let shared = Arc::clone(&self.shared);
        let InlayHintParams { text_document, range, .. } = params;
        // A large text may have to be parsed first.
        let hints = tokio::task::spawn_blocking(move || hints::hints(&shared, &text_document.uri, range));
        hints.await.map_err(|_| Error::internal_error())
    }

    async fn document_highlight(
        &self,
        params: DocumentHighlightParams,
    ) -> Result<Option<Vec<DocumentHighlight>>> {
        guarded("textDocument/documentHighlight", || Ok(self.start_highlights(params)))
    }

    async fn did_change_configuration(&self, params: DidChangeConfigurationParams) {
        notified("workspace/didChangeConfiguration", || {
            if self.shared.facts().configuration {
                tokio::spawn(self.pull_configuration());
            } else {
                self.take_configuration(params.settings);
            }
        });
    }

    async fn did_change_workspace_folders(&self, params: DidChangeWorkspaceFoldersParams) {
        notified("workspace/didChangeWorkspaceFolders", || {
            let WorkspaceFoldersChangeEvent { added, removed } = params.event;
            for path in removed.iter().filter_map(|folder| from_proto::file_path(&folder.uri)) {
                self.shared.settings_mut().remove_folder(&path);
            }
            self.add_folders(added.into_iter().map(|folder| folder.uri));
            tokio::spawn(read_workspace_files(Arc::clone(&self.shared), ReadFiles::All));
            if self.shared.facts().configuration {
                tokio::spawn(self.pull_configuration());
            }
        });
    }

    async fn did_change_watched_files(&self, params: DidChangeWatchedFilesParams) {
        notified("workspace/didChangeWatchedFiles", || {
            let paths: Vec<_> =
                params.changes.iter().filter_map(|change| from_proto::file_path(&change.uri)).collect();
            let is_settings =
                paths.iter().any(|path| path.file_name().is_some_and(|name| name == WORKSPACE_FILE));
            if paths.iter().any(|path| sources::is_source(path)) {
                let shared = Arc::clone(&self.shared);
                tokio::task::spawn_blocking(move || reports::take_back_stale(&shared));
            }
            if model_files::are_of_the_model(&self.shared, &paths) {
                tokio::spawn(model_files::check(Arc::clone(&self.shared)));
            }
            if is_settings || truth::are_annotations(&self.shared, &paths) {
                tokio::spawn(read_workspace_files(Arc::clone(&self.shared), ReadFiles::All));
            }
        });
    }
}

impl Server {
    fn unknown_document(&self, method: &str, uri: &Uri) {
        let message = format!("{method}: the document {} is not open", uri.as_str());
        self.shared.outbox.log(MessageType::WARNING, message);
    }
}

/// Cancels the work of a request whose handler is dropped, which is how tower-lsp cancels one.
#[derive(Debug)]
struct CancelOnDrop {
    cancel: Cancellation,
    _expected: Option<Expected>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

#[allow(deprecated)] // Older clients have nothing else.
fn workspace_folders(params: &InitializeParams) -> Vec<Uri> {
    if let Some(folders) = &params.workspace_folders {
        return folders.iter().map(|folder| folder.uri.clone()).collect();
    }
    let root = params.root_uri.clone();
    root.or_else(|| Uri::from_file_path(params.root_path.as_ref()?)).into_iter().collect()
}

fn report(items: Vec<Diagnostic>, previous: Option<String>) -> DocumentDiagnosticReport {
    let id = result_id(&items);
    if previous.as_ref() == Some(&id) {
        return RelatedUnchangedDocumentDiagnosticReport {
            related_documents: None,
            unchanged_document_diagnostic_report: UnchangedDocumentDiagnosticReport { result_id: id },
        }
        .into();
    }
    RelatedFullDocumentDiagnosticReport {
        related_documents: None,
        full_document_diagnostic_report: FullDocumentDiagnosticReport { result_id: Some(id), items },
    }
    .into()
}

/// The same for the same diagnostics.
fn result_id(items: &[Diagnostic]) -> String {
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(items).unwrap_or_default().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn explain_error(failure: ExplainFailure) -> Error {
    let error = |code, message: String| Error { code, message: message.into(), data: None };
    match failure {
        ExplainFailure::Cancelled => error(ErrorCode::RequestCancelled, failure.to_string()),
        ExplainFailure::Modified => error(ErrorCode::ContentModified, failure.to_string()),
        ExplainFailure::Invalid(reason) => error(ErrorCode::InvalidParams, reason),
        ExplainFailure::Failed(reason) => request_failed(&reason),
        ExplainFailure::Panicked => error(ErrorCode::InternalError, failure.to_string()),
    }
}

/// LSP 3.17 `RequestFailed`: the request was fine, but cannot be served.
fn request_failed(reason: &str) -> Error {
    Error { code: ErrorCode::ServerError(-32803), message: reason.to_string().into(), data: None }
}

/// The boundary at which panics of a request's handler are caught.
fn guarded<T>(what: &str, handle: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(handle)).unwrap_or_else(|_| {
        tracing::error!("{what}: panic");
        Err(Error::internal_error())
    })
}

/// The boundary at which panics of a notification's handler are caught.
fn notified(what: &str, handle: impl FnOnce()) {
    let _ = guarded(what, || {
        handle();
        Ok(())
    });
}
