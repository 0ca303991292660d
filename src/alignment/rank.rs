//! Ranks and rank correlation.

/// Spearman's rank correlation of two equally long lists, ties at their mean rank, −1..=1; `None` for lists of
/// different or less than two values, and where one of them is constant or holds what is no number.
pub fn spearman(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.len() != b.len() || a.len() < 2 || a.iter().chain(b).any(|value| value.is_nan()) {
        return None;
    }
    let (a, b) = (mean_ranks(a), mean_ranks(b));
    let middle = (a.len() as f64 + 1.0) / 2.0;
    let product =
        |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| (a - middle) * (b - middle)).sum() };
    let (variance_a, variance_b) = (product(&a, &a), product(&b, &b));
    if variance_a == 0.0 || variance_b == 0.0 {
        return None;
    }
    Some((product(&a, &b) / (variance_a * variance_b).sqrt()).clamp(-1.0, 1.0))
}

/// 1 for the smallest value; equal values share the mean of their ranks.
pub(super) fn mean_ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    for tie in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let rank = start as f64 + (tie.len() as f64 + 1.0) / 2.0;
        for index in tie {
            ranks[*index] = rank;
        }
        start += tie.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlation_of_ranks() {
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[10.0, 100.0, 1000.0]), Some(1.0));
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[3.0, 2.0, -7.0]), Some(-1.0));
        // Without ties 1 − 6 Σd² / (n³ − n): differences 0, 1, 1, 0 of n = 4.
        assert!((spearman(&[1.0, 2.0, 3.0, 4.0], &[1.0, 3.0, 2.0, 4.0]).unwrap() - 0.8).abs() < 1e-12);
        // Ranks 1.5 1.5 3 and 1 2 3: covariance 1.5, variances 1.5 and 2.
        assert!((spearman(&[0.0, -0.0, 5.0], &[1.0, 2.0, 3.0]).unwrap() - 0.75f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn no_correlation_where_nothing_varies() {
        assert_eq!(spearman(&[1.0, 1.0], &[1.0, 2.0]), None);
        assert_eq!(spearman(&[1.0], &[1.0]), None);
        assert_eq!(spearman(&[1.0, 2.0], &[1.0]), None);
        assert_eq!(spearman(&[1.0, f64::NAN], &[1.0, 2.0]), None);
    }
}
