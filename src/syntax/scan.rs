//! Finds definitions by their shape: tokens, brackets and preprocessor conditionals, without a grammar.
//!
//! A grammar knows no macros, and one unknown macro can spoil its tree for the rest of a file. What a definition
//! looks like survives that: tokens up to an opening brace, a parameter list among them, and the brace's partner.
//!
//! Conditionals: between declarations all branches are read, each from the state before the `#if`. Inside a
//! definition one branch is read, the first that can hold if each condition has the same value everywhere in the
//! file, so that braces opened in one conditional and closed in another match.

use super::header::{Header, Named, Signature, classify};
use super::lex::{Lexeme, Lexer, Token, TokenKind};
use super::{Function, Language};
use crate::text::ByteSpan;
use std::collections::HashMap;

/// How far classes inside functions are looked into, one inside another.
const DEEPEST_LOCAL_CLASS: usize = 8;
/// Of more scopes around a function only the innermost are part of its name.
const MOST_SCOPES_NAMED: usize = 64;
/// Tokens of one header; what is longer is no header.
const LONGEST_HEADER: usize = 2048;
/// Old-style parameter declarations of one function.
const MOST_OLD_STYLE_DECLARATIONS: usize = 64;
/// Conditionals open at a brace from which reading may have to start again.
const MOST_SAVED_CONDITIONALS: usize = 256;
/// Conditionals inside one another; all branches of those further inside are read.
const DEEPEST_CONDITIONALS: usize = 4096;

/// The definitions between declarations of a file, in their order; those inside functions are not found.
pub(super) fn definitions(source: &str, language: Language) -> Vec<Definition> {
    let mut scanner = Scanner::new(source, Lexer::new(source), language);
    scanner.run();
    scanner.found
}

/// The methods of classes inside the body of a function, which starts at the brace `body`.
pub(super) fn local_definitions(source: &str, body: ByteSpan) -> Vec<Function> {
    let mut found = Vec::new();
    let mut bodies = vec![(body, 0)];
    while let Some((body, depth)) = bodies.pop() {
        for (class, named) in local_classes(source, body) {
            let mut scanner = Scanner::within(source, class, named);
            scanner.run();
            if depth < DEEPEST_LOCAL_CLASS {
                bodies.extend(
                    scanner.found.iter().map(|method| {
                        (ByteSpan::new(method.body_start, method.function.span.end), depth + 1)
                    }),
                );
            }
            found.extend(scanner.found.into_iter().map(|method| method.function));
        }
    }
    found
}

/// What is between the braces of the classes in a body, those inside another left out.
fn local_classes(source: &str, body: ByteSpan) -> Vec<(ByteSpan, Named)> {
    let has_class = |text: &str| ["struct", "class", "union"].iter().any(|keyword| text.contains(keyword));
    if !body.of(source).is_some_and(has_class) {
        return Vec::new();
    }
    let mut classes = Vec::new();
    // The tokens from a class's keyword on, while they may be its header.
    let mut header: Vec<Token> = Vec::new();
    let mut depth = 0usize;
    // The class that is open: where its text begins, its name, and the depth around it.
    let mut open: Option<(usize, Named, usize)> = None;
    for lexeme in Lexer::within(source, body) {
        let Lexeme::Token(token) = lexeme else { continue };
        match token.kind {
            TokenKind::Punctuation(b'{') => {
                if open.is_none()
                    && !header.is_empty()
                    && let Header::Scope(named @ Named { class: Some(_), .. }) =
                        classify(source, &header, None)
                {
                    open = Some((token.end, named, depth));
                }
                header.clear();
                depth += 1;
            }
            TokenKind::Punctuation(b'}') => {
                depth = depth.saturating_sub(1);
                if let Some((start, named, _)) = open.take_if(|(_, _, around)| *around == depth) {
                    classes.push((ByteSpan::new(start, token.start), named));
                }
                header.clear();
            }
            TokenKind::Punctuation(b';') => header.clear(),
            TokenKind::Identifier
                if header.is_empty() && matches!(token.text(source), "struct" | "class" | "union") =>
            {
                header.push(token);
            }
            _ if header.is_empty() || header.len() == LONGEST_HEADER => header.clear(),
            _ => header.push(token),
        }
    }
    classes
}

/// A definition and what else is known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Definition {
    pub(super) function: Function,
    /// Where the brace of its body stands.
    pub(super) body_start: usize,
    /// The innermost class around it, empty for one without a name.
    pub(super) class: Option<String>,
    /// Whether handlers may follow the body.
    pub(super) has_handlers: bool,
}

struct Scanner<'a> {
    source: &'a str,
    lexer: Lexer<'a>,
    found: Vec<Definition>,
    /// All scopes with declarations met so far; 0 is the file.
    scopes: Vec<Scope>,
    state: State<'a>,
    /// The tokens since the last declaration ended.
    header: Vec<Token>,
    conditionals: Vec<Conditional>,
    /// How many conditionals are open beyond the deepest of those.
    too_deep: usize,
    assumptions: HashMap<String, bool>,
    /// Whether `}` that stands as its body's last one does ends it whatever is open: set once a brace was found to be
    /// missing.
    trust_indentation: bool,
    /// From before the open body.
    checkpoint: Option<Checkpoint<'a>>,
    /// From before the first body with a `}` that stands as its last one does, but is not.
    suspect: Option<Checkpoint<'a>>,
    /// A function-try-block whose body just ended, waiting for its handlers.
    handlers_of: Option<usize>,
    last_token_end: usize,
    /// How many bytes may still be read twice to see what follows a brace.
    looks_ahead_left: usize,
}

#[derive(Clone, Default)]
struct Scope {
    parent: usize,
    named: Named,
}

#[derive(Clone, Default)]
struct State<'a> {
    scope: usize,
    /// Open parentheses of the header.
    parentheses: usize,
    /// Old-style parameter declarations so far.
    old_style: usize,
    block: Option<Block<'a>>,
}

/// A braced block without declarations of interest.
#[derive(Clone)]
struct Block<'a> {
    kind: BlockKind<'a>,
    /// Open braces, the block's own included.
    depth: usize,
    /// How many conditionals were open at its brace.
    conditionals: usize,
}

#[derive(Clone)]
struct Body<'a> {
    signature: Signature,
    /// Where its brace stands.
    start: usize,
    /// The blanks before the signature.
    indentation: Option<&'a str>,
}

#[derive(Clone)]
enum BlockKind<'a> {
    Body(Box<Body<'a>>),
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

#[derive(Clone)]
struct Checkpoint<'a> {
    lexer: Lexer<'a>,
    state: State<'a>,
    conditionals: Vec<Conditional>,
    found: usize,
}

impl<'a> Scanner<'a> {
    /// For what is between a class's braces.
    fn within(source: &'a str, span: ByteSpan, named: Named) -> Self {
        let mut scanner = Scanner::new(source, Lexer::within(source, span), Language::Cpp);
        scanner.scopes = vec![Scope { parent: 0, named }];
        scanner
    }

    fn new(source: &'a str, lexer: Lexer<'a>, language: Language) -> Self {
        let plus_plus = ("__cplusplus".to_owned(), language == Language::Cpp);
        Self {
            source,
            lexer,
            found: Vec::new(),
            scopes: vec![Scope::default()],
            state: State::default(),
            header: Vec::new(),
            conditionals: Vec::new(),
            too_deep: 0,
            assumptions: HashMap::from([plus_plus]),
            trust_indentation: false,
            checkpoint: None,
            suspect: None,
            handlers_of: None,
            last_token_end: 0,
            looks_ahead_left: source.len().max(1 << 16),
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
            if self.trust_indentation || !self.go_back() {
                return self.end_open_body();
            }
            self.trust_indentation = true;
        }
    }

    /// The text ended inside a body, or inside a scope whose `}` may have ended one: reads that body again, this time
    /// trusting the indentation.
    fn go_back(&mut self) -> bool {
        let suspect = self.suspect.take().filter(|_| self.state.scope != 0);
        let Some(Checkpoint { lexer, state, conditionals, found }) = self.checkpoint.take().or(suspect)
        else {
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
        if let Some(Block { kind: BlockKind::Body(body), .. }) = self.state.block.take() {
            self.add(*body, self.last_token_end, true);
        }
    }

    fn add(&mut self, body: Body<'a>, end: usize, parse_errors: bool) {
        let Body { signature, start: body_start, .. } = body;
        let class = self.scopes.get(self.state.scope).and_then(|scope| scope.named.class.clone());
        let function = Function {
            name: self.qualified(signature.name, signature.is_friend),
            kind: signature.kind,
            span: ByteSpan::new(signature.start, end),
            name_span: signature.name_span,
            parse_errors,
        };
        self.found.push(Definition { function, body_start, class, has_handlers: signature.has_handlers });
    }

    /// A name with those of the scopes around it; one that starts at the global scope (`::a`) stays as it is.
    fn qualified(&self, name: String, is_friend: bool) -> String {
        let mut around = Vec::new();
        let mut at = self.state.scope;
        while let Some(Scope { parent, named }) =
            self.scopes.get(at).filter(|_| around.len() < MOST_SCOPES_NAMED)
        {
            let is_left_out = named.path.is_empty() || is_friend && named.class.is_some();
            if !is_left_out {
                around.push(named.path.as_str());
            }
            if at == *parent {
                break;
            }
            at = *parent;
        }
        if around.is_empty() || name.starts_with("::") {
            return name;
        }
        around.reverse();
        format!("{}::{name}", around.join("::"))
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
            let looks_last = match &block.kind {
                _ if block.depth == 0 => true,
                BlockKind::Body(body) if self.trust_indentation || self.suspect.is_none() => {
                    body.indentation.is_some() && body.indentation == indentation(self.source, token.start)
                }
                _ => false,
            };
            if block.depth == 0 || looks_last && self.trust_indentation {
                self.end_block(token);
            } else if looks_last {
                self.suspect = self.checkpoint.clone();
            }
        }
    }

    fn end_block(&mut self, token: Token) {
        let Some(block) = self.state.block.take() else { return };
        match block.kind {
            BlockKind::Body(body) => {
                self.checkpoint = None;
                let index = self.found.len();
                self.handlers_of = body.signature.has_handlers.then_some(index);
                self.add(*body, token.end, false);
                self.header.clear();
                if let Some(conditional) =
                    self.conditionals.get_mut(block.conditionals..).and_then(<[_]>::first_mut)
                {
                    conditional.ended = Some(index);
                }
            }
            BlockKind::Handler => {
                if let Some(definition) = self.handlers_of.and_then(|index| self.found.get_mut(index)) {
                    definition.function.span.end = token.end;
                }
                self.header.clear();
            }
            BlockKind::Initialiser => self.header.push(token),
            BlockKind::Other => self.end_declaration(),
        }
    }

    fn token_in_scope(&mut self, token: Token) {
        match token.kind {
            TokenKind::Punctuation(b'{') => self.opening_brace(token),
            TokenKind::Punctuation(b'}') => {
                self.state.scope = self.scopes.get(self.state.scope).map_or(0, |scope| scope.parent);
                self.end_declaration();
            }
            TokenKind::Punctuation(b';') => self.semicolon(token),
            TokenKind::Punctuation(b':') if self.is_label() => self.end_declaration(),
            // In no header: the rest of a comment whose start is cut off, or no C at all.
            TokenKind::Punctuation(b'/' | b'%' | b'?' | b'@' | b'`' | b'\\')
                if self.state.parentheses == 0 && !self.is_operator() && !self.is_in_arguments() =>
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

    /// `public:`, `signals:`, `public Q_SLOTS:`; also after a macro of its own.
    fn is_label(&self) -> bool {
        let ends_with_access =
            |word: &Token| matches!(word.text(self.source), "public" | "private" | "protected");
        match self.header[..] {
            _ if self.state.parentheses > 0 => false,
            [word] => {
                word.is_identifier()
                    && !matches!(word.text(self.source), "class" | "struct" | "union" | "enum")
            }
            [access, word] if ends_with_access(&access) => word.is_identifier(),
            [.., macro_end, word] if macro_end.is(b')') => ends_with_access(&word),
            _ => false,
        }
    }

    /// Whether template arguments are open.
    fn is_in_arguments(&self) -> bool {
        let count = |bracket| self.header.iter().filter(|token| token.is(bracket)).count();
        count(b'<') > count(b'>')
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
        // A list among the parameters is that of a macro: `int f(HANDLE(a) b);`.
        let mut depth = 0usize;
        let mut opens = |token: &Token| {
            let is_outermost = token.is(b'(') && depth == 0;
            match token.kind {
                TokenKind::Punctuation(b'(') => depth += 1,
                TokenKind::Punctuation(b')') => depth = depth.saturating_sub(1),
                _ => {}
            }
            is_outermost
        };
        let lists = self.header.iter().enumerate().filter(|(at, token)| opens(token) && *at > 0);
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

    fn opening_brace(&mut self, brace: Token) {
        if self.state.parentheses > 0 {
            let is_value = self
                .header
                .last()
                .is_none_or(|last| !last.is_identifier() && !last.is(b')') && !last.is(b'*'));
            if is_value || self.goes_on_after_block() {
                return self.open_block(BlockKind::Initialiser);
            }
            // The user is still typing the parameters.
            self.state.parentheses = 0;
        } else if self.header.iter().any(|token| token.kind == TokenKind::Arrow) && self.goes_on_after_block()
        {
            return self.open_block(BlockKind::Initialiser);
        }
        if self.handlers_of.is_some()
            && self.header.first().is_some_and(|word| word.text(self.source) == "catch")
        {
            return self.open_block(BlockKind::Handler);
        }
        let class = self.scopes.get(self.state.scope).and_then(|scope| scope.named.class.as_deref());
        match classify(self.source, &self.header, class) {
            Header::Function(signature) => {
                let can_go_back =
                    !self.trust_indentation && self.conditionals.len() <= MOST_SAVED_CONDITIONALS;
                self.end_declaration();
                let indentation = indentation(self.source, signature.start);
                let body = Body { signature, start: brace.start, indentation };
                self.open_block(BlockKind::Body(Box::new(body)));
                self.checkpoint = can_go_back.then(|| Checkpoint {
                    lexer: self.lexer,
                    state: self.state.clone(),
                    conditionals: self.conditionals.clone(),
                    found: self.found.len(),
                });
            }
            Header::Scope(named) => {
                self.end_declaration();
                self.open_scope(named);
            }
            Header::Initialiser => self.open_block(BlockKind::Initialiser),
            Header::Other => {
                self.end_declaration();
                self.open_block(BlockKind::Other);
            }
        }
    }

    fn open_scope(&mut self, named: Named) {
        self.scopes.push(Scope { parent: self.state.scope, named });
        self.state.scope = self.scopes.len() - 1;
    }

    /// Whether what stands around the brace just read goes on after its partner: a lambda among arguments, a value
    /// among template arguments.
    fn goes_on_after_block(&mut self) -> bool {
        let mut lexer = self.lexer;
        let begun = lexer.offset();
        let mut depth = 1usize;
        let mut goes_on = false;
        for lexeme in lexer.by_ref() {
            let Lexeme::Token(token) = lexeme else { continue };
            match token.kind {
                _ if depth == 0 => {
                    goes_on = token.is(b',') || token.is(b')') || token.is(b'>') || token.is(b'(');
                    break;
                }
                TokenKind::Punctuation(b'{') => depth += 1,
                TokenKind::Punctuation(b'}') => depth -= 1,
                _ => {}
            }
            if token.end - begun > self.looks_ahead_left {
                break;
            }
        }
        self.looks_ahead_left = self.looks_ahead_left.saturating_sub(lexer.offset() - begun);
        goes_on
    }

    fn open_block(&mut self, kind: BlockKind<'a>) {
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
        let is_clean = self.state.block.is_none() && (self.header.is_empty() || self.is_macro_so_far());
        is_clean.then_some(self.state.scope)
    }

    /// Whether the header is a macro that stands on its own line, so far.
    fn is_macro_so_far(&self) -> bool {
        let [name, rest @ ..] = &self.header[..] else { return false };
        let name = name.text(self.source);
        let is_macro = name.len() > 2
            && name.contains('_')
            && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
        let is_whole = match rest {
            [] => true,
            [open, .., close] => open.is(b'(') && close.is(b')') && self.state.parentheses == 0,
            _ => false,
        };
        is_macro && is_whole
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
        if let (true, Some(Definition { function, .. })) = (is_last_found, self.found.last_mut()) {
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

/// The blanks between the start of a line and `offset`; `None` where there is something else.
pub(super) fn indentation(source: &str, offset: usize) -> Option<&str> {
    let before = source.get(..offset)?;
    let text = before.trim_end_matches([' ', '\t']);
    (text.is_empty() || text.ends_with(['\n', '\r'])).then(|| &before[text.len()..])
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
