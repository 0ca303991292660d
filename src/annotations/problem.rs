//! What can be wrong with a row of a file: where, and in a sentence.

use std::fmt;

/// A row that was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowError {
    /// 1-based: the line of a JSON Lines file, the element of a JSON array, the record below the header of a CSV file,
    /// the result of a SARIF file.
    pub row: usize,
    pub reason: RowProblem,
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {}: {}", self.row, self.reason)
    }
}

impl std::error::Error for RowError {}

/// Why a row was skipped. Nothing is guessed: what contradicts itself is not data. Lines are 1-based in the messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowProblem {
    #[error("cannot be read, and nothing after it: {0}")]
    Unreadable(String),
    #[error("has more than {0} bytes")]
    TooLong(usize),
    #[error("has more than {0} bytes, and nothing after it was read: probably a quote that is not closed")]
    Unclosed(usize),
    #[error("is not UTF-8")]
    NotUtf8,
    #[error("is not JSON: {0}")]
    NotJson(String),
    #[error("is not a JSON object")]
    NotAnObject,
    #[error("gives the field `{0}` twice")]
    GivenTwice(String),
    #[error("has {found} fields, but the header has {expected}")]
    FieldCount { found: usize, expected: usize },
    #[error("`{0}` is missing")]
    Missing(&'static str),
    #[error("`{0}` is empty")]
    Empty(&'static str),
    #[error("`{field}` is not {expected}")]
    WrongType { field: &'static str, expected: &'static str },
    #[error("`{field}` is {found}, expected 0 or 1")]
    NotALabel { field: &'static str, found: String },
    #[error("line {line} lies outside the function, which has {count}")]
    LineOutside { line: u64, count: usize },
    #[error("line {line} lies beyond the end of {file}, which has {count}")]
    BeyondFile { file: String, line: u64, count: usize },
    #[error("column {column} lies beyond the end of line {line} of {file}, which has {count}")]
    BeyondLine { file: String, line: usize, column: u64, count: usize },
    #[error("its function {0}")]
    Replaced(String),
    #[error("line {line} of the function is not what the row says it is")]
    LineText { line: usize },
    #[error("`{found}` is no line number")]
    LineNumber { found: String },
    #[error("{numbers} line numbers stand beside {texts} line texts")]
    LineCount { numbers: usize, texts: usize },
    #[error(
        "the text of a flaw line occurs {0} times in the function, and no line number says which is meant"
    )]
    AmbiguousLine(usize),
    #[error("has flaw lines, but is labelled benign")]
    FlawInBenign,
    #[error("the function and its fix are the same text")]
    SameText,
    #[error("the other half of its pair does not follow or precede it")]
    NoPartner,
    #[error(
        "no row beside it is surely the other half of its pair: of one commit, the other label and one function, by its name \
         and its lines"
    )]
    UnsurePartner,
    #[error("has too many changed lines to be compared with its fix")]
    TooManyLines,
    #[error("is not a record of linelens-annotations: {0}")]
    NotARecord(String),
    #[error("stands under a header of version {0}; this linelens knows version 1 of linelens-annotations")]
    Version(String),
    #[error("names no line of a file: {0}")]
    NoLocation(String),
    #[error("is no finding: {0}")]
    NoFinding(String),
    #[error("its function's text was not found: {0}")]
    NoCode(String),
    /// The record is as good as it was: its function has been changed since, as by its fix.
    #[error("labels a text that {0} holds no more")]
    Gone(String),
}

impl RowProblem {
    /// The kind of problem, for counting.
    pub fn kind(&self) -> &'static str {
        match self {
            RowProblem::Unreadable(_) => "unreadable",
            RowProblem::TooLong(_) => "too long",
            RowProblem::Unclosed(_) => "quote not closed",
            RowProblem::NotUtf8 => "not UTF-8",
            RowProblem::NotJson(_) => "not JSON",
            RowProblem::NotAnObject => "not an object",
            RowProblem::GivenTwice(_) => "field given twice",
            RowProblem::FieldCount { .. } => "wrong number of fields",
            RowProblem::Missing(_) => "field missing",
            RowProblem::Empty(_) => "field empty",
            RowProblem::WrongType { .. } => "field of a wrong type",
            RowProblem::NotALabel { .. } => "label not 0 or 1",
            RowProblem::LineOutside { .. } => "line outside the function",
            RowProblem::BeyondFile { .. } => "line beyond the file",
            RowProblem::BeyondLine { .. } => "column beyond the line",
            RowProblem::Replaced(_) => "function gone",
            RowProblem::LineText { .. } => "line text differs",
            RowProblem::LineNumber { .. } => "not a line number",
            RowProblem::LineCount { .. } => "line numbers and texts differ in number",
            RowProblem::AmbiguousLine(_) => "line ambiguous",
            RowProblem::FlawInBenign => "flaw lines in a benign function",
            RowProblem::SameText => "function and fix are the same",
            RowProblem::NoPartner | RowProblem::UnsurePartner => "half a pair",
            RowProblem::TooManyLines => "too many changed lines",
            RowProblem::NotARecord(_) => "not a record",
            RowProblem::Version(_) => "unknown version",
            RowProblem::NoLocation(_) => "no location",
            RowProblem::NoFinding(_) => "no finding",
            RowProblem::NoCode(_) => "no text",
            RowProblem::Gone(_) => "text gone",
        }
    }

    /// Whether nothing after the row was read.
    pub fn ends_the_file(&self) -> bool {
        matches!(self, RowProblem::Unreadable(_) | RowProblem::Unclosed(_))
    }
}

/// `1 row is` or `3 rows are`.
pub fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// The beginning of a text, not longer than a message bears.
pub fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

/// What is said of the problems beyond the first `listed`.
pub(super) fn further(count: usize, listed: usize, one: &str, many: &str) -> Option<String> {
    let more = count.checked_sub(listed).filter(|more| *more > 0)?;
    Some(counted(more, &format!("further row {one}"), &format!("further rows {many}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        assert_eq!(counted(0, "row is", "rows are"), "0 rows are");
        assert_eq!(counted(1, "row is", "rows are"), "1 row is");
        assert_eq!(counted(2, "row is", "rows are"), "2 rows are");
        let more = |count| further(count, 200, "is bad", "are bad");
        assert_eq!((more(0), more(200)), (None, None));
        assert_eq!(more(201).as_deref(), Some("1 further row is bad"));
        assert_eq!(more(202).as_deref(), Some("2 further rows are bad"));
    }
}
