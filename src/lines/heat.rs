//! The scale on which scores are shown.

/// Steps of the scale; step 0 is unshaded.
pub const STEPS: usize = 8;

/// Bars for the steps, so that relevance can be read without colour.
const BARS: [&str; STEPS + 1] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// The step of a score in 0..=1; only a score of 0 is unshaded.
pub fn step(score: f64) -> usize {
    (score * STEPS as f64).ceil().clamp(0.0, STEPS as f64) as usize
}

/// The bar of a score in 0..=1.
pub fn bar(score: f64) -> &'static str {
    BARS[step(score)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_score_of_nothing_has_no_bar() {
        assert_eq!([0.0, 1e-9, 0.125, 0.126, 0.83, 1.0].map(bar), [" ", "▁", "▁", "▂", "▇", "█"]);
        assert_eq!([0.0, 1e-9, 0.125, 0.126, 0.5, 1.0].map(step), [0, 1, 1, 2, 4, 8]);
        assert_eq!(step(f64::NAN), 0);
    }
}
