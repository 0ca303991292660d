//! Where the ONNX Runtime library and the model directory are. Never inside the workspace that is open, unless the
//! user named the place in a flag, the environment or the user configuration.

use std::path::PathBuf;

/// A place and how it was found, e.g. `ORT_DYLIB_PATH` or `beside the executable`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    pub path: PathBuf,
    pub how: String,
}
