//! What a person marks in an editor, written to the workspace's own annotation file at once.
//!
//! The file is read again before each change, and is replaced as a whole: a new file beside it, flushed to the disk, takes
//! its name. Rows and fields of other tools stay byte for byte. The caller says what it shows; where the file says
//! otherwise, somebody else was faster, and nothing is written.
//!
//! A record that knows its text speaks of that text. Where the function is another one now, a new record begins with what
//! still applies, and the old one stays: with it the version in git, or the other half of a pair, keeps its ground truth. So
//! it does where the record names another file that has the same text.

use super::dataset::MOST_ROW_BYTES;
use super::matching::{self, Match, Matched, Place};
use super::problem::RowProblem;
use super::store::{MOST_RECORDS, NATIVE_FILE};
use super::{FunctionLines, Label, LabelledLine, LineLabel, Provenance, Record, native, uri};
use std::cell::Cell;
use std::cmp::Reverse;
use std::path::{Path, PathBuf};

pub(super) mod file;
mod raw;
mod time;

pub use time::rfc3339;

/// Which function is annotated, and by whom.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The workspace folder; nothing is written outside it.
    pub workspace: &'a Path,
    /// The functions of the open file, and which of them is meant.
    pub functions: &'a [Place<'a>],
    pub function: usize,
    pub annotator: Option<&'a str>,
    /// Of the change, RFC 3339 ([`rfc3339`]).
    pub time: Option<&'a str>,
}

/// What was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Edited {
    pub path: PathBuf,
    /// The annotator's record of the function now; `None` if nothing is left of it.
    pub record: Option<Record>,
    /// Nobody set its label: it follows from its lines.
    pub label_from_lines: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum EditError {
    #[error("{}: {reason}", path.display())]
    File { path: PathBuf, reason: String },
    #[error("{} was changed by another program: {what}; nothing was written, look again", path.display())]
    Conflict { path: PathBuf, what: String },
    #[error("{} is being written by another program; try again", path.display())]
    Busy { path: PathBuf },
    #[error("{0}")]
    Refused(String),
}

/// Marks a 0-based line of the function as ground truth, or takes the mark away: the other of `is_marked`, which is what
/// the caller shows of this annotator. A function without a label becomes *vulnerable* by its first line; that goes again
/// with its last one.
pub fn toggle_line(site: &Site<'_>, line: usize, is_marked: bool) -> Result<Edited, EditError> {
    let place = site.place()?;
    let function = FunctionLines::new(place.text);
    if line >= function.count() || function.is_blank(line) {
        return Err(EditError::Refused("this line holds nothing that could be marked".to_string()));
    }
    site.change(|draft, conflict| {
        let marked = draft.record.lines.iter().position(|l| !draft.is_unmatched(l) && l.line == line);
        let is_flaw = marked.is_some_and(|at| draft.record.lines[at].label == LineLabel::Flaw);
        if is_flaw != is_marked {
            let state = if is_flaw { "is marked" } else { "is not marked" };
            return Err(conflict(format!("line {} of the function {state} there", line + 1)));
        }
        match (marked, is_marked) {
            (Some(at), true) => {
                draft.record.lines.remove(at);
            }
            (Some(at), false) => draft.record.lines[at].label = LineLabel::Flaw,
            (None, _) => draft.record.lines.push(function.labelled(line, LineLabel::Flaw)),
        }
        if !is_marked && draft.record.label == Label::Benign {
            return Err(EditError::Refused(
                "the function is labelled benign; set its label to vulnerable first".to_string(),
            ));
        }
        if draft.is_new {
            draft.label_from_lines = true;
        }
        Ok(())
    })
}

/// Sets the function's label; the label that it has already is taken away, so that the same action undoes. `shown` is
/// what the caller shows of this annotator.
pub fn set_label(site: &Site<'_>, shown: Option<Label>, label: Label) -> Result<Edited, EditError> {
    site.change(|draft, conflict| {
        let now = draft.label();
        // Who shows the records themselves shows the label of a mere note, too.
        let is_shown = now == shown || (!draft.is_new && shown == Some(draft.record.label));
        if !is_shown {
            return Err(conflict(match now {
                Some(now) => format!("the function is labelled {} there", name(now)),
                None => "the function has no label there".to_string(),
            }));
        }
        if label == Label::Benign && draft.is_carried && now != Some(label) {
            draft.record.lines.retain(|line| line.label != LineLabel::Flaw);
            draft.record.cwe.clear();
            draft.record.cve.clear();
        }
        if label == Label::Benign && now != Some(label) && draft.record.flaw_lines().next().is_some() {
            return Err(EditError::Refused(
                "the function has lines that are marked as ground truth; take these marks away first"
                    .to_string(),
            ));
        }
        if now == Some(label) && !draft.label_from_lines {
            let has_flaws = draft.record.flaw_lines().next().is_some();
            draft.record.label = if has_flaws { Label::Vulnerable } else { Label::Unsure };
            draft.label_from_lines = true;
        } else {
            draft.record.label = label;
            draft.label_from_lines = false;
        }
        Ok(())
    })
}

/// Sets or (with `None`, or blanks) removes the note. `shown` is what the caller shows of this annotator.
pub fn set_note(site: &Site<'_>, shown: Option<&str>, note: Option<&str>) -> Result<Edited, EditError> {
    site.change(|draft, conflict| {
        if draft.record.note.as_deref() != shown {
            return Err(conflict("the note is another one there".to_string()));
        }
        draft.record.note = note.filter(|note| !note.trim().is_empty()).map(str::to_string);
        if draft.is_new {
            draft.record.label = Label::Unsure;
            draft.label_from_lines = true;
        }
        Ok(())
    })
}

fn name(label: Label) -> &'static str {
    match label {
        Label::Vulnerable => "vulnerable",
        Label::Benign => "benign",
        Label::Unsure => "unsure",
    }
}

/// A record that is being changed.
struct Draft {
    record: Record,
    /// Labelled lines that are not in the text any more.
    unmatched: Vec<LabelledLine>,
    is_new: bool,
    /// What the annotator said of another text, as far as it applies: the start of a record of this one.
    is_carried: bool,
    /// Nobody set the label: it follows from the lines.
    label_from_lines: bool,
}

impl Draft {
    fn is_unmatched(&self, line: &LabelledLine) -> bool {
        self.unmatched.contains(line)
    }

    fn label(&self) -> Option<Label> {
        let is_implied = self.label_from_lines && self.record.flaw_lines().next().is_none();
        (!self.is_new && !is_implied).then_some(self.record.label)
    }

    /// Whether nothing is left that anybody said.
    fn is_empty(&self) -> bool {
        self.label_from_lines && self.record.lines.is_empty() && self.record.note.is_none()
    }
}

type Conflict<'a> = &'a dyn Fn(String) -> EditError;

impl<'a> Site<'a> {
    fn place(&self) -> Result<Place<'a>, EditError> {
        let missing = || EditError::Refused("there is no such function".to_string());
        self.functions.get(self.function).copied().ok_or_else(missing)
    }

    fn change(
        &self,
        change: impl Fn(&mut Draft, Conflict<'_>) -> Result<(), EditError>,
    ) -> Result<Edited, EditError> {
        let follows = Cell::new(false);
        let change = |draft: &mut Draft, conflict: Conflict<'_>| {
            change(draft, conflict)?;
            follows.set(draft.label_from_lines);
            Ok(())
        };
        let edit = |old: &[u8], path: &Path| {
            let conflict = |what: String| EditError::Conflict { path: path.to_path_buf(), what };
            self.edited(old, path, &change, &conflict)
        };
        let (path, record) = file::edit(self.workspace, NATIVE_FILE, edit)?;
        Ok(Edited { path, record, label_from_lines: follows.get() })
    }

    /// The file's new text and the record in it.
    fn edited(
        &self,
        old: &[u8],
        path: &Path,
        change: &impl Fn(&mut Draft, Conflict<'_>) -> Result<(), EditError>,
        conflict: Conflict<'_>,
    ) -> Result<(Vec<u8>, Option<Record>), EditError> {
        let unusable = |reason: String| EditError::File { path: path.to_path_buf(), reason };
        let rows = file::Rows::new(old);
        let mut records = Vec::new();
        let mut is_native = old.trim_ascii().is_empty();
        for (index, row) in rows.texts() {
            match native::parse(row) {
                Ok(native::Row::Record(record)) => records.push((index, *record)),
                Ok(native::Row::Header) => is_native = true,
                Err(RowProblem::Version(version)) => {
                    let reason =
                        format!("is of another version ({version}); this linelens must not change it");
                    return Err(unusable(reason));
                }
                Err(_) => {}
            }
        }
        if !is_native && records.is_empty() {
            let reason =
                "holds no row that is a record or header of linelens-annotations, so it is left as it is";
            return Err(unusable(reason.to_string()));
        }
        let count = records.len();
        let (numbers, own): (Vec<usize>, Vec<Record>) =
            records.into_iter().filter(|(_, record)| record.annotator.as_deref() == self.annotator).unzip();
        let found = matching::find(&own, self.functions);
        let place = self.place()?;
        let surest = |matched: &&Matched<'_>| {
            let is_text = matched.how <= Match::TextWithoutWhitespace;
            let is_here = !is_of_another_file(matched, &place);
            (is_text, is_here, Reverse(matched.how), position(&own, matched))
        };
        let matched =
            found.functions.get(self.function).and_then(|matched| matched.iter().max_by_key(surest));
        let known = matched.map(|matched| numbers[position(&own, matched)]);
        let mut draft = self.draft(matched, known.map(|row| rows.text(row)))?;
        let row = known.filter(|_| !draft.is_carried);
        let old_row = row.map(|row| rows.text(row));
        change(&mut draft, conflict)?;
        if draft.is_empty() {
            let Some(matched) = matched else { return Ok((old.to_vec(), None)) };
            // A record that says nothing keeps what was said of another text from speaking of this one.
            if !draft.is_carried && !self.is_spoken_of(&own, matched.record) {
                return Ok((row.map_or_else(|| old.to_vec(), |row| rows.without(&[row])), None));
            }
        }
        self.finish(&mut draft)?;
        let text = raw::row(&draft.record, draft.label_from_lines, old_row).map_err(unusable)?;
        let count = count + usize::from(row.is_none());
        if count > MOST_RECORDS {
            let reason = format!("would have more than {MOST_RECORDS} records, of which no more are read");
            return Err(unusable(reason));
        }
        // A line feed or CR LF belongs to the row as it is read.
        if text.len() + 2 > MOST_ROW_BYTES {
            let reason = format!("would have a row of more than {MOST_ROW_BYTES} bytes, which is not read");
            return Err(unusable(reason));
        }
        let new = match row {
            Some(row) => rows.with(row, &text),
            None => rows.with_new(&native::header(), &text),
        };
        Ok((new, Some(draft.record)))
    }

    fn draft(&self, matched: Option<&Matched<'_>>, row: Option<&str>) -> Result<Draft, EditError> {
        let place = self.place()?;
        let function = FunctionLines::new(place.text);
        let Some(matched) = matched else {
            let record = function.record(Label::Vulnerable, []);
            return Ok(Draft {
                record,
                unmatched: Vec::new(),
                is_new: true,
                is_carried: false,
                label_from_lines: false,
            });
        };
        let label_from_lines = row.is_some_and(raw::has_label_from_lines);
        if is_of_another_text(matched) || is_of_another_file(matched, &place) {
            let lines = matched.lines.iter().map(|(line, label)| function.labelled(*line, *label)).collect();
            let file = matched.record.file.clone().filter(|_| !is_of_another_file(matched, &place));
            let record = Record { file, lines, pair: None, dataset: None, ..matched.record.clone() };
            return Ok(Draft {
                record,
                unmatched: Vec::new(),
                is_new: false,
                is_carried: true,
                label_from_lines,
            });
        }
        let mut record = matched.record.clone();
        let unmatched: Vec<LabelledLine> = matched.unmatched.iter().map(|line| (*line).clone()).collect();
        if matched.how != Match::Text {
            record.lines =
                matched.lines.iter().map(|(line, label)| function.labelled(*line, *label)).collect();
            record.lines.extend(unmatched.iter().cloned());
        }
        Ok(Draft { record, unmatched, is_new: false, is_carried: false, label_from_lines })
    }

    /// Whether the annotator says something of the function beside `but`.
    fn is_spoken_of(&self, own: &[Record], but: &Record) -> bool {
        let others: Vec<Record> = own.iter().filter(|record| !std::ptr::eq(*record, but)).cloned().collect();
        let found = matching::find(&others, self.functions);
        found.functions.get(self.function).is_some_and(|matched| !matched.is_empty())
    }

    /// The record as one of the function's text of today.
    fn finish(&self, draft: &mut Draft) -> Result<(), EditError> {
        let place = self.place()?;
        let function = FunctionLines::new(place.text);
        let record = &mut draft.record;
        if let Some(file) = place.file.and_then(uri::from_path) {
            record.file = Some(file);
            record.range = Some((place.first_line, place.first_line + function.count() - 1));
        }
        record.function = Some(place.name.to_string());
        // A record with lines of another text is not one of this text; its lines are looked for again each time.
        let is_whole = draft.unmatched.is_empty();
        record.body_sha256 = is_whole.then(|| function.sha256());
        record.body_sha256_ws = is_whole.then(|| function.sha256_ws());
        record.annotator = self.annotator.map(str::to_string);
        record.time = self.time.map(str::to_string);
        record.source = Some(Provenance::Manual);
        renumber(&mut record.lines, &draft.unmatched, function.count());
        if record.range.is_some_and(|(first, last)| record.lines.iter().any(|line| line.line > last - first))
        {
            record.range = None;
        }
        record.lines.sort_by_key(|line| line.line);
        if draft.label_from_lines {
            record.label =
                if record.flaw_lines().next().is_some() { Label::Vulnerable } else { Label::Unsure };
        }
        Ok(())
    }
}

/// Whether the record knows its text, and that is not the function's of today, whitespace apart.
fn is_of_another_text(matched: &Matched<'_>) -> bool {
    let knows_its_text = matched.record.body_sha256.is_some() || matched.record.body_sha256_ws.is_some();
    knows_its_text && matched.how > Match::TextWithoutWhitespace
}

/// Whether the record names another file that has the same text: it goes on speaking of that one.
fn is_of_another_file(matched: &Matched<'_>, place: &Place<'_>) -> bool {
    let named = matched.record.file.as_deref().and_then(uri::to_path);
    named.is_some_and(|named| place.file != Some(named.as_str()))
}

fn position(records: &[Record], matched: &Matched<'_>) -> usize {
    records.iter().position(|record| std::ptr::eq(record, matched.record)).unwrap_or_default()
}

/// Every line has a number of its own: those that are not in the text make way for those that are.
fn renumber(lines: &mut [LabelledLine], unmatched: &[LabelledLine], count: usize) {
    let mut taken: Vec<usize> =
        lines.iter().filter(|line| !unmatched.contains(line)).map(|line| line.line).collect();
    for line in lines.iter_mut().filter(|line| unmatched.contains(line)) {
        let free = |number: &usize| !taken.contains(number);
        let nearest = (0..count).filter(free).min_by_key(|number| number.abs_diff(line.line));
        line.line = nearest.or_else(|| (count..).find(free)).unwrap_or(line.line);
        taken.push(line.line);
    }
}
