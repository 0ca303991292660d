//! Bytes of a file as rows, one at a time: lines, elements of a JSON array. No row makes memory grow without limit.

use crate::annotations::problem::RowProblem;
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// The longest row that is read.
pub const MOST_ROW_BYTES: usize = 64 << 20;

/// How much of a file is looked at to recognise its format.
const HEAD_BYTES: usize = 1 << 20;

/// A file's bytes, decompressed, whose beginning can be looked at. A byte order mark is left out.
pub(super) struct Input {
    head: Vec<u8>,
    at: usize,
    /// What went wrong while looking, said when the bytes before it were read.
    fault: Option<io::Error>,
    rest: BufReader<Box<dyn Read + Send>>,
}

/// `None` if the path is no regular file: reading a pipe or a device may never end.
pub(super) fn open(path: &Path) -> io::Result<Option<Input>> {
    if !std::fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let file = BufReader::with_capacity(1 << 16, File::open(path)?);
    Input::new(file).map(Some)
}

impl Input {
    pub(super) fn new(mut file: impl BufRead + Send + 'static) -> io::Result<Input> {
        let compressed = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
        let bytes: Box<dyn Read + Send> =
            if compressed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
        let mut rest = BufReader::with_capacity(1 << 16, bytes);
        let mut head = Vec::new();
        let fault = (&mut rest).take(HEAD_BYTES as u64).read_to_end(&mut head).err();
        let at = if head.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        Ok(Input { head, at, fault, rest })
    }

    /// The beginning of the file: all of it, or so much that a format can be recognised.
    pub(super) fn head(&self) -> &[u8] {
        &self.head[self.at..]
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let count = available.len().min(buffer.len());
        buffer[..count].copy_from_slice(&available[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Input {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at < self.head.len() {
            return Ok(&self.head[self.at..]);
        }
        self.head = Vec::new();
        self.at = 0;
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        self.rest.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        if self.at < self.head.len() {
            self.at += count;
        } else {
            self.rest.consume(count);
        }
    }
}

/// The JSON texts of a file: its lines, or the elements of the array that it is.
pub(super) struct JsonRows<R> {
    input: R,
    shape: Shape,
    row: usize,
    ended: bool,
    most_bytes: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Lines,
    Array,
}

/// A row's number, from 1, and its bytes.
pub(super) type NumberedRow = (usize, Result<Vec<u8>, RowProblem>);

impl<R: BufRead> JsonRows<R> {
    pub(super) fn new(mut input: R) -> io::Result<JsonRows<R>> {
        // The row number counts lines, so white space before the first row is not skipped here unless it is an array.
        let head = input.fill_buf()?;
        let blanks = head.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let is_array = head.get(blanks) == Some(&b'[');
        if is_array {
            input.consume(blanks + 1);
        }
        let shape = if is_array { Shape::Array } else { Shape::Lines };
        Ok(JsonRows { input, shape, row: 0, ended: false, most_bytes: MOST_ROW_BYTES })
    }

    #[cfg(test)]
    fn with_limit(mut self, most_bytes: usize) -> Self {
        self.most_bytes = most_bytes;
        self
    }

    /// The bytes up to where `end_of`, which sees them in order and each once, says that a row ends.
    fn gather(&mut self, mut end_of: impl FnMut(&[u8]) -> Option<usize>) -> io::Result<Gathered> {
        let mut gathered = Gathered { bytes: Vec::new(), is_too_long: false, is_empty: true, end: None };
        loop {
            let available = match self.input.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if available.is_empty() {
                return Ok(gathered);
            }
            gathered.is_empty = false;
            let end = end_of(available);
            let content = &available[..end.unwrap_or(available.len())];
            gathered.is_too_long |= gathered.bytes.len() + content.len() > self.most_bytes;
            if gathered.is_too_long {
                gathered.bytes = Vec::new();
            } else {
                gathered.bytes.extend_from_slice(content);
            }
            gathered.end = end.map(|end| available[end]);
            let count = end.map_or(available.len(), |end| end + 1);
            self.input.consume(count);
            if end.is_some() {
                return Ok(gathered);
            }
        }
    }

    fn line(&mut self) -> io::Result<Option<Result<Vec<u8>, RowProblem>>> {
        let line = self.gather(|bytes| bytes.iter().position(|byte| *byte == b'\n'))?;
        Ok((!line.is_empty).then(|| line.row(self.most_bytes)))
    }

    /// The next element, by brackets and strings alone, so that a bad element does not hide those after it.
    fn element(&mut self) -> io::Result<Option<Result<Vec<u8>, RowProblem>>> {
        let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
        let element = self.gather(|bytes| {
            bytes.iter().position(|byte| {
                if in_string {
                    in_string = escaped || *byte != b'"';
                    escaped = !escaped && *byte == b'\\';
                    return false;
                }
                match byte {
                    b'"' => in_string = true,
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' if depth > 0 => depth -= 1,
                    b',' | b']' if depth == 0 => return true,
                    _ => {}
                }
                false
            })
        })?;
        self.ended = element.end != Some(b',');
        if element.end.is_none() {
            let cut = RowProblem::NotJson("the file ends before the array does".to_string());
            return Ok(Some(Err(cut)));
        }
        let is_empty_end = self.ended && !element.is_too_long && element.bytes.trim_ascii().is_empty();
        Ok((!is_empty_end).then(|| element.row(self.most_bytes)))
    }
}

/// A row as it was read.
struct Gathered {
    /// Nothing where it is too long.
    bytes: Vec<u8>,
    is_too_long: bool,
    /// There was nothing to read.
    is_empty: bool,
    /// The byte that ended it; `None` where the file did.
    end: Option<u8>,
}

impl Gathered {
    fn row(self, most_bytes: usize) -> Result<Vec<u8>, RowProblem> {
        if self.is_too_long { Err(RowProblem::TooLong(most_bytes)) } else { Ok(self.bytes) }
    }
}

impl<R: BufRead> Iterator for JsonRows<R> {
    type Item = NumberedRow;

    fn next(&mut self) -> Option<NumberedRow> {
        loop {
            if self.ended {
                return None;
            }
            self.row += 1;
            let read = match self.shape {
                Shape::Lines => self.line(),
                Shape::Array => self.element(),
            };
            match read {
                Ok(Some(Ok(bytes))) if self.shape == Shape::Lines && bytes.trim_ascii().is_empty() => {}
                Ok(Some(row)) => return Some((self.row, row)),
                Ok(None) => {
                    self.ended = true;
                    return None;
                }
                Err(error) => {
                    self.ended = true;
                    return Some((self.row, Err(RowProblem::Unreadable(error.to_string()))));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str, capacity: usize) -> Vec<(usize, Result<String, &'static str>)> {
        let input = BufReader::with_capacity(capacity, io::Cursor::new(text.to_string()));
        let rows = JsonRows::new(input).unwrap().with_limit(9);
        rows.map(|(row, bytes)| {
            let text = bytes.map(|bytes| String::from_utf8(bytes).unwrap());
            (row, text.map_err(|problem| problem.kind()))
        })
        .collect()
    }

    #[test]
    fn lines_are_numbered_and_blank_ones_skipped() {
        for capacity in [1, 3, 100] {
            let text = "{}\n\n {1}\r\n0123456789\n{2}";
            let expected = [
                (1, Ok("{}".to_string())),
                (3, Ok(" {1}\r".to_string())),
                (4, Err("too long")),
                (5, Ok("{2}".to_string())),
            ];
            assert_eq!(rows(text, capacity), expected);
        }
    }

    #[test]
    fn elements_of_an_array_are_rows() {
        for capacity in [1, 3, 100] {
            let text = "[ {},\n{\"]\\\"\":[1,2]}, bad, {\"a\": 1} ] rest";
            let found = if capacity == 1 { rows(text, 2) } else { rows(text, capacity) };
            let expected = [
                (1, Ok(" {}".to_string())),
                (2, Err("too long")),
                (3, Ok(" bad".to_string())),
                (4, Ok(" {\"a\": 1} ".to_string())),
            ];
            // The last element has ten bytes with its spaces.
            assert_eq!(found[..3], expected[..3]);
            assert_eq!(found[3], (4, Err("too long")));
            assert_eq!(found.len(), 4);
        }
        assert_eq!(rows("[]", 9), []);
        assert_eq!(rows("[1", 9), [(1, Err("not JSON"))]);
        assert_eq!(rows("[1,", 9), [(1, Ok("1".to_string())), (2, Err("not JSON"))]);
    }

    #[test]
    fn compressed_files_and_byte_order_marks_are_seen_through() {
        use std::io::Write;
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packed.write_all(b"\xef\xbb\xbfone\n").unwrap();
        let mut bytes = packed.finish().unwrap();
        let mut second = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        second.write_all(b"two\n").unwrap();
        bytes.extend(second.finish().unwrap());
        let mut text = String::new();
        Input::new(io::Cursor::new(bytes.clone())).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\ntwo\n");
        bytes.truncate(bytes.len() - 3);
        let rows: Vec<_> = JsonRows::new(Input::new(io::Cursor::new(bytes)).unwrap()).unwrap().collect();
        let kinds: Vec<_> =
            rows.iter().map(|(row, read)| (*row, read.as_ref().err().map(RowProblem::kind))).collect();
        assert_eq!(
            kinds,
            [(1, None), (2, None), (3, Some("unreadable"))],
            "what was cut off is said, what stands before is read"
        );
    }
}
