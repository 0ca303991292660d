//! How long single steps take with the built-in detector: `cargo bench --bench speed`, `-- NAME` for some of them.
//!
//! Two threads. Figures of this machine only; `benches/pytorch` compares.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use divan::{Bencher, black_box};
use linelens::analysis::{Analyzer, Options};
use linelens::detector::session::{ProviderChoice, Runtime, SessionOptions};
use linelens::detector::{Cancellation, Detector, locate};
use linelens::explain::{self, Manner, Method, Steps, Subject};
use linelens::syntax::{Edit, Language, SyntaxTree};
use linelens::text::{ByteSpan, LineIndex};
use linelens::tokens::{Encoding, LongPolicy, Normalize};
use std::path::Path;

fn main() {
    match locate::library(None, &[]) {
        Ok(_) => divan::main(),
        // `cargo bench` of a checkout without ONNX Runtime still says what is missing.
        Err(error) => println!("skipped: {error}"),
    }
}

fn detector() -> Detector {
    let runtime = Runtime::load(&locate::library(None, &[]).unwrap()).unwrap();
    let options =
        SessionOptions { provider: ProviderChoice::Cpu, threads: Some(2), ..SessionOptions::default() };
    Detector::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("models/default"), &runtime, &options).unwrap()
}

/// A function with as many statements as asked for.
fn function(name: usize, statements: usize) -> String {
    let body: String = (0..statements)
        .map(|i| format!("    if (offset_{i} > limit) {{ buffer[offset_{i}] = source[{i}]; }}\n"))
        .collect();
    format!(
        "static int handle_{name}(char *buffer, const char *source, int limit)\n{{\n{body}    return 0;\n}}\n\n"
    )
}

/// A file of about as many lines.
fn file(lines: usize) -> String {
    (0..lines / 50).map(|name| function(name, 45)).collect()
}

/// The text of a function that fills one window of the model, cut to `tokens`.
fn encoding(detector: &Detector, tokens: usize) -> Encoding {
    let text = function(0, 40);
    let span = ByteSpan::new(0, text.len());
    let encoding =
        detector.tokenizer().encode(&text, span, Normalize::None, tokens, LongPolicy::Truncate).unwrap();
    assert_eq!(encoding.windows[0].ids.len(), tokens);
    encoding
}

#[divan::bench(args = [1_000, 10_000, 50_000])]
fn find_functions(bencher: Bencher, lines: usize) {
    let text = file(lines);
    bencher.bench(|| SyntaxTree::parse(black_box(&text), Language::C).functions(&text).len());
}

/// One character typed in the middle of the file.
#[divan::bench(args = [1_000, 10_000, 50_000])]
fn reparse_after_an_edit(bencher: Bencher, lines: usize) {
    let old = file(lines);
    let place = old[..old.len() / 2].rfind("limit").unwrap();
    let new = format!("{}x{}", &old[..place], &old[place..]);
    let tree = SyntaxTree::parse(&old, Language::C);
    let edit = Edit { start: place, old_end: place, new_end: place + 1 };
    bencher.bench(|| tree.edited(black_box(&old), black_box(&new), edit));
}

#[divan::bench(args = [1_000, 10_000, 50_000])]
fn index_lines(bencher: Bencher, lines: usize) {
    let text = file(lines);
    bencher.bench(|| LineIndex::new(black_box(&text)));
}

#[divan::bench(args = [10, 100, 1_000])]
fn tokenize(bencher: Bencher, statements: usize) {
    let detector = detector();
    let text = function(0, statements);
    let span = ByteSpan::new(0, text.len());
    bencher.bench(|| {
        detector
            .tokenizer()
            .encode(black_box(&text), span, Normalize::StripComments, 512, LongPolicy::Window)
            .unwrap()
    });
}

/// The verdict and the attention of all layers.
#[divan::bench(args = [64, 128, 256, 512])]
fn forward(bencher: Bencher, tokens: usize) {
    let mut detector = detector();
    let encoding = encoding(&detector, tokens);
    let cancel = Cancellation::new();
    bencher.bench_local(|| detector.detect(&encoding.windows[0].ids, &cancel).unwrap());
}

/// After the forward pass, whose result attention is part of.
#[divan::bench(args = ["attention:last", "attnlrp", "gradient-x-input", "occlusion", "ig"], sample_count = 20)]
fn relevance_at_256_tokens(bencher: Bencher, method: &str) {
    let method: Method = method.parse().unwrap();
    let mut detector = detector();
    let encoding = encoding(&detector, 256);
    let cancel = Cancellation::new();
    let detections = [detector.detect(&encoding.windows[0].ids, &cancel).unwrap()];
    let groups: Vec<Vec<usize>> = (0..254).collect::<Vec<_>>().chunks(12).map(<[usize]>::to_vec).collect();
    let mut relevance = || {
        let subject = Subject { encoding: &encoding, detections: &detections, groups: &groups };
        explain::explain(
            method,
            Manner { steps: Steps::Fixed(50), as_published: false },
            &mut detector,
            subject,
            &cancel,
            &mut |_, _| {},
        )
        .unwrap()
    };
    // The first use derives the graph.
    relevance();
    bencher.bench_local(relevance);
}

/// From a parsed document to a finding, the model's answer being known.
#[divan::bench]
fn explain_warm(bencher: Bencher) {
    let text = function(0, 40);
    let (tree, lines) = (SyntaxTree::parse(&text, Language::C), LineIndex::new(&text));
    let function = tree.functions(&text).remove(0);
    let mut analyzer = Analyzer::new(detector());
    let (options, cancel) = (Options::default(), Cancellation::new());
    bencher.bench_local(|| {
        analyzer.analyze(&text, &lines, &function, &options, &cancel, &mut |_, _| {}).unwrap()
    });
}

/// The same when the function is new to the model.
#[divan::bench]
fn explain_cold(bencher: Bencher) {
    let mut analyzer = Analyzer::new(detector());
    let (options, cancel) = (Options::default(), Cancellation::new());
    let mut number = 0;
    bencher
        .with_inputs(|| {
            number += 1;
            function(number, 40)
        })
        .bench_local_values(|text| {
            let (tree, lines) = (SyntaxTree::parse(&text, Language::C), LineIndex::new(&text));
            let function = tree.functions(&text).remove(0);
            analyzer.analyze(&text, &lines, &function, &options, &cancel, &mut |_, _| {}).unwrap()
        });
}
