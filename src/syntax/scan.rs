//! Finds definitions by their shape: tokens, brackets and preprocessor conditionals, without a grammar.
//!
//! A grammar knows no macros, and one unknown macro can spoil its tree for the rest of a file. What a definition
//! looks like survives that: tokens up to an opening brace, a parameter list among them, and the brace's partner.
//!
//! Conditionals: between declarations all branches are read, each from the state before the `#if`. Inside a
//! definition one branch is read, the first that can hold if each condition has the same value everywhere in the
//! file, so that braces opened in one conditional and closed in another match.

use super::header::{Header, Signature, classify};
use super::lex::{Lexeme, Lexer, Token, TokenKind};
use super::{Function, Language};
use crate::text::ByteSpan;
use std::collections::HashMap;

/// Tokens of one header; what is longer is no header.
const LONGEST_HEADER: usize = 2048;
/// Old-style parameter declarations of one function.
const MOST_OLD_STYLE_DECLARATIONS: usize = 64;
/// Conditionals open at a brace from which reading may have to start again.
const MOST_SAVED_CONDITIONALS: usize = 256;
/// Conditionals inside one another; all branches of those further inside are read.
const DEEPEST_CONDITIONALS: usize = 4096;

/// The definitions between declarations of a file, in the order of their end; those inside functions are not found.
pub(super) fn definitions(source: &str, language: Language) -> Vec<Function> {
    let mut scanner = Scanner::new(source, language);
    scanner.run();
    scanner.found
}

struct Scanner<'a> {
    source: &'a str,
    lexer: Lexer<'a>,
    found: Vec<Function>,
    /// All scopes with declarations met so far; 0 is the file.
    scopes: Vec<Scope>,
    state: State,
    /// The tokens since the last declaration ended.
    header: Vec<Token>,
    conditionals: Vec<Conditional>,
    /// How many conditionals are open beyond the deepest of those.
    too_deep: usize,
    assumptions: HashMap<String, bool>,
    /// Whether `}` in the first column ends a body whatever is open: set once a body was found to have no end.
    trust_first_column: bool,
    checkpoint: Option<Checkpoint<'a>>,
    /// A function-try-block whose body just ended, waiting for its handlers.
    handlers_of: Option<usize>,
    last_token_end: usize,
}

#[derive(Clone)]
struct Scope {
    parent: usize,
    class: Option<String>,
}

#[derive(Clone, Default)]
struct State {
    scope: usize,
    /// Open parentheses of the header.
    parentheses: usize,
    /// Old-style parameter declarations so far.
    old_style: usize,
    block: Option<Block>,
}

/// A braced block without declarations of interest.
#[derive(Clone)]
struct Block {
    kind: BlockKind,
    /// Open braces, the block's own included.
    depth: usize,
    /// How many conditionals were open at its brace.
    conditionals: usize,
}

#[derive(Clone)]
enum BlockKind {
    Body(Signature),
    Handler,
    Initialiser,
    Other,
}

#[derive(Clone)]
struct Conditional {
    /// Whether the text around it is read.
    live: bool,
    /// Whether the present branch is read.
    branch_live: bool,
    /// Whether the branch that counts has come.
    taken: bool,
    /// Whether the present branch is the one that counts.
    counts: bool,
    /// The scope before it, if it stands between declarations.
    before: Option<usize>,
    /// The scope after the branch that counts, if that ended between declarations.
    after: Option<usize>,
    /// Braces open around it in a block.
    depth: usize,
    /// The definition around it, if that ended in the branch that counts; the other branches then end it too.
    ended: Option<usize>,
    /// Braces that the present unread branch still leaves open, and where a branch closed the last one.
    unread_depth: usize,
    unread_end: usize,
}

struct Checkpoint<'a> {
    lexer: Lexer<'a>,
    state: State,
    conditionals: Vec<Conditional>,
    found: usize,
}

impl<'a> Scanner<'a> {
    fn new(source: &'a str, language: Language) -> Self {
        let plus_plus = ("__cplusplus".to_owned(), language == Language::Cpp);
        Self {
            source,
            lexer: Lexer::new(source),
            found: Vec::new(),
            scopes: vec![Scope { parent: 0, class: None }],
            state: State::default(),
            header: Vec::new(),
            conditionals: Vec::new(),
            too_deep: 0,
            assumptions: HashMap::from([plus_plus]),
            trust_first_column: false,
            checkpoint: None,
            handlers_of: None,
            last_token_end: 0,
        }
    }

    fn run(&mut self) {
        loop {
            while let Some(lexeme) = self.lexer.next() {
                match lexeme {
                    Lexeme::Token(token) => self.token(token),
                    Lexeme::Directive { start, end } => self.directive(start, end),
                }
            }
            if self.trust_first_column || !self.go_back_to_open_body() {
                return self.end_open_body();
            }
            self.trust_first_column = true;
        }
    }

    /// The text ended inside a body: reads it again, this time trusting the first column.
    fn go_back_to_open_body(&mut self) -> bool {
        let Some(Checkpoint { lexer, state, conditionals, found }) = self.checkpoint.take() else {
            return false;
        };
        self.lexer = lexer;
        self.state = state;
        self.conditionals = conditionals;
        self.too_deep = 0;
        self.found.truncate(found);
        self.header.clear();
        self.handlers_of = None;
        true
    }

    /// A definition that is cut off, or still being typed, reaches to the last token.
    fn end_open_body(&mut self) {
        if let Some(Block { kind: BlockKind::Body(signature), .. }) = self.state.block.take() {
            self.found.push(Function {
                name: signature.name,
                kind: signature.kind,
                span: ByteSpan::new(signature.start, self.last_token_end),
                name_span: signature.name_span,
                parse_errors: true,
            });
        }
    }

    fn is_live(&self) -> bool {
        self.conditionals.last().is_none_or(|conditional| conditional.branch_live)
    }

    fn token(&mut self, token: Token) {
        self.last_token_end = token.end;
        if !self.is_live() {
            if let Some(conditional) = self.conditionals.last_mut() {
                conditional.unread_token(token);
            }
            return;
        }
        if self.state.block.is_some() {
            self.token_in_block(token);
        } else {
            self.token_in_scope(token);
        }
    }

    fn token_in_block(&mut self, token: Token) {
        let Some(block) = &mut self.state.block else { return };
        if token.is(b'{') {
            block.depth += 1;
        } else if token.is(b'}') {
            block.depth -= 1;
            let ends_by_column = self.trust_first_column
                && matches!(&block.kind, BlockKind::Body(signature)
                    if is_first_column(self.source, token.start) && is_first_column(self.source, signature.start));
            if block.depth == 0 || ends_by_column {
                self.end_block(token);
            }
        }
    }

    fn end_block(&mut self, token: Token) {
        let Some(block) = self.state.block.take() else { return };
        match block.kind {
            BlockKind::Body(signature) => {
                self.checkpoint = None;
                let index = self.found.len();
                self.handlers_of = signature.has_handlers.then_some(index);
                self.found.push(Function {
                    name: signature.name,
                    kind: signature.kind,
                    span: ByteSpan::new(signature.start, token.end),
                    name_span: signature.name_span,
                    parse_errors: false,
                });
                self.header.clear();
                if let Some(conditional) =
                    self.conditionals.get_mut(block.conditionals..).and_then(<[_]>::first_mut)
                {
                    conditional.ended = Some(index);
                }
            }
            BlockKind::Handler => {
                if let Some(function) = self.handlers_of.and_then(|index| self.found.get_mut(index)) {
                    function.span.end = token.end;
                }
                self.header.clear();
            }
            BlockKind::Initialiser => self.header.push(token),
            BlockKind::Other => self.end_declaration(),
        }
    }

    fn token_in_scope(&mut self, token: Token) {
        match token.kind {
            TokenKind::Punctuation(b'{') => self.opening_brace(),
            TokenKind::Punctuation(b'}') => {
                self.state.scope = self.scopes.get(self.state.scope).map_or(0, |scope| scope.parent);
                self.end_declaration();
            }
            TokenKind::Punctuation(b';') => self.semicolon(token),
            TokenKind::Punctuation(b':') if self.is_label() => self.end_declaration(),
            // In no header: the rest of a comment whose start is cut off, or no C at all.
            TokenKind::Punctuation(b'/' | b'%' | b'?' | b'@' | b'`' | b'\\')
                if self.state.parentheses == 0 && !self.is_operator() =>
            {
                self.end_declaration();
            }
            _ => {
                match token.kind {
                    TokenKind::Punctuation(b'(') => self.state.parentheses += 1,
                    TokenKind::Punctuation(b')') => {
                        self.state.parentheses = self.state.parentheses.saturating_sub(1);
                    }
                    _ => {}
                }
                if self.header.len() == LONGEST_HEADER {
                    self.end_declaration();
                }
                self.header.push(token);
            }
        }
    }

    fn end_declaration(&mut self) {
        self.header.clear();
        self.state.parentheses = 0;
        self.state.old_style = 0;
        self.handlers_of = None;
    }

    /// `public:`, `signals:`, `public Q_SLOTS:`.
    fn is_label(&self) -> bool {
        match self.header[..] {
            [word] => {
                word.is_identifier()
                    && !matches!(word.text(self.source), "class" | "struct" | "union" | "enum")
            }
            [access, word] => {
                matches!(access.text(self.source), "public" | "private" | "protected") && word.is_identifier()
            }
            _ => false,
        }
    }

    fn is_operator(&self) -> bool {
        self.header.last().is_some_and(|word| word.text(self.source) == "operator")
    }

    fn semicolon(&mut self, token: Token) {
        if self.state.parentheses == 0
            && self.state.old_style < MOST_OLD_STYLE_DECLARATIONS
            && (self.state.old_style > 0 || self.is_old_style_so_far())
        {
            self.state.old_style += 1;
            self.header.push(token);
        } else {
            self.end_declaration();
        }
    }

    /// Whether the header is a name with a list of plain names, and then a parameter declaration.
    fn is_old_style_so_far(&self) -> bool {
        let is_list = |open: usize, close: usize| {
            let names = &self.header[open + 1..close];
            let in_place = |(at, token): (usize, &Token)| {
                if at % 2 == 0 { token.is_identifier() } else { token.is(b',') }
            };
            names.len() % 2 == 1 && names.iter().enumerate().all(in_place)
        };
        let lists = self.header.iter().enumerate().filter(|(at, token)| *at > 0 && token.is(b'('));
        lists.map(|(open, _)| open).any(|open| {
            let Some(close) =
                self.header[open..].iter().position(|token| token.is(b')')).map(|length| open + length)
            else {
                return false;
            };
            self.header[open - 1].is_identifier()
                && is_list(open, close)
                && self.header.len() > close + 2
                && self.header[close + 1].is_identifier()
                && !self.header[close + 1..].iter().any(|token| token.is(b'='))
        })
    }

    fn opening_brace(&mut self) {
        if self.state.parentheses > 0 {
            let is_value = self
                .header
                .last()
                .is_none_or(|last| !last.is_identifier() && !last.is(b')') && !last.is(b'*'));
            if is_value {
                return self.open_block(BlockKind::Initialiser);
            }
            // The user is still typing the parameters.
            self.state.parentheses = 0;
        }
        if self.handlers_of.is_some()
            && self.header.first().is_some_and(|word| word.text(self.source) == "catch")
        {
            return self.open_block(BlockKind::Handler);
        }
        let class = self.scopes.get(self.state.scope).and_then(|scope| scope.class.as_deref());
        match classify(self.source, &self.header, class) {
            Header::Function(signature) => {
                let can_go_back =
                    !self.trust_first_column && self.conditionals.len() <= MOST_SAVED_CONDITIONALS;
                self.end_declaration();
                self.open_block(BlockKind::Body(signature));
                self.checkpoint = can_go_back.then(|| Checkpoint {
                    lexer: self.lexer,
                    state: self.state.clone(),
                    conditionals: self.conditionals.clone(),
                    found: self.found.len(),
                });
            }
            Header::Scope { class } => {
                self.end_declaration();
                self.scopes.push(Scope { parent: self.state.scope, class });
                self.state.scope = self.scopes.len() - 1;
            }
            Header::Initialiser => self.open_block(BlockKind::Initialiser),
            Header::Other => {
                self.end_declaration();
                self.open_block(BlockKind::Other);
            }
        }
    }

    fn open_block(&mut self, kind: BlockKind) {
        self.state.block = Some(Block { kind, depth: 1, conditionals: self.conditionals.len() });
    }

    fn directive(&mut self, start: usize, end: usize) {
        let text = self.source.get(start + 1..end).unwrap_or("").trim_start();
        let word_end = text.find(|character: char| !character.is_ascii_alphanumeric()).unwrap_or(text.len());
        let (word, condition) = text.split_at(word_end);
        match word {
            "if" => self.open_conditional(Condition::of_expression(condition)),
            "ifdef" => self.open_conditional(Condition::of_name(condition, false)),
            "ifndef" => self.open_conditional(Condition::of_name(condition, true)),
            "elif" => self.next_branch(Condition::of_expression(condition)),
            "elifdef" => self.next_branch(Condition::of_name(condition, false)),
            "elifndef" => self.next_branch(Condition::of_name(condition, true)),
            "else" => self.next_branch(Condition::Constant(true)),
            "endif" => self.close_conditional(),
            "include" | "define" | "undef"
                if self.is_live()
                    && self.state.block.is_none()
                    && self.state.parentheses == 0
                    && self.state.old_style == 0 =>
            {
                self.end_declaration();
            }
            _ => {}
        }
    }

    /// The scope, if this is between declarations.
    fn clean_scope(&self) -> Option<usize> {
        (self.state.block.is_none() && self.header.is_empty()).then_some(self.state.scope)
    }

    fn restore(&mut self, scope: usize) {
        self.state = State { scope, ..State::default() };
        self.end_declaration();
        self.checkpoint = None;
    }

    fn open_conditional(&mut self, condition: Condition) {
        if self.conditionals.len() == DEEPEST_CONDITIONALS {
            self.too_deep += 1;
            return;
        }
        let live = self.is_live();
        let before = self.clean_scope().filter(|_| live);
        let counts = live && self.holds(condition);
        self.conditionals.push(Conditional {
            live,
            branch_live: live && (counts || before.is_some()),
            taken: counts,
            counts,
            before,
            after: None,
            depth: self.state.block.as_ref().map_or(0, |block| block.depth),
            ended: None,
            unread_depth: 0,
            unread_end: 0,
        });
    }

    fn next_branch(&mut self, condition: Condition) {
        if self.too_deep > 0 {
            return;
        }
        let Some(mut conditional) = self.conditionals.pop() else { return };
        if !conditional.live {
            return self.conditionals.push(conditional);
        }
        self.end_branch(&mut conditional);
        conditional.unread_depth = conditional.depth;
        conditional.counts = !conditional.taken && self.holds(condition);
        conditional.taken |= conditional.counts;
        if conditional.counts {
            if let Some(before) = conditional.before {
                self.restore(before);
            }
            conditional.branch_live = true;
        } else {
            let may_read = !conditional.taken || conditional.after.is_some();
            conditional.branch_live = may_read && conditional.before.is_some();
            if let (true, Some(before)) = (conditional.branch_live, conditional.before) {
                self.restore(before);
            }
        }
        self.conditionals.push(conditional);
    }

    fn close_conditional(&mut self) {
        if self.too_deep > 0 {
            self.too_deep -= 1;
            return;
        }
        let Some(mut conditional) = self.conditionals.pop() else { return };
        if !conditional.live {
            return;
        }
        self.end_branch(&mut conditional);
        let is_last_found = conditional.ended.is_some_and(|index| index + 1 == self.found.len());
        if let (true, Some(function)) = (is_last_found, self.found.last_mut()) {
            function.span.end = function.span.end.max(conditional.unread_end);
        }
    }

    /// After a branch that does not count, the text goes on from the one that does, or from before.
    fn end_branch(&mut self, conditional: &mut Conditional) {
        if conditional.counts {
            conditional.after = conditional.before.and(self.clean_scope());
        } else if conditional.branch_live {
            let scope = if conditional.taken { conditional.after } else { conditional.before };
            if let Some(scope) = scope {
                self.restore(scope);
            }
        }
    }

    /// Whether a condition holds; the first one of its kind does, and sets that for the file.
    fn holds(&mut self, condition: Condition) -> bool {
        match condition {
            Condition::Constant(value) => value,
            Condition::Same { key, negated } => *self.assumptions.entry(key).or_insert(!negated) != negated,
        }
    }
}

impl Conditional {
    fn unread_token(&mut self, token: Token) {
        if token.is(b'{') && self.unread_depth > 0 {
            self.unread_depth += 1;
        } else if token.is(b'}') && self.unread_depth > 0 {
            self.unread_depth -= 1;
            if self.unread_depth == 0 {
                self.unread_end = token.end;
            }
        }
    }
}

fn is_first_column(source: &str, offset: usize) -> bool {
    offset == 0 || matches!(source.as_bytes().get(offset - 1), Some(b'\n' | b'\r'))
}

enum Condition {
    Constant(bool),
    /// Conditions with the same key have the same value, or opposite ones.
    Same {
        key: String,
        negated: bool,
    },
}

impl Condition {
    /// `#ifdef NAME`
    fn of_name(text: &str, negated: bool) -> Condition {
        let text = text.trim_start();
        let end = text.find(|character: char| !is_name_character(character)).unwrap_or(text.len());
        Condition::Same { key: text[..end].to_owned(), negated }
    }

    /// `#if NAME`, `#if defined(NAME)` and their negations are taken for `#ifdef NAME`.
    fn of_expression(text: &str) -> Condition {
        let without_comments = text.split("//").next().unwrap_or("").split("/*").next().unwrap_or("");
        let mut key: String = without_comments.split_whitespace().collect();
        match key.as_str() {
            "0" | "(0)" | "false" => return Condition::Constant(false),
            "1" | "(1)" | "true" => return Condition::Constant(true),
            _ => {}
        }
        let mut negated = false;
        while let Some(rest) = key.strip_prefix('!').filter(|rest| is_single(rest)) {
            negated = !negated;
            key = rest.to_owned();
        }
        if is_single(&key) {
            let name = key.strip_prefix("defined").unwrap_or(&key);
            key = name.trim_matches(['(', ')']).to_owned();
        }
        Condition::Same { key, negated }
    }
}

/// `NAME`, `(NAME)`, `defined(NAME)`, `definedNAME` (blanks removed), with `!` before.
fn is_single(key: &str) -> bool {
    let name = key.trim_start_matches('!');
    let name = name.strip_prefix("defined").unwrap_or(name);
    let name = name.strip_prefix('(').and_then(|name| name.strip_suffix(')')).unwrap_or(name);
    !name.is_empty() && name.chars().all(is_name_character)
}

fn is_name_character(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}
