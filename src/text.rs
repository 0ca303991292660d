//! Byte spans, lines and positions: the only place where offsets and editor positions are converted.

/// A half-open range of bytes, `start..end`, in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ByteSpan {
    pub start: usize,
    pub end: usize,
}

impl ByteSpan {
    pub fn new(start: usize, end: usize) -> Self {
        debug_assert!(start <= end);
        Self { start, end }
    }
    pub fn len(self) -> usize {
        self.end - self.start
    }
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
    /// Whether `offset` lies in the span; the end counts, so that a cursor behind the last byte is inside.
    pub fn touches(self, offset: usize) -> bool {
        self.start <= offset && offset <= self.end
    }
    pub fn contains_span(self, other: ByteSpan) -> bool {
        self.start <= other.start && other.end <= self.end
    }
    /// The text of the span; `None` if it does not lie on character boundaries inside `text`.
    pub fn of(self, text: &str) -> Option<&str> {
        text.get(self.start..self.end)
    }
}

/// How the `character` of a [`Position`] counts (LSP 3.17 `PositionEncodingKind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PositionEncoding {
    Utf8,
    Utf16,
    Utf32,
}

/// A 0-based line and a 0-based character within it, counted in code units of a [`PositionEncoding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    pub line: u32,
    pub character: u32,
}

/// Where the lines of a text start. Lines end with LF, CRLF or CR (as LSP defines); the last line may have no end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineIndex {}

impl LineIndex {
    pub fn new(_text: &str) -> Self {
        todo!()
    }
    /// Number of lines; at least 1 (the empty text has one empty line).
    pub fn line_count(&self) -> usize {
        todo!()
    }
    /// The 0-based line that holds the byte `offset`; an offset in a line's terminator belongs to that line,
    /// one past the end of the text to the last line.
    pub fn line_at(&self, _offset: usize) -> usize {
        todo!()
    }
    /// The bytes of a 0-based line without its terminator; clamped to the last line.
    pub fn line_span(&self, _line: usize) -> ByteSpan {
        todo!()
    }
    /// The byte offset of a position. As LSP asks, a character past the end of the line means the end of the line,
    /// a line past the last means the end of the text; a position inside a character means the character's start.
    pub fn offset(&self, _text: &str, _position: Position, _encoding: PositionEncoding) -> usize {
        todo!()
    }
    /// The position of a byte offset; an offset inside a character means the character's start.
    pub fn position(&self, _text: &str, _offset: usize, _encoding: PositionEncoding) -> Position {
        todo!()
    }
}
