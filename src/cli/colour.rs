//! Which colours the terminal shows, and the heat scale: one hue, luminance ordered, in [`STEPS`] steps.

use super::arguments::Color;
use crate::lines::heat::{self, Rgb, STEPS};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    None,
    /// xterm's 256 colours.
    Indexed,
    True,
}

/// How to shade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Palette {
    depth: Depth,
    light: bool,
}

impl Palette {
    /// `environment` serves for the terminal's background (`COLORFGBG`); what the terminal can show is detected by
    /// `supports-color`, which honours NO_COLOR, FORCE_COLOR, COLORTERM and TERM.
    pub(super) fn detect(color: Color, environment: impl Fn(&str) -> Option<String>) -> Palette {
        let support = supports_color::on(supports_color::Stream::Stdout);
        let detected = match support {
            Some(level) if level.has_16m => Depth::True,
            Some(level) if level.has_256 => Depth::Indexed,
            // Sixteen colours make no scale. Most terminals that promise no more have 256 all the same; the Linux
            // console is the one that has not.
            Some(_) if environment("TERM").as_deref() != Some("linux") => Depth::Indexed,
            _ => Depth::None,
        };
        let depth = match color {
            Color::Never => Depth::None,
            Color::Auto => detected,
            Color::Always if detected == Depth::None => forced_depth(&environment),
            Color::Always => detected,
        };
        let background = environment("COLORFGBG");
        let light =
            background.as_deref().and_then(|v| v.rsplit(';').next()).is_some_and(|v| v == "7" || v == "15");
        Palette { depth, light }
    }

    #[cfg(test)]
    pub(super) const PLAIN: Palette = Palette { depth: Depth::None, light: false };

    pub(super) fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    pub(super) fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    /// `text` on the background of `step`, 0 to [`STEPS`].
    pub(super) fn heat(self, step: usize, text: &str) -> String {
        if step == 0 {
            return text.to_string();
        }
        let code = match self.depth {
            Depth::None => return text.to_string(),
            Depth::Indexed => {
                let (foreground, background) = self.step_indices(step);
                format!("38;5;{foreground};48;5;{background}")
            }
            Depth::True => {
                let (f, b) = self.step_colours(step);
                format!("38;2;{};{};{};48;2;{};{};{}", f.0, f.1, f.2, b.0, b.1, b.2)
            }
        };
        self.wrap(&code, text)
    }

    fn step_colours(self, step: usize) -> (Rgb, Rgb) {
        heat::colours(self.light, step)
    }

    /// xterm's cube has no eight steps of one hue, so its grey ramp serves.
    fn step_indices(self, step: usize) -> (u8, u8) {
        let offset = step.clamp(1, STEPS) as u8 - 1;
        if self.light { (16, 255 - offset) } else { (231, 234 + offset) }
    }

    fn wrap(self, code: &str, text: &str) -> String {
        match self.depth {
            Depth::None => text.to_string(),
            Depth::Indexed | Depth::True => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }
}

/// `--color always` into a pipe: the terminal behind it is what the environment describes.
fn forced_depth(environment: &impl Fn(&str) -> Option<String>) -> Depth {
    match environment("COLORTERM").as_deref() {
        Some("truecolor" | "24bit") => Depth::True,
        _ => Depth::Indexed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WCAG 2 relative luminance.
    fn luminance((r, g, b): Rgb) -> f64 {
        let channel = |v: u8| {
            let v = f64::from(v) / 255.0;
            if v <= 0.03928 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b)
    }

    fn contrast(a: Rgb, b: Rgb) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn every_step_is_readable_and_luminance_is_ordered() {
        for light in [false, true] {
            let palette = Palette { depth: Depth::True, light };
            let mut last = None;
            for step in 1..=STEPS {
                let (foreground, background) = palette.step_colours(step);
                let grey = |index: u8| match index {
                    16 => (0, 0, 0),
                    231 => (255, 255, 255),
                    ramp => (8 + 10 * (ramp - 232), 8 + 10 * (ramp - 232), 8 + 10 * (ramp - 232)),
                };
                let (on, behind) = palette.step_indices(step);
                assert!(contrast(grey(on), grey(behind)) >= 4.5, "step {step} of light={light}, 256 colours");
                assert!(contrast(foreground, background) >= 4.5, "step {step} of light={light}");
                let b = luminance(background);
                if let Some(last) = last {
                    assert!(if light { b < last } else { b > last }, "step {step} of light={light}");
                }
                last = Some(b);
            }
        }
    }

    #[test]
    fn plain_output_has_no_escapes() {
        let palette = Palette::PLAIN;
        assert_eq!(palette.heat(5, "x") + &palette.bold("y") + &palette.dim("z"), "xyz");
        let palette = Palette::detect(Color::Never, |_| Some("truecolor".into()));
        assert_eq!(palette.heat(5, "x"), "x");
    }

    #[test]
    fn forced_colour_follows_the_environment() {
        let heat = |colorterm: &str| {
            let environment = |name: &str| (name == "COLORTERM").then(|| colorterm.to_string());
            assert_eq!(
                forced_depth(&environment),
                if colorterm.is_empty() { Depth::Indexed } else { Depth::True }
            );
            Palette { depth: forced_depth(&environment), light: false }.heat(8, "x")
        };
        assert_eq!(heat("truecolor"), "\x1b[38;2;255;255;255;48;2;184;78;0mx\x1b[0m");
        assert_eq!(heat(""), "\x1b[38;5;231;48;5;241mx\x1b[0m");
    }
}
