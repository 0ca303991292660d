//! The functions of a C or C++ file. The only user of tree-sitter.
//!
//! Two readers look at each text. [`scan`] finds definitions between declarations by their shape and has the last
//! word on them, because it is not confused by macros and conditionals; [`tree`], the grammar's tree, adds what lies
//! inside function bodies (GNU nested functions, methods of local classes) and what the scan did not recognise, and
//! wins where it read the whole file without an error. It also says where the grammar had to recover.

use crate::text::ByteSpan;
use std::sync::Arc;

mod header;
mod lex;
mod scan;
mod statements;
mod tree;

pub use statements::{Statements, statements};

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
    /// As written, with its scope where the definition writes one (`Foo::bar`).
    pub name: String,
    pub kind: FunctionKind,
    /// The untouched text of the definition, from its first specifier (template header included) to the closing brace,
    /// or to the file's last token where the brace is missing.
    pub span: ByteSpan,
    pub name_span: ByteSpan,
    /// Whether the parser had to recover inside the function, or its end is missing.
    pub parse_errors: bool,
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
#[derive(Clone, Debug)]
pub struct SyntaxTree {
    language: Language,
    /// `None` where the text is too long for the grammar or the parser gave up; the scan does without.
    tree: Option<tree_sitter::Tree>,
    /// In the order of their start, an enclosing function before those inside it.
    functions: Arc<[Function]>,
}

impl SyntaxTree {
    pub fn parse(text: &str, language: Language) -> SyntaxTree {
        SyntaxTree::with_tree(text, language, tree::parse(text, language, None))
    }

    pub fn language(&self) -> Language {
        self.language
    }

    /// The tree after the text changed; re-parses only what the edit touched. `old` and `new` are the whole texts.
    ///
    /// The functions are those that [`parse`](Self::parse) finds. Where the new text has syntax errors the tree
    /// depends on what it was before the edit, so up to a size such a text is parsed afresh. An edit that does not
    /// turn `old` into `new` means a fresh parse too.
    pub fn edited(&self, old: &str, new: &str, edit: Edit) -> SyntaxTree {
        let tree = match &self.tree {
            Some(tree) if edit.turns(old, new) => tree::edited(tree, old, new, edit, self.language),
            _ => tree::parse(new, self.language, None),
        };
        SyntaxTree::with_tree(new, self.language, tree)
    }

    /// All functions in the order of their start.
    pub fn functions(&self, _text: &str) -> Vec<Function> {
        self.functions.to_vec()
    }

    /// The innermost function whose span touches `offset`; a lambda belongs to its enclosing function.
    ///
    /// Of two functions that meet at `offset` it is the one that starts there.
    pub fn function_at(&self, _text: &str, offset: usize) -> Result<Function, NoFunction> {
        let started = self.functions.partition_point(|function| function.span.start <= offset);
        let innermost = self.functions[..started].iter().rev().find(|function| function.span.touches(offset));
        let none = || if self.functions.is_empty() { NoFunction::Empty } else { NoFunction::Outside };
        innermost.cloned().ok_or_else(none)
    }

    fn with_tree(text: &str, language: Language, tree: Option<tree_sitter::Tree>) -> SyntaxTree {
        let scanned = scan::definitions(text, language);
        let functions = match &tree {
            Some(tree) => tree::complete(tree, text, scanned),
            None => in_order(scanned),
        };
        SyntaxTree { language, tree, functions: functions.into() }
    }
}

impl Edit {
    fn turns(self, old: &str, new: &str) -> bool {
        let (old, new) = (old.as_bytes(), new.as_bytes());
        self.start <= self.old_end
            && self.start <= self.new_end
            && old.get(..self.start).is_some_and(|start| new.get(..self.start) == Some(start))
            && old.get(self.old_end..).is_some_and(|end| new.get(self.new_end..) == Some(end))
    }
}

fn in_order(mut functions: Vec<Function>) -> Vec<Function> {
    functions.sort_by_key(|function| (function.span.start, std::cmp::Reverse(function.span.end)));
    functions.dedup_by_key(|function| function.span);
    functions
}
