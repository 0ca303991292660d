//! The handlers. Each translates, does one thing and translates back; what changes state does so before its first
//! `await`, since handlers run concurrently.

use crate::analysis::Finding;
use crate::config::WORKSPACE_FILE;
use crate::config::{Problem, Source};
use crate::detector::Cancellation;
use crate::explain::Method;
use crate::lsp::documents::{Outcome, Snapshot, moved};
use crate::lsp::hover::{self, Style};
use crate::lsp::options;
use crate::lsp::parent::ParentWatch;
use crate::lsp::proto::capabilities::{self, ClientFacts};
use crate::lsp::proto::ext::{
    COMMAND_EXPLAIN, COMMAND_NEXT_METHOD, COMMAND_RELOAD, COMMAND_SET_METHOD, DocumentFinding, ExplainParams,
};
use crate::lsp::proto::{from_proto, to_proto};
use crate::lsp::publish;
use crate::lsp::queue::{ExplainFailure, ExplainJob};
use crate::lsp::shared::{EngineState, Model, Shared};
use crate::lsp::worker::{self, StartEngine};
use serde_json::Value;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
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

    // linelens/explain

    pub(crate) async fn explain(&self, params: ExplainParams) -> Result<Option<DocumentFinding>> {
        let (answer, _cancel_on_drop) = guarded("linelens/explain", || self.start_explain(params))?;
        match answer.await {
            Ok(answer) => answer.map_err(explain_error),
            Err(_) => Err(explain_error(ExplainFailure::Cancelled)),
        }
    }

    fn start_explain(
        &self,
        params: ExplainParams,
    ) -> Result<(oneshot::Receiver<crate::lsp::queue::ExplainAnswer>, CancelOnDrop)> {
        self.worker.launch(&self.shared);
        let uri = &params.text_document.uri;
        let snapshot = self.open_document(uri)?;
        let options = from_proto::options(&params, self.shared.settings_of(uri).options)?;
        let offset = self.offset(&snapshot, params.position);
        self.shared.documents.update(uri, |document| {
            document.cursor = Some(offset);
            document.cursor_moved = true;
            document.paused = None;
        });
        let (sender, answer) = oneshot::channel();
        let cancel = Cancellation::new();
        self.shared.queue.explain(ExplainJob {
            snapshot,
            offset,
            options,
            model: params.model,
            token: params.work_done_token,
            cancel: cancel.clone(),
            answer: sender,
        });
        Ok((answer, CancelOnDrop(cancel)))
    }

    fn open_document(&self, uri: &Uri) -> Result<Arc<Snapshot>> {
        self.shared
            .documents
            .snapshot(uri)
            .ok_or_else(|| from_proto::invalid_params(format!("the document {} is not open", uri.as_str())))
    }

    fn offset(&self, snapshot: &Snapshot, position: Position) -> usize {
        snapshot.lines.offset(&snapshot.text, from_proto::position(position), self.shared.facts().encoding)
    }

    // window/workDoneProgress/cancel

    pub(crate) async fn cancel_progress(&self, params: WorkDoneProgressCancelParams) {
        self.shared.progress.cancel(&params.token);
    }

    // Hover

    fn start_hover(&self, params: HoverParams) -> Option<Hover> {
        let TextDocumentPositionParams { text_document, position } = params.text_document_position_params;
        let shared = &self.shared;
        let snapshot = shared.documents.snapshot(&text_document.uri)?;
        let offset = self.offset(&snapshot, position);
        let located = snapshot.function_at_now(offset)?.ok()?;
        let settings = shared.settings_of(&text_document.uri);
        let outcome = shared.documents.update(&text_document.uri, |document| {
            document.hovered = Some(offset);
            document.cursor_moved = true;
            let outcome = document.outcome(located.key, &settings.options).cloned();
            if outcome.is_none() {
                document.paused = None;
            }
            outcome
        })?;
        let style = Style { markdown: shared.facts().markdown };
        let name = &located.function.name;
        let on_name = located.function.name_span.touches(offset);
        if outcome.is_none() {
            shared.queue.cursor_moved(located.key);
        }
        let text = match (outcome, shared.engine()) {
            (Some(Outcome::Found(finding)), EngineState::Ready(model)) => {
                let finding = moved(&finding, &located.function, &snapshot.lines);
                self.finding_text(&finding, &model, &snapshot, offset, on_name, style)?
            }
            (Some(Outcome::Failed(reason)), _) if on_name => hover::failed(name, &reason, style),
            (None, EngineState::Ready(_)) => hover::pending(name, style),
            (_, EngineState::Loading) => hover::loading(style),
            (_, EngineState::Failed(reason)) if on_name => hover::no_model(&reason, style),
            _ => return None,
        };
        let span = match on_name {
            true => located.function.name_span,
            false => to_proto::line_span(&snapshot, snapshot.lines.line_at(offset)),
        };
        let kind = if style.markdown { MarkupKind::Markdown } else { MarkupKind::PlainText };
        Some(Hover {
            contents: HoverContents::Markup(MarkupContent { kind, value: text }),
            range: Some(to_proto::range(&snapshot, span, shared.facts().encoding)),
        })
    }

    fn finding_text(
        &self,
        finding: &Finding,
        model: &Model,
        snapshot: &Snapshot,
        offset: usize,
        on_name: bool,
        style: Style,
    ) -> Option<String> {
        if on_name {
            let top = self.shared.settings_of(&snapshot.uri).top_lines;
            return Some(hover::function(finding, model, top, style));
        }
        hover::line(finding, snapshot.lines.line_at(offset), style)
    }

    // Commands

    fn set_method(&self, argument: String) -> Result<Option<Value>> {
        let method: Method = argument.parse().map_err(from_proto::invalid_params)?;
        if let EngineState::Ready(model) = self.shared.engine()
            && !model.offers(method)
        {
            return Err(from_proto::invalid_params(model.unavailable(method)));
        }
        Ok(Some(self.use_method(method)))
    }

    fn next_method(&self) -> Result<Option<Value>> {
        let EngineState::Ready(model) = self.shared.engine() else {
            return Err(request_failed("there is no model loaded, so there are no methods to choose from"));
        };
        let current = model.canonical(self.shared.settings().settings(None).options.method);
        let position = model.methods.iter().position(|method| *method == current);
        let next = position.map_or(0, |position| (position + 1) % model.methods.len().max(1));
        let method = model.methods.get(next).ok_or_else(|| {
            let reason = model.info.no_attention.as_deref().unwrap_or("the model shows no attention");
            request_failed(&format!("no method works for this model: {reason}"))
        })?;
        Ok(Some(self.use_method(*method)))
    }

    fn use_method(&self, method: Method) -> Value {
        self.shared.settings_mut().set_method(method);
        self.settings_changed();
        if !self.shared.facts().relevance {
            self.shared.outbox.show(MessageType::INFO, format!("linelens: {method}"));
        }
        Value::String(method.to_string())
    }

    async fn reload(&self) -> Result<Option<Value>> {
        self.worker.launch(&self.shared);
        read_workspace_files(Arc::clone(&self.shared), ReadFiles::All).await;
        let (sender, status) = oneshot::channel();
        self.shared.queue.start(Some(sender));
        let status = status.await.map_err(|_| explain_error(ExplainFailure::Cancelled))?;
        serde_json::to_value(status).map(Some).map_err(|_| Error::internal_error())
    }

    // Configuration

    fn settings_changed(&self) {
        self.shared.queue.wake();
    }

    fn take_configuration(&self, settings: Value) {
        let Some(section) = from_proto::section(settings) else { return };
        let problems = self.shared.settings_mut().set_everywhere(Source::WorkspaceConfiguration, &section);
        self.shared.report(&problems);
        self.settings_changed();
    }

    /// Asks the client for the settings of every folder; the answer is taken unless a newer question was asked.
    fn pull_configuration(&self) -> impl Future<Output = ()> + Send + 'static {
        let shared = Arc::clone(&self.shared);
        let client = self.client.clone();
        let counter = Arc::clone(&self.configuration);
        let number = counter.fetch_add(1, Ordering::SeqCst) + 1;
        async move {
            let roots = shared.settings().roots();
            let item = |scope_uri| ConfigurationItem { scope_uri, section: Some("linelens".to_string()) };
            let mut items = vec![item(None)];
            items.extend(roots.iter().map(|root| item(Uri::from_file_path(root))));
            let answer = tokio::time::timeout(CONFIGURATION_TIMEOUT, client.configuration(items)).await;
            let values = match answer {
                Ok(Ok(values)) => values,
                Ok(Err(error)) => return tracing::warn!("workspace/configuration: {error}"),
                Err(_) => return tracing::warn!("workspace/configuration was not answered"),
            };
            if counter.load(Ordering::SeqCst) != number {
                return;
            }
            let mut values = values.into_iter();
            let everywhere = values.next().unwrap_or_default();
            let folders: Vec<_> = roots.into_iter().zip(values).collect();
            let source = Source::WorkspaceConfiguration;
            let problems = shared.settings_mut().set_each(source, &everywhere, &folders);
            shared.report(&problems);
            shared.queue.wake();
        }
    }

    fn add_folders(&self, folders: impl IntoIterator<Item = Uri>) {
        let mut settings = self.shared.settings_mut();
        for path in folders.into_iter().filter_map(|uri| from_proto::file_path(&uri)) {
            settings.add_folder(path);
        }
    }

    fn register(&self) {
        let registrations = capabilities::registrations(self.shared.facts());
        if registrations.is_empty() {
            return;
        }
        let client = self.client.clone();
        tokio::spawn(async move {
            if let Err(error) = client.register_capability(registrations).await {
                tracing::warn!("client/registerCapability: {error}");
            }
        });
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
    }

    async fn did_close(&self, params: DidCloseTextDocumentParams) {
        notified("textDocument/didClose", || {
            let uri = params.text_document.uri;
            match self.shared.documents.close(&uri) {
                Some(document) => {
                    self.shared.queue.closed(&uri);
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
        let ExecuteCommandParams { command, arguments, .. } = params;
        match command.as_str() {
            COMMAND_EXPLAIN => {
                let finding = self.explain(from_proto::argument(&command, arguments)?).await?;
                let value = finding.map(serde_json::to_value).transpose();
                value.map_err(|_| Error::internal_error())
            }
            COMMAND_SET_METHOD => {
                guarded(&command, || self.set_method(from_proto::argument(&command, arguments)?))
            }
            COMMAND_NEXT_METHOD => guarded(&command, || self.next_method()),
            COMMAND_RELOAD => self.reload().await,
            _ => Err(from_proto::invalid_params(format!("there is no command {command}"))),
        }
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
            let paths = params.changes.iter().filter_map(|change| from_proto::file_path(&change.uri));
            if paths.into_iter().any(|path| path.file_name().is_some_and(|name| name == WORKSPACE_FILE)) {
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
struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ReadFiles {
    All,
    /// Those with another time stamp than last time.
    Outdated,
}

/// Reads the configuration files of the workspace folders, outside the handlers.
async fn read_workspace_files(shared: Arc<Shared>, which: ReadFiles) {
    let read = tokio::task::spawn_blocking(move || {
        // Taken out first: the lock must not be held while the files are read and taken over.
        let roots = shared.settings().roots();
        for root in roots {
            if which == ReadFiles::All || is_outdated(&shared, &root) {
                let file = options::read_file(root);
                let problems = shared.settings_mut().set_file(file);
                shared.report(&problems);
            }
        }
        shared.queue.wake();
    });
    if read.await.is_err() {
        tracing::error!("reading the workspace configuration failed");
    }
}

fn is_outdated(shared: &Shared, root: &Path) -> bool {
    let stamp = options::read_stamp(root);
    shared.settings().is_outdated(root, stamp)
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
