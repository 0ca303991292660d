//! Findings as one HTML page: the source, shaded by relevance, readable in light and dark schemes. Styles are inside, scripts
//! there are none, and nothing is fetched.

use super::{FileReport, Reported};
use crate::analysis::Finding;
use crate::detector::DetectorInfo;
use crate::escape::html;
use crate::lines::heat;
use std::fmt::Write;

const STYLE: &str = "
:root { color-scheme: light dark; --text: #1b1b1b; --page: #ffffff; --rule: #c8c8c8; --soft: #5a5a5a; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e6e6; --page: #16181c; --rule: #4a4f57; --soft: #a8adb5; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); margin: 2rem auto; padding: 0 1rem; max-width: 90rem; }
h2, h3 { overflow-wrap: anywhere; }
.note, .n, .s { color: var(--soft); }
.wide { overflow-x: auto; border: 1px solid var(--rule); margin: .5rem 0 2rem; }
table { border-collapse: collapse; font: 13px/1.4 ui-monospace, monospace; width: 100%; }
td { padding: 0 .5rem; white-space: pre; }
.n, .s { text-align: right; user-select: none; width: 1%; }
.t { width: 1%; font-weight: bold; }
.u td:last-child { opacity: .6; background: repeating-linear-gradient(45deg, transparent 0 6px, var(--rule) 6px 7px); }
";

/// The page. `title` says what it is about.
pub fn page(title: &str, model: &DetectorInfo, files: &[FileReport<'_>]) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{0}</title>\n<style>{STYLE}{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
        html(title),
        scale()
    );
    let _ = writeln!(
        page,
        "<p class=\"note\">linelens {} · model {} ({}) on {}</p>",
        env!("CARGO_PKG_VERSION"),
        html(&model.name),
        html(model.sha256.get(..12).unwrap_or(&model.sha256)),
        html(&model.execution_provider)
    );
    page.push_str(
        "<p class=\"note\">The darker or brighter the shade and the longer the bar, the more relevant the line was for the \
         prediction, from 0 to 1 within its function: some line of every function scores 1. ● marks ground truth, ~ ground \
         truth that may have changed since it was labelled, a minus a line that spoke against the verdict, ? one that the model \
         did not see.</p>\n",
    );
    let count = files.iter().map(|file| file.findings.len()).sum::<usize>();
    if count == 0 {
        page.push_str("<p>No function was flagged.</p>\n");
    }
    for file in files.iter().filter(|file| !file.findings.is_empty()) {
        let _ = writeln!(page, "<h2>{}</h2>", html(file.uri));
        for reported in file.findings {
            function(&mut page, file, reported);
        }
    }
    page.push_str("</body>\n</html>\n");
    page
}

/// The classes `h1` to `h8`, for either scheme.
fn scale() -> String {
    let rules = |light: bool| -> String {
        let rule = |step| {
            let (on, behind) = heat::colours(light, step);
            let hex = |(r, g, b): heat::Rgb| format!("#{r:02x}{g:02x}{b:02x}");
            format!(".h{step} {{ color: {}; background: {}; }}\n", hex(on), hex(behind))
        };
        (1..=heat::STEPS).map(rule).collect()
    };
    format!("{}@media (prefers-color-scheme: dark) {{\n{}}}\n", rules(true), rules(false))
}

fn function(page: &mut String, file: &FileReport<'_>, reported: &Reported<'_>) {
    let finding = reported.finding;
    let (sign, verdict) = if finding.flagged { (">", "flagged") } else { ("≤", "not flagged") };
    let name = &finding.function.name;
    let _ = writeln!(page, "<h3>{}, line {}</h3>", html(name), finding.start_line + 1);
    let mut said = format!(
        "{verdict}: P(vulnerable) {} {sign} {} · {} · profile {}",
        finding.shown_probability(),
        finding.threshold,
        finding.method,
        finding.profile
    );
    if let Some(alignment) = finding.shown_alignment() {
        said.push_str(&format!(" · {alignment}"));
    }
    if finding.windows > 1 {
        said.push_str(&format!(" · read in {} overlapping windows", finding.windows));
    }
    if finding.truncated {
        said.push_str(" · the model saw only its beginning");
    }
    if let Some(completeness) = finding.completeness {
        let converged = if completeness.reached { "" } else { ", not converged" };
        said.push_str(&format!(" · {completeness}{converged}"));
    }
    let _ = writeln!(page, "<p>{}</p>", html(&said));
    if let Some(agreement) = &finding.agreement {
        let _ = writeln!(page, "<p>Ground truth: {}</p>", html(&agreement.truth.describe()));
    }
    if let Some(ignore) = reported.ignored {
        let by = ignore.annotator.as_ref().map(|name| format!(" by {name}")).unwrap_or_default();
        let _ = writeln!(page, "<p>Ignored{}: {}</p>", html(&by), html(&ignore.reason));
    }
    page.push_str("<div class=\"wide\"><table>\n");
    for line in finding.start_line..=finding.end_line {
        row(page, file, finding, line);
    }
    page.push_str("</table></div>\n");
}

fn row(page: &mut String, file: &FileReport<'_>, finding: &Finding, line: usize) {
    let text = file.version.lines.line_span(line).of(file.version.text).unwrap_or_default();
    let text = html(&text.replace('\t', "    "));
    let truth = match (finding.is_true(line), finding.is_approximate(line)) {
        (true, true) => {
            "<abbr title=\"ground truth; the line may have changed since it was labelled\">~</abbr>"
        }
        (true, false) => "<abbr title=\"ground truth\">●</abbr>",
        (false, _) => "",
    };
    let unseen = finding.unseen_lines.contains(&line);
    let (class, score) = match finding.lines.iter().find(|score| score.line == line) {
        Some(score) => {
            let step = heat::step(score.score);
            let sign = if score.raw < 0.0 { "-" } else { " " };
            let class = if step > 0 { format!(" class=\"h{step}\"") } else { String::new() };
            (class, format!("{:.2}{sign}{}", score.score, heat::bar(score.score)))
        }
        None if unseen => (String::new(), "?".to_string()),
        None => (String::new(), String::new()),
    };
    let row = if unseen { "<tr class=\"u\">" } else { "<tr>" };
    let _ = writeln!(
        page,
        "{row}<td class=\"n\">{}</td><td class=\"s\">{score}</td><td class=\"t\">{truth}</td><td{class}>{text}</td></tr>",
        line + 1
    );
}
