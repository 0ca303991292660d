//! Data sets, streamed: one function after the other, in constant memory, plain or gzip-compressed.
//!
//! The format is recognised by the content. A row that contradicts itself is a [`RowError`] and is skipped; nothing is
//! guessed. Blank lines are never ground truth: a line without a token can be neither wrong nor scored.

use super::problem::RowError;
use super::{AtOdds, DatasetRow, FunctionLines, Record, Sample};
use sha2::{Digest, Sha256};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

mod detect;
mod json;
pub(super) mod located;
mod pairing;
mod rows;
mod sarif;
pub(super) mod strict;
mod table;

pub use rows::MOST_ROW_BYTES;

/// How a file is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `linelens-annotations`: records without code, looked up in the files they name.
    Native,
    /// One function a JSON row: `func`, `target`, `flaw_lines` (1-based), `pair_id`, …
    Functions,
    /// CSV with `func_before` and `func_after`.
    BigVul,
    /// CSV with `processed_func`, `flaw_line` and `flaw_line_index`.
    LineVul,
    /// JSON rows; in its paired files two rows that follow each other are a function and its fix.
    PrimeVul,
    /// JSON rows with `func_src_before`, `func_src_after` and `line_changes`.
    Sven,
    /// Devign and CodeXGLUE: JSON rows with a label of the function only.
    Devign,
    /// JSON rows with a label of the function only.
    DiverseVul,
    /// SARIF 2.1.0: regions of files, looked up there.
    Sarif,
}

impl Format {
    pub const ALL: &[Format] = &[
        Format::Native,
        Format::Functions,
        Format::BigVul,
        Format::LineVul,
        Format::PrimeVul,
        Format::Sven,
        Format::Devign,
        Format::DiverseVul,
        Format::Sarif,
    ];

    /// The name used on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Native => "native",
            Format::Functions => "functions",
            Format::BigVul => "bigvul",
            Format::LineVul => "linevul",
            Format::PrimeVul => "primevul",
            Format::Sven => "sven",
            Format::Devign => "devign",
            Format::DiverseVul => "diversevul",
            Format::Sarif => "sarif",
        }
    }

    /// Whether its rows hold the functions' text.
    pub fn has_code(self) -> bool {
        !matches!(self, Format::Native | Format::Sarif)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Format, String> {
        Format::ALL.iter().copied().find(|format| format.as_str() == name).ok_or_else(|| {
            let names: Vec<&str> = Format::ALL.iter().map(|format| format.as_str()).collect();
            format!("{name:?} is no format; there are {}", names.join(", "))
        })
    }
}

/// Why a file is not read at all.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{}: is not a regular file", path.display())]
    NotAFile { path: PathBuf },
    #[error("{}: {reason}; name its format, one of {}", path.display(), names())]
    Unrecognised { path: PathBuf, reason: String },
    #[error("{}: is not {format}: {reason}", path.display())]
    NotOfFormat { path: PathBuf, format: Format, reason: String },
}

fn names() -> String {
    Format::ALL.iter().map(|format| format.as_str()).collect::<Vec<_>>().join(", ")
}

/// The functions of a data set with their text. The functions of formats that hold no text ([`Format::has_code`]) are
/// read from the files they name, relative to the folder of `path` (the folder above, if that is `.linelens`), and never
/// from outside it.
pub fn open(path: &Path, format: Option<Format>) -> Result<Samples, DatasetError> {
    open_in(path, format, &located::root_of(path))
}

/// [`open`], with the files that records name relative to `root`.
pub fn open_in(path: &Path, format: Option<Format>, root: &Path) -> Result<Samples, DatasetError> {
    let samples = import(path, format)?;
    if samples.format.has_code() {
        return Ok(samples);
    }
    let located = located::Located::new(samples.rows, root.to_path_buf());
    let rows: Rows = match samples.format {
        Format::Sarif => Box::new(std::iter::once_with(|| located::joined(located)).flatten()),
        _ => Box::new(located),
    };
    Ok(Samples { format: samples.format, rows })
}

/// [`import`], but the functions of SARIF results are looked up as by [`open`], for without them nothing says which record
/// belongs to which function. A result whose function is not found there stays as it is, without code.
pub fn import_located(path: &Path, format: Option<Format>) -> Result<Samples, DatasetError> {
    let samples = import(path, format)?;
    if samples.format != Format::Sarif {
        return Ok(samples);
    }
    let located = located::Located::new(samples.rows, located::root_of(path)).or_as_it_is();
    let rows: Rows = Box::new(std::iter::once_with(|| located::joined(located)).flatten());
    Ok(Samples { format: samples.format, rows })
}

/// [`open`], but nothing is looked up elsewhere: the code of formats that hold none is empty.
pub fn import(path: &Path, format: Option<Format>) -> Result<Samples, DatasetError> {
    let unreadable = |source| DatasetError::Unreadable { path: path.to_path_buf(), source };
    let input =
        rows::open(path).map_err(unreadable)?.ok_or(DatasetError::NotAFile { path: path.to_path_buf() })?;
    let format = match format {
        Some(format) => format,
        None => detect::detect(input.head())
            .map_err(|reason| DatasetError::Unrecognised { path: path.to_path_buf(), reason })?,
    };
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let tag = tag(path, input.head());
    let not_of_format = |reason| DatasetError::NotOfFormat { path: path.to_path_buf(), format, reason };
    let rows: Rows = match format {
        Format::BigVul | Format::LineVul => {
            Box::new(table::Table::new(input, format, name).map_err(not_of_format)?)
        }
        Format::Sarif => Box::new(sarif::read(input, &name).map_err(not_of_format)?),
        _ => Box::new(json::JsonSamples::new(input, format, name).map_err(unreadable)?),
    };
    let rows: Rows = match format {
        Format::Native => rows,
        _ => Box::new(rows.map(move |row| row.map(|sample| with_range(with_own_pair(sample, &tag))))),
    };
    Ok(Samples { format, rows })
}

/// What tells a file's pairs from those of another of the same name: its length and how it begins.
fn tag(path: &Path, head: &[u8]) -> String {
    let mut hasher = Sha256::new();
    hasher.update(std::fs::metadata(path).map_or(0, |metadata| metadata.len()).to_le_bytes());
    hasher.update(head);
    hasher.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

fn with_own_pair(mut sample: Sample, tag: &str) -> Sample {
    if let Some(pair) = &mut sample.record.pair {
        pair.id = format!("{}#{tag}", pair.id);
    }
    sample
}

/// A function that stands in no file is a text of so many lines, without which nobody can tell how far annotators agree.
fn with_range(mut sample: Sample) -> Sample {
    let record = &mut sample.record;
    if record.file.is_none() && record.range.is_none() && !sample.code.is_empty() {
        record.range = Some((0, FunctionLines::new(&sample.code).text_count() - 1));
    }
    sample
}

type Rows = Box<dyn Iterator<Item = Result<Sample, RowError>> + Send>;

/// The functions of a data set, in its order.
pub struct Samples {
    format: Format,
    rows: Rows,
}

impl Samples {
    pub fn format(&self) -> Format {
        self.format
    }
}

impl Iterator for Samples {
    type Item = Result<Sample, RowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.rows.next()
    }
}

impl fmt::Debug for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Samples").field("format", &self.format).finish_non_exhaustive()
    }
}

/// A sample that says nothing yet but where it comes from.
fn sample(row: usize, name: &str, code: String, record: Record) -> Sample {
    let dataset = DatasetRow { name: name.to_string(), row: row.to_string() };
    Sample {
        row,
        id: None,
        code,
        record: Record { dataset: Some(dataset), ..record },
        collection: None,
        project: None,
        commit: None,
        columns: (None, None),
        at_odds: AtOdds::default(),
        is_region: false,
    }
}

/// `cwe-79` → `CWE-79`; what data sets write for "none" is nothing.
fn identifiers<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for text in texts {
        let text = text.trim();
        if text.is_empty() || ["none", "nan", "null", "n/a"].contains(&text.to_ascii_lowercase().as_str()) {
            continue;
        }
        let text = match text.get(..4) {
            Some("cwe-" | "cve-") => text.to_ascii_uppercase(),
            _ => text.to_string(),
        };
        if !found.contains(&text) {
            found.push(text);
        }
    }
    found
}
