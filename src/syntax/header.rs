//! What the tokens before an opening brace announce: a function, a scope with declarations, or something else.

use super::FunctionKind;
use super::lex::{Token, TokenKind};
use crate::text::ByteSpan;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Header {
    Function(Signature),
    /// Declarations follow: namespace, `extern "C"`, class.
    Scope(Named),
    /// A braced initialiser inside the header; the header goes on after it.
    Initialiser,
    /// An enumeration, an initialiser, a statement, something unknown.
    Other,
}

/// What a scope adds to the names in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    /// The last name of a class, empty for one without; `None` for what is no class.
    pub(super) class: Option<String>,
    /// Empty for what has no name.
    pub(super) path: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signature {
    pub(super) name: String,
    pub(super) name_span: ByteSpan,
    pub(super) kind: FunctionKind,
    /// The span's start: the first token that belongs to the definition.
    pub(super) start: usize,
    /// A function-try-block: handlers follow the body.
    pub(super) has_handlers: bool,
    /// Whether a type stands before the name.
    pub(super) has_type: bool,
    /// A friend of the class around it, so no member.
    pub(super) is_friend: bool,
}

/// A name followed by a parenthesised list.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// First and last token of the name, scope included.
    name: (usize, usize),
    open: usize,
    close: usize,
    kind: Option<FunctionKind>,
}

/// Judges the tokens since the last declaration ended. `class` is the name of the class whose body this is in, empty
/// for a class without one.
pub(super) fn classify(source: &str, tokens: &[Token], class: Option<&str>) -> Header {
    // Old-style parameter declarations end right before the brace; other semicolons end what was before.
    let is_old_style = tokens.last().is_some_and(|token| token.is(b';'));
    let tokens = match tokens.iter().rposition(|token| token.is(b';')) {
        Some(at) if !is_old_style => &tokens[at + 1..],
        _ => tokens,
    };
    let tokens = without_foreign_prefix(source, tokens);
    let tokens = if is_old_style { tokens } else { without_macros_of_their_own(source, tokens) };
    if tokens.is_empty() {
        return Header::Other;
    }
    Reader { source, tokens, close: matching(tokens), class }.read(is_old_style)
}

/// For each opening parenthesis or bracket the index of its partner, the last token for one that stays open.
fn matching(tokens: &[Token]) -> Vec<usize> {
    let mut close = vec![0; tokens.len()];
    let mut open = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        match token.kind {
            TokenKind::Punctuation(b'(' | b'[') => open.push(index),
            TokenKind::Punctuation(b')' | b']') => {
                if let Some(partner) = open.pop() {
                    close[partner] = index;
                }
            }
            _ => {}
        }
    }
    for index in open {
        close[index] = tokens.len() - 1;
    }
    close
}

/// Drops macros that stand before a definition on their own, without a semicolon.
fn without_foreign_prefix<'t>(source: &str, mut tokens: &'t [Token]) -> &'t [Token] {
    while let [first, rest @ ..] = tokens {
        if !first.is_identifier() {
            break;
        }
        let name = first.text(source);
        let stands_alone = name.ends_with("_BEGIN_DECLS")
            || name.ends_with("_END_DECLS")
            || name.ends_with("_BEGIN_NAMESPACE")
            || name.ends_with("_END_NAMESPACE")
            || matches!(name, "Q_OBJECT" | "Q_GADGET");
        let declares_something =
            ["MODULE_", "EXPORT_SYMBOL", "DECLARE_", "DEFINE_", "Q_DECLARE_", "Q_DISABLE_"]
                .iter()
                .any(|prefix| name.starts_with(prefix));
        let call_end = match rest.first() {
            Some(next) if next.is(b'(') => matching(rest)[0],
            _ => 0,
        };
        let newline_follows = |end: usize, next: &Token| {
            source.get(end..next.start).is_some_and(|gap| gap.contains(['\n', '\r']))
        };
        if stands_alone && !rest.is_empty() {
            tokens = rest;
        } else if let (true, 1.., Some(next)) = (declares_something, call_end, rest.get(call_end + 1))
            && newline_follows(rest[call_end].end, next)
            && rest[call_end + 1..].iter().any(|token| token.is(b'('))
        {
            tokens = &rest[call_end + 1..];
        } else {
            break;
        }
    }
    tokens
}

/// Drops macros, with arguments or without, one a line, that a blank line separates from what follows.
fn without_macros_of_their_own<'t>(source: &str, tokens: &'t [Token]) -> &'t [Token] {
    let gap = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| tokens.get(before));
        before.zip(tokens.get(at)).and_then(|(before, next)| source.get(before.end..next.start)).unwrap_or("")
    };
    let close = matching(tokens);
    let mut at = 0;
    let mut dropped = 0;
    while tokens.get(at).is_some_and(|token| token.is_identifier()) && (at == 0 || gap(at).contains('\n')) {
        let name = tokens[at].text(source);
        let has_arguments = tokens.get(at + 1).is_some_and(|token| token.is(b'('));
        if is_type_keyword(name) || is_attribute(name) || !(has_arguments || is_upper_case(name)) {
            break;
        }
        at = if has_arguments { close[at + 1] + 1 } else { at + 1 };
        let rest = tokens.get(at..).unwrap_or_default();
        let is_blank = gap(at)
            .split('\n')
            .skip(1)
            .any(|line| line.trim().is_empty() && gap(at).matches('\n').count() > 1);
        let begins_anew = match rest {
            [first, second, ..] if first.is_identifier() && second.is(b'(') => {
                is_upper_case(first.text(source))
            }
            [first, _, ..] => first.is_identifier(),
            _ => false,
        };
        if is_blank && begins_anew {
            dropped = at;
        }
    }
    &tokens[dropped..]
}

struct Reader<'a> {
    source: &'a str,
    tokens: &'a [Token],
    close: Vec<usize>,
    class: Option<&'a str>,
}

impl Reader<'_> {
    fn text(&self, index: usize) -> &str {
        self.tokens.get(index).map_or("", |token| token.text(self.source))
    }
    fn is(&self, index: usize, punctuation: u8) -> bool {
        self.tokens.get(index).is_some_and(|token| token.is(punctuation))
    }
    fn is_identifier(&self, index: usize) -> bool {
        self.tokens.get(index).is_some_and(|token| token.is_identifier())
    }
    fn is_scope(&self, index: usize) -> bool {
        self.tokens.get(index).is_some_and(|token| token.kind == TokenKind::Scope)
    }

    fn read(&self, is_old_style: bool) -> Header {
        let first = self.after_template_headers();
        let mut candidates: Vec<Candidate> = Vec::new();
        let mut class_keyword: Option<usize> = None;
        let mut is_type = false;
        let mut angle_depth = 0usize;
        // Where the parameters' suffix ends: at a member initialiser list or a trailing return type.
        let mut initialisers = None;
        let mut has_handlers = false;
        let mut end = self.tokens.len();
        let mut at = first;
        while at < self.tokens.len() {
            let token = self.tokens[at];
            match token.kind {
                TokenKind::Identifier => match token.text(self.source) {
                    "namespace" if !is_old_style => return self.namespace(at),
                    "typedef" if !is_old_style => is_type = true,
                    "extern"
                        if self.tokens[at + 1..].len() == 1
                            && self.tokens[at + 1].kind == TokenKind::Literal =>
                    {
                        return Header::Scope(Named::default());
                    }
                    "operator" => {
                        if let Some(candidate) = self.operator(at) {
                            at = candidate.close;
                            candidates.push(candidate);
                        }
                    }
                    "class" | "struct" | "union" | "enum" | "__interface" if angle_depth == 0 => {
                        // One after a list of arguments begins a new declaration, as in `MACRO(a) struct b`.
                        let is_first = class_keyword.is_none_or(|keyword| {
                            candidates.last().is_some_and(|candidate| candidate.close > keyword)
                        });
                        if is_first {
                            class_keyword = Some(at);
                        }
                    }
                    "try" if !candidates.is_empty() => has_handlers = true,
                    word if angle_depth == 0 && is_statement_keyword(word) => return Header::Other,
                    _ => {}
                },
                TokenKind::Punctuation(b'<') if self.opens_arguments(at) => angle_depth += 1,
                TokenKind::Punctuation(b'>') => angle_depth = angle_depth.saturating_sub(1),
                TokenKind::Punctuation(b'=') if angle_depth == 0 => return Header::Other,
                TokenKind::Punctuation(b':') if angle_depth == 0 => {
                    match class_keyword {
                        Some(keyword) if is_type || self.is_class(keyword, &candidates, at) => {
                            return self.class_scope(keyword, at);
                        }
                        None if candidates.is_empty() => return Header::Other,
                        _ => {}
                    }
                    initialisers = Some(at);
                    end = at;
                    break;
                }
                TokenKind::Arrow if !candidates.is_empty() => {
                    end = at;
                    break;
                }
                TokenKind::Punctuation(b'(') => {
                    if angle_depth == 0
                        && let Some(candidate) = self.candidate(at)
                    {
                        at = candidate.close;
                        candidates.push(candidate);
                    } else {
                        at = self.close[at];
                    }
                }
                TokenKind::Punctuation(b'[') => at = self.close[at],
                TokenKind::Punctuation(b'*' | b'&' | b'~' | b')' | b']' | b'^') | TokenKind::Scope => {}
                // Parameter declarations of an old-style definition hold anything.
                _ if is_old_style && !candidates.is_empty() => {}
                _ if angle_depth > 0 => {}
                TokenKind::Literal | TokenKind::Number if self.is_linkage(at) => {}
                TokenKind::Punctuation(b'.')
                    if self.is(at + 1, b'.') || (at > 0 && self.is(at - 1, b'.')) => {}
                TokenKind::Punctuation(b'<') if self.text(first) == "requires" => {}
                _ => return Header::Other,
            }
            at += 1;
        }

        let is_class =
            class_keyword.is_some_and(|keyword| !is_old_style && self.is_class(keyword, &candidates, end));
        let chosen = self.choose(&candidates, is_old_style).filter(|_| !is_type && !is_class);
        let Some(chosen) = chosen else {
            return match class_keyword {
                Some(keyword) => self.class_scope(keyword, end),
                None if self.text(0) == "export" && self.tokens.len() == 1 => Header::Scope(Named::default()),
                None => Header::Other,
            };
        };
        if initialisers.is_some() {
            // `member{value}` in an initialiser list; the body follows a closed initialiser.
            let last = self.tokens.len() - 1;
            if self.is_identifier(last) || self.is(last, b'>') {
                return Header::Initialiser;
            }
        }
        self.signature(chosen, has_handlers).map_or(Header::Other, Header::Function)
    }

    fn after_template_headers(&self) -> usize {
        let mut at = 0;
        loop {
            let is_template = self.text(at) == "template" && self.is(at + 1, b'<');
            if !is_template {
                return at;
            }
            let mut depth = 0usize;
            at += 1;
            while at < self.tokens.len() {
                match self.tokens[at].kind {
                    TokenKind::Punctuation(b'<') => depth += 1,
                    TokenKind::Punctuation(b'>') => depth -= 1,
                    TokenKind::Punctuation(b'(' | b'[') => at = self.close[at],
                    _ => {}
                }
                at += 1;
                if depth == 0 {
                    break;
                }
            }
        }
    }

    /// Whether `<` after a name opens template arguments.
    fn opens_arguments(&self, at: usize) -> bool {
        at > 0 && self.is_identifier(at - 1)
    }

    /// `extern "C"`, or the text of an attribute macro.
    fn is_linkage(&self, at: usize) -> bool {
        at > 0 && self.text(at - 1) == "extern"
    }

    fn namespace(&self, keyword: usize) -> Header {
        let mut path = String::new();
        let mut at = keyword + 1;
        while at < self.tokens.len() {
            match self.tokens[at].kind {
                TokenKind::Punctuation(b'(' | b'[') => at = self.close[at],
                TokenKind::Scope => path.push_str("::"),
                // A macro with arguments.
                TokenKind::Identifier if self.is(at + 1, b'(') => {}
                // Of several words the last is the name, unless it looks like a macro and those before do not.
                TokenKind::Identifier if self.text(at) != "inline" => {
                    let last = path.rfind("::").map_or(0, |scope| scope + 2);
                    let is_named = last < path.len() && !is_upper_case(&path[last..]);
                    if !(is_named && is_upper_case(self.text(at))) {
                        path.truncate(last);
                        path.push_str(self.text(at));
                    }
                }
                _ => {}
            }
            at += 1;
        }
        Header::Scope(Named { class: None, path })
    }

    fn class_scope(&self, keyword: usize, end: usize) -> Header {
        if self.text(keyword) == "enum" {
            return Header::Other;
        }
        let mut name: Option<(usize, usize)> = None;
        let mut at = keyword + 1;
        while at < end {
            match self.tokens[at].kind {
                TokenKind::Punctuation(b'(' | b'[') => at = self.close[at],
                TokenKind::Punctuation(b'<') => at = self.angle_close(at, end),
                // A macro with arguments.
                TokenKind::Identifier if self.is(at + 1, b'(') => {}
                TokenKind::Identifier if self.text(at) != "final" => {
                    let goes_on = name.filter(|_| self.is_scope(at - 1));
                    name = Some((goes_on.map_or(at, |(first, _)| first), at));
                }
                _ => {}
            }
            at += 1;
        }
        let class = Some(name.map_or("", |(_, last)| self.text(last)).to_owned());
        let path = name.map_or(String::new(), |(first, last)| self.joined(first, last));
        Header::Scope(Named { class, path })
    }

    /// The last token of template arguments.
    fn angle_close(&self, open: usize, end: usize) -> usize {
        let mut depth = 0usize;
        for at in open..end {
            match self.tokens[at].kind {
                TokenKind::Punctuation(b'<') => depth += 1,
                TokenKind::Punctuation(b'>') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return at;
            }
        }
        end
    }

    /// Whether a header up to `end` is that of a class: no name after its keyword has a list of parameters.
    fn is_class(&self, keyword: usize, candidates: &[Candidate], end: usize) -> bool {
        match candidates.iter().filter(|candidate| candidate.close > keyword).collect::<Vec<_>>()[..] {
            [] => true,
            [only] => self.macro_names_class(keyword, *only, end),
            _ => false,
        }
    }

    /// `class EXPORT(x) Name`, `struct PACKED(x)` or `class Name TEXT("x")` up to `end`: the macro's arguments are no
    /// parameters.
    fn macro_names_class(&self, keyword: usize, candidate: Candidate, end: usize) -> bool {
        let after = candidate.close + 1;
        let is_named = self.is_identifier(after)
            && self.text(after) != "const"
            && (after + 1 == end || (after + 2 == end && self.text(after + 1) == "final"));
        let follows_name = self.looks_like_macro(candidate) && self.has_value(candidate) && after >= end;
        follows_name || candidate.name.0 == keyword + 1 && (is_named || after >= end)
    }

    /// A candidate whose list opens at `open`, if a name is before it.
    fn candidate(&self, open: usize) -> Option<Candidate> {
        let close = self.close[open];
        let names_by_group = self.is(close + 1, b'(');
        let previous = open.checked_sub(1);
        let name_last = previous.filter(|at| self.names_function(*at));
        if names_by_group && !previous.is_some_and(|at| is_attribute(self.text(at))) {
            // `(name)(…)`, `(*name(…))(…)`, `MACRO(name)(…)`.
            let name = self.name_in_group(open, close)?;
            let parameters = close + 1;
            return Some(Candidate { name, open: parameters, close: self.close[parameters], kind: None });
        }
        let last = name_last?;
        let name = self.name_that_ends_at(last)?;
        Some(Candidate { name, open, close, kind: None })
    }

    fn names_function(&self, at: usize) -> bool {
        let text = self.text(at);
        (self.is_identifier(at) && !is_type_keyword(text) && !is_attribute(text)) || self.is(at, b'>')
    }

    fn name_in_group(&self, open: usize, close: usize) -> Option<(usize, usize)> {
        let inner = open + 1..close;
        let is_name = |at: usize| {
            self.is_identifier(at) && !is_type_keyword(self.text(at)) && !is_attribute(self.text(at))
        };
        let called = inner.clone().find(|at| is_name(*at) && self.is(at + 1, b'('));
        let last = called.or_else(|| inner.rev().find(|at| is_name(*at)))?;
        self.name_that_ends_at(last)
    }

    /// The name that ends with a token: `a::b<c>::~d`.
    fn name_that_ends_at(&self, last: usize) -> Option<(usize, usize)> {
        let mut at = last;
        loop {
            if self.is(at, b'>') {
                let mut depth = 0usize;
                loop {
                    if self.is(at, b'>') {
                        depth += 1;
                    } else if self.is(at, b'<') {
                        depth -= 1;
                    }
                    if depth == 0 {
                        break;
                    }
                    at = at.checked_sub(1)?;
                }
                at = at.checked_sub(1)?;
            }
            if !self.is_identifier(at) {
                return None;
            }
            if at > 0 && self.is(at - 1, b'~') {
                at -= 1;
            }
            if at > 0 && self.is_scope(at - 1) {
                at -= 1;
                let goes_on = at > 0
                    && (self.is(at - 1, b'>')
                        || (self.is_identifier(at - 1) && !is_type_keyword(self.text(at - 1))));
                if goes_on {
                    at -= 1;
                    continue;
                }
            }
            return Some((at, last));
        }
    }

    fn operator(&self, keyword: usize) -> Option<Candidate> {
        let mut open = keyword + 1;
        if self.is(open, b'(') && self.close[open] == open + 1 && self.is(open + 2, b'(') {
            open += 2;
        }
        while open < self.tokens.len() && !self.is(open, b'(') {
            open += 1;
        }
        let close = *self.close.get(open)?;
        let (start, _) = self.name_that_ends_at(keyword)?;
        Some(Candidate { name: (start, open - 1), open, close, kind: Some(FunctionKind::Operator) })
    }

    /// Which of several names with lists is the function's: macros with arguments come before and after it.
    fn choose(&self, candidates: &[Candidate], is_old_style: bool) -> Option<Candidate> {
        let mut rest = candidates.iter().copied();
        let mut chosen = rest.next()?;
        if is_old_style {
            return Some(chosen);
        }
        let has_type = self.has_type(chosen.name.0);
        for next in rest {
            let between = chosen.close + 1..next.name.0;
            let starts_declaration =
                is_type_keyword(self.text(between.start)) && !is_qualifier(self.text(between.start));
            let is_pointer_to_type = !between.is_empty() && self.is(between.start, b'*');
            let is_macro_before = self.looks_like_macro(chosen) && !self.looks_like_macro(next);
            // `MACRO_of_its_own(a)`, and on another line a function with its type.
            let is_on_its_own = !has_type
                && !self.looks_like_macro(next)
                && self.starts_line(between.start)
                && self.text(between.start) != "requires"
                && between.clone().any(|at| self.is_identifier(at) && !is_qualifier(self.text(at)));
            if is_macro_before || starts_declaration || is_pointer_to_type || is_on_its_own {
                chosen = next;
            } else if has_type {
                break;
            }
        }
        Some(chosen)
    }

    fn starts_line(&self, at: usize) -> bool {
        let gap = at
            .checked_sub(1)
            .and_then(|before| self.source.get(self.tokens.get(before)?.end..self.tokens.get(at)?.start));
        gap.is_some_and(|gap| gap.contains(['\n', '\r']))
    }

    /// Whether a type stands before a name.
    fn has_type(&self, name: usize) -> bool {
        (self.after_template_headers()..name)
            .any(|at| self.is_identifier(at) && !is_specifier(self.text(at)) && !is_attribute(self.text(at)))
    }

    fn looks_like_macro(&self, candidate: Candidate) -> bool {
        candidate.kind.is_none()
            && candidate.name.0 == candidate.name.1
            && (is_upper_case(self.text(candidate.name.0)) || self.text(candidate.name.0).starts_with("__"))
    }

    fn signature(&self, chosen: Candidate, has_handlers: bool) -> Option<Signature> {
        let (first, last) = chosen.name;
        let has_type = self.has_type(first);
        let is_friend = (0..first).any(|at| self.text(at) == "friend");
        let start = self.tokens[0].start;
        if first == last
            && !has_type
            && (is_upper_case(self.text(first)) || self.has_value(chosen))
            && self.class != Some(self.text(first))
            && let Some((name, name_span)) = self.macro_name(chosen)
        {
            return Some(Signature {
                name,
                name_span,
                kind: FunctionKind::Macro,
                start,
                has_handlers,
                has_type,
                is_friend,
            });
        }
        let unqualified = (first..=last).rev().find(|at| self.is_scope(*at)).map_or(first, |scope| scope + 1);
        let is_qualified = unqualified > first;
        let kind = match chosen.kind {
            Some(kind) => kind,
            None if self.is(unqualified, b'~') => FunctionKind::Destructor,
            None if self.class == Some(self.text(unqualified)) && !has_type => FunctionKind::Constructor,
            None if is_qualified && self.qualifier_before(unqualified) == Some(self.text(unqualified)) => {
                FunctionKind::Constructor
            }
            None if is_qualified || self.class.is_some() => FunctionKind::Method,
            None => FunctionKind::Function,
        };
        let name_span = ByteSpan::new(self.tokens[first].start, self.tokens[last].end);
        let name = self.joined(first, last);
        Some(Signature { name, name_span, kind, start, has_handlers, has_type, is_friend })
    }

    /// Whether a list has a number or a literal for an argument, which no parameter is.
    fn has_value(&self, candidate: Candidate) -> bool {
        let is_end = |at: usize| self.is(at, b',') || self.is(at, b'(') || self.is(at, b')');
        (candidate.open + 1..candidate.close).any(|at| {
            matches!(self.tokens[at].kind, TokenKind::Number | TokenKind::Literal)
                && is_end(at - 1)
                && is_end(at + 1)
        })
    }

    /// The class before the last `::` of a name, template arguments left out.
    fn qualifier_before(&self, unqualified: usize) -> Option<&str> {
        let mut at = unqualified.checked_sub(2)?;
        if self.is(at, b'>') {
            let mut depth = 0usize;
            loop {
                if self.is(at, b'>') {
                    depth += 1;
                } else if self.is(at, b'<') {
                    depth -= 1;
                }
                at = at.checked_sub(1)?;
                if depth == 0 {
                    break;
                }
            }
        }
        Some(self.text(at))
    }

    /// The name of a definition that a macro makes: its first argument that is a plain identifier and no built-in
    /// type (`SYSCALL_DEFINE3(open, …)` → `open`), the macro's own name without one. Test macros with two such
    /// arguments give `Suite.test`, `…_METHOD` macros `Class::method`. `None` if the list declares parameters.
    fn macro_name(&self, candidate: Candidate) -> Option<(String, ByteSpan)> {
        let macro_name = self.text(candidate.name.0);
        let mut arguments = Vec::new();
        let mut start = candidate.open + 1;
        let mut at = start;
        while at <= candidate.close && start < candidate.close {
            if self.is(at, b',') || at == candidate.close {
                arguments.push(start..at);
                start = at + 1;
            } else if self.is(at, b'(') || self.is(at, b'[') {
                at = self.close[at];
            }
            at += 1;
        }
        let plain: Vec<usize> = arguments
            .iter()
            .filter(|argument| argument.len() == 1 && self.is_identifier(argument.start))
            .map(|argument| argument.start)
            .filter(|at| !is_type_keyword(self.text(*at)))
            .collect();
        if plain.is_empty()
            && arguments.iter().any(|argument| argument.len() > 1 || self.is_identifier(argument.start))
        {
            return None;
        }
        let span = |first: usize, last: usize| ByteSpan::new(self.tokens[first].start, self.tokens[last].end);
        match plain[..] {
            [first, second, ..] if macro_name.contains("TEST") => {
                Some((format!("{}.{}", self.text(first), self.text(second)), span(first, second)))
            }
            [first, second, ..] if macro_name.ends_with("METHOD") => {
                Some((format!("{}::{}", self.text(first), self.text(second)), span(first, second)))
            }
            [first, ..] => Some((self.text(first).to_owned(), span(first, first))),
            [] => Some((macro_name.to_owned(), span(candidate.name.0, candidate.name.0))),
        }
    }

    /// The tokens of a name as written, without blanks and comments; words are kept apart.
    fn joined(&self, first: usize, last: usize) -> String {
        let mut name = String::new();
        for at in first..=last {
            if at > first && self.is_identifier(at) && self.is_identifier(at - 1) {
                name.push(' ');
            }
            name.push_str(self.text(at));
        }
        name
    }
}

/// No lower-case letter and at least one upper-case letter, so likely a macro.
fn is_upper_case(name: &str) -> bool {
    name.len() > 1
        && name.bytes().any(|byte| byte.is_ascii_uppercase())
        && !name.bytes().any(|byte| byte.is_ascii_lowercase())
}

/// Words that no function header holds and no function is named by.
fn is_statement_keyword(word: &str) -> bool {
    matches!(
        word,
        "if" | "else"
            | "while"
            | "for"
            | "switch"
            | "do"
            | "return"
            | "case"
            | "default"
            | "goto"
            | "catch"
            | "sizeof"
            | "throw"
            | "new"
            | "delete"
            | "break"
            | "continue"
            | "co_return"
            | "co_await"
            | "co_yield"
            | "using"
            | "alignof"
            | "_Alignof"
            | "static_assert"
            | "_Static_assert"
            | "concept"
    )
}

fn is_qualifier(word: &str) -> bool {
    matches!(word, "const" | "volatile" | "override" | "final" | "noexcept" | "mutable")
}

/// Words of a declaration that name no type.
fn is_specifier(word: &str) -> bool {
    is_qualifier(word)
        || matches!(
            word,
            "static"
                | "extern"
                | "inline"
                | "__inline"
                | "__inline__"
                | "virtual"
                | "explicit"
                | "friend"
                | "constexpr"
                | "consteval"
                | "export"
                | "template"
                | "typename"
                | "register"
                | "typedef"
                | "_Noreturn"
                | "__extension__"
        )
}

/// Words that are no function's name though a parenthesis may follow.
fn is_type_keyword(word: &str) -> bool {
    is_specifier(word)
        || matches!(
            word,
            "void"
                | "char"
                | "short"
                | "int"
                | "long"
                | "float"
                | "double"
                | "signed"
                | "unsigned"
                | "bool"
                | "_Bool"
                | "auto"
                | "struct"
                | "class"
                | "union"
                | "enum"
                | "wchar_t"
                | "char8_t"
                | "char16_t"
                | "char32_t"
        )
}

/// Words whose parenthesised list holds no parameters.
fn is_attribute(word: &str) -> bool {
    matches!(
        word,
        "__attribute__"
            | "__attribute"
            | "__declspec"
            | "alignas"
            | "_Alignas"
            | "noexcept"
            | "throw"
            | "decltype"
            | "typeof"
            | "__typeof__"
            | "__typeof"
            | "typeof_unqual"
            | "requires"
            | "explicit"
            | "asm"
            | "__asm__"
            | "__asm"
            | "_Pragma"
            | "__pragma"
            | "_Atomic"
    )
}
