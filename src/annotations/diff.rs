//! Which lines of a vulnerable function its fix deleted or replaced.

use super::FunctionLines;
use super::function::without_whitespace;
use super::problem::RowProblem;
use similar::{Algorithm, DiffOp};

/// More lines than this between the first and the last change are not compared: time grows with their product.
const MOST_LINES: usize = 20_000;

/// The 0-based lines of `before` that `after` deletes or replaces. Blank lines and lines of nothing but braces or comments
/// are left out: they are not where a flaw is.
pub fn flaw_lines(before: &FunctionLines<'_>, after: &FunctionLines<'_>) -> Result<Vec<usize>, RowProblem> {
    let deleted = deleted(before, after).ok_or(RowProblem::TooManyLines)?;
    let has_code = lines_with_code(before);
    Ok(deleted.into_iter().filter(|line| has_code[*line]).collect())
}

/// The 0-based lines of `before` that are not in `after`, by a minimal line diff (Myers) that looks at everything but
/// whitespace: a line that was only indented is not changed. `None` if there is too much to compare.
fn deleted(before: &FunctionLines<'_>, after: &FunctionLines<'_>) -> Option<Vec<usize>> {
    let old: Vec<String> = before.iter().map(without_whitespace).collect();
    let new: Vec<String> = after.iter().map(without_whitespace).collect();
    let prefix = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[prefix..], &new[prefix..]);
    let suffix = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let old_rest = &old_rest[..old_rest.len() - suffix];
    let new_rest = &new_rest[..new_rest.len() - suffix];
    if old_rest.len() + new_rest.len() > MOST_LINES {
        return None;
    }
    let operations = similar::capture_diff_slices(Algorithm::Myers, old_rest, new_rest);
    let lines = operations.iter().flat_map(|operation| match *operation {
        DiffOp::Delete { old_index, old_len, .. } | DiffOp::Replace { old_index, old_len, .. } => {
            prefix + old_index..prefix + old_index + old_len
        }
        DiffOp::Equal { .. } | DiffOp::Insert { .. } => 0..0,
    });
    Some(lines.collect())
}

/// Per line: whether it holds anything but whitespace, braces, semicolons and comments.
fn lines_with_code(function: &FunctionLines<'_>) -> Vec<bool> {
    #[derive(Clone, Copy, PartialEq)]
    enum In {
        Code,
        Quotes(char),
        LineComment,
        BlockComment,
    }
    let mut state = In::Code;
    let mut found = vec![false; function.count()];
    for (line, text) in function.iter().enumerate() {
        if state == In::LineComment || matches!(state, In::Quotes(_)) {
            // Only a backslash at its end would carry either of them to this line.
            let carried = line > 0 && function.line(line - 1).ends_with('\\');
            state = if carried { state } else { In::Code };
        }
        let mut characters = text.chars().peekable();
        while let Some(c) = characters.next() {
            let next = characters.peek().copied();
            match state {
                In::LineComment => {}
                In::BlockComment if c == '*' && next == Some('/') => {
                    characters.next();
                    state = In::Code;
                }
                In::BlockComment => {}
                In::Quotes(quote) => {
                    found[line] = true;
                    if c == '\\' {
                        characters.next();
                    } else if c == quote {
                        state = In::Code;
                    }
                }
                In::Code if c == '/' && next == Some('/') => state = In::LineComment,
                In::Code if c == '/' && next == Some('*') => {
                    characters.next();
                    state = In::BlockComment;
                }
                In::Code => {
                    found[line] |= !c.is_whitespace() && !matches!(c, '{' | '}' | ';');
                    if c == '"' || c == '\'' {
                        state = In::Quotes(c);
                    }
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flaws(before: &str, after: &str) -> Vec<usize> {
        flaw_lines(&FunctionLines::new(before), &FunctionLines::new(after)).unwrap()
    }

    #[test]
    fn deleted_and_replaced_lines_are_flaws_and_inserted_ones_are_not() {
        assert_eq!(flaws("f() {\n  a;\n  b;\n  c;\n}", "f() {\n  a;\n  B;\n}"), [2, 3]);
        assert!(flaws("f() {\n  a;\n}", "f() {\n  check;\n  a;\n}").is_empty());
        assert_eq!(flaws("f() {\r\n  a;\r\n  b;\r\n}", "f() {\n  a;\n}"), [2], "line ends do not count");
        assert!(
            flaws("f() {\n  a ( b );\n}", "f() {\n    if (c)\n        a(b);\n}").is_empty(),
            "nor do blanks"
        );
    }

    #[test]
    fn blank_lines_braces_and_comments_are_no_flaws() {
        let before =
            "f() {\n\n{\n};\n// c\n/* c\n  d\n*/ x;\n  y; // c\n\"//\";\n  /* a */ /* b */\n  '\"'; // \"\n}";
        assert_eq!(flaws(before, "f() {\n}"), [7, 8, 9, 11]);
    }

    #[test]
    fn a_comment_ends_with_its_line_unless_a_backslash_says_otherwise() {
        assert_eq!(flaws("a\n// c \\\nd\ne", ""), [0, 3]);
        assert_eq!(flaws("a\n\" \nd\ne", ""), [0, 1, 2, 3], "a string that is not closed ends with its line");
    }

    #[test]
    fn what_is_too_long_to_compare_says_so() {
        let many = |prefix: &str| (0..MOST_LINES).map(|n| format!("{prefix}{n}\n")).collect::<String>();
        let (old, new) = (many("a"), many("b"));
        let compared = flaw_lines(&FunctionLines::new(&old), &FunctionLines::new(&new));
        assert_eq!(compared, Err(RowProblem::TooManyLines));
        let changed = old.replace("a7\n", "b7\n");
        assert_eq!(flaws(&old, &changed), [7], "equal beginnings and ends cost nothing");
    }
}
