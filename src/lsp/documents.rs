//! The open documents: immutable snapshots that every thread may read, and what is known about each.

use crate::analysis::agreement::GroundTruth;
use crate::analysis::{Finding, Options};
use crate::lsp::hints::Hint;
use crate::lsp::proto::ext::TruthLineMessage;
use crate::lsp::proto::from_proto;
use crate::syntax::{Edit, Function, Language, NoFunction, SyntaxTree};
use crate::text::{ByteSpan, LineIndex, PositionEncoding};
use dashmap::{DashMap, Entry};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tower_lsp::ls_types::{Diagnostic, TextDocumentContentChangeEvent, TextDocumentItem, Uri};

/// A text up to this size is parsed when it changes; a larger one when somebody needs its functions.
const EAGER_BYTES: usize = 4 << 20;

/// One version of a document.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) uri: Uri,
    pub(crate) version: i32,
    pub(crate) language: Language,
    pub(crate) text: Arc<str>,
    pub(crate) lines: LineIndex,
    tree: OnceLock<SyntaxTree>,
    functions: OnceLock<Vec<LocatedFunction>>,
}

/// A function and the identity of its text.
#[derive(Clone, Debug)]
pub(crate) struct LocatedFunction {
    pub(crate) function: Function,
    pub(crate) key: TextKey,
}

/// Identifies a function by its text: equal texts have equal findings, up to where they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TextKey {
    hash: u64,
    length: usize,
}

impl TextKey {
    fn new(text: &str) -> TextKey {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        TextKey { hash: hasher.finish(), length: text.len() }
    }
}

impl Snapshot {
    pub(crate) fn new(item: TextDocumentItem) -> Snapshot {
        let extension = from_proto::extension(&item.uri);
        let language = Language::detect(extension.as_deref(), Some(&item.language_id), &item.text);
        let snapshot = Snapshot {
            uri: item.uri,
            version: item.version,
            language,
            lines: LineIndex::new(&item.text),
            text: item.text.into(),
            tree: OnceLock::new(),
            functions: OnceLock::new(),
        };
        if snapshot.text.len() <= EAGER_BYTES {
            snapshot.tree();
        }
        snapshot
    }

    /// Parses the text, where that has not been done.
    pub(crate) fn tree(&self) -> &SyntaxTree {
        self.tree.get_or_init(|| SyntaxTree::parse(&self.text, self.language))
    }

    /// All functions; may parse a large text, so not for handlers.
    pub(crate) fn functions(&self) -> &[LocatedFunction] {
        self.functions.get_or_init(|| {
            let functions = self.tree().functions(&self.text);
            functions.into_iter().map(|function| self.located(function)).collect()
        })
    }

    /// The function at an offset; may parse a large text.
    pub(crate) fn function_at(&self, offset: usize) -> Result<LocatedFunction, NoFunction> {
        Ok(self.located(self.tree().function_at(&self.text, offset)?))
    }

    /// The function at an offset, where finding it is quick; `None` where a text that takes long is not parsed yet.
    pub(crate) fn function_at_now(&self, offset: usize) -> Option<Result<LocatedFunction, NoFunction>> {
        let is_quick = match self.tree.get() {
            Some(tree) => tree.is_quick_at(offset),
            None => self.text.len() <= EAGER_BYTES && self.tree().is_quick_at(offset),
        };
        is_quick.then(|| self.function_at(offset))
    }

    fn located(&self, function: Function) -> LocatedFunction {
        let key = TextKey::new(function.span.of(&self.text).unwrap_or_default());
        LocatedFunction { function, key }
    }

    /// The snapshot after the client's changes, and the changes as edits, each on the text its predecessors made.
    pub(crate) fn changed(
        &self,
        version: i32,
        changes: Vec<TextDocumentContentChangeEvent>,
        encoding: PositionEncoding,
    ) -> (Snapshot, Vec<Edit>) {
        let mut text = String::from(&*self.text);
        let mut lines = self.lines.clone();
        let mut edits = Vec::with_capacity(changes.len());
        for change in changes {
            let edit = match change.range {
                Some(range) => {
                    let a = lines.offset(&text, from_proto::position(range.start), encoding);
                    let b = lines.offset(&text, from_proto::position(range.end), encoding);
                    replace(&mut text, a.min(b), a.max(b), &change.text)
                }
                None => replace_all(&mut text, change.text),
            };
            lines.update(&text, edit.start, edit.old_end, edit.new_end);
            edits.push(edit);
        }
        let tree = self.tree.get().filter(|_| text.len() <= EAGER_BYTES);
        let tree = match edits.iter().copied().reduce(Edit::then) {
            Some(all) => tree.map(|tree| tree.edited(&self.text, &text, all)),
            None => tree.cloned(),
        };
        let text = text.into();
        let snapshot = Snapshot {
            uri: self.uri.clone(),
            version,
            language: self.language,
            text,
            lines,
            tree: tree.map_or_else(OnceLock::new, OnceLock::from),
            functions: OnceLock::new(),
        };
        (snapshot, edits)
    }
}

fn replace(text: &mut String, start: usize, old_end: usize, inserted: &str) -> Edit {
    text.replace_range(start..old_end, inserted);
    Edit { start, old_end, new_end: start + inserted.len() }
}

/// A new full text as the smallest edit, so that functions outside it keep their findings.
fn replace_all(text: &mut String, new: String) -> Edit {
    let old = std::mem::replace(text, new);
    let new = text.as_str();
    let mut start = old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
    while !(old.is_char_boundary(start) && new.is_char_boundary(start)) {
        start -= 1;
    }
    let rest = old.len().min(new.len()) - start;
    let mut tail = old.bytes().rev().zip(new.bytes().rev()).take(rest).take_while(|(a, b)| a == b).count();
    while !(old.is_char_boundary(old.len() - tail) && new.is_char_boundary(new.len() - tail)) {
        tail -= 1;
    }
    Edit { start, old_end: old.len() - tail, new_end: new.len() - tail }
}

/// Where an offset lies after an edit; one inside the replaced text lies inside the new text.
pub(crate) fn map_offset(offset: usize, edit: Edit) -> usize {
    if offset >= edit.old_end {
        offset - edit.old_end + edit.new_end
    } else {
        offset.min(edit.start.max(edit.new_end))
    }
}

/// Where a span lies after an edit; text inserted at one of its ends stays outside.
pub(crate) fn map_span(span: ByteSpan, edit: Edit) -> ByteSpan {
    let start = map_offset(span.start, edit);
    let end = if edit.start >= span.end { span.end } else { map_offset(span.end, edit) };
    ByteSpan::new(start, end.max(start))
}

/// Whether an edit changes the text of a span. One that only touches an end does not.
pub(crate) fn changes_span(span: ByteSpan, edit: Edit) -> bool {
    edit.start < span.end && span.start < edit.old_end
        || edit.start == edit.old_end && span.start < edit.start && edit.start < span.end
}

/// The finding of a function text, moved to where that text stands now.
pub(crate) fn moved(finding: &Finding, function: &Function, lines: &LineIndex) -> Finding {
    let start_line = lines.line_at(function.span.start);
    let old_start = finding.start_line;
    let shift = |line: usize| (line + start_line).saturating_sub(old_start);
    let mut moved = finding.clone();
    moved.function = function.clone();
    moved.start_line = start_line;
    moved.end_line = shift(finding.end_line);
    for line in &mut moved.lines {
        line.line = shift(line.line);
    }
    let of_units = moved.statements.iter_mut().flat_map(|units| units.lines.iter_mut().flatten());
    let of_units = of_units.chain(moved.units.iter_mut().map(|unit| &mut unit.line));
    for line in moved.unseen_lines.iter_mut().chain(of_units) {
        *line = shift(*line);
    }
    moved
}

/// What came out for a function text.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Found(Arc<Finding>),
    /// The verdict alone.
    Glanced(Arc<Finding>),
    Failed(Arc<str>),
}

impl Outcome {
    pub(crate) fn is_glance(&self) -> bool {
        matches!(self, Outcome::Glanced(_))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) options: Options,
    pub(crate) outcome: Outcome,
}

/// An open document.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) changed_at: Instant,
    /// A byte offset of the snapshot, where one is known.
    pub(crate) cursor: Option<usize>,
    /// Where the user pointed last; for plain clients that is all there is to know about the cursor.
    pub(crate) hovered: Option<usize>,
    /// The lines that the client shows, where it said so.
    pub(crate) visible: Option<RangeInclusive<usize>>,
    /// Cursor or pointer moved after the last edit, so that their functions need not wait for the typing to pause.
    pub(crate) cursor_moved: bool,
    pub(crate) known: HashMap<TextKey, Known>,
    /// Findings of every method that was asked for, newest last.
    found: HashMap<TextKey, Vec<(Options, Arc<Finding>)>>,
    /// The version for which the user cancelled the background work.
    pub(crate) paused: Option<i32>,
    pub(crate) published: Published,
}

/// What the client was last told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published {
    pub(crate) version: i32,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The answer to the last pull; `None` before the first.
    pub(crate) pulled: Option<Vec<Diagnostic>>,
    /// The diagnostics for which the client was last asked to pull again.
    pub(crate) refreshed: Option<Vec<Diagnostic>>,
    pub(crate) relevance: Vec<RelevanceMark>,
    pub(crate) relevance_version: i32,
    /// Ground truth in functions without relevance.
    pub(crate) truth: Vec<TruthLineMessage>,
    /// What the lenses that the client was last asked to renew said.
    pub(crate) lenses: Vec<String>,
    /// The hints that the client was last asked to renew.
    pub(crate) hints: Vec<Hint>,
}

impl Published {
    /// Whether the client shows something, or may.
    pub(crate) fn is_something(&self) -> bool {
        let pulled =
            self.pulled.as_ref().is_some_and(|pulled| !pulled.is_empty()) && self.refreshed.is_none();
        pulled || !self.diagnostics.is_empty() || !self.relevance.is_empty() || !self.truth.is_empty()
    }
}

/// Tells one function of a relevance message from another.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RelevanceMark {
    pub(crate) key: TextKey,
    pub(crate) options: Options,
    pub(crate) start: usize,
    pub(crate) truth: Option<GroundTruth>,
    pub(crate) ignored: Option<String>,
}

impl Document {
    pub(crate) fn new(snapshot: Snapshot) -> Document {
        Document {
            snapshot: Arc::new(snapshot),
            changed_at: Instant::now(),
            cursor: None,
            hovered: None,
            visible: None,
            cursor_moved: false,
            known: HashMap::new(),
            found: HashMap::new(),
            paused: None,
            published: Published::default(),
        }
    }

    /// Takes over what came out for a function text, which is what is known of it under these options.
    pub(crate) fn learn(&mut self, key: TextKey, options: Options, outcome: Outcome) {
        if let Outcome::Found(finding) = &outcome {
            self.learn_beside(key, options, Arc::clone(finding));
        }
        self.known.insert(key, Known { options, outcome });
    }

    /// Takes over a finding that was asked for, beside what is known under the present settings.
    pub(crate) fn learn_beside(&mut self, key: TextKey, options: Options, finding: Arc<Finding>) {
        if self.found.len() >= MOST_TEXTS && !self.found.contains_key(&key) {
            self.found.clear();
        }
        let found = self.found.entry(key).or_default();
        found.retain(|(other, _)| *other != options);
        if found.len() >= MOST_METHODS {
            found.remove(0);
        }
        found.push((options, finding));
    }

    /// The findings of other methods for a function text, everything else being as in these options.
    pub(crate) fn other_methods(&self, key: TextKey, options: &Options) -> Vec<Arc<Finding>> {
        let is_other = |other: &Options| {
            other.method != options.method && Options { method: options.method, ..*other } == *options
        };
        let found = self.found.get(&key).into_iter().flatten();
        let mut others: Vec<_> = found.filter(|(other, _)| is_other(other)).collect();
        others.sort_by_key(|(other, _)| other.method.to_string());
        others.into_iter().map(|(_, finding)| Arc::clone(finding)).collect()
    }

    /// Nothing is known any more.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
        self.found.clear();
    }

    /// What is known about a function text under these options.
    pub(crate) fn outcome(&self, key: TextKey, options: &Options) -> Option<&Outcome> {
        self.known.get(&key).filter(|known| known.options == *options).map(|known| &known.outcome)
    }
}

/// Findings beside the present ones are kept for so many texts of a document, and so many of each.
const MOST_TEXTS: usize = 1000;
const MOST_METHODS: usize = 40;

/// All open documents. Every method is short and holds no lock when it returns.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    documents: DashMap<Uri, Document>,
}

impl Documents {
    /// Whether the document was open already; then the client still shows what it was told about it.
    pub(crate) fn open(&self, snapshot: Snapshot) -> bool {
        let uri = snapshot.uri.clone();
        let mut document = Document::new(snapshot);
        match self.documents.entry(uri) {
            Entry::Occupied(mut old) => {
                document.published = std::mem::take(&mut old.get_mut().published);
                old.insert(document);
                true
            }
            Entry::Vacant(place) => {
                place.insert(document);
                false
            }
        }
    }

    pub(crate) fn close(&self, uri: &Uri) -> Option<Document> {
        self.documents.remove(uri).map(|(_, document)| document)
    }

    pub(crate) fn snapshot(&self, uri: &Uri) -> Option<Arc<Snapshot>> {
        self.documents.get(uri).map(|document| Arc::clone(&document.snapshot))
    }

    pub(crate) fn snapshots(&self) -> Vec<Arc<Snapshot>> {
        self.documents.iter().map(|document| Arc::clone(&document.snapshot)).collect()
    }

    pub(crate) fn read<T>(&self, uri: &Uri, read: impl FnOnce(&Document) -> T) -> Option<T> {
        self.documents.get(uri).map(|document| read(&document))
    }

    pub(crate) fn update<T>(&self, uri: &Uri, update: impl FnOnce(&mut Document) -> T) -> Option<T> {
        self.documents.get_mut(uri).map(|mut document| update(&mut document))
    }

    /// Applies the client's changes; `None` where the document is not open.
    pub(crate) fn change(
        &self,
        uri: &Uri,
        version: i32,
        changes: Vec<TextDocumentContentChangeEvent>,
        encoding: PositionEncoding,
    ) -> Option<Vec<Edit>> {
        let old = self.snapshot(uri)?;
        let (snapshot, edits) = old.changed(version, changes, encoding);
        self.update(uri, |document| {
            document.cursor = cursor_after(document.cursor, &edits);
            document.hovered = None;
            document.cursor_moved = false;
            document.snapshot = Arc::new(snapshot);
            document.changed_at = Instant::now();
        })?;
        Some(edits)
    }
}

/// One edit tells where the cursor is; several (a formatter, a rename) move it along.
fn cursor_after(cursor: Option<usize>, edits: &[Edit]) -> Option<usize> {
    match edits {
        [edit] => Some(edit.new_end),
        edits => cursor.map(|cursor| edits.iter().fold(cursor, |cursor, edit| map_offset(cursor, *edit))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_text_becomes_the_smallest_edit() {
        let edit = |old: &str, new: &str| replace_all(&mut old.to_string(), new.to_string());
        assert_eq!(edit("abc", "abXc"), Edit { start: 2, old_end: 2, new_end: 3 });
        assert_eq!(edit("aaa", "aa"), Edit { start: 2, old_end: 3, new_end: 2 });
        assert_eq!(edit("same", "same"), Edit { start: 4, old_end: 4, new_end: 4 });
        assert_eq!(edit("", "x"), Edit { start: 0, old_end: 0, new_end: 1 });
        // é and è share their first byte, and è and Ũ (C5 A8) their last.
        assert_eq!(edit("é", "è"), Edit { start: 0, old_end: 2, new_end: 2 });
        assert_eq!(edit("è", "Ũ"), Edit { start: 0, old_end: 2, new_end: 2 });
    }

    fn snapshot(text: &str) -> Snapshot {
        let uri = "file:///w/a.c".parse().expect("a URI");
        Snapshot::new(TextDocumentItem {
            uri,
            language_id: "c".to_owned(),
            version: 1,
            text: text.to_owned(),
        })
    }

    fn change(line: u32, from: u32, to: u32, text: &str) -> TextDocumentContentChangeEvent {
        let at = |character| tower_lsp::ls_types::Position { line, character };
        let range = Some(tower_lsp::ls_types::Range { start: at(from), end: at(to) });
        TextDocumentContentChangeEvent { range, range_length: None, text: text.to_owned() }
    }

    #[test]
    fn changes_of_one_message_build_on_each_other() {
        let old = snapshot("int f(void) { return 1; }\nint g(void) { }\n");
        let changes = [
            change(1, 4, 5, "h"),
            change(0, 4, 5, "é\r"),
            change(0, 5, 5, "\n"),
            change(3, 0, 0, "int i(int a) { "),
            TextDocumentContentChangeEvent {
                range: None,
                range_length: None,
                text: "int j() { }".to_owned(),
            },
            change(0, 11, 11, "\nint k() { }"),
        ];
        for count in 0..=changes.len() {
            let (new, edits) = old.changed(2, changes[..count].to_vec(), PositionEncoding::Utf16);
            assert_eq!(edits.len(), count);
            assert_eq!(new.lines, LineIndex::new(&new.text), "{:?}", new.text);
            let fresh = SyntaxTree::parse(&new.text, Language::C);
            assert_eq!(new.tree().functions(&new.text), fresh.functions(&new.text), "{:?}", new.text);
        }
    }

    #[test]
    fn five_thousand_changes_are_one_parse() {
        let old = snapshot(&"int f(int a) { return a; } // twenty-nine\n".repeat(25_000));
        let changes: Vec<_> = (0..5_000).map(|line| change(line * 5, 22, 23, "bc")).collect();
        let (new, edits) = old.changed(2, changes, PositionEncoding::Utf16);
        assert_eq!(edits.len(), 5_000);
        assert_eq!(new.text.matches("return bc;").count(), 5_000);
        assert_eq!(new.lines, LineIndex::new(&new.text));
        assert_eq!(new.tree().function_at(&new.text, 20).map(|function| function.name).as_deref(), Ok("f"));
    }

    #[test]
    fn offsets_follow_edits() {
        let edit = Edit { start: 10, old_end: 14, new_end: 11 };
        assert_eq!([3, 10, 12, 14, 20].map(|offset| map_offset(offset, edit)), [3, 10, 11, 11, 17]);
    }

    #[test]
    fn only_edits_inside_change_a_span() {
        let span = ByteSpan::new(10, 20);
        let edit = |start, old_end| Edit { start, old_end, new_end: start + 1 };
        for (start, old_end, changes) in [
            (0, 5, false),
            (0, 10, false),
            (10, 10, false),
            (20, 20, false),
            (20, 25, false),
            (15, 15, true),
            (0, 11, true),
            (19, 30, true),
            (0, 30, true),
        ] {
            assert_eq!(changes_span(span, edit(start, old_end)), changes, "{start}..{old_end}");
        }
    }
}
