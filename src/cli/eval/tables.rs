//! The reports' sections as plain tables of text, which Markdown and HTML both show.

use super::plots;
use super::splits::{self, Role, Split};
use super::{Evaluation, Model, Outcome, ThresholdSource, dropped_text};
use crate::alignment::functions::FunctionMetrics;
use crate::alignment::intervals::{self, Interval};
use crate::alignment::localisation::{AlignmentSummary, Figures};
use crate::alignment::pairs::{PairTable, RankShare, Shares};
use crate::annotations::problem::counted;
use crate::evaluation::report::{Dimension, MethodReport, Slice};

/// A heading with what stands under it.
#[derive(Debug, Default)]
pub(super) struct Section {
    pub(super) heading: String,
    /// 1: the report; 2: a split; 3: a subject.
    pub(super) level: usize,
    pub(super) parts: Vec<Piece>,
}

#[derive(Debug)]
pub(super) enum Piece {
    Text(String),
    Table(Table),
    /// For HTML alone: an SVG picture of our own making, and what it shows.
    Plot(String, String),
}

#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Table {
    fn new(head: impl IntoIterator<Item = impl Into<String>>) -> Table {
        Table { head: head.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }
}

/// How many CWEs are shown; JSON has all.
const MOST_CWES: usize = 15;

pub(super) fn sections(outcome: &Outcome) -> Vec<Section> {
    let mut sections = vec![manifest(outcome)];
    for (number, split) in
        outcome.splits.iter().enumerate().filter(|(_, split)| split.role == Role::Evaluated)
    {
        let of_split: Vec<(&Model, &Evaluation)> = outcome
            .evaluations
            .iter()
            .filter(|evaluation| evaluation.split == number)
            .map(|evaluation| (&outcome.models[evaluation.model], evaluation))
            .collect();
        sections.push(about(split, &of_split));
        sections.extend(alignment(&of_split, outcome.counted));
        sections.extend(localisation(&of_split, outcome.counted));
        sections.extend(explanations(&of_split));
        sections.push(functions(&of_split));
        sections.extend(pairs(&of_split, outcome.limit()));
        sections.extend(slices(&of_split));
        sections.extend(leakage(split));
    }
    sections
}

fn manifest(outcome: &Outcome) -> Section {
    let mut splits = Table::new(vec![
        "split",
        "role",
        "format",
        "functions",
        "policy",
        "SHA-256 of the file",
        "SHA-256 of the functions",
    ]);
    for split in &outcome.splits {
        let role = if split.role == Role::Evaluated { "evaluated" } else { "threshold tuned on it" };
        splits.rows.push(vec![
            split.name.clone(),
            role.to_string(),
            split.format.to_string(),
            split.facts.len().to_string(),
            split.annotation_policy(),
            split.file_sha256.clone(),
            split.functions_sha256.clone(),
        ]);
    }
    let mut models = Table::new(vec![
        "model",
        "profile",
        "provider",
        "threads",
        "SHA-256 of the folder",
        "SHA-256 of model.onnx",
    ]);
    for model in &outcome.models {
        models.rows.push(vec![
            model.name.clone(),
            model.profile.clone(),
            model.provider.clone(),
            model.threads.to_string(),
            model.folder_sha256.clone(),
            model.onnx_sha256.clone(),
        ]);
    }
    let text = |key: &str| match &outcome.manifest[key] {
        serde_json::Value::Null => "none".to_string(),
        value => value.to_string(),
    };
    let settings = format!(
        "linelens {}; limit {}, batch {}, bootstrap seed {}. Intervals are 95%. docs/evaluation.md says what every figure is.",
        env!("CARGO_PKG_VERSION"),
        text("limit"),
        text("batch"),
        text("seed"),
    );
    let mut parts = vec![Piece::Text(settings), Piece::Table(splits), Piece::Table(models)];
    if !outcome.training.is_empty() {
        let head = ["training data", "format", "functions", "malformed rows", "SHA-256 of the file"];
        let mut training = Table::new(head);
        for file in &outcome.training {
            training.rows.push(vec![
                file.name.clone(),
                file.format.to_string(),
                file.functions.to_string(),
                file.malformed.total().to_string(),
                file.file_sha256.clone(),
            ]);
        }
        parts.push(Piece::Table(training));
    }
    let tuned_on = outcome.splits.iter().filter(|split| split.role == Role::Threshold);
    let others = tuned_on.map(|split| (&split.name, &split.malformed));
    let others = others.chain(outcome.training.iter().map(|file| (&file.name, &file.malformed)));
    let skipped = others.filter_map(|(name, malformed)| Some(format!("{name}: {}", malformed.sentence()?)));
    parts.extend(skipped.map(Piece::Text));
    Section { heading: "linelens eval".to_string(), level: 1, parts }
}

fn about(split: &Split, of_split: &[(&Model, &Evaluation)]) -> Section {
    let mut texts = Vec::new();
    if let Some((_, evaluation)) = of_split.first() {
        let counts = evaluation.report.counts;
        texts.push(format!(
            "{}: {} vulnerable ({} with ground-truth lines), {} benign, {} unsure (left out).",
            counted(counts.functions, "function", "functions"),
            counts.vulnerable,
            counts.with_lines,
            counts.benign,
            counts.unsure
        ));
        texts.extend(splits::repeated(counts.repeats).map(|said| format!("{said}.")));
    }
    texts.extend(splits::near_threshold(split).map(|said| format!("{said}.")));
    if split.merged > 0 {
        let records = counted(
            split.merged,
            "record of the file is about a function of another record",
            "records of the file are about functions of other records",
        );
        texts.push(format!("{records}; each function counts once, by the policy {}.", split.policy));
    }
    texts.extend(split.malformed.sentence());
    let notes = split.malformed.outdated().into_iter().chain(split.malformed.contradicted());
    texts.extend(notes.map(|said| format!("{said}.")));
    for (model, evaluation) in of_split {
        let scores = evaluation.failures.iter().filter(|(_, method, _)| method.is_none()).count();
        let rest = evaluation.failures.len() - scores;
        if let Some((function, method, reason)) = evaluation.failures.first() {
            let what = method.map(|method| format!(" ({method})")).unwrap_or_default();
            texts.push(format!(
                "{}: {scores} functions were not scored and {rest} explanations failed; the first, function {}{what}: {reason}",
                model.name,
                split.facts[*function].row
            ));
        }
        for (method, reason) in &model.unavailable {
            texts.push(format!("{}: {method} is left out: {reason}", model.name));
        }
    }
    Section { heading: split.name.clone(), level: 2, parts: texts.into_iter().map(Piece::Text).collect() }
}

/// `counted`: what was scored, `lines`, `statements` or `units`. Nothing where no method was asked for.
fn alignment(of_split: &[(&Model, &Evaluation)], counted: &str) -> Option<Section> {
    let (all, its_all, outside) =
        (format!("null: all {counted}"), format!("its null: all {counted}"), format!("{counted} outside"));
    let mut table = Table::new([
        "model",
        "method",
        "F1",
        "DA mean",
        "DA pooled",
        "null: permuted",
        &all,
        "explanation alone",
        "its null: permuted",
        &its_all,
        "functions",
        "flagged",
        &outside,
    ]);
    let mut bars = Vec::new();
    for (model, evaluation) in of_split {
        for method in &evaluation.report.methods {
            let mut row = vec![
                model.name.clone(),
                method.method.to_string(),
                of_both(evaluation.report.functions.f1, &evaluation.report.functions),
            ];
            row.extend(aligned(method.alignment.as_ref()));
            table.rows.push(row);
            if let Some(found) = &method.alignment {
                let label = if of_split.len() > 1 {
                    format!("{}, {}", model.name, method.method)
                } else {
                    method.method.to_string()
                };
                bars.push(plots::Bar {
                    label,
                    value: found.da.mean,
                    interval: found.mean_interval,
                    marks: vec![found.null_permutation.mean, found.null_all_lines.mean],
                });
            }
        }
    }
    if table.rows.is_empty() {
        return None;
    }
    let every = counted.trim_end_matches('s');
    let text = format!(
        "Detection Alignment over the vulnerable functions with ground-truth lines: the mean over functions, and pooled as \
        Σ intersections / Σ unions. A vulnerable function that was not flagged counts 0. Both nulls keep the verdicts: \
        scores permuted within the function, and every {every} at 1. \u{201c}Explanation alone\u{201d} is the mean DA as if all had been \
        flagged, beside its own nulls."
    );
    let mut parts = vec![Piece::Text(text), Piece::Table(table)];
    if !bars.is_empty() {
        let caption = format!(
            "Mean DA with its 95% interval; the ticks are the nulls: permuted (short), all {counted} (long)."
        );
        parts.push(Piece::Plot(plots::bars(&bars), caption));
    }
    Some(Section { heading: "Alignment".to_string(), level: 3, parts })
}

fn aligned(found: Option<&AlignmentSummary>) -> Vec<String> {
    let Some(found) = found else { return vec!["–".to_string(); 10] };
    let mean = |figures: Figures| number(figures.mean);
    vec![
        with_interval(found.da.mean, found.mean_interval),
        with_interval(found.da.pooled, found.pooled_interval),
        both(found.null_permutation),
        both(found.null_all_lines),
        mean(found.would_be),
        mean(found.would_be_null_permutation),
        mean(found.would_be_null_all_lines),
        found.functions.to_string(),
        found.flagged.to_string(),
        found.lines_outside.to_string(),
    ]
}

fn localisation(of_split: &[(&Model, &Evaluation)], counted: &str) -> Option<Section> {
    let (auc, with_true) =
        (format!("{} ROC-AUC", counted.trim_end_matches('s')), format!("with true {counted}"));
    let mut table = Table::new([
        "model",
        "method",
        "IFA mean",
        "IFA median",
        "top-1",
        "top-3",
        "top-5",
        "top-10",
        "effort@20%recall",
        "recall@1%LOC",
        &auc,
        "flagged",
        &with_true,
    ]);
    for (model, evaluation) in of_split {
        for MethodReport { method, localisation, .. } in &evaluation.report.methods {
            let mut row = vec![model.name.clone(), method.to_string()];
            row.extend([localisation.ifa_mean, localisation.ifa_median].map(|ifa| decimals(ifa, 1)));
            row.extend(localisation.top_k.map(share));
            row.extend([
                share(localisation.effort_at_20_recall),
                share(localisation.recall_at_1_loc),
                share(localisation.line_roc_auc),
                localisation.flagged.to_string(),
                localisation.with_truth.to_string(),
            ]);
            table.rows.push(row);
        }
    }
    let text = format!(
        "Over the flagged functions whose true {counted} are known; IFA and top-k over those that have any."
    );
    (!table.rows.is_empty()).then(|| Section {
        heading: "Localisation".to_string(),
        level: 3,
        parts: vec![Piece::Text(text), Piece::Table(table)],
    })
}

/// Completeness and faithfulness, where there is something to say.
fn explanations(of_split: &[(&Model, &Evaluation)]) -> Option<Section> {
    let mut gaps =
        Table::new(["model", "method", "functions", "mean gap", "largest gap", "within tolerance"]);
    let mut faithful = Table::new([
        "model",
        "method",
        "functions",
        "comprehensiveness",
        "of random lines",
        "sufficiency",
        "of random lines",
    ]);
    for (model, evaluation) in of_split {
        for found in &evaluation.report.methods {
            let name = [model.name.clone(), found.method.to_string()];
            if let Some(c) = found.completeness {
                let figures =
                    [c.functions.to_string(), number(c.mean_gap), number(c.largest_gap), number(c.reached)];
                gaps.rows.push(name.iter().cloned().chain(figures).collect());
            }
            if let Some(f) = found.faithfulness {
                let figures = [
                    f.functions.to_string(),
                    number(f.comprehensiveness),
                    number(f.random_comprehensiveness),
                    number(f.sufficiency),
                    number(f.random_sufficiency),
                ];
                faithful.rows.push(name.iter().cloned().chain(figures).collect());
            }
        }
    }
    let parts: Vec<Piece> =
        [gaps, faithful].into_iter().filter(|table| !table.rows.is_empty()).map(Piece::Table).collect();
    (!parts.is_empty()).then(|| Section {
        heading: "Completeness and faithfulness".to_string(),
        level: 3,
        parts,
    })
}

const FUNCTION_HEAD: [&str; 8] =
    ["precision", "recall", "F1", "accuracy", "ROC-AUC", "PR-AUC", "flag rate", "functions"];

fn function_cells(metrics: &FunctionMetrics) -> Vec<String> {
    vec![
        of_both(metrics.precision, metrics),
        share(metrics.recall),
        of_both(metrics.f1, metrics),
        share(metrics.accuracy),
        of_both(metrics.roc_auc, metrics),
        of_both(metrics.pr_auc, metrics),
        share(metrics.flag_rate),
        metrics.confusion.total().to_string(),
    ]
}

/// A figure of two classes: where one is missing, why there is none.
fn of_both(value: Option<f64>, metrics: &FunctionMetrics) -> String {
    undefined(metrics).unwrap_or_else(|| share(value))
}

fn undefined(metrics: &FunctionMetrics) -> Option<String> {
    metrics.one_class.map(|reason| format!("undefined ({})", reason.as_str()))
}

fn functions(of_split: &[(&Model, &Evaluation)]) -> Section {
    let mut table = Table::new(["model", "threshold"].into_iter().chain(FUNCTION_HEAD));
    let mut curves = Vec::new();
    for (model, evaluation) in of_split {
        let report = &evaluation.report;
        let from = match &evaluation.threshold_source {
            ThresholdSource::Given => "given".to_string(),
            ThresholdSource::Detector => "the detector's".to_string(),
            ThresholdSource::Tuned { split, f1 } => format!("highest F1 ({}) on {split}", number(*f1)),
        };
        let mut row = vec![model.name.clone(), format!("{} ({from})", number(report.threshold))];
        let mut cells = function_cells(&report.functions);
        let intervals = [
            (2, report.functions.f1, report.f1_interval),
            (4, report.functions.roc_auc, report.roc_auc_interval),
        ];
        for (cell, value, interval) in intervals {
            if let Some(value) = value {
                cells[cell] = with_interval(value, interval);
            }
        }
        row.extend(cells);
        table.rows.push(row);
        curves.push((model.name.clone(), report.judged.as_slice()));
    }
    if let Some((_, evaluation)) = of_split.first() {
        let mut row = vec!["majority class".to_string(), "–".to_string()];
        row.extend(function_cells(&evaluation.report.majority));
        table.rows.push(row);
    }
    Section {
        heading: "Function level".to_string(),
        level: 3,
        parts: vec![
            Piece::Table(table),
            Piece::Plot(plots::roc(&curves), "ROC: true-positive rate over false-positive rate.".to_string()),
            Piece::Plot(plots::precision_recall(&curves), "Precision over recall.".to_string()),
        ],
    }
}

fn pairs(of_split: &[(&Model, &Evaluation)], limit: Option<u64>) -> Option<Section> {
    let mut table =
        Table::new(["model", "row", "P-C", "P-V", "P-B", "P-R", "one answer", "P-C − P-R", "pairs"]);
    let mut more =
        Table::new(["model", "p", "q", "binomial test", "ranked right", "ranked right, lengths within 5%"]);
    let mut texts = Vec::new();
    for (model, evaluation) in of_split {
        if let Some(found) = &evaluation.report.pairs {
            let measured = with_interval(found.difference, Some(found.difference_interval));
            table.rows.push(pair_row(&model.name, "measured", &found.measured, measured, found.pairs));
            table.rows.push(pair_row(
                &model.name,
                "independent",
                &found.independent,
                number(0.0),
                found.pairs,
            ));
            more.rows.push(pair_facts(&model.name, found));
        }
        if !evaluation.report.dropped_pairs.is_empty() {
            let dropped = evaluation.report.dropped_pairs.iter();
            let reasons: Vec<String> =
                dropped.map(|(reason, count)| format!("{count}: {}", dropped_text(*reason, limit))).collect();
            texts.push(Piece::Text(format!("{}: pairs left out: {}.", model.name, reasons.join("; "))));
        }
    }
    if table.rows.is_empty() && texts.is_empty() {
        return None;
    }
    let text = "A vulnerable function and its fix: P-C only the vulnerable one flagged, P-V both, P-B neither, P-R only the fix. The second \
        row is what a detector would get that flags as many functions without looking. p and q are the flag rates of the two sides.";
    let mut parts = Vec::new();
    if !table.rows.is_empty() {
        parts = vec![Piece::Text(text.to_string()), Piece::Table(table), Piece::Table(more)];
    }
    parts.extend(texts);
    Some(Section { heading: "Pairs".to_string(), level: 3, parts })
}

fn pair_row(model: &str, row: &str, shares: &Shares, difference: String, pairs: usize) -> Vec<String> {
    let mut cells = vec![model.to_string(), row.to_string()];
    cells.extend(
        [shares.correct, shares.both_vulnerable, shares.both_benign, shares.reversed, shares.same_answer()]
            .map(number),
    );
    cells.extend([difference, pairs.to_string()]);
    cells
}

fn pair_facts(model: &str, found: &PairTable) -> Vec<String> {
    let ranked = |ranked: &RankShare| match ranked.share {
        None => "–".to_string(),
        Some(share) => {
            // Ties count half; the interval takes them as they round.
            let interval =
                intervals::proportion((share * ranked.pairs as f64).round() as usize, ranked.pairs);
            let ties = match ranked.ties {
                0 => String::new(),
                ties => format!(", {ties} of them ties"),
            };
            format!("{} of {}{ties}", with_interval(share, interval), ranked.pairs)
        }
    };
    vec![
        model.to_string(),
        number(found.p),
        number(found.q),
        format!("p = {:.3}", found.p_value),
        ranked(&found.ranked),
        ranked(&found.ranked_alike),
    ]
}

fn slices(of_split: &[(&Model, &Evaluation)]) -> Vec<Section> {
    let dimensions =
        [Dimension::Source, Dimension::BenignSide, Dimension::Length, Dimension::Truncation, Dimension::Cwe];
    let heading = |by: Dimension| format!("By {}", by.as_str());
    let mut sections = Vec::new();
    for by in dimensions {
        let mut table = Table::new([
            "model",
            "part",
            "functions",
            "vulnerable",
            "flag rate",
            "F1",
            "ROC-AUC",
            "P-C − P-R",
            "best DA mean",
            "its null: permuted",
            "method",
        ]);
        let mut hidden = 0;
        for (model, evaluation) in of_split {
            let mut parts: Vec<&Slice> =
                evaluation.report.slices.iter().filter(|slice| slice.by == by).collect();
            if by == Dimension::Cwe {
                parts.sort_by_key(|slice| std::cmp::Reverse(slice.functions.confusion.total()));
                hidden = hidden.max(parts.len().saturating_sub(MOST_CWES));
                parts.truncate(MOST_CWES);
            }
            table.rows.extend(parts.into_iter().map(|slice| slice_row(model, evaluation, slice)));
        }
        if table.rows.is_empty() {
            continue;
        }
        let mut parts = vec![Piece::Table(table)];
        if hidden > 0 {
            parts.push(Piece::Text(format!("{hidden} rarer ones are in report.json.")));
        }
        sections.push(Section { heading: heading(by), level: 3, parts });
    }
    sections
}

fn slice_row(model: &Model, evaluation: &Evaluation, slice: &Slice) -> Vec<String> {
    let counts = slice.functions.confusion;
    let methods = evaluation.report.methods.iter().map(|method| method.method.to_string());
    let best = best(slice.alignment.iter().map(Option::as_ref).zip(methods));
    let mut row = vec![
        model.name.clone(),
        slice.name.clone(),
        counts.total().to_string(),
        (counts.true_positives + counts.false_negatives).to_string(),
        share(slice.functions.flag_rate),
        of_both(slice.functions.f1, &slice.functions),
        of_both(slice.functions.roc_auc, &slice.functions),
        slice
            .pairs
            .as_ref()
            .map_or("–".to_string(), |p| with_interval(p.difference, Some(p.difference_interval))),
    ];
    row.extend(match best {
        Some(Best { found, name }) => [
            format!("{} of {}", with_interval(found.da.mean, found.mean_interval), found.functions),
            number(found.null_permutation.mean),
            name,
        ],
        None => ["–".to_string(), "–".to_string(), "–".to_string()],
    });
    row
}

struct Best<'a> {
    found: &'a AlignmentSummary,
    /// The method, or the methods that share the first place.
    name: String,
}

/// The highest mean DA. Methods as good as each other, but for rounding, share it.
fn best<'a>(found: impl Iterator<Item = (Option<&'a AlignmentSummary>, String)>) -> Option<Best<'a>> {
    const ROUNDING: f64 = 1e-9;
    let found: Vec<(&AlignmentSummary, String)> =
        found.filter_map(|(found, name)| Some((found?, name))).collect();
    let (first, _) = found.iter().max_by(|(a, _), (b, _)| a.da.mean.total_cmp(&b.da.mean))?;
    let names: Vec<&str> = found
        .iter()
        .filter(|(other, _)| (other.da.mean - first.da.mean).abs() <= ROUNDING)
        .map(|(_, name)| name.as_str())
        .collect();
    let name = match names.as_slice() {
        [only] => only.to_string(),
        several => format!("tie: {}", several.join(", ")),
    };
    Some(Best { found: first, name })
}

fn leakage(split: &Split) -> Option<Section> {
    let found = split.leakage.as_ref()?;
    let row = |what: &str, count: usize| {
        vec![what.to_string(), count.to_string(), share(Some(count as f64 / found.functions.max(1) as f64))]
    };
    let mut table = Table::new(["shared with the training data", "functions", "share"]);
    table.rows = vec![
        row("commit", found.by_commit),
        row("text", found.exact),
        row("text, whitespace aside", found.without_whitespace),
        row("text, comments and whitespace aside", found.code),
        row("nearly the same text (Jaccard index of shingles at least 0.8)", found.near),
        row("any of these", found.any),
    ];
    let mut parts = vec![Piece::Table(table)];
    if !found.examples.is_empty() {
        let rows: Vec<String> =
            found.examples.iter().map(|(index, _)| split.facts[*index].row.to_string()).collect();
        parts.push(Piece::Text(format!("The first of them: rows {}.", rows.join(", "))));
    }
    Some(Section { heading: "Leakage".to_string(), level: 3, parts })
}

fn number(value: f64) -> String {
    format!("{value:.4}")
}

fn share(value: Option<f64>) -> String {
    decimals(value, 4)
}

fn decimals(value: Option<f64>, count: usize) -> String {
    value.map_or("–".to_string(), |value| format!("{value:.count$}"))
}

fn both(figures: Figures) -> String {
    format!("{} / {}", number(figures.mean), number(figures.pooled))
}

fn with_interval(value: f64, interval: Option<Interval>) -> String {
    match interval {
        Some(Interval { low, high }) => format!("{value:.4} [{low:.4}, {high:.4}]"),
        None => number(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alignment::{Unit, Verdicts, align_units, localisation};

    fn summary(score: f64) -> AlignmentSummary {
        let units = [Unit { score, is_true: true }, Unit { score: 1.0, is_true: false }];
        let verdicts = Verdicts { predicted_vulnerable: true, labelled_vulnerable: true };
        localisation::summarize(&[align_units(&units, 0, verdicts)], 1).unwrap()
    }

    #[test]
    fn equally_good_methods_share_the_first_place() {
        let (good, bad) = (summary(0.5), summary(0.25));
        let name = |found: &[(Option<&AlignmentSummary>, &str)]| {
            best(found.iter().map(|(found, name)| (*found, name.to_string()))).map(|best| best.name)
        };
        assert_eq!(name(&[(Some(&bad), "a"), (Some(&good), "b"), (None, "c")]).unwrap(), "b");
        assert_eq!(name(&[(Some(&good), "a"), (Some(&bad), "b"), (Some(&good), "c")]).unwrap(), "tie: a, c");
        assert_eq!(name(&[(None, "a")]), None);
    }
}
