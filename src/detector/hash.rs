//! The SHA-256 of a model's file. Half a gigabyte takes longer than opening a session does, so it is computed beside that
//! and waited for where it is first asked for.

use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

/// In hex. Dereferences to the text once it is known.
#[derive(Clone)]
pub struct FileHash(Arc<Shared>);

struct Shared {
    known: OnceLock<String>,
    work: Mutex<Option<JoinHandle<String>>>,
}

impl FileHash {
    /// Waits until it is known.
    pub fn wait(&self) {
        let _known: &str = self;
    }

    /// Begins to hash these bytes.
    pub(super) fn of(bytes: Bytes) -> FileHash {
        let hashed = move || Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let work = Mutex::new(Some(std::thread::spawn(hashed)));
        FileHash(Arc::new(Shared { known: OnceLock::new(), work }))
    }
}

impl From<String> for FileHash {
    fn from(known: String) -> FileHash {
        FileHash(Arc::new(Shared { known: known.into(), work: Mutex::new(None) }))
    }
}

impl Deref for FileHash {
    type Target = str;

    fn deref(&self) -> &str {
        self.0.known.get_or_init(|| {
            let work = self.0.work.lock().unwrap_or_else(PoisonError::into_inner).take();
            // Hashing bytes cannot fail; were it to, no model has an empty hash.
            work.and_then(|work| work.join().ok()).unwrap_or_default()
        })
    }
}

impl fmt::Debug for FileHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl PartialEq for FileHash {
    fn eq(&self, other: &FileHash) -> bool {
        **self == **other
    }
}
