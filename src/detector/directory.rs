//! The files of a model directory and what they declare.

use super::DetectorError;
use super::attribution::DERIVATION;
use crate::graph::Graph;
use crate::tokens::{LongPolicy, Normalize};
use bytes::Bytes;
use std::path::{Path, PathBuf};

/// A protobuf message cannot be longer.
const LARGEST_MODEL: u64 = i32::MAX as u64;
/// More than any tokenizer.json or config.json has.
const LARGEST_JSON: u64 = 64 << 20;
/// More than any detector.toml has.
const LARGEST_TOML: u64 = 1 << 20;
/// −1 stands for none. Positions are counted from here, so there must be room for some.
const PAD_TOKEN_IDS: std::ops::RangeInclusive<i64> = -1..=1 << 30;

/// The files of a model directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ModelFiles {
    pub(super) onnx: PathBuf,
    pub(super) tokenizer: PathBuf,
    pub(super) config: Option<PathBuf>,
    pub(super) tokenizer_config: Option<PathBuf>,
    pub(super) detector: Option<PathBuf>,
}

impl ModelFiles {
    pub(super) fn find(directory: &Path) -> Result<ModelFiles, DetectorError> {
        if !directory.is_dir() {
            let found = if directory.exists() { "a file" } else { "nothing" };
            return Err(DetectorError::NoDirectory { path: directory.to_path_buf(), found });
        }
        let onnx = find_onnx(directory)?;
        let mut folders = vec![directory.to_path_buf()];
        folders.extend(onnx.parent().map(Path::to_path_buf).filter(|folder| folder != directory));
        // `…/onnx` itself may have been named as the directory.
        if directory.file_name().is_some_and(|name| name == "onnx") {
            folders.extend(directory.parent().map(Path::to_path_buf));
        }
        let file = |name: &str| folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
        if let Some(path) =
            folders.iter().map(|folder| folder.join("tokenizer.json")).find(|path| path.exists())
        {
            check_regular(&path)?;
        }
        let tokenizer = file("tokenizer.json").ok_or_else(|| {
            let old = ["vocab.json", "vocab.txt", "spiece.model", "tokenizer.model"];
            let advice = match old.iter().find(|name| file(name).is_some()) {
                Some(old) => format!(
                    "found {old}, which is the slow form of a tokenizer: AutoTokenizer.from_pretrained(…, use_fast=True).save_pretrained(…) writes a tokenizer.json"
                ),
                None => "copy it there from the model's repository".to_string(),
            };
            DetectorError::MissingFile { directory: directory.to_path_buf(), file: "tokenizer.json", advice }
        })?;
        Ok(ModelFiles {
            onnx,
            tokenizer,
            config: file("config.json"),
            tokenizer_config: file("tokenizer_config.json"),
            detector: file("detector.toml"),
        })
    }
}

fn find_onnx(directory: &Path) -> Result<PathBuf, DetectorError> {
    for name in ["model.onnx", "onnx/model.onnx"] {
        let path = directory.join(name);
        if path.exists() {
            check_regular(&path)?;
            return Ok(path);
        }
    }
    let mut models: Vec<PathBuf> = [directory.to_path_buf(), directory.join("onnx")]
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "onnx") && path.is_file())
        .collect();
    models.sort();
    if models.len() > 1 {
        models.retain(|path| !is_derived(path));
    }
    match models.len() {
        1 => Ok(models.remove(0)),
        0 => {
            let weights = ["model.safetensors", "pytorch_model.bin"];
            let advice = match weights.iter().find(|name| directory.join(name).is_file()) {
                Some(weights) => format!(
                    "found {weights}: export the model to ONNX, with models/export of linelens's source or `optimum-cli export onnx --task text-classification`"
                ),
                None => "expected model.onnx, onnx/model.onnx or exactly one other *.onnx file".to_string(),
            };
            Err(DetectorError::MissingFile { directory: directory.to_path_buf(), file: "model.onnx", advice })
        }
        _ => Err(DetectorError::SeveralModels {
            directory: directory.to_path_buf(),
            models: models
                .iter()
                .map(|path| path.strip_prefix(directory).unwrap_or(path).display().to_string())
                .collect::<Vec<_>>()
                .join(", "),
        }),
    }
}

/// Whether `linelens graph` wrote the file, beside the model that it was made from.
fn is_derived(path: &Path) -> bool {
    let graph = read_onnx(path, 0).ok().and_then(|bytes| Graph::read(bytes).ok());
    graph.is_some_and(|graph| graph.described(DERIVATION).is_some())
}

/// Reads a whole file after a look at its size.
pub(super) fn read(path: &Path, largest: u64) -> Result<Vec<u8>, DetectorError> {
    size_of(path, largest)?;
    std::fs::read(path).map_err(unreadable(path))
}

pub(super) fn unreadable(path: &Path) -> impl Fn(std::io::Error) -> DetectorError + '_ {
    |error| DetectorError::Read { path: path.to_path_buf(), reason: error.to_string() }
}

/// Reading a pipe or a device may never end.
fn check_regular(path: &Path) -> Result<std::fs::Metadata, DetectorError> {
    let metadata = std::fs::metadata(path).map_err(unreadable(path))?;
    if !metadata.is_file() {
        let reason = "expected a regular file, found something else".to_string();
        return Err(DetectorError::Read { path: path.to_path_buf(), reason });
    }
    Ok(metadata)
}

/// The size of a regular file that is neither empty nor too large.
fn size_of(path: &Path, largest: u64) -> Result<u64, DetectorError> {
    let size = check_regular(path)?.len();
    if size == 0 || size > largest {
        return Err(DetectorError::Size { path: path.to_path_buf(), found: size, largest });
    }
    Ok(size)
}

/// The model's file. From `mapped_from` bytes on it is mapped, which takes neither the time nor the memory of a copy.
pub(super) fn read_onnx(path: &Path, mapped_from: u64) -> Result<Bytes, DetectorError> {
    if size_of(path, LARGEST_MODEL)? < mapped_from {
        return Ok(read(path, LARGEST_MODEL)?.into());
    }
    let file = std::fs::File::open(path).map_err(unreadable(path))?;
    // reason: whoever overwrites such a file while it is in use ends the process: see `crate::detector`.
    #[allow(unsafe_code)]
    let map = unsafe { memmap2::Mmap::map(&file) }.map_err(unreadable(path))?;
    Ok(Bytes::from_owner(map))
}

pub(super) fn read_json(path: &Path) -> Result<Vec<u8>, DetectorError> {
    read(path, LARGEST_JSON)
}

/// What `config.json` says, as far as it matters here. Hugging Face's own fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Config {
    pub(super) model_type: Option<String>,
    /// By index.
    pub(super) labels: Option<Vec<String>>,
    pub(super) max_positions: Option<usize>,
    pub(super) pad_token_id: Option<i64>,
}

impl Config {
    pub(super) fn read(path: &Path) -> Result<Config, DetectorError> {
        let object = json_object(path)?;
        let bad = |key: &str, expected: &'static str, found: &serde_json::Value| DetectorError::Field {
            path: path.to_path_buf(),
            key: key.to_string(),
            expected,
            found: found.to_string(),
        };
        let number = |key: &str| match object.get(key) {
            None | Some(serde_json::Value::Null) => Ok(None),
            Some(value) => value.as_i64().map(Some).ok_or_else(|| bad(key, "a whole number", value)),
        };
        let string = |key: &str| match object.get(key) {
            None | Some(serde_json::Value::Null) => Ok(None),
            Some(serde_json::Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(bad(key, "a string", other)),
        };
        let model_type = string("model_type")?;
        if string("problem_type")?.as_deref() == Some("multi_label_classification") {
            // Its logits do not compete, so that a softmax over them would be wrong.
            return Err(bad("problem_type", "single_label_classification", &object["problem_type"]));
        }
        let mut max_positions = None;
        for key in ["max_position_embeddings", "n_positions", "max_sequence_length"] {
            if let Some(value) = number(key)?.filter(|&n| n > 0) {
                max_positions = usize::try_from(value).ok();
                break;
            }
        }
        let pad_token_id = match number("pad_token_id")? {
            Some(id) if !PAD_TOKEN_IDS.contains(&id) => {
                return Err(bad(
                    "pad_token_id",
                    "a token's number, at most 1073741824",
                    &object["pad_token_id"],
                ));
            }
            id => id,
        };
        let labels = match object.get("id2label") {
            None | Some(serde_json::Value::Null) => None,
            Some(value) => Some(labels(value).ok_or_else(|| {
                bad("id2label", "an object from the indices 0, 1, … to label names", value)
            })?),
        };
        Ok(Config { model_type, labels, max_positions, pad_token_id })
    }

    /// Positions start behind the padding index in models of this kind, so that two fewer are usable.
    pub(super) fn is_roberta(&self) -> bool {
        const KINDS: [&str; 9] = [
            "roberta",
            "xlm-roberta",
            "xlm-roberta-xl",
            "camembert",
            "longformer",
            "data2vec-text",
            "roberta-prelayernorm",
            "mpnet",
            "xmod",
        ];
        self.model_type.as_deref().is_some_and(|kind| KINDS.contains(&kind))
    }

    /// Whether all padding has one position, so that each padding token more has the same effect as the one before it.
    pub(super) fn padding_shares_a_position(&self) -> bool {
        const KINDS: [&str; 5] =
            ["roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "roberta-prelayernorm"];
        self.model_type.as_deref().is_some_and(|kind| KINDS.contains(&kind))
    }
}

/// The names in index order.
fn labels(value: &serde_json::Value) -> Option<Vec<String>> {
    let object = value.as_object()?;
    let mut names = vec![None; object.len()];
    for (index, name) in object {
        *names.get_mut(index.parse::<usize>().ok()?)? = Some(name.as_str()?.to_string());
    }
    names.into_iter().collect()
}

/// `model_max_length` of `tokenizer_config.json`, where it means something.
pub(super) fn tokenizer_limit(path: &Path) -> Option<usize> {
    let object = json_object(path).ok()?;
    let limit = object.get("model_max_length")?.as_u64()?;
    (8..=1 << 20).contains(&limit).then_some(limit as usize)
}

fn json_object(path: &Path) -> Result<serde_json::Map<String, serde_json::Value>, DetectorError> {
    let parsed: Result<serde_json::Value, _> = serde_json::from_slice(&read_json(path)?);
    match parsed {
        Ok(serde_json::Value::Object(object)) => Ok(object),
        Ok(_) => Err(DetectorError::Json {
            path: path.to_path_buf(),
            reason: "expected an object, found something else".to_string(),
        }),
        Err(error) => Err(DetectorError::Json { path: path.to_path_buf(), reason: error.to_string() }),
    }
}

/// The label that means "vulnerable".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Label {
    Name(String),
    Index(usize),
}

/// Whether an output holds logits or probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputKind {
    Logits,
    Probabilities,
}

/// What `detector.toml` declares. Every key is optional; an unknown one is an error.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Declaration {
    pub(super) name: Option<String>,
    pub(super) positive_label: Option<Label>,
    pub(super) threshold: Option<f64>,
    pub(super) normalize: Option<Normalize>,
    pub(super) long: Option<LongPolicy>,
    pub(super) max_tokens: Option<usize>,
    pub(super) logits: Option<String>,
    pub(super) output: Option<OutputKind>,
    /// The output that holds the model's own relevance of each token.
    pub(super) relevance: Option<String>,
}

impl Declaration {
    pub(super) fn read(path: &Path) -> Result<Declaration, DetectorError> {
        let bytes = match std::fs::metadata(path) {
            // An empty file declares nothing.
            Ok(metadata) if metadata.is_file() && metadata.len() == 0 => Vec::new(),
            _ => read(path, LARGEST_TOML)?,
        };
        let wrong = |reason: String| DetectorError::Toml { path: path.to_path_buf(), reason };
        let text = String::from_utf8(bytes).map_err(|error| wrong(error.to_string()))?;
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| wrong(error.to_string()))?;
        let mut declared = Declaration::default();
        for (key, value) in &table {
            let bad = |expected: &'static str| DetectorError::Field {
                path: path.to_path_buf(),
                key: key.clone(),
                expected,
                found: value.to_string(),
            };
            match key.as_str() {
                "name" => declared.name = Some(value.as_str().ok_or_else(|| bad("a string"))?.to_string()),
                "positive_label" => {
                    let index = value.as_integer().and_then(|n| usize::try_from(n).ok()).map(Label::Index);
                    let name = value.as_str().map(|text| Label::Name(text.to_string()));
                    declared.positive_label =
                        Some(index.or(name).ok_or_else(|| bad("a label's name or its index from 0"))?);
                }
                "threshold" => {
                    let number = value.as_float().filter(|&t| t > 0.0 && t < 1.0);
                    declared.threshold = Some(number.ok_or_else(|| bad("a number between 0 and 1"))?);
                }
                "normalize" => {
                    declared.normalize = Some(match value.as_str() {
                        Some("none") => Normalize::None,
                        Some("strip-comments") => Normalize::StripComments,
                        Some("collapse-whitespace") => Normalize::CollapseWhitespace,
                        _ => return Err(bad("\"none\", \"strip-comments\" or \"collapse-whitespace\"")),
                    });
                }
                "long" => {
                    declared.long = Some(match value.as_str() {
                        Some("window") => LongPolicy::Window,
                        Some("truncate") => LongPolicy::Truncate,
                        _ => return Err(bad("\"window\" or \"truncate\"")),
                    });
                }
                "max_tokens" => {
                    let number = value.as_integer().and_then(|n| usize::try_from(n).ok()).filter(|&n| n >= 8);
                    declared.max_tokens = Some(number.ok_or_else(|| bad("a whole number of at least 8"))?);
                }
                "logits" => {
                    declared.logits =
                        Some(value.as_str().ok_or_else(|| bad("an output's name"))?.to_string());
                }
                "output" => {
                    declared.output = Some(match value.as_str() {
                        Some("logits") => OutputKind::Logits,
                        Some("probabilities") => OutputKind::Probabilities,
                        _ => return Err(bad("\"logits\" or \"probabilities\"")),
                    });
                }
                "relevance" => {
                    declared.relevance =
                        Some(value.as_str().ok_or_else(|| bad("an output's name"))?.to_string());
                }
                _ => {
                    return Err(DetectorError::UnknownKey { path: path.to_path_buf(), key: key.clone() });
                }
            }
        }
        Ok(declared)
    }
}
