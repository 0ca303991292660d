//! What linelens found on this machine: library, execution providers, model, and what to do where something is wrong.

use crate::config::Machine;
use crate::detector::locate::{self, Located};
use crate::detector::session::{Provider, ProviderChoice, Runtime};
use crate::detector::{Detector, DetectorError, DetectorInfo};
use crate::escape::{terminal, terminal_lines};
use crate::explain::{self, Method, Methods};
use crate::tokens::{LongPolicy, Normalize};
use std::fmt::Write;
use std::path::PathBuf;

/// One execution provider: whether it really works and, if not, why and what to do.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderReport {
    pub name: String,
    pub works: bool,
    pub reason: Option<String>,
    pub advice: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub version: String,
    /// Path, version and how it was found; or the error.
    pub library: Result<(PathBuf, String, String), String>,
    pub providers: Vec<ProviderReport>,
    /// How the model directory was found, and its facts; or the error.
    pub model: Result<(String, DetectorInfo), String>,
    /// Explanation methods that work for the model, and why the others do not; where the model was looked at closely.
    pub methods: Option<Methods>,
    /// Sentences that say what to do next; empty when all is well.
    pub advice: Vec<String>,
}

impl Report {
    pub fn healthy(&self) -> bool {
        self.library.is_ok() && self.model.is_ok()
    }
    /// What to show when start-up fails: the cause, then [`Report::to_text`].
    pub fn failure(&self) -> String {
        format!("{}\n\n{}", self.cause(), self.to_text())
    }
    /// The same in short. A cause says itself what to do.
    pub fn brief(&self) -> String {
        format!("{}\n`linelens doctor` shows the whole set-up", self.cause())
    }
    fn cause(&self) -> String {
        let cause = [self.library.as_ref().err(), self.model.as_ref().err()].into_iter().flatten().next();
        terminal_lines(cause.map_or("linelens cannot start", String::as_str))
    }
    /// The text of `linelens doctor`; also shown when start-up fails.
    pub fn to_text(&self) -> String {
        let mut text = format!("linelens {}\n", self.version);
        let mut line = |key: &str, value: &str| {
            // A value of several lines is indented under its key.
            let value = terminal_lines(value).replace('\n', &format!("\n{:16}", ""));
            // Writing to a string does not fail.
            let _ = writeln!(text, "{key:<16}{value}");
        };
        match &self.library {
            Ok((path, version, how)) => {
                line("library", &format!("ONNX Runtime {version}, {} ({how})", path.display()));
            }
            Err(error) => line("library", &format!("ERROR: {error}")),
        }
        for provider in &self.providers {
            let state = if provider.works { "works" } else { "does not work" };
            let reason = provider.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            line(&format!("provider {}", provider.name), &format!("{state}{reason}"));
            if let Some(advice) = &provider.advice {
                line("", advice);
            }
        }
        match &self.model {
            Ok((how, info)) => {
                let name = terminal(&info.name);
                line("model", &format!("{name}, {} ({how})", info.directory.display()));
                line("sha256", info.sha256.get(..16).unwrap_or(&info.sha256));
                line("tokenizer", &info.tokenizer);
                if let Some(note) = &info.tokenizer_note {
                    line("", note);
                }
                let label = terminal(&info.positive_label);
                line("flagged", &format!("P({label}) above {}", info.threshold));
                line("normalization", normalization(info.normalize));
                let long = match info.long {
                    LongPolicy::Window => "overlapping windows",
                    LongPolicy::Truncate => "truncated",
                };
                line("tokens", &format!("at most {}; longer functions: {long}", info.max_tokens));
                if let Some(Methods { available, unavailable }) = &self.methods {
                    let works: Vec<String> = available.iter().map(Method::to_string).collect();
                    line("methods", &works.join(", "));
                    for (method, reason) in unavailable {
                        line("", &format!("not {method}: {reason}"));
                    }
                }
                line("runs on", &format!("{}, {} threads", info.execution_provider, info.threads));
                if let Some(note) = &info.provider_note {
                    line("", note);
                }
            }
            Err(error) => line("model", &format!("ERROR: {error}")),
        }
        for advice in &self.advice {
            line("to do", advice);
        }
        text
    }
}

fn normalization(normalize: Normalize) -> &'static str {
    match normalize {
        Normalize::None => "none",
        Normalize::StripComments => "strip-comments",
        Normalize::CollapseWhitespace => "collapse-whitespace",
    }
}

/// Looks at the whole set-up. Never panics; every failure is part of the report.
pub fn examine(machine: &Machine, workspace: &[PathBuf]) -> Report {
    match look(machine, workspace, true) {
        Ok((_, _, report)) | Err(report) => *report,
    }
}

/// Loads library and model, or says in the words of [`Report::to_text`] why that does not work.
/// `workspace` are folders that the user has open: nothing is discovered inside them.
pub fn start(machine: &Machine, workspace: &[PathBuf]) -> Result<(Runtime, Detector), Box<Report>> {
    match look(machine, workspace, false) {
        Ok((runtime, detector, _)) => Ok((runtime, detector)),
        Err(report) => Err(report),
    }
}

/// With `thorough`, execution providers are tried even if all is well.
fn look(
    machine: &Machine,
    workspace: &[PathBuf],
    thorough: bool,
) -> Result<(Runtime, Detector, Box<Report>), Box<Report>> {
    let mut report = Box::new(Report {
        version: env!("CARGO_PKG_VERSION").to_string(),
        library: Err(String::new()),
        providers: Vec::new(),
        model: Err("not looked at, since it needs the library".to_string()),
        methods: None,
        advice: Vec::new(),
    });
    let located = locate::model(machine.model.as_deref(), workspace).map_err(|error| error.to_string());
    let runtime = locate::library(machine.library.as_deref(), workspace)
        .map_err(|error| error.to_string())
        .and_then(|library| {
            Runtime::load(&library).map(|runtime| (runtime, library)).map_err(|error| error.to_string())
        });
    let (runtime, library) = match runtime {
        Ok(found) => found,
        Err(error) => {
            report.library = Err(error);
            report.model = match located {
                Ok(Located { path, how }) => {
                    Err(format!("{} ({how}) was not opened, since that needs the library", path.display()))
                }
                Err(error) => Err(error),
            };
            report.advice.push(
                "install ONNX Runtime 1.24 or newer (`pip install onnxruntime`) and name its libonnxruntime.so in ORT_DYLIB_PATH or as `library` in the user configuration".to_string(),
            );
            return Err(report);
        }
    };
    report.library = Ok((runtime.library().to_path_buf(), runtime.version().to_string(), library.how));
    let opened = match located {
        Ok(Located { path, how }) => match Detector::open(&path, &runtime, &machine.session) {
            Ok(mut detector) => {
                if machine.without_attnlrp {
                    detector.refuse_attnlrp("the configuration switches it off (attnlrp = false)");
                }
                Ok((how, detector))
            }
            Err(error) => {
                report.advice.push(match &error {
                    DetectorError::Cuda { .. } => {
                        "choose the provider auto or cpu to run without CUDA".to_string()
                    }
                    _ => "repair the model directory as said above, or name another one with `--model` or in LINELENS_MODEL"
                        .to_string(),
                });
                Err(error.to_string())
            }
        },
        Err(error) => {
            report.advice.push(
                "name a model directory with `--model`, in LINELENS_MODEL or as `model` in the user configuration"
                    .to_string(),
            );
            Err(error)
        }
    };
    if thorough || opened.is_err() {
        report.providers = providers(&runtime, machine);
    }
    match opened {
        Ok((how, mut detector)) => {
            report.methods = thorough.then(|| explain::available(&mut detector));
            report.model = Ok((how, detector.info().clone()));
            Ok((runtime, detector, report))
        }
        Err(error) => {
            report.model = Err(error);
            Err(report)
        }
    }
}

fn providers(runtime: &Runtime, machine: &Machine) -> Vec<ProviderReport> {
    let mut reports = Vec::new();
    for provider in [Provider::Cpu, Provider::Cuda] {
        let reason = runtime.check_provider(provider, &machine.session).err();
        let wanted = machine.session.provider != ProviderChoice::Cpu;
        let advice = reason.as_ref().filter(|_| wanted).map(|_| {
            "for CUDA, install `onnxruntime-gpu` in place of `onnxruntime`, with CUDA 13 and cuDNN 9 (for example the nvidia-* Python packages); without it the CPU is used".to_string()
        });
        reports.push(ProviderReport {
            name: provider.as_str().to_string(),
            works: reason.is_none(),
            reason,
            advice,
        });
    }
    reports
}
