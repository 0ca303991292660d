//! Areas under curves, ties counted as what they are: no order.

/// Something scored that is positive or not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    pub score: f64,
    pub positive: bool,
}

/// The area under the ROC curve: the probability that a random positive is scored above a random negative, ties
/// half (Mann & Whitney, 1947). `None` without positives or negatives, or where a score is no number.
pub fn roc_auc(items: &[Scored]) -> Option<f64> {
    let groups = groups(items)?;
    let (positives, negatives) = totals(&groups);
    if positives == 0.0 || negatives == 0.0 {
        return None;
    }
    let (mut below, mut area) = (negatives, 0.0);
    for (true_ones, false_ones) in groups {
        below -= false_ones;
        area += true_ones * (below + false_ones / 2.0);
    }
    Some(area / (positives * negatives))
}

/// The area under the precision-recall curve as average precision: Σ (Rᵢ − Rᵢ₋₁) · Pᵢ over the distinct scores, best
/// first. `None` without positives, or where a score is no number.
pub fn average_precision(items: &[Scored]) -> Option<f64> {
    let groups = groups(items)?;
    let (positives, _) = totals(&groups);
    if positives == 0.0 {
        return None;
    }
    let (mut found, mut read, mut area) = (0.0, 0.0, 0.0);
    for (true_ones, false_ones) in groups {
        found += true_ones;
        read += true_ones + false_ones;
        area += true_ones / positives * (found / read);
    }
    Some(area)
}

/// Positives and negatives of each distinct score, best first; `None` where a score is no number.
pub(super) fn groups(items: &[Scored]) -> Option<Vec<(f64, f64)>> {
    if items.iter().any(|item| item.score.is_nan()) {
        return None;
    }
    let mut sorted = items.to_vec();
    sorted.sort_by(|a, b| b.score.total_cmp(&a.score));
    let tie = |a: &Scored, b: &Scored| a.score == b.score;
    let counted = sorted.chunk_by(tie).map(|tied| {
        let positives = tied.iter().filter(|item| item.positive).count();
        (positives as f64, (tied.len() - positives) as f64)
    });
    Some(counted.collect())
}

fn totals(groups: &[(f64, f64)]) -> (f64, f64) {
    groups.iter().fold((0.0, 0.0), |(a, b), (c, d)| (a + c, b + d))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn items(positive: &[f64], negative: &[f64]) -> Vec<Scored> {
        let with = |positive: bool| move |score: &f64| Scored { score: *score, positive };
        positive.iter().map(with(true)).chain(negative.iter().map(with(false))).collect()
    }

    #[test]
    fn roc_counts_pairs() {
        assert_eq!(roc_auc(&items(&[0.9, 0.8], &[0.1, 0.2])), Some(1.0));
        assert_eq!(roc_auc(&items(&[0.9, 0.3], &[0.5, 0.3])), Some(2.5 / 4.0));
        assert_eq!(roc_auc(&items(&[0.5; 3], &[0.5; 4])), Some(0.5));
        assert_eq!(roc_auc(&items(&[0.5], &[])), None);
        assert_eq!(roc_auc(&items(&[f64::NAN], &[0.1])), None);
    }

    #[test]
    fn average_precision_of_a_small_ranking() {
        // + − + −: recall 1/2 at precision 1, then 1/2 at 2/3.
        let found = average_precision(&items(&[0.9, 0.7], &[0.8, 0.6])).unwrap();
        assert!((found - (0.5 + 0.5 * 2.0 / 3.0)).abs() < 1e-12);
        // One group: precision is the share of positives.
        assert_eq!(average_precision(&items(&[0.5], &[0.5; 3])), Some(0.25));
        assert_eq!(average_precision(&items(&[], &[0.5])), None);
    }

    proptest! {
        #[test]
        fn roc_equals_its_definition(
            positive in proptest::collection::vec(0u8..6, 1..12), negative in proptest::collection::vec(0u8..6, 1..12),
        ) {
            let numbers = |v: &[u8]| v.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
            let (positive, negative) = (numbers(&positive), numbers(&negative));
            let wins: f64 = positive.iter().flat_map(|p| negative.iter().map(move |n| {
                if p > n { 1.0 } else if p == n { 0.5 } else { 0.0 }
            })).sum();
            let expected = wins / (positive.len() * negative.len()) as f64;
            prop_assert!((roc_auc(&items(&positive, &negative)).unwrap() - expected).abs() < 1e-12);
        }
    }
}
