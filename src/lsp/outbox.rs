//! Messages to the client, in order. Anybody may post, from any thread and without waiting; one task sends.

use crate::lsp::documents::Documents;
use crate::lsp::proto::ext::{Relevance, RelevanceParams, Status, StatusParams};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tower_lsp::Client;
use tower_lsp::ls_types::{Diagnostic, MessageType, Uri};

#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    messages: mpsc::UnboundedSender<Message>,
}

#[derive(Debug)]
enum Message {
    Diagnostics { uri: Uri, diagnostics: Vec<Diagnostic>, version: Option<i32> },
    Relevance(RelevanceParams, Currency),
    Status(StatusParams),
    Show(MessageType, String),
    Log(MessageType, String),
    RefreshDiagnostics,
}

/// Whether a message is about a version that the client must still show.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Currency {
    Current,
    Closed,
}

impl Outbox {
    /// Must be called inside a tokio runtime.
    pub(crate) fn new(client: Client, documents: Arc<Documents>) -> Outbox {
        let (messages, inbox) = mpsc::unbounded_channel();
        tokio::spawn(deliver(inbox, client, documents));
        Outbox { messages }
    }

    /// Without a version: the document is closed.
    pub(crate) fn diagnostics(&self, uri: Uri, diagnostics: Vec<Diagnostic>, version: Option<i32>) {
        self.post(Message::Diagnostics { uri, diagnostics, version });
    }

    pub(crate) fn relevance(&self, params: RelevanceParams) {
        self.post(Message::Relevance(params, Currency::Current));
    }

    /// The last word about a document that is closed.
    pub(crate) fn clear_relevance(&self, params: RelevanceParams) {
        self.post(Message::Relevance(params, Currency::Closed));
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

    /// Fails only when the server has ended, and then nobody listens.
    fn post(&self, message: Message) {
        let _ = self.messages.send(message);
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

async fn deliver(mut inbox: mpsc::UnboundedReceiver<Message>, client: Client, documents: Arc<Documents>) {
    let refreshing = Arc::new(AtomicBool::new(false));
    let is_current =
        |uri: &Uri, version: i32| documents.read(uri, |document| document.snapshot.version) == Some(version);
    while let Some(message) = inbox.recv().await {
        match message {
            // An edit that came meanwhile makes a message stale; what follows from the edit is posted later.
            Message::Diagnostics { uri, version: Some(version), .. } if !is_current(&uri, version) => {}
            Message::Relevance(params, Currency::Current)
                if !is_current(&params.text_document.uri, params.text_document.version) => {}
            Message::Diagnostics { uri, diagnostics, version } => {
                client.publish_diagnostics(uri, diagnostics, version).await;
            }
            Message::Relevance(params, _) => client.send_notification::<Relevance>(params).await,
            Message::Status(params) => client.send_notification::<Status>(params).await,
            Message::Show(kind, message) => client.show_message(kind, message).await,
            Message::Log(kind, message) => client.log_message(kind, message).await,
            Message::RefreshDiagnostics => {
                if !refreshing.swap(true, Ordering::SeqCst) {
                    tokio::spawn(refresh(client.clone(), Arc::clone(&refreshing)));
                }
            }
        }
    }
}

/// Changes that follow each other closely need one refresh.
const REFRESH_PAUSE: Duration = Duration::from_millis(30);

async fn refresh(client: Client, refreshing: Arc<AtomicBool>) {
    tokio::time::sleep(REFRESH_PAUSE).await;
    refreshing.store(false, Ordering::SeqCst);
    if let Err(error) = client.workspace_diagnostic_refresh().await {
        tracing::warn!("workspace/diagnostic/refresh: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_steer_nothing_and_link_nowhere() {
        assert_eq!(shown("a\nb\x1b[0m \u{202e}[x](command:y)"), "a\nb\\u{1b}[0m \\u{202e}[x] (command:y)");
        assert_eq!(escaped("a\r\n[x](y)"), "a\\u{d}\n[x](y)");
    }
}
