//! The functions of a C or C++ file. The only user of tree-sitter.

use crate::text::ByteSpan;

/// The grammar a document is parsed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    C,
    Cpp,
}

impl Language {
    /// `languageId` of the client wins (`c`, `cpp`, also `objc`-free aliases such as `c++`, `cuda-cpp`); then the
    /// extension: `.c` → C, `.h` → C unless the text parses better as C++, everything else → C++.
    pub fn detect(_extension: Option<&str>, _language_id: Option<&str>, _text: &str) -> Language {
        todo!()
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
        todo!()
    }
}

/// A function definition of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// As written, with its scope where the definition writes one (`Foo::bar`).
    pub name: String,
    pub kind: FunctionKind,
    /// The untouched text of the definition, from its first specifier (template header included) to the closing brace.
    pub span: ByteSpan,
    pub name_span: ByteSpan,
    /// Whether the parser had to recover inside the function.
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
pub struct SyntaxTree {}

impl SyntaxTree {
    pub fn parse(_text: &str, _language: Language) -> SyntaxTree {
        todo!()
    }
    pub fn language(&self) -> Language {
        todo!()
    }
    /// The tree after the text changed; re-parses only what the edit touched. `old` and `new` are the whole texts.
    pub fn edited(&self, _old: &str, _new: &str, _edit: Edit) -> SyntaxTree {
        todo!()
    }
    /// All functions in the order of their start.
    pub fn functions(&self, _text: &str) -> Vec<Function> {
        todo!()
    }
    /// The innermost function whose span touches `offset`; a lambda belongs to its enclosing function.
    pub fn function_at(&self, _text: &str, _offset: usize) -> Result<Function, NoFunction> {
        todo!()
    }
}
