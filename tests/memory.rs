//! How much memory a model takes with every method used once. Figures for RoBERTa-base come from
//! `cargo test --release --test memory -- --ignored --nocapture`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support {
    pub mod model;
    pub mod tokenizer;
}

use linelens::analysis::{Analyzer, Options};
use linelens::detector::session::{ProviderChoice, Runtime, SessionOptions};
use linelens::detector::{Cancellation, Detector, locate};
use linelens::evaluation::whole;
use linelens::explain::Steps;
use linelens::text::LineIndex;
use std::path::Path;
use std::process::Command;
use support::model::{ModelOptions, write_model_dir};

const METHODS: [&str; 5] = ["attention:first", "gradient-x-input", "attnlrp", "ig", "occlusion"];

/// Marks the second use of a method.
const AGAIN: &str = "again:";

/// Before and after the memory of intermediate results is given back.
const BUSY: &str = "busy";
const REST: &str = "rest";

/// Resident memory now and at its highest, in MB, and seconds of the processor, of a fresh process after each of `METHODS`.
fn measure(directory: &Path) -> Vec<(String, f64, f64, f64)> {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "measured_by_another_test", "--nocapture"])
        .env("LINELENS_TEST_MEMORY", directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows = text.lines().filter_map(|line| line.strip_prefix("memory "));
    rows.map(|row| {
        let parts: Vec<&str> = row.split(' ').collect();
        let number = |place: usize| parts[place].parse().unwrap();
        (parts[0].to_string(), number(1), number(2), number(3))
    })
    .collect()
}

#[test]
fn measured_by_another_test() {
    let Some(directory) = std::env::var_os("LINELENS_TEST_MEMORY") else { return };
    // Of the processor, so that other work on the machine does not count.
    let seconds = || {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        let ticks = |field: usize| fields[field].parse::<f64>().unwrap();
        (ticks(11) + ticks(12)) / 100.0
    };
    let report = |what: &str, seconds: f64| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let megabytes = |key: &str| {
            let line = status.lines().find(|line| line.starts_with(key)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0 / 1e6
        };
        println!("memory {what} {:.1} {:.1} {seconds:.2}", megabytes("VmRSS:"), megabytes("VmHWM:"));
    };
    let runtime = Runtime::load(&locate::library(None, &[]).unwrap()).unwrap();
    report("start", 0.0);
    let options = SessionOptions { provider: ProviderChoice::Cpu, threads: Some(2), ..Default::default() };
    let start = seconds();
    let detector = Detector::open(Path::new(&directory), &runtime, &options).unwrap();
    report("open", seconds() - start);
    let mut analyzer = Analyzer::new(detector);
    // 126 tokens of a byte each, so 128 with the special ones.
    let source = format!("{}\n", "a = b;\n".repeat(18)).chars().take(126).collect::<String>();
    let whole = whole(&source);
    for round in ["", AGAIN] {
        for method in METHODS {
            if method == "attnlrp" && !cfg!(feature = "attnlrp") {
                continue;
            }
            let options = Options {
                method: method.parse().unwrap(),
                steps: Some(Steps::Fixed(8)),
                ..Default::default()
            };
            let (lines, cancel) = (LineIndex::new(&source), Cancellation::new());
            // Another text, so that nothing comes from the cache.
            let source = if round.is_empty() { source.clone() } else { source.replace('b', "c") };
            let start = seconds();
            analyzer.analyze(&source, &lines, &whole, &options, &cancel, &mut |_, _| {}).unwrap();
            report(&format!("{round}{method}"), seconds() - start);
        }
    }
    let (source, options) =
        (source.replace('b', "d"), Options { method: METHODS[1].parse().unwrap(), ..Default::default() });
    let (lines, cancel) = (LineIndex::new(&source), Cancellation::new());
    analyzer.analyze(&source, &lines, &whole, &options, &cancel, &mut |_, _| {}).unwrap();
    report(BUSY, 0.0);
    analyzer.rest();
    report(REST, 0.0);
}

/// `least_given_back` in MB.
fn check(options: &ModelOptions, least_given_back: f64) {
    let directory = tempfile::tempdir().unwrap();
    write_model_dir(directory.path(), options);
    let weights = std::fs::metadata(directory.path().join("model.onnx.data")).unwrap().len() as f64 / 1e6;
    let mut rows = measure(directory.path());
    for (what, now, highest, seconds) in &rows {
        let times = now / weights;
        println!("{what:24} {now:8.1} MB ({times:.2} × weights), highest {highest:8.1} MB, {seconds:6.2} s");
    }
    let (rest, busy) = (rows.pop().unwrap(), rows.pop().unwrap());
    assert_eq!((busy.0.as_str(), rest.0.as_str()), (BUSY, REST));
    assert!(rest.1 < busy.1 - least_given_back, "{} MB before, {} MB after", busy.1, rest.1);
    let limit = 1.6 * weights + 300.0;
    let (again, once): (Vec<_>, Vec<_>) = rows.iter().partition(|(what, ..)| what.starts_with(AGAIN));
    assert!(again.len() >= METHODS.len() - 1 && once.len() > again.len(), "{rows:?}");
    let highest = |rows: &[&(String, f64, f64, f64)]| rows.last().unwrap().2;
    println!("weights {weights:.1} MB, highest {:.1} MB, limit {limit:.1} MB", highest(&once));
    assert!(highest(&once) <= limit, "{rows:?}");
    // The allocator's fragments may add a little, but memory does not grow with use.
    assert!(highest(&again) <= 1.05 * limit, "{rows:?}");
}

#[test]
fn sessions_share_their_weights() {
    check(
        &ModelOptions {
            layers: 8,
            hidden: 512,
            inner: 4,
            heads: 8,
            vocab: 20_000,
            positions: 514,
            external: true,
            ..Default::default()
        },
        20.0,
    );
}

#[test]
#[ignore = "takes a minute and a half a gigabyte of disk"]
fn roberta_base_takes_at_most_one_and_a_half_times_its_weights() {
    check(
        &ModelOptions {
            layers: 12,
            hidden: 768,
            inner: 4,
            heads: 12,
            vocab: 50_265,
            positions: 514,
            external: true,
            ..Default::default()
        },
        50.0,
    );
}
