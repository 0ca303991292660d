//! Integrated gradients (Sundararajan et al., ICML 2017), with a fixed quadrature or an adaptive one.
//!
//! F along the path is nearly a step for confident detectors, so a fixed number of steps can miss it. The adaptive
//! integration bisects panels where their own completeness fails: the integral over a panel is known to be F at its
//! end minus F at its start.

use super::windows::WindowRelevance;
use super::{Completeness, ExplainError, Method, Progress, Steps, Subject, rows_per_backward_run};
use crate::detector::{AttributionError, Cancellation, Detector, Row, SpecialTokens};
use crate::tokens::Window;

/// Panels that adaptive integration starts with.
const FIRST_PANELS: usize = 4;
/// Nodes of a panel.
const NODES: usize = 4;
/// Adaptive integration of one window ends after this many evaluations.
const MOST_EVALUATIONS: usize = 200;
/// The gap that is aimed at, as a share of |F(x) − F(x′)|, and at the least.
const RELATIVE_GAP: f64 = 0.01;
const LEAST_GAP: f64 = 0.001;

pub(super) fn relevance(
    steps: Steps,
    detector: &mut Detector,
    subject: Subject<'_>,
    cancel: &Cancellation,
    progress: Progress<'_>,
) -> Result<(Vec<WindowRelevance>, Completeness), ExplainError> {
    let method = Method::IntegratedGradients;
    let (special, max_tokens) = (detector.special_tokens(), detector.info().max_tokens);
    let provider = detector.info().execution_provider.clone();
    let attribution = detector.attribution().map_err(ExplainError::attribution(method))?;
    let per_window = match steps {
        Steps::Auto => MOST_EVALUATIONS,
        Steps::Fixed(steps) => steps + 2,
    };
    let total = per_window * subject.encoding.windows.len();
    let mut completeness = Completeness { gap: 0.0, change: 0.0, reached: true, evaluations: 0 };
    let mut windows = Vec::new();
    for (number, (window, detection)) in subject.encoding.windows.iter().zip(subject.detections).enumerate() {
        let baseline = baseline(window, special, max_tokens)?;
        let row = Row::unpadded(&window.ids);
        let mut path = Path {
            evaluate: &mut |alphas: &[f64]| {
                let found = attribution.integrand(&row, &baseline, alphas, cancel)?;
                Ok(found.into_iter().map(|at| Point { f: at.probability, integrand: at.values }).collect())
            },
            rows: rows_per_backward_run(window.ids.len(), &provider),
            evaluations: 0,
            progress: &mut |done: usize| progress(number * per_window + done, total),
        };
        let integral = match steps {
            Steps::Auto => path.adaptive(),
            Steps::Fixed(steps) => path.fixed(steps),
        }
        .map_err(ExplainError::attribution(method))?;
        completeness.evaluations += path.evaluations;
        let gap = integral.finite_gap().map_err(|reason| ExplainError::Run { method, reason })?;
        let change = integral.end - integral.start;
        if number == 0 || gap > completeness.gap {
            (completeness.gap, completeness.change) = (gap, change);
        }
        completeness.reached &= gap <= tolerance(change);
        windows.push(WindowRelevance::of(window, detection, &integral.values));
    }
    progress(total, total);
    Ok((windows, completeness))
}

/// `<s> <pad> … <pad>`, and a final `</s>` only where the input fills the model: that is what the reference's padding
/// to the maximum amounts to.
fn baseline(window: &Window, special: SpecialTokens, max_tokens: usize) -> Result<Vec<u32>, ExplainError> {
    let pad = special.pad.ok_or_else(|| ExplainError::Unavailable {
        method: Method::IntegratedGradients,
        reason: "the tokenizer has no padding token, which the baseline is made of".to_string(),
    })?;
    let mut ids = vec![pad; window.ids.len()];
    ids[..window.first_code].copy_from_slice(&window.ids[..window.first_code]);
    if window.ids.len() >= max_tokens {
        let after = window.first_code + window.code.len();
        ids[after..].copy_from_slice(&window.ids[after..]);
    }
    Ok(ids)
}

fn tolerance(change: f64) -> f64 {
    (RELATIVE_GAP * change.abs()).max(LEAST_GAP)
}

/// One evaluation on the path: F there, and gradient × way of each input token.
#[derive(Clone, Debug)]
struct Point {
    f: f64,
    integrand: Vec<f64>,
}

struct Integral {
    values: Vec<f64>,
    start: f64,
    end: f64,
}

impl Integral {
    fn gap(&self) -> f64 {
        (self.values.iter().sum::<f64>() - (self.end - self.start)).abs()
    }

    /// The largest of several gaps would hide one that is not a number.
    fn finite_gap(&self) -> Result<f64, String> {
        let gap = self.gap();
        match gap.is_finite() {
            true => Ok(gap),
            false => {
                Err(format!("the integral along the path: expected finite numbers, found a gap of {gap}"))
            }
        }
    }
}

/// Evaluates several places of the path, in one run.
type Evaluate<'a> = &'a mut dyn FnMut(&[f64]) -> Result<Vec<Point>, AttributionError>;

struct Path<'a> {
    evaluate: Evaluate<'a>,
    /// Evaluations in one run.
    rows: usize,
    evaluations: usize,
    progress: &'a mut dyn FnMut(usize),
}

/// A place on the path and F there.
#[derive(Clone, Copy)]
struct Place {
    alpha: f64,
    f: f64,
}

/// A part of the path and its integral.
struct Panel {
    from: Place,
    to: Place,
    values: Vec<f64>,
}

impl Panel {
    fn error(&self) -> f64 {
        (self.values.iter().sum::<f64>() - (self.to.f - self.from.f)).abs()
    }
    fn middle(&self) -> f64 {
        (self.from.alpha + self.to.alpha) / 2.0
    }
}

impl Path<'_> {
    fn at(&mut self, alphas: &[f64]) -> Result<Vec<Point>, AttributionError> {
        let mut points = Vec::with_capacity(alphas.len());
        for run in alphas.chunks(self.rows) {
            (self.progress)(self.evaluations);
            points.extend((self.evaluate)(run)?);
            self.evaluations += run.len();
        }
        Ok(points)
    }

    /// Both ends are evaluated in the same graph as the steps.
    fn fixed(&mut self, steps: usize) -> Result<Integral, AttributionError> {
        let quadrature = gauss_legendre(steps);
        let mut alphas: Vec<f64> = quadrature.iter().map(|(alpha, _)| *alpha).collect();
        alphas.extend([0.0, 1.0]);
        let points = self.at(&alphas)?;
        let (nodes, ends) = points.split_at(steps);
        Ok(Integral { values: weighted(nodes, &quadrature, 1.0), start: ends[0].f, end: ends[1].f })
    }

    fn adaptive(&mut self) -> Result<Integral, AttributionError> {
        let alphas: Vec<f64> = (0..=FIRST_PANELS).map(|place| place as f64 / FIRST_PANELS as f64).collect();
        let ends = self.places(&alphas)?;
        let between: Vec<(Place, Place)> = ends.windows(2).map(|pair| (pair[0], pair[1])).collect();
        let mut panels = self.panels(&between)?;
        let change = ends[FIRST_PANELS].f - ends[0].f;
        loop {
            // Errors of single panels may cancel in the sum by chance, so they are added up without their signs.
            let error: f64 = panels.iter().map(Panel::error).sum();
            let affordable = (MOST_EVALUATIONS - self.evaluations.min(MOST_EVALUATIONS)) / (2 * NODES + 1);
            if error <= tolerance(change) || affordable == 0 {
                break;
            }
            // The panels that the error comes from, as many as fill a run.
            panels.sort_by(|a, b| b.error().total_cmp(&a.error()));
            let share = tolerance(change) / panels.len() as f64;
            let failing = panels.iter().take_while(|panel| panel.error() > share).count().max(1);
            let count = failing.min(affordable).min((self.rows / (2 * NODES)).max(1));
            let split: Vec<Panel> = panels.drain(..count).collect();
            let middles: Vec<f64> = split.iter().map(Panel::middle).collect();
            let middles = self.places(&middles)?;
            let halves: Vec<_> = split
                .iter()
                .zip(&middles)
                .flat_map(|(panel, middle)| [(panel.from, *middle), (*middle, panel.to)])
                .collect();
            panels.extend(self.panels(&halves)?);
        }
        let tokens = panels.first().map_or(0, |panel| panel.values.len());
        // In the order of the path, so that the sum does not depend on the order of bisections.
        panels.sort_by(|a, b| a.from.alpha.total_cmp(&b.from.alpha));
        let mut values = vec![0.0; tokens];
        for panel in &panels {
            values.iter_mut().zip(&panel.values).for_each(|(sum, value)| *sum += value);
        }
        Ok(Integral { values, start: ends[0].f, end: ends[FIRST_PANELS].f })
    }

    fn places(&mut self, alphas: &[f64]) -> Result<Vec<Place>, AttributionError> {
        let points = self.at(alphas)?;
        Ok(alphas.iter().zip(points).map(|(alpha, point)| Place { alpha: *alpha, f: point.f }).collect())
    }

    fn panels(&mut self, between: &[(Place, Place)]) -> Result<Vec<Panel>, AttributionError> {
        let quadrature = gauss_legendre(NODES);
        let mut alphas = Vec::with_capacity(between.len() * NODES);
        for (from, to) in between {
            alphas.extend(quadrature.iter().map(|(node, _)| from.alpha + node * (to.alpha - from.alpha)));
        }
        let points = self.at(&alphas)?;
        let panels = between.iter().zip(points.chunks(NODES)).map(|((from, to), nodes)| Panel {
            from: *from,
            to: *to,
            values: weighted(nodes, &quadrature, to.alpha - from.alpha),
        });
        Ok(panels.collect())
    }
}

/// Σ weight · integrand, for a part of the path of this width.
fn weighted(nodes: &[Point], quadrature: &[(f64, f64)], width: f64) -> Vec<f64> {
    let mut sum = vec![0.0; nodes.first().map_or(0, |point| point.integrand.len())];
    for (point, (_, weight)) in nodes.iter().zip(quadrature) {
        sum.iter_mut().zip(&point.integrand).for_each(|(sum, value)| *sum += width * weight * value);
    }
    sum
}

/// Nodes and weights of Gauss-Legendre quadrature on 0..1, by Newton's method on the Legendre polynomial.
fn gauss_legendre(count: usize) -> Vec<(f64, f64)> {
    let n = count as f64;
    let node = |index: usize| {
        let mut x = (std::f64::consts::PI * (index as f64 + 0.75) / (n + 0.5)).cos();
        let mut slope = 1.0;
        for _ in 0..100 {
            let (mut before, mut value) = (1.0, x);
            for k in 2..=count {
                let k = k as f64;
                (before, value) = (value, ((2.0 * k - 1.0) * x * value - (k - 1.0) * before) / k);
            }
            slope = n * (x * value - before) / (x * x - 1.0);
            let step = value / slope;
            x -= step;
            if step.abs() < 1e-15 {
                break;
            }
        }
        ((1.0 + x) / 2.0, 1.0 / ((1.0 - x * x) * slope * slope))
    };
    let mut nodes: Vec<(f64, f64)> = (0..count).map(node).collect();
    nodes.reverse();
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Integrates f along the path for a model with a single token.
    fn integrate(steps: Steps, f: impl Fn(f64) -> f64, slope: impl Fn(f64) -> f64) -> (Integral, usize) {
        let mut evaluate = |alphas: &[f64]| {
            Ok(alphas.iter().map(|alpha| Point { f: f(*alpha), integrand: vec![slope(*alpha)] }).collect())
        };
        let mut path = Path { evaluate: &mut evaluate, rows: 16, evaluations: 0, progress: &mut |_| {} };
        let integral = match steps {
            Steps::Auto => path.adaptive(),
            Steps::Fixed(steps) => path.fixed(steps),
        };
        (integral.unwrap(), path.evaluations)
    }

    #[test]
    fn quadrature_is_exact_for_polynomials() {
        for count in [1, 2, 3, 4, 7, 50, 200] {
            let quadrature = gauss_legendre(count);
            for degree in [0, 1, count, 2 * count - 1] {
                let sum: f64 = quadrature.iter().map(|(x, w)| w * x.powi(degree as i32)).sum();
                assert!(
                    (sum - 1.0 / (degree as f64 + 1.0)).abs() < 1e-13,
                    "{count} nodes, degree {degree}: {sum}"
                );
            }
            assert!(quadrature.is_sorted_by(|a, b| a.0 < b.0));
        }
    }

    #[test]
    fn a_smooth_path_needs_few_evaluations() {
        let (integral, evaluations) = integrate(Steps::Auto, |a| a * a, |a| 2.0 * a);
        assert!(integral.gap() < 1e-12);
        assert_eq!(evaluations, FIRST_PANELS * (NODES + 1) + 1);
    }

    #[test]
    fn a_step_is_found_by_bisection_where_a_fixed_number_of_steps_fails() {
        let sigmoid = |a: f64| 1.0 / (1.0 + (-(a - 0.437) * 900.0).exp());
        let slope = |a: f64| 900.0 * sigmoid(a) * (1.0 - sigmoid(a));
        let (fixed, evaluations) = integrate(Steps::Fixed(50), sigmoid, slope);
        assert!(fixed.gap() > 0.1, "{}", fixed.gap());
        assert_eq!(evaluations, 52);
        let (adaptive, evaluations) = integrate(Steps::Auto, sigmoid, slope);
        assert!(adaptive.gap() <= tolerance(1.0), "{}", adaptive.gap());
        assert!(evaluations <= MOST_EVALUATIONS);
    }

    #[test]
    fn a_path_that_does_not_converge_ends_and_says_so() {
        // The integrand says nothing of the jump.
        let (integral, evaluations) = integrate(Steps::Auto, |a| f64::from(u8::from(a > 0.3)), |_| 0.0);
        assert!((integral.gap() - 1.0).abs() < 1e-12);
        assert!(evaluations <= MOST_EVALUATIONS, "{evaluations}");
    }

    #[test]
    fn a_gap_that_is_no_number_is_an_error() {
        for bad in [f64::NAN, f64::INFINITY] {
            let (integral, _) = integrate(Steps::Auto, |a| a, |a| if a > 0.9 { bad } else { 1.0 });
            assert!(integral.finite_gap().unwrap_err().contains("finite"));
        }
        assert!(integrate(Steps::Auto, |a| a, |_| 1.0).0.finite_gap().unwrap() < 1e-12);
    }

    #[test]
    fn the_baseline_keeps_what_the_references_padding_keeps() {
        let window = Window { ids: vec![0, 7, 8, 9, 2], code: 0..3, first_code: 1 };
        let special = SpecialTokens { pad: Some(1), mask: None };
        assert_eq!(baseline(&window, special, 512).unwrap(), [0, 1, 1, 1, 1]);
        assert_eq!(baseline(&window, special, 5).unwrap(), [0, 1, 1, 1, 2]);
        assert!(baseline(&window, SpecialTokens::default(), 5).is_err());
    }
}
