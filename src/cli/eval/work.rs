//! The work of one model: scoring and explaining, shared by several sessions.
//!
//! What is run together depends on the dataset alone, never on the number of jobs or on what an interrupted run left: so
//! do the numbers.

use super::super::output::Failure;
use super::splits::Split;
use super::store::{Part, Store};
use crate::analysis::{Analyzer, Options};
use crate::annotations::Sample;
use crate::detector::Cancellation;
use crate::evaluation::{self, Explanation, Score};
use crate::explain::Method;
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Functions whose texts are in memory at once.
const CHUNK: usize = 2048;

/// How much was computed, and in how much time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    pub(super) done: usize,
    pub(super) time: Duration,
}

impl Pace {
    pub(super) fn per_second(&self) -> f64 {
        self.done as f64 / self.time.as_secs_f64().max(1e-9)
    }
}

impl std::ops::AddAssign for Pace {
    fn add_assign(&mut self, other: Pace) {
        self.done += other.done;
        self.time += other.time;
    }
}

/// One step: functions that are scored together, or one that is explained.
struct Task<'a> {
    samples: Vec<&'a (usize, Sample)>,
    /// Empty: score.
    methods: Vec<Method>,
}

enum Answer {
    Score(usize, Result<Score, String>),
    Explanation(usize, Method, Result<Explanation, String>),
}

/// One model's sessions and one split.
pub(super) struct Assignment<'a> {
    pub(super) analyzers: &'a mut [Analyzer],
    pub(super) part: Part,
    pub(super) split: &'a Split,
    pub(super) options: &'a Options,
    /// For the progress bar.
    pub(super) label: String,
}

impl Assignment<'_> {
    /// Scores every function of the split that has no score yet.
    pub(super) fn score(self, batch: usize, store: &mut Store) -> Result<Pace, Failure> {
        let (part, split) = (self.part, self.split);
        let missing = |store: &Store, function: usize| store.score(part, function).is_none();
        let total = (0..split.facts.len()).filter(|function| missing(store, *function)).count();
        let mut work = Work::new(total, &self.label, "scored");
        if total == 0 {
            return Ok(work.finish());
        }
        for chunk in chunks(split)? {
            let chunk = chunk?;
            let mut sorted: Vec<&(usize, Sample)> = chunk.iter().collect();
            // Long ones first: the last to end is a short one.
            sorted.sort_by_key(|(function, sample)| (std::cmp::Reverse(sample.code.len()), *function));
            let tasks: Vec<Task<'_>> = sorted
                .chunks(batch)
                .filter(|together| together.iter().any(|(function, _)| missing(store, *function)))
                .map(|together| Task { samples: together.to_vec(), methods: Vec::new() })
                .collect();
            work.run(self.analyzers, &tasks, self.options, |answer| match answer {
                Answer::Score(function, score) => {
                    let counts = missing(store, function);
                    store.add_score(part, (function, split.text(function)), score).map(|()| counts)
                }
                Answer::Explanation(..) => Ok(false),
            })?;
        }
        Ok(work.finish())
    }

    /// Explains, by each method, what needs it and is not explained yet.
    pub(super) fn explain(
        self,
        methods: &[Method],
        threshold: f64,
        store: &mut Store,
    ) -> Result<Pace, Failure> {
        let (part, split) = (self.part, self.split);
        let missing = |store: &Store, function: usize| -> Vec<Method> {
            let Some(Ok(score)) = store.score(part, function) else { return Vec::new() };
            if !split.facts[function].needs_explanation(score.probability > threshold) {
                return Vec::new();
            }
            let is_missing = |method: &&Method| store.explanation(part, **method, function).is_none();
            methods.iter().filter(is_missing).copied().collect()
        };
        let total: usize = (0..split.facts.len()).map(|function| missing(store, function).len()).sum();
        let mut work = Work::new(total, &self.label, "explained");
        if total == 0 {
            return Ok(work.finish());
        }
        for chunk in chunks(split)? {
            let chunk = chunk?;
            let mut tasks: Vec<Task<'_>> = chunk
                .iter()
                .map(|sample| Task { samples: vec![sample], methods: missing(store, sample.0) })
                .filter(|task| !task.methods.is_empty())
                .collect();
            tasks.sort_by_key(|task| (std::cmp::Reverse(task.samples[0].1.code.len()), task.samples[0].0));
            work.run(self.analyzers, &tasks, self.options, |answer| match answer {
                Answer::Explanation(function, method, explained) => {
                    let of = (function, split.text(function));
                    store.add_explanation(part, method, of, explained).map(|()| true)
                }
                Answer::Score(..) => Ok(false),
            })?;
        }
        Ok(work.finish())
    }
}

struct Work {
    started: Instant,
    done: usize,
    bar: ProgressBar,
}

impl Work {
    fn new(total: usize, label: &str, verb: &str) -> Work {
        // Hidden where standard error is no terminal.
        let bar = ProgressBar::new(total as u64);
        let template = "{msg} {wide_bar} {pos}/{len}, {per_sec}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(format!("{label}: {verb}"));
        Work { started: Instant::now(), done: 0, bar }
    }

    /// Runs the tasks and hands every answer to `take`, which says whether it was new.
    fn run(
        &mut self,
        analyzers: &mut [Analyzer],
        tasks: &[Task<'_>],
        options: &Options,
        mut take: impl FnMut(Answer) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let next = AtomicUsize::new(0);
        let (send, answers) = mpsc::channel();
        std::thread::scope(|scope| {
            for analyzer in analyzers {
                let (send, next) = (send.clone(), &next);
                scope.spawn(move || {
                    while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                        // Nobody listens any more where the results cannot be written.
                        let listening = task.run(analyzer, options, |answer| send.send(answer).is_ok());
                        if !listening {
                            return;
                        }
                    }
                });
            }
            drop(send);
            // Owned, so that a failure drops it and ends the threads.
            for answer in answers {
                if take(answer)? {
                    self.done += 1;
                    self.bar.inc(1);
                }
            }
            Ok(())
        })
    }

    fn finish(self) -> Pace {
        self.bar.finish_and_clear();
        Pace { done: self.done, time: self.started.elapsed() }
    }
}

impl Task<'_> {
    /// Hands every result to `emit` as it comes, until that says that nobody wants more.
    fn run(&self, analyzer: &mut Analyzer, options: &Options, emit: impl Fn(Answer) -> bool) -> bool {
        let cancel = Cancellation::new();
        if self.methods.is_empty() {
            let texts: Vec<&str> = self.samples.iter().map(|(_, sample)| sample.code.as_str()).collect();
            let scores = evaluation::score(analyzer, &texts, options, &cancel);
            let functions = self.samples.iter().map(|(function, _)| *function);
            return functions.zip(scores).all(|(function, score)| {
                emit(Answer::Score(function, score.map_err(|error| error.to_string())))
            });
        }
        let (function, sample) = self.samples[0];
        self.methods.iter().all(|method| {
            let options = Options { method: *method, ..*options };
            let explained = evaluation::explain(analyzer, sample, &options, &cancel);
            emit(Answer::Explanation(*function, *method, explained.map_err(|error| error.to_string())))
        })
    }
}

type Chunk = Vec<(usize, Sample)>;

fn chunks(split: &Split) -> Result<impl Iterator<Item = Result<Chunk, Failure>> + use<'_>, Failure> {
    let mut samples = split.samples()?;
    Ok(std::iter::from_fn(move || {
        let chunk: Result<Chunk, Failure> = samples.by_ref().take(CHUNK).collect();
        match chunk {
            Ok(chunk) if chunk.is_empty() => None,
            chunk => Some(chunk),
        }
    }))
}
