//! The scale on which scores are shown.

/// Steps of the scale; step 0 is unshaded.
pub const STEPS: usize = 8;

/// Bars for the steps, so that relevance can be read without colour.
const BARS: [&str; STEPS + 1] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

pub type Rgb = (u8, u8, u8);

/// The colours of text on the background of a step from 1: one hue, luminance ordered.
pub fn colours(light: bool, step: usize) -> (Rgb, Rgb) {
    let (foreground, faint, strong) = match light {
        false => ((255, 255, 255), (48, 28, 10), (184, 78, 0)),
        true => ((0, 0, 0), (255, 243, 228), (240, 130, 20)),
    };
    let mix = |a: u8, b: u8| {
        let t = (step.clamp(1, STEPS) - 1) as f64 / (STEPS - 1) as f64;
        (f64::from(a) + (f64::from(b) - f64::from(a)) * t).round() as u8
    };
    (foreground, (mix(faint.0, strong.0), mix(faint.1, strong.1), mix(faint.2, strong.2)))
}

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
