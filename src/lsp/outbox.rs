//! Messages to the client, in order. Anybody may post, from any thread and without waiting; one task sends.

use crate::lsp::documents::{Documents, Snapshot};
use crate::lsp::proto::capabilities::{model_watcher, no_model_watcher};
use crate::lsp::proto::ext::{Relevance, RelevanceParams, Status, StatusParams};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tower_lsp::Client;
use tower_lsp::ls_types::{Diagnostic, MessageType, Uri};

#[derive(Debug)]
pub(crate) struct Outbox {
    queue: Arc<Queue>,
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.queue.closed.store(true, Ordering::SeqCst);
        self.queue.posted.notify_one();
    }
}

/// What is not sent yet. A client that does not read keeps it waiting, so a newer message takes the place of an older
/// one that it makes pointless.
#[derive(Debug, Default)]
struct Queue {
    messages: Mutex<VecDeque<Message>>,
    posted: Notify,
    /// Nobody posts any more.
    closed: AtomicBool,
}

/// With more than this waiting, the oldest of the others is given up.
const MAX_WORDS: usize = 1000;

#[derive(Debug)]
enum Message {
    /// Without a snapshot: the document is closed.
    Diagnostics {
        uri: Uri,
        diagnostics: Vec<Diagnostic>,
        snapshot: Option<Arc<Snapshot>>,
    },
    Relevance {
        params: RelevanceParams,
        snapshot: Option<Arc<Snapshot>>,
    },
    Status(StatusParams),
    Show(MessageType, String),
    Log(MessageType, String),
    RefreshDiagnostics,
    RefreshLenses,
    RefreshHints,
    WatchModel(PathBuf),
}

impl Message {
    /// Whether nothing is lost without the older message.
    fn supersedes(&self, older: &Message) -> bool {
        match (self, older) {
            (Message::Diagnostics { uri, .. }, Message::Diagnostics { uri: old, .. }) => uri == old,
            (Message::Relevance { params, .. }, Message::Relevance { params: old, .. }) => {
                params.text_document.uri == old.text_document.uri
            }
            (Message::RefreshDiagnostics, Message::RefreshDiagnostics)
            | (Message::RefreshLenses, Message::RefreshLenses)
            | (Message::RefreshHints, Message::RefreshHints)
            | (Message::WatchModel(_), Message::WatchModel(_)) => true,
            _ => false,
        }
    }

    fn is_words(&self) -> bool {
        matches!(self, Message::Show(..) | Message::Log(..))
    }
}

impl Queue {
    fn post(&self, message: Message) {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        messages.retain(|older| !message.supersedes(older));
        if message.is_words() && messages.len() >= MAX_WORDS {
            let oldest = messages.iter().position(Message::is_words);
            oldest.and_then(|oldest| messages.remove(oldest));
        }
        messages.push_back(message);
        drop(messages);
        self.posted.notify_one();
    }

    fn take(&self) -> Option<Message> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

impl Outbox {
    /// Must be called inside a tokio runtime.
    pub(crate) fn new(client: Client, documents: Arc<Documents>) -> Outbox {
        let queue = Arc::new(Queue::default());
        tokio::spawn(deliver(Arc::clone(&queue), client, documents));
        Outbox { queue }
    }

    /// Without a snapshot: the document is closed.
    pub(crate) fn diagnostics(
        &self,
        uri: Uri,
        diagnostics: Vec<Diagnostic>,
        snapshot: Option<Arc<Snapshot>>,
    ) {
        self.post(Message::Diagnostics { uri, diagnostics, snapshot });
    }

    pub(crate) fn relevance(&self, params: RelevanceParams, snapshot: Arc<Snapshot>) {
        self.post(Message::Relevance { params, snapshot: Some(snapshot) });
    }

    /// The last word about a document that is closed.
    pub(crate) fn clear_relevance(&self, params: RelevanceParams) {
        self.post(Message::Relevance { params, snapshot: None });
    }

    pub(crate) fn status(&self, params: StatusParams) {
        self.post(Message::Status(params));
    }

    pub(crate) fn show(&self, kind: MessageType, message: impl ToString) {
        self.post(Message::Show(kind, shown(&message.to_string())));
    }

    pub(crate) fn log(&self, kind: MessageType, message: impl ToString) {
        self.post(Message::Log(kind, escaped(&message.to_string())));
    }

    pub(crate) fn refresh_diagnostics(&self) {
        self.post(Message::RefreshDiagnostics);
    }

    pub(crate) fn refresh_lenses(&self) {
        self.post(Message::RefreshLenses);
    }

    /// Has the client watch a model directory, in the place of the one before.
    pub(crate) fn watch_model(&self, directory: PathBuf) {
        self.post(Message::WatchModel(directory));
    }

    pub(crate) fn refresh_hints(&self) {
        self.post(Message::RefreshHints);
    }

    fn post(&self, message: Message) {
        self.queue.post(message);
    }
}

/// Names, paths and messages of a workspace or a model, line by line.
fn escaped(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(crate::escape::terminal).collect();
    lines.join("\n")
}

/// For what an editor shows: some take `[text](command:…)` for a link.
pub(crate) fn shown(text: &str) -> String {
    escaped(text).replace("](", "] (")
}

async fn deliver(queue: Arc<Queue>, client: Client, documents: Arc<Documents>) {
    let [diagnostics_refresh, lens_refresh, hint_refresh] = [(); 3].map(|()| Arc::<Refresh>::default());
    let mut watched: Option<PathBuf> = None;
    loop {
        let closed = queue.closed.load(Ordering::SeqCst);
        let Some(message) = queue.take() else {
            if closed {
                return;
            }
            queue.posted.notified().await;
            continue;
        };
        match message {
            Message::Diagnostics { uri, diagnostics, snapshot } => {
                if let Some(version) = currency(&documents, &uri, snapshot.as_ref(), diagnostics.is_empty()) {
                    client.publish_diagnostics(uri, diagnostics, version).await;
                }
            }
            Message::Relevance { mut params, snapshot } => {
                let uri = &params.text_document.uri;
                if let Some(version) =
                    currency(&documents, uri, snapshot.as_ref(), params.functions.is_empty())
                {
                    params.text_document.version = version.unwrap_or(params.text_document.version);
                    client.send_notification::<Relevance>(params).await;
                }
            }
            Message::Status(params) => client.send_notification::<Status>(params).await,
            Message::Show(kind, message) => client.show_message(kind, message).await,
            Message::Log(kind, message) => client.log_message(kind, message).await,
            Message::RefreshDiagnostics => {
                let client = client.clone();
                let ask = move || {
                    let client = client.clone();
                    async move { client.workspace_diagnostic_refresh().await }
                };
                diagnostics_refresh.want("workspace/diagnostic/refresh", ask);
            }
            Message::RefreshLenses => {
                let client = client.clone();
                let ask = move || {
                    let client = client.clone();
                    async move { client.code_lens_refresh().await }
                };
                lens_refresh.want("workspace/codeLens/refresh", ask);
            }
            Message::WatchModel(directory) => {
                if watched.as_ref() != Some(&directory) {
                    let before = watched.replace(directory.clone());
                    tokio::spawn(watch(client.clone(), directory, before.is_some()));
                }
            }
            Message::RefreshHints => {
                let client = client.clone();
                let ask = move || {
                    let client = client.clone();
                    async move { client.inlay_hint_refresh().await }
                };
                hint_refresh.want("workspace/inlayHint/refresh", ask);
            }
        }
    }
}

async fn watch(client: Client, directory: PathBuf, is_another: bool) {
    if is_another && let Err(error) = client.unregister_capability(vec![no_model_watcher()]).await {
        tracing::warn!("client/unregisterCapability: {error}");
    }
    let Some(watcher) = model_watcher(&directory) else { return };
    if let Err(error) = client.register_capability(vec![watcher]).await {
        tracing::warn!("client/registerCapability: {error}");
    }
}

/// The version under which a message is sent; outer `None` where an edit made it stale: what follows from the edit is
/// posted later. What takes something back is never stale.
fn currency(
    documents: &Documents,
    uri: &Uri,
    snapshot: Option<&Arc<Snapshot>>,
    is_empty: bool,
) -> Option<Option<i32>> {
    let Some(snapshot) = snapshot else { return Some(None) };
    let current = documents.snapshot(uri);
    let is_current = current.as_ref().is_some_and(|current| Arc::ptr_eq(current, snapshot));
    (is_current || is_empty).then(|| current.map(|current| current.version))
}

/// Changes that follow each other closely need one refresh.
const REFRESH_PAUSE: Duration = Duration::from_millis(30);
/// How long the answer to a refresh is waited for before the next one is sent.
const REFRESH_PATIENCE: Duration = Duration::from_secs(10);

/// Asks the client to renew something: one request at a time, so that a client that answers none gathers none.
#[derive(Debug, Default)]
struct Refresh {
    state: Mutex<RefreshState>,
}

#[derive(Debug, Default)]
struct RefreshState {
    /// A request is under way or about to be.
    asks: bool,
    /// Something has changed since it was sent.
    is_wanted: bool,
}

impl Refresh {
    fn state(&self) -> MutexGuard<'_, RefreshState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn want<F>(self: &Arc<Refresh>, what: &'static str, ask: impl Fn() -> F + Send + 'static)
    where
        F: Future<Output = tower_lsp::jsonrpc::Result<()>> + Send,
    {
        let mut state = self.state();
        state.is_wanted = true;
        if !std::mem::replace(&mut state.asks, true) {
            drop(state);
            let refresh = Arc::clone(self);
            tokio::spawn(async move {
                while refresh.goes_on() {
                    tokio::time::sleep(REFRESH_PAUSE).await;
                    refresh.state().is_wanted = false;
                    match tokio::time::timeout(REFRESH_PATIENCE, ask()).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => tracing::warn!("{what}: {error}"),
                        Err(_) => tracing::warn!("{what} was not answered"),
                    }
                }
            });
        }
    }

    fn goes_on(&self) -> bool {
        let mut state = self.state();
        state.asks = state.is_wanted;
        state.asks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_does_not_grow() {
        let queue = Queue::default();
        let uris: [Uri; 2] = ["file:///a.c", "file:///b.c"].map(|uri| uri.parse().expect("a URI"));
        for round in 0..5000 {
            for uri in uris.clone() {
                queue.post(Message::Diagnostics { uri, diagnostics: Vec::new(), snapshot: None });
            }
            queue.post(Message::RefreshDiagnostics);
            queue.post(Message::Log(MessageType::INFO, round.to_string()));
        }
        assert!(queue.messages.lock().expect("a lock").len() <= MAX_WORDS + 3);
    }

    #[test]
    fn messages_steer_nothing_and_link_nowhere() {
        assert_eq!(shown("a\nb\x1b[0m \u{202e}[x](command:y)"), "a\nb\\u{1b}[0m \\u{202e}[x] (command:y)");
        assert_eq!(escaped("a\r\n[x](y)"), "a\\u{d}\n[x](y)");
    }
}
