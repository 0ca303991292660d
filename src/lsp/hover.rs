//! What a hover says, as text.

use crate::analysis::Finding;
use crate::escape;
use crate::explain::Method;
use crate::lines::LineScore;
use crate::lsp::shared::Model;

/// Text for one kind of display.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Style {
    pub(crate) markdown: bool,
}

impl Style {
    fn strong(self, text: &str) -> String {
        let text = self.text(text);
        if self.markdown { format!("**{text}**") } else { text }
    }

    /// Untrusted text.
    fn text(self, text: &str) -> String {
        if self.markdown { escape::markdown(text) } else { escape::terminal(text) }
    }

    fn paragraphs(self, lines: Vec<String>) -> String {
        lines.join(if self.markdown { "  \n" } else { "\n" })
    }
}

/// On a function's name.
pub(crate) fn function(finding: &Finding, model: &Model, top: usize, style: Style) -> String {
    let verdict = if finding.flagged { "flagged" } else { "not flagged" };
    let info = &model.info;
    let mut lines = vec![
        format!(
            "{}: {} {verdict}, p {} (threshold {})",
            style.strong("linelens"),
            style.text(&finding.function.name),
            finding.shown_probability(),
            finding.threshold
        ),
        format!("model {} on {}", style.text(&info.name), style.text(&info.execution_provider)),
    ];
    lines.extend(info.provider_note.as_ref().map(|note| style.text(note)));
    lines.push(format!("{}{}", method_and_profile(finding), extent(finding)));
    let best = finding.top_lines(top);
    if !best.is_empty() {
        let best: Vec<String> =
            best.iter().map(|line| format!("{} ({:.2})", line.line + 1, line.score)).collect();
        lines.push(format!("most relevant lines: {}", best.join(", ")));
    }
    if finding.function.parse_errors {
        lines.push("the parser had to guess inside this function".to_string());
    }
    let methods: Vec<String> = model.methods.iter().map(Method::to_string).collect();
    lines.push(format!("methods: {}", methods.join(", ")));
    style.paragraphs(lines)
}

/// On a line of a function; `None` where the line holds no code.
pub(crate) fn line(finding: &Finding, line: usize, style: Style) -> Option<String> {
    let first = match finding.lines.iter().find(|score| score.line == line) {
        Some(score) => relevance(finding, score),
        None if finding.unseen_lines.contains(&line) => {
            format!("line {} was not seen by the model: the function is too long for it", line + 1)
        }
        None => return None,
    };
    let verdict = if finding.flagged { "flagged" } else { "not flagged" };
    Some(style.paragraphs(vec![
        format!("{}: {first}", style.strong("linelens")),
        method_and_profile(finding),
        format!("{} {verdict}, p {:.3}", style.text(&finding.function.name), finding.probability),
    ]))
}

fn relevance(finding: &Finding, score: &LineScore) -> String {
    format!(
        "line {} is number {} of {}, relevance {:.2} (raw {:.4}), seen",
        score.line + 1,
        score.rank,
        finding.lines.len(),
        score.score,
        score.raw
    )
}

fn method_and_profile(finding: &Finding) -> String {
    format!("method {}, profile {}", finding.method, finding.profile)
}

fn extent(finding: &Finding) -> String {
    let mut extent = match finding.windows {
        1 => String::new(),
        windows => format!(", {windows} windows"),
    };
    if finding.truncated {
        extent.push_str(&format!(", truncated: {} lines were not seen", finding.unseen_lines.len()));
    }
    if let Some(completeness) = finding.completeness {
        let converged = if completeness.reached { "" } else { " (not converged)" };
        extent.push_str(&format!(", completeness gap {:.4}{converged}", completeness.gap));
    }
    extent
}

pub(crate) fn loading(style: Style) -> String {
    format!("{}: the model is being loaded", style.strong("linelens"))
}

pub(crate) fn pending(name: &str, style: Style) -> String {
    format!("{}: {} is being analysed", style.strong("linelens"), style.text(name))
}

pub(crate) fn failed(name: &str, reason: &str, style: Style) -> String {
    format!(
        "{}: {} could not be analysed: {}",
        style.strong("linelens"),
        style.text(name),
        style.text(reason)
    )
}

pub(crate) fn no_model(reason: &str, style: Style) -> String {
    let reason: Vec<String> = reason.lines().map(|line| style.text(line)).collect();
    style.paragraphs(
        std::iter::once(format!("{}: there is no model to ask", style.strong("linelens")))
            .chain(reason)
            .collect(),
    )
}
