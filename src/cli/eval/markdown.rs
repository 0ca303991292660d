//! Reports as Markdown.

use super::tables::{Piece, Section, Table};
use crate::escape;

pub(super) fn render(sections: &[Section]) -> String {
    let mut text = String::new();
    for section in sections {
        text.push_str(&format!("{} {}\n\n", "#".repeat(section.level), escape::markdown(&section.heading)));
        for piece in &section.parts {
            match piece {
                Piece::Text(paragraph) => text.push_str(&format!("{}\n\n", escape::markdown(paragraph))),
                Piece::Table(table) => text.push_str(&of_table(table)),
                Piece::Plot(..) => {}
            }
        }
    }
    text
}

/// Within a table a number and a dot begin no list.
fn cell(text: &str) -> String {
    let escaped = escape::markdown(text);
    match escaped.split_once("\\.") {
        Some((number, rest)) if number.trim().bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{number}.{rest}")
        }
        _ => escaped,
    }
}

fn of_table(table: &Table) -> String {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = row(table.head.iter().map(|text| cell(text)).collect());
    text.push_str(&row(vec!["---".to_string(); table.head.len()]));
    for cells in &table.rows {
        text.push_str(&row(cells.iter().map(|text| cell(text)).collect()));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_cells_are_plain_and_all_else_stays_escaped() {
        assert_eq!(cell("0.25"), "0.25");
        assert_eq!(cell("a\\.b"), "a\\\\.b");
        assert_eq!(cell("www.evil.com me@evil.com"), "www&#46;evil.com me&#64;&#8288;evil.com");
    }
}
