//! From LSP's types to ours.

use super::ext::ExplainParams;
use crate::analysis::Options;
use crate::annotations::Label;
use crate::text::{Position, PositionEncoding};
use serde_json::Value;
use std::path::{Component, Path, PathBuf};
use tower_lsp::jsonrpc::{Error, Result};
use tower_lsp::ls_types::{self, PositionEncodingKind, Uri};

pub(crate) fn position(position: ls_types::Position) -> Position {
    Position { line: position.line, character: position.character }
}

pub(crate) fn position_encoding(kind: &PositionEncodingKind) -> Option<PositionEncoding> {
    match kind.as_str() {
        "utf-8" => Some(PositionEncoding::Utf8),
        "utf-16" => Some(PositionEncoding::Utf16),
        "utf-32" => Some(PositionEncoding::Utf32),
        _ => None,
    }
}

/// The path of a `file:` URI.
pub(crate) fn file_path(uri: &Uri) -> Option<PathBuf> {
    (uri.scheme().as_str() == "file").then(|| uri.to_file_path())?.map(|path| without_dots(&path))
}

/// Without `.` and `..`, as RFC 3986 resolves them, so that a path lies where it begins.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

pub(crate) fn extension(uri: &Uri) -> Option<String> {
    let path = uri.to_file_path()?;
    Some(path.extension()?.to_string_lossy().into_owned())
}

/// The options of an explain request on top of the document's.
pub(crate) fn options(params: &ExplainParams, mut options: Options) -> Result<Options> {
    if let Some(method) = &params.method {
        options.method = method.parse().map_err(invalid_params)?;
    }
    if let Some(profile) = &params.profile {
        options.profile = profile.parse().map_err(invalid_params)?;
    }
    Ok(options)
}

/// A label by its name in the annotation files.
pub(crate) fn label(name: &str) -> Result<Label> {
    match name {
        "vulnerable" => Ok(Label::Vulnerable),
        "benign" => Ok(Label::Benign),
        "unsure" => Ok(Label::Unsure),
        other => Err(invalid_params(format!("unknown label \"{other}\": use vulnerable, benign or unsure"))),
    }
}

/// The one argument of a command.
pub(crate) fn argument<T: serde::de::DeserializeOwned>(command: &str, arguments: Vec<Value>) -> Result<T> {
    let count = arguments.len();
    match (arguments.into_iter().next(), count) {
        (Some(argument), 1) => serde_json::from_value(argument)
            .map_err(|error| invalid_params(format!("{command}: bad argument: {error}"))),
        _ => Err(invalid_params(format!("{command} takes one argument, not {count}"))),
    }
}

/// The one argument of a command that may be left out.
pub(crate) fn optional_argument<T: serde::de::DeserializeOwned + Default>(
    command: &str,
    arguments: Vec<Value>,
) -> Result<T> {
    if arguments.is_empty() { Ok(T::default()) } else { argument(command, arguments) }
}

/// Our part of a client's settings: editors send them with and without the name of the section around them.
pub(crate) fn section(settings: Value) -> Option<Value> {
    match settings {
        Value::Object(mut object) => match object.remove("linelens") {
            Some(Value::Null) => None,
            Some(section) => Some(section),
            None => Some(Value::Object(object)),
        },
        _ => None,
    }
}

pub(crate) fn invalid_params(message: impl ToString) -> Error {
    Error::invalid_params(message.to_string())
}
