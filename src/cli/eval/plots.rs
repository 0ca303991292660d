//! Pictures of the reports as SVG. Colours are the page's, so that they fit both colour schemes; lines also differ in their
//! dashes, so that none is known by its colour alone.

use crate::alignment::functions::Judged;
use crate::alignment::intervals::Interval;
use crate::escape;

/// A value with its interval, and values to compare it with.
#[derive(Debug)]
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) value: f64,
    pub(super) interval: Option<Interval>,
    /// Each is drawn as a tick, the later ones longer.
    pub(super) marks: Vec<f64>,
}

const COLOURS: [&str; 4] = ["var(--ink)", "var(--second)", "var(--third)", "var(--fourth)"];
const DASHES: [&str; 4] = ["none", "6 3", "2 3", "8 3 2 3"];
/// Points of a curve; more are not seen.
const POINTS: usize = 200;

/// Horizontal bars from 0.
pub(super) fn bars(bars: &[Bar]) -> String {
    let (left, width, height) = (230.0, 420.0, 26.0);
    let largest = bars
        .iter()
        .flat_map(|bar| bar.marks.iter().copied().chain([bar.value, bar.interval.map_or(0.0, |i| i.high)]))
        .fold(0.01, f64::max);
    let place = |value: f64| left + value / largest * width;
    let total = bars.len() as f64 * height + 30.0;
    let mut svg = open(left + width + 80.0, total, "Mean Detection Alignment by method");
    for (number, bar) in bars.iter().enumerate() {
        let top = number as f64 * height + 4.0;
        let middle = top + 8.0;
        svg.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"16\" fill=\"var(--ink)\" opacity=\"0.6\"/>\n",
            left - 8.0,
            top + 12.0,
            escape::html(&bar.label),
            place(bar.value) - left,
        ));
        if let Some(interval) = bar.interval {
            svg.push_str(&line(
                place(interval.low),
                middle,
                place(interval.high),
                middle,
                "var(--mark)",
                "none",
            ));
        }
        for (order, mark) in bar.marks.iter().enumerate() {
            let reach = 5.0 + 4.0 * order as f64;
            svg.push_str(&line(
                place(*mark),
                middle - reach,
                place(*mark),
                middle + reach,
                "var(--second)",
                "none",
            ));
        }
        svg.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\">{:.4}</text>\n",
            left + width + 8.0,
            top + 12.0,
            bar.value
        ));
    }
    svg.push_str(&format!(
        "<text x=\"{left:.1}\" y=\"{:.1}\">0</text>\n<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{largest:.3}</text>\n</svg>\n",
        total - 8.0,
        left + width,
        total - 8.0
    ));
    svg
}

/// True-positive rate over false-positive rate, with the diagonal.
pub(super) fn roc(models: &[(String, &[Judged])]) -> String {
    let curves = models.iter().map(|(name, judged)| {
        let (vulnerable, benign) = totals(judged);
        let points = cumulative(judged)
            .map(|(found, wrong)| (wrong / benign.max(1.0), found / vulnerable.max(1.0)))
            .collect();
        (name.as_str(), points)
    });
    square(curves.collect(), "ROC curve", Some(((0.0, 0.0), (1.0, 1.0))))
}

/// Precision over recall, with the share of vulnerable functions.
pub(super) fn precision_recall(models: &[(String, &[Judged])]) -> String {
    let curves = models.iter().map(|(name, judged)| {
        let (vulnerable, _) = totals(judged);
        let points = cumulative(judged)
            .filter(|(found, wrong)| found + wrong > 0.0)
            .map(|(found, wrong)| (found / vulnerable.max(1.0), found / (found + wrong)))
            .collect();
        (name.as_str(), points)
    });
    let base = models.first().map(|(_, judged)| {
        let (vulnerable, benign) = totals(judged);
        let share = vulnerable / (vulnerable + benign).max(1.0);
        ((0.0, share), (1.0, share))
    });
    square(curves.collect(), "Precision-recall curve", base)
}

fn totals(judged: &[Judged]) -> (f64, f64) {
    let vulnerable = judged.iter().filter(|function| function.vulnerable).count();
    (vulnerable as f64, (judged.len() - vulnerable) as f64)
}

/// Vulnerable and benign functions among the best ones, from none to all; equal probabilities are one step.
fn cumulative(judged: &[Judged]) -> impl Iterator<Item = (f64, f64)> {
    let mut sorted = judged.to_vec();
    sorted.sort_by(|a, b| b.probability.total_cmp(&a.probability));
    let mut points = vec![(0.0, 0.0)];
    let (mut found, mut wrong) = (0.0, 0.0);
    for tied in sorted.chunk_by(|a, b| a.probability == b.probability) {
        let (vulnerable, benign) = totals(tied);
        found += vulnerable;
        wrong += benign;
        points.push((found, wrong));
    }
    let step = points.len().div_ceil(POINTS).max(1);
    let last = points.len() - 1;
    points.into_iter().enumerate().filter(move |(n, _)| n % step == 0 || *n == last).map(|(_, point)| point)
}

type Point = (f64, f64);

fn square(curves: Vec<(&str, Vec<Point>)>, title: &str, base: Option<(Point, Point)>) -> String {
    let (size, margin) = (300.0, 34.0);
    let legend = 18.0 * curves.len() as f64;
    let x = |value: f64| margin + value * size;
    let y = |value: f64| 10.0 + (1.0 - value) * size;
    let mut svg = open(size + margin + 16.0, size + margin + legend, title);
    svg.push_str(&format!(
        "<rect x=\"{margin:.1}\" y=\"10\" width=\"{size:.1}\" height=\"{size:.1}\" fill=\"none\" stroke=\"var(--rule)\"/>\n"
    ));
    for (value, label) in [(0.0, "0"), (0.5, "0.5"), (1.0, "1")] {
        svg.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>\n<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>\n",
            x(value),
            y(0.0) + 16.0,
            margin - 5.0,
            y(value) + 4.0
        ));
    }
    if let Some((from, to)) = base {
        svg.push_str(&line(x(from.0), y(from.1), x(to.0), y(to.1), "var(--rule)", "4 4"));
    }
    for (number, (name, points)) in curves.iter().enumerate() {
        let (colour, dash) = (COLOURS[number % COLOURS.len()], DASHES[number % DASHES.len()]);
        let path: Vec<String> = points.iter().map(|(a, b)| format!("{:.1},{:.1}", x(*a), y(*b))).collect();
        svg.push_str(&format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>\n",
            path.join(" ")
        ));
        let at = size + margin + 10.0 + 18.0 * number as f64;
        svg.push_str(&line(margin, at - 4.0, margin + 30.0, at - 4.0, colour, dash));
        svg.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{at:.1}\">{}</text>\n",
            margin + 36.0,
            escape::html(name)
        ));
    }
    svg.push_str("</svg>\n");
    svg
}

fn open(width: f64, height: f64, title: &str) -> String {
    format!(
        "<svg role=\"img\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" xmlns=\"http://www.w3.org/2000/svg\">\n<title>{}</title>\n",
        escape::html(title)
    )
}

fn line(x1: f64, y1: f64, x2: f64, y2: f64, colour: &str, dash: &str) -> String {
    format!(
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>\n"
    )
}
