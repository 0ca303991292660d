//! The folder of a run: what it is a run of (`manifest.json`), and its results as they come (`results.jsonl`), from which
//! an interrupted run goes on.

use super::super::output::Failure;
use super::splits::shown;
use crate::alignment::Unit;
use crate::evaluation::{Explanation, Score};
use crate::explain::{Completeness, Faithfulness, Method};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const MANIFEST: &str = "manifest.json";
const RESULTS: &str = "results.jsonl";

/// One model on one split.
pub(super) type Part = (usize, usize);

/// All results so far, in memory and (where there is a folder) on disk.
#[derive(Debug, Default)]
pub(super) struct Store {
    scores: HashMap<Part, HashMap<usize, Result<Score, String>>>,
    explanations: HashMap<(Part, Method), HashMap<usize, Result<Explanation, String>>>,
    file: Option<(PathBuf, File)>,
}

/// One line of the results. `model` and `split` are numbers of the manifest's lists, `function` counts the split's
/// functions from 0.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Row {
    model: usize,
    split: usize,
    function: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<ScoreRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<ExplanationRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ScoreRow {
    #[serde(deserialize_with = "exact")]
    probability: f64,
    tokens: usize,
    truncated: bool,
}

/// `scores[i]` belongs to the i-th scored line; `truth` numbers those that are ground truth.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExplanationRow {
    #[serde(deserialize_with = "exact_list")]
    scores: Vec<f64>,
    truth: Vec<usize>,
    outside: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completeness: Option<CompletenessRow>,
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "exact_list")]
    faithfulness: Vec<f64>,
}

#[derive(Serialize, Deserialize)]
struct CompletenessRow {
    #[serde(deserialize_with = "exact")]
    gap: f64,
    reached: bool,
    evaluations: usize,
}

/// The number that was written: serde_json reads numbers a last bit off now and then, and a run that goes on must give what
/// one gives that was not interrupted.
fn exact<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    parse_exactly(&Box::<RawValue>::deserialize(deserializer)?)
}

fn exact_list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    Vec::<Box<RawValue>>::deserialize(deserializer)?.iter().map(|raw| parse_exactly(raw)).collect()
}

fn parse_exactly<E: serde::de::Error>(raw: &RawValue) -> Result<f64, E> {
    raw.get().parse().map_err(|_| E::custom(format!("expected a number, found {}", raw.get())))
}

impl Store {
    /// Opens a folder, making it if need be. A folder of another run is refused.
    pub(super) fn open(folder: &Path, manifest: &Value) -> Result<Store, Failure> {
        let failed = |path: &Path, what: &str, error: std::io::Error| {
            Failure::new(format!("{}: {what}: {error}", shown(path)))
        };
        std::fs::create_dir_all(folder).map_err(|error| failed(folder, "cannot be made", error))?;
        let path = folder.join(RESULTS);
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(&path)
            .map_err(|error| failed(&path, "cannot be opened", error))?;
        file.try_lock().map_err(|error| {
            Failure::new(format!(
                "{}: another run writes here ({error}); wait for it, or choose another folder",
                shown(&path)
            ))
        })?;
        let manifest_path = folder.join(MANIFEST);
        match std::fs::read_to_string(&manifest_path) {
            Ok(text) => same_run(&manifest_path, &text, manifest)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let length = file.metadata().map_err(|error| failed(&path, "cannot be read", error))?.len();
                if length > 0 {
                    return Err(Failure::new(format!(
                        "{} has results, but there is no {MANIFEST} that says of what; choose another folder",
                        shown(&path)
                    )));
                }
                write_whole(&manifest_path, format!("{manifest:#}\n").as_bytes())?;
            }
            Err(error) => return Err(failed(&manifest_path, "cannot be read", error)),
        }
        let mut store = Store::default();
        let whole = store.read(&path, &file)?;
        // A line that was torn by the interruption is written again.
        file.set_len(whole).map_err(|error| failed(&path, "cannot be repaired", error))?;
        file.seek(SeekFrom::End(0)).map_err(|error| failed(&path, "cannot be read", error))?;
        store.file = Some((path, file));
        Ok(store)
    }

    /// Reads all whole lines and says where they end.
    fn read(&mut self, path: &Path, file: &File) -> Result<u64, Failure> {
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        let mut whole = 0;
        for number in 1.. {
            line.clear();
            let read = reader
                .read_until(b'\n', &mut line)
                .map_err(|error| Failure::new(format!("{}: cannot be read: {error}", shown(path))))?;
            if read == 0 || !line.ends_with(b"\n") {
                break;
            }
            let row = serde_json::from_slice(&line).map_err(|error| error.to_string());
            row.and_then(|row| self.take(row)).map_err(|error| {
                Failure::new(format!(
                    "{}, line {number}: not a result of this version: {error}; delete the line, or choose another folder",
                    shown(path)
                ))
            })?;
            whole += read as u64;
        }
        Ok(whole)
    }

    fn take(&mut self, row: Row) -> Result<(), String> {
        let part = (row.model, row.split);
        match (row.method, row.score, row.explanation, row.error) {
            (None, Some(score), None, None) => {
                let ScoreRow { probability, tokens, truncated } = score;
                let score = Score { probability, tokens, truncated };
                self.scores.entry(part).or_default().insert(row.function, Ok(score));
            }
            (None, None, None, Some(error)) => {
                self.scores.entry(part).or_default().insert(row.function, Err(error));
            }
            (Some(method), None, explanation, error) => {
                let method: Method =
                    method.parse().map_err(|error: crate::explain::MethodError| error.to_string())?;
                let explained = match (explanation, error) {
                    (Some(explanation), None) => Ok(explanation.into_explanation()),
                    (None, Some(error)) => Err(error),
                    _ => return Err("expected an explanation or an error".to_string()),
                };
                self.explanations.entry((part, method)).or_default().insert(row.function, explained);
            }
            _ => return Err("expected a score, an explanation or an error".to_string()),
        }
        Ok(())
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

    /// Keeps a score; one that is there already stays.
    pub(super) fn add_score(
        &mut self,
        part: Part,
        function: usize,
        score: Result<Score, String>,
    ) -> Result<(), Failure> {
        if self.score(part, function).is_some() {
            return Ok(());
        }
        let (of_row, error) = split(&score);
        let of_row = of_row.map(|score| ScoreRow {
            probability: score.probability,
            tokens: score.tokens,
            truncated: score.truncated,
        });
        self.append(&Row {
            model: part.0,
            split: part.1,
            function,
            method: None,
            score: of_row,
            explanation: None,
            error,
        })?;
        self.scores.entry(part).or_default().insert(function, score);
        Ok(())
    }

    pub(super) fn add_explanation(
        &mut self,
        part: Part,
        method: Method,
        function: usize,
        explained: Result<Explanation, String>,
    ) -> Result<(), Failure> {
        if self.explanation(part, method, function).is_some() {
            return Ok(());
        }
        let (explanation, error) = split(&explained);
        let explanation = explanation.map(ExplanationRow::new);
        let method_name = Some(method.to_string());
        self.append(&Row {
            model: part.0,
            split: part.1,
            function,
            method: method_name,
            score: None,
            explanation,
            error,
        })?;
        self.explanations.entry((part, method)).or_default().insert(function, explained);
        Ok(())
    }

    /// A whole line in one write, so that an interruption tears at most the last one.
    fn append(&mut self, row: &Row) -> Result<(), Failure> {
        let Some((path, file)) = &mut self.file else { return Ok(()) };
        let mut line = serde_json::to_vec(row).map_err(|error| Failure::new(format!("no JSON: {error}")))?;
        line.push(b'\n');
        file.write_all(&line)
            .map_err(|error| Failure::new(format!("{}: cannot be written: {error}", shown(path))))
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

#[derive(Debug)]
pub(super) struct Taken {
    pub(super) scores: Vec<Option<Score>>,
    pub(super) explanations: Vec<(Method, HashMap<usize, Explanation>)>,
    /// What failed, and why: function, method, reason.
    pub(super) failures: Vec<(usize, Option<Method>, String)>,
}

impl ExplanationRow {
    fn new(explanation: &Explanation) -> ExplanationRow {
        let truth = explanation.units.iter().enumerate().filter(|(_, unit)| unit.is_true);
        ExplanationRow {
            scores: explanation.units.iter().map(|unit| unit.score).collect(),
            truth: truth.map(|(number, _)| number).collect(),
            outside: explanation.outside,
            completeness: explanation.completeness.map(|c| CompletenessRow {
                gap: c.gap,
                reached: c.reached,
                evaluations: c.evaluations,
            }),
            faithfulness: explanation.faithfulness.map_or_else(Vec::new, |f| {
                vec![f.comprehensiveness, f.sufficiency, f.random_comprehensiveness, f.random_sufficiency]
            }),
        }
    }

    fn into_explanation(self) -> Explanation {
        let mut units: Vec<Unit> =
            self.scores.iter().map(|score| Unit { score: *score, is_true: false }).collect();
        for number in self.truth {
            if let Some(unit) = units.get_mut(number) {
                unit.is_true = true;
            }
        }
        Explanation {
            units,
            outside: self.outside,
            completeness: self.completeness.map(|CompletenessRow { gap, reached, evaluations }| {
                Completeness { gap, reached, evaluations }
            }),
            faithfulness: match self.faithfulness.as_slice() {
                [comprehensiveness, sufficiency, random_comprehensiveness, random_sufficiency] => {
                    Some(Faithfulness {
                        comprehensiveness: *comprehensiveness,
                        sufficiency: *sufficiency,
                        random_comprehensiveness: *random_comprehensiveness,
                        random_sufficiency: *random_sufficiency,
                    })
                }
                _ => None,
            },
        }
    }
}

fn split<T>(result: &Result<T, String>) -> (Option<&T>, Option<String>) {
    match result {
        Ok(value) => (Some(value), None),
        Err(error) => (None, Some(error.clone())),
    }
}

/// Results of differing manifests are not pooled.
fn same_run(path: &Path, text: &str, manifest: &Value) -> Result<(), Failure> {
    let found: Value = serde_json::from_str(text).map_err(|error| {
        Failure::new(format!("{}: not JSON: {error}; choose another folder", shown(path)))
    })?;
    // Read back from its text, as the other was.
    let manifest: Value = serde_json::from_str(&manifest.to_string()).unwrap_or_default();
    if found == manifest {
        return Ok(());
    }
    let empty = serde_json::Map::new();
    let (there, here) = (found.as_object().unwrap_or(&empty), manifest.as_object().unwrap_or(&empty));
    let differing: Vec<&str> = there
        .keys()
        .chain(here.keys().filter(|key| !there.contains_key(*key)))
        .filter(|key| there.get(*key) != here.get(*key))
        .map(String::as_str)
        .collect();
    Err(Failure::new(format!(
        "{} is of another run: {} differ; results of different settings are not pooled: choose another folder with --out",
        shown(path),
        crate::escape::terminal(&differing.join(", "))
    )))
}

/// Writes a file so that it is there whole or not at all.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let written = File::create(&temporary)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&temporary, path));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&temporary);
        Failure::new(format!("{}: cannot be written: {error}", shown(path)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_survive_the_file(values in proptest::collection::vec(-1e3f64..1e3, 1..20), tiny in any::<f64>()) {
            prop_assume!(tiny.is_finite());
            let scores: Vec<f64> = values.into_iter().chain([tiny, 0.1, 1.0 / 3.0]).collect();
            let row = ExplanationRow {
                scores: scores.clone(), truth: vec![0], outside: Some(2),
                completeness: Some(CompletenessRow { gap: tiny, reached: true, evaluations: 4 }),
                faithfulness: scores[..scores.len().min(4)].to_vec(),
            };
            let read: ExplanationRow = serde_json::from_str(&serde_json::to_string(&row).unwrap()).unwrap();
            prop_assert_eq!(&read.scores, &scores);
            prop_assert_eq!(&read.faithfulness, &row.faithfulness);
            let explanation = read.into_explanation();
            prop_assert_eq!(explanation.completeness.unwrap().gap, tiny);
            prop_assert!(explanation.units[0].is_true);
        }
    }
}
