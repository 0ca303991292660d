//! The grammar's tree: parsing within limits, and the definitions in it.

use super::header::{Header, Signature, classify};
use super::lex::{Lexeme, Lexer};
use super::{Edit, Function, Language, in_order};
use crate::text::ByteSpan;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use tree_sitter::{InputEdit, Node, ParseOptions, ParseState, Parser, Point, Tree};

/// Longer texts are left to the scan: a tree takes tens of bytes of memory a byte of text.
const LONGEST_TEXT: usize = 2 << 20;
/// Longer texts with errors keep the tree that an edit left, fresh or not.
const LONGEST_REPARSED: usize = 1 << 20;
/// How often the parser may report progress on a text without bytes, and for how many bytes once more. Real code
/// takes a report for a hundred bytes or more; a count gives the same tree for the same text on any machine.
const REPORTS: usize = 1_000;
const BYTES_PER_REPORT: usize = 25;
/// Some hostile texts (`a::a::a::…`) make each step of error recovery slow, which no count shows.
const LONGEST_PARSE: Duration = Duration::from_secs(2);

pub(super) fn parse(text: &str, language: Language, old: Option<&Tree>) -> Option<Tree> {
    if text.len() > LONGEST_TEXT {
        return None;
    }
    let grammar = match language {
        Language::C => tree_sitter_c::LANGUAGE,
        Language::Cpp => tree_sitter_cpp::LANGUAGE,
    };
    let mut parser = Parser::new();
    parser.set_language(&grammar.into()).ok()?;
    let bytes = text.as_bytes();
    let mut reports_left = REPORTS + text.len() / BYTES_PER_REPORT;
    let started = Instant::now();
    let mut progress = |_: &ParseState| {
        reports_left = reports_left.saturating_sub(1);
        if reports_left == 0 || started.elapsed() > LONGEST_PARSE {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    parser.parse_with_options(&mut |offset, _| bytes.get(offset..).unwrap_or_default(), old, Some(options))
}

pub(super) fn edited(tree: &Tree, old: &str, new: &str, edit: Edit, language: Language) -> Option<Tree> {
    let mut tree = tree.clone();
    tree.edit(&InputEdit {
        start_byte: edit.start,
        old_end_byte: edit.old_end,
        new_end_byte: edit.new_end,
        start_position: point(old, edit.start),
        old_end_position: point(old, edit.old_end),
        new_end_position: point(new, edit.new_end),
    });
    let reparsed = parse(new, language, Some(&tree));
    match &reparsed {
        Some(tree) if !tree.root_node().has_error() || new.len() > LONGEST_REPARSED => reparsed,
        _ => parse(new, language, None),
    }
}

fn point(text: &str, offset: usize) -> Point {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    let row = before.iter().filter(|byte| **byte == b'\n').count();
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    Point { row, column: before.len() - line_start }
}

/// How many errors the grammar meets in a text, or in its first part if it is long.
pub(super) fn error_count(text: &str, language: Language) -> usize {
    let part = &text[..text.floor_char_boundary(LONGEST_REPARSED)];
    let Some(tree) = parse(part, language, None) else { return usize::MAX };
    let of_root = usize::from(tree.root_node().is_error());
    let walk = Walk::through(&tree, part);
    walk.errors.len() + walk.misread + of_root
}

/// The scanned definitions, completed by the tree's.
pub(super) fn complete(tree: &Tree, text: &str, scanned: Vec<Function>) -> Vec<Function> {
    let walk = Walk::through(tree, text);
    let is_clean = !tree.root_node().has_error();
    let mut functions = in_order(scanned);
    let mut added = Vec::new();
    let mut replaced = vec![false; functions.len()];
    for definition in walk.definitions {
        let span = definition.span;
        // Scanned definitions follow one another, so those that overlap are neighbours.
        let first = functions.partition_point(|function| function.span.end <= span.start);
        let overlapping =
            functions[first..].iter().take_while(|function| function.span.start < span.end).count();
        let overlapping = first..first + overlapping;
        let is_inside = functions.get(first).is_some_and(|around| around.span.contains_span(span));
        let is_known = functions[overlapping.clone()].iter().any(|function| function.span.end == span.end);
        let accepted = match overlapping.len() {
            _ if is_known => false,
            0 => !definition.has_error,
            _ if is_inside => !definition.has_error && !definition.in_error,
            _ => is_clean,
        };
        if accepted && let Some(function) = definition.function(text, is_inside) {
            if !is_inside {
                replaced[overlapping].fill(true);
            }
            added.push(function);
        }
    }
    let mut kept = replaced.iter();
    functions.retain(|_| !kept.next().copied().unwrap_or(false));
    functions.append(&mut added);
    let mut functions = in_order(functions);
    for function in &mut functions {
        let first = walk.errors.partition_point(|error| error.end < function.span.start);
        function.parse_errors |= walk.errors.get(first).is_some_and(|error| error.start < function.span.end);
    }
    functions
}

/// A definition in the tree.
struct Definition<'tree> {
    node: Node<'tree>,
    /// With the template headers and the like around the node.
    span: ByteSpan,
    body_start: usize,
    class: Option<String>,
    has_error: bool,
    /// Whether it lies in something the grammar could not read.
    in_error: bool,
}

impl Definition<'_> {
    /// `is_inside` a function: there a list of names and a brace is more likely a macro's loop than a definition.
    fn function(&self, text: &str, is_inside: bool) -> Option<Function> {
        let header = text.get(self.span.start..self.body_start)?;
        let mut tokens = Vec::new();
        for lexeme in Lexer::new(header) {
            if let Lexeme::Token(mut token) = lexeme {
                token.start += self.span.start;
                token.end += self.span.start;
                tokens.push(token);
            }
        }
        let Header::Function(signature) = classify(text, &tokens, self.class.as_deref()) else { return None };
        if is_inside && !signature.has_type && self.class.is_none() {
            return None;
        }
        let Signature { name, name_span, kind, .. } = signature;
        let span = ByteSpan::new(self.span.start, self.node.end_byte().max(self.span.start));
        Some(Function { name, kind, span, name_span, parse_errors: false })
    }
}

/// What one pass over a tree finds.
struct Walk<'tree> {
    root: Node<'tree>,
    /// In the order of their start.
    definitions: Vec<Definition<'tree>>,
    /// Errors and missing tokens, in order; those inside an error are not listed.
    errors: Vec<ByteSpan>,
    /// Definitions without a parameter list: C's grammar takes `namespace a { … }` and `class B { … }` for those.
    misread: usize,
}

/// A node around the present one that matters to definitions below it.
struct Around<'tree> {
    depth: usize,
    node: Node<'tree>,
    kind: AroundKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AroundKind {
    /// A template header, `extern "C"` or `friend` that belongs to the definition in it.
    Prefix,
    Class,
    Body,
    Error,
}

impl<'tree> Walk<'tree> {
    /// Without recursion: trees of hostile texts are deep.
    fn through(tree: &'tree Tree, text: &str) -> Walk<'tree> {
        let mut walk =
            Walk { root: tree.root_node(), definitions: Vec::new(), errors: Vec::new(), misread: 0 };
        let mut around: Vec<Around<'tree>> = Vec::new();
        let mut errors_around = 0;
        // The cursor's own depth takes as long as it is deep.
        let mut depth = 0;
        let mut cursor = tree.walk();
        loop {
            let node = cursor.node();
            while let Some(left) = around.pop_if(|around| around.depth >= depth) {
                errors_around -= usize::from(left.kind == AroundKind::Error);
            }
            let kind = walk.visit(node, &around, errors_around > 0, text);
            // The root may be an error as a whole; that says nothing about its parts.
            if let Some(kind) = kind.filter(|kind| depth > 0 || *kind != AroundKind::Error) {
                errors_around += usize::from(kind == AroundKind::Error);
                around.push(Around { depth, node, kind });
            }
            if may_hold_definitions(node) && cursor.goto_first_child() {
                depth += 1;
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return walk;
                }
                depth -= 1;
            }
        }
    }

    fn visit(
        &mut self,
        node: Node<'tree>,
        around: &[Around<'tree>],
        in_error: bool,
        text: &str,
    ) -> Option<AroundKind> {
        if node.is_error() || node.is_missing() {
            if !in_error && node != self.root {
                self.errors.push(ByteSpan::new(node.start_byte(), node.end_byte()));
            }
            return node.is_error().then_some(AroundKind::Error);
        }
        match node.kind() {
            "function_definition" | "inline_method_definition" => {
                self.definition(node, around, in_error, text);
                Some(AroundKind::Body)
            }
            "template_declaration" | "friend_declaration" => Some(AroundKind::Prefix),
            "linkage_specification" => {
                let body = node.child_by_field_name("body");
                body.is_some_and(|body| body.kind() == "function_definition").then_some(AroundKind::Prefix)
            }
            "class_specifier" | "struct_specifier" | "union_specifier" => Some(AroundKind::Class),
            "lambda_expression" => Some(AroundKind::Body),
            _ => None,
        }
    }

    fn definition(&mut self, node: Node<'tree>, around: &[Around<'tree>], in_error: bool, text: &str) {
        let Some(body) = node.child_by_field_name("body").or_else(|| try_body(node)) else { return };
        if !matches!(body.kind(), "compound_statement" | "try_statement" | "constructor_try_statement") {
            return;
        }
        let prefixes = around.iter().rev().take_while(|around| around.kind == AroundKind::Prefix);
        let start = prefixes.last().map_or(node.start_byte(), |prefix| prefix.node.start_byte());
        let nearest =
            around.iter().rev().find(|around| matches!(around.kind, AroundKind::Class | AroundKind::Body));
        let class = nearest.filter(|nearest| nearest.kind == AroundKind::Class).map(|class| {
            let name = class.node.child_by_field_name("name");
            name.and_then(|name| text.get(name.byte_range())).unwrap_or("").to_owned()
        });
        let declarator = node.child_by_field_name("declarator");
        if declarator.is_some_and(|declarator| declarator.kind() == "identifier") {
            self.misread += 1;
            return;
        }
        self.definitions.push(Definition {
            node,
            span: ByteSpan::new(start, node.end_byte()),
            body_start: body.start_byte(),
            class,
            has_error: node.has_error(),
            in_error,
        });
    }
}

/// The body of a function-try-block, which is no field of its definition.
fn try_body(node: Node<'_>) -> Option<Node<'_>> {
    let last = node.child(node.child_count().checked_sub(1)?)?;
    matches!(last.kind(), "try_statement" | "constructor_try_statement").then_some(last)
}

/// Whether to look below a node. Errors matter everywhere; definitions are not in expressions, except in a lambda's
/// body, where only local classes could have them.
fn may_hold_definitions(node: Node<'_>) -> bool {
    if node.has_error() {
        return true;
    }
    !matches!(
        node.kind(),
        "expression_statement"
            | "return_statement"
            | "preproc_def"
            | "preproc_function_def"
            | "preproc_call"
            | "preproc_include"
            | "parameter_list"
            | "argument_list"
            | "initializer_list"
            | "comment"
            | "string_literal"
            | "enumerator_list"
            | "template_parameter_list"
            | "parenthesized_expression"
            | "condition_clause"
    )
}
