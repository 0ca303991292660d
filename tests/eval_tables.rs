//! The tables of `linelens eval` from results made by hand.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use linelens::alignment::Unit;
use linelens::annotations::{Label, Pair, Role};
use linelens::evaluation::report::{Dimension, DroppedPair, Evaluated, Report, report};
use linelens::evaluation::{Explanation, Facts, Fingerprint, Score};
use linelens::explain::{Completeness, Method};
use std::collections::HashMap;

fn facts(index: usize, label: Label, truth: &[usize], pair: Option<(&str, Role)>) -> Facts {
    Facts {
        index,
        row: index + 1,
        id: None,
        label,
        truth: truth.to_vec(),
        cwe: vec!["CWE-1".to_string(), format!("CWE-{}", index % 2 + 2)],
        collection: Some(if index < 4 { "a" } else { "b" }.to_string()),
        project: None,
        commit: None,
        pair: pair.map(|(id, role)| Pair { id: id.to_string(), role }),
        bytes: 100,
        lines: if index < 4 { 5 } else { 60 },
        fingerprint: Fingerprint::of(&index.to_string()),
    }
}

fn score(probability: f64) -> Option<Score> {
    Some(Score { probability, tokens: 10, truncated: probability > 0.85 })
}

fn explanation(scores: &[(f64, bool)]) -> Explanation {
    let units = scores.iter().map(|(score, is_true)| Unit { score: *score, is_true: *is_true }).collect();
    let completeness =
        Some(Completeness { gap: 0.25, change: 0.5, reached: scores.len() > 2, evaluations: 50 });
    Explanation { units, outside: Some(0), completeness, faithfulness: None }
}

fn example() -> Report {
    let (before, after) = (Role::Before, Role::After);
    let (vulnerable, benign) = (Label::Vulnerable, Label::Benign);
    let facts = [
        facts(0, vulnerable, &[0], Some(("x", before))), // flagged
        facts(1, benign, &[], Some(("x", after))),       // cleared: P-C
        facts(2, vulnerable, &[1], Some(("y", before))), // cleared
        facts(3, benign, &[], Some(("y", after))),       // flagged: P-R
        facts(4, benign, &[], None),                     // flagged
        facts(5, vulnerable, &[], Some(("z", before))),  // flagged; no lines; its fix is not here
        facts(6, Label::Unsure, &[], None),              // left out
        facts(7, benign, &[], Some(("w", before))),      // cleared; labelled benign before
        facts(8, benign, &[], Some(("w", after))),       // the model failed
    ];
    let scores = [
        score(0.9),
        score(0.1),
        score(0.4),
        score(0.8),
        score(0.7),
        score(0.6),
        score(0.99),
        score(0.2),
        None,
    ];
    let explained = HashMap::from([
        (0, explanation(&[(1.0, true), (0.0, false), (0.5, false)])),
        (2, explanation(&[(1.0, false), (0.5, true)])),
        (3, explanation(&[(0.0, false), (1.0, false)])),
        // 4 needs an explanation and has none.
    ]);
    report(Evaluated {
        facts: &facts,
        scores: &scores,
        explanations: &[(Method::Occlusion, explained)],
        threshold: 0.5,
        seed: 1,
    })
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-12
}

#[test]
fn functions_are_counted() {
    let found = example();
    let counts = found.counts;
    assert_eq!((counts.functions, counts.vulnerable, counts.benign, counts.unsure), (9, 3, 5, 1));
    assert_eq!((counts.with_lines, counts.unscored, counts.truncated), (2, 1, 2));
    let confusion = found.functions.confusion;
    assert_eq!(
        (confusion.true_positives, confusion.false_positives),
        (2, 2),
        "the unsure function is left out"
    );
    assert_eq!((confusion.true_negatives, confusion.false_negatives), (2, 1));
    assert_eq!(found.majority.accuracy, Some(4.0 / 7.0));
    assert_eq!(found.judged.len(), 7);
    let interval = found.f1_interval.unwrap();
    assert!(interval.low <= found.functions.f1.unwrap() && found.functions.f1.unwrap() <= interval.high);
}

#[test]
fn methods_are_summed_up() {
    let found = example();
    let method = &found.methods[0];
    let alignment = method.alignment.unwrap();
    assert_eq!(
        (alignment.functions, alignment.flagged, method.without_lines, method.unexplained),
        (2, 1, 1, 1)
    );
    // Function 0: 1 / 1.5; function 2 was not flagged.
    assert!(close(alignment.da.mean, (1.0 / 1.5) / 2.0) && close(alignment.da.pooled, 1.0 / (1.5 + 1.0)));
    assert!(close(alignment.would_be.mean, (1.0 / 1.5 + 0.5 / 2.0) / 2.0));
    // Flagged with known lines: 0 and 3.
    let localisation = method.localisation;
    assert_eq!((localisation.flagged, localisation.with_truth, localisation.ifa_mean), (2, 1, Some(0.0)));
    let completeness = method.completeness.unwrap();
    assert_eq!((completeness.functions, completeness.mean_gap, completeness.reached), (3, 0.25, 1.0 / 3.0));
    assert_eq!(method.faithfulness, None);
}

#[test]
fn pairs_are_counted_or_dropped_with_the_reason() {
    let found = example();
    let pairs = found.pairs.unwrap();
    assert_eq!((pairs.pairs, pairs.correct, pairs.reversed, pairs.both_vulnerable), (2, 1, 1, 0));
    let dropped: Vec<(DroppedPair, usize)> = found.dropped_pairs.into_iter().collect();
    assert_eq!(dropped, [(DroppedPair::NoFix, 1), (DroppedPair::Labels, 1)]);
}

#[test]
fn parts_hold_what_belongs_to_them() {
    let found = example();
    let part = |by: Dimension, name: &str| {
        found
            .slices
            .iter()
            .find(|slice| slice.by == by && slice.name == name)
            .unwrap_or_else(|| panic!("{name}"))
    };
    let size = |by, name| part(by, name).functions.confusion.total();
    assert_eq!((size(Dimension::Source, "a"), size(Dimension::Source, "b")), (4, 3));
    assert_eq!((size(Dimension::Length, "1–10"), size(Dimension::Length, "51–100")), (4, 3));
    assert_eq!((size(Dimension::Truncation, "whole"), size(Dimension::Truncation, "truncated")), (6, 1));
    assert_eq!(size(Dimension::Cwe, "CWE-1"), 7, "a function counts for each of its CWEs");
    // All three vulnerable ones, with the four halves of pairs, and with the one that is none.
    assert_eq!(
        (size(Dimension::BenignSide, "fixes"), size(Dimension::BenignSide, "unpaired functions")),
        (6, 4)
    );
    assert_eq!(part(Dimension::BenignSide, "fixes").pairs.unwrap().pairs, 2);
    assert_eq!(part(Dimension::BenignSide, "unpaired functions").pairs, None, "their fixes are not in it");
    assert_eq!(part(Dimension::Source, "a").pairs.unwrap().pairs, 2);
    assert_eq!(part(Dimension::Source, "b").pairs, None);
    assert!(part(Dimension::Source, "b").alignment[0].is_none());
    // In the order of their size, not of their names.
    let lengths: Vec<&str> = found
        .slices
        .iter()
        .filter(|slice| slice.by == Dimension::Length)
        .map(|slice| slice.name.as_str())
        .collect();
    assert_eq!(lengths, ["1–10", "51–100"]);
}
