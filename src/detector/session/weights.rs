//! Weights that several sessions of a model use. They stay in the model's file, mapped: what sessions work with is the
//! form that ONNX Runtime laid them out in for this machine, of which there is one for all of them.

use memmap2::Mmap;
use ort::AsPointer;
use ort::memory::{Allocator, MemoryInfo};
use ort::session::builder::PrepackedWeights;
use ort::value::{DynValue, Tensor};
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Weights that several sessions of a model use without a copy, and the form that ONNX Runtime laid them out in for this
/// machine. For the CPU only.
#[derive(Clone)]
pub struct SharedWeights {
    tensors: HashMap<String, Arc<DynValue>>,
    files: HashMap<PathBuf, Arc<Mmap>>,
    pub(super) prepacked: PrepackedWeights,
}

impl Default for SharedWeights {
    fn default() -> Self {
        SharedWeights { tensors: HashMap::new(), files: HashMap::new(), prepacked: PrepackedWeights::new() }
    }
}

impl std::fmt::Debug for SharedWeights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedWeights").field("tensors", &self.tensors.len()).finish()
    }
}

impl SharedWeights {
    pub fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    pub fn insert(&mut self, name: &str, shape: &[i64], values: Vec<f32>) -> Result<(), String> {
        let tensor = Tensor::from_array((shape.to_vec(), values)).map_err(|error| error.to_string())?;
        self.tensors.insert(name.to_string(), Arc::new(tensor.into_dyn()));
        Ok(())
    }

    /// A float tensor in these bytes of a file, in the byte order of this machine.
    pub fn map(&mut self, name: &str, shape: &[i64], file: &Path, bytes: Range<u64>) -> Result<(), String> {
        let map = match self.files.get(file) {
            Some(map) => map.clone(),
            None => {
                let opened = File::open(file).map_err(|error| format!("{}: {error}", file.display()))?;
                // reason: the bytes are never read as Rust values, so that they may change means wrong numbers at worst. A
                // file that gets shorter ends the process, as with ONNX Runtime's own mapping: see `crate::detector`.
                #[allow(unsafe_code)]
                let map =
                    unsafe { Mmap::map(&opened) }.map_err(|error| format!("{}: {error}", file.display()))?;
                let map = Arc::new(map);
                self.files.insert(file.to_path_buf(), map.clone());
                map
            }
        };
        let elements = shape.iter().try_fold(1u64, |all, size| all.checked_mul(u64::try_from(*size).ok()?));
        let place = usize::try_from(bytes.start).ok().zip(usize::try_from(bytes.end).ok());
        let slice = place.and_then(|(start, end)| map.get(start..end)).filter(|slice| {
            elements.and_then(|elements| elements.checked_mul(4)) == Some(slice.len() as u64)
        });
        let Some(slice) = slice else {
            return Err(format!(
                "{}: expected the float tensor \"{name}\" of the shape {shape:?} in the bytes {bytes:?}, found a file of {} bytes",
                file.display(),
                map.len()
            ));
        };
        let value = borrowed(slice, shape).map_err(|error| error.to_string())?;
        self.tensors.insert(name.to_string(), Arc::new(value));
        Ok(())
    }

    pub(super) fn tensor(&self, name: &str) -> Option<&Arc<DynValue>> {
        self.tensors.get(name)
    }

    /// What a session that uses the tensors has to keep.
    pub(super) fn files(&self) -> Vec<Arc<Mmap>> {
        self.files.values().cloned().collect()
    }

    /// Opens a session while the pages that it reads weights from leave memory again: they are needed once, and would
    /// take as much as the weights.
    pub(super) fn while_passing<T>(&self, open: impl FnOnce() -> T) -> T {
        if self.files.is_empty() {
            return open();
        }
        let (done, is_done) = channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while let Err(RecvTimeoutError::Timeout) = is_done.recv_timeout(Duration::from_millis(10)) {
                    self.leave();
                }
                self.leave();
            });
            let opened = open();
            drop(done);
            opened
        })
    }

    fn leave(&self) {
        #[cfg(unix)]
        for map in self.files.values() {
            // reason: the mapping is of a file and read-only, so its pages come back as they were when they are next read.
            #[allow(unsafe_code)]
            let left = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
            if let Err(error) = left {
                tracing::debug!(target: "linelens::ort", "weights stay in memory: {error}");
            }
        }
    }
}

/// A float tensor of this shape that lies in `bytes`, of which the caller keeps the owner. They need no alignment, as
/// those do not that ONNX Runtime maps itself.
fn borrowed(bytes: &[u8], shape: &[i64]) -> ort::Result<DynValue> {
    let memory = MemoryInfo::default();
    let mut value = null_mut();
    // reason: the binding makes values of memory that Rust owns only. The call reads the shape, and keeps the pointer to
    // bytes of which the caller has checked the number. Initializers are never written to.
    #[allow(unsafe_code)]
    unsafe {
        let create = ort::api().CreateTensorWithDataAsOrtValue;
        let status = create(
            memory.ptr(),
            bytes.as_ptr().cast_mut().cast(),
            bytes.len(),
            shape.as_ptr(),
            shape.len(),
            ort::sys::ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
            &mut value,
        );
        ort::Error::result_from_status(status)?;
        let value = NonNull::new(value).ok_or_else(|| ort::Error::new("no tensor was made"))?;
        Ok(DynValue::from_ptr(value, Some(&Allocator::default())))
    }
}
