//! Ground truth: which functions are vulnerable, on which lines, and who says so.
//!
//! Lines are counted from 0 here, in files as their formats say.
//!
//! [`native`] is linelens's own file format, [`dataset`] reads it and those of published data sets, [`store`] holds what
//! applies to a workspace, [`matching`] says which record belongs to which function of an open file, [`editing`] writes
//! what a person marks, [`ignores`] holds what is passed over, [`lost`] says which records have no function any more, [`policy`] and [`agreement`] compare what several people say.

pub mod agreement;
pub mod atomic;
pub(crate) mod broken;
pub mod dataset;
pub mod diff;
pub mod editing;
pub mod export;
pub mod function;
pub mod ignores;
pub mod lost;
pub mod matching;
pub mod native;
pub mod policy;
pub mod problem;
pub mod repeats;
pub mod store;
pub mod uri;

pub use function::FunctionLines;
pub use problem::{RowError, RowProblem};

/// What an annotator says of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Label {
    Vulnerable,
    Benign,
    Unsure,
}

/// What an annotator says of a line; only flaw lines are ground truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LineLabel {
    Flaw,
    Unsure,
}

/// A labelled line of a function. Its text and its neighbours' are what a moved line is found by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelledLine {
    /// 0-based line of the function.
    pub line: usize,
    /// Without its line end; empty where it is not known (SARIF), and the line is found by its number alone.
    pub text: String,
    /// The nearest line before it in the function that is not blank.
    pub before: Option<String>,
    /// The nearest line after it in the function that is not blank.
    pub after: Option<String>,
    pub label: LineLabel,
}

/// Which side of a fix a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    Before,
    After,
}

/// A function and its fix share an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    pub id: String,
    pub role: Role,
}

/// Where a record was imported from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetRow {
    pub name: String,
    /// The row's number or id there.
    pub row: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Provenance {
    Manual,
    Diff,
    Imported,
}

/// What one annotator says of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Relative URI of the file, as [`uri`] has it.
    pub file: Option<String>,
    pub function: Option<String>,
    /// First and last 0-based line of the function in its file; of the marked region where no function is known.
    pub range: Option<(usize, usize)>,
    /// SHA-256 of the function's text, hex ([`FunctionLines::sha256`]).
    pub body_sha256: Option<String>,
    /// SHA-256 of the function's text without whitespace, hex ([`FunctionLines::sha256_ws`]).
    pub body_sha256_ws: Option<String>,
    pub label: Label,
    pub lines: Vec<LabelledLine>,
    pub cwe: Vec<String>,
    pub cve: Vec<String>,
    pub pair: Option<Pair>,
    pub dataset: Option<DatasetRow>,
    pub annotator: Option<String>,
    /// RFC 3339.
    pub time: Option<String>,
    pub source: Option<Provenance>,
    pub note: Option<String>,
}

impl Record {
    /// A record that says nothing but `label`.
    pub fn new(label: Label) -> Record {
        Record {
            file: None,
            function: None,
            range: None,
            body_sha256: None,
            body_sha256_ws: None,
            label,
            lines: Vec::new(),
            cwe: Vec::new(),
            cve: Vec::new(),
            pair: None,
            dataset: None,
            annotator: None,
            time: None,
            source: None,
            note: None,
        }
    }

    /// Whose opinion it is: the annotator's, else the data set's. Records that name neither are one voice.
    pub fn voice(&self) -> Option<&str> {
        let dataset = self.dataset.as_ref().map(|dataset| dataset.name.as_str());
        self.annotator.as_deref().or(dataset)
    }

    /// The 0-based lines of the function that are ground truth.
    pub fn flaw_lines(&self) -> impl Iterator<Item = usize> {
        self.lines.iter().filter(|line| line.label == LineLabel::Flaw).map(|line| line.line)
    }
}

/// One function of a dataset, its text included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// 1-based row (line of JSON Lines, record of CSV) of the file it came from.
    pub row: usize,
    pub id: Option<String>,
    /// The function's text; empty only in what [`dataset::import`] gives of formats that hold no text.
    pub code: String,
    pub record: Record,
    /// The part of the dataset it belongs to, e.g. the collection it was taken from.
    pub collection: Option<String>,
    pub project: Option<String>,
    pub commit: Option<String>,
    /// First and last column of a marked region, from 1, where the data set names them.
    pub columns: (Option<u64>, Option<u64>),
    /// Where its record was looked up by the hash of its text: what of its labelled lines is not as it says.
    pub at_odds: AtOdds,
    /// The record was one of marked lines, whose function was looked up.
    pub is_region: bool,
}

/// How many labelled lines of a record contradict the text that it has the hash of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtOdds {
    /// Their text stands on a line of another number, and that line counts.
    pub moved: usize,
    /// Their text stands nowhere, and they do not count.
    pub missing: usize,
}
