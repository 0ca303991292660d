//! From a function's text to model input, every token with its byte span in the document. The only user of tokenizers.

use crate::text::ByteSpan;
use std::ops::Range;

/// What a detector's training did to the text before tokenisation. Offsets stay mapped to the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Normalize {
    #[default]
    None,
    /// Each comment becomes one space; the newlines inside a block comment are kept.
    StripComments,
    /// Each run of whitespace becomes one space; none at either end (CodeXGLUE: `' '.join(code.split())`).
    CollapseWhitespace,
}

/// What to do with a function that has more tokens than the model takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum LongPolicy {
    /// Windows overlapping by a quarter.
    #[default]
    Window,
    /// The first tokens only; what the model did not see is *unseen*.
    Truncate,
}

/// A code token: special tokens are not among these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub id: u32,
    /// Bytes of the document. Tokens that split a character overlap; zero-width spans occur.
    pub span: ByteSpan,
}

/// One model input: `ids` holds special tokens and the code tokens `code`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    pub ids: Vec<u32>,
    /// Which of [`Encoding::tokens`] the window holds.
    pub code: Range<usize>,
    /// Index in `ids` of the window's first code token; the code tokens are consecutive.
    pub first_code: usize,
}

/// A function as model input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// All code tokens of the function, also those no window holds.
    pub tokens: Vec<Token>,
    /// At least one, in order.
    pub windows: Vec<Window>,
}

impl Encoding {
    /// Whether the model does not see all tokens.
    pub fn truncated(&self) -> bool {
        self.windows.last().is_none_or(|w| w.code.end < self.tokens.len())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    #[error("not a tokenizer.json: {0}")]
    Read(String),
    #[error("tokenization failed: {0}")]
    Encode(String),
    #[error("{0}")]
    Unsupported(String),
}

/// A Hugging Face `tokenizer.json`.
#[derive(Debug)]
pub struct Tokenizer {}

impl Tokenizer {
    /// Reads a `tokenizer.json`. Its own padding and truncation settings are switched off.
    pub fn from_bytes(_json: &[u8]) -> Result<Tokenizer, TokenizerError> {
        todo!()
    }
    /// A short description for `doctor`: model type and vocabulary size, e.g. `byte-level BPE, 16384 tokens`.
    pub fn description(&self) -> String {
        todo!()
    }
    pub fn vocabulary_size(&self) -> usize {
        todo!()
    }
    /// Encodes the bytes `function` of `document`. `max_tokens` counts special tokens too.
    pub fn encode(
        &self,
        _document: &str,
        _function: ByteSpan,
        _normalize: Normalize,
        _max_tokens: usize,
        _long: LongPolicy,
    ) -> Result<Encoding, TokenizerError> {
        todo!()
    }
}
