//! Cancelling a running inference from another thread.

/// Shared by the one who may cancel and the one who works. Cancelling is final; clones share the state.
#[derive(Clone, Debug, Default)]
pub struct Cancellation {}

impl Cancellation {
    pub fn new() -> Self {
        Self::default()
    }
    /// Sets the flag and stops the model run in progress.
    pub fn cancel(&self) {
        todo!()
    }
    pub fn is_cancelled(&self) -> bool {
        todo!()
    }
}
