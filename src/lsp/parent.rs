//! Notices when the process that started the server has ended.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Watches this process's parent and, once known, the client's process.
#[derive(Debug)]
pub(crate) struct ParentWatch {
    parent: u32,
    /// 0: not known.
    client: AtomicU32,
}

const INTERVAL: Duration = Duration::from_millis(500);

impl ParentWatch {
    pub(crate) fn new() -> ParentWatch {
        ParentWatch { parent: parent_id(), client: AtomicU32::new(0) }
    }

    /// The `processId` of the initialize request. One that is not alive to begin with lives in another process
    /// namespace (a container, a remote host) and says nothing.
    pub(crate) fn set_client(&self, process: Option<u32>) {
        if let Some(process) = process
            && is_alive(process)
        {
            self.client.store(process, Ordering::Relaxed);
        }
    }

    fn has_ended(&self) -> bool {
        let client = self.client.load(Ordering::Relaxed);
        parent_id() != self.parent || (client != 0 && !is_alive(client))
    }

    /// Returns when the parent or the client has ended.
    pub(crate) async fn ended(&self) {
        while !self.has_ended() {
            tokio::time::sleep(INTERVAL).await;
        }
    }
}

#[cfg(unix)]
fn parent_id() -> u32 {
    std::os::unix::process::parent_id()
}

#[cfg(unix)]
fn is_alive(process: u32) -> bool {
    let Ok(process) = libc::pid_t::try_from(process) else { return false };
    if process <= 0 {
        return false;
    }
    // SAFETY: kill(2) with signal 0 takes two integers, sends nothing and only reports whether the process exists.
    #[allow(unsafe_code)]
    let result = unsafe { libc::kill(process, 0) };
    result == 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

#[cfg(not(unix))]
fn parent_id() -> u32 {
    0
}

/// Elsewhere the end of stdin is the only sign.
#[cfg(not(unix))]
fn is_alive(_process: u32) -> bool {
    true
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_ends_is_noticed() {
        let watch = ParentWatch::new();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        watch.set_client(Some(child.id()));
        assert!(!watch.has_ended());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(watch.has_ended());
    }

    #[test]
    fn a_client_of_another_namespace_says_nothing() {
        let watch = ParentWatch::new();
        watch.set_client(Some(u32::MAX));
        watch.set_client(Some(0));
        assert!(!watch.has_ended());
    }
}
