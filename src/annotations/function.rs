//! The text of one function by lines, and its hashes.

use super::{Label, LabelledLine, LineLabel, Record};
use crate::text::LineIndex;
use sha2::{Digest, Sha256};

/// A function's text with its lines: LF, CRLF and CR end one.
#[derive(Clone, Debug)]
pub struct FunctionLines<'a> {
    text: &'a str,
    index: LineIndex,
}

impl<'a> FunctionLines<'a> {
    pub fn new(text: &'a str) -> FunctionLines<'a> {
        FunctionLines { text, index: LineIndex::new(text) }
    }

    pub fn text(&self) -> &'a str {
        self.text
    }

    pub fn count(&self) -> usize {
        self.index.line_count()
    }

    /// How many lines hold text: the empty one behind a last line end is none.
    pub fn text_count(&self) -> usize {
        self.count() - usize::from(self.count() > 1 && self.text.ends_with(['\n', '\r']))
    }

    /// A 0-based line without its end; empty past the last one.
    pub fn line(&self, line: usize) -> &'a str {
        if line >= self.count() {
            return "";
        }
        self.index.line_span(line).of(self.text).unwrap_or_default()
    }

    pub fn iter(&self) -> impl Iterator<Item = &'a str> {
        (0..self.count()).map(|line| self.line(line))
    }

    pub fn is_blank(&self, line: usize) -> bool {
        self.line(line).trim().is_empty()
    }

    /// The 0-based line that holds a byte of the text.
    pub fn line_at(&self, offset: usize) -> usize {
        self.index.line_at(offset)
    }

    /// The line that is number `number`, from 0, when only LF ends a line, as data sets count.
    pub fn line_of_newline_number(&self, number: usize) -> Option<usize> {
        let start = match number.checked_sub(1) {
            None => 0,
            Some(breaks) => {
                self.text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').nth(breaks)?.0 + 1
            }
        };
        Some(self.line_at(start))
    }

    /// A line as a record holds it, with the nearest lines around it that are not blank.
    pub fn labelled(&self, line: usize, label: LineLabel) -> LabelledLine {
        LabelledLine {
            line,
            text: self.line(line).to_string(),
            before: self.before(line).map(str::to_string),
            after: self.after(line).map(str::to_string),
            label,
        }
    }

    /// The nearest line before `line` that is not blank.
    pub fn before(&self, line: usize) -> Option<&'a str> {
        (0..line.min(self.count())).rev().find(|line| !self.is_blank(*line)).map(|line| self.line(line))
    }

    /// The nearest line after `line` that is not blank.
    pub fn after(&self, line: usize) -> Option<&'a str> {
        (line + 1..self.count()).find(|line| !self.is_blank(*line)).map(|line| self.line(line))
    }

    /// SHA-256 of the text as it stands, lower-case hex.
    pub fn sha256(&self) -> String {
        hex(Sha256::digest(self.text.as_bytes()).as_slice())
    }

    /// SHA-256 of the text without whitespace, lower-case hex.
    pub fn sha256_ws(&self) -> String {
        hex(Sha256::digest(without_whitespace(self.text).as_bytes()).as_slice())
    }

    /// A record of this function: its hashes, and `flaws` (0-based lines, those in order, each once, blank lines left
    /// out: they hold nothing that could be wrong or be scored).
    pub fn record(&self, label: Label, flaws: impl IntoIterator<Item = usize>) -> Record {
        let mut flaws: Vec<usize> = flaws.into_iter().filter(|line| !self.is_blank(*line)).collect();
        flaws.sort_unstable();
        flaws.dedup();
        Record {
            body_sha256: Some(self.sha256()),
            body_sha256_ws: Some(self.sha256_ws()),
            lines: flaws.into_iter().map(|line| self.labelled(line, LineLabel::Flaw)).collect(),
            ..Record::new(label)
        }
    }
}

/// The text without space, tab, line feed, vertical tab, form feed and carriage return.
pub fn without_whitespace(text: &str) -> String {
    text.chars().filter(|c| !is_whitespace(*c)).collect()
}

pub(super) fn is_whitespace(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_sha256_of_the_text_with_and_without_whitespace() {
        let function = FunctionLines::new("a\t b\r\n\x0b\x0cc");
        // printf 'abc' | sha256sum
        assert_eq!(function.sha256_ws(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(FunctionLines::new("abc").sha256(), function.sha256_ws());
        assert_ne!(function.sha256(), function.sha256_ws());
    }

    #[test]
    fn neighbours_are_the_nearest_lines_that_are_not_blank() {
        let function = FunctionLines::new("a\n\n  \nb\r\n\r\nc");
        let line = function.labelled(3, LineLabel::Flaw);
        assert_eq!(
            (line.text.as_str(), line.before.as_deref(), line.after.as_deref()),
            ("b", Some("a"), Some("c"))
        );
        let first = function.labelled(0, LineLabel::Flaw);
        assert_eq!((first.before, first.after.as_deref()), (None, Some("b")));
    }

    #[test]
    fn data_sets_count_lines_by_line_feeds() {
        let function = FunctionLines::new("a\rb\nc\r\nd");
        assert_eq!(function.count(), 4);
        assert_eq!(
            (0..4).map(|n| function.line_of_newline_number(n)).collect::<Vec<_>>(),
            [Some(0), Some(2), Some(3), None]
        );
    }

    #[test]
    fn a_record_leaves_blank_lines_out() {
        let record = FunctionLines::new("a\n \nb").record(Label::Vulnerable, [2, 1, 2]);
        assert_eq!(record.flaw_lines().collect::<Vec<_>>(), [2]);
    }
}
