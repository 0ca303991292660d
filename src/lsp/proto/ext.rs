//! Our own messages and commands; `docs/protocol.md` describes them, a test keeps both together.

pub use crate::shape::AlignmentShape;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tower_lsp::ls_types::notification::Notification;
use tower_lsp::ls_types::{Position, ProgressToken, Range, TextDocumentIdentifier, Uri};

pub const EXPLAIN: &str = "linelens/explain";
pub const RELEVANCE: &str = "linelens/relevance";
pub const FUNCTIONS: &str = "linelens/functions";
pub const STATUS: &str = "linelens/status";

pub const COMMAND_EXPLAIN: &str = "linelens.explain";
pub const COMMAND_EXPLAIN_WITH: &str = "linelens.explainWith";
pub const COMMAND_SET_METHOD: &str = "linelens.setMethod";
pub const COMMAND_NEXT_METHOD: &str = "linelens.nextMethod";
pub const COMMAND_ANALYZE_FILE: &str = "linelens.analyzeFile";
pub const COMMAND_ANALYZE_WORKSPACE: &str = "linelens.analyzeWorkspace";
pub const COMMAND_SET_MODEL: &str = "linelens.setModel";
pub const COMMAND_RELOAD: &str = "linelens.reload";
pub const COMMAND_COMPARE_METHODS: &str = "linelens.compareMethods";
pub const COMMAND_COMPARE_MODELS: &str = "linelens.compareModels";
pub const COMMAND_COMPARE_PAIR: &str = "linelens.comparePair";
pub const COMMAND_NEXT_LINE: &str = "linelens.nextRelevantLine";
pub const COMMAND_PREVIOUS_LINE: &str = "linelens.previousRelevantLine";
pub const COMMAND_TOGGLE_LINE: &str = "linelens.toggleGroundTruthLine";
pub const COMMAND_IGNORE: &str = "linelens.ignore";
pub const COMMAND_EXPORT_REPORT: &str = "linelens.exportReport";
pub const COMMAND_SET_LABEL: &str = "linelens.setLabel";
pub const COMMAND_ADD_NOTE: &str = "linelens.addNote";

/// Every id for `workspace/executeCommand`.
pub const COMMANDS: [&str; 18] = [
    COMMAND_EXPLAIN,
    COMMAND_EXPLAIN_WITH,
    COMMAND_SET_METHOD,
    COMMAND_NEXT_METHOD,
    COMMAND_ANALYZE_FILE,
    COMMAND_ANALYZE_WORKSPACE,
    COMMAND_SET_MODEL,
    COMMAND_RELOAD,
    COMMAND_COMPARE_METHODS,
    COMMAND_COMPARE_MODELS,
    COMMAND_COMPARE_PAIR,
    COMMAND_NEXT_LINE,
    COMMAND_PREVIOUS_LINE,
    COMMAND_TOGGLE_LINE,
    COMMAND_SET_LABEL,
    COMMAND_ADD_NOTE,
    COMMAND_IGNORE,
    COMMAND_EXPORT_REPORT,
];

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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completeness_change: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alignment: Option<AlignmentShape>,
    /// Why the flagged function is passed over, where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignored: Option<String>,
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
    /// Only where it is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ground_truth: Option<bool>,
    /// Only where it is true: ground truth that may have changed since it was labelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approximate: Option<bool>,
    pub text: String,
}

/// Parameters of `linelens/functions`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionsParams {
    pub text_document: TextDocumentIdentifier,
}

/// The answer to `linelens/functions`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionsMessage {
    pub text_document: VersionedDocument,
    pub functions: Vec<VerdictMessage>,
}

/// What is known of a function whether or not its relevance is.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VerdictMessage {
    pub function: FunctionMessage,
    pub probability: f64,
    pub threshold: f64,
    pub flagged: bool,
    /// Why it is passed over, where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignored: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alignment: Option<AlignmentShape>,
}

/// The argument of `linelens.analyzeFile`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AnalyzeFileParams {
    pub text_document: TextDocumentIdentifier,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_done_token: Option<ProgressToken>,
}

/// The argument of `linelens.analyzeWorkspace`, which may be left out.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AnalyzeWorkspaceParams {
    /// One workspace folder; all where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<Uri>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_done_token: Option<ProgressToken>,
}

/// The answer to `linelens.analyzeFile` and `linelens.analyzeWorkspace`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AnalysisMessage {
    pub files: usize,
    pub functions: usize,
    pub flagged: Vec<FlaggedMessage>,
    /// How many functions were flagged but are ignored.
    pub ignored: usize,
    pub failed: Vec<FunctionFailure>,
    /// A sentence for each file that could not be read.
    pub unreadable: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FlaggedMessage {
    pub uri: Uri,
    pub function: FunctionMessage,
    pub probability: f64,
    pub threshold: f64,
}

/// A function that could not be analysed.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionFailure {
    pub uri: Uri,
    pub function: String,
    pub reason: String,
}

/// The answer to `linelens.nextRelevantLine` and `linelens.previousRelevantLine`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RelevantLineMessage {
    pub text_document: VersionedDocument,
    /// The line's text without the white space around it.
    pub range: Range,
    pub function: FunctionMessage,
    pub line: LineMessage,
}

/// The argument of `linelens.compareMethods`, `linelens.toggleGroundTruthLine` and others: a place in a document.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlaceParams {
    pub text_document: TextDocumentIdentifier,
    pub position: Position,
}

/// The argument of `linelens.comparePair`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ComparePairParams {
    pub text_document: TextDocumentIdentifier,
    pub position: Position,
    /// A git revision; without one, the other half of the pair in the annotation file, or `HEAD` where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

/// The argument of `linelens.compareModels`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompareModelsParams {
    pub text_document: TextDocumentIdentifier,
    pub position: Position,
    /// The name of the other model; may be left out where there is only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// The argument of `linelens.setLabel`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetLabelParams {
    pub text_document: TextDocumentIdentifier,
    pub position: Position,
    /// `vulnerable`, `benign` or `unsure`.
    pub label: String,
}

/// The argument of `linelens.addNote`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddNoteParams {
    pub text_document: TextDocumentIdentifier,
    pub position: Position,
    /// Empty: takes the note back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The argument of `linelens.ignore`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IgnoreParams {
    pub text_document: TextDocumentIdentifier,
    pub position: Position,
    /// Empty: takes the decision back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The argument of `linelens.exportReport`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportParams {
    /// `sarif` or `html`.
    pub format: String,
    /// One open document; without one, a workspace folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_document: Option<TextDocumentIdentifier>,
    /// May be left out where there is one workspace folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<Uri>,
    /// Where the report is written, relative to the workspace folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_done_token: Option<ProgressToken>,
}

/// The answer to `linelens.exportReport`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportMessage {
    /// The report.
    pub file: Uri,
    /// Functions in it that are flagged, and how many of them are ignored.
    pub flagged: usize,
    pub ignored: usize,
}

/// The answer to `linelens.compareMethods`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ComparisonMessage {
    pub text_document: VersionedDocument,
    pub function: FunctionMessage,
    pub model: ModelMessage,
    pub execution_provider: String,
    pub profile: String,
    pub probability: f64,
    pub threshold: f64,
    pub flagged: bool,
    pub methods: Vec<MethodMessage>,
    pub failed: Vec<FailedMethod>,
    /// The table as a text.
    pub content: ContentMessage,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MethodMessage {
    pub method: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completeness_gap: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completeness_change: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alignment: Option<AlignmentShape>,
    /// From each method to the rank correlation with it, `null` where it is undefined.
    pub spearman: Map<String, Value>,
    pub lines: Vec<LineMessage>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedMethod {
    pub method: String,
    pub reason: String,
}

/// The answer to `linelens.compareModels`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelsMessage {
    pub text_document: VersionedDocument,
    /// By the model in use, and by the other one.
    pub models: Vec<FindingMessage>,
    /// Rank correlation of their raw relevance; `null` where it is undefined.
    pub spearman: Option<f64>,
    pub content: ContentMessage,
}

/// A text to be shown as a document that is no file, under an address of the scheme `linelens`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContentMessage {
    pub uri: String,
    pub text: String,
}

/// The answer to `linelens.comparePair`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PairMessage {
    /// Where the two versions come from.
    pub before: SideMessage,
    pub after: SideMessage,
    /// What the side of git is; `null` beside the other half of a pair.
    pub revision: Option<RevisionMessage>,
    /// Only where it is true: several functions of this name may be the other version.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guess: bool,
    /// `P-C`, `P-V`, `P-B` or `P-R`; `null` where the truth of the two sides is not known.
    pub outcome: Option<String>,
    pub lines: Vec<LinePairMessage>,
    pub content: ContentMessage,
}

/// A revision of git.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RevisionMessage {
    /// As it was asked for: `HEAD`, a branch, a tag, a commit.
    pub name: String,
    /// The commit that this is.
    pub commit: String,
    /// Nobody asked for it: the function is no half of a pair.
    pub by_default: bool,
}

/// One version of a function. Lines are 0-based lines of that version's file.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SideMessage {
    /// A git commit, the name of the file that holds the other half of a pair, or `document`.
    pub source: String,
    #[serde(flatten)]
    pub finding: FindingMessage,
}

/// A line that is in both versions, or in one.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LinePairMessage {
    pub before: Option<usize>,
    pub after: Option<usize>,
    /// Score after minus score before; `null` unless both are scored.
    pub moved: Option<f64>,
}

/// The answer to the commands that write ground truth.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelledMessage {
    /// The annotation file that was written.
    pub file: Uri,
    /// What was done, in a sentence.
    pub message: String,
}

/// Parameters of `linelens/relevance`: replaces everything known about the document.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RelevanceParams {
    pub text_document: VersionedDocument,
    pub functions: Vec<FindingMessage>,
    /// Ground truth in the other functions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ground_truth: Vec<TruthLineMessage>,
}

/// A line that is ground truth, 0-based.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TruthLineMessage {
    pub line: usize,
    /// Only where it is true: it may have changed since it was labelled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approximate: bool,
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
    /// The names of the models that can be chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<String>>,
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
