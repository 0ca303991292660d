//! What can be said on the command line. Values are checked by [`crate::config`], so that a setting means the same
//! wherever it is given.

use super::annotations::Annotations;
use crate::annotations::policy::Policy;
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde_json::{Map, Value};
use std::path::PathBuf;

/// Shows which lines of a C/C++ function drove a vulnerability detector's prediction.
#[derive(Debug, Parser)]
#[command(name = "linelens", version, max_term_width = 100)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Explain functions: probability, and how relevant each line was for it
    Explain(Explain),
    /// Score every function of files and directories
    Check(Check),
    /// Evaluate detectors and methods on datasets: tables of alignment, localisation, verdicts and pairs
    Eval(Eval),
    /// Write the functions of a dataset as files, with their ground truth, to read in an editor
    Unpack(Unpack),
    /// Filter: JSON Lines with `func` in, JSON Lines with `probability` out, in the same order
    Score(Score),
    /// Write the model with a method's backward pass appended, for any ONNX runtime
    Graph(Graph),
    /// List the functions of files as JSON Lines
    Functions(Functions),
    /// Ground-truth files: import, export, agreement of annotators, check
    #[command(subcommand)]
    Annotations(Annotations),
    /// Say what was found on this machine, what works, and what to do about the rest
    Doctor(Doctor),
    /// The language server, on standard input and output
    Lsp(Lsp),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Color {
    Auto,
    Always,
    Never,
}

/// Settings of the machine, for every command.
#[derive(Clone, Debug, Args)]
pub(super) struct Global {
    /// Model directory: model.onnx, tokenizer.json, config.json; `eval` and `lsp` take several
    #[arg(long, global = true, value_name = "DIR")]
    pub(super) model: Vec<PathBuf>,
    /// ONNX Runtime library
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) library: Option<PathBuf>,
    /// auto, cpu or cuda
    #[arg(long, global = true, value_name = "PROVIDER")]
    pub(super) execution_provider: Option<String>,
    /// Threads for one model run
    #[arg(long, global = true, value_name = "N")]
    pub(super) threads: Option<String>,
    /// CUDA device
    #[arg(long, global = true, value_name = "N")]
    pub(super) device_id: Option<String>,
    /// CUDA memory limit in MiB
    #[arg(long, global = true, value_name = "MIB")]
    pub(super) memory_limit: Option<String>,
    /// Colours; NO_COLOR and FORCE_COLOR are honoured
    #[arg(long, global = true, value_enum, default_value = "auto")]
    pub(super) color: Color,
}

/// Settings of an analysis.
#[derive(Debug, Args)]
pub(super) struct Analysis {
    /// editor (long functions in windows), paper (truncated, as in the literature) or reference (as the code of Pintore et al.)
    #[arg(long, value_name = "PROFILE")]
    pub(super) profile: Option<String>,
    /// Flag a function when its probability exceeds this; default: the detector's
    #[arg(long, value_name = "P")]
    pub(super) threshold: Option<String>,
    /// Long functions: window or truncate
    #[arg(long, value_name = "POLICY")]
    pub(super) long: Option<String>,
    /// Integrated gradients: auto, or a number of Gauss-Legendre steps
    #[arg(long, value_name = "N")]
    pub(super) steps: Option<String>,
    /// Sum |relevance| of a line's tokens instead of signed relevance
    #[arg(long)]
    pub(super) absolute: bool,
    /// Sum relevance over: line, or statement, which does not depend on the layout
    #[arg(long, value_name = "UNIT")]
    pub(super) granularity: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Explain {
    /// File, optionally with a 1-based position; `-` reads standard input
    #[arg(value_name = "FILE[:LINE[:COL]]")]
    pub(super) target: String,
    /// The function with this name (`bar` also finds `Foo::bar`)
    #[arg(long, value_name = "NAME")]
    pub(super) function: Option<String>,
    /// attention:first, attention:last, attention:N, ig, attnlrp, gradient-x-input, occlusion, native, or all
    #[arg(long, value_name = "METHOD")]
    pub(super) method: Option<String>,
    #[command(flatten)]
    pub(super) analysis: Analysis,
    /// Also measure how much of the verdict the most relevant lines carry
    #[arg(long)]
    pub(super) faithfulness: bool,
    /// Ground truth: an annotation file or data set; default: the workspace's annotation files. May be repeated
    #[arg(long, value_name = "FILE")]
    pub(super) annotations: Vec<PathBuf>,
    /// What several annotators amount to: majority, union, intersection or annotator:NAME
    #[arg(long, value_name = "POLICY")]
    pub(super) annotation_policy: Option<Policy>,
    /// Beside the function as of this git revision, such as HEAD
    #[arg(long, value_name = "REV", conflicts_with = "against_partner")]
    pub(super) against: Option<String>,
    /// Beside the other half of its pair in the annotation file: the function before or after its fix
    #[arg(long)]
    pub(super) against_partner: bool,
    /// c or cpp; default: by the file's name and text
    #[arg(long, value_name = "LANGUAGE", value_enum)]
    pub(super) language: Option<LanguageName>,
    #[arg(long, value_enum, default_value = "ansi")]
    pub(super) format: ExplainFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LanguageName {
    C,
    Cpp,
}

impl LanguageName {
    /// The LSP language identifier.
    pub(super) fn language_id(self) -> &'static str {
        match self {
            LanguageName::C => "c",
            LanguageName::Cpp => "cpp",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ExplainFormat {
    /// Shaded source for a terminal
    Ansi,
    /// One JSON object a function, one a line
    Json,
    /// One page with the shaded source, which needs nothing else
    Html,
}

#[derive(Debug, Args)]
pub(super) struct Check {
    /// Files and directories; directories are searched for C and C++ files, .gitignore respected
    #[arg(required = true, value_name = "PATH")]
    pub(super) paths: Vec<PathBuf>,
    /// Method that names the most relevant lines
    #[arg(long, value_name = "METHOD")]
    pub(super) method: Option<String>,
    #[command(flatten)]
    pub(super) analysis: Analysis,
    /// Also list functions that were not flagged
    #[arg(long)]
    pub(super) all: bool,
    #[arg(long, value_enum, default_value = "text")]
    pub(super) format: CheckFormat,
    /// Files worked on at once, each with a session of its own; default: the processor's cores for a small model, else 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) jobs: Option<u16>,
    /// Exit with 1 when a function was flagged that is not ignored
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(super) fail_on: Option<FailOn>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum CheckFormat {
    Text,
    /// The findings of `explain --format json`, one a line
    Json,
    /// SARIF 2.1.0
    Sarif,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum FailOn {
    Flagged,
}

#[derive(Debug, Args)]
pub(super) struct Score {
    /// Also give the lines with this method
    #[arg(long, value_name = "METHOD")]
    pub(super) method: Option<String>,
    #[command(flatten)]
    pub(super) analysis: Analysis,
    /// Only check the rows: no model is loaded, and the output says how long each function is
    #[arg(long)]
    pub(super) dry_run: bool,
}

#[derive(Debug, Args)]
pub(super) struct Eval {
    /// Files of functions with ground truth, plain or gzip-compressed; each is a split of its own
    #[arg(required = true, value_name = "DATASET")]
    pub(super) datasets: Vec<PathBuf>,
    /// The files' format where it is not recognised: functions, bigvul, linevul, primevul, sven, devign, diversevul,
    /// native or sarif
    #[arg(long, value_name = "FORMAT")]
    pub(super) input_format: Option<String>,
    /// What the records of several annotators of a function amount to (native files): majority, union, intersection or
    /// annotator:NAME
    #[arg(long, value_name = "POLICY", default_value = "majority")]
    pub(super) annotation_policy: Policy,
    /// Methods, separated by commas: all that work for the model, or none
    #[arg(long, value_name = "METHODS", default_value = "all", value_delimiter = ',')]
    pub(super) methods: Vec<String>,
    #[command(flatten)]
    pub(super) analysis: Analysis,
    /// Tune the threshold on this dataset (highest F1), which may share no function with those evaluated
    #[arg(long, value_name = "VALID", conflicts_with = "threshold")]
    pub(super) threshold_from: Option<PathBuf>,
    /// Also say what the datasets share with this training file; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(super) train: Vec<PathBuf>,
    /// Also measure how faithful each explanation is, which takes some twenty model runs a function and method
    #[arg(long)]
    pub(super) faithfulness: bool,
    /// Only the first N functions of each dataset
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) limit: Option<u64>,
    /// Functions worked on at once, each by a session of its own; default: the processor's cores over --threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) jobs: Option<u16>,
    /// Functions of similar length that are scored together
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) batch: u16,
    /// Folder for results and reports; a run that was interrupted goes on there
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    #[arg(long, value_enum, default_value = "markdown")]
    pub(super) format: EvalFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum EvalFormat {
    Markdown,
    Json,
    Html,
}

#[derive(Debug, Args)]
pub(super) struct Unpack {
    /// A file of functions with ground truth, plain or gzip-compressed
    #[arg(value_name = "DATASET")]
    pub(super) dataset: PathBuf,
    /// The folder, which is made
    #[arg(value_name = "DIR")]
    pub(super) directory: PathBuf,
    /// The file's format where it is not recognised
    #[arg(long, value_name = "FORMAT")]
    pub(super) input_format: Option<String>,
    /// Only the first N functions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) limit: Option<u64>,
}

#[derive(Debug, Args)]
pub(super) struct Graph {
    /// Model directory, like `--model`
    #[arg(value_name = "MODEL", conflicts_with = "model")]
    pub(super) model_directory: Option<PathBuf>,
    /// ig, attnlrp or gradient-x-input
    #[arg(long, value_name = "METHOD")]
    pub(super) method: String,
    /// Where the ONNX file goes; it must not exist yet
    #[arg(long, value_name = "FILE")]
    pub(super) out: PathBuf,
    /// Leave the weights in the model's file, which the new file then has to lie beside
    #[arg(long)]
    pub(super) external: bool,
}

#[derive(Debug, Args)]
pub(super) struct Functions {
    /// Files and directories
    #[arg(required = true, value_name = "PATH")]
    pub(super) paths: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct Doctor {
    #[arg(long, value_enum, default_value = "text")]
    pub(super) format: DoctorFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DoctorFormat {
    Text,
    Json,
}

#[derive(Debug, Args)]
pub(super) struct Lsp {
    /// Accepted for clients that pass it; standard input and output are used in any case
    #[arg(long)]
    pub(super) stdio: bool,
}

impl Global {
    /// As settings of [`crate::config`].
    pub(super) fn settings(&self) -> Map<String, Value> {
        let text = |path: &Option<PathBuf>| path.as_ref().map(|path| path.to_string_lossy().into_owned());
        collect([
            ("model", text(&self.model.first().cloned()).map(Value::String)),
            ("models", (self.model.len() > 1).then(|| paths(&self.model))),
            ("library", text(&self.library).map(Value::String)),
            ("executionProvider", self.execution_provider.clone().map(Value::String)),
            ("threads", self.threads.as_deref().map(number)),
            ("deviceId", self.device_id.as_deref().map(number)),
            ("memoryLimitMib", self.memory_limit.as_deref().map(number)),
        ])
    }
}

impl Analysis {
    /// As settings of [`crate::config`].
    pub(super) fn settings(&self, method: Option<&str>) -> Map<String, Value> {
        let string = |text: &str| Value::String(text.to_string());
        collect([
            ("method", method.map(string)),
            ("profile", self.profile.as_deref().map(string)),
            ("threshold", self.threshold.as_deref().map(number)),
            ("long", self.long.as_deref().map(string)),
            ("steps", self.steps.as_deref().map(number)),
            ("absolute", self.absolute.then_some(Value::Bool(true))),
            ("granularity", self.granularity.as_deref().map(string)),
        ])
    }
}

/// What is no number stays a string, so that the schema's message names what was found.
fn number(text: &str) -> Value {
    text.parse::<serde_json::Number>().map_or_else(|_| Value::String(text.to_string()), Value::Number)
}

fn paths(paths: &[PathBuf]) -> Value {
    Value::Array(paths.iter().map(|path| Value::String(path.to_string_lossy().into_owned())).collect())
}

fn collect<const N: usize>(settings: [(&str, Option<Value>); N]) -> Map<String, Value> {
    settings.into_iter().filter_map(|(key, value)| Some((key.to_string(), value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_flag_is_a_key_of_the_schema() {
        let line = "linelens --model m --model n --library l --execution-provider cpu --threads 2 --device-id 0 --memory-limit 5 \
                    explain f.c --method attention:1 --profile paper --threshold 0.5 --long window --steps 16 --absolute \
                    --granularity statement";
        let arguments = Arguments::parse_from(line.split_whitespace());
        let Command::Explain(explain) = &arguments.command else { panic!() };
        let mut settings = arguments.global.settings();
        settings.extend(explain.analysis.settings(explain.method.as_deref()));
        assert_eq!(settings.len(), 14);
        let (_, problems) = crate::config::Config::load_from(&Value::Object(settings), |_| None);
        assert_eq!(problems, []);
    }
}
