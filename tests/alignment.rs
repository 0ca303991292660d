//! Detection Alignment against cases computed by hand, and as properties.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use linelens::alignment::localisation::{Flagged, localisation, summarize, undefined};
use linelens::alignment::{
    Alignment, Undefined, Unit, Verdicts, align, align_each, align_matched_units, align_units,
};
use linelens::lines::{LineScore, aggregate};
use linelens::text::{ByteSpan, LineIndex};
use linelens::tokens::Token;
use proptest::prelude::*;

const FOUND: Verdicts = Verdicts { predicted_vulnerable: true, labelled_vulnerable: true };
const MISSED: Verdicts = Verdicts { predicted_vulnerable: false, labelled_vulnerable: true };
const BENIGN: Verdicts = Verdicts { predicted_vulnerable: true, labelled_vulnerable: false };

/// Scored lines 0, 1, 2, … with these scores.
fn lines(scores: &[f64]) -> Vec<LineScore> {
    let line = |(line, score): (usize, &f64)| LineScore { line, raw: *score, score: *score, rank: 0 };
    scores.iter().enumerate().map(line).collect()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-12
}

// -------------------------------------------------------------------------------------------------------- by hand

#[test]
fn a_found_function() {
    // G = {1, 2}: Σ min = 0.5 + 1, Σ max = 0.25 + 1 + 1.
    let found = align(&lines(&[0.25, 0.5, 1.0, 0.0]), &[2, 1, 2], FOUND);
    assert!(
        close(found.intersection, 1.5) && close(found.union, 2.25) && close(found.da.unwrap(), 1.5 / 2.25)
    );
    assert_eq!((found.would_be, found.ifa, found.top_k), (None, Some(0), [true; 4]));
    assert_eq!(found.null_all_lines, Some(0.5));
    assert_eq!((found.truth, found.outside_window, found.scored), (2, 0, 4));
    // The six choices of two of four scores.
    let expected: f64 =
        [1.5 / 2.25, 0.75 / 3.0, 0.5 / 3.25, 1.25 / 2.5, 1.0 / 2.75, 0.25 / 3.5].iter().sum::<f64>() / 6.0;
    assert!((found.null_permutation.unwrap() - expected).abs() < 1e-10);
}

#[test]
fn a_vulnerable_function_that_was_predicted_benign() {
    let missed = align(&lines(&[0.25, 0.5, 1.0, 0.0]), &[1, 2], MISSED);
    assert_eq!((missed.da, missed.intersection, missed.union), (Ok(0.0), 0.0, 2.0));
    assert!(close(missed.would_be.unwrap(), 1.5 / 2.25));
}

#[test]
fn no_ground_truth_lines_is_undefined_not_0() {
    let none = align(&lines(&[0.25, 1.0]), &[], FOUND);
    assert_eq!(none.da, Err(Undefined::NoLines));
    assert_eq!(
        (none.would_be, none.null_all_lines, none.null_permutation, none.ifa),
        (None, None, None, None)
    );
    let benign = align(&lines(&[0.25, 1.0]), &[], BENIGN);
    assert_eq!(benign.da, Err(Undefined::NotVulnerable));
    assert!(Undefined::NoLines.to_string().contains("names no line"));
}

#[test]
fn all_lines_labelled_one_line_and_nothing_scored() {
    let all = align(&lines(&[0.0, 0.5, 1.0]), &[0, 1, 2], FOUND);
    assert!(close(all.da.unwrap(), 0.5) && close(all.null_permutation.unwrap(), 0.5));
    assert_eq!(all.null_all_lines, Some(1.0));
    // A function of one line scores 0 (all equal), so its alignment is 0.
    let one = align(&lines(&[0.0]), &[0], FOUND);
    assert_eq!((one.da, one.null_all_lines, one.null_permutation), (Ok(0.0), Some(1.0), Some(0.0)));
    let nothing = align(&[], &[3], FOUND);
    assert_eq!((nothing.da, nothing.null_all_lines, nothing.outside_window), (Ok(0.0), Some(0.0), 1));
    assert_eq!((nothing.ifa, nothing.top_k), (None, [false; 4]));
}

#[test]
fn ties_are_in_line_order() {
    let tied = align(&lines(&[0.5, 0.5, 0.5, 1.0]), &[2], FOUND);
    assert_eq!((tied.ifa, tied.top_k), (Some(3), [false, false, true, true]));
    let tied = align(&lines(&[0.5, 0.5, 0.5, 1.0]), &[0], FOUND);
    assert_eq!((tied.ifa, tied.top_k), (Some(1), [false, true, true, true]));
    let zeros = align(&lines(&[-0.0, 0.0]), &[1], FOUND);
    assert_eq!(zeros.ifa, Some(1), "−0 is 0");
}

#[test]
fn truth_outside_the_window_stays_in_the_union() {
    let seen = align(&lines(&[1.0, 0.0]), &[0], FOUND);
    let unseen = align(&lines(&[1.0, 0.0]), &[0, 7, 9], FOUND);
    assert_eq!((seen.da, unseen.da), (Ok(1.0), Ok(1.0 / 3.0)));
    assert_eq!((unseen.outside_window, unseen.truth, unseen.null_all_lines), (2, 3, Some(0.25)));
    assert!(close(unseen.null_permutation.unwrap(), (1.0 / 3.0) / 2.0));
    let only_unseen = align(&lines(&[1.0, 0.0]), &[9], FOUND);
    assert_eq!((only_unseen.da, only_unseen.null_permutation, only_unseen.ifa), (Ok(0.0), Some(0.0), None));
}

#[test]
fn several_annotators() {
    let each = align_each(
        &lines(&[1.0, 0.0, 0.5]),
        [("ann", &[0usize][..]), ("bob", &[][..]), ("cy", &[1][..])],
        FOUND,
    );
    let da: Vec<_> = each.iter().map(|(name, alignment)| (*name, alignment.da)).collect();
    assert_eq!(da, [("ann", Ok(1.0 / 1.5)), ("bob", Err(Undefined::NoLines)), ("cy", Ok(0.0))]);
}

/// The sample of the paper's Fig. 4, as far as its text gives it: intersection 0.3538 and union 8.3921.
#[test]
fn the_papers_sample() {
    // Three true lines that share 0.3538, and clean ones that share 8.3921 − 3.
    let mut units: Vec<Unit> = [0.1538, 0.2, 0.0].map(|score| Unit { score, is_true: true }).to_vec();
    units.extend([1.0, 0.9, 0.8921, 0.8, 0.7, 0.6, 0.5].map(|score| Unit { score, is_true: false }));
    let sample = align_units(&units, 0, FOUND);
    assert!(
        (sample.intersection - 0.3538).abs() < 1e-9 && (sample.union - 8.3921).abs() < 1e-9,
        "{sample:?}"
    );
    assert_eq!(format!("{:.4}", sample.da.unwrap()), "0.0422");
}

#[test]
fn ground_truth_that_no_unit_matches_is_da_0() {
    let units = [0.5, 1.0].map(|score| Unit { score, is_true: false });
    let none = align_matched_units(&units, FOUND);
    assert_eq!((none.da, none.intersection, none.union), (Ok(0.0), 0.0, 1.5));
    assert_eq!(align_matched_units(&units, MISSED).union, 0.0);
    assert_eq!(align_matched_units(&[], FOUND).da, Ok(0.0));
    assert_eq!(align_units(&units, 0, FOUND).da, Err(Undefined::NoLines));
    let one = [Unit { score: 0.5, is_true: true }, units[1]];
    assert_eq!(align_matched_units(&one, FOUND), align_units(&one, 0, FOUND));
    let pooled = summarize(&[none, align_matched_units(&one, FOUND)], 7).unwrap().da.pooled;
    assert!(close(pooled, 0.5 / (1.5 + 2.0)));
}

#[test]
fn what_is_no_score_counts_as_0() {
    let units = [f64::NAN, -3.0, 7.0].map(|score| Unit { score, is_true: true });
    assert!(close(align_units(&units, 0, FOUND).da.unwrap(), 1.0 / 3.0));
}

// --------------------------------------------------------------------------------------------------- whole datasets

fn dataset() -> Vec<Alignment> {
    vec![
        align(&lines(&[1.0, 0.0, 0.5]), &[0], FOUND),    // 1 / 1.5
        align(&lines(&[1.0, 0.0]), &[0, 5], MISSED),     // 0 / 2; would be 1 / 2
        align(&lines(&[1.0, 0.5, 0.0]), &[1, 2], FOUND), // 0.5 / 3
        align(&lines(&[1.0, 0.5, 0.0]), &[], FOUND),     // undefined
        align(&lines(&[1.0, 0.5, 0.0]), &[], BENIGN),    // undefined
    ]
}

#[test]
fn means_and_pools() {
    let found = summarize(&dataset(), 7).unwrap();
    assert_eq!((found.functions, found.flagged, found.lines_outside, found.functions_outside), (3, 2, 1, 1));
    assert!(close(found.da.mean, (1.0 / 1.5 + 0.0 + 0.5 / 3.0) / 3.0));
    assert!(close(found.da.pooled, (1.0 + 0.0 + 0.5) / (1.5 + 2.0 + 3.0)));
    assert!(close(found.would_be.mean, (1.0 / 1.5 + 1.0 / 2.0 + 0.5 / 3.0) / 3.0));
    assert!(close(found.would_be.pooled, (1.0 + 1.0 + 0.5) / (1.5 + 2.0 + 3.0)));
    assert!(close(found.null_all_lines.mean, (1.0 / 3.0 + 0.0 + 2.0 / 3.0) / 3.0));
    assert!(close(found.null_all_lines.pooled, (1.0 + 0.0 + 2.0) / (3.0 + 2.0 + 3.0)));
    assert!(close(found.would_be_null_all_lines.mean, (1.0 / 3.0 + 1.0 / 3.0 + 2.0 / 3.0) / 3.0));
    // Expected sums: 1.5 · 1/3 of 2.5, 1 · 1/2 of 3, 1.5 · 2/3 of 3.5.
    assert!(close(found.would_be_null_permutation.pooled, (0.5 + 0.5 + 1.0) / (2.0 + 2.5 + 2.5)));
    assert!(close(found.null_permutation.pooled, (0.5 + 0.0 + 1.0) / (2.0 + 2.0 + 2.5)));
    let interval = found.mean_interval.unwrap();
    assert!(interval.low <= found.da.mean && found.da.mean <= interval.high);
    assert_eq!(summarize(&dataset(), 7), Some(found), "the same in every run");
    assert_eq!(summarize(&dataset()[3..], 7), None);
    assert_eq!(undefined(&dataset()).map(|(_, count)| count), [1, 1]);
}

#[test]
fn localisation_by_hand() {
    let function = |scores: &[(f64, bool)], outside| Flagged {
        units: scores.iter().map(|(score, is_true)| Unit { score: *score, is_true: *is_true }).collect(),
        outside,
    };
    let found = localisation(&[
        function(&[(1.0, false), (0.5, true), (0.0, false)], 0),
        function(&[(1.0, true), (0.0, false)], 2),
        function(&[(1.0, false), (0.25, false), (0.0, false)], 0),
        function(&[(1.0, false), (0.0, false)], 1),
    ]);
    assert_eq!((found.flagged, found.with_truth, found.without_scored_truth), (4, 3, 1));
    assert_eq!((found.ifa_mean, found.ifa_median), (Some(0.5), Some(0.5)));
    assert_eq!(found.top_k, [Some(1.0 / 3.0), Some(2.0 / 3.0), Some(2.0 / 3.0), Some(2.0 / 3.0)]);
    // Five true lines, two of them scored; 20% is one. Among the four lines of score 1 is one true line, so all four
    // are read.
    assert!(close(found.effort_at_20_recall.unwrap(), 4.0 / 10.0));
    // 0.1 line read of a group of four with one true line.
    assert!(close(found.recall_at_1_loc.unwrap(), 0.1 / 4.0 / 5.0));
    // Against eight clean lines: the one at 1 beats five and ties three, the one at 0.5 beats five.
    assert!(close(found.line_roc_auc.unwrap(), (5.0 + 1.5 + 5.0) / 16.0));
    let nothing = localisation(&[]);
    assert_eq!((nothing.flagged, nothing.ifa_mean, nothing.effort_at_20_recall), (0, None, None));
    let unreachable = localisation(&[function(&[(1.0, false)], 3)]);
    assert_eq!((unreachable.effort_at_20_recall, unreachable.recall_at_1_loc), (None, Some(0.0)));
}

// ------------------------------------------------------------------------------------------------------ properties

/// Scores, which of them are true, and how many true lines were not scored; at least one is true.
fn cases() -> impl Strategy<Value = (Vec<f64>, Vec<bool>, usize)> {
    (proptest::collection::vec((0u16..=1000, any::<bool>()), 1..12), 0usize..3)
        .prop_map(|(units, outside)| {
            let (scores, truth): (Vec<f64>, Vec<bool>) =
                units.into_iter().map(|(score, truth)| (f64::from(score) / 1000.0, truth)).unzip();
            (scores, truth, outside)
        })
        .prop_filter("some line is true", |(_, truth, outside)| *outside > 0 || truth.contains(&true))
}

fn units(scores: &[f64], truth: &[bool]) -> Vec<Unit> {
    scores.iter().zip(truth).map(|(score, is_true)| Unit { score: *score, is_true: *is_true }).collect()
}

fn da(scores: &[f64], truth: &[bool], outside: usize) -> f64 {
    align_units(&units(scores, truth), outside, FOUND).da.unwrap()
}

proptest! {
    #[test]
    fn lies_between_0_and_1_and_is_1_only_for_exact_agreement((scores, truth, outside) in cases()) {
        let found = align_units(&units(&scores, &truth), outside, FOUND);
        let value = found.da.unwrap();
        prop_assert!((0.0..=1.0).contains(&value));
        let exact = outside == 0 && scores.iter().zip(&truth).all(|(score, is_true)| *score == f64::from(u8::from(*is_true)));
        prop_assert_eq!(value == 1.0, exact);
        for null in [found.null_all_lines.unwrap(), found.null_permutation.unwrap()] {
            prop_assert!((0.0..=1.0).contains(&null));
        }
        // The closed form of Eq. 7 by its definition.
        let one = |is_true: &bool| f64::from(u8::from(*is_true));
        let intersection: f64 = scores.iter().zip(&truth).map(|(score, t)| score.min(one(t))).sum();
        let union: f64 = scores.iter().zip(&truth).map(|(score, t)| score.max(one(t))).sum::<f64>() + outside as f64;
        prop_assert!((value - intersection / union).abs() < 1e-12);
        // A missed function differs by its verdict alone.
        let missed = align_units(&units(&scores, &truth), outside, MISSED);
        prop_assert_eq!((missed.da, missed.would_be), (Ok(0.0), Some(value)));
    }

    #[test]
    fn raising_a_true_line_never_lowers_it_and_raising_a_clean_one_never_raises_it(
        (scores, truth, outside) in cases(), chosen: prop::sample::Index, by in 0.0f64..1.0,
    ) {
        let before = da(&scores, &truth, outside);
        let chosen = chosen.index(scores.len());
        let mut raised = scores.clone();
        raised[chosen] = (raised[chosen] + by).min(1.0);
        let after = da(&raised, &truth, outside);
        if truth[chosen] {
            prop_assert!(after >= before - 1e-12);
        } else {
            prop_assert!(after <= before + 1e-12);
        }
    }

    /// Raw relevance → rescaled scores → DA: a positive affine map of the raw relevance of lines changes nothing.
    #[test]
    fn a_positive_affine_map_of_raw_relevance_changes_nothing(
        raw in proptest::collection::vec(-100i32..100, 1..12), truth in proptest::collection::vec(0usize..12, 1..5),
        factor in 1i32..50, shift in -50i32..50,
    ) {
        // One token a line, so that a line's relevance is its token's.
        let text = "x\n".repeat(raw.len());
        let tokens: Vec<Token> =
            (0..raw.len()).map(|line| Token { id: 1, span: ByteSpan::new(2 * line, 2 * line + 1) }).collect();
        let aligned = |map: &dyn Fn(f64) -> f64| {
            let relevance: Vec<Option<f64>> = raw.iter().map(|value| Some(map(f64::from(*value)))).collect();
            let scores = aggregate(&text, &LineIndex::new(&text), &tokens, &relevance, false);
            align(&scores.scored, &truth, FOUND)
        };
        let (plain, mapped) = (aligned(&|x| x), aligned(&|x| x * f64::from(factor) / 8.0 + f64::from(shift)));
        prop_assert!((plain.da.unwrap() - mapped.da.unwrap()).abs() < 1e-9);
        prop_assert_eq!((plain.ifa, plain.top_k), (mapped.ifa, mapped.top_k));
    }
}

#[test]
fn nothing_in_common_is_zero_and_not_negative_zero() {
    let units = [Unit { score: 1.0, is_true: false }, Unit { score: 0.0, is_true: false }];
    let verdicts = Verdicts { predicted_vulnerable: true, labelled_vulnerable: true };
    let found = align_matched_units(&units, verdicts);
    assert_eq!(format!("{:.3} {:.3}", found.da.unwrap(), found.intersection), "0.000 0.000");
    let none = align_units(&[], 1, verdicts);
    assert_eq!(
        format!("{:.3} {:.3} {:.3}", none.da.unwrap(), none.union, none.relevance),
        "0.000 1.000 0.000"
    );
}
