//! What the grammar sees in a function's text: errors, and definitions inside it.

use super::header::{Header, Signature, classify};
use super::lex::{Lexeme, Lexer};
use super::stopwatch::Stopwatch;
use super::{Function, Language};
use crate::text::ByteSpan;
use std::ops::ControlFlow;
use std::time::Duration;
use tree_sitter::{Node, ParseOptions, ParseState, Parser, Tree};

/// A longer text has no tree: that takes tens of bytes of memory a byte of text.
const LONGEST_TEXT: usize = 2 << 20;
/// How much of a header is read to tell C from C++.
const LONGEST_COMPARED: usize = 1 << 20;
/// How often the parser may report progress on a text without bytes, and for how many bytes once more. Real code
/// takes a report for a hundred bytes or more; a count gives the same tree for the same text on any machine.
const REPORTS: usize = 1_000;
const BYTES_PER_REPORT: usize = 25;
/// Of computing. Some hostile texts (`a::a::a::…`) make each step of error recovery slow, which no count shows.
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
    let stopwatch = Stopwatch::start();
    let mut progress = |_: &ParseState| {
        reports_left = reports_left.saturating_sub(1);
        if reports_left == 0 || stopwatch.elapsed() > LONGEST_PARSE {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    parser.parse_with_options(&mut |offset, _| bytes.get(offset..).unwrap_or_default(), old, Some(options))
}

/// How many errors the grammar meets in a text, or in its first part if it is long.
pub(super) fn error_count(text: &str, language: Language) -> usize {
    let part = &text[..text.floor_char_boundary(LONGEST_COMPARED)];
    let Some(tree) = parse(part, language, None) else { return usize::MAX };
    let walk = Walk::through(&tree);
    walk.errors + walk.misread + usize::from(tree.root_node().is_error())
}

/// What the grammar finds in the text of one definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) has_errors: bool,
    /// GNU C's functions in functions, in the order of their start; offsets count from the text's start.
    pub(super) nested: Vec<Function>,
}

/// Reads the text of a definition whose body starts at `body_start`; `class` is that of a definition inside one.
pub(super) fn read(text: &str, body_start: usize, language: Language, class: Option<&str>) -> Reading {
    // Constructors and the like are definitions only where a class is around them.
    if let Some(class) = class {
        let name = if class.is_empty() { "unnamed" } else { class };
        let wrapped = format!("struct {name} {{\n{text}\n}};\n");
        let tree = parse(&wrapped, language, None);
        let has_errors = tree.is_none_or(|tree| tree.root_node().has_error());
        return Reading { has_errors, nested: Vec::new() };
    }
    let Some(tree) = parse(text, language, None) else {
        return Reading { has_errors: true, nested: Vec::new() };
    };
    let has_errors = tree.root_node().has_error();
    if language == Language::Cpp {
        return Reading { has_errors, nested: Vec::new() };
    }
    let definitions = Walk::through(&tree).definitions;
    // One that ends with the text has another header of the definition itself, behind an `#else`.
    let is_inner = |node: &Node<'_>| node.start_byte() > body_start && node.end_byte() < text.len();
    let inner = definitions.into_iter().filter(is_inner);
    Reading { has_errors, nested: inner.filter_map(|definition| nested(definition, text)).collect() }
}

/// A definition in a function. Without a type it is more likely a macro's loop.
fn nested(node: Node<'_>, text: &str) -> Option<Function> {
    let body = node.child_by_field_name("body")?;
    let header = text.get(node.start_byte()..body.start_byte())?;
    let mut tokens = Vec::new();
    for lexeme in Lexer::new(header) {
        if let Lexeme::Token(mut token) = lexeme {
            token.start += node.start_byte();
            token.end += node.start_byte();
            tokens.push(token);
        }
    }
    let Header::Function(signature) = classify(text, &tokens, None) else { return None };
    let Signature { name, name_span, kind, has_type: true, .. } = signature else { return None };
    let span = ByteSpan::new(node.start_byte(), node.end_byte());
    Some(Function { name, kind, span, name_span, parse_errors: false })
}

/// What one pass over a tree finds.
#[derive(Default)]
struct Walk<'tree> {
    /// Definitions without an error in or around them, in the order of their start.
    definitions: Vec<Node<'tree>>,
    /// Errors and missing tokens; those inside an error are not counted.
    errors: usize,
    /// Definitions without a parameter list: C's grammar takes `namespace a { … }` and `class B { … }` for those.
    misread: usize,
}

impl<'tree> Walk<'tree> {
    /// Without recursion: trees of hostile texts are deep.
    fn through(tree: &'tree Tree) -> Walk<'tree> {
        let mut walk = Walk::default();
        // The cursor's own depth takes as long as it is deep.
        let mut depth = 0;
        // The depth of the outermost error around the present node. The root may be an error as a whole; that says
        // nothing about its parts.
        let mut error_around = None;
        let mut cursor = tree.walk();
        loop {
            let node = cursor.node();
            if error_around.is_some_and(|around| around >= depth) {
                error_around = None;
            }
            walk.visit(node, depth > 0 && error_around.is_none());
            if node.is_error() && depth > 0 && error_around.is_none() {
                error_around = Some(depth);
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

    fn visit(&mut self, node: Node<'tree>, counts: bool) {
        if node.is_error() || node.is_missing() {
            self.errors += usize::from(counts);
            return;
        }
        if node.kind() != "function_definition" {
            return;
        }
        let is_body = |body: Node<'_>| body.kind() == "compound_statement";
        if !node.child_by_field_name("body").is_some_and(is_body) {
            return;
        }
        let declarator = node.child_by_field_name("declarator");
        if declarator.is_some_and(|declarator| declarator.kind() == "identifier") {
            self.misread += 1;
        } else if counts && !node.has_error() {
            self.definitions.push(node);
        }
    }
}

/// Whether to look below a node. Errors matter everywhere; definitions are not in expressions.
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
