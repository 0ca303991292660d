//! Cancelling a running inference from another thread.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Shared by the one who may cancel and the one who works. Cancelling is final; clones share the state.
#[derive(Clone, Default)]
pub struct Cancellation {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    cancelled: bool,
    next: u64,
    /// Runs in progress: each is stopped by its function.
    running: Vec<(u64, Box<dyn Fn() + Send>)>,
}

/// A run in progress; dropped when it has ended.
#[must_use]
pub(crate) struct Running<'a> {
    cancellation: &'a Cancellation,
    id: u64,
}

impl Cancellation {
    pub fn new() -> Self {
        Self::default()
    }
    /// Sets the flag and stops the model run in progress.
    pub fn cancel(&self) {
        let mut state = self.lock();
        state.cancelled = true;
        // Called under the lock: once `Running` is dropped, its function is not called any more.
        for (_, stop) in &state.running {
            stop();
        }
    }
    pub fn is_cancelled(&self) -> bool {
        self.lock().cancelled
    }
    /// Registers what stops a run that is about to start; `None` if it must not start. Registering and cancelling
    /// exclude each other, so that no cancellation falls between the check and the start.
    pub(crate) fn start(&self, stop: impl Fn() + Send + 'static) -> Option<Running<'_>> {
        let mut state = self.lock();
        if state.cancelled {
            return None;
        }
        let id = state.next;
        state.next += 1;
        state.running.push((id, Box::new(stop)));
        Some(Running { cancellation: self, id })
    }
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.cancellation.lock().running.retain(|(id, _)| *id != self.id);
    }
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Cancellation")
            .field("cancelled", &state.cancelled)
            .field("running", &state.running.len())
            .finish()
    }
}
