//! Datasets as they are evaluated: read once to know what is in them, and again for the texts.

use super::super::output::{Failure, Output};
use crate::annotations::dataset::{self, Format};
use crate::annotations::policy::Policy;
use crate::annotations::problem::{RowProblem, counted};
use crate::annotations::{AtOdds, RowError, Sample};
use crate::escape;
use crate::evaluation::Facts;
use crate::evaluation::leakage::{LeakageReport, Signature, TrainingData};
use crate::evaluation::merge::{Repeats, merge, repeats};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::path::{Path, PathBuf};

/// What a split is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Evaluated,
    /// The threshold is tuned on it.
    Threshold,
}

/// A dataset that was read once.
#[derive(Debug)]
pub(super) struct Split {
    pub(super) path: PathBuf,
    /// Its file's name.
    pub(super) name: String,
    pub(super) role: Role,
    /// Over the file's bytes as it was read, hex.
    pub(super) file_sha256: String,
    /// Over every function's text, label and ground-truth lines: what was evaluated, wherever it was read from.
    pub(super) functions_sha256: String,
    pub(super) format: Format,
    pub(super) facts: Vec<Facts>,
    pub(super) malformed: Malformed,
    pub(super) leakage: Option<LeakageReport>,
    /// Functions that are nearly the same as one of the split that the threshold is tuned on.
    pub(super) near_threshold: Option<usize>,
    pub(super) policy: Policy,
    /// Native records that are part of another's function.
    pub(super) merged: usize,
    /// Of native files, whose records have to be merged: the functions.
    functions: Option<Vec<Sample>>,
}

/// How a dataset is read.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    pub(super) format: Option<Format>,
    pub(super) role: Role,
    /// To say what the split shares with it.
    pub(super) train: Option<&'a TrainingData>,
    /// The functions that the threshold is tuned on.
    pub(super) tuned_on: Option<&'a TrainingData>,
    pub(super) limit: Option<u64>,
    pub(super) policy: &'a Policy,
}

/// Rows that were skipped, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct Malformed {
    pub(super) kinds: BTreeMap<&'static str, usize>,
    /// The first of them, as sentences.
    pub(super) examples: Vec<String>,
    /// Records of functions that were changed since, as by their fix. Nothing is wrong with them.
    pub(super) gone: usize,
    /// Labelled lines that contradict the text that their record has the hash of.
    pub(super) at_odds: AtOdds,
}

const EXAMPLES: usize = 10;

impl Malformed {
    pub(in crate::cli) fn count(&mut self, error: &crate::annotations::RowError) {
        if matches!(error.reason, RowProblem::Gone(_)) {
            self.gone += 1;
            return;
        }
        *self.kinds.entry(error.reason.kind()).or_default() += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(error.to_string());
        }
    }

    /// A sentence about what was skipped.
    pub(super) fn sentence(&self) -> Option<String> {
        let kinds: Vec<String> = self.kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let rows = match self.total() {
            0 => return None,
            1 => "1 row was".to_string(),
            several => format!("{several} rows were"),
        };
        Some(format!("{rows} malformed and skipped: {}.", kinds.join(", ")))
    }

    pub(in crate::cli) fn total(&self) -> usize {
        self.kinds.values().sum()
    }

    /// Says on standard error what was skipped.
    pub(in crate::cli) fn warn(&self, name: &str, output: &mut Output) {
        for example in &self.examples {
            output.warn(&format!("{name}: {}", escape::terminal(example)));
        }
        if self.total() > 0 {
            let kinds: Vec<String> =
                self.kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
            let rows = counted(self.total(), "row was", "rows were");
            output.warn(&format!("{name}: {rows} skipped: {}", kinds.join(", ")));
        }
        for said in self.outdated().into_iter().chain(self.contradicted()) {
            output.warn(&format!("{name}: {said}"));
        }
    }

    /// Lines whose number and text say different things: the text counts, as in the editor.
    pub(super) fn contradicted(&self) -> Option<String> {
        let AtOdds { moved, missing } = self.at_odds;
        let moved = (moved > 0).then(|| {
            let (one, many) = (
                "labelled line has another number than its text",
                "labelled lines have other numbers than their texts",
            );
            format!("{}, which counts", counted(moved, one, many))
        });
        let missing = (missing > 0).then(|| {
            let (one, many) = (
                "labelled line is not in the text of its function",
                "labelled lines are not in the texts of their functions",
            );
            format!("{}: no ground truth", counted(missing, one, many))
        });
        let said: Vec<String> = moved.into_iter().chain(missing).collect();
        (!said.is_empty()).then(|| said.join("; "))
    }

    pub(super) fn outdated(&self) -> Option<String> {
        (self.gone > 0).then(|| {
            let (one, many) = (
                "record labels a text that its file holds no more: it is left out",
                "records label texts that their files hold no more: they are left out",
            );
            counted(self.gone, one, many)
        })
    }
}

/// Reads a dataset once, and hands every function's text to `take`.
pub(super) fn survey(
    path: &Path,
    reading: &Reading<'_>,
    take: &mut dyn FnMut(&Sample),
    output: &mut Output,
) -> Result<Split, Failure> {
    let limit = reading.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let file_sha256_before = file_sha256(path)?;
    let samples = open(path, reading.format)?;
    let mut split = Split {
        path: path.to_path_buf(),
        file_sha256: file_sha256_before,
        functions_sha256: String::new(),
        format: samples.format(),
        name,
        role: reading.role,
        facts: Vec::new(),
        malformed: Malformed::default(),
        leakage: reading.train.map(|_| LeakageReport::default()),
        near_threshold: reading.tuned_on.map(|_| 0),
        policy: reading.policy.clone(),
        merged: 0,
        functions: None,
    };
    let mut samples: Box<dyn Iterator<Item = Result<Sample, RowError>>> = match split.format {
        Format::Native => {
            let mut records = Vec::new();
            for sample in samples {
                match sample {
                    Ok(sample) => {
                        split.malformed.at_odds.moved += sample.at_odds.moved;
                        split.malformed.at_odds.missing += sample.at_odds.missing;
                        records.push(sample);
                    }
                    Err(error) => split.malformed.count(&error),
                }
            }
            split.merged = records.len();
            let functions = merge(records, reading.policy);
            split.merged -= functions.len();
            split.functions = Some(functions.clone());
            Box::new(functions.into_iter().map(Ok))
        }
        _ => Box::new(samples),
    };
    while split.facts.len() < limit {
        match samples.next() {
            None => break,
            Some(Err(error)) => split.malformed.count(&error),
            Some(Ok(sample)) => {
                let facts = Facts::of(split.facts.len(), &sample);
                split.compare(&facts, &sample.code, reading);
                take(&sample);
                split.facts.push(facts);
                if split.facts.len().is_multiple_of(1000) {
                    output.progress(&format!("{}: {} functions", shown(path), split.facts.len()));
                }
            }
        }
    }
    output.progress("");
    if file_sha256(path)? != split.file_sha256 {
        return Err(changed(path, "while it was read"));
    }
    split.functions_sha256 = functions_sha256(&split.facts);
    split.malformed.warn(&shown(path), output);
    if let Some(said) = repeated(repeats(&split.facts)) {
        output.warn(&format!("{}: {said}", shown(path)));
    }
    if split.facts.is_empty() {
        return Err(Failure::new(format!("{}: there is no function in it", shown(path))));
    }
    Ok(split)
}

impl Split {
    /// Counts what a function shares with other data.
    fn compare(&mut self, facts: &Facts, code: &str, reading: &Reading<'_>) {
        if reading.train.is_none() && reading.tuned_on.is_none() {
            return;
        }
        let signature = Signature::of(code);
        if let (Some(report), Some(train)) = (&mut self.leakage, reading.train) {
            report.count(facts.index, train.look_up(facts, &signature));
        }
        if let (Some(count), Some(tuned_on)) = (&mut self.near_threshold, reading.tuned_on) {
            *count += usize::from(tuned_on.look_up(facts, &signature).nearest.is_some());
        }
    }

    /// The functions with their texts, in the order and with the numbers of `facts`. What is not what was read the first
    /// time is an error: the results would be of a file that no hash names.
    pub(super) fn samples(
        &self,
    ) -> Result<impl Iterator<Item = Result<(usize, Sample), Failure>> + use<'_>, Failure> {
        let mut samples: Box<dyn Iterator<Item = Sample> + '_> = match &self.functions {
            Some(functions) => Box::new(functions.iter().cloned()),
            None => Box::new(open(&self.path, Some(self.format))?.flatten()),
        };
        let changed = || changed(&self.path, "since this run began to read it");
        Ok(self.facts.iter().map(move |facts| {
            let sample = samples.next().ok_or_else(changed)?;
            if Facts::of(facts.index, &sample) != *facts {
                return Err(changed());
            }
            Ok((facts.index, sample))
        }))
    }

    /// The name by which results know a function's text.
    pub(super) fn text(&self, function: usize) -> String {
        self.facts.get(function).map(|facts| facts.fingerprint.to_hex()).unwrap_or_default()
    }

    /// Fails where the file is not any more what was read.
    pub(super) fn check_file(&self) -> Result<(), Failure> {
        if file_sha256(&self.path)? == self.file_sha256 {
            return Ok(());
        }
        Err(changed(&self.path, "since this run began to read it"))
    }

    /// What of several annotators holds, or why nobody has to be asked.
    pub(super) fn annotation_policy(&self) -> String {
        match self.format {
            Format::Native => self.policy.to_string(),
            Format::Sarif => {
                "none: what a run or an annotator says of a function is a function of its own".to_string()
            }
            _ => "none: each row is a function of its own, with the labels of the row".to_string(),
        }
    }
}

fn changed(path: &Path, when: &str) -> Failure {
    Failure::new(format!(
        "{} was changed {when}; its hash would not be that of what was evaluated: leave the file alone, and run again in \
         another folder",
        shown(path)
    ))
}

fn functions_sha256(facts: &[Facts]) -> String {
    let mut hasher = Sha256::new();
    for facts in facts {
        hasher.update(facts.fingerprint.exact);
        hasher.update(format!("{:?} {:?}\n", facts.label, facts.truth));
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Copies are not independent: intervals over them are too narrow.
pub(super) fn repeated(found: Repeats) -> Option<String> {
    let Repeats { rows, differing } = found;
    (rows > 0).then(|| {
        let rows = counted(rows, "row repeats", "rows repeat");
        format!("{rows} a text (of them {differing} with another label or other lines)")
    })
}

/// A file that the splits are compared with.
#[derive(Debug)]
pub(super) struct TrainingFile {
    pub(super) name: String,
    /// Over the file's bytes, hex.
    pub(super) file_sha256: String,
    pub(super) format: Format,
    pub(super) functions: usize,
    pub(super) malformed: Malformed,
}

/// The training data to compare with, and which files it is of.
pub(super) fn training_data(
    paths: &[PathBuf],
    format: Option<Format>,
    output: &mut Output,
) -> Result<(Option<TrainingData>, Vec<TrainingFile>), Failure> {
    if paths.is_empty() {
        return Ok((None, Vec::new()));
    }
    let mut train = TrainingData::default();
    let mut files = Vec::new();
    let mut known: HashMap<String, &PathBuf> = HashMap::new();
    for path in paths {
        let sha256 = file_sha256(path)?;
        if let Some(first) = known.get(&sha256) {
            output.warn(&format!("{}: is the same as {} and counts once", shown(path), shown(first)));
            continue;
        }
        known.insert(sha256.clone(), path);
        let samples = open(path, format)?;
        let mut file = TrainingFile {
            name: path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
            file_sha256: sha256,
            format: samples.format(),
            functions: 0,
            malformed: Malformed::default(),
        };
        for sample in samples {
            match sample {
                Ok(sample) => {
                    train.add(&sample.code, sample.commit.as_deref());
                    file.functions += 1;
                    if file.functions.is_multiple_of(1000) {
                        output.progress(&format!("{}: {} functions", shown(path), file.functions));
                    }
                }
                Err(error) => file.malformed.count(&error),
            }
        }
        output.progress("");
        if file_sha256(path)? != file.file_sha256 {
            return Err(changed(path, "while it was read"));
        }
        file.malformed.warn(&shown(path), output);
        files.push(file);
    }
    Ok((Some(train), files))
}

/// A threshold that was tuned on a function says nothing about that function, whatever its layout and its comments.
pub(super) fn refuse_shared(tuned_on: &Split, evaluated: &Split) -> Result<(), Failure> {
    let refuse = |what: String| {
        Err(Failure::new(format!(
            "--threshold-from {}: a threshold must not be tuned on what is evaluated: {what}; use a split apart from {}",
            shown(&tuned_on.path),
            shown(&evaluated.path)
        )))
    };
    if tuned_on.file_sha256 == evaluated.file_sha256 {
        return refuse("both files are the same".to_string());
    }
    let mut texts: HashMap<[u8; 16], usize> = HashMap::new();
    let mut code: HashMap<[u8; 16], usize> = HashMap::new();
    for facts in &tuned_on.facts {
        texts.entry(facts.fingerprint.without_whitespace).or_insert(facts.row);
        if let Some(of_code) = facts.fingerprint.of_code {
            code.entry(of_code).or_insert(facts.row);
        }
    }
    let mut shared = evaluated.facts.iter().filter_map(|facts| {
        let of_code = facts.fingerprint.of_code.and_then(|of_code| code.get(&of_code));
        Some((*texts.get(&facts.fingerprint.without_whitespace).or(of_code)?, facts.row))
    });
    match shared.next() {
        None => Ok(()),
        Some((there, here)) => refuse(format!(
            "{} in both, comments and whitespace aside; the first is row {there} there and row {here} here",
            counted(1 + shared.count(), "function is", "functions are")
        )),
    }
}

/// What is nearly the same is not refused: fixes and their functions are, too.
pub(super) fn near_threshold(split: &Split) -> Option<String> {
    let count = split.near_threshold.filter(|count| *count > 0)?;
    Some(format!(
        "{} nearly the same as one that the threshold is tuned on (Jaccard index of shingles at least 0.8), so that the \
         threshold may flatter",
        counted(count, "function is", "functions are")
    ))
}

pub(in crate::cli) fn format(name: Option<&str>) -> Result<Option<Format>, Failure> {
    name.map(|name| name.parse().map_err(Failure::new)).transpose()
}

pub(in crate::cli) fn open(path: &Path, format: Option<Format>) -> Result<dataset::Samples, Failure> {
    dataset::open(path, format).map_err(|error| Failure::new(error.to_string()))
}

pub(in crate::cli) fn shown(path: &Path) -> String {
    escape::terminal(&path.display().to_string())
}

pub(super) fn file_sha256(path: &Path) -> Result<String, Failure> {
    let unreadable =
        |error: std::io::Error| Failure::new(format!("{}: cannot be read: {error}", shown(path)));
    let mut file = std::fs::File::open(path).map_err(unreadable)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).map_err(unreadable)? {
            0 => break,
            read => hasher.update(&buffer[..read]),
        }
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
