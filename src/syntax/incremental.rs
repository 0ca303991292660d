//! The definitions after an edit, from those before it.

use super::lex::{Lexeme, Lexer, TokenKind};
use super::{Edit, Language, Part, Placed, scan};
use crate::text::ByteSpan;
use std::sync::{Arc, OnceLock};

/// Where the edit lies in one body and leaves all that the scan looks at in a body: its braces and its directives, in
/// their order, and which braces stand as the body's last one does. Then a scan would find what it found before.
pub(super) fn within_body(definitions: &[Placed], old: &str, new: &str, edit: Edit) -> Option<Arc<[Placed]>> {
    let index =
        definitions.partition_point(|placed| placed.function.span.start <= edit.start).checked_sub(1)?;
    let edited = definitions.get(index)?;
    let span = edited.function.span;
    let old_body = ByteSpan::new(span.start + edited.part.body_start, span.end);
    let is_inside = old_body.start < edit.start && edit.old_end < old_body.end;
    // What stands between a body and its handlers is read as a header.
    if !is_inside || edited.part.has_handlers {
        return None;
    }
    let new_body = ByteSpan::new(old_body.start, edit.moved(old_body.end));
    let indentation = scan::indentation(old, span.start);
    let before: Vec<Mark<'_>> = shape(old, old_body, indentation).collect();
    // One that ends with the text, not with a brace, ends elsewhere when a token is added.
    let is_closed = matches!(before.last(), Some(Mark::Brace { opens: false, is_last: true, .. }));
    if !is_closed || !before.into_iter().eq(shape(new, new_body, indentation)) {
        return None;
    }
    let moved = definitions.iter().enumerate().map(|(at, placed)| {
        let mut placed = placed.clone();
        if at == index {
            placed.function.span.end = edit.moved(span.end);
            placed.part = Arc::new(Part {
                body_start: placed.part.body_start,
                class: placed.part.class.clone(),
                has_handlers: placed.part.has_handlers,
                inside: OnceLock::new(),
            });
        } else if at > index {
            for span in [&mut placed.function.span, &mut placed.function.name_span] {
                *span = ByteSpan::new(edit.moved(span.start), edit.moved(span.end));
            }
        }
        placed
    });
    Some(moved.collect())
}

/// The definitions of a fresh scan; what is known about the text of those outside the edit is kept.
pub(super) fn scanned_again(
    definitions: &[Placed],
    new: &str,
    edit: Edit,
    language: Language,
) -> Arc<[Placed]> {
    let scanned = scan::definitions(new, language).into_iter().map(Placed::new);
    let known = scanned.map(|mut placed| {
        let span = placed.function.span;
        let old_start = match () {
            () if span.end <= edit.start => span.start,
            () if span.start >= edit.new_end => span.start - edit.new_end + edit.old_end,
            () => return placed,
        };
        let at = definitions.partition_point(|old| old.function.span.start < old_start);
        let same = definitions.get(at).filter(|old| {
            old.function.span.start == old_start
                && old.function.span.len() == span.len()
                && old.part.body_start == placed.part.body_start
                && old.part.class == placed.part.class
        });
        if let Some(same) = same {
            placed.part = Arc::clone(&same.part);
        }
        placed
    });
    known.collect()
}

impl Edit {
    /// Where an offset behind the replaced text lies in the new text.
    fn moved(self, offset: usize) -> usize {
        offset - self.old_end + self.new_end
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Mark<'a> {
    Brace {
        opens: bool,
        /// Whether it stands as far to the right as the definition does.
        is_at_margin: bool,
        /// Whether the body ends with it.
        is_last: bool,
    },
    Directive(&'a str),
}

fn shape<'a>(text: &'a str, body: ByteSpan, margin: Option<&'a str>) -> impl Iterator<Item = Mark<'a>> {
    Lexer::within(text, body).filter_map(move |lexeme| match lexeme {
        Lexeme::Token(token) => {
            let opens = match token.kind {
                TokenKind::Punctuation(b'{') => true,
                TokenKind::Punctuation(b'}') => false,
                _ => return None,
            };
            let is_at_margin = margin.is_some() && margin == scan::indentation(text, token.start);
            Some(Mark::Brace { opens, is_at_margin, is_last: token.end == body.end })
        }
        Lexeme::Directive { start, end } => text.get(start..end).map(Mark::Directive),
    })
}
