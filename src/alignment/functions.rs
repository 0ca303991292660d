//! Verdicts against labels: what is said of a detector function by function.

use super::curves::{self, Scored};

/// A verdict and its truth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    pub probability: f64,
    /// `probability` exceeds the threshold.
    pub flagged: bool,
    pub vulnerable: bool,
}

/// Counts of verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Confusion {
    pub true_positives: usize,
    pub false_positives: usize,
    pub true_negatives: usize,
    pub false_negatives: usize,
}

/// Why metrics of two classes are undefined: without one of them precision is 0 or 1 and F1 says nothing, whatever the
/// detector does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneClass {
    NoFunction,
    NoVulnerable,
    NoBenign,
}

impl OneClass {
    pub fn as_str(self) -> &'static str {
        match self {
            OneClass::NoFunction => "no function",
            OneClass::NoVulnerable => "no vulnerable function",
            OneClass::NoBenign => "no benign function",
        }
    }
}

/// Function-level metrics; what would be a division by 0 is `None`, and so are precision, F1 and the areas where a class is
/// missing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FunctionMetrics {
    pub confusion: Confusion,
    /// Why precision, F1 and the areas are undefined; `None` where both classes are there.
    pub one_class: Option<OneClass>,
    pub precision: Option<f64>,
    pub recall: Option<f64>,
    pub f1: Option<f64>,
    pub accuracy: Option<f64>,
    pub roc_auc: Option<f64>,
    /// Average precision.
    pub pr_auc: Option<f64>,
    /// Share of all functions that were flagged.
    pub flag_rate: Option<f64>,
}

impl Confusion {
    pub fn total(&self) -> usize {
        self.true_positives + self.false_positives + self.true_negatives + self.false_negatives
    }

    fn of(functions: &[Judged]) -> Confusion {
        let mut counts = Confusion::default();
        for function in functions {
            *match (function.flagged, function.vulnerable) {
                (true, true) => &mut counts.true_positives,
                (true, false) => &mut counts.false_positives,
                (false, false) => &mut counts.true_negatives,
                (false, true) => &mut counts.false_negatives,
            } += 1;
        }
        counts
    }

    fn metrics(self, roc_auc: Option<f64>, pr_auc: Option<f64>) -> FunctionMetrics {
        let Confusion { true_positives: tp, false_positives: fp, true_negatives: tn, false_negatives: r#fn } =
            self;
        let one_class = match (tp + r#fn, fp + tn) {
            (0, 0) => Some(OneClass::NoFunction),
            (0, _) => Some(OneClass::NoVulnerable),
            (_, 0) => Some(OneClass::NoBenign),
            _ => None,
        };
        let of_both = |value: Option<f64>| value.filter(|_| one_class.is_none());
        FunctionMetrics {
            confusion: self,
            one_class,
            precision: of_both(ratio(tp, tp + fp)),
            recall: ratio(tp, tp + r#fn),
            f1: of_both(ratio(2 * tp, 2 * tp + fp + r#fn)),
            accuracy: ratio(tp + tn, self.total()),
            roc_auc: of_both(roc_auc),
            pr_auc: of_both(pr_auc),
            flag_rate: ratio(tp + fp, self.total()),
        }
    }
}

/// Precision, recall, F1, accuracy, areas and flag rate.
pub fn metrics(functions: &[Judged]) -> FunctionMetrics {
    Confusion::of(functions).metrics(roc_auc(functions), curves::average_precision(&scored(functions)))
}

pub fn f1(functions: &[Judged]) -> Option<f64> {
    Confusion::of(functions).metrics(None, None).f1
}

pub fn roc_auc(functions: &[Judged]) -> Option<f64> {
    curves::roc_auc(&scored(functions))
}

fn scored(functions: &[Judged]) -> Vec<Scored> {
    functions.iter().map(|f| Scored { score: f.probability, positive: f.vulnerable }).collect()
}

/// The row of a detector that gives every function the more frequent label (benign where they are equally frequent).
pub fn majority(functions: &[Judged]) -> FunctionMetrics {
    let vulnerable = functions.iter().filter(|function| function.vulnerable).count();
    let flagged = 2 * vulnerable > functions.len();
    let constant = |f: &Judged| Judged { probability: f64::from(u8::from(flagged)), flagged, ..*f };
    metrics(&functions.iter().map(constant).collect::<Vec<_>>())
}

/// The threshold between the probabilities given that maximises F1 when applied as "flag what exceeds it"; of several,
/// the highest, which flags least. `None` without a vulnerable or without a benign function: there F1 is undefined.
///
/// It lies halfway between two neighbouring probabilities, so that rounding moves no function across it; flagging
/// everything is 0 only where no probability is 0.
pub fn best_threshold(functions: &[Judged]) -> Option<f64> {
    let mut sorted: Vec<Judged> = functions.iter().copied().filter(|f| !f.probability.is_nan()).collect();
    sorted.sort_by(|a, b| b.probability.total_cmp(&a.probability));
    let vulnerable = sorted.iter().filter(|function| function.vulnerable).count();
    if vulnerable == 0 || vulnerable == sorted.len() {
        return None;
    }
    let (mut found, mut flagged) = (0, 0);
    let mut best: Option<(f64, f64)> = None;
    let mut tied = sorted.chunk_by(|a, b| a.probability == b.probability).peekable();
    while let Some(group) = tied.next() {
        found += group.iter().filter(|function| function.vulnerable).count();
        flagged += group.len();
        let f1 = 2.0 * found as f64 / (flagged + vulnerable) as f64;
        let here = group[0].probability;
        let threshold = match tied.peek() {
            Some(next) => {
                let middle = here + (next[0].probability - here) / 2.0;
                // Neighbouring floats have nothing between them.
                if middle < here { middle } else { next[0].probability }
            }
            // What exceeds a threshold of 0 or more.
            None if here > 0.0 => 0.0,
            None => continue,
        };
        if best.is_none_or(|(most, _)| f1 > most) {
            best = Some((f1, threshold));
        }
    }
    best.map(|(_, threshold)| threshold)
}

fn ratio(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn judged(rows: &[(f64, bool)], threshold: f64) -> Vec<Judged> {
        let judge = |(probability, vulnerable): &(f64, bool)| Judged {
            probability: *probability,
            flagged: *probability > threshold,
            vulnerable: *vulnerable,
        };
        rows.iter().map(judge).collect()
    }

    const ROWS: &[(f64, bool)] =
        &[(0.9, true), (0.7, false), (0.6, true), (0.5, true), (0.2, false), (0.1, false)];

    #[test]
    fn metrics_by_hand() {
        let found = metrics(&judged(ROWS, 0.5));
        let counts =
            Confusion { true_positives: 2, false_positives: 1, true_negatives: 2, false_negatives: 1 };
        assert_eq!(found.confusion, counts);
        assert_eq!(
            (found.precision, found.recall, found.f1),
            (Some(2.0 / 3.0), Some(2.0 / 3.0), Some(2.0 / 3.0))
        );
        assert_eq!((found.accuracy, found.flag_rate), (Some(4.0 / 6.0), Some(0.5)));
        assert_eq!(found.roc_auc, Some(7.0 / 9.0));
    }

    #[test]
    fn the_majority_row() {
        let mut rows = ROWS.to_vec();
        rows.push((0.3, false));
        let found = majority(&judged(&rows, 0.5));
        assert_eq!((found.accuracy, found.precision, found.recall), (Some(4.0 / 7.0), None, Some(0.0)));
        assert_eq!((found.f1, found.roc_auc, found.flag_rate), (Some(0.0), Some(0.5), Some(0.0)));
        rows.extend([(0.3, true), (0.4, true)]);
        let found = majority(&judged(&rows, 0.5));
        assert_eq!((found.accuracy, found.recall, found.flag_rate), (Some(5.0 / 9.0), Some(1.0), Some(1.0)));
        let nothing = metrics(&[]);
        assert_eq!((nothing.accuracy, nothing.f1, nothing.roc_auc), (None, None, None));
    }

    #[test]
    fn without_one_class_metrics_of_two_are_undefined() {
        let found = metrics(&judged(&[(0.9, true), (0.2, true)], 0.5));
        assert_eq!(found.one_class, Some(OneClass::NoBenign));
        assert_eq!((found.precision, found.f1, found.roc_auc, found.pr_auc), (None, None, None, None));
        assert_eq!((found.recall, found.flag_rate), (Some(0.5), Some(0.5)));
        let found = metrics(&judged(&[(0.9, false), (0.2, false)], 0.5));
        assert_eq!(found.one_class, Some(OneClass::NoVulnerable));
        assert_eq!((found.precision, found.recall, found.f1, found.pr_auc), (None, None, None, None));
        assert_eq!((found.accuracy, found.flag_rate), (Some(0.5), Some(0.5)));
        assert_eq!(metrics(&[]).one_class, Some(OneClass::NoFunction));
        assert_eq!(metrics(&judged(ROWS, 0.5)).one_class, None);
    }

    #[test]
    fn the_best_threshold_by_hand() {
        // Flagging 4 finds all 3 vulnerable ones: F1 6/7.
        assert_eq!(best_threshold(&judged(ROWS, 0.5)), Some(0.35));
        assert_eq!(best_threshold(&judged(&[(0.5, false)], 0.5)), None);
        assert_eq!(best_threshold(&judged(&[(0.5, true)], 0.5)), None, "of one class F1 is undefined");
        assert_eq!(best_threshold(&judged(&[(0.5, true), (0.5, false)], 0.5)), Some(0.0));
        assert_eq!(best_threshold(&judged(&[(0.0, true), (0.0, false)], 0.5)), None);
        let next = 0.5f64.next_up();
        assert_eq!(best_threshold(&judged(&[(next, true), (0.5, false)], 0.5)), Some(0.5));
    }

    proptest! {
        #[test]
        fn no_threshold_is_better(rows in proptest::collection::vec((1u8..20, any::<bool>()), 1..30)) {
            let rows: Vec<(f64, bool)> = rows.into_iter().map(|(p, v)| (f64::from(p) / 20.0, v)).collect();
            let f1 = |threshold: f64| metrics(&judged(&rows, threshold)).f1.unwrap_or(0.0);
            if let Some(best) = best_threshold(&judged(&rows, 0.5)) {
                let reached = f1(best);
                for step in 0..=40 {
                    prop_assert!(f1(f64::from(step) / 40.0) <= reached + 1e-12);
                }
            }
        }
    }
}
