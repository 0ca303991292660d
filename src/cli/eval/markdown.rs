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

fn of_table(table: &Table) -> String {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    // Within a table a number and a dot begin no list.
    let cell = |text: &str| escape::markdown(text).replace("\\.", ".");
    let mut text = row(table.head.iter().map(|text| cell(text)).collect());
    text.push_str(&row(vec!["---".to_string(); table.head.len()]));
    for cells in &table.rows {
        text.push_str(&row(cells.iter().map(|text| cell(text)).collect()));
    }
    text.push('\n');
    text
}
