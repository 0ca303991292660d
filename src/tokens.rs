//! From a function's text to model input, every token with its byte span in the document. The only user of tokenizers.

use crate::text::ByteSpan;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tokenizers::models::ModelWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::{DecoderWrapper, PostProcessorWrapper};

mod hygiene;
mod normalize;
mod window;

use normalize::Normalized;

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

/// The text with each comment as one space.
pub fn without_comments(text: &str) -> String {
    let whole = ByteSpan::new(0, text.len());
    Normalized::new(text, whole, Normalize::StripComments)
        .map_or_else(|| text.to_string(), |normalized| normalized.text().to_string())
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
///
/// Code is text: a special token that is written out in it (`vector<s>`, `"</s>"`) is tokenized like any other text.
/// Hugging Face's pipelines would take it for the token itself unless `split_special_tokens` is set; then code could
/// say where a model's input ends.
#[derive(Debug)]
pub struct Tokenizer {
    /// Without post-processor, padding and truncation: it gives the code tokens and nothing else, and leading
    /// spaces are not trimmed from their spans.
    inner: tokenizers::Tokenizer,
    specials: Specials,
    pad_id: Option<u32>,
    mask_id: Option<u32>,
    vocabulary_size: usize,
    ids_end: u32,
}

/// The special tokens that the post-processor puts around one sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Specials {
    before: Vec<u32>,
    after: Vec<u32>,
    /// A token type other than 0 that the post-processor gives to the text or to these.
    other_type: Option<u32>,
}

impl Tokenizer {
    /// Reads a `tokenizer.json`. Its own padding and truncation settings are switched off.
    pub fn from_bytes(json: &[u8]) -> Result<Tokenizer, TokenizerError> {
        // The crate panics on some malformed files (for example where the post-processor's template names a special
        // token that it does not define), so its panics become errors here.
        catch_unwind(AssertUnwindSafe(|| Self::read(json)))
            .unwrap_or_else(|_| Err(TokenizerError::Read("the file contradicts itself".into())))
    }

    fn read(json: &[u8]) -> Result<Tokenizer, TokenizerError> {
        let read_error = |error: tokenizers::Error| TokenizerError::Read(error.to_string());
        // First, since added tokens are normalized while the file is read.
        hygiene::check_growth(json)?;
        let mut inner = tokenizers::Tokenizer::from_bytes(json).map_err(read_error)?;
        hygiene::without_dropout(&mut inner);

        let padding = inner.get_padding().map(|padding| padding.pad_token.clone());
        let first_known = |names: &[&str]| names.iter().find_map(|name| inner.token_to_id(name));
        let pad_id =
            padding.and_then(|name| inner.token_to_id(&name)).or_else(|| first_known(&["<pad>", "[PAD]"]));
        let mask_id = first_known(&["<mask>", "[MASK]"]);

        inner.with_padding(None).with_truncation(None).map_err(read_error)?;
        let specials = Specials::probe(&mut inner)?;
        inner.set_encode_special_tokens(true);
        let vocabulary = inner.get_vocab(true);
        let specials_of_it = specials.before.iter().chain(&specials.after).copied();
        let highest = vocabulary.values().copied().chain(specials_of_it).max();
        let ids_end = highest.map_or(0, |highest| highest.saturating_add(1));
        Ok(Tokenizer { inner, specials, pad_id, mask_id, vocabulary_size: vocabulary.len(), ids_end })
    }

    /// A short description for `doctor`: model type and vocabulary size, e.g. `byte-level BPE, 16384 tokens`.
    pub fn description(&self) -> String {
        let model = match self.inner.get_model() {
            ModelWrapper::BPE(_) if self.is_byte_level() => "byte-level BPE",
            ModelWrapper::BPE(_) => "BPE",
            ModelWrapper::WordPiece(_) => "WordPiece",
            ModelWrapper::WordLevel(_) => "word-level",
            ModelWrapper::Unigram(_) => "Unigram",
        };
        format!("{model}, {} tokens", self.vocabulary_size())
    }

    pub fn vocabulary_size(&self) -> usize {
        self.vocabulary_size
    }

    /// All ids are below this. It is more than the number of tokens where some ids are not in use.
    pub fn ids_end(&self) -> u32 {
        self.ids_end
    }

    /// A token type other than 0 that the model expects of some tokens of a single text, if there is one.
    pub fn other_token_type(&self) -> Option<u32> {
        self.specials.other_type
    }

    /// The padding token: the one of the file's padding settings, else `<pad>` or `[PAD]`.
    pub fn pad_id(&self) -> Option<u32> {
        self.pad_id
    }

    /// The mask token, `<mask>` or `[MASK]`.
    pub fn mask_id(&self) -> Option<u32> {
        self.mask_id
    }

    /// The bytes that a token of this id stands for; `None` where the tokenizer is not byte-level, so that a token says
    /// nothing about whitespace.
    pub fn bytes_of(&self, id: u32) -> Option<Vec<u8>> {
        let token = self.is_byte_level().then(|| self.inner.id_to_token(id)).flatten()?;
        let mut bytes = Vec::with_capacity(token.len());
        for character in token.chars() {
            match byte_of(character) {
                Some(byte) => bytes.push(byte),
                // An added token is kept as text.
                None => bytes.extend(character.encode_utf8(&mut [0; 4]).bytes()),
            }
        }
        Some(bytes)
    }

    /// Encodes the bytes `function` of `document`. `max_tokens` counts special tokens too.
    ///
    /// The function is tokenised once and its ids are cut into windows, so a token is the same in every window.
    /// Under a normalisation a token's span runs from the first to the last document byte it came from, except that
    /// whitespace which stands for a comment has no bytes of its own: no token claims a comment.
    pub fn encode(
        &self,
        document: &str,
        function: ByteSpan,
        normalize: Normalize,
        max_tokens: usize,
        long: LongPolicy,
    ) -> Result<Encoding, TokenizerError> {
        let specials = self.specials.before.len() + self.specials.after.len();
        if max_tokens <= specials {
            return Err(TokenizerError::Unsupported(format!(
                "the model takes {max_tokens} tokens, which leaves no room for code beside {specials} special tokens"
            )));
        }
        let normalized = Normalized::new(document, function, normalize).ok_or_else(|| {
            TokenizerError::Encode("the span does not lie on the document's characters".into())
        })?;
        let tokens = self.code_tokens(&normalized)?;
        let windows = window::ranges(tokens.len(), max_tokens - specials, long)
            .map(|code| Window {
                ids: self.specials.around(&tokens[code.clone()]),
                code,
                first_code: self.specials.before.len(),
            })
            .collect();
        Ok(Encoding { tokens, windows })
    }

    fn code_tokens(&self, normalized: &Normalized<'_>) -> Result<Vec<Token>, TokenizerError> {
        let text = normalized.text();
        let encoding = catch_unwind(AssertUnwindSafe(|| self.inner.encode(text, false)))
            .map_err(|_| TokenizerError::Encode("the tokenizer failed on this text".into()))?
            .map_err(|error| TokenizerError::Encode(error.to_string()))?;
        let tokens = encoding.get_ids().iter().zip(encoding.get_offsets());
        Ok(tokens
            .map(|(id, (start, end))| Token { id: *id, span: normalized.document_span(*start..*end) })
            .collect())
    }

    fn is_byte_level(&self) -> bool {
        fn is_byte_level(pre_tokenizer: &PreTokenizerWrapper) -> bool {
            match pre_tokenizer {
                PreTokenizerWrapper::ByteLevel(_) => true,
                PreTokenizerWrapper::Sequence(parts) => parts.as_ref().iter().any(is_byte_level),
                _ => false,
            }
        }
        self.inner.get_pre_tokenizer().is_some_and(is_byte_level)
            || matches!(self.inner.get_decoder(), Some(DecoderWrapper::ByteLevel(_)))
    }
}

/// The byte that a character of a byte-level vocabulary stands for (GPT-2's table: printable Latin-1 stands for itself,
/// and the other bytes, in their order, are the characters from U+0100 on).
fn byte_of(character: char) -> Option<u8> {
    let printable = |byte: u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    match u32::from(character) {
        code @ 0..=0xff => u8::try_from(code).ok().filter(|byte| printable(*byte)),
        code => (0..=0xffu8).filter(|byte| !printable(*byte)).nth(code as usize - 0x100),
    }
}

impl Specials {
    /// Finds the special tokens by encoding texts with the post-processor, removing it, and encoding them again.
    fn probe(tokenizer: &mut tokenizers::Tokenizer) -> Result<Specials, TokenizerError> {
        let encode = |tokenizer: &tokenizers::Tokenizer| {
            let encodings = ["int", "a", "0", "the"].map(|text| tokenizer.encode(text, true));
            let encodings: Result<Vec<_>, _> = encodings.into_iter().collect();
            encodings.map_err(|error| TokenizerError::Read(error.to_string()))
        };
        let with = encode(tokenizer)?;
        tokenizer.with_post_processor(None::<PostProcessorWrapper>);
        for (all, code) in with.iter().zip(encode(tokenizer)?) {
            let (code, ids) = (code.get_ids(), all.get_ids());
            if code.is_empty() {
                continue;
            }
            let mask = all.get_special_tokens_mask();
            let first = mask.iter().position(|special| *special == 0);
            let rest = first.and_then(|first| ids.get(first..)?.strip_prefix(code));
            if let (Some(first), Some(after)) = (first, rest)
                && mask.iter().rev().take(after.len()).all(|special| *special == 1)
            {
                let other_type = all.get_type_ids().iter().copied().find(|of_token| *of_token != 0);
                return Ok(Specials { before: ids[..first].to_vec(), after: after.to_vec(), other_type });
            }
            return Err(TokenizerError::Unsupported(
                "the tokenizer's post-processor does more than add special tokens before and after the text"
                    .into(),
            ));
        }
        Err(TokenizerError::Unsupported("the tokenizer gives no tokens even for plain words".into()))
    }

    fn around(&self, code: &[Token]) -> Vec<u32> {
        let mut ids = Vec::with_capacity(self.before.len() + code.len() + self.after.len());
        ids.extend_from_slice(&self.before);
        ids.extend(code.iter().map(|token| token.id));
        ids.extend_from_slice(&self.after);
        ids
    }
}
