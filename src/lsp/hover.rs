//! What a hover says, as text.

use crate::analysis::{Finding, comparison};
use crate::annotations::ignores::Ignore;
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

    /// Cells of our own making.
    fn table(self, table: &[Vec<String>]) -> String {
        if !self.markdown {
            return comparison::aligned(table).join("\n");
        }
        let mut lines: Vec<String> = table.iter().map(|row| format!("| {} |", row.join(" | "))).collect();
        let columns = table.first().map_or(0, Vec::len);
        lines.insert(1.min(lines.len()), format!("|{}", " --- |".repeat(columns)));
        lines.join("\n")
    }

    fn paragraphs(self, lines: Vec<String>) -> String {
        lines.join(if self.markdown { "  \n" } else { "\n" })
    }
}

/// On a function's name; `others` are the findings of other methods for it.
pub(crate) fn function(
    finding: &Finding,
    others: &[Finding],
    ignored: Option<&Ignore>,
    model: &Model,
    top: usize,
    style: Style,
) -> String {
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
    lines.extend(
        [&info.tokenizer_note, &info.provider_note].into_iter().flatten().map(|note| style.text(note)),
    );
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
    lines.extend(ignored.map(|ignore| {
        let by = ignore.annotator.as_ref().map(|name| format!(" by {name}")).unwrap_or_default();
        style.text(&format!("ignored{by}: {}", ignore.reason))
    }));
    lines.extend(ground_truth(finding).iter().map(|line| style.text(line)));
    let mut text = style.paragraphs(lines);
    if finding.agreement.is_some() || !others.is_empty() {
        let findings: Vec<&Finding> = std::iter::once(finding).chain(others).collect();
        text.push_str(&format!("\n\n{}", style.table(&table(&findings))));
    }
    text
}

/// The methods side by side; with several of them how alike their ranks are, too.
fn table(findings: &[&Finding]) -> Vec<Vec<String>> {
    match findings {
        [_] => comparison::summary(findings),
        several => {
            comparison::compare(several.iter().map(|finding| (*finding).clone()).collect(), Vec::new())
                .table()
        }
    }
}

/// What people say of the function.
fn ground_truth(finding: &Finding) -> Vec<String> {
    let Some(agreement) = &finding.agreement else { return Vec::new() };
    let mut lines = vec![format!("ground truth: {}", agreement.truth.describe())];
    lines.extend(agreement.truth.notes.iter().map(|note| format!("note: {note}")));
    match &agreement.alignment.da {
        Err(_) => lines.extend(agreement.undefined().map(|reason| format!("DA is undefined: {reason}"))),
        Ok(_) => lines.extend(finding.would_be().map(|would_be| {
            format!("DA is 0, since the function is not flagged; it would be {would_be:.2}")
        })),
    }
    if finding.counted() != "lines" {
        lines.push(format!("DA counts {}", finding.counted()));
    }
    if agreement.alignment.outside_window > 0 {
        let outside = agreement.alignment.outside_window;
        lines.push(format!("{outside} of the ground-truth {} could not be scored", finding.counted()));
    }
    if agreement.per_annotator.len() > 1 {
        let each = agreement.truth.annotators.iter().zip(&agreement.per_annotator).map(|(annotator, da)| {
            let da = da.map_or_else(|| "undefined".to_string(), |da| format!("{da:.2}"));
            format!("{} {da}", annotator.name)
        });
        lines.push(format!("DA by annotator: {}", each.collect::<Vec<_>>().join(", ")));
    }
    lines
}

/// On a line of a function; `None` where the line holds no code.
pub(crate) fn line(finding: &Finding, line: usize, style: Style) -> Option<String> {
    let first = match finding.lines.iter().find(|score| score.line == line) {
        Some(score) => relevance(finding, score),
        None if finding.unseen_lines.contains(&line) => {
            format!("line {} was not seen by the model: the function is too long for it", line + 1)
        }
        None if finding.is_true(line) => format!("line {} holds no code that was scored", line + 1),
        None => return None,
    };
    let verdict = if finding.flagged { "flagged" } else { "not flagged" };
    let mut lines = vec![format!("{}: {first}", style.strong("linelens"))];
    lines.extend(line_truth(finding, line).map(|line| style.text(&line)));
    lines.extend([
        method_and_profile(finding),
        format!("{} {verdict}, p {:.3}", style.text(&finding.function.name), finding.probability),
    ]);
    Some(style.paragraphs(lines))
}

/// Who says that a line is wrong, and whether that makes it ground truth.
fn line_truth(finding: &Finding, line: usize) -> Option<String> {
    let truth = &finding.agreement.as_ref()?.truth;
    let annotators = truth.annotators.iter().filter(|annotator| annotator.lines.contains(&line));
    let names: Vec<&str> = annotators.map(|annotator| annotator.name.as_str()).collect();
    match (finding.is_true(line), names.as_slice()) {
        (true, names) => {
            let changed = match finding.is_approximate(line) {
                true => " (~: the line may have changed since it was labelled)",
                false => "",
            };
            Some(format!("ground truth: a flaw by {}{changed}", names.join(", ")))
        }
        (false, []) => None,
        (false, names) => Some(format!(
            "marked by {}, which by the policy {} makes no ground truth",
            names.join(", "),
            truth.policy
        )),
    }
}

fn relevance(finding: &Finding, score: &LineScore) -> String {
    let tied = finding.lines.iter().filter(|other| other.score == score.score).count() - 1;
    let tie = match tied {
        // Of a statement all lines are equal.
        _ if finding.statements.is_some() => String::new(),
        0 => String::new(),
        1 => " (a tie with another line)".to_string(),
        several => format!(" (a tie with {several} others)"),
    };
    format!(
        "line {} is number {} of {}{tie}, relevance {:.2} (raw {:.4}), seen",
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
        let unseen = match finding.unseen_lines.len() {
            1 => "1 line was".to_string(),
            several => format!("{several} lines were"),
        };
        extent.push_str(&format!(", truncated: {unseen} not seen"));
    }
    if let Some(completeness) = finding.completeness {
        let converged = if completeness.reached { "" } else { " (not converged)" };
        extent.push_str(&format!(", {completeness}{converged}"));
    }
    extent
}

pub(crate) fn loading(style: Style) -> String {
    format!("{}: the model is being loaded", style.strong("linelens"))
}

pub(crate) fn unread(style: Style) -> String {
    format!("{}: this text is large and still being read", style.strong("linelens"))
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
