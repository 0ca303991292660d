//! The language server: a view of the analysis for editors. LSP's types stay inside this module.
//!
//! Handlers (`server`) translate and change the documents; one `worker` thread owns the model and takes its work from
//! the `queue` and the open `documents`; everything for the client goes through the `outbox`.

mod actions;
mod counterpart;
mod documents;
#[doc(hidden)]
pub mod fuzzing;
mod hints;
mod hover;
mod lens;
mod model_files;
mod options;
mod outbox;
mod parent;
mod progress;
mod proto;
mod publish;
mod queue;
mod reports;
mod server;
mod shared;
mod transport;
mod truth;
mod worker;

pub use proto::ext;
pub use worker::{Engine, StartEngine};

use crate::analysis::Analyzer;
use crate::config::{Config, Problem};
use crate::doctor;
use options::SettingsStore;
use parent::ParentWatch;
use proto::ext::{EXPLAIN, FUNCTIONS};
use server::{Server, WorkerSlot};
use shared::Shared;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tower_lsp::LspService;

/// How long the end of the server may wait for messages under way, and inside another process for the worker.
const PATIENCE: Duration = Duration::from_secs(2);
/// Requests and notifications handled at once. With tower-lsp's default of 4, requests that wait for the model would
/// hold back edits and cancellations.
const CONCURRENCY: usize = 64;

/// Serves a client on stdin and stdout. The exit code: 0 after a shutdown request, else 1.
pub fn run(config: Config, problems: Vec<Problem>) -> u8 {
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("the server cannot be started: {error}");
            return 1;
        }
    };
    let (stdin, stdout) = (tokio::io::stdin(), tokio::io::stdout());
    let (clean, _) = runtime.block_on(converse(stdin, stdout, config, problems, start_analyzer()));
    end(if clean { 0 } else { 1 })
}

/// Ends the process at once. Some clients kill a server that is not gone a tenth of a second after `exit`, and there is
/// nothing to wait for: not a read of stdin, which nothing ends, nor a run of the model, under which ONNX Runtime must
/// not be torn down.
fn end(code: u8) -> ! {
    #[cfg(unix)]
    // reason: takes an integer, and nothing of the process is used after it.
    #[allow(unsafe_code)]
    unsafe {
        libc::_exit(code.into());
    }
    #[cfg(not(unix))]
    std::process::exit(code.into());
}

/// Loads library and model as the configuration says.
pub fn start_analyzer() -> StartEngine {
    Box::new(|machine, workspace| match doctor::start(machine, workspace) {
        Ok((_, detector)) => {
            // Here, since who handles documents asks for it and must not wait.
            detector.info().sha256.wait();
            Ok(Box::new(Analyzer::new(detector)) as Box<dyn Engine>)
        }
        Err(report) => Err(report.failure()),
    })
}

/// Serves a client on any two streams until it says `exit`, the input or the client's process ends, and lets the worker
/// end. Returns whether the client asked for the shutdown first. Must be called inside a tokio runtime.
pub async fn serve<I, O>(
    input: I,
    output: O,
    config: Config,
    problems: Vec<Problem>,
    start: StartEngine,
) -> bool
where
    I: AsyncRead + Send + Unpin + 'static,
    O: AsyncWrite + Send + Unpin + 'static,
{
    let (clean, worker) = converse(input, output, config, problems, start).await;
    let deadline = Instant::now() + PATIENCE;
    while !worker.is_finished() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    clean
}

/// [`serve`] until everything is said. The worker may go on for a moment.
async fn converse<I, O>(
    input: I,
    output: O,
    config: Config,
    problems: Vec<Problem>,
    start: StartEngine,
) -> (bool, Arc<WorkerSlot>)
where
    I: AsyncRead + Send + Unpin + 'static,
    O: AsyncWrite + Send + Unpin + 'static,
{
    let transport = transport::connect(input, output);
    let parent = Arc::new(ParentWatch::new());
    let worker = Arc::new(WorkerSlot::new(start));
    let shutdown = Arc::new(AtomicBool::new(false));
    let state = OnceLock::new();
    let (service, socket) = LspService::build(|client| {
        let shared = Arc::new(Shared::new(client.clone(), SettingsStore::new(config)));
        let _ = state.set(Arc::clone(&shared));
        Server::new(client, shared, worker.clone(), parent.clone(), shutdown.clone(), problems)
    })
    .custom_method(EXPLAIN, Server::explain)
    .custom_method(FUNCTIONS, Server::functions)
    .custom_method("window/workDoneProgress/cancel", Server::cancel_progress)
    .finish();
    let server = tower_lsp::Server::new(transport.input, transport.output, socket);
    let stop = || state.get().map(|shared: &Arc<Shared>| shared.queue.stop());
    let mut reader = transport.reader;
    {
        let serving = server.concurrency_level(CONCURRENCY).serve(service);
        tokio::pin!(serving);
        tokio::select! {
            () = &mut serving => {}
            _ = &mut reader => {
                // No more input: what is still under way is given up and answered.
                stop();
                let _ = tokio::time::timeout(PATIENCE, &mut serving).await;
            }
            () = parent.ended() => tracing::warn!("the client's process has ended"),
        }
    }
    stop();
    reader.abort();
    let _ = tokio::time::timeout(PATIENCE, async {
        let _ = transport.forwarder.await;
        let _ = transport.writer.await;
    })
    .await;
    (shutdown.load(Ordering::SeqCst), worker)
}
