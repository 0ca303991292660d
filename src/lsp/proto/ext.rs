//! Our own messages and commands; `docs/protocol.md` describes them, a test keeps both together.

use serde::{Deserialize, Serialize};
use tower_lsp::ls_types::notification::Notification;
use tower_lsp::ls_types::{Position, ProgressToken, TextDocumentIdentifier, Uri};

pub const EXPLAIN: &str = "linelens/explain";
pub const RELEVANCE: &str = "linelens/relevance";
pub const STATUS: &str = "linelens/status";

pub const COMMAND_EXPLAIN: &str = "linelens.explain";
pub const COMMAND_SET_METHOD: &str = "linelens.setMethod";
pub const COMMAND_NEXT_METHOD: &str = "linelens.nextMethod";
pub const COMMAND_RELOAD: &str = "linelens.reload";

/// Every id for `workspace/executeCommand`.
pub const COMMANDS: [&str; 4] = [COMMAND_EXPLAIN, COMMAND_SET_METHOD, COMMAND_NEXT_METHOD, COMMAND_RELOAD];

/// Parameters of `linelens/explain`, also the argument of the command `linelens.explain`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainParams {
    pub text_document: TextDocumentIdentifier,
    pub position: Position,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_done_token: Option<ProgressToken>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionedDocument {
    pub uri: Uri,
    pub version: i32,
}

/// The answer to `linelens/explain`. Lines are 0-based.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DocumentFinding {
    pub text_document: VersionedDocument,
    #[serde(flatten)]
    pub finding: FindingMessage,
}

/// What linelens found out about one function. Lines are 0-based.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FindingMessage {
    pub function: FunctionMessage,
    pub model: ModelMessage,
    pub execution_provider: String,
    pub method: String,
    pub profile: String,
    pub probability: f64,
    pub threshold: f64,
    pub flagged: bool,
    pub truncated: bool,
    pub windows: usize,
    pub lines: Vec<LineMessage>,
    pub unseen_lines: Vec<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completeness_gap: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionMessage {
    pub name: String,
    pub kind: String,
    pub start_line: usize,
    pub end_line: usize,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelMessage {
    pub name: String,
    pub sha256: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LineMessage {
    pub line: usize,
    /// 0..1.
    pub score: f64,
    /// Signed.
    pub raw: f64,
    /// 1 is the most relevant.
    pub rank: usize,
    pub text: String,
}

/// Parameters of `linelens/relevance`: replaces everything known about the document.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RelevanceParams {
    pub text_document: VersionedDocument,
    pub functions: Vec<FindingMessage>,
}

pub(crate) enum Relevance {}

impl Notification for Relevance {
    type Params = RelevanceParams;
    const METHOD: &'static str = RELEVANCE;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    Ok,
    Warning,
    Error,
}

/// Parameters of `linelens/status`, also the answer to the command `linelens.reload`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusParams {
    pub health: Health,
    /// Whether nothing is being loaded or analysed.
    pub quiescent: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Every method that works for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub methods: Option<Vec<String>>,
    /// Encoder layers whose attention is visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<usize>,
}

pub(crate) enum Status {}

impl Notification for Status {
    type Params = StatusParams;
    const METHOD: &'static str = STATUS;
}

/// `experimental.linelens` of the server's capabilities. The model is loaded after the handshake, so what depends on
/// it comes with the status.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerExtension {
    pub methods: Vec<String>,
    pub layers: usize,
    pub models: Vec<String>,
}
