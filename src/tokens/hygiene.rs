//! What a `tokenizer.json` may ask for and must not get: chance, and texts and memory that grow without bound.

use super::TokenizerError;
use serde_json::Value;
use tokenizers::models::ModelWrapper;
use tokenizers::{NormalizedString, Normalizer, NormalizerWrapper};

/// Real normalizers at most triple a text.
const MOST_GROWTH: usize = 16;
/// Real normalizers put single characters in place of others.
const LONGEST_REPLACEMENT: usize = 1024;

/// Dropout makes merges fail by chance in training; here the same text must give the same tokens.
pub(super) fn without_dropout(tokenizer: &mut tokenizers::Tokenizer) {
    if let ModelWrapper::BPE(model) = tokenizer.get_model()
        && model.dropout.is_some()
    {
        let mut model = model.clone();
        model.dropout = None;
        tokenizer.with_model(ModelWrapper::BPE(model));
    }
}

/// Refuses a SentencePiece map of characters that is shorter than it says: the crate would set aside whatever it says.
fn check_charsmaps(normalizer: &Value) -> Result<(), TokenizerError> {
    match normalizer {
        Value::Array(parts) => parts.iter().try_for_each(check_charsmaps),
        Value::Object(fields) => {
            if let Some(Value::String(map)) = fields.get("precompiled_charsmap") {
                let claimed = first_integer(map).map_or(0, u64::from);
                let held = (map.len() as u64 * 3 / 4).saturating_sub(4);
                if claimed > held {
                    return Err(TokenizerError::Read(format!(
                        "precompiled_charsmap: says that its trie has {claimed} bytes, and at most {held} follow; \
                         is the file cut off?"
                    )));
                }
            }
            fields.values().try_for_each(check_charsmaps)
        }
        _ => Ok(()),
    }
}

/// The little-endian integer in the first four bytes of what is written in base64.
fn first_integer(base64: &str) -> Option<u32> {
    let bits = base64.bytes().take(6).try_fold((0u64, 0), |(bits, count), letter| {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        Some((bits << 6 | u64::from(value), count + 1))
    });
    // Six letters hold 36 bits.
    let (bits, 6) = bits? else { return None };
    Some(((bits >> 4) as u32).swap_bytes())
}

/// Refuses a normalizer that makes a text of all printable ASCII characters grow beyond reason.
pub(super) fn check_growth(json: &[u8]) -> Result<(), TokenizerError> {
    // What is wrong with a file that cannot be read is said by the tokenizer itself.
    let Ok(mut file) = serde_json::from_slice::<Value>(json) else { return Ok(()) };
    let Some(normalizer) = file.get_mut("normalizer").map(Value::take) else { return Ok(()) };
    drop(file);
    check_charsmaps(&normalizer)?;
    let Ok(normalizer) = serde_json::from_value::<NormalizerWrapper>(normalizer) else { return Ok(()) };
    let probe: String =
        ('\t'..='\n').chain(' '..='~').chain("int f() {\n    return 0;\n}\n é".chars()).collect();
    apply(&normalizer, &mut NormalizedString::from(probe.as_str()), probe.len() * MOST_GROWTH)
}

/// Part by part, so that growth is noticed while it is small.
fn apply(
    normalizer: &NormalizerWrapper,
    text: &mut NormalizedString,
    most: usize,
) -> Result<(), TokenizerError> {
    let refuse = || {
        Err(TokenizerError::Unsupported(format!(
            "the tokenizer's normalizer makes a text grow more than {MOST_GROWTH} times as long; expected one that does not"
        )))
    };
    match normalizer {
        NormalizerWrapper::Sequence(parts) => {
            return parts.as_ref().iter().try_for_each(|part| apply(part, text, most));
        }
        NormalizerWrapper::Replace(replace) if replace.content.len() > LONGEST_REPLACEMENT => {
            return refuse();
        }
        NormalizerWrapper::Prepend(prepend) if prepend.prepend.len() > LONGEST_REPLACEMENT => {
            return refuse();
        }
        _ => {}
    }
    normalizer.normalize(text).map_err(|error| TokenizerError::Read(error.to_string()))?;
    if text.get().len() > most { refuse() } else { Ok(()) }
}
