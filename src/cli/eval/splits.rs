//! Datasets as they are evaluated: read once to know what is in them, and again for the texts.

use super::super::output::{Failure, Output};
use crate::annotations::dataset::{self, Format};
use crate::annotations::policy::Policy;
use crate::annotations::{RowError, Sample};
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
    /// Of the file as it lies there, hex.
    pub(super) sha256: String,
    pub(super) format: Format,
    pub(super) facts: Vec<Facts>,
    pub(super) malformed: Malformed,
    pub(super) leakage: Option<LeakageReport>,
    pub(super) policy: Policy,
    /// Native records that are part of another's function.
    pub(super) merged: usize,
    /// Of native files, whose records have to be merged: the functions.
    functions: Option<Vec<Sample>>,
    limit: usize,
}

/// How a dataset is read.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    pub(super) format: Option<Format>,
    pub(super) role: Role,
    pub(super) limit: Option<u64>,
    pub(super) policy: &'a Policy,
}

/// Rows that were skipped, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct Malformed {
    pub(super) kinds: BTreeMap<&'static str, usize>,
    /// The first of them, as sentences.
    pub(super) examples: Vec<String>,
}

const EXAMPLES: usize = 10;

impl Malformed {
    pub(in crate::cli) fn count(&mut self, error: &crate::annotations::RowError) {
        *self.kinds.entry(error.reason.kind()).or_default() += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(error.to_string());
        }
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
            output.warn(&format!("{name}: {} rows were skipped: {}", self.total(), kinds.join(", ")));
        }
    }
}

/// Reads a dataset once; with training data, also what it shares with that.
pub(super) fn survey(
    path: &Path,
    reading: &Reading<'_>,
    train: Option<&TrainingData>,
    output: &mut Output,
) -> Result<Split, Failure> {
    let limit = reading.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let samples = open(path, reading.format)?;
    let mut split = Split {
        path: path.to_path_buf(),
        sha256: file_sha256(path)?,
        format: samples.format(),
        name,
        role: reading.role,
        facts: Vec::new(),
        malformed: Malformed::default(),
        leakage: train.map(|_| LeakageReport::default()),
        policy: reading.policy.clone(),
        merged: 0,
        functions: None,
        limit,
    };
    let mut samples: Box<dyn Iterator<Item = Result<Sample, RowError>>> = match split.format {
        Format::Native => {
            let mut records = Vec::new();
            for sample in samples {
                match sample {
                    Ok(sample) => records.push(sample),
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
                if let (Some(report), Some(train)) = (&mut split.leakage, train) {
                    report.count(facts.index, train.look_up(&facts, &Signature::of(&sample.code)));
                }
                split.facts.push(facts);
                if split.facts.len().is_multiple_of(1000) {
                    output.progress(&format!("{}: {} functions", shown(path), split.facts.len()));
                }
            }
        }
    }
    output.progress("");
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
    /// The functions with their texts, in the order and with the numbers of `facts`.
    pub(super) fn samples(&self) -> Result<impl Iterator<Item = (usize, Sample)> + use<'_>, Failure> {
        let samples: Box<dyn Iterator<Item = Sample> + '_> = match &self.functions {
            Some(functions) => Box::new(functions.iter().cloned()),
            None => Box::new(open(&self.path, Some(self.format))?.flatten()),
        };
        Ok(samples.take(self.limit.min(self.facts.len())).enumerate())
    }
}

/// Copies are not independent: intervals over them are too narrow.
pub(super) fn repeated(found: Repeats) -> Option<String> {
    let Repeats { rows, differing } = found;
    (rows > 0)
        .then(|| format!("{rows} rows repeat a text (of them {differing} with another label or other lines)"))
}

/// The training data to compare with.
pub(super) fn training_data(
    paths: &[PathBuf],
    format: Option<Format>,
    output: &mut Output,
) -> Result<Option<TrainingData>, Failure> {
    if paths.is_empty() {
        return Ok(None);
    }
    let mut train = TrainingData::default();
    for path in paths {
        let mut malformed = Malformed::default();
        for (number, sample) in open(path, format)?.enumerate() {
            match sample {
                Ok(sample) => train.add(&sample.code, sample.commit.as_deref()),
                Err(error) => malformed.count(&error),
            }
            if number % 1000 == 0 {
                output.progress(&format!("{}: {number} functions", shown(path)));
            }
        }
        output.progress("");
        malformed.warn(&shown(path), output);
    }
    Ok(Some(train))
}

/// A threshold that was tuned on a function says nothing about that function.
pub(super) fn refuse_shared(tuned_on: &Split, evaluated: &Split) -> Result<(), Failure> {
    let refuse = |what: String| {
        Err(Failure::new(format!(
            "--threshold-from {}: a threshold must not be tuned on what is evaluated: {what}; use a split apart from {}",
            shown(&tuned_on.path),
            shown(&evaluated.path)
        )))
    };
    if tuned_on.sha256 == evaluated.sha256 {
        return refuse("both files are the same".to_string());
    }
    let known: HashMap<[u8; 16], usize> =
        tuned_on.facts.iter().map(|facts| (facts.fingerprint.without_whitespace, facts.row)).collect();
    let mut shared = evaluated
        .facts
        .iter()
        .filter_map(|facts| Some((known.get(&facts.fingerprint.without_whitespace)?, facts.row)));
    match shared.next() {
        None => Ok(()),
        Some((there, here)) => refuse(format!(
            "{} functions are in both, whitespace aside; the first is row {there} there and row {here} here",
            1 + shared.count()
        )),
    }
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
