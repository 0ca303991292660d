//! The functions of a C or C++ file. The only user of tree-sitter.
//!
//! [`scan`] finds definitions by their shape, in one pass over the tokens: between declarations, and in the classes
//! inside functions. It is not confused by macros and conditionals, as a grammar is. [`tree`] reads each definition's
//! text on its own with the grammar, when it is asked for: whether that had to recover, and GNU C's functions in
//! functions. After an edit inside a body that moves no brace and no directive, nothing but that body is read again.

use crate::text::ByteSpan;
use std::sync::{Arc, OnceLock};

mod header;
mod incremental;
mod lex;
mod scan;
mod statements;
mod stopwatch;
mod tree;

pub use statements::{Statements, statements};

/// A definition of this length is read with the grammar in a few milliseconds.
const QUICK_BYTES: usize = 64 << 10;

/// Of a longer text a list of all functions goes without what the grammar knows of them.
const LONGEST_READ: usize = 8 << 20;

/// The grammar a document is parsed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    C,
    Cpp,
}

impl Language {
    /// `languageId` of the client wins (`c`, `cpp`, also `objc`-free aliases such as `c++`, `cuda-cpp`); then the
    /// extension: `.c` → C, `.h` → C unless the text parses better as C++, everything else → C++.
    pub fn detect(extension: Option<&str>, language_id: Option<&str>, text: &str) -> Language {
        match language_id.map(str::to_ascii_lowercase).as_deref() {
            Some("c") => return Language::C,
            Some("cpp" | "c++" | "cxx" | "cc" | "cuda-cpp" | "cuda" | "cuda-c++" | "arduino") => {
                return Language::Cpp;
            }
            _ => {}
        }
        match extension.map(|extension| extension.trim_start_matches('.')) {
            Some("c") => Language::C,
            Some("h") if tree::error_count(text, Language::C) <= tree::error_count(text, Language::Cpp) => {
                Language::C
            }
            // Upper-case `.C` and `.H` are C++ by custom.
            _ => Language::Cpp,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FunctionKind {
    Function,
    Method,
    Constructor,
    Destructor,
    Operator,
    /// A definition made by a macro, for example `SYSCALL_DEFINE3(…) { … }`.
    Macro,
}

impl FunctionKind {
    /// The name used in JSON: `function`, `method`, `constructor`, `destructor`, `operator`, `macro`.
    pub fn as_str(self) -> &'static str {
        match self {
            FunctionKind::Function => "function",
            FunctionKind::Method => "method",
            FunctionKind::Constructor => "constructor",
            FunctionKind::Destructor => "destructor",
            FunctionKind::Operator => "operator",
            FunctionKind::Macro => "macro",
        }
    }
}

/// A function definition of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// With all its scopes, those that the definition writes (`Foo::bar`) and those around it: `space::Foo::bar`.
    pub name: String,
    pub kind: FunctionKind,
    /// The untouched text of the definition, from its first specifier (template header included) to the closing brace,
    /// or to the file's last token where the brace is missing.
    pub span: ByteSpan,
    pub name_span: ByteSpan,
    /// Whether the parser had to recover inside the function, or its end is missing.
    pub parse_errors: bool,
}

impl Function {
    /// Whether a user who writes `name` may mean this function: by its whole name, or its last parts (`Foo::bar` and
    /// `bar` for `space::Foo<T>::bar`), template arguments of scopes written or not.
    pub fn is_named(&self, name: &str) -> bool {
        let ends_with_it =
            |own: &str| own.strip_suffix(name).is_some_and(|scope| scope.is_empty() || scope.ends_with("::"));
        !name.is_empty() && (ends_with_it(&self.name) || ends_with_it(&without_arguments(&self.name)))
    }

    fn shifted(mut self, by: usize) -> Function {
        for span in [&mut self.span, &mut self.name_span] {
            *span = ByteSpan::new(span.start + by, span.end + by);
        }
        self
    }
}

/// A name without the template arguments of its scopes.
fn without_arguments(name: &str) -> String {
    // `<` is part of an operator's name.
    let scopes = name.find("operator").unwrap_or(name.len());
    let scopes = name[..scopes].rfind("::").map_or(0, |end| end + 2);
    let mut depth = 0usize;
    let mut short = String::new();
    for character in name[..scopes].chars() {
        match character {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => short.push(character),
            _ => {}
        }
    }
    short + &name[scopes..]
}

/// A change of a text: the bytes `start..old_end` of the old text became `start..new_end` of the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edit {
    pub start: usize,
    pub old_end: usize,
    pub new_end: usize,
}

/// Why there is no function at an offset. `Display` is a sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFunction {
    #[error("no C or C++ function definition holds this position")]
    Outside,
    #[error("the file has no C or C++ function definition")]
    Empty,
}

/// A parsed document. Cheap to clone.
///
/// The methods that take the text expect the one that was parsed.
#[derive(Clone, Debug)]
pub struct SyntaxTree {
    language: Language,
    /// In the order of their start; none overlaps another.
    definitions: Arc<[Placed]>,
}

/// A definition between declarations, and where it stands.
#[derive(Clone, Debug)]
struct Placed {
    function: Function,
    part: Arc<Part>,
}

/// What depends on a definition's own text alone; offsets count from its start.
#[derive(Debug)]
struct Part {
    body_start: usize,
    /// The innermost class around it, empty for one without a name.
    class: Option<String>,
    /// Whether handlers may follow the body, as part of the definition.
    has_handlers: bool,
    inside: OnceLock<Inside>,
}

/// What the text of a definition holds.
#[derive(Debug)]
struct Inside {
    has_errors: bool,
    /// In the order of their start, an enclosing function before those inside it.
    functions: Vec<Function>,
}

impl SyntaxTree {
    pub fn parse(text: &str, language: Language) -> SyntaxTree {
        let definitions = scan::definitions(text, language);
        SyntaxTree { language, definitions: definitions.into_iter().map(Placed::new).collect() }
    }

    pub fn language(&self) -> Language {
        self.language
    }

    /// The tree after the text changed. `old` and `new` are the whole texts.
    ///
    /// The functions are those that [`parse`](Self::parse) finds; what is known about those outside the edit is kept.
    /// An edit that does not turn `old` into `new` means a fresh parse.
    pub fn edited(&self, old: &str, new: &str, edit: Edit) -> SyntaxTree {
        if !edit.turns(old, new) {
            return SyntaxTree::parse(new, self.language);
        }
        let definitions = incremental::within_body(&self.definitions, old, new, edit)
            .unwrap_or_else(|| incremental::scanned_again(&self.definitions, new, edit, self.language));
        SyntaxTree { language: self.language, definitions }
    }

    /// All functions in the order of their start, an enclosing function before those inside it.
    ///
    /// The first call reads every function with the grammar, which takes some 200 ms a megabyte. In texts above 8 MiB
    /// it does not: no errors are reported there, and no GNU C functions in functions.
    pub fn functions(&self, text: &str) -> Vec<Function> {
        let may_read = text.len() <= LONGEST_READ;
        self.definitions.iter().flat_map(|placed| placed.functions(text, self.language, may_read)).collect()
    }

    /// The innermost function whose span touches `offset`; a lambda belongs to its enclosing function.
    ///
    /// Of two functions that meet at `offset` it is the one that starts there.
    pub fn function_at(&self, text: &str, offset: usize) -> Result<Function, NoFunction> {
        let functions =
            self.around(offset).map(|placed| placed.functions(text, self.language, true)).unwrap_or_default();
        let innermost = functions
            .into_iter()
            .rev()
            .find(|function| function.span.start <= offset && function.span.touches(offset));
        let none = || if self.definitions.is_empty() { NoFunction::Empty } else { NoFunction::Outside };
        innermost.ok_or_else(none)
    }
}

impl SyntaxTree {
    /// Whether [`function_at`](Self::function_at) takes milliseconds at most: the definition there is short, or has
    /// been read.
    pub fn is_quick_at(&self, offset: usize) -> bool {
        let around = self.around(offset);
        around.is_none_or(|placed| {
            placed.function.span.len() <= QUICK_BYTES || placed.part.inside.get().is_some()
        })
    }

    fn around(&self, offset: usize) -> Option<&Placed> {
        let started = self.definitions.partition_point(|placed| placed.function.span.start <= offset);
        self.definitions[..started].last().filter(|placed| placed.function.span.touches(offset))
    }
}

impl Placed {
    fn new(definition: scan::Definition) -> Placed {
        let scan::Definition { function, body_start, class, has_handlers } = definition;
        let body_start = body_start.saturating_sub(function.span.start);
        let part = Part { body_start, class, has_handlers, inside: OnceLock::new() };
        Placed { function, part: Arc::new(part) }
    }

    /// The function and those inside it.
    fn functions(&self, text: &str, language: Language, may_read: bool) -> Vec<Function> {
        let start = self.function.span.start;
        let own_text = self.function.span.of(text).unwrap_or("");
        let unread;
        let inside = match self.part.inside.get() {
            None if !may_read => {
                unread = self.part.without_grammar(own_text, language);
                &unread
            }
            _ => self.part.inside.get_or_init(|| self.part.read(own_text, language)),
        };
        let mut function = self.function.clone();
        function.parse_errors |= inside.has_errors;
        std::iter::once(function)
            .chain(inside.functions.iter().map(|inner| inner.clone().shifted(start)))
            .collect()
    }
}

impl Part {
    fn read(&self, text: &str, language: Language) -> Inside {
        let reading = tree::read(text, self.body_start, language, self.class.as_deref());
        let mut inside = self.without_grammar(text, language);
        inside.functions.extend(reading.nested);
        inside.functions.sort_by_key(|function| (function.span.start, std::cmp::Reverse(function.span.end)));
        inside.has_errors = reading.has_errors;
        inside
    }

    fn without_grammar(&self, text: &str, language: Language) -> Inside {
        let functions = match language {
            Language::C => Vec::new(),
            Language::Cpp => {
                let mut local = scan::local_definitions(text, ByteSpan::new(self.body_start, text.len()));
                local.sort_by_key(|function| (function.span.start, std::cmp::Reverse(function.span.end)));
                local
            }
        };
        Inside { has_errors: false, functions }
    }
}

impl Edit {
    /// This edit and then another as one, which covers both.
    pub fn then(self, next: Edit) -> Edit {
        let covered = self.new_end.max(next.old_end);
        Edit {
            start: self.start.min(next.start),
            old_end: covered - self.new_end + self.old_end,
            new_end: covered - next.old_end + next.new_end,
        }
    }

    fn turns(self, old: &str, new: &str) -> bool {
        let (old, new) = (old.as_bytes(), new.as_bytes());
        self.start <= self.old_end
            && self.start <= self.new_end
            && old.get(..self.start).is_some_and(|start| new.get(..self.start) == Some(start))
            && old.get(self.old_end..).is_some_and(|end| new.get(self.new_end..) == Some(end))
    }
}
