//! Normalisation of a function's text before tokenisation, with the way back to the document.

use super::Normalize;
use crate::text::ByteSpan;
use std::borrow::Cow;
use std::ops::Range;

/// The text a tokenizer sees, and which document bytes it came from.
#[derive(Debug)]
pub(super) struct Normalized<'a> {
    document: &'a str,
    function: ByteSpan,
    text: Cow<'a, str>,
    /// In order; the first one starts at 0. Empty where the text is.
    pieces: Vec<Piece>,
}

/// The bytes of the text from `at` up to the next piece.
#[derive(Clone, Copy, Debug)]
struct Piece {
    at: usize,
    source: ByteSpan,
    /// The bytes are those of `source`; otherwise they stand for all of `source`.
    copied: bool,
}

impl<'a> Normalized<'a> {
    /// `None` if the span does not lie on character boundaries of the document.
    pub(super) fn new(document: &'a str, function: ByteSpan, normalize: Normalize) -> Option<Self> {
        let code = function.of(document)?;
        let mut builder = Builder { document, text: String::new(), pieces: Vec::new() };
        match normalize {
            Normalize::None => {
                let whole = Piece { at: 0, source: function, copied: true };
                return Some(Self { document, function, text: Cow::Borrowed(code), pieces: vec![whole] });
            }
            Normalize::StripComments => builder.strip_comments(code, function.start),
            Normalize::CollapseWhitespace => builder.collapse_whitespace(code, function.start),
        }
        Some(Self { document, function, text: Cow::Owned(builder.text), pieces: builder.pieces })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The document bytes that a range of the text came from.
    ///
    /// Whitespace never claims bytes of a comment it stands for: at the ends of a range it is left out, and a range
    /// of nothing else is empty. A token would else seem to lie on the comment's line.
    pub(super) fn document_span(&self, range: Range<usize>) -> ByteSpan {
        let range = range.start.min(self.text.len())..range.end.min(self.text.len());
        let (mut start, mut end) = (self.source_start(range.start), self.source_end(range.end));
        if range.is_empty() {
            return ByteSpan::new(start, start);
        }
        let text = self.text.get(range.clone()).unwrap_or("x");
        let after_blanks = range.start + (text.len() - text.trim_start_matches(is_python_whitespace).len());
        if after_blanks == range.end {
            return ByteSpan::new(start, if self.is_blank(start, end) { end } else { start });
        }
        let before_blanks = range.end - (text.len() - text.trim_end_matches(is_python_whitespace).len());
        let (code_start, code_end) = (self.source_start(after_blanks), self.source_end(before_blanks));
        if !self.is_blank(start, code_start) {
            start = code_start;
        }
        if !self.is_blank(code_end, end) {
            end = code_end;
        }
        ByteSpan::new(start, end.max(start))
    }

    fn is_blank(&self, start: usize, end: usize) -> bool {
        self.document.get(start..end).is_none_or(|text| text.chars().all(is_python_whitespace))
    }

    /// Where the byte `at` of the text came from; the end of the source for the end of the text.
    fn source_start(&self, at: usize) -> usize {
        if at == self.text.len() {
            return self.source_end(at);
        }
        match self.piece_with(at) {
            Some(piece) if piece.copied => piece.source.start + (at - piece.at),
            Some(piece) => piece.source.start,
            None => self.function.start,
        }
    }

    /// The end of the source of the byte before `at`.
    fn source_end(&self, at: usize) -> usize {
        match self.piece_with(at.saturating_sub(1)) {
            Some(piece) if piece.copied => (piece.source.start + (at - piece.at)).min(piece.source.end),
            Some(piece) => piece.source.end,
            None => self.function.start,
        }
    }

    fn piece_with(&self, at: usize) -> Option<Piece> {
        let index = self.pieces.partition_point(|piece| piece.at <= at);
        self.pieces.get(index.checked_sub(1)?).copied()
    }
}

struct Builder<'a> {
    document: &'a str,
    text: String,
    pieces: Vec<Piece>,
}

impl Builder<'_> {
    fn copy(&mut self, source: ByteSpan) {
        if let Some(text) = source.of(self.document).filter(|text| !text.is_empty()) {
            self.pieces.push(Piece { at: self.text.len(), source, copied: true });
            self.text.push_str(text);
        }
    }

    fn space_for(&mut self, source: ByteSpan) {
        self.pieces.push(Piece { at: self.text.len(), source, copied: false });
        self.text.push(' ');
    }

    fn collapse_whitespace(&mut self, code: &str, origin: usize) {
        let mut previous_end = None;
        for word in code.split(is_python_whitespace).filter(|word| !word.is_empty()) {
            let start = origin + (word.as_ptr() as usize - code.as_ptr() as usize);
            if let Some(previous_end) = previous_end {
                self.space_for(ByteSpan::new(previous_end, start));
            }
            let end = start + word.len();
            self.copy(ByteSpan::new(start, end));
            previous_end = Some(end);
        }
    }

    fn strip_comments(&mut self, code: &str, origin: usize) {
        let mut copied_to = 0;
        let comments = Comments { bytes: code.as_bytes(), at: 0 };
        for comment in comments {
            self.copy(ByteSpan::new(origin + copied_to, origin + comment.range.start));
            copied_to = comment.range.end;
            let comment_span = ByteSpan::new(origin + comment.range.start, origin + comment.range.end);
            self.space_for(comment_span);
            if comment.is_block {
                self.copy_newlines(comment_span);
            }
        }
        self.copy(ByteSpan::new(origin + copied_to, origin + code.len()));
    }

    fn copy_newlines(&mut self, comment: ByteSpan) {
        let bytes = self.document.as_bytes();
        let mut at = comment.start;
        while at < comment.end {
            let length = newline_length(&bytes[..comment.end], at);
            if length > 0 {
                self.copy(ByteSpan::new(at, at + length));
            }
            at += length.max(1);
        }
    }
}

/// What Python's `str.split()` splits at: Unicode's White_Space and the four information separators.
fn is_python_whitespace(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\u{1c}'..='\u{1f}')
}

/// The length of the line terminator at `at`; 0 where there is none.
fn newline_length(bytes: &[u8], at: usize) -> usize {
    match (bytes.get(at), bytes.get(at + 1)) {
        (Some(b'\r'), Some(b'\n')) => 2,
        (Some(b'\r' | b'\n'), _) => 1,
        _ => 0,
    }
}

#[derive(Debug)]
struct Comment {
    range: Range<usize>,
    is_block: bool,
}

/// The comments of C or C++ code in order. A comment's start and end are ASCII, so its range lies on characters.
struct Comments<'a> {
    bytes: &'a [u8],
    /// Never inside a literal, comment, number or identifier.
    at: usize,
}

impl Iterator for Comments<'_> {
    type Item = Comment;

    fn next(&mut self) -> Option<Comment> {
        while let Some(byte) = self.bytes.get(self.at).copied() {
            let start = self.at;
            match (byte, self.peek(1)) {
                (b'/', Some(b'/')) => {
                    self.at = self.line_comment_end(start + 2);
                    return Some(Comment { range: start..self.at, is_block: false });
                }
                (b'/', Some(b'*')) => {
                    self.at = self.block_comment_end(start + 2);
                    return Some(Comment { range: start..self.at, is_block: true });
                }
                (b'"' | b'\'', _) => self.at = self.literal_end(start + 1, byte),
                (b'0'..=b'9', _) | (b'.', Some(b'0'..=b'9')) => self.at = self.number_end(start + 1),
                _ if is_identifier(byte) => {
                    self.at = self.identifier_end(start);
                    let is_raw = matches!(&self.bytes[start..self.at], b"R" | b"LR" | b"uR" | b"UR" | b"u8R");
                    if is_raw && self.peek(0) == Some(b'"') {
                        self.at = self.raw_string_end(self.at + 1).unwrap_or(self.at);
                    }
                }
                _ => self.at += 1,
            }
        }
        None
    }
}

impl Comments<'_> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn block_comment_end(&self, from: usize) -> usize {
        find(self.bytes, from, b"*/").map_or(self.bytes.len(), |at| at + 2)
    }

    fn line_comment_end(&self, mut at: usize) -> usize {
        while at < self.bytes.len() && newline_length(self.bytes, at) == 0 {
            at += self.escape_length(at, false).max(1);
        }
        at
    }

    /// The end of a string or character literal; one that is not closed ends with its line.
    fn literal_end(&self, mut at: usize, quote: u8) -> usize {
        while at < self.bytes.len() && newline_length(self.bytes, at) == 0 {
            if self.bytes[at] == quote {
                return at + 1;
            }
            at += self.escape_length(at, true).max(1);
        }
        at
    }

    /// The length of a backslash with what it takes with it: a line terminator, and in a literal any byte.
    fn escape_length(&self, at: usize, in_literal: bool) -> usize {
        if self.bytes[at] != b'\\' || at + 1 == self.bytes.len() {
            return 0;
        }
        match newline_length(self.bytes, at + 1) {
            0 if in_literal => 2,
            0 => 0,
            newline => 1 + newline,
        }
    }

    /// A preprocessing number. A quote between digits separates them (C++14, C23).
    fn number_end(&self, mut at: usize) -> usize {
        loop {
            match (self.bytes.get(at), self.bytes.get(at + 1)) {
                (Some(byte), _) if is_identifier(*byte) || *byte == b'.' => at += 1,
                (Some(b'\''), Some(next)) if is_identifier(*next) => at += 2,
                _ => return at,
            }
        }
    }

    fn identifier_end(&self, from: usize) -> usize {
        self.bytes[from..]
            .iter()
            .position(|byte| !is_identifier(*byte))
            .map_or(self.bytes.len(), |length| from + length)
    }

    /// The end of a raw string whose delimiter starts at `from`; `None` if that is no raw string.
    fn raw_string_end(&self, from: usize) -> Option<usize> {
        const LONGEST_DELIMITER: usize = 16;
        let length = self.bytes[from..].iter().take(LONGEST_DELIMITER + 1).position(|byte| *byte == b'(')?;
        let delimiter = &self.bytes[from..from + length];
        if delimiter.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, b')' | b'\\' | b'"')) {
            return None;
        }
        let mut closing = vec![b')'];
        closing.extend_from_slice(delimiter);
        closing.push(b'"');
        Some(find(self.bytes, from + length, &closing).map_or(self.bytes.len(), |at| at + closing.len()))
    }
}

fn is_identifier(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || !byte.is_ascii()
}

/// Where `needle` (short) first occurs at or after `from`.
fn find(bytes: &[u8], from: usize, needle: &[u8]) -> Option<usize> {
    bytes.get(from..)?.windows(needle.len()).position(|window| window == needle).map(|at| from + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn normalized(code: &str, normalize: Normalize) -> String {
        Normalized::new(code, ByteSpan::new(0, code.len()), normalize).unwrap().text().to_owned()
    }

    #[track_caller]
    fn check_strip(code: &str, expected: &str) {
        assert_eq!(normalized(code, Normalize::StripComments), expected);
    }

    #[test]
    fn each_comment_becomes_one_space() {
        check_strip("a/*b*/c", "a c");
        check_strip("a /* b */ c", "a   c");
        check_strip("a // b\nc", "a  \nc");
        check_strip("a // b\r\nc", "a  \r\nc");
        check_strip("a //", "a  ");
        check_strip("/**//***/x/*/*/", "  x ");
        check_strip("a / b * c /", "a / b * c /");
        check_strip("", "");
    }

    #[test]
    fn newlines_of_a_block_comment_stay() {
        check_strip("a/*1\n2\r\n3\r4*/b", "a \n\r\n\rb");
        check_strip("a/* open\n\"", "a \n");
        check_strip("a/*", "a ");
        check_strip("a/*/", "a ");
    }

    #[test]
    fn a_line_comment_goes_on_after_a_backslash() {
        check_strip("a // b \\\n c\nd", "a  \nd");
        check_strip("a // b \\\r\n c\r\nd", "a  \r\nd");
        check_strip("a // b \\ \nd", "a  \nd");
        check_strip("a // b \\", "a  ");
    }

    #[test]
    fn literals_hold_no_comments() {
        check_strip(r#"f("/*", '/', "\"//", '\'', "\\")/*x*/;"#, r#"f("/*", '/', "\"//", '\'', "\\") ;"#);
        check_strip("\"a\\\n// b\" // c", "\"a\\\n// b\"  ");
        check_strip("L'\"' /*x*/ u8\"//\"", "L'\"'   u8\"//\"");
    }

    #[test]
    fn an_open_literal_ends_with_its_line() {
        check_strip("\"abc // d\n// e\nf", "\"abc // d\n \nf");
        check_strip("#error don't // x\r\n/* y */", "#error don't // x\r\n ");
        check_strip("\"abc\\", "\"abc\\");
    }

    #[test]
    fn digit_separators_open_no_literal() {
        check_strip("x = 1'000'000; // y", "x = 1'000'000;  ");
        check_strip("x = 0xFF'FFu + .5'0 /* y */;", "x = 0xFF'FFu + .5'0  ;");
        check_strip("case 1: c = '1'; // '", "case 1: c = '1';  ");
        check_strip("x1'a' // '", "x1'a'  ");
        check_strip("u8'a' // '", "u8'a'  ");
        check_strip("1' // '\n//", "1' // '\n ");
    }

    #[test]
    fn raw_strings_hold_no_comments() {
        check_strip("R\"(a\" // b\n)\" // c", "R\"(a\" // b\n)\"  ");
        check_strip("u8R\"x(/*)\" )x\"/**/;", "u8R\"x(/*)\" )x\" ;");
        check_strip("R\"(never closed // ", "R\"(never closed // ");
        check_strip("R\"not raw\" // c", "R\"not raw\"  ");
        check_strip("FOR\"(\" // c", "FOR\"(\"  ");
        check_strip("R\"\\(\" // c", "R\"\\(\"  ");
    }

    #[test]
    fn collapses_what_python_splits_at() {
        let collapse = |code| normalized(code, Normalize::CollapseWhitespace);
        assert_eq!(collapse("  int\tf ( )\r\n\n{\u{a0}\u{2003}}\u{1f}\n"), "int f ( ) { }");
        assert_eq!(collapse(" \n\t"), "");
        assert_eq!(collapse("é \u{85} 😀"), "é 😀");
        assert_eq!(collapse("a\u{200b}b\u{feff}c\u{180e}d"), "a\u{200b}b\u{feff}c\u{180e}d");
    }

    #[test]
    fn spans_lead_back_to_the_document() {
        let document = "é;\tint /*x\ny*/  f";
        let function = ByteSpan::new(4, document.len());
        let span = |normalize, range| {
            let normalized = Normalized::new(document, function, normalize).unwrap();
            normalized.document_span(range).of(document).unwrap().to_owned()
        };
        // "int  \n  f"
        assert_eq!(span(Normalize::StripComments, 0..3), "int");
        assert_eq!(span(Normalize::StripComments, 3..4), " ");
        assert_eq!(span(Normalize::StripComments, 3..5), "", "whitespace claims no comment");
        assert_eq!(span(Normalize::StripComments, 4..5), "");
        assert_eq!(span(Normalize::StripComments, 5..6), "\n");
        assert_eq!(span(Normalize::StripComments, 4..9), "f");
        assert_eq!(span(Normalize::StripComments, 7..9), " f");
        assert_eq!(span(Normalize::StripComments, 0..5), "int");
        assert_eq!(span(Normalize::StripComments, 0..9), "int /*x\ny*/  f");
        // "int /*x y*/ f"
        assert_eq!(span(Normalize::CollapseWhitespace, 7..8), "\n");
        assert_eq!(span(Normalize::CollapseWhitespace, 11..12), "  ");
        assert_eq!(span(Normalize::CollapseWhitespace, 11..13), "  f");
        assert_eq!(span(Normalize::None, 3..5), " /");
        assert_eq!(span(Normalize::None, 99..100), "");
        assert!(Normalized::new(document, ByteSpan::new(1, 4), Normalize::None).is_none());
        assert!(Normalized::new(document, ByteSpan::new(0, 99), Normalize::None).is_none());
    }

    fn code() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("/*"),
            Just("*/"),
            Just("//"),
            Just("\n"),
            Just("\r\n"),
            Just("\r"),
            Just("\\"),
            Just("\""),
            Just("'"),
            Just("R\"("),
            Just(")\""),
            Just("1"),
            Just("x"),
            Just(" "),
            Just("é"),
            Just("😀"),
            Just("\u{2028}"),
            Just("/"),
            Just("*"),
            Just("\u{1c}")
        ];
        proptest::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn spans_are_characters_in_order(code in code()) {
            for normalize in [Normalize::None, Normalize::StripComments, Normalize::CollapseWhitespace] {
                let document = format!("ü{code}ü");
                let function = ByteSpan::new(2, 2 + code.len());
                let normalized = Normalized::new(&document, function, normalize).unwrap();
                let mut previous = function.start;
                for (at, character) in normalized.text().char_indices() {
                    let span = normalized.document_span(at..at + character.len_utf8());
                    prop_assert!(function.contains_span(span) && span.start >= previous, "{:?} {:?}", span, normalize);
                    previous = span.end;
                    let source = span.of(&document).unwrap();
                    // Each character is itself, or a space that stands for whitespace or a comment.
                    prop_assert!(source.starts_with(character) || (character == ' ' && source.chars().all(is_python_whitespace)));
                }
                for start in 0..=normalized.text().len() {
                    for end in start..=normalized.text().len() {
                        prop_assert!(function.contains_span(normalized.document_span(start..end)));
                    }
                }
            }
        }

        #[test]
        fn collapsing_is_split_and_join(code in code()) {
            let words: Vec<_> = code.split(is_python_whitespace).filter(|word| !word.is_empty()).collect();
            prop_assert_eq!(normalized(&code, Normalize::CollapseWhitespace), words.join(" "));
        }

        /// Whitespace-free code, block comments and their newlines: nothing else changes.
        #[test]
        fn stripping_keeps_lines_with_block_comments(words in proptest::collection::vec("[a-z;{}()]{1,3}", 1..8)) {
            let code = words.join("/* c \n 'c' \r\n \" */");
            prop_assert_eq!(normalized(&code, Normalize::StripComments), words.join(" \n\r\n"));
        }
    }
}
