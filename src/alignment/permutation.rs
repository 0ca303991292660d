//! The mean Detection Alignment over all permutations of a function's scores, without drawing any.
//!
//! With n scores of sum M, of which a permutation puts T on the `seen` true lines, and |G| = seen + outside, DA is
//! T / (|G| + M − T), that is (|G| + M) / D − 1 with D = |G| + M − T. T is the sum of `seen` of the n scores, drawn
//! without replacement, so the mean needs E[1/D] = ∫₀^∞ E[e^(−sD)] ds. As D = (outside + M) + Σ (1 − x) over the drawn
//! scores x, the expectation under the integral is e^(−s(outside + M)) times the mean, over all subsets of that size,
//! of the product of e^(−s(1 − x)): an elementary symmetric polynomial, divided by its number of terms. The integral
//! is smooth and decays like e^(−s·|G|) or faster; double-exponential quadrature (Takahasi & Mori, 1974) takes it
//! to about 1e-12. That takes steps in proportion to n · seen; where they are too many, n is in the thousands and T close
//! to its mean, and 1/D is expanded around that, to the third moment of T.

/// Mean over all permutations of Σ min / Σ max; `scores` lie in 0..=1, and `seen + outside` is at least 1.
pub(super) fn mean_alignment(scores: &[f64], seen: usize, outside: usize) -> f64 {
    let total: f64 = scores.iter().sum();
    let truth = (seen + outside) as f64;
    if seen == 0 {
        return 0.0;
    }
    // Nothing to permute.
    if seen == scores.len() || scores.windows(2).all(|pair| pair[0] == pair[1]) {
        let on_truth = total * seen as f64 / scores.len() as f64;
        return on_truth / (truth + total - on_truth);
    }
    if scores.len().saturating_mul(seen) > MOST_TERMS {
        return expanded(scores, seen, truth).clamp(0.0, 1.0);
    }
    let inverse = integral(|s| {
        let factors = scores.iter().map(|score| (-s * (1.0 - score)).exp());
        (-s * (outside as f64 + total)).exp() * mean_product(factors, seen)
    });
    ((truth + total) * inverse - 1.0).clamp(0.0, 1.0)
}

/// Above, the expansion is right to about 1e-6, and the integral would take a second and more.
const MOST_TERMS: usize = 4_000_000;

/// The same by E[1/(c − T)] ≈ (1 + E[(T − m)²]/(c − m)² + E[(T − m)³]/(c − m)³) / (c − m), with m the mean of T and its
/// moments those of a sum that is drawn without replacement.
fn expanded(scores: &[f64], seen: usize, truth: f64) -> f64 {
    let (n, k) = (scores.len() as f64, seen as f64);
    let total: f64 = scores.iter().sum();
    let mean = total / n;
    let power = |exponent: i32| scores.iter().map(|score| (score - mean).powi(exponent)).sum::<f64>();
    let variance = power(2) * k * (n - k) / (n * (n - 1.0));
    let third = power(3) * k * (n - k) * (n - 2.0 * k) / (n * (n - 1.0) * (n - 2.0));
    let rest = truth + total - k * mean;
    (truth + total) / rest * (1.0 + variance / rest.powi(2) + third / rest.powi(3)) - 1.0
}

/// The mean, over all subsets of `size` factors, of their product.
fn mean_product(factors: impl Iterator<Item = f64>, size: usize) -> f64 {
    // means[k] after j factors: the mean over subsets of k of them. A subset of j + 1 factors holds the newest with
    // probability k / (j + 1). Every term is positive, so nothing cancels.
    let mut means = vec![0.0; size + 1];
    means[0] = 1.0;
    for (before, factor) in factors.enumerate() {
        let count = (before + 1) as f64;
        for k in (1..=size.min(before + 1)).rev() {
            let share = k as f64 / count;
            means[k] = (1.0 - share) * means[k] + share * factor * means[k - 1];
        }
    }
    means[size]
}

/// Half the width between nodes, and the number of nodes on each side of 0, of the substitution s = exp(t − exp(−t)).
const STEP: f64 = 1.0 / 16.0;
const NODES: i32 = 100;

/// ∫₀^∞ f(s) ds for a smooth f that decays exponentially.
fn integral(f: impl Fn(f64) -> f64) -> f64 {
    let term = |node: i32| {
        let t = f64::from(node) * STEP;
        let inner = (-t).exp();
        let s = (t - inner).exp();
        // Below, s and with it the term vanish; above, f does.
        if (1e-30..=800.0).contains(&s) { f(s) * s * (1.0 + inner) } else { 0.0 }
    };
    (-NODES..=NODES).map(term).sum::<f64>() * STEP
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same by trying every choice of true lines.
    fn by_enumeration(scores: &[f64], seen: usize, outside: usize) -> f64 {
        let total: f64 = scores.iter().sum();
        let (mut sum, mut count) = (0.0, 0.0);
        for subset in 0u32..1 << scores.len() {
            if subset.count_ones() as usize != seen {
                continue;
            }
            let on_truth: f64 =
                scores.iter().enumerate().filter(|(i, _)| subset >> i & 1 == 1).map(|(_, score)| score).sum();
            sum += on_truth / ((seen + outside) as f64 + total - on_truth);
            count += 1.0;
        }
        sum / count
    }

    #[test]
    fn one_true_line_of_three_is_the_mean_over_its_positions() {
        // T is 1, 0.5 or 0 of a sum of 1.5: 1/1.5, 0.5/2, 0.
        let expected = (1.0 / 1.5 + 0.5 / 2.0) / 3.0;
        assert!((mean_alignment(&[0.0, 1.0, 0.5], 1, 0) - expected).abs() < 1e-12);
        assert_eq!(mean_alignment(&[1.0, 0.0], 2, 0), 0.5);
        assert_eq!(mean_alignment(&[0.0, 0.0], 1, 0), 0.0);
        assert_eq!(mean_alignment(&[0.0, 1.0], 0, 3), 0.0);
    }

    #[test]
    fn many_lines_stay_exact() {
        // All but one of 600 scores are 0: T is 1 with probability seen / n.
        let mut scores = vec![0.0; 600];
        scores[17] = 1.0;
        let expected = 100.0 / 600.0 * (1.0 / 100.0);
        assert!((mean_alignment(&scores, 100, 0) - expected).abs() < 1e-12);
        let halves: Vec<f64> = (0..600).map(|i| f64::from(i % 2)).collect();
        let mean = mean_alignment(&halves, 300, 40);
        assert!((0.29..0.31).contains(&mean), "{mean}"); // 150 / (340 + 300 − 150) and a little
    }

    #[test]
    fn long_functions_are_expanded_and_cost_no_minutes() {
        let scores: Vec<f64> = (0..1500).map(|i| f64::from(i * i % 97) / 97.0).collect();
        for (seen, outside) in [(3, 0), (40, 2), (700, 0), (1499, 30)] {
            let exact = mean_alignment(&scores, seen, outside);
            let near = expanded(&scores, seen, (seen + outside) as f64);
            assert!((exact - near).abs() < 1e-6, "{seen}: {exact} {near}");
        }
        let long: Vec<f64> = scores.iter().copied().cycle().take(60_000).collect();
        let start = std::time::Instant::now();
        let mean = mean_alignment(&long, 30_000, 0);
        assert!(start.elapsed().as_secs() < 5 && (0.3..0.4).contains(&mean), "{mean}");
    }

    proptest! {
        #[test]
        fn equals_the_enumeration(
            scores in proptest::collection::vec(0u8..=20, 1..10), seen in 0usize..10, outside in 0usize..4,
        ) {
            let scores: Vec<f64> = scores.into_iter().map(|score| f64::from(score) / 20.0).collect();
            let seen = seen.min(scores.len());
            prop_assume!(seen + outside > 0);
            let (mean, expected) = (mean_alignment(&scores, seen, outside), by_enumeration(&scores, seen, outside));
            prop_assert!((mean - expected).abs() < 1e-10, "{mean} {expected}");
        }
    }
}
