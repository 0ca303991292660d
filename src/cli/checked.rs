//! The work of `linelens check`: files read and analysed by several sessions, given out in the order of the files.

use super::output::{Failure, Output};
use super::set_up;
use super::source::Document;
use crate::analysis::{Analyzer, Finding, Options};
use crate::config::Config;
use crate::detector::Cancellation;
use crate::syntax::Function;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// A model whose file is no larger is opened once for each core.
const SMALL_MODEL: u64 = 64 << 20;
/// So many files may wait for one that takes long.
const MOST_WAITING: usize = 256;

/// What came out for a file.
pub(super) struct Checked {
    pub(super) document: Document,
    /// The 1-based line of the first bytes that are no UTF-8.
    pub(super) bad_line: Option<usize>,
    pub(super) findings: Vec<Result<Finding, (Function, String)>>,
}

/// What is asked of each function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) options: Options,
    /// Lines of functions that are not flagged are wanted, too.
    pub(super) all: bool,
}

/// One session for each job.
pub(super) fn sessions(
    config: &Config,
    jobs: Option<u16>,
    files: usize,
    output: &mut Output,
) -> Result<Vec<Analyzer>, Failure> {
    let mut machine = config.machine();
    let cores = std::thread::available_parallelism().map_or(1, |count| count.get());
    let first = set_up::analyzer(&machine, output)?;
    let size = std::fs::metadata(&first.info().onnx).map_or(u64::MAX, |metadata| metadata.len());
    let by_size = if size <= SMALL_MODEL { cores } else { 1 };
    let by_threads = machine.session.threads.map_or(by_size, |threads| by_size.min((cores / threads).max(1)));
    let jobs = jobs.map_or(by_threads, usize::from).min(files.max(1));
    if jobs == 1 {
        return Ok(vec![first]);
    }
    // Sessions that share the cores must not each take all of them.
    if machine.session.threads.is_none() {
        machine.session.threads = Some((cores / jobs).max(1));
    }
    drop(first);
    (0..jobs).map(|_| set_up::analyzer_on(&machine)).collect()
}

/// Gives out what was found in each file, in the order of the files, whichever session was done first.
pub(super) fn run(
    sessions: &mut [Analyzer],
    paths: &[PathBuf],
    question: Question,
    mut take: impl FnMut(&Path, Result<Checked, String>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let next = AtomicUsize::new(0);
    let given_out = AtomicUsize::new(0);
    let stop = Cancellation::new();
    std::thread::scope(|scope| {
        let (sender, answers) = mpsc::channel();
        for analyzer in sessions {
            let (sender, next, given_out, stop) = (sender.clone(), &next, &given_out, &stop);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    let Some(path) = paths.get(number) else { return };
                    while number >= given_out.load(Ordering::SeqCst) + MOST_WAITING && !stop.is_cancelled() {
                        std::thread::sleep(std::time::Duration::from_millis(1));
                    }
                    if stop.is_cancelled()
                        || sender.send((number, file(analyzer, path, question, stop))).is_err()
                    {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut waiting: BTreeMap<usize, Result<Checked, String>> = BTreeMap::new();
        for (number, checked) in answers {
            waiting.insert(number, checked);
            while let Some(checked) = waiting.remove(&given_out.load(Ordering::SeqCst)) {
                let number = given_out.fetch_add(1, Ordering::SeqCst);
                if let Err(failure) = take(&paths[number], checked) {
                    // Nobody reads on.
                    stop.cancel();
                    return Err(failure);
                }
            }
        }
        match given_out.load(Ordering::SeqCst) == paths.len() {
            true => Ok(()),
            false => Err(Failure::new("a session ended by an internal error")),
        }
    })
}

fn file(
    analyzer: &mut Analyzer,
    path: &Path,
    question: Question,
    stop: &Cancellation,
) -> Result<Checked, String> {
    let (document, bad_line) = Document::load(path)?;
    let findings = document
        .functions()
        .into_iter()
        .map(|function| {
            analyze(analyzer, &document, &function, question, stop).map_err(|error| (function, error))
        })
        .collect();
    Ok(Checked { document, bad_line, findings })
}

/// Relevance is computed where it is shown.
fn analyze(
    analyzer: &mut Analyzer,
    document: &Document,
    function: &Function,
    question: Question,
    stop: &Cancellation,
) -> Result<Finding, String> {
    let (text, lines, options) = (&document.text, &document.lines, &question.options);
    if Analyzer::relevance_costs(options) && !question.all {
        let glance = analyzer.glance(text, lines, function, options, stop, &mut |_, _| {});
        let glance = glance.map_err(|error| error.to_string())?;
        if !glance.flagged {
            return Ok(glance);
        }
    }
    analyzer.analyze(text, lines, function, options, stop, &mut |_, _| {}).map_err(|error| error.to_string())
}
