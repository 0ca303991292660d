//! Starting up, and what is said when that fails.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support {
    pub mod model;
    pub mod tokenizer;
}

use linelens::config::Machine;
use linelens::detector::session::{ProviderChoice, Runtime, RuntimeError, SessionOptions};
use linelens::detector::{Cancellation, locate};
use linelens::doctor::{self, Report};
use std::path::{Path, PathBuf};
use support::model::{ModelOptions, Shape, write_model_dir};

fn machine(model: &Path) -> Machine {
    Machine {
        library: None,
        model: Some(model.to_path_buf()),
        session: SessionOptions { threads: Some(1), ..Default::default() },
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
            "attention:first, attention:last, ig, attnlrp, gradient-x-input, occlusion",
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
