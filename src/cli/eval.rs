//! `linelens eval`: detectors and methods on datasets.
//!
//! Each dataset is read once to know what is in it, then scored and, where a table needs it, explained. Results are kept as
//! they come; tables are made of them at the end, so that an interrupted run gives the same tables as one that was not.

mod html;
mod json;
mod markdown;
mod plots;
mod rows;
mod splits;
mod store;
mod tables;
mod work;

pub(super) use splits::{Malformed, format as format_named, open, shown};

use super::arguments::{Eval, EvalFormat, Global};
use super::output::{Failure, Output};
use super::set_up;
use crate::alignment::functions::{self, Judged};
use crate::alignment::intervals::SEED;
use crate::analysis::{Analyzer, Options, Profile};
use crate::annotations::Label;
use crate::annotations::dataset::Format;
use crate::config::Machine;
use crate::escape;
use crate::evaluation::leakage::TrainingData;
use crate::evaluation::report::{DroppedPair, Evaluated, Report, report};
use crate::explain::{ExplainError, Layer, Method, Methods};
use rows::Known;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use splits::{Role, Split, TrainingFile, file_sha256};
use std::path::{Path, PathBuf};
use store::{REPORTS, Store, write_whole};
use work::{Assignment, Pace};

/// Where a threshold comes from.
#[derive(Clone, Debug, PartialEq)]
enum ThresholdSource {
    Given,
    Detector,
    /// The name of the split that it was tuned on, and the F1 that it has there.
    Tuned {
        split: String,
        f1: f64,
    },
}

/// A model, opened.
struct Model {
    machine: Machine,
    /// Its name, with the beginning of its hash where another has the same.
    name: String,
    /// Over all files of its folder that may change what it says.
    folder_sha256: String,
    onnx_sha256: String,
    threshold: f64,
    provider: String,
    threads: usize,
    profile: String,
    methods: Vec<Method>,
    /// Methods that were asked for and do not work, and why.
    unavailable: Vec<(Method, String)>,
    analyzers: Vec<Analyzer>,
}

/// One model on one split.
struct Evaluation {
    model: usize,
    split: usize,
    threshold_source: ThresholdSource,
    report: Report,
    /// Function, method, reason.
    failures: Vec<(usize, Option<Method>, String)>,
}

/// Everything that the reports show.
struct Outcome {
    manifest: Value,
    /// What was scored: `lines`, `statements` or `units`.
    counted: &'static str,
    models: Vec<Model>,
    splits: Vec<Split>,
    /// What the splits were compared with.
    training: Vec<TrainingFile>,
    evaluations: Vec<Evaluation>,
}

impl Outcome {
    fn limit(&self) -> Option<u64> {
        self.manifest["limit"].as_u64()
    }
}

/// Why halves of pairs are left out. What `--limit` cut off may well be in the file.
fn dropped_text(reason: DroppedPair, limit: Option<u64>) -> String {
    match (reason, limit) {
        (DroppedPair::NoFix, Some(limit)) => format!("the fix is not among the first {limit}"),
        (DroppedPair::NoVulnerable, Some(limit)) => {
            format!("the vulnerable function is not among the first {limit}")
        }
        (reason, _) => reason.as_str().to_string(),
    }
}

pub(super) fn run(global: &Global, command: &Eval, output: &mut Output) -> Result<u8, Failure> {
    let (machine, options) = options(global, command, output)?;
    let format = splits::format(command.input_format.as_deref())?;
    let (splits, training) = survey(command, format, output)?;
    let mut models = models(global, command, &machine, &options, output)?;
    let manifest = manifest(command, &options, &models, &splits, &training);
    let mut store = match &command.out {
        Some(folder) => {
            let functions = splits.iter().map(|split| split.facts.as_slice()).collect();
            Store::open(folder, &manifest, &Known::new(models.len(), functions, &options), output)?
        }
        None => Store::default(),
    };
    let mut evaluations = Vec::new();
    for number in 0..models.len() {
        let found = evaluate(number, &mut models, &splits, &options, command, &mut store, output)?;
        evaluations.extend(found);
    }
    // The reports say what was evaluated by these hashes.
    splits.iter().try_for_each(Split::check_file)?;
    evaluations.sort_by_key(|evaluation| (evaluation.split, evaluation.model));
    let outcome = Outcome { manifest, counted: options.counted(), models, splits, training, evaluations };
    write(&outcome, command, output)?;
    let malformed = outcome.splits.iter().map(|split| &split.malformed);
    let malformed = malformed.chain(outcome.training.iter().map(|file| &file.malformed));
    let malformed: usize = malformed.map(Malformed::total).sum();
    let failed: usize = outcome.evaluations.iter().map(|evaluation| evaluation.failures.len()).sum();
    Ok(u8::from(malformed + failed > 0))
}

/// Sessions of one thread by default: many functions at once are quicker than one on many threads.
fn options(global: &Global, command: &Eval, output: &mut Output) -> Result<(Machine, Options), Failure> {
    let (mut machine, options) = set_up::reproducible(global, &command.analysis, output)?;
    if global.threads.is_none() {
        machine.session.threads = Some(1);
    }
    let profile = if command.analysis.profile.is_some() { options.profile } else { Profile::Paper };
    Ok((machine, Options { profile, faithfulness: command.faithfulness, ..options }))
}

fn survey(
    command: &Eval,
    format: Option<Format>,
    output: &mut Output,
) -> Result<(Vec<Split>, Vec<TrainingFile>), Failure> {
    let (train, training) = splits::training_data(&command.train, format, output)?;
    let nothing = splits::Reading {
        format,
        role: Role::Threshold,
        train: None,
        tuned_on: None,
        limit: command.limit,
        policy: &command.annotation_policy,
    };
    let mut known = TrainingData::default();
    let tuned_on = match &command.threshold_from {
        Some(path) => {
            Some(splits::survey(path, &nothing, &mut |sample| known.add(&sample.code, None), output)?)
        }
        None => None,
    };
    let reading = splits::Reading {
        role: Role::Evaluated,
        train: train.as_ref(),
        tuned_on: tuned_on.as_ref().map(|_| &known),
        ..nothing
    };
    let mut found: Vec<Split> = Vec::new();
    for path in &command.datasets {
        let split = splits::survey(path, &reading, &mut |_| {}, output)?;
        if let Some(same) = found.iter().find(|other| other.file_sha256 == split.file_sha256) {
            return Err(Failure::new(format!(
                "{} and {} are the same file; give it once",
                shown(&same.path),
                shown(&split.path)
            )));
        }
        if let Some(tuned_on) = &tuned_on {
            splits::refuse_shared(tuned_on, &split)?;
        }
        if let Some(said) = splits::near_threshold(&split) {
            output.warn(&format!("{}: {said}", shown(path)));
        }
        found.push(split);
    }
    found.extend(tuned_on);
    Ok((found, training))
}

fn models(
    global: &Global,
    command: &Eval,
    machine: &Machine,
    options: &Options,
    output: &mut Output,
) -> Result<Vec<Model>, Failure> {
    // Without --model: the configured or built-in one.
    let paths: Vec<Option<PathBuf>> = match global.model.as_slice() {
        [] => vec![machine.model.clone()],
        several => several.iter().cloned().map(Some).collect(),
    };
    let mut models: Vec<Model> = Vec::new();
    for path in paths {
        let model = model(Machine { model: path, ..machine.clone() }, command, options, output)?;
        if let Some(same) = models.iter().find(|other| other.folder_sha256 == model.folder_sha256) {
            return Err(Failure::new(format!("the model {} was given twice", escape::terminal(&same.name))));
        }
        models.push(model);
    }
    let names: Vec<String> = models.iter().map(|model| model.name.clone()).collect();
    for model in &mut models {
        if names.iter().filter(|name| **name == model.name).count() > 1 {
            model.name = format!("{} ({})", model.name, &model.folder_sha256[..8]);
        }
    }
    Ok(models)
}

fn model(machine: Machine, command: &Eval, options: &Options, output: &mut Output) -> Result<Model, Failure> {
    let mut analyzer = set_up::analyzer(&machine, output)?;
    let Methods { available: methods, unavailable } = methods(&command.methods, &mut analyzer)?;
    let info = analyzer.info().clone();
    for (method, reason) in &unavailable {
        let name = escape::terminal(&info.name);
        output.warn(&format!("{name}: {method} is left out: {}", escape::terminal(reason)));
    }
    Ok(Model {
        machine,
        name: info.name.clone(),
        folder_sha256: folder_sha256(&info.directory)?,
        onnx_sha256: info.sha256.to_string(),
        threshold: options.threshold.unwrap_or(info.threshold),
        provider: info.execution_provider.clone(),
        threads: info.threads,
        profile: options.profile_label(&info),
        methods,
        unavailable,
        analyzers: vec![analyzer],
    })
}

impl Model {
    fn assignment<'a>(
        &'a mut self,
        number: usize,
        place: usize,
        splits: &'a [Split],
        options: &'a Options,
    ) -> Assignment<'a> {
        let split = &splits[place];
        let label = escape::terminal(&format!("{} on {}", self.name, split.name));
        Assignment { analyzers: &mut self.analyzers, part: (number, place), split, options, label }
    }

    /// Opens one session for each job; the first is open already.
    fn open_sessions(&mut self, command: &Eval) -> Result<(), Failure> {
        let cores = std::thread::available_parallelism().map_or(1, |count| count.get());
        let jobs = command.jobs.map_or((cores / self.threads).max(1), usize::from);
        while self.analyzers.len() < jobs {
            self.analyzers.push(set_up::analyzer_on(&self.machine)?);
        }
        Ok(())
    }
}

/// Which methods are meant, in the order given, and which of them do not work for the model.
fn methods(names: &[String], analyzer: &mut Analyzer) -> Result<Methods, Failure> {
    let known = analyzer.methods().clone();
    let (mut methods, mut unavailable) = (Vec::new(), Vec::new());
    for name in names {
        match name.as_str() {
            "none" if names.len() == 1 => {}
            "all" => {
                methods.extend(known.available.iter().copied());
                unavailable.extend(known.unavailable.iter().cloned());
            }
            name => {
                let method: Method =
                    name.parse().map_err(|error| Failure::new(format!("--methods: {error}, all or none")))?;
                match known.unavailable.iter().find(|(other, _)| *other == method) {
                    Some((_, why)) => unavailable.push((method, why.clone())),
                    None => match no_such_layer(method, analyzer.info().layers) {
                        Some(why) => unavailable.push((method, why)),
                        None => methods.push(method),
                    },
                }
            }
        }
    }
    let mut seen = Vec::new();
    methods.retain(|method| {
        !seen.contains(method) && {
            seen.push(*method);
            true
        }
    });
    if methods.is_empty() && names != ["none"] {
        return Err(Failure::new("none of the methods works for this model; see `linelens doctor`"));
    }
    Ok(Methods { available: methods, unavailable })
}

/// Why the attention of a layer is not to be had: `available` names the layers that there are, not those that are not.
fn no_such_layer(method: Method, layers: usize) -> Option<String> {
    match method {
        Method::Attention(Layer::Number(number)) if number > layers => {
            Some(ExplainError::NoSuchLayer { method, layers }.to_string())
        }
        _ => None,
    }
}

/// What the results are results of. Methods and jobs are not part of it: they change no result, so that a method can be
/// added to a run. Training data change none either: they are named, and may be others when a run goes on. Paths are not
/// part of it: the same files may lie elsewhere.
fn manifest(
    command: &Eval,
    options: &Options,
    models: &[Model],
    splits: &[Split],
    training: &[TrainingFile],
) -> Value {
    let models: Vec<Value> = models
        .iter()
        .map(|model| {
            json!({
                "name": model.name, "folderSha256": model.folder_sha256, "onnxSha256": model.onnx_sha256,
                "profile": model.profile, "executionProvider": model.provider, "threads": model.threads,
            })
        })
        .collect();
    let splits: Vec<Value> = splits
        .iter()
        .map(|split| {
            json!({
                "name": split.name, "fileSha256": split.file_sha256, "functionsSha256": split.functions_sha256,
                "format": split.format.as_str(),
                "role": if split.role == Role::Evaluated { "evaluated" } else { "threshold" },
                "functions": split.facts.len(), "annotationPolicy": split.annotation_policy(),
            })
        })
        .collect();
    let training: Vec<Value> = training
        .iter()
        .map(|file| {
            json!({
                "name": file.name, "fileSha256": file.file_sha256, "format": file.format.as_str(),
                "functions": file.functions, "malformedRows": file.malformed.total(),
            })
        })
        .collect();
    json!({
        "training": training,
        "schema": "linelens-eval", "schemaVersion": 2, "version": env!("CARGO_PKG_VERSION"),
        "models": models, "splits": splits, "seed": SEED, "threshold": options.threshold,
        "limit": command.limit, "batch": command.batch, "faithfulness": command.faithfulness,
    })
}

/// Scores all splits, tunes the threshold if asked to, explains, and makes the tables.
fn evaluate(
    number: usize,
    models: &mut [Model],
    splits: &[Split],
    options: &Options,
    command: &Eval,
    store: &mut Store,
    output: &mut Output,
) -> Result<Vec<Evaluation>, Failure> {
    let model = &mut models[number];
    model.open_sessions(command)?;
    let batch = usize::from(command.batch);
    let (mut scoring, mut explaining) = (Pace::default(), Pace::default());
    for place in 0..splits.len() {
        scoring += model.assignment(number, place, splits, options).score(batch, store)?;
    }
    let (threshold, source) = threshold(number, model, splits, options, store)?;
    let mut evaluations = Vec::new();
    for (place, split) in splits.iter().enumerate().filter(|(_, split)| split.role == Role::Evaluated) {
        let part = (number, place);
        let methods = model.methods.clone();
        explaining += model.assignment(number, place, splits, options).explain(&methods, threshold, store)?;
        let taken = store.take_part(part, &model.methods, split.facts.len());
        let evaluated = Evaluated {
            facts: &split.facts,
            scores: &taken.scores,
            explanations: &taken.explanations,
            threshold,
            seed: SEED,
        };
        let report = report(evaluated);
        let source = source.clone();
        evaluations.push(Evaluation {
            model: number,
            split: place,
            threshold_source: source,
            report,
            failures: taken.failures,
        });
    }
    // Sessions take memory that the next model may need.
    model.analyzers.clear();
    say_pace(&model.name, scoring, explaining, output);
    Ok(evaluations)
}

fn threshold(
    number: usize,
    model: &Model,
    splits: &[Split],
    options: &Options,
    store: &Store,
) -> Result<(f64, ThresholdSource), Failure> {
    let Some((place, split)) = splits.iter().enumerate().find(|(_, split)| split.role == Role::Threshold)
    else {
        let source =
            if options.threshold.is_some() { ThresholdSource::Given } else { ThresholdSource::Detector };
        return Ok((model.threshold, source));
    };
    let judged = |threshold: f64| -> Vec<Judged> {
        let judge = |facts: &crate::evaluation::Facts| {
            let score = store.score((number, place), facts.index)?.as_ref().ok()?;
            let probability = score.probability;
            let known = facts.label != Label::Unsure;
            known.then(|| Judged {
                probability,
                flagged: probability > threshold,
                vulnerable: facts.is_vulnerable(),
            })
        };
        split.facts.iter().filter_map(judge).collect()
    };
    let best = functions::best_threshold(&judged(0.0)).ok_or_else(|| {
        Failure::new(format!(
            "{}: no threshold can be tuned on it: F1 is undefined without a vulnerable and a benign function that were scored",
            shown(&split.path)
        ))
    })?;
    let f1 = functions::f1(&judged(best)).unwrap_or(0.0);
    Ok((best, ThresholdSource::Tuned { split: split.name.clone(), f1 }))
}

fn say_pace(model: &str, scoring: Pace, explaining: Pace, output: &mut Output) {
    let said = |pace: Pace, what: [&str; 2]| {
        let what = what[usize::from(pace.done != 1)];
        format!(
            "{} {what} in {:.1} s ({:.1} a second)",
            pace.done,
            pace.time.as_secs_f64(),
            pace.per_second()
        )
    };
    output.note(&format!(
        "{model}: {}, {}",
        said(scoring, ["function scored", "functions scored"]),
        said(explaining, ["explanation", "explanations"])
    ));
}

/// All reports to the folder, one of them to standard output.
fn write(outcome: &Outcome, command: &Eval, output: &mut Output) -> Result<(), Failure> {
    let sections = tables::sections(outcome);
    let markdown = markdown::render(&sections);
    let as_json = format!("{:#}\n", json::render(outcome));
    let html = html::render(&sections);
    if let Some(folder) = &command.out {
        for (name, text) in REPORTS.iter().zip([&as_json, &markdown, &html]) {
            write_whole(&folder.join(name), text.as_bytes())?;
        }
    }
    let text = match command.format {
        EvalFormat::Markdown => markdown,
        EvalFormat::Json => escape::json(&as_json),
        EvalFormat::Html => html,
    };
    output.line(text.trim_end())
}

/// Over the names and bytes of all files of a folder, those of folders in it left out.
fn folder_sha256(folder: &Path) -> Result<String, Failure> {
    let unreadable =
        |error: std::io::Error| Failure::new(format!("{}: cannot be read: {error}", shown(folder)));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        // What a reader of the model card changes changes no result.
        let is_card = path.extension().is_some_and(|extension| extension == "md");
        if path.is_file() && !is_card {
            files.push(path);
        }
    }
    files.sort();
    let mut hasher = Sha256::new();
    for path in files {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        hasher.update(format!("{name}\0{}\n", file_sha256(&path)?));
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
