//! Where a model's weights lie. External data is untrusted: nothing outside of the model's own folder is read.

use super::DetectorError;
use crate::graph::{Graph, Weights};
use bytes::Bytes;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The folder that the weights lie in, after a check of all that the model refers to.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// Name of the ONNX file in it.
    pub(super) file: String,
    /// The weights are in the graph, not in the files.
    pub(super) copied: bool,
}

impl Folder {
    pub(super) fn of(onnx: &Path, graph: &Graph) -> Result<Folder, DetectorError> {
        let read = |error: std::io::Error| DetectorError::Read {
            path: onnx.to_path_buf(),
            reason: error.to_string(),
        };
        // Symbolic links are resolved first: a reference must not lead out of the folder, and the rewritten model
        // refers to the ONNX file itself.
        let resolved = onnx.canonicalize().map_err(read)?;
        let unnamed = || DetectorError::Read {
            path: onnx.to_path_buf(),
            reason: "its name is not valid Unicode, expected one that is: rename it".to_string(),
        };
        let file = resolved.file_name().and_then(|name| name.to_str()).ok_or_else(unnamed)?.to_string();
        let path = resolved.parent().ok_or_else(unnamed)?.to_path_buf();
        for data in graph.external_data() {
            let bad = |reason: String| DetectorError::ExternalData {
                path: onnx.to_path_buf(),
                tensor: data.tensor.clone(),
                file: data.location.clone(),
                reason,
            };
            let target = path
                .join(&data.location)
                .canonicalize()
                .map_err(|error| bad(format!("{error}; expected it in {}: copy it there", path.display())))?;
            if !target.starts_with(&path) {
                return Err(bad(format!(
                    "it leads to {}, expected a file inside {}: copy the file there in place of the link",
                    target.display(),
                    path.display()
                )));
            }
            let size = std::fs::metadata(&target).map_err(|error| bad(error.to_string()))?.len();
            let end = data.offset + data.length;
            if end > size {
                return Err(bad(format!(
                    "expected at least {end} bytes (offset {}, length {}), found {size}: copy the file again",
                    data.offset, data.length
                )));
            }
        }
        Ok(Folder { path, file, copied: false })
    }

    /// Reads all external data into the graph.
    pub(super) fn copy_into(&mut self, graph: &mut Graph) -> Result<(), DetectorError> {
        let path = self.path.join(&self.file);
        let mut files: HashMap<String, Bytes> = HashMap::new();
        for data in graph.external_data() {
            let bytes = match files.get(&data.location) {
                Some(bytes) => bytes.clone(),
                None => {
                    let bytes =
                        Bytes::from(std::fs::read(self.path.join(&data.location)).map_err(|error| {
                            DetectorError::ExternalData {
                                path: path.clone(),
                                tensor: data.tensor.clone(),
                                file: data.location.clone(),
                                reason: error.to_string(),
                            }
                        })?);
                    files.insert(data.location.clone(), bytes.clone());
                    bytes
                }
            };
            let range = usize::try_from(data.offset).ok().zip(usize::try_from(data.length).ok());
            let raw = range
                .and_then(|(offset, length)| Some((offset, offset.checked_add(length)?)))
                .filter(|&(_, end)| end <= bytes.len())
                .map_or_else(Bytes::new, |(offset, end)| bytes.slice(offset..end));
            graph
                .set_data(&data, raw)
                .map_err(|source| DetectorError::Graph { path: path.clone(), source })?;
        }
        self.copied = true;
        Ok(())
    }

    pub(super) fn weights(&self) -> Weights<'_> {
        if self.copied { Weights::Inline } else { Weights::InFile(&self.file) }
    }
}
