//! How many tokens a model takes.

use super::DetectorError;
use super::directory::{Config, Declaration, ModelFiles};
use crate::graph::Graph;
use crate::graph::attention::{self, WordEmbedding};

/// More tokens than any classifier takes: a table of attention weights would have as many squared.
const MOST_TOKENS: usize = 1 << 16;

/// With fewer there is no function to see.
const LEAST_TOKENS: usize = 8;

/// What limits the number of tokens.
pub(super) struct Positions {
    table: Option<(String, i64)>,
    /// Positions that come before the first token's.
    before: usize,
}

impl Positions {
    pub(super) fn of(graph: &Graph, config: &Config, words: Option<&WordEmbedding>) -> Positions {
        // A shorter table is one of token types or of relative distances.
        let table =
            words.and_then(|words| attention::position_table(graph, words)).filter(|(_, rows)| *rows >= 32);
        let padding = usize::try_from(config.pad_token_id.unwrap_or(1)).unwrap_or(1);
        Positions { table, before: if config.is_roberta() { padding + 1 } else { 0 } }
    }

    pub(super) fn max_tokens(
        &self,
        files: &ModelFiles,
        declared: &Declaration,
        config: &Config,
        tokenizer: Option<usize>,
    ) -> Result<usize, DetectorError> {
        let of_config = config.max_positions.map(|n| n.saturating_sub(self.before));
        let (tokens, source) = match (declared.max_tokens, of_config, tokenizer) {
            (Some(tokens), ..) => (tokens, "max_tokens of detector.toml"),
            (_, Some(tokens), _) => {
                (tokens, "the number of positions in config.json, such as max_position_embeddings")
            }
            (_, _, Some(tokens)) => (tokens, "model_max_length of tokenizer_config.json"),
            // Without a hint, what nearly all encoders take, or what the table has.
            _ => (self.usable().map_or(512, |usable| usable.min(512)), "the default"),
        };
        if let (Some((table, rows)), Some(usable), Some(path)) = (&self.table, self.usable(), &files.config)
            && usable < LEAST_TOKENS
        {
            return Err(DetectorError::Field {
                path: path.clone(),
                key: "pad_token_id".to_string(),
                expected: "the padding token's id, behind which the model's positions start",
                found: format!(
                    "{}, which leaves {usable} of the {rows} positions of tensor \"{table}\"",
                    self.before.saturating_sub(1)
                ),
            });
        }
        if let (Some((table, rows)), Some(usable)) = (&self.table, self.usable())
            && tokens > usable
        {
            return Err(DetectorError::Model {
                path: files.onnx.clone(),
                reason: format!(
                    "tensor \"{table}\" has {rows} positions, of which {usable} are for tokens, expected at least {tokens} ({source}); set max_tokens = {usable} in detector.toml"
                ),
            });
        }
        if tokens > MOST_TOKENS {
            return Err(DetectorError::Model {
                path: files.onnx.clone(),
                reason: format!(
                    "expected room for at most {MOST_TOKENS} tokens, found {tokens} ({source}); set max_tokens in detector.toml to what the model was trained with"
                ),
            });
        }
        if tokens < LEAST_TOKENS {
            return Err(DetectorError::Model {
                path: files.onnx.clone(),
                reason: format!(
                    "expected room for at least {LEAST_TOKENS} tokens, found {tokens} ({source})"
                ),
            });
        }
        Ok(tokens)
    }

    fn usable(&self) -> Option<usize> {
        self.table.as_ref().map(|(_, rows)| usize::try_from(*rows).unwrap_or(0).saturating_sub(self.before))
    }
}
