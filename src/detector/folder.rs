//! Where a model's weights lie. External data is untrusted: nothing outside of the model's own folder is read.

use super::DetectorError;
use crate::graph::onnx::TensorProto;
use crate::graph::{ExternalData, Graph, Weights};
use bytes::Bytes;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
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
            let metadata = std::fs::metadata(&target).map_err(|error| bad(error.to_string()))?;
            // Reading a pipe or a device may never end.
            if !metadata.is_file() {
                return Err(bad("expected a regular file, found something else".to_string()));
            }
            let size = metadata.len();
            let end = data.offset.saturating_add(data.length);
            if end > size {
                return Err(bad(format!(
                    "expected at least {end} bytes (offset {}, length {}), found {size}: copy the file again",
                    data.offset, data.length
                )));
            }
        }
        Ok(Folder { path, file, copied: false })
    }

    /// Reads the external data into the graph, and nothing else of its files.
    pub(super) fn copy_into(&mut self, graph: &mut Graph) -> Result<(), DetectorError> {
        let path = self.onnx();
        let mut files: HashMap<String, File> = HashMap::new();
        for data in graph.external_data() {
            let raw = self.read(&mut files, &data).map_err(|error| DetectorError::ExternalData {
                path: path.clone(),
                tensor: data.tensor.clone(),
                file: data.location.clone(),
                reason: error.to_string(),
            })?;
            graph
                .set_data(&data, Bytes::from(raw))
                .map_err(|source| DetectorError::Graph { path: path.clone(), source })?;
        }
        self.copied = true;
        Ok(())
    }

    pub(super) fn onnx(&self) -> PathBuf {
        self.path.join(&self.file)
    }

    pub(super) fn file(&self, data: &ExternalData) -> PathBuf {
        self.path.join(&data.location)
    }

    /// The values of a float initializer, wherever they are.
    pub(super) fn floats(
        &self,
        files: &mut HashMap<String, File>,
        tensor: &TensorProto,
        external: Option<&ExternalData>,
    ) -> Result<Vec<f32>, String> {
        let failed = |reason: String| format!("initializer \"{}\": {reason}", tensor.name());
        let raw = match (external, &tensor.raw_data) {
            (Some(data), _) => {
                Bytes::from(self.read(files, data).map_err(|error| failed(error.to_string()))?)
            }
            (None, Some(raw)) if !raw.is_empty() => raw.clone(),
            _ => return Ok(tensor.float_data.clone()),
        };
        Ok(raw.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }

    fn read(&self, files: &mut HashMap<String, File>, data: &ExternalData) -> std::io::Result<Vec<u8>> {
        let file = match files.entry(data.location.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(File::open(self.file(data))?),
        };
        file.seek(SeekFrom::Start(data.offset))?;
        let mut raw = vec![0; usize::try_from(data.length).map_err(std::io::Error::other)?];
        file.read_exact(&mut raw)?;
        Ok(raw)
    }

    pub(super) fn weights(&self) -> Weights<'_> {
        if self.copied { Weights::Inline } else { Weights::InFile(&self.file) }
    }
}
