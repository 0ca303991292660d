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
///
/// The methods that take the text expect the one the index was built from; any other text gives some position or
/// offset inside that text, never a panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineIndex {
    /// One a line, in order. The last one ends with the text: `content_end == next_start`.
    lines: Vec<LineEnd>,
}

/// Where a line's content ends and where the next line starts; the bytes between are the terminator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LineEnd {
    content_end: usize,
    next_start: usize,
}

impl LineIndex {
    pub fn new(text: &str) -> Self {
        let mut lines = Vec::new();
        add_line_ends(text.as_bytes(), 0, text.len(), &mut lines);
        lines.push(LineEnd { content_end: text.len(), next_start: text.len() });
        Self { lines }
    }

    /// Follows a change of the text, whose bytes `start..old_end` became `start..new_end` of the text given. Looks at
    /// the changed lines only. Offsets that no such change has give an index for some text, never a panic.
    pub fn update(&mut self, text: &str, start: usize, old_end: usize, new_end: usize) {
        // The byte before the change may be a CR that an inserted LF joins.
        let first = self.line_at(start.saturating_sub(1));
        let last = self.line_at(old_end).max(first);
        let from = if first == 0 { 0 } else { self.lines[first - 1].next_start };
        let moved = |offset: usize| offset.saturating_sub(old_end).saturating_add(new_end);
        let is_end = last + 1 == self.lines.len();
        let to = if is_end { text.len() } else { moved(self.lines[last].next_start).min(text.len()) };
        let mut changed = Vec::new();
        add_line_ends(text.as_bytes(), from, to, &mut changed);
        if is_end {
            changed.push(LineEnd { content_end: text.len(), next_start: text.len() });
        }
        for line in &mut self.lines[last + 1..] {
            *line = LineEnd { content_end: moved(line.content_end), next_start: moved(line.next_start) };
        }
        self.lines.splice(first..=last, changed);
    }

    /// Number of lines; at least 1 (the empty text has one empty line).
    pub fn line_count(&self) -> usize {
        self.lines.len()
    }

    /// The 0-based line that holds the byte `offset`; an offset in a line's terminator belongs to that line,
    /// one past the end of the text to the last line.
    pub fn line_at(&self, offset: usize) -> usize {
        self.lines.partition_point(|line| line.next_start <= offset).min(self.lines.len() - 1)
    }

    /// The bytes of a 0-based line without its terminator; clamped to the last line.
    pub fn line_span(&self, line: usize) -> ByteSpan {
        let line = line.min(self.lines.len() - 1);
        let start = if line == 0 { 0 } else { self.lines[line - 1].next_start };
        ByteSpan::new(start, self.lines[line].content_end)
    }

    /// The byte offset of a position. As LSP asks, a character past the end of the line means the end of the line,
    /// a line past the last means the end of the text; a position inside a character means the character's start.
    pub fn offset(&self, text: &str, position: Position, encoding: PositionEncoding) -> usize {
        let line = position.line as usize;
        if line >= self.lines.len() {
            return text.len();
        }
        let span = self.line_span(line);
        let start = text.floor_char_boundary(span.start);
        let content = &text[start..text.floor_char_boundary(span.end).max(start)];
        let wanted = position.character as usize;
        start + encoding.bytes_of_units(content, wanted)
    }

    /// The position of a byte offset; an offset inside a character means the character's start, one inside a line's
    /// terminator (or past the end of the text) the end of the line's content.
    pub fn position(&self, text: &str, offset: usize, encoding: PositionEncoding) -> Position {
        let line = self.line_at(offset);
        let span = self.line_span(line);
        let start = text.floor_char_boundary(span.start);
        let end = text.floor_char_boundary(offset.min(span.end)).max(start);
        let character = encoding.units(&text[start..end]);
        Position { line: saturating_u32(line), character: saturating_u32(character) }
    }
}

impl PositionEncoding {
    /// The length of `text` in code units.
    fn units(self, text: &str) -> usize {
        match self {
            PositionEncoding::Utf8 => text.len(),
            PositionEncoding::Utf16 => {
                // One unit a character, a second one for those beyond the basic plane: four bytes in UTF-8.
                text.bytes().filter(|byte| !is_continuation(*byte)).count()
                    + text.bytes().filter(|byte| *byte >= 0xF0).count()
            }
            PositionEncoding::Utf32 => text.chars().count(),
        }
    }

    /// How many bytes the first `units` code units of `text` take; a part of a character takes none.
    fn bytes_of_units(self, text: &str, units: usize) -> usize {
        // No encoding has more units than UTF-8 has bytes, so bytes beyond the `units`-th hold no wanted unit
        // while everything is ASCII.
        let ascii = text.as_bytes().get(..units).unwrap_or(text.as_bytes());
        if self == PositionEncoding::Utf8 || ascii.is_ascii() {
            return text.floor_char_boundary(units);
        }
        let mut left = units;
        for (at, character) in text.char_indices() {
            let width = if self == PositionEncoding::Utf16 { character.len_utf16() } else { 1 };
            if width > left {
                return at;
            }
            left -= width;
        }
        text.len()
    }
}

/// The ends of the lines that end in `from..to`.
fn add_line_ends(bytes: &[u8], from: usize, to: usize, lines: &mut Vec<LineEnd>) {
    let mut at = from;
    while at < to
        && let Some(content_end) = find_line_break(bytes, at)
        && content_end < to
    {
        let crlf = bytes[content_end] == b'\r' && bytes.get(content_end + 1) == Some(&b'\n');
        at = content_end + if crlf { 2 } else { 1 };
        lines.push(LineEnd { content_end, next_start: at });
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

fn saturating_u32(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// The first `\n` or `\r` at or after `from`. Looks at eight bytes at a time: files of many megabytes are indexed
/// on each edit.
fn find_line_break(bytes: &[u8], from: usize) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    // The lowest set bit marks the first zero byte (higher ones may be false alarms, which the lowest never is).
    let zero_bytes = |word: u64| word.wrapping_sub(LOW) & !word & HIGH;

    let rest = bytes.get(from..)?;
    let (words, tail) = rest.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let hits = zero_bytes(word ^ (LOW * u64::from(b'\n'))) | zero_bytes(word ^ (LOW * u64::from(b'\r')));
        if hits != 0 {
            return Some(from + index * 8 + hits.trailing_zeros() as usize / 8);
        }
    }
    let in_tail = tail.iter().position(|byte| matches!(byte, b'\n' | b'\r'))?;
    Some(from + words.len() * 8 + in_tail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ENCODINGS: [PositionEncoding; 3] =
        [PositionEncoding::Utf8, PositionEncoding::Utf16, PositionEncoding::Utf32];

    /// Lines as (start, content end), found one character at a time.
    fn naive_lines(text: &str) -> Vec<(usize, usize)> {
        let mut lines = Vec::new();
        let mut start = 0;
        let mut characters = text.char_indices().peekable();
        while let Some((at, character)) = characters.next() {
            let mut next = at + 1;
            match character {
                '\n' => {}
                '\r' => {
                    if let Some((_, '\n')) = characters.peek() {
                        characters.next();
                        next += 1;
                    }
                }
                _ => continue,
            }
            lines.push((start, at));
            start = next;
        }
        lines.push((start, text.len()));
        lines
    }

    fn naive_units(text: &str, encoding: PositionEncoding) -> usize {
        match encoding {
            PositionEncoding::Utf8 => text.len(),
            PositionEncoding::Utf16 => text.encode_utf16().count(),
            PositionEncoding::Utf32 => text.chars().count(),
        }
    }

    fn naive_position(text: &str, offset: usize, encoding: PositionEncoding) -> Position {
        let offset = offset.min(text.len());
        let lines = naive_lines(text);
        let line = lines.iter().rposition(|(start, _)| *start <= offset).unwrap();
        let mut end = offset.min(lines[line].1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let character = naive_units(&text[lines[line].0..end], encoding);
        Position { line: line as u32, character: character as u32 }
    }

    fn naive_offset(text: &str, position: Position, encoding: PositionEncoding) -> usize {
        let Some(&(start, end)) = naive_lines(text).get(position.line as usize) else { return text.len() };
        (start..=end)
            .rev()
            .filter(|at| text.is_char_boundary(*at))
            .find(|at| naive_units(&text[start..*at], encoding) <= position.character as usize)
            .unwrap()
    }

    #[test]
    fn empty_text_has_one_empty_line() {
        let index = LineIndex::new("");
        assert_eq!(index.line_count(), 1);
        assert_eq!(index.line_at(0), 0);
        assert_eq!(index.line_at(7), 0);
        assert_eq!(index.line_span(3), ByteSpan::new(0, 0));
        for encoding in ENCODINGS {
            assert_eq!(index.offset("", Position { line: 0, character: 9 }, encoding), 0);
            assert_eq!(index.offset("", Position { line: 9, character: 0 }, encoding), 0);
            assert_eq!(index.position("", 5, encoding), Position { line: 0, character: 0 });
        }
    }

    #[test]
    fn every_terminator_ends_a_line() {
        let text = "a\nb\r\nc\rd\n\r\r\n";
        let index = LineIndex::new(text);
        let spans: Vec<_> =
            (0..index.line_count()).map(|line| index.line_span(line).of(text).unwrap()).collect();
        assert_eq!(spans, ["a", "b", "c", "d", "", "", ""]);
        assert_eq!(index.line_at(3), 1, "CR of CRLF");
        assert_eq!(index.line_at(4), 1, "LF of CRLF");
        assert_eq!(index.line_at(5), 2);
        assert_eq!(index.line_at(text.len()), 6);
        assert_eq!(index.line_at(usize::MAX), 6);
    }

    #[test]
    fn characters_count_in_the_encoding_asked_for() {
        let text = "x = \"é😀e\u{301}\"; // ü\nnext";
        let index = LineIndex::new(text);
        let after_emoji = text.find('😀').unwrap() + 4;
        let character = |encoding| index.position(text, after_emoji, encoding).character;
        assert_eq!(character(PositionEncoding::Utf8), 11);
        assert_eq!(character(PositionEncoding::Utf16), 8);
        assert_eq!(character(PositionEncoding::Utf32), 7);
    }

    #[test]
    fn inside_a_character_means_its_start() {
        let text = "a😀b";
        let index = LineIndex::new(text);
        assert_eq!(index.position(text, 3, PositionEncoding::Utf16), Position { line: 0, character: 1 });
        assert_eq!(index.offset(text, Position { line: 0, character: 2 }, PositionEncoding::Utf16), 1);
        assert_eq!(index.offset(text, Position { line: 0, character: 3 }, PositionEncoding::Utf16), 5);
        assert_eq!(index.offset(text, Position { line: 0, character: 4 }, PositionEncoding::Utf8), 1);
    }

    #[test]
    fn past_the_end_is_clamped() {
        let text = "ab\r\ncd\n";
        let index = LineIndex::new(text);
        for encoding in ENCODINGS {
            assert_eq!(index.offset(text, Position { line: 0, character: 99 }, encoding), 2);
            assert_eq!(index.offset(text, Position { line: 2, character: 1 }, encoding), 7);
            assert_eq!(index.offset(text, Position { line: 3, character: 0 }, encoding), 7);
            assert_eq!(index.offset(text, Position { line: u32::MAX, character: u32::MAX }, encoding), 7);
            assert_eq!(index.position(text, 3, encoding), Position { line: 0, character: 2 }, "inside CRLF");
            assert_eq!(index.position(text, 999, encoding), Position { line: 2, character: 0 });
        }
    }

    #[test]
    fn a_foreign_text_does_not_panic() {
        let index = LineIndex::new("one\ntwo\nthree");
        for text in ["", "é", "ééééééééé", "\n"] {
            for encoding in ENCODINGS {
                for number in 0..15 {
                    assert!(index.position(text, number, encoding).line < 3);
                    let position = Position { line: number as u32 % 4, character: number as u32 };
                    assert!(index.offset(text, position, encoding) <= text.len());
                }
            }
        }
    }

    #[test]
    fn long_lines_and_line_breaks_at_every_alignment() {
        for length in 0..40 {
            for terminator in ["\n", "\r", "\r\n"] {
                let text = format!("{}{terminator}{}", "x".repeat(length), "\u{8a}y".repeat(length));
                let index = LineIndex::new(&text);
                assert_eq!(index.line_count(), 2);
                assert_eq!(index.line_span(0), ByteSpan::new(0, length));
                assert_eq!(index.line_span(1), ByteSpan::new(length + terminator.len(), text.len()));
            }
        }
    }

    fn texts() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("\n"),
            Just("\r\n"),
            Just("\r"),
            Just("int x;"),
            Just("\t"),
            Just("é"),
            Just("e\u{301}"),
            Just("😀"),
            Just("👩\u{200d}💻"),
            Just("漢字"),
            Just("\u{2028}"),
            Just("\u{0}"),
            Just("\u{b}"),
            Just("\u{10ffff}"),
            Just("\u{d7ff}"),
            Just("12345678901234567"),
        ];
        proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn agrees_with_the_naive_index(text in texts(), line in 0u32..12, character in 0u32..40) {
            let index = LineIndex::new(&text);
            let lines = naive_lines(&text);
            prop_assert_eq!(index.line_count(), lines.len());
            for (line, (start, end)) in lines.iter().enumerate() {
                prop_assert_eq!(index.line_span(line), ByteSpan::new(*start, *end));
            }
            for encoding in ENCODINGS {
                for offset in 0..text.len() + 3 {
                    prop_assert_eq!(index.position(&text, offset, encoding), naive_position(&text, offset, encoding));
                }
                let position = Position { line, character };
                prop_assert_eq!(index.offset(&text, position, encoding), naive_offset(&text, position, encoding));
            }
        }

        #[test]
        fn an_update_gives_a_fresh_index(text in texts(), inserted in texts(), a in 0usize..200, b in 0usize..200) {
            let (a, b) = (a % (text.len() + 1), b % (text.len() + 1));
            let start = text.floor_char_boundary(a.min(b));
            let old_end = text.ceil_char_boundary(a.max(b));
            let mut new = text.clone();
            new.replace_range(start..old_end, &inserted);
            let mut index = LineIndex::new(&text);
            index.update(&new, start, old_end, start + inserted.len());
            prop_assert_eq!(index, LineIndex::new(&new));
        }

        #[test]
        fn offset_of_position_is_the_identity(text in texts()) {
            let index = LineIndex::new(&text);
            for encoding in ENCODINGS {
                for offset in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                    let inside_crlf = offset > 0 && text[..offset].ends_with('\r') && text[offset..].starts_with('\n');
                    let back = index.offset(&text, index.position(&text, offset, encoding), encoding);
                    prop_assert_eq!(back, if inside_crlf { offset - 1 } else { offset });
                }
            }
        }

        #[test]
        fn positions_grow_with_offsets(text in texts()) {
            let index = LineIndex::new(&text);
            for encoding in ENCODINGS {
                let positions: Vec<_> = (0..=text.len()).map(|at| index.position(&text, at, encoding)).collect();
                prop_assert!(positions.is_sorted());
            }
        }
    }
}
