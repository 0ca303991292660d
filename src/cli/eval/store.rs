//! The folder of a run: what it is a run of (`manifest.json`), and its results as they come (`results.jsonl`), from which
//! an interrupted run goes on.

use super::super::output::{Failure, Output};
use super::rows::{Known, Place, Row, Said};
use super::splits::shown;
use crate::annotations::atomic::{self, AtomicFile};
use crate::annotations::broken;
use crate::annotations::dataset::MOST_ROW_BYTES;
use crate::annotations::problem::shortened;
use crate::evaluation::{Explanation, Score};
use crate::explain::Method;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const MANIFEST: &str = "manifest.json";
const RESULTS: &str = "results.jsonl";
/// What is written beside the results.
pub(super) const REPORTS: [&str; 3] = ["report.json", "report.md", "report.html"];

/// One model on one split.
pub(super) type Part = (usize, usize);

/// All results so far, in memory and (where there is a folder) on disk.
#[derive(Debug, Default)]
pub(super) struct Store {
    scores: HashMap<Part, HashMap<usize, Result<Score, String>>>,
    explanations: HashMap<(Part, Method), HashMap<usize, Result<Explanation, String>>>,
    file: Option<(PathBuf, File)>,
}

impl Store {
    /// Opens a folder, making it if need be. A folder of another run is refused; results that cannot be results of this
    /// one are computed again.
    pub(super) fn open(
        folder: &Path,
        manifest: &Value,
        known: &Known<'_>,
        output: &mut Output,
    ) -> Result<Store, Failure> {
        let failed = |path: &Path, what: &str, error: std::io::Error| {
            Failure::new(format!("{}: {what}: {error}", shown(path)))
        };
        if folder.exists() && !folder.is_dir() {
            return Err(Failure::new(format!(
                "{} is a file, not a folder: name a folder for the reports and results with --out",
                shown(folder)
            )));
        }
        std::fs::create_dir_all(folder).map_err(|error| failed(folder, "cannot be made", error))?;
        // Before hours of work, not after them.
        for name in REPORTS {
            let path = folder.join(name);
            atomic::refuse_link(&path).map_err(|error| failed(&path, "cannot be written", error))?;
        }
        let manifest_path = folder.join(MANIFEST);
        // What is not ours is not replaced.
        if std::fs::symlink_metadata(&manifest_path).is_err() {
            for name in REPORTS {
                let path = folder.join(name);
                if std::fs::symlink_metadata(&path).is_ok() {
                    return Err(Failure::new(format!(
                        "{} is there already, and no {MANIFEST} beside it says that it is a report of this command; nothing \
                         is overwritten: choose another folder with --out",
                        shown(&path)
                    )));
                }
            }
        }
        let path = folder.join(RESULTS);
        // Nothing is made in a folder that turns out to be another's.
        let found = match std::fs::read_to_string(&manifest_path) {
            Ok(text) => Some(same_run(&manifest_path, &text, manifest)?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(&manifest_path, "cannot be read", error)),
        };
        let mut file =
            atomic::open_to_append(&path).map_err(|error| failed(&path, "cannot be opened", error))?;
        file.try_lock().map_err(|error| {
            Failure::new(format!(
                "{}: another run writes here ({error}); wait for it, or choose another folder",
                shown(&path)
            ))
        })?;
        match found {
            Some(Training::Same) => {}
            Some(Training::Differs) => write_whole(&manifest_path, format!("{manifest:#}\n").as_bytes())?,
            None => {
                let length = file.metadata().map_err(|error| failed(&path, "cannot be read", error))?.len();
                if length > 0 {
                    return Err(Failure::new(format!(
                        "{} has results, but there is no {MANIFEST} that says of what; choose another folder",
                        shown(&path)
                    )));
                }
                write_whole(&manifest_path, format!("{manifest:#}\n").as_bytes())?;
            }
        }
        let mut store = Store::default();
        let Found { whole, bad } = store.read(&path, &file, known)?;
        if bad.is_empty() {
            // A line that was torn by the interruption is written again.
            file.set_len(whole).map_err(|error| failed(&path, "cannot be repaired", error))?;
            file.seek(SeekFrom::End(0)).map_err(|error| failed(&path, "cannot be read", error))?;
        } else {
            let kinds: Vec<String> = bad.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
            output.warn(&format!(
                "{}: {} computed again where needed: {}",
                shown(&path),
                match bad.values().sum::<usize>() {
                    1 => "1 row does not count and is".to_string(),
                    several => format!("{several} rows do not count and are"),
                },
                kinds.join(", ")
            ));
            file = store
                .written_anew(&path, known)
                .map_err(|error| failed(&path, "cannot be repaired", error))?;
        }
        store.file = Some((path, file));
        Ok(store)
    }

    /// Reads all whole lines, says where they end, and which do not count.
    fn read(&mut self, path: &Path, file: &File, known: &Known<'_>) -> Result<Found, Failure> {
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        let mut found = Found::default();
        // Two results of one thing that differ: nobody knows which is right.
        let mut contested = HashSet::new();
        loop {
            line.clear();
            let read = (&mut reader)
                .take(MOST_ROW_BYTES as u64)
                .read_until(b'\n', &mut line)
                .map_err(|error| Failure::new(format!("{}: cannot be read: {error}", shown(path))))?;
            if read == 0 || !line.ends_with(b"\n") && read < MOST_ROW_BYTES {
                return Ok(found);
            }
            found.whole += read as u64;
            let taken = known.read(&line).and_then(|(place, said)| self.take(place, said, &mut contested));
            if let Err(kind) = taken {
                *found.bad.entry(kind).or_default() += 1;
            }
        }
    }

    fn take(
        &mut self,
        place: Place,
        said: Said,
        contested: &mut HashSet<(Place, Option<Method>)>,
    ) -> Result<(), &'static str> {
        let (part, function) = place;
        let (method, is_new, is_same) = match &said {
            Said::Score(score) => {
                let there = self.score(part, function);
                (None, there.is_none(), there == Some(score))
            }
            Said::Explanation(method, explained) => {
                let there = self.explanation(part, *method, function);
                (Some(*method), there.is_none(), there == Some(explained))
            }
        };
        if contested.contains(&(place, method)) {
            return Err(CONTRADICTS);
        }
        if is_new {
            self.insert(place, said);
            return Ok(());
        }
        if is_same {
            return Err("given twice");
        }
        contested.insert((place, method));
        match method {
            None => self.scores.entry(part).or_default().remove(&function).map(drop),
            Some(method) => self.explanations.entry((part, method)).or_default().remove(&function).map(drop),
        };
        Err(CONTRADICTS)
    }

    fn insert(&mut self, (part, function): Place, said: Said) {
        match said {
            Said::Score(score) => {
                self.scores.entry(part).or_default().insert(function, score);
            }
            Said::Explanation(method, explained) => {
                self.explanations.entry((part, method)).or_default().insert(function, explained);
            }
        }
    }

    /// The file with nothing but what counts.
    fn written_anew(&self, path: &Path, known: &Known<'_>) -> std::io::Result<File> {
        let mut rows: Vec<(Place, String, Said)> = Vec::new();
        for (part, scores) in &self.scores {
            let said = scores
                .iter()
                .map(|(function, score)| ((*part, *function), String::new(), Said::Score(score.clone())));
            rows.extend(said);
        }
        for ((part, method), explained) in &self.explanations {
            let said = explained.iter().map(|(function, explanation)| {
                let said = Said::Explanation(*method, explanation.clone());
                ((*part, *function), method.to_string(), said)
            });
            rows.extend(said);
        }
        rows.sort_by(|(a, by, _), (b, or_by, _)| (a, by).cmp(&(b, or_by)));
        let mut file = AtomicFile::create(path)?;
        file.file().try_lock()?;
        for (place, _, said) in &rows {
            file.write_all(&line(&Row::new(*place, known.text(*place), said))?)?;
        }
        file.commit_open()
    }

    pub(super) fn score(&self, part: Part, function: usize) -> Option<&Result<Score, String>> {
        self.scores.get(&part)?.get(&function)
    }

    pub(super) fn explanation(
        &self,
        part: Part,
        method: Method,
        function: usize,
    ) -> Option<&Result<Explanation, String>> {
        self.explanations.get(&(part, method))?.get(&function)
    }

    /// Keeps a score; one that is there already stays. `text` is the fingerprint of the function's text, hex.
    pub(super) fn add_score(
        &mut self,
        part: Part,
        (function, text): (usize, String),
        score: Result<Score, String>,
    ) -> Result<(), Failure> {
        if self.score(part, function).is_some() {
            return Ok(());
        }
        self.add((part, function), text, Said::Score(score))
    }

    pub(super) fn add_explanation(
        &mut self,
        part: Part,
        method: Method,
        (function, text): (usize, String),
        explained: Result<Explanation, String>,
    ) -> Result<(), Failure> {
        if self.explanation(part, method, function).is_some() {
            return Ok(());
        }
        self.add((part, function), text, Said::Explanation(method, explained))
    }

    /// A whole line in one write, so that an interruption tears at most the last one.
    fn add(&mut self, place: Place, text: String, said: Said) -> Result<(), Failure> {
        if let Some((path, file)) = &mut self.file {
            line(&Row::new(place, text, &said))
                .and_then(|line| file.write_all(&line))
                .map_err(|error| Failure::new(format!("{}: cannot be written: {error}", shown(path))))?;
        }
        self.insert(place, said);
        Ok(())
    }

    /// Results of one model and split, taken out: scores by function, and explanations by method.
    pub(super) fn take_part(&mut self, part: Part, methods: &[Method], functions: usize) -> Taken {
        let mut failures = Vec::new();
        let mut scores = vec![None; functions];
        for (function, score) in self.scores.remove(&part).unwrap_or_default() {
            match score {
                Ok(score) if function < functions => scores[function] = Some(score),
                Ok(_) => {}
                Err(error) => failures.push((function, None, error)),
            }
        }
        let mut explanations = Vec::new();
        for method in methods {
            let mut explained = HashMap::new();
            for (function, explanation) in self.explanations.remove(&(part, *method)).unwrap_or_default() {
                match explanation {
                    Ok(explanation) => {
                        explained.insert(function, explanation);
                    }
                    Err(error) => failures.push((function, Some(*method), error)),
                }
            }
            explanations.push((*method, explained));
        }
        failures.sort_by_key(|(function, method, _)| (*function, method.map(|method| method.to_string())));
        Taken { scores, explanations, failures }
    }
}

const CONTRADICTS: &str = "that contradict each other";

#[derive(Debug, Default)]
struct Found {
    /// Bytes of the whole lines.
    whole: u64,
    /// Lines that do not count, by what is wrong with them.
    bad: BTreeMap<&'static str, usize>,
}

fn line(row: &Row) -> std::io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(row).map_err(std::io::Error::other)?;
    line.push(b'\n');
    Ok(line)
}

#[derive(Debug)]
pub(super) struct Taken {
    pub(super) scores: Vec<Option<Score>>,
    pub(super) explanations: Vec<(Method, HashMap<usize, Explanation>)>,
    /// What failed, and why: function, method, reason.
    pub(super) failures: Vec<(usize, Option<Method>, String)>,
}

/// The training files change no result, so that others may be named when a run goes on.
const TRAINING: &str = "training";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Training {
    Same,
    Differs,
}

/// Results of differing manifests are not pooled.
fn same_run(path: &Path, text: &str, manifest: &Value) -> Result<Training, Failure> {
    let mut found: Value = serde_json::from_str(text).map_err(|error| {
        let said = broken::syntax(&error);
        Failure::new(format!("{}: not JSON: {said}; choose another folder with --out", shown(path)))
    })?;
    // Read back from its text, as the other was.
    let mut manifest: Value = serde_json::from_str(&manifest.to_string()).unwrap_or_default();
    let taken = [&mut found, &mut manifest].map(|value| value.as_object_mut()?.remove(TRAINING));
    let training = if taken[0] == taken[1] { Training::Same } else { Training::Differs };
    let mut differing = Vec::new();
    differences("", &found, &manifest, &mut differing);
    if differing.is_empty() {
        return Ok(training);
    }
    let more = differing.len().saturating_sub(MOST_DIFFERENCES);
    differing.truncate(MOST_DIFFERENCES);
    if more > 0 {
        differing.push(format!("{more} more differ"));
    }
    Err(Failure::new(format!(
        "{} is of another run: {}; results of different settings are not pooled: choose another folder with --out",
        shown(path),
        crate::escape::terminal(&differing.join("; "))
    )))
}

/// More are counted, not listed.
const MOST_DIFFERENCES: usize = 6;
/// Of a value, in a message.
const SHOWN_CHARACTERS: usize = 60;

/// What two manifests differ in, such as `models[0].profile is "paper" there and "editor" here`.
fn differences(path: &str, there: &Value, here: &Value, found: &mut Vec<String>) {
    match (there, here) {
        (Value::Object(there), Value::Object(here)) => {
            let new = here.keys().filter(|key| !there.contains_key(*key));
            for key in there.keys().chain(new) {
                let inner = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                let (there, here) = (there.get(key), here.get(key));
                differences(&inner, there.unwrap_or(&Value::Null), here.unwrap_or(&Value::Null), found);
            }
        }
        (Value::Array(there), Value::Array(here)) if there.len() == here.len() => {
            for (number, (there, here)) in there.iter().zip(here).enumerate() {
                differences(&format!("{path}[{number}]"), there, here, found);
            }
        }
        (Value::Array(there), Value::Array(here)) => {
            found.push(format!("there are {} {path} there and {} here", there.len(), here.len()));
        }
        _ if there == here => {}
        _ => {
            let short = |value: &Value| shortened(&value.to_string(), SHOWN_CHARACTERS);
            let path = if path.is_empty() { "what it holds" } else { path };
            found.push(format!("{path} is {} there and {} here", short(there), short(here)));
        }
    }
}

/// Writes a file so that it is there whole or not at all.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let written = AtomicFile::create(path).and_then(|mut file| {
        file.write_all(bytes)?;
        file.commit()
    });
    written.map_err(|error| Failure::new(format!("{}: cannot be written: {error}", shown(path))))
}
