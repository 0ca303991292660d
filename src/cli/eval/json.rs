//! Reports as JSON: every figure, unrounded.

use super::splits::{Malformed, Role, Split};
use super::{Evaluation, Model, Outcome, ThresholdSource, dropped_text};
use crate::alignment::TOP_K;
use crate::alignment::functions::FunctionMetrics;
use crate::alignment::intervals::Interval;
use crate::alignment::localisation::{AlignmentSummary, Figures, Localisation};
use crate::alignment::pairs::{PairTable, RankShare, Shares};
use crate::evaluation::report::{MethodReport, Slice};
use serde_json::{Map, Value, json};

pub(super) fn render(outcome: &Outcome) -> Value {
    let evaluated = outcome.splits.iter().filter(|split| split.role == Role::Evaluated);
    json!({
        "manifest": outcome.manifest,
        "splits": evaluated.map(of_split).collect::<Vec<_>>(),
        "thresholdSplit": outcome.splits.iter().find(|split| split.role == Role::Threshold).map(|split| json!({
            "name": split.name, "fileSha256": split.file_sha256, "functionsSha256": split.functions_sha256,
            "functions": split.facts.len(), "malformed": of_malformed(&split.malformed),
        })),
        "training": outcome.training.iter().map(|file| json!({
            "name": file.name, "fileSha256": file.file_sha256, "format": file.format.as_str(), "functions": file.functions,
            "malformed": of_malformed(&file.malformed),
        })).collect::<Vec<_>>(),
        "evaluations": outcome.evaluations.iter().map(|evaluation| {
            let (model, split) = (&outcome.models[evaluation.model], &outcome.splits[evaluation.split]);
            of_evaluation(evaluation, model, split, outcome.limit())
        }).collect::<Vec<_>>(),
    })
}

fn of_split(split: &Split) -> Value {
    let leakage = split.leakage.as_ref().map(|found| {
        json!({
            "functions": found.functions, "byCommit": found.by_commit, "exact": found.exact,
            "withoutWhitespace": found.without_whitespace, "withoutComments": found.code, "near": found.near, "any": found.any,
            "examples": found.examples.iter().map(|(index, leak)| json!({
                "row": split.facts[*index].row, "id": split.facts[*index].id, "commit": leak.commit, "exact": leak.exact,
                "withoutWhitespace": leak.without_whitespace, "withoutComments": leak.code, "similarity": leak.nearest,
            })).collect::<Vec<_>>(),
        })
    });
    json!({
        "name": split.name, "fileSha256": split.file_sha256, "functionsSha256": split.functions_sha256,
        "malformed": of_malformed(&split.malformed),
        "textGone": split.malformed.gone,
        "linesMoved": split.malformed.at_odds.moved, "linesMissing": split.malformed.at_odds.missing,
        "leakage": leakage, "nearThreshold": split.near_threshold,
    })
}

fn of_malformed(malformed: &Malformed) -> Value {
    json!({ "rows": malformed.total(), "kinds": malformed.kinds, "examples": malformed.examples })
}

fn of_evaluation(evaluation: &Evaluation, model: &Model, split: &Split, limit: Option<u64>) -> Value {
    let report = &evaluation.report;
    let counts = report.counts;
    let threshold = match &evaluation.threshold_source {
        ThresholdSource::Given => json!({"value": report.threshold, "from": "given"}),
        ThresholdSource::Detector => json!({"value": report.threshold, "from": "detector"}),
        ThresholdSource::Tuned { split, f1 } => {
            json!({"value": report.threshold, "from": "tuned", "split": split, "f1There": f1})
        }
    };
    let dropped: Map<String, Value> = report
        .dropped_pairs
        .iter()
        .map(|(reason, count)| (dropped_text(*reason, limit), json!(count)))
        .collect();
    json!({
        "model": model.name, "modelFolderSha256": model.folder_sha256, "split": split.name, "splitFileSha256": split.file_sha256,
        "profile": model.profile, "threshold": threshold,
        "counts": {
            "functions": counts.functions, "vulnerable": counts.vulnerable, "benign": counts.benign, "unsure": counts.unsure,
            "withLines": counts.with_lines, "unscored": counts.unscored, "truncated": counts.truncated,
            "repeated": counts.repeats.rows, "repeatedOtherwise": counts.repeats.differing,
        },
        "unavailable": model.unavailable.iter().map(|(method, reason)| json!({"method": method.to_string(), "reason": reason})).collect::<Vec<_>>(),
        "failures": evaluation.failures.iter().map(|(function, method, reason)| json!({
            "row": split.facts[*function].row, "method": method.map(|method| method.to_string()), "reason": reason,
        })).collect::<Vec<_>>(),
        "functions": of_functions(&report.functions),
        "f1Interval": report.f1_interval.map(of_interval), "rocAucInterval": report.roc_auc_interval.map(of_interval),
        "majority": of_functions(&report.majority),
        "methods": report.methods.iter().map(of_method).collect::<Vec<_>>(),
        "pairs": report.pairs.as_ref().map(of_pairs),
        "droppedPairs": dropped,
        "slices": report.slices.iter().map(|slice| of_slice(slice, &report.methods)).collect::<Vec<_>>(),
    })
}

fn of_functions(metrics: &FunctionMetrics) -> Value {
    let counts = metrics.confusion;
    json!({
        "truePositives": counts.true_positives, "falsePositives": counts.false_positives,
        "trueNegatives": counts.true_negatives, "falseNegatives": counts.false_negatives,
        "precision": metrics.precision, "recall": metrics.recall, "f1": metrics.f1, "accuracy": metrics.accuracy,
        "rocAuc": metrics.roc_auc, "prAuc": metrics.pr_auc, "flagRate": metrics.flag_rate,
        "undefined": metrics.one_class.map(|reason| reason.as_str()),
    })
}

fn of_method(found: &MethodReport) -> Value {
    json!({
        "method": found.method.to_string(),
        "alignment": found.alignment.as_ref().map(of_alignment),
        "withoutLines": found.without_lines, "unexplained": found.unexplained,
        "localisation": of_localisation(&found.localisation),
        "completeness": found.completeness.map(|c| json!({
            "functions": c.functions, "meanGap": c.mean_gap, "largestGap": c.largest_gap, "reached": c.reached,
        })),
        "faithfulness": found.faithfulness.map(|f| json!({
            "functions": f.functions, "comprehensiveness": f.comprehensiveness, "sufficiency": f.sufficiency,
            "randomComprehensiveness": f.random_comprehensiveness, "randomSufficiency": f.random_sufficiency,
        })),
    })
}

fn of_alignment(found: &AlignmentSummary) -> Value {
    json!({
        "functions": found.functions, "flagged": found.flagged,
        "linesOutside": found.lines_outside, "functionsOutside": found.functions_outside,
        "da": of_figures(found.da),
        "meanInterval": found.mean_interval.map(of_interval), "pooledInterval": found.pooled_interval.map(of_interval),
        "nullPermutation": of_figures(found.null_permutation), "nullAllLines": of_figures(found.null_all_lines),
        "wouldBe": of_figures(found.would_be),
        "wouldBeNullPermutation": of_figures(found.would_be_null_permutation),
        "wouldBeNullAllLines": of_figures(found.would_be_null_all_lines),
    })
}

fn of_figures(figures: Figures) -> Value {
    json!({"mean": figures.mean, "pooled": figures.pooled})
}

fn of_interval(interval: Interval) -> Value {
    json!([interval.low, interval.high])
}

fn of_localisation(found: &Localisation) -> Value {
    let top: Map<String, Value> =
        TOP_K.iter().zip(found.top_k).map(|(k, share)| (k.to_string(), json!(share))).collect();
    json!({
        "flagged": found.flagged, "withTruth": found.with_truth, "withoutScoredTruth": found.without_scored_truth,
        "ifaMean": found.ifa_mean, "ifaMedian": found.ifa_median, "topK": top,
        "effortAt20Recall": found.effort_at_20_recall, "recallAt1Loc": found.recall_at_1_loc,
        "lineRocAuc": found.line_roc_auc,
    })
}

fn of_pairs(found: &PairTable) -> Value {
    let shares = |shares: &Shares| {
        json!({
            "P-C": shares.correct, "P-V": shares.both_vulnerable, "P-B": shares.both_benign, "P-R": shares.reversed,
            "oneAnswer": shares.same_answer(),
        })
    };
    let ranked =
        |ranked: &RankShare| json!({"pairs": ranked.pairs, "share": ranked.share, "ties": ranked.ties});
    json!({
        "pairs": found.pairs,
        "counts": {"P-C": found.correct, "P-V": found.both_vulnerable, "P-B": found.both_benign, "P-R": found.reversed},
        "measured": shares(&found.measured), "independent": shares(&found.independent), "p": found.p, "q": found.q,
        "difference": found.difference, "differenceInterval": of_interval(found.difference_interval),
        "binomialP": found.p_value, "ranked": ranked(&found.ranked), "rankedAlike": ranked(&found.ranked_alike),
    })
}

fn of_slice(slice: &Slice, methods: &[MethodReport]) -> Value {
    let alignment: Map<String, Value> = methods
        .iter()
        .zip(&slice.alignment)
        .map(|(method, found)| (method.method.to_string(), json!(found.as_ref().map(of_alignment))))
        .collect();
    json!({
        "by": slice.by.as_str(), "name": slice.name, "functions": of_functions(&slice.functions),
        "pairs": slice.pairs.as_ref().map(of_pairs), "alignment": alignment,
    })
}
