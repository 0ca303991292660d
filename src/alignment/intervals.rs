//! Intervals that say how far a figure could be another on other functions of the same kind.

use super::random::Random;

/// Resamples of a bootstrap.
pub const RESAMPLES: usize = 2000;
/// Seed of every bootstrap unless another is given.
pub const SEED: u64 = 20_251_013;
/// The two-sided 5% point of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// A 95% interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

/// The percentile bootstrap (Efron, 1979): 2.5% and 97.5% of the statistic over [`RESAMPLES`] draws of `count` of
/// `count` items with replacement. The statistic gets the numbers of the items drawn; draws of which it is undefined
/// are left out, and there is no interval where that is more than half of them or where there are no two items.
pub fn bootstrap(
    count: usize,
    seed: u64,
    mut statistic: impl FnMut(&[usize]) -> Option<f64>,
) -> Option<Interval> {
    if count < 2 {
        return None;
    }
    let mut random = Random::new(seed);
    let mut drawn = vec![0; count];
    let mut values = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        drawn.fill_with(|| random.below(count));
        values.extend(statistic(&drawn).filter(|value| value.is_finite()));
    }
    if values.len() * 2 < RESAMPLES {
        return None;
    }
    values.sort_by(f64::total_cmp);
    Some(Interval { low: quantile(&values, 0.025), high: quantile(&values, 0.975) })
}

/// Linear between the order statistics; `sorted` is not empty.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let below = place.floor();
    let above = place.ceil() as usize;
    let (low, high) = (sorted[below as usize], sorted[above]);
    low + (high - low) * (place - below)
}

/// The score interval of the difference of two paired proportions (Tango, Statistics in Medicine 17, 1998, Eq. 8): of
/// `count` pairs, `first` only show the property on their first side and `second` only on their second; the
/// difference is (first − second) / count. `None` without pairs.
pub fn paired_difference(first: usize, second: usize, count: usize) -> Option<Interval> {
    if count == 0 || first + second > count {
        return None;
    }
    let (b, c, n) = (first as f64, second as f64, count as f64);
    let statistic = |delta: f64| {
        // The restricted maximum-likelihood estimate of the share of `second` at this difference.
        let linear = -b - c + (2.0 * n - b + c) * delta;
        let constant = -c * delta * (1.0 - delta);
        let root = (linear * linear - 8.0 * n * constant).max(0.0).sqrt();
        let estimate = (root - linear) / (4.0 * n);
        let variance = n * (2.0 * estimate + delta * (1.0 - delta));
        let excess = b - c - n * delta;
        if variance > 0.0 { excess / variance.sqrt() } else { excess.signum() * f64::INFINITY * excess.abs() }
    };
    // It falls with the difference: the ends are where it passes ±Z.
    let solve = |mut low: f64, mut high: f64, goal: f64| {
        for _ in 0..100 {
            let middle = (low + high) / 2.0;
            if statistic(middle) > goal {
                low = middle;
            } else {
                high = middle;
            }
        }
        (low + high) / 2.0
    };
    let measured = (b - c) / n;
    Some(Interval { low: solve(-1.0, measured, Z), high: solve(measured, 1.0, -Z) })
}

/// The score interval of a proportion (Wilson, 1927). `None` of nothing.
pub fn proportion(hits: usize, count: usize) -> Option<Interval> {
    if count == 0 {
        return None;
    }
    let (n, share) = (count as f64, hits as f64 / count as f64);
    let denominator = 1.0 + Z * Z / n;
    let centre = (share + Z * Z / (2.0 * n)) / denominator;
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt() / denominator;
    Some(Interval { low: (centre - half).max(0.0), high: (centre + half).min(1.0) })
}

/// The two-sided exact binomial test of `a` against `b` with equal chances: the sign test, min(1, 2·P(X ≤ min(a, b))).
pub fn binomial_test(a: usize, b: usize) -> f64 {
    let (few, count) = (a.min(b), a + b);
    // log of C(n, k) / 2ⁿ, term by term, so that nothing overflows.
    let mut log_term = -(count as f64) * std::f64::consts::LN_2;
    let mut sum = log_term.exp();
    for k in 0..few {
        log_term += ((count - k) as f64).ln() - ((k + 1) as f64).ln();
        sum += log_term.exp();
    }
    (2.0 * sum).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bootstrap_of_a_mean_is_near_its_normal_interval() {
        let values: Vec<f64> = (0..400).map(|i| f64::from(i % 4)).collect();
        let mean = |drawn: &[usize]| Some(drawn.iter().map(|i| values[*i]).sum::<f64>() / drawn.len() as f64);
        let found = bootstrap(values.len(), SEED, mean).unwrap();
        let half = 1.96 * (1.25f64 / 400.0).sqrt();
        assert!(
            (found.low - (1.5 - half)).abs() < 0.01 && (found.high - (1.5 + half)).abs() < 0.01,
            "{found:?}"
        );
        assert_eq!(bootstrap(values.len(), SEED, mean), Some(found), "the same in every run");
        assert_ne!(bootstrap(values.len(), 1, mean), Some(found));
        assert_eq!(bootstrap(1, SEED, |_| Some(1.0)), None);
        assert_eq!(bootstrap(5, SEED, |_| None), None);
        assert_eq!(bootstrap(5, SEED, |_| Some(2.0)), Some(Interval { low: 2.0, high: 2.0 }));
    }

    #[test]
    fn binomial_tests_by_hand() {
        assert_eq!(binomial_test(0, 0), 1.0);
        assert_eq!(binomial_test(5, 5), 1.0);
        assert!((binomial_test(0, 5) - 2.0 / 32.0).abs() < 1e-12);
        assert!((binomial_test(8, 2) - 2.0 * (1.0 + 10.0 + 45.0) / 1024.0).abs() < 1e-12);
        assert!(binomial_test(40_000, 10) < 1e-300);
        assert!((binomial_test(5000, 5100) - 0.3244).abs() < 0.001, "{}", binomial_test(5000, 5100));
    }

    #[test]
    fn wilson_by_hand() {
        // 0 of 10: (0, z² / (n + z²)).
        let found = proportion(0, 10).unwrap();
        assert!(found.low.abs() < 1e-12 && (found.high - Z * Z / (10.0 + Z * Z)).abs() < 1e-12);
        assert_eq!(proportion(0, 0), None);
    }

    #[test]
    fn paired_differences_at_their_edges() {
        // No discordant pair: symmetric, and like Wilson's interval of 0 hits, ±z² / (n + z²).
        let none = paired_difference(0, 0, 20).unwrap();
        assert!(
            (none.low + none.high).abs() < 1e-9 && (none.high - Z * Z / (20.0 + Z * Z)).abs() < 1e-9,
            "{none:?}"
        );
        let all = paired_difference(10, 0, 10).unwrap();
        assert!((all.high - 1.0).abs() < 1e-9 && all.low > 0.4, "{all:?}");
        assert_eq!(paired_difference(0, 0, 0), None);
    }

    proptest! {
        /// Inverting the score test: 0 lies outside exactly where McNemar's statistic (b − c) / √(b + c) exceeds z.
        #[test]
        fn paired_differences_agree_with_mcnemar(b in 0usize..60, c in 0usize..60, rest in 0usize..100) {
            let n = b + c + rest;
            prop_assume!(n > 0 && b + c > 0);
            let interval = paired_difference(b, c, n).unwrap();
            let difference = (b as f64 - c as f64) / n as f64;
            prop_assert!(interval.low <= difference + 1e-9 && difference <= interval.high + 1e-9);
            prop_assert!(interval.low >= -1.0 && interval.high <= 1.0);
            let statistic = (b as f64 - c as f64) / ((b + c) as f64).sqrt();
            let excludes = interval.low > 1e-9 || interval.high < -1e-9;
            prop_assert_eq!(excludes, statistic.abs() > Z);
            let mirrored = paired_difference(c, b, n).unwrap();
            prop_assert!((mirrored.low + interval.high).abs() < 1e-9);
        }
    }
}
