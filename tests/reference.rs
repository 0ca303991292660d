//! The profile `reference`: what the published code of Pintore et al. computes.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support {
    pub mod golden;
    pub mod model;
    pub mod tokenizer;
}

use linelens::analysis::{Analyzer, Finding, Options, Profile};
use linelens::detector::session::{ProviderChoice, Runtime, SessionOptions};
use linelens::detector::{Cancellation, Detector, locate};
use linelens::evaluation::whole;
use linelens::explain::{self, Manner, Method, Steps, Subject};
use linelens::lines::reference::{Unit, by_line, truth, units};
use linelens::text::{ByteSpan, LineIndex};
use linelens::tokens::{Encoding, Normalize, Token, Window};
use serde_json::Value;
use std::path::Path;
use support::golden::{self, numbers};
use support::model::{ModelOptions, write_model_dir};

fn open(directory: &Path) -> Detector {
    let runtime = Runtime::load(&locate::library(None, &[]).unwrap()).unwrap();
    let options = SessionOptions { provider: ProviderChoice::Cpu, threads: Some(1), ..Default::default() };
    Detector::open(directory, &runtime, &options).unwrap()
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn units_are_those_of_an_independent_implementation() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/lines/units.json");
    let cases: Vec<Value> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert!(cases.len() >= 50, "{}", cases.len());
    for case in &cases {
        let name = &case["name"];
        let texts: Vec<Vec<u8>> =
            case["tokens"].as_array().unwrap().iter().map(|token| bytes(token.as_str().unwrap())).collect();
        // A document is text, so a character that is cut off at its end gets the rest of it.
        let document = complete(texts.concat());
        let mut end = 0;
        let tokens: Vec<Token> = texts
            .iter()
            .map(|text| {
                let start = end;
                end += text.len();
                Token { id: 0, span: ByteSpan::new(start, end) }
            })
            .collect();
        let relevance: Vec<Option<f64>> = numbers(&case["relevance"]).into_iter().map(Some).collect();
        let absolute = case["absolute"].as_bool().unwrap();
        let lines = LineIndex::new(&document);
        let found = units(&document, &lines, &tokens, &texts, &relevance, absolute);
        let expected = case["units"].as_array().unwrap();
        assert_eq!(found.len(), expected.len(), "{name}: {found:?}");
        let ground_truth: Vec<&str> =
            case["truth"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        let truth = truth(&found, ground_truth);
        let (mut intersection, mut union) = (0.0, 0.0);
        for ((unit, expected), truth) in found.iter().zip(expected).zip(truth) {
            assert_eq!(unit.text, expected["text"].as_str().unwrap(), "{name}");
            assert_eq!(unit.line as u64, expected["line"].as_u64().unwrap(), "{name}: {}", unit.text);
            assert!((unit.raw - expected["raw"].as_f64().unwrap()).abs() < 1e-12, "{name}: {unit:?}");
            assert!((unit.score - expected["score"].as_f64().unwrap()).abs() < 1e-12, "{name}: {unit:?}");
            assert_eq!(truth, expected["true"].as_bool().unwrap(), "{name}: {}", unit.text);
            let indicator = f64::from(u8::from(truth));
            intersection += unit.score.min(indicator);
            union += unit.score.max(indicator);
        }
        assert!((intersection - case["intersection"].as_f64().unwrap()).abs() < 1e-9, "{name}");
        assert!((union - case["union"].as_f64().unwrap()).abs() < 1e-9, "{name}");
    }
}

/// Replaces what is no UTF-8, byte for byte, so that offsets stay.
fn complete(mut bytes: Vec<u8>) -> String {
    loop {
        match String::from_utf8(bytes) {
            Ok(text) => return text,
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                bytes = error.into_bytes();
                bytes[at] = b'?';
            }
        }
    }
}

#[test]
fn a_line_has_the_score_of_its_best_unit() {
    let unit = |line, raw, score| Unit { line, text: String::new(), raw, score };
    let units =
        [unit(3, -1.0, 0.0), unit(3, 1.0, 0.5), unit(7, 0.5, 0.375), unit(3, 0.0, 0.25), unit(4, 3.0, 1.0)];
    let rows: Vec<_> = by_line(&units).iter().map(|l| (l.line, l.raw, l.score, l.rank)).collect();
    assert_eq!(rows, [(3, 1.0, 0.5, 2), (4, 3.0, 1.0, 1), (7, 0.5, 0.375, 3)]);
}

fn explain_ids(detector: &mut Detector, method: Method, ids: &[u32]) -> Vec<f64> {
    let code = 1..ids.len() - 1;
    let tokens: Vec<Token> =
        code.map(|at| Token { id: ids[at], span: ByteSpan::new(2 * at, 2 * at + 1) }).collect();
    let window = Window { ids: ids.to_vec(), code: 0..tokens.len(), first_code: 1 };
    let encoding = Encoding { tokens, windows: vec![window] };
    let cancel = Cancellation::new();
    let detections = [detector.detect(ids, &cancel).unwrap()];
    let subject = Subject { encoding: &encoding, detections: &detections, groups: &[] };
    let manner = Manner { steps: Steps::Fixed(50), as_published: true };
    let found = explain::explain(method, manner, detector, subject, &cancel, &mut |_, _| {}).unwrap();
    found.values.into_iter().map(Option::unwrap).collect()
}

#[track_caller]
fn near(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(1e-12, |largest: f64, value| largest.max(value.abs()));
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= tolerance * largest, "{what}: {found}, expected {expected}");
    }
}

/// The maximum of the model is what the reference values were padded to.
#[test]
fn attention_and_integrated_gradients_are_those_of_padded_inputs() {
    let mut compared = 0;
    for values in golden::values() {
        for model in golden::models(&values) {
            if model.contains("ortfused") {
                continue;
            }
            let cases = golden::singles(&values);
            let cases: Vec<_> = cases.iter().filter(|(case, _)| !case["as_if_padded"].is_null()).collect();
            if cases.is_empty() {
                continue;
            }
            let directory = golden::model_directory(&values, &model);
            let mut detector = open(directory.path());
            for (case, ids) in cases {
                let what = format!("{model}, {}", case["name"]);
                let code = 1..ids.len() - 1;
                let padded = &case["as_if_padded"];
                assert_eq!(padded["length"].as_u64(), Some(detector.info().max_tokens as u64), "{what}");
                for layer in 1..=detector.info().layers {
                    let method: Method = format!("attention:{layer}").parse().unwrap();
                    let found = explain_ids(&mut detector, method, ids);
                    let expected = &numbers(&padded["attention"][layer - 1][0])[code.clone()];
                    near(&found, expected, 2e-5, &format!("{what}, {method}"));
                    compared += 1;
                }
                let found = explain_ids(&mut detector, Method::IntegratedGradients, ids);
                let expected = &numbers(&padded["ig"]["relevance"])[code.clone()];
                near(&found, expected, 2e-5, &format!("{what}, ig"));
                compared += 1;
            }
        }
    }
    println!("{compared} agree");
    assert!(compared > 100, "{compared}");
}

#[test]
#[cfg(feature = "attnlrp")]
fn attnlrp_is_divided_by_its_largest_magnitude_and_knows_the_head() {
    for (subject, key) in [
        ("roberta-torchscript-17-eager", "attnlrp_plain_tanh"),
        ("codebert-torchscript-17-sdpa", "attnlrp_plain_tanh"),
        ("linevul-torchscript-14-eager", "attnlrp"),
        ("bert-torchscript-17-eager", "attnlrp_plain_tanh"),
    ] {
        let all = golden::values();
        let values = all.iter().find(|values| golden::models(values).contains(&subject.to_string())).unwrap();
        let directory = golden::model_directory(values, subject);
        let mut detector = open(directory.path());
        for (case, ids) in golden::singles(values) {
            let found = explain_ids(&mut detector, Method::AttnLrp, &ids);
            let mut expected = numbers(&case[key]);
            let largest = expected.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
            expected.iter_mut().for_each(|value| *value /= largest);
            near(&found, &expected[1..ids.len() - 1], 2e-5, &format!("{subject}, {}", case["name"]));
        }
    }
}

fn analyze(analyzer: &mut Analyzer, text: &str, options: &Options) -> Finding {
    let cancel = Cancellation::new();
    analyzer.analyze(text, &LineIndex::new(text), &whole(text), options, &cancel, &mut |_, _| {}).unwrap()
}

#[test]
fn a_finding_has_the_units_and_their_lines() {
    let directory = tempfile::tempdir().unwrap();
    write_model_dir(directory.path(), &ModelOptions::default());
    let mut analyzer = Analyzer::new(open(directory.path()));
    let text = "int f(int n)\n{\n\tint é = n;\n\tint é = n;\n\n    return  n;\n}\n";
    for method in ["attention:first", "attention:last", "occlusion", "gradient-x-input", "ig"] {
        let method = method.parse().unwrap();
        let options = Options { method, profile: Profile::Reference, ..Default::default() };
        let finding = analyze(&mut analyzer, text, &options);
        assert_eq!(finding.profile, "reference");
        let texts: Vec<(usize, &str)> = finding.units.iter().map(|u| (u.line, u.text.as_str())).collect();
        // To the tests' tokenizer most spaces are tokens by themselves, and such a token ends a unit.
        let expected =
            [(0, "int"), (0, "f(int"), (0, "n)"), (1, "{"), (2, "int"), (2, "é"), (2, "="), (2, "n;")];
        let expected = [&expected[..], &[(3, "int"), (3, "é"), (3, "="), (3, "n;")]].concat();
        let expected = [expected, vec![(5, "return"), (5, "n;"), (6, "}")]].concat();
        assert_eq!(texts, expected, "{method}");
        assert_eq!(finding.lines.iter().map(|line| line.line).collect::<Vec<_>>(), [0, 1, 2, 3, 5, 6]);
        assert!(finding.lines.iter().any(|line| line.score > 0.999), "{finding:?}");
        let flawed = truth(&finding.units, [" n ; "]);
        let flawed: Vec<usize> = (0..flawed.len()).filter(|unit| flawed[*unit]).collect();
        assert_eq!(flawed, [7, 11, 13], "all three that read n;");
        let ordinary = analyze(&mut analyzer, text, &Options { profile: Profile::Paper, ..options });
        assert!(ordinary.units.is_empty());
        assert!(analyzer.is_cached(text, &whole(text), &options));
        // Only attention has other token relevance, besides AttnLRP.
        if matches!(method, Method::Attention(_)) {
            let raw = |finding: &Finding, line| finding.lines.iter().find(|l| l.line == line).map(|l| l.raw);
            assert!((raw(&finding, 6).unwrap() / raw(&ordinary, 6).unwrap() - 1.0).abs() > 1e-3, "{method}");
        }
    }
}

#[test]
fn the_bytes_of_a_token_are_those_of_its_text() {
    let directory = tempfile::tempdir().unwrap();
    write_model_dir(directory.path(), &ModelOptions::default());
    let detector = open(directory.path());
    let text: String = (0..0x180u32).chain(0x3000..0x3010).filter_map(char::from_u32).collect();
    let span = ByteSpan::new(0, text.len());
    let long = detector.info().long;
    let encoding = detector.tokenizer().encode(&text, span, Normalize::None, 128, long).unwrap();
    let bytes: Vec<u8> =
        encoding.tokens.iter().flat_map(|token| detector.tokenizer().bytes_of(token.id).unwrap()).collect();
    assert_eq!(bytes, text.as_bytes());
}
