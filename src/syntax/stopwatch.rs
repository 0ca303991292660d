//! How long this thread has computed. What other programs take of a busy machine does not count, nor does its sleep, so that
//! the same text has the same tree.

use std::time::Duration;

#[derive(Debug)]
pub(super) struct Stopwatch {
    started: Duration,
}

impl Stopwatch {
    pub(super) fn start() -> Stopwatch {
        Stopwatch { started: computed() }
    }

    pub(super) fn elapsed(&self) -> Duration {
        computed().saturating_sub(self.started)
    }
}

#[cfg(unix)]
fn computed() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime(3) writes one timespec to the place that it is given, which lives until it returns.
    #[allow(unsafe_code)]
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    // Without such a clock nothing is limited by it; the count of steps limits all but few texts.
    if result != 0 {
        return Duration::ZERO;
    }
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Elsewhere the clock on the wall has to do.
#[cfg(not(unix))]
fn computed() -> Duration {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn sleep_does_not_count_and_work_does() {
        let stopwatch = Stopwatch::start();
        std::thread::sleep(Duration::from_millis(300));
        assert!(stopwatch.elapsed() < Duration::from_millis(200), "{:?}", stopwatch.elapsed());
        let mut sum = 0u64;
        while stopwatch.elapsed() < Duration::from_millis(50) {
            sum = (0..10_000).fold(sum, |sum: u64, n| std::hint::black_box(sum.wrapping_add(n)));
        }
    }
}
