//! A Rust source file as text: comments and literals blanked, test code left out, split into tokens and paths.

/// A file under `src/`.
pub(crate) struct Source {
    /// `src/…`, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
    /// `text` with the same lines, but without comments, literals and test code.
    code: String,
    /// `text` with the same lines, but without literals.
    commented: String,
}

/// A word or a punctuation mark; `::` is one.
#[derive(Clone, Copy)]
pub(crate) struct Token<'a> {
    /// 1-based.
    pub(crate) line: usize,
    pub(crate) text: &'a str,
}

/// A path such as `crate::text::ByteSpan`; a `use` tree is expanded into one path a leaf.
pub(crate) struct PathUse {
    pub(crate) line: usize,
    pub(crate) names: Vec<String>,
    /// Whether it is the path of a `use` declaration.
    pub(crate) in_use: bool,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Source {
        let is_test = path.ends_with("/tests.rs") || path.ends_with("_tests.rs") || path.contains("/tests/");
        let code = if is_test { String::new() } else { without_tests(&blank(text)) };
        let commented = blank_literals(text);
        Source { path: path.to_string(), text: text.to_string(), code, commented }
    }

    /// The top-level module: `lsp` for `src/lsp.rs` and for all below `src/lsp/`; `lib.rs` and `main.rs` as they are.
    pub(crate) fn module(&self) -> &str {
        let inner = self.inner();
        match inner.split_once('/') {
            Some((module, _)) => module,
            None if inner == "lib.rs" || inner == "main.rs" => inner,
            None => inner.trim_end_matches(".rs"),
        }
    }

    /// How many modules deep the file is: 1 for `src/lsp.rs`, 2 for `src/lsp/worker.rs`.
    pub(crate) fn depth(&self) -> usize {
        match self.inner() {
            "lib.rs" | "main.rs" => 0,
            inner => inner.split('/').filter(|part| *part != "mod.rs").count(),
        }
    }

    /// Whether the file belongs to one of the places: a module's name or a file below `src/`.
    pub(crate) fn is_in(&self, places: &[&str]) -> bool {
        places.iter().any(|place| *place == self.module() || *place == self.inner())
    }

    pub(crate) fn is_generated(&self) -> bool {
        is_generated(&self.text)
    }

    pub(crate) fn at(&self, line: usize, message: &str) -> String {
        format!("{}:{line}: {message}", self.path)
    }

    pub(crate) fn tokens(&self) -> Vec<Token<'_>> {
        tokens(&self.code)
    }

    pub(crate) fn paths(&self) -> Vec<PathUse> {
        let tokens = self.tokens();
        let mut paths = Vec::new();
        let mut at = 0;
        while at < tokens.len() {
            if !is_word(tokens[at].text) {
                at += 1;
                continue;
            }
            let in_use = at > 0 && tokens[at - 1].text == "use";
            at = expand(&tokens, at, &[], in_use, &mut paths);
        }
        paths
    }

    /// The lines of the statement up to `line` (1-based), with the comments and attributes directly above it.
    pub(crate) fn statement_so_far(&self, line: usize) -> Vec<&str> {
        let code: Vec<&str> = self.code.lines().collect();
        let commented: Vec<&str> = self.commented.lines().collect();
        let goes_on = |line: &str| !line.trim().is_empty() && !line.trim_end().ends_with([';', '{', '}']);
        let is_note = |line: &str| line.trim_start().starts_with("//") || line.trim_start().starts_with("#[");
        let mut first = line - 1;
        while first > 0 && goes_on(code[first - 1]) {
            first -= 1;
        }
        while first > 0 && is_note(commented[first - 1]) {
            first -= 1;
        }
        commented[first..line].to_vec()
    }

    fn inner(&self) -> &str {
        self.path.strip_prefix("src/").unwrap_or(&self.path)
    }
}

/// Code written by a generator says so in its first lines.
pub(crate) fn is_generated(text: &str) -> bool {
    text.lines().take(3).any(|line| line.starts_with("//") && line.contains("@generated"))
}

/// Parses the path that starts at `at` and returns where it ends.
fn expand(tokens: &[Token], mut at: usize, prefix: &[String], in_use: bool, out: &mut Vec<PathUse>) -> usize {
    let line = tokens[at].line;
    let mut names = prefix.to_vec();
    while at < tokens.len() && is_word(tokens[at].text) {
        names.push(tokens[at].text.to_string());
        at += 1;
        if at >= tokens.len() || tokens[at].text != "::" {
            break;
        }
        at += 1;
        if at < tokens.len() && tokens[at].text == "{" {
            at += 1;
            while at < tokens.len() && tokens[at].text != "}" {
                at = if is_word(tokens[at].text) { expand(tokens, at, &names, in_use, out) } else { at + 1 };
            }
            return at + 1;
        }
    }
    out.push(PathUse { line, names, in_use });
    let is_renamed = in_use && tokens.get(at).is_some_and(|token| token.text == "as");
    if is_renamed { at + 2 } else { at }
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let length = if first.is_alphanumeric() || first == '_' {
            rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        if first == '\n' {
            line += 1;
        }
        if !first.is_whitespace() {
            tokens.push(Token { line, text: &rest[..length] });
        }
        rest = &rest[length..];
    }
    tokens
}

/// The text with comments and literals turned into spaces; line breaks stay.
pub(crate) fn blank(text: &str) -> String {
    blank_where(text, |_| true)
}

fn blank_literals(text: &str) -> String {
    blank_where(text, |part| !part.starts_with('/'))
}

fn blank_where(text: &str, unwanted: impl Fn(&str) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut previous = ' ';
    while let Some(first) = rest.chars().next() {
        let length = literal_or_comment(rest, previous);
        if length == 0 {
            out.push(first);
            previous = first;
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let part = &rest[..length];
        if unwanted(part) {
            out.push_str(&spaces(part));
        } else {
            out.push_str(part);
        }
        previous = ' ';
        rest = &rest[length..];
    }
    out
}

fn spaces(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect()
}

/// The length of the comment or literal at the start of `rest`, or 0.
fn literal_or_comment(rest: &str, previous: char) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment(rest);
    }
    if rest.starts_with('\'') {
        return character(rest);
    }
    if previous.is_alphanumeric() || previous == '_' {
        return 0; // `r` or `b` as the end of a name.
    }
    let quote = rest.trim_start_matches(['b', 'c', 'r']);
    let prefix = rest.len() - quote.len();
    if prefix > 2 {
        return 0;
    }
    let hashes = quote.len() - quote.trim_start_matches('#').len();
    if !quote[hashes..].starts_with('"') || (hashes > 0 && !rest[..prefix].ends_with('r')) {
        return 0;
    }
    let open = prefix + hashes + 1;
    if rest[..prefix].ends_with('r') {
        let close = format!("\"{}", "#".repeat(hashes));
        return rest[open..].find(&close).map_or(rest.len(), |at| open + at + close.len());
    }
    let mut escaped = false;
    for (at, c) in rest[open..].char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return open + at + 1,
            _ => {}
        }
    }
    rest.len()
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

/// `'a'` and `'\n'` are literals, `'a` is a lifetime.
fn character(rest: &str) -> usize {
    let inner = &rest[1..];
    match inner.chars().next() {
        // The escaped character itself may be a quote.
        Some('\\') => inner[2..].find('\'').map_or(0, |at| at + 4),
        Some(c) if inner[c.len_utf8()..].starts_with('\'') => 1 + c.len_utf8() + 1,
        _ => 0,
    }
}

/// Blanked code without the items under `#[test]` and `#[cfg(test)]` or other conditions that ask for `test`.
fn without_tests(code: &str) -> String {
    let mut out = code.to_string();
    let mut from = 0;
    while let Some(start) = out[from..].find("#[").map(|at| from + at) {
        let end = out[start..].find(']').map_or(out.len(), |at| start + at + 1);
        let attribute = out[start..end].to_string();
        let asks_for_test = tokens(&attribute).iter().any(|token| token.text == "test")
            && !attribute.contains("not(")
            && (attribute == "#[test]" || attribute.starts_with("#[cfg("));
        from = end;
        if asks_for_test {
            let end = item_end(&out, end);
            let blanked = spaces(&out[start..end]);
            from = start + blanked.len();
            out.replace_range(start..end, &blanked);
        }
    }
    out
}

/// The end of the item that follows: its `;`, or the `}` that closes its first brace.
fn item_end(code: &str, from: usize) -> usize {
    let mut depth = 0;
    for (at, c) in code[from..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth <= 0 {
                    return from + at + 1;
                }
            }
            ';' if depth == 0 => return from + at + 1,
            _ => {}
        }
    }
    code.len()
}

#[test]
fn blanks_comments_and_literals_only() {
    let check = |text: &str, blanked: &str| assert_eq!(blank(text).replace(' ', ""), blanked, "{text}");
    check("a /* b /* c */ d */ e // f\ng", "ae\ng");
    check(r#"f("x \" y", b'"', 'c', r)"#, "f(,b,,r)");
    check("x = r#\"a \" b\"#; y", "x=;y");
    check("fn f<'a>(x: &'a str)", "fnf<'a>(x:&'astr)");
    check("let c = '\\u{1F600}'; '\\''", "letc=;");
    assert_eq!(blank_literals("f(\"x\"); // y").replace(' ', ""), "f();//y");
}

#[test]
fn leaves_out_test_code_only() {
    let code =
        "fn a() {}\n#[cfg(all(test, unix))]\nmod tests { fn b() { {} } }\n#[cfg(not(test))]\nfn c() {}";
    let words: Vec<String> =
        tokens(&without_tests(code)).iter().map(|t| t.text.to_string()).filter(|t| is_word(t)).collect();
    assert_eq!(words, ["fn", "a", "cfg", "not", "test", "fn", "c"]);
}

#[test]
fn expands_use_trees() {
    let source = Source::new("src/x.rs", "use crate::{a::{self, B}, c as d, e};\nfn f() { g::h(); }");
    let paths: Vec<String> = source.paths().iter().map(|p| p.names.join("::")).collect();
    for path in ["crate::a::self", "crate::a::B", "crate::c", "crate::e", "g::h"] {
        assert!(paths.iter().any(|p| p == path), "{path} in {paths:?}");
    }
    assert!(!paths.iter().any(|p| p.ends_with('d')), "{paths:?}");
}
