//! Work-done progress: for work that takes long enough to be noticed, and ended whatever happens.

use crate::lsp::outbox::shown;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tower_lsp::Client;
use tower_lsp::ls_types::notification::Progress as ProgressNotification;
use tower_lsp::ls_types::*;

/// Shorter work shows no progress.
const DELAY: Duration = Duration::from_millis(300);
const INTERVAL: Duration = Duration::from_millis(100);
const CREATE_TIMEOUT: Duration = Duration::from_secs(10);

type Cancel = Arc<dyn Fn() + Send + Sync>;

/// Creates progresses and knows how to cancel those that are shown.
#[derive(Clone)]
pub(crate) struct ProgressCentre {
    client: Client,
    runtime: Handle,
    /// Whether the client lets the server create progresses.
    can_create: Arc<AtomicBool>,
    next: Arc<AtomicU64>,
    cancels: Arc<Mutex<HashMap<ProgressToken, Cancel>>>,
}

impl fmt::Debug for ProgressCentre {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgressCentre").finish_non_exhaustive()
    }
}

/// A piece of work; dropping it ends the progress.
#[derive(Debug)]
pub(crate) struct Work {
    reports: Option<mpsc::UnboundedSender<Report>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Report {
    percentage: u32,
    message: String,
}

impl Work {
    pub(crate) fn report(&self, done: f64, total: f64, message: impl Into<String>) {
        if let Some(reports) = &self.reports {
            let percentage = if total > 0.0 { (100.0 * done / total).clamp(0.0, 100.0) as u32 } else { 0 };
            let _ = reports.send(Report { percentage, message: shown(&message.into()) });
        }
    }
}

/// What cancels work under a client's token, known from the moment that it was asked for: the client shows a button as
/// soon as it likes.
#[derive(Debug)]
pub(crate) struct Expected {
    centre: ProgressCentre,
    token: ProgressToken,
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.centre.cancels().remove(&self.token);
    }
}

impl ProgressCentre {
    /// Must be called inside a tokio runtime.
    pub(crate) fn new(client: Client) -> ProgressCentre {
        ProgressCentre {
            client,
            runtime: Handle::current(),
            can_create: Arc::default(),
            next: Arc::default(),
            cancels: Arc::default(),
        }
    }

    pub(crate) fn allow_create(&self, allowed: bool) {
        self.can_create.store(allowed, Ordering::Relaxed);
    }

    /// Work was asked for under this token and may be cancelled by it, until what is returned is dropped.
    pub(crate) fn register(
        &self,
        token: Option<&ProgressToken>,
        cancel: impl Fn() + Send + Sync + 'static,
    ) -> Option<Expected> {
        let token = token?.clone();
        self.cancels().insert(token.clone(), Arc::new(cancel));
        Some(Expected { centre: self.clone(), token })
    }

    /// Begins a piece of work, under the client's token where it gave one, which is then [registered](Self::register). Nothing
    /// is shown for [`DELAY`].
    pub(crate) fn begin(
        &self,
        title: impl Into<String>,
        token: Option<ProgressToken>,
        cancel: Option<Cancel>,
    ) -> Work {
        if token.is_none() && !self.can_create.load(Ordering::Relaxed) {
            return Work { reports: None };
        }
        let (reports, inbox) = mpsc::unbounded_channel();
        self.runtime.spawn(self.clone().show(shown(&title.into()), token, cancel, inbox));
        Work { reports: Some(reports) }
    }

    /// The user pressed the button.
    pub(crate) fn cancel(&self, token: &ProgressToken) {
        let cancel = self.cancels().get(token).cloned();
        match cancel {
            Some(cancel) => cancel(),
            None => tracing::debug!("no progress {token:?} to cancel"),
        }
    }

    fn cancels(&self) -> std::sync::MutexGuard<'_, HashMap<ProgressToken, Cancel>> {
        self.cancels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn show(
        self,
        title: String,
        token: Option<ProgressToken>,
        cancel: Option<Cancel>,
        mut reports: mpsc::UnboundedReceiver<Report>,
    ) {
        let mut latest = Report { percentage: 0, message: String::new() };
        let delay = tokio::time::sleep(DELAY);
        tokio::pin!(delay);
        loop {
            tokio::select! {
                () = &mut delay => break,
                report = reports.recv() => match report {
                    Some(report) => latest = report,
                    None => return,
                },
            }
        }
        let cancellable = cancel.is_some();
        let (token, _expected) = match token {
            Some(token) => (token, None),
            None => {
                let token = self.fresh();
                let expected = cancel.and_then(|cancel| self.register(Some(&token), move || cancel()));
                if !self.create(&token).await {
                    return;
                }
                (token, expected)
            }
        };
        self.send(
            &token,
            WorkDoneProgress::Begin(WorkDoneProgressBegin {
                title,
                cancellable: Some(cancellable),
                message: (!latest.message.is_empty()).then(|| latest.message.clone()),
                percentage: Some(latest.percentage),
            }),
        )
        .await;
        while let Some(report) = reports.recv().await {
            let mut report = report;
            while let Ok(newer) = reports.try_recv() {
                report = newer;
            }
            // Percentages only grow: a client may ignore others.
            report.percentage = report.percentage.max(latest.percentage);
            if report == latest {
                continue;
            }
            latest = report.clone();
            self.send(
                &token,
                WorkDoneProgress::Report(WorkDoneProgressReport {
                    cancellable: Some(cancellable),
                    // Without one the last stands.
                    message: Some(report.message).filter(|message| !message.is_empty()),
                    percentage: Some(report.percentage),
                }),
            )
            .await;
            tokio::time::sleep(INTERVAL).await;
        }
        self.send(&token, WorkDoneProgress::End(WorkDoneProgressEnd { message: None })).await;
    }

    fn fresh(&self) -> ProgressToken {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        NumberOrString::String(format!("linelens/{number}"))
    }

    async fn create(&self, token: &ProgressToken) -> bool {
        let request = self.client.create_work_done_progress(token.clone());
        match tokio::time::timeout(CREATE_TIMEOUT, request).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::warn!("window/workDoneProgress/create: {error}");
                false
            }
            Err(_) => false,
        }
    }

    async fn send(&self, token: &ProgressToken, value: WorkDoneProgress) {
        let value = ProgressParamsValue::WorkDone(value);
        self.client
            .send_notification::<ProgressNotification>(ProgressParams { token: token.clone(), value })
            .await;
    }
}
