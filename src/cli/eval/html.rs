//! Reports as one HTML page that needs nothing else: styles and pictures are inside, scripts there are none.

use super::tables::{Piece, Section, Table};
use crate::escape;

const STYLE: &str = "
:root { color-scheme: light dark; --text: #1b1b1b; --page: #ffffff; --rule: #c8c8c8; --soft: #f2f4f7; --ink: #0b5cad; --second: #b84e00; --third: #2f7d4f; --fourth: #7a3e9d; --mark: #1b1b1b; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e6e6; --page: #16181c; --rule: #4a4f57; --soft: #22262c; --ink: #7db8ff; --second: #ffb37a; --third: #8fd6a8; --fourth: #d3a6f0; --mark: #e6e6e6; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); margin: 2rem auto; padding: 0 1rem; max-width: 90rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--rule); padding: .25rem .6rem; text-align: left; white-space: nowrap; }
th { background: var(--soft); white-space: normal; vertical-align: bottom; }
td { max-width: 40rem; overflow-wrap: anywhere; }
figure { display: inline-block; margin: 1rem 1rem 1rem 0; vertical-align: top; }
figcaption { font-size: 13px; max-width: 40rem; }
svg { max-width: 100%; height: auto; }
svg text { fill: var(--text); font: 12px system-ui, sans-serif; }
";

pub(super) fn render(sections: &[Section]) -> String {
    let title = sections.first().map_or("linelens eval", |section| section.heading.as_str());
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n",
        escape::html(title)
    );
    for section in sections {
        let level = section.level;
        page.push_str(&format!("<h{level}>{}</h{level}>\n", escape::html(&section.heading)));
        for piece in &section.parts {
            match piece {
                Piece::Text(paragraph) => page.push_str(&format!("<p>{}</p>\n", escape::html(paragraph))),
                Piece::Table(table) => page.push_str(&of_table(table)),
                Piece::Plot(svg, caption) => {
                    let caption = escape::html(caption);
                    page.push_str(&format!("<figure>\n{svg}<figcaption>{caption}</figcaption>\n</figure>\n"));
                }
            }
        }
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn of_table(table: &Table) -> String {
    let row = |tag: &str, cells: &mut dyn Iterator<Item = &str>| {
        let cells: String = cells.map(|cell| format!("<{tag}>{}</{tag}>", escape::html(cell))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let mut text = "<div class=\"wide\"><table>\n<thead>".to_string();
    text.push_str(&row("th", &mut table.head.iter().map(String::as_str)));
    text.push_str("</thead>\n<tbody>\n");
    for cells in &table.rows {
        text.push_str(&row("td", &mut cells.iter().map(String::as_str)));
    }
    text.push_str("</tbody>\n</table></div>\n");
    text
}
