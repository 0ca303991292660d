//! Ground truth of the workspace folders: what their annotation files say of the functions of open documents.

mod files;

pub(crate) use files::{Change, annotator, are_annotations, can_label, edit, ignore, refresh};

use crate::analysis::agreement::GroundTruth;
use crate::analysis::{Finding, pair};
use crate::annotations::Record;
use crate::annotations::ignores::{Ignore, Ignores, Scope};
use crate::annotations::matching::{Match, Place};
use crate::annotations::policy::Policy;
use crate::annotations::store::{FileProblem, Store};
use crate::detector::DetectorInfo;
use crate::lsp::documents::Snapshot;
use crate::lsp::proto::ext::TruthLineMessage;
use crate::lsp::proto::from_proto;
use crate::lsp::shared::Shared;
use crate::syntax::Function;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tower_lsp::ls_types::Uri;

/// What the annotation files of all folders say, as they were last read, and what that means for open documents.
#[derive(Debug, Default)]
pub(crate) struct TruthStore {
    folders: Vec<FolderTruth>,
    documents: HashMap<Uri, DocumentTruth>,
    /// Files of which the client was warned.
    warned: Vec<PathBuf>,
}

/// What the annotation files of one folder say.
#[derive(Debug)]
struct FolderTruth {
    root: PathBuf,
    patterns: Vec<String>,
    store: Arc<Store>,
    ignores: Arc<Ignores>,
}

/// What was found for the functions of a document's text.
#[derive(Debug)]
struct DocumentTruth {
    text: Arc<str>,
    store: Arc<Store>,
    policy: Policy,
    functions: Arc<Vec<Option<GroundTruth>>>,
    /// Records that belong to none of them: the 0-based line on which each stood, and a sentence.
    lost: Arc<Vec<(usize, FileProblem)>>,
}

type Truths = (Arc<Vec<Option<GroundTruth>>>, Arc<Vec<(usize, FileProblem)>>);

impl TruthStore {
    /// The innermost folder that holds a file.
    fn folder(&self, file: &Path) -> Option<&FolderTruth> {
        let holding = self.folders.iter().filter(|folder| file.starts_with(&folder.root));
        holding.max_by_key(|folder| folder.root.as_os_str().len())
    }

    /// A document was closed.
    pub(crate) fn forget(&mut self, uri: &Uri) {
        self.documents.remove(uri);
    }
}

impl Shared {
    /// What the annotation files say of a function of a document; needs the document's functions.
    pub(crate) fn truth_of(&self, snapshot: &Snapshot, function: &Function) -> Option<GroundTruth> {
        let truths = self.truths_of(snapshot)?;
        let functions = snapshot.functions();
        let number = functions.iter().position(|other| other.function.span == function.span)?;
        truths.get(number)?.clone()
    }

    /// The ground-truth lines of a document in the functions whose numbers are not in `without`.
    pub(crate) fn truth_lines(&self, snapshot: &Snapshot, without: &[usize]) -> Vec<TruthLineMessage> {
        let truths = self.truths_of(snapshot);
        let others = truths.iter().flat_map(|truths| truths.iter().enumerate());
        let others =
            others.filter(|(number, _)| !without.contains(number)).filter_map(|(_, truth)| truth.as_ref());
        let lines =
            others.flat_map(|truth| truth.lines.iter().map(|line| (*line, truth.approximate.contains(line))));
        // Functions may hold each other.
        let lines: BTreeMap<usize, bool> = lines.collect();
        lines.into_iter().map(|(line, approximate)| TruthLineMessage { line, approximate }).collect()
    }

    /// For each function of a document; `None` where there is no annotation at all.
    fn truths_of(&self, snapshot: &Snapshot) -> Option<Arc<Vec<Option<GroundTruth>>>> {
        Some(self.document_truth(snapshot)?.0)
    }

    /// The records that name a document but belong to none of its functions.
    pub(crate) fn lost_of(&self, snapshot: &Snapshot) -> Arc<Vec<(usize, FileProblem)>> {
        self.document_truth(snapshot).map(|(_, lost)| lost).unwrap_or_default()
    }

    fn document_truth(&self, snapshot: &Snapshot) -> Option<Truths> {
        let (file, store) = self.store_of(&snapshot.uri)?;
        let policy = self.settings_of(&snapshot.uri).annotation_policy;
        let known = self.truth().documents.get(&snapshot.uri).and_then(|known| {
            let is_same = Arc::ptr_eq(&known.text, &snapshot.text)
                && Arc::ptr_eq(&known.store, &store)
                && known.policy == policy;
            is_same.then(|| (Arc::clone(&known.functions), Arc::clone(&known.lost)))
        });
        if known.is_some() {
            return known;
        }
        let functions: Vec<&Function> =
            snapshot.functions().iter().map(|located| &located.function).collect();
        let places = functions.iter().map(|function| place(snapshot, function, Some(&file)));
        let places: Vec<Place<'_>> = places.collect();
        let found = store.find_in(Some(&file), &places);
        let lost = found.lost.iter().map(|(number, record)| {
            (record.range.map_or(0, |(first, _)| first), store.lost(*number, record))
        });
        let lost = Arc::new(lost.collect::<Vec<_>>());
        let truths = found.functions.iter().zip(&places);
        let truths = truths
            .map(|(matched, place)| GroundTruth::of_matches(matched, &policy, place.first_line, place.text));
        let functions = Arc::new(truths.collect::<Vec<_>>());
        let known = DocumentTruth {
            text: Arc::clone(&snapshot.text),
            store: Arc::clone(&store),
            policy,
            functions: Arc::clone(&functions),
            lost: Arc::clone(&lost),
        };
        self.truth_mut().documents.insert(snapshot.uri.clone(), known);
        Some((functions, lost))
    }

    /// What is said of the very text of a function, wherever it stands: an older version's name and file are the newer
    /// one's, so they tell nothing. The text starts on line `first_line` of its document.
    pub(crate) fn truth_of_text(
        &self,
        uri: &Uri,
        name: &str,
        text: &str,
        first_line: usize,
    ) -> Option<GroundTruth> {
        let (_, store) = self.store_of(uri)?;
        let policy = self.settings_of(uri).annotation_policy;
        let place = Place { file: None, name, first_line, text };
        let mut found = store.find(&[place]);
        let mut matched = found.functions.pop()?;
        matched.retain(|matched| matched.how <= Match::TextWithoutWhitespace);
        GroundTruth::of_matches(&matched, &policy, first_line, text)
    }

    /// Why a flagged function is passed over, where it is. The finding is at home in the snapshot.
    pub(crate) fn ignored(
        &self,
        snapshot: &Snapshot,
        finding: &Finding,
        model: &DetectorInfo,
    ) -> Option<Ignore> {
        if !finding.flagged {
            return None;
        }
        let path = from_proto::file_path(&snapshot.uri)?;
        let ignores = Arc::clone(&self.truth().folder(&path)?.ignores);
        let text = finding.function.span.of(&snapshot.text).unwrap_or_default();
        ignores.of(&finding.function.name, text, &scope(model, finding.threshold)).cloned()
    }

    /// The path of a document relative to its folder, with `/` between names, and what the folder's files say.
    fn store_of(&self, uri: &Uri) -> Option<(String, Arc<Store>)> {
        let path = from_proto::file_path(uri)?;
        let truth = self.truth();
        let folder = truth.folder(&path)?;
        let store = Arc::clone(&folder.store);
        (!store.records().is_empty()).then_some(())?;
        Some((relative(&path, &folder.root)?, store))
    }

    /// The other half of the pair that a function of a document is one of.
    pub(crate) fn partner_of(&self, snapshot: &Snapshot, function: &Function) -> Option<Partner> {
        let (file, store) = self.store_of(&snapshot.uri)?;
        let root = self.truth().folder(&from_proto::file_path(&snapshot.uri)?)?.root.clone();
        let functions = snapshot.functions();
        let places: Vec<Place<'_>> =
            functions.iter().map(|located| place(snapshot, &located.function, Some(&file))).collect();
        let number = functions.iter().position(|other| other.function.span == function.span)?;
        let found = store.find(&places);
        let record = pair::partner(found.functions.get(number)?, store.records())?.clone();
        Some(Partner { root, record, store })
    }
}

pub(crate) fn scope(model: &DetectorInfo, threshold: f64) -> Scope<'_> {
    Scope { model: &model.name, sha256: &model.sha256, threshold }
}

/// A record of the other half of a pair.
#[derive(Debug)]
pub(crate) struct Partner {
    pub(crate) root: PathBuf,
    pub(crate) record: Record,
    pub(crate) store: Arc<Store>,
}

/// With `/` between names.
fn relative(path: &Path, root: &Path) -> Option<String> {
    let names: Option<Vec<&str>> =
        path.strip_prefix(root).ok()?.components().map(|name| name.as_os_str().to_str()).collect();
    Some(names?.join("/"))
}

fn place<'a>(snapshot: &'a Snapshot, function: &'a Function, file: Option<&'a str>) -> Place<'a> {
    Place {
        file,
        name: &function.name,
        first_line: snapshot.lines.line_at(function.span.start),
        text: function.span.of(&snapshot.text).unwrap_or_default(),
    }
}
