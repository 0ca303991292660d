//! C and C++ tokens and preprocessor directives, with their bytes. No macro is expanded and nothing can fail.

use crate::text::ByteSpan;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Identifier,
    Number,
    /// A string or character literal.
    Literal,
    /// `::`
    Scope,
    /// `->`
    Arrow,
    Punctuation(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Token {
    pub(super) fn is(self, punctuation: u8) -> bool {
        self.kind == TokenKind::Punctuation(punctuation)
    }
    pub(super) fn is_identifier(self) -> bool {
        self.kind == TokenKind::Identifier
    }
    pub(super) fn text(self, source: &str) -> &str {
        source.get(self.start..self.end).unwrap_or("")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lexeme {
    Token(Token),
    /// From the `#` to the end of the line, continuation lines included.
    Directive {
        start: usize,
        end: usize,
    },
}

/// Linear in the text; the whole state is the position, so a copy resumes from here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Nothing but blanks and comments so far on this line.
    at_line_start: bool,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(source: &'a str) -> Self {
        Self { bytes: source.as_bytes(), at: 0, at_line_start: true }
    }

    /// Reads a part of the text.
    pub(super) fn within(source: &'a str, span: ByteSpan) -> Self {
        let bytes = source.as_bytes().get(..span.end).unwrap_or(source.as_bytes());
        Self { bytes, at: span.start, at_line_start: false }
    }

    /// Where the next token is looked for.
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    /// The length of the line terminator at `at`; 0 where there is none.
    fn newline(&self, at: usize) -> usize {
        match (self.bytes.get(at), self.bytes.get(at + 1)) {
            (Some(b'\r'), Some(b'\n')) => 2,
            (Some(b'\r' | b'\n'), _) => 1,
            _ => 0,
        }
    }

    fn block_comment_end(&self, from: usize) -> usize {
        let rest = self.bytes.get(from..).unwrap_or_default();
        rest.windows(2).position(|pair| pair == b"*/").map_or(self.bytes.len(), |length| from + length + 2)
    }

    /// The end of the line, after backslash-newlines; the terminator is not part of it.
    fn logical_line_end(&self, mut at: usize, skip_comments: bool) -> usize {
        while at < self.bytes.len() && self.newline(at) == 0 {
            match (self.bytes[at], self.bytes.get(at + 1)) {
                (b'\\', _) => at += 1 + self.newline(at + 1),
                (b'/', Some(b'*')) if skip_comments => at = self.block_comment_end(at + 2),
                (b'/', Some(b'/')) if skip_comments => return self.logical_line_end(at + 2, false),
                (quote @ (b'"' | b'\''), _) if skip_comments => at = self.literal_end(at + 1, quote),
                _ => at += 1,
            }
        }
        at.min(self.bytes.len())
    }

    /// The end of a literal; one that is not closed ends with its line.
    fn literal_end(&self, mut at: usize, quote: u8) -> usize {
        while at < self.bytes.len() && self.newline(at) == 0 {
            match self.bytes[at] {
                b'\\' => at += 1 + self.newline(at + 1).max(1),
                byte if byte == quote => return at + 1,
                _ => at += 1,
            }
        }
        at.min(self.bytes.len())
    }

    /// The end of a raw string whose delimiter starts at `from`; `None` if that is no raw string.
    fn raw_string_end(&self, from: usize) -> Option<usize> {
        let rest = self.bytes.get(from..)?;
        let length = rest.iter().take(17).position(|byte| *byte == b'(')?;
        let delimiter = &rest[..length];
        if delimiter.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, b')' | b'\\' | b'"')) {
            return None;
        }
        let closing = [b")", delimiter, b"\""].concat();
        let end = rest.windows(closing.len()).position(|window| window == closing);
        Some(end.map_or(self.bytes.len(), |at| from + at + closing.len()))
    }

    fn identifier_end(&self, from: usize) -> usize {
        let rest = &self.bytes[from..];
        rest.iter()
            .position(|byte| !is_identifier_byte(*byte))
            .map_or(self.bytes.len(), |length| from + length)
    }

    fn number_end(&self, mut at: usize) -> usize {
        loop {
            match (self.bytes.get(at), self.bytes.get(at + 1)) {
                (Some(byte), _) if is_identifier_byte(*byte) || *byte == b'.' => at += 1,
                (Some(b'\''), Some(next)) if is_identifier_byte(*next) => at += 2,
                _ => return at,
            }
        }
    }

    fn token(&mut self, kind: TokenKind, end: usize) -> Option<Lexeme> {
        let start = self.at;
        self.at = end.min(self.bytes.len());
        self.at_line_start = false;
        Some(Lexeme::Token(Token { kind, start, end: self.at }))
    }
}

impl Iterator for Lexer<'_> {
    type Item = Lexeme;

    fn next(&mut self) -> Option<Lexeme> {
        while let Some(byte) = self.peek(0) {
            let start = self.at;
            match (byte, self.peek(1)) {
                (b'\n' | b'\r', _) => {
                    self.at += 1;
                    self.at_line_start = true;
                }
                (b' ' | b'\t' | 0x0b | 0x0c | 0, _) => self.at += 1,
                (b'\\', _) if self.newline(start + 1) > 0 => self.at += 1 + self.newline(start + 1),
                (b'/', Some(b'/')) => self.at = self.logical_line_end(start + 2, false),
                (b'/', Some(b'*')) => self.at = self.block_comment_end(start + 2),
                (b'#', _) if self.at_line_start => {
                    self.at = self.logical_line_end(start + 1, true);
                    return Some(Lexeme::Directive { start, end: self.at });
                }
                (b'"' | b'\'', _) => {
                    return self.token(TokenKind::Literal, self.literal_end(start + 1, byte));
                }
                (b'0'..=b'9', _) | (b'.', Some(b'0'..=b'9')) => {
                    return self.token(TokenKind::Number, self.number_end(start + 1));
                }
                (b':', Some(b':')) => return self.token(TokenKind::Scope, start + 2),
                // Digraphs: other ways to write braces.
                (b'<', Some(b'%')) => return self.token(TokenKind::Punctuation(b'{'), start + 2),
                (b'%', Some(b'>')) => return self.token(TokenKind::Punctuation(b'}'), start + 2),
                (b'-', Some(b'>')) => return self.token(TokenKind::Arrow, start + 2),
                _ if is_identifier_byte(byte) => {
                    let end = self.identifier_end(start);
                    let is_prefix = matches!(&self.bytes[start..end], b"R" | b"LR" | b"uR" | b"UR" | b"u8R");
                    if is_prefix && self.bytes.get(end) == Some(&b'"') {
                        let literal_end =
                            self.raw_string_end(end + 1).unwrap_or_else(|| self.literal_end(end + 1, b'"'));
                        return self.token(TokenKind::Literal, literal_end);
                    }
                    return self.token(TokenKind::Identifier, end);
                }
                _ => return self.token(TokenKind::Punctuation(byte), start + 1),
            }
        }
        None
    }
}

fn is_identifier_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || !byte.is_ascii()
}
