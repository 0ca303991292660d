//! Starting up, and what is said when that fails.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support {
    pub mod golden;
    pub mod model;
    pub mod tokenizer;
}

use linelens::analysis::{Analyzer, Options};
use linelens::config::{Config, Machine};
use linelens::detector::session::{ProviderChoice, Runtime, RuntimeError, SessionOptions};
use linelens::detector::{Cancellation, locate};
use linelens::doctor::{self, Report};
use linelens::evaluation::whole;
use linelens::explain::{Method, Steps};
use linelens::graph::onnx::tensor_proto::DataType;
use linelens::graph::{Graph, Weights, int_attribute};
use linelens::text::LineIndex;
use std::path::{Path, PathBuf};
use support::golden;
use support::model::{ModelOptions, Shape, write_model_dir};

fn machine(model: &Path) -> Machine {
    Machine {
        models: Vec::new(),
        library: None,
        model: Some(model.to_path_buf()),
        session: SessionOptions { threads: Some(1), ..Default::default() },
        without_attnlrp: false,
    }
}

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "does not say \"{part}\":\n{text}");
    }
}

#[test]
fn a_healthy_set_up() {
    let dir = tempfile::tempdir().unwrap();
    write_model_dir(&dir.path().join("tiny"), &ModelOptions::default());
    let machine = machine(&dir.path().join("tiny"));
    let (runtime, mut detector) = doctor::start(&machine, &[]).map_err(|r| r.to_text()).unwrap();
    assert!(runtime.version().starts_with("1."), "{}", runtime.version());
    detector.detect(&[0, 100, 2], &Cancellation::new()).unwrap();
    let report = doctor::examine(&machine, &[]);
    assert!(report.healthy());
    assert!(report.providers.iter().any(|p| p.name == "cpu" && p.works));
    let text = report.to_text();
    says(
        &text,
        &[
            "ONNX Runtime 1.",
            "libonnxruntime.so",
            "source tree",
            "provider cpu",
            "provider cuda",
            "tiny, ",
            "the setting `model`",
            &detector.info().sha256[..16],
            "276 tokens",
            "P(vulnerable (index 1)) above 0.5",
            "at most 128",
            match cfg!(feature = "attnlrp") {
                true => "attention:first, attention:last, ig, attnlrp, gradient-x-input, occlusion",
                false => "attention:first, attention:last, ig, gradient-x-input, occlusion",
            },
            "not native: detector.toml names no output",
            "cpu, 1 threads",
        ],
    );
    println!("{text}");
}

#[test]
fn missing_attention_is_said() {
    let dir = tempfile::tempdir().unwrap();
    write_model_dir(dir.path(), &ModelOptions { attention: Shape::Absent, ..Default::default() });
    let text = doctor::examine(&machine(dir.path()), &[]).to_text();
    says(&text, &["methods", "not attention:first", "Softmax"]);
}

/// What a kind of model allows: ✓ for what works, else a part of the reason.
const NO_INTEGERS: &str = "integers have no derivative";
const FUSED: &str = "com.microsoft";
const EXPECTED: &[(&str, [&str; 5])] = &[
    // Model, then attention, ig, attnlrp, gradient-x-input, occlusion.
    ("roberta", ["✓"; 5]),
    ("codebert", ["✓"; 5]),
    ("linevul", ["✓"; 5]),
    ("bert", ["✓"; 5]),
    ("distilbert", ["✓"; 5]),
    ("electra", ["✓"; 5]),
    ("mpnet", ["✓"; 5]),
    ("deberta-noif", ["✓"; 5]),
    ("modernbert", ["✓"; 5]),
    ("codet5", ["✓"; 5]),
    ("codet5gated", ["✓"; 5]),
    ("t5seqcls", ["✓"; 5]),
    ("gpt2", ["✓"; 5]),
    ("qwen2", ["✓"; 5]),
    ("roberta-dynint8", ["✓", NO_INTEGERS, NO_INTEGERS, NO_INTEGERS, "✓"]),
    ("roberta-ortfused", ["Attention (×2)", FUSED, FUSED, FUSED, "✓"]),
];

/// The row that `doctor` prints, for each of the reference models.
#[test]
fn the_methods_of_every_reference_model_are_said_truly() {
    let mut rows = 0;
    for values in golden::values() {
        for model in golden::models(&values) {
            let directory = golden::model_directory(&values, &model);
            let report = doctor::examine(&machine(directory.path()), &[]);
            if model == "deberta-torchscript-17-eager" {
                assert!(report.model.unwrap_err().contains("subgraph"), "{model}");
                continue;
            }
            let text = report.to_text();
            let expected = EXPECTED.iter().filter(|(kind, _)| model.starts_with(&format!("{kind}-")));
            let (_, expected) = expected.max_by_key(|(kind, _)| kind.len()).unwrap();
            let methods = report.methods.unwrap_or_else(|| panic!("{model}: {text}"));
            let printed = text.lines().find(|line| line.starts_with("methods")).unwrap();
            let ids = ["attention:first", "ig", "attnlrp", "gradient-x-input", "occlusion"];
            for (id, expected) in ids.into_iter().zip(*expected) {
                let method: Method = id.parse().unwrap();
                let expected = match (id, cfg!(feature = "attnlrp")) {
                    ("attnlrp", false) => "cargo feature",
                    _ => expected,
                };
                let works = methods.available.contains(&method);
                assert_eq!(works, expected == "✓", "{model}, {id}:\n{text}");
                assert_eq!(printed.contains(&format!(" {id}")), works, "{printed}");
                if !works {
                    let reason = methods.unavailable.iter().find(|(of, _)| *of == method).unwrap();
                    assert!(reason.1.contains(expected), "{model}, {id}: {}", reason.1);
                    says(&text, &[&format!("not {id}: ")]);
                }
            }
            // What is said to work does, and what is not does not.
            let (runtime, detector) =
                doctor::start(&machine(directory.path()), &[]).map_err(|r| r.to_text()).unwrap();
            assert!(runtime.version().starts_with("1."));
            let mut analyzer = Analyzer::new(detector);
            let source = "t5 t6 t7\nt8 t9\n";
            for (id, expected) in ids.into_iter().zip(*expected) {
                let options = Options {
                    method: id.parse().unwrap(),
                    steps: Some(Steps::Fixed(4)),
                    ..Default::default()
                };
                let found = analyzer.analyze(
                    source,
                    &LineIndex::new(source),
                    &whole(source),
                    &options,
                    &Cancellation::new(),
                    &mut |_, _| {},
                );
                let allowed = expected == "✓" && (id != "attnlrp" || cfg!(feature = "attnlrp"));
                assert_eq!(found.is_ok(), allowed, "{model}, {id}: {found:?}");
            }
            rows += 1;
        }
    }
    assert!(rows >= 30, "{rows}");
}

/// Nothing but token ids in and a score out.
#[test]
fn a_black_box_has_occlusion_only() {
    let directory = tempfile::tempdir().unwrap();
    write_model_dir(directory.path(), &ModelOptions::default());
    // Counts a token: no embedding, no derivative.
    let mut graph = Graph::new(17);
    graph.add_input("input_ids", DataType::Int64, &["batch", "sequence"]);
    let wanted = graph.constant_i64(&[8]);
    let equal = graph.emit("Equal", &["input_ids", &wanted], vec![]);
    let ones = graph.emit("Cast", &[&equal], vec![int_attribute("to", DataType::Float as i64)]);
    let axis = graph.constant_i64(&[1]);
    let count = graph.emit("ReduceSum", &[&ones, &axis], vec![int_attribute("keepdims", 1)]);
    let score = graph.emit_as("score", "Sigmoid", &[&count], vec![]);
    graph.add_output(&score, DataType::Float);
    std::fs::write(directory.path().join("model.onnx"), graph.write(Weights::Inline)).unwrap();
    std::fs::write(directory.path().join("config.json"), "{}").unwrap();
    let report = doctor::examine(&machine(directory.path()), &[]);
    let methods = report.methods.clone().unwrap_or_else(|| panic!("{}", report.to_text()));
    assert_eq!(methods.available, [Method::Occlusion]);
    assert_eq!(methods.unavailable.len(), 5, "{}", report.to_text());
}

#[test]
fn attnlrp_can_be_switched_off() {
    let directory = tempfile::tempdir().unwrap();
    write_model_dir(directory.path(), &ModelOptions::default());
    let (config, problems) = Config::load_from(&serde_json::json!({"attnlrp": false}), |_| None);
    assert_eq!(problems, []);
    let machine = Machine { model: Some(directory.path().to_path_buf()), ..config.machine() };
    let report = doctor::examine(&machine, &[]);
    let methods = report.methods.clone().unwrap();
    assert!(!methods.available.contains(&Method::AttnLrp));
    let reason = if cfg!(feature = "attnlrp") { "attnlrp = false" } else { "cargo feature" };
    says(&report.to_text(), &["not attnlrp: ", reason]);
    let (_, detector) = doctor::start(&machine, &[]).map_err(|r| r.to_text()).unwrap();
    let options = Options { method: Method::AttnLrp, ..Default::default() };
    let source = "int f(void);\n";
    let mut analyzer = Analyzer::new(detector);
    let error = analyzer
        .analyze(
            source,
            &LineIndex::new(source),
            &whole(source),
            &options,
            &Cancellation::new(),
            &mut |_, _| {},
        )
        .unwrap_err();
    says(&error.to_string(), &["attnlrp is not available", reason]);
}

#[test]
fn failures_are_said_in_the_report() {
    let dir = tempfile::tempdir().unwrap();
    let report = doctor::start(&machine(dir.path()), &[]).err().unwrap();
    assert!(!report.healthy() && report.library.is_ok());
    says(&report.to_text(), &["model", "ERROR", "no model.onnx", "to do", "LINELENS_MODEL"]);

    let mut without = machine(dir.path());
    without.library = Some(dir.path().join("libonnxruntime.so"));
    let report = doctor::start(&without, &[]).err().unwrap();
    says(
        &report.to_text(),
        &["library", "ERROR", "libonnxruntime.so", "pip install onnxruntime", "not opened"],
    );

    write_model_dir(dir.path(), &ModelOptions::default());
    let mut cuda = machine(dir.path());
    cuda.session.provider = ProviderChoice::Cuda;
    match doctor::start(&cuda, &[]) {
        Ok(_) => println!("skipped: CUDA works here"),
        Err(report) => {
            says(&report.to_text(), &["CUDA was asked for", "provider cuda", "does not work", "auto or cpu"])
        }
    }
}

#[test]
fn what_is_no_library_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let load = |name: &str, content: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        Runtime::load(&locate::Located { path, how: "a test".to_string() }).unwrap_err().to_string()
    };
    let real = locate::library(None, &[]).unwrap();
    // Before and after the real one is loaded, in whatever order the tests run.
    for round in 0..2 {
        let expected: &[&str] =
            if round == 0 { &["libonnxruntime.so"] } else { &["already uses", "start linelens again"] };
        let message = load("libonnxruntime.so", b"this is a text file, not a library\n");
        says(&message, expected);
        Runtime::load(&real).unwrap();
    }
    let missing = locate::Located { path: dir.path().join("gone.so"), how: "a test".to_string() };
    assert!(matches!(Runtime::load(&missing), Err(RuntimeError::Unreadable { .. })));
}

/// What the loader of a fresh process says about a file: one library is allowed a process.
fn fresh_load(path: &Path) -> String {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "load_for_another_test", "--nocapture"])
        .env("LINELENS_TEST_LOAD", path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn load_for_another_test() {
    let Some(path) = std::env::var_os("LINELENS_TEST_LOAD") else { return };
    let located = locate::Located { path: PathBuf::from(path), how: "a test".to_string() };
    match Runtime::load(&located) {
        Ok(_) => println!("loaded"),
        Err(error) => println!("error: {error}"),
    }
    // After a failure another library can still be loaded.
    let real = locate::library(None, &[]).unwrap();
    println!("then: {}", Runtime::load(&real).map_or_else(|e| e.to_string(), |r| r.version().to_string()));
}

#[cfg(target_os = "linux")]
#[test]
fn damaged_and_foreign_libraries_give_errors() {
    let dir = tempfile::tempdir().unwrap();
    let real = locate::library(None, &[]).unwrap().path;
    assert!(fresh_load(&real).contains("loaded"));

    let text = dir.path().join("libonnxruntime.so");
    std::fs::write(
        &text,
        "a text file that is longer than the header of a library, so that it is really looked at",
    )
    .unwrap();
    says(&fresh_load(&text), &["error:", "libonnxruntime.so", "ELF", "then: 1."]);

    let whole = std::fs::read(&real).unwrap();
    for part in [40, 64, 4096, whole.len() / 2, whole.len() - whole.len() / 50] {
        let cut = dir.path().join("cut.so");
        std::fs::write(&cut, &whole[..part]).unwrap();
        says(&fresh_load(&cut), &["error:", "cut.so", "then: 1."]);
    }

    // A sound library that is not ONNX Runtime.
    let folder = real.parent().unwrap();
    let other = folder.join("libonnxruntime_providers_shared.so");
    if other.exists() {
        says(&fresh_load(&other), &["error:", "OrtGetApiBase", "then: 1."]);
    }
}

#[test]
fn names_from_files_are_escaped() {
    let mut report = Report {
        version: "0".to_string(),
        library: Err("bad \u{1b}[31mred\u{1b}[0m \u{202e}txt".to_string()),
        providers: Vec::new(),
        model: Err("two\nlines\r".to_string()),
        methods: None,
        advice: Vec::new(),
    };
    let text = report.to_text();
    assert!(!text.contains(['\u{1b}', '\u{202e}', '\r']), "{text:?}");
    says(&text, &["\\u{1b}[31m", "\\u{202e}", "two\n                lines\\u{d}"]);
    report.advice.push("do this".to_string());
    says(&report.to_text(), &["to do           do this"]);
}
