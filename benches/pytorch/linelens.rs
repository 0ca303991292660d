//! One side of the comparison with PyTorch: linelens as a process that is told what to measure.
//!
//! Each line of standard input is a JSON object with `do` and its arguments, each line of output the answer: `seconds`
//! of the work itself, what came out of it, and the process's memory in bytes and processor time. `compare.py` runs it beside the other
//! side, one command at a time, so that both are measured under the same load. Without arguments it does nothing, as
//! `cargo bench` starts every bench.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use linelens::analysis::{Analyzer, Options, Profile};
use linelens::detector::session::{ProviderChoice, Runtime, SessionOptions};
use linelens::detector::{Cancellation, Detection, Detector, locate};
use linelens::explain::{self, Manner, Method, Steps, Subject};
use linelens::syntax::{Language, SyntaxTree};
use linelens::text::{ByteSpan, LineIndex};
use linelens::tokens::{Encoding, Token, Window};
use serde_json::{Value, json};
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let (Some(model), Some(threads)) = (arguments.next(), arguments.next()) else {
        eprintln_usage();
        return;
    };
    let mut side = Side {
        model: PathBuf::from(model),
        threads: threads.parse().unwrap(),
        detector: None,
        analyzer: None,
    };
    for line in std::io::stdin().lock().lines() {
        let command: Value = serde_json::from_str(&line.unwrap()).unwrap();
        reset_peak();
        let worked = cpu_seconds();
        let mut answer = side.answer(&command);
        let memory = memory();
        answer["cpu"] = json!(cpu_seconds() - worked);
        answer["peak"] = json!(memory.peak);
        answer["resident"] = json!(memory.resident);
        println!("{answer}");
        std::io::stdout().flush().unwrap();
    }
}

#[allow(clippy::print_stderr)]
fn eprintln_usage() {
    eprintln!(
        "side_by_side MODEL_DIRECTORY THREADS, commands on standard input: see benches/pytorch/README.md"
    );
}

struct Side {
    model: PathBuf,
    threads: usize,
    detector: Option<Detector>,
    analyzer: Option<Analyzer>,
}

impl Side {
    fn answer(&mut self, command: &Value) -> Value {
        let text = |key: &str| command[key].as_str().unwrap();
        match text("do") {
            "open" => {
                let started = Instant::now();
                self.detector = Some(self.open());
                json!({ "seconds": started.elapsed().as_secs_f64() })
            }
            "plain session" => plain_session(&self.model.join("model.onnx"), self.threads),
            "forward" => self.forward(&ids(command)),
            "relevance" => self.relevance(text("method"), &ids(command)),
            "pipeline" => self.pipeline(text("method"), text("text")),
            "start" => {
                let started = Instant::now();
                self.analyzer = Some(Analyzer::new(self.open_for(command["once"] == true)));
                let opened = started.elapsed().as_secs_f64();
                let mut answer = self.pipeline(text("method"), text("text"));
                answer["opened"] = json!(opened);
                answer["seconds"] = json!(started.elapsed().as_secs_f64());
                answer
            }
            other => panic!("unknown command {other}"),
        }
    }

    fn open(&self) -> Detector {
        self.open_for(false)
    }

    /// `once`: as `linelens explain` opens it for one function.
    fn open_for(&self, once: bool) -> Detector {
        let runtime = Runtime::load(&locate::library(None, &[]).unwrap()).unwrap();
        let options = SessionOptions {
            provider: ProviderChoice::Cpu,
            threads: Some(self.threads),
            few_runs: once,
            ..SessionOptions::default()
        };
        Detector::open(&self.model, &runtime, &options).unwrap()
    }

    fn detector(&mut self) -> &mut Detector {
        self.detector.as_mut().unwrap()
    }

    /// The verdict and the attention of every layer, which come from one run.
    fn forward(&mut self, ids: &[u32]) -> Value {
        let started = Instant::now();
        let found = self.detector().detect(ids, &Cancellation::new()).unwrap();
        let seconds = started.elapsed().as_secs_f64();
        json!({ "seconds": seconds, "probability": found.probability, "values": found.attention.first() })
    }

    /// Relevance of all tokens but the special ones, from a detection that is there already.
    fn relevance(&mut self, method: &str, ids: &[u32]) -> Value {
        let code = ids.len() - 2;
        let tokens = ids[1..=code].iter().map(|id| Token { id: *id, span: ByteSpan::new(0, 1) }).collect();
        let window = Window { ids: ids.to_vec(), code: 0..code, first_code: 1 };
        let encoding = Encoding { tokens, windows: vec![window] };
        let detections = [Detection { probability: 1.0, attention: Vec::new(), relevance: None }];
        let groups = Vec::new();
        let subject = Subject { encoding: &encoding, detections: &detections, groups: &groups };
        let method: Method = method.parse().unwrap();
        let started = Instant::now();
        let found = explain::explain(
            method,
            Manner { steps: Steps::Fixed(50), as_published: false },
            self.detector(),
            subject,
            &Cancellation::new(),
            &mut |_, _| {},
        )
        .unwrap();
        let seconds = started.elapsed().as_secs_f64();
        let values: Vec<f64> = found.values.into_iter().map(Option::unwrap).collect();
        json!({ "seconds": seconds, "values": values, "gap": found.completeness.map(|c| c.gap) })
    }

    /// From the text of a function to line scores. A text that was there before would come from the cache.
    fn pipeline(&mut self, method: &str, document: &str) -> Value {
        let options =
            Options { method: method.parse().unwrap(), profile: Profile::Paper, ..Options::default() };
        let analyzer = self.analyzer.as_mut().unwrap();
        let started = Instant::now();
        let lines = LineIndex::new(document);
        let tree = SyntaxTree::parse(document, Language::C);
        let function = tree.functions(document).remove(0);
        let cancel = Cancellation::new();
        let finding =
            analyzer.analyze(document, &lines, &function, &options, &cancel, &mut |_, _| {}).unwrap();
        let seconds = started.elapsed().as_secs_f64();
        json!({ "seconds": seconds, "lines": finding.lines.len(), "probability": finding.probability })
    }
}

fn ids(command: &Value) -> Vec<u32> {
    command["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// What any program pays that loads this file with ONNX Runtime as it comes.
fn plain_session(onnx: &Path, threads: usize) -> Value {
    let started = Instant::now();
    let library = locate::library(None, &[]).unwrap();
    let environment = ort::init_from(&library.path).unwrap().build().unwrap();
    let _session = ort::session::Session::builder(&environment)
        .unwrap()
        .with_intra_threads(threads)
        .unwrap()
        .commit_from_file(onnx)
        .unwrap();
    json!({ "seconds": started.elapsed().as_secs_f64() })
}

/// Processor time of all threads so far, in steps of 10 ms; 0 where the system does not say.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // utime and stime, the 14th and 15th field, in ticks of 10 ms; the second, a name in parentheses, may hold blanks.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}

struct Memory {
    peak: u64,
    resident: u64,
}

/// The largest and the present resident set, in bytes; 0 where the system does not say.
fn memory() -> Memory {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kilobytes.unwrap_or(0) * 1024
    };
    Memory { peak: of("VmHWM:"), resident: of("VmRSS:") }
}

/// From here on the largest resident set counts anew.
fn reset_peak() {
    // Where the system has no such thing, the peak is that of the whole process.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}
