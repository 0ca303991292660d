//! `linelens annotations`: ground-truth files read, converted, compared and checked.

use super::output::{Failure, Output};
use crate::annotations::agreement::{self, Agreement};
use crate::annotations::atomic::AtomicFile;
use crate::annotations::dataset::{self, Format, Samples};
use crate::annotations::export::{NotExported, SarifWriter};
use crate::annotations::lost::{self, LostRecords};
use crate::annotations::problem::counted;
use crate::annotations::repeats::{self, Said};
use crate::annotations::{Record, RowError, native};
use crate::escape;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Of more bad rows of one kind in one file only the number is said.
const SHOWN_A_KIND: usize = 5;

#[derive(Debug, Subcommand)]
pub(super) enum Annotations {
    /// Convert data sets and annotation files to linelens's own format
    Import(Import),
    /// Convert annotation files for other tools
    Export(Export),
    /// How far annotators agree: Cohen's kappa over lines, and the lines they differ about
    Agreement(AgreementOf),
    /// Say what is wrong in annotation files and data sets, row by row
    Check(Check),
}

#[derive(Debug, Args)]
pub(super) struct Import {
    #[command(flatten)]
    from: Input,
    /// Where the result goes; default: standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace the file that `--out` names
    #[arg(long)]
    force: bool,
    /// Look up the functions of SARIF files here, and say where they are and what they hold
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Whose labels these are
    #[arg(long, value_name = "NAME")]
    annotator: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Export {
    #[command(flatten)]
    from: Input,
    /// The format to write
    #[arg(long, value_enum, default_value = "sarif")]
    to: To,
    /// Where the result goes; default: standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace the file that `--out` names
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum To {
    /// SARIF 2.1.0
    Sarif,
    /// linelens-annotations, JSON Lines
    Native,
}

#[derive(Debug, Args)]
pub(super) struct AgreementOf {
    #[command(flatten)]
    from: Input,
    /// How the result is printed
    #[arg(long, value_enum, default_value = "text")]
    format: Shown,
}

#[derive(Debug, Args)]
pub(super) struct Check {
    #[command(flatten)]
    from: Input,
    /// Name every bad row
    #[arg(long)]
    all: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shown {
    Text,
    Json,
}

#[derive(Debug, Args)]
struct Input {
    /// Annotation files and data sets, plain or gzip-compressed
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// native, functions, bigvul, linevul, primevul, sven, devign, diversevul or sarif; default: by the content
    #[arg(long, value_name = "FORMAT")]
    from: Option<String>,
}

/// Exit code 1 says that rows were bad, and skipped.
pub(super) fn run(command: &Annotations, output: &mut Output) -> Result<u8, Failure> {
    let bad = match command {
        Annotations::Import(command) => import(command, output)?,
        Annotations::Export(command) => export(command, output)?,
        Annotations::Agreement(command) => compare(command, output)?,
        Annotations::Check(command) => check(command, output)?,
    };
    Ok(u8::from(bad > 0))
}

fn import(command: &Import, output: &mut Output) -> Result<usize, Failure> {
    let sink = Sink::new(command.out.as_deref(), command.force)?;
    let mut writer = Native::new(sink);
    let mut bad = 0;
    for file in &command.from.files {
        let samples = match &command.root {
            Some(root) => command.from.open(file, |path, format| dataset::open_in(path, format, root))?,
            None => command.from.open(file, dataset::import_located)?,
        };
        bad += each(file, samples, SHOWN_A_KIND, output, |_, mut record, output| {
            if command.annotator.is_some() {
                record.annotator.clone_from(&command.annotator);
            }
            writer.add(&record, output)
        })?
        .bad;
    }
    writer.finish(output)?;
    Ok(bad)
}

fn export(command: &Export, output: &mut Output) -> Result<usize, Failure> {
    let sink = Sink::new(command.out.as_deref(), command.force)?;
    let mut bad = 0;
    if command.to == To::Native {
        let mut writer = Native::new(sink);
        for file in &command.from.files {
            let samples = command.from.open(file, dataset::import_located)?;
            bad +=
                each(file, samples, SHOWN_A_KIND, output, |_, record, output| writer.add(&record, output))?
                    .bad;
        }
        writer.finish(output)?;
        return Ok(bad);
    }
    let mut left_out: BTreeMap<NotExported, usize> = BTreeMap::new();
    // What a result holds is small; what was written is handed on after each record.
    let mut writer = SarifWriter::new(Vec::new())?;
    let mut sink = sink;
    for file in &command.from.files {
        let samples = command.from.open(file, dataset::import_located)?;
        // Lines are where they are today, as far as the files are there.
        let mut today = match samples.format() {
            Format::Native => lost::today(file),
            _ => HashMap::new(),
        };
        bad += each(file, samples, SHOWN_A_KIND, output, |row, record, output| {
            let record = match today.remove(&row) {
                Some(Some(record)) => record,
                Some(None) => {
                    *left_out.entry(NotExported::Gone).or_default() += 1;
                    return Ok(());
                }
                None => record,
            };
            if let Err(reason) = writer.add(&record)? {
                *left_out.entry(reason).or_default() += 1;
            }
            sink.write(&std::mem::take(writer.get_mut()), output)
        })?
        .bad;
    }
    let rest = writer.finish()?;
    sink.write(&rest, output)?;
    sink.finish(output)?;
    for (reason, count) in left_out {
        let are = if count == 1 { "is" } else { "are" };
        output.warn(&format!(
            "{} {} {are} not in the log",
            counted(count, "record", "records"),
            reason.as_str()
        ));
    }
    Ok(bad)
}

fn compare(command: &AgreementOf, output: &mut Output) -> Result<usize, Failure> {
    let mut records = Vec::new();
    let mut bad = 0;
    for file in &command.from.files {
        let samples = command.from.open(file, dataset::import_located)?;
        bad += each(file, samples, SHOWN_A_KIND, output, |_, record, _| {
            records.push(record);
            Ok(())
        })?
        .bad;
    }
    let agreement = agreement::agreement(&records);
    match command.format {
        Shown::Json => output.json(&AgreementJson::new(&agreement))?,
        Shown::Text => print(&agreement, output)?,
    }
    Ok(bad)
}

fn print(agreement: &Agreement, output: &mut Output) -> Result<(), Failure> {
    let names = agreement.annotators.iter().map(|name| escape::terminal(name)).collect::<Vec<_>>().join(", ");
    output.line(&format!("annotators: {names}"))?;
    if agreement.pairs.is_empty() {
        output.line("no function has line labels of two annotators")?;
    }
    for pair in &agreement.pairs {
        let kappa = match pair.kappa {
            Some(kappa) => format!("{kappa:.3}"),
            None => "undefined (chance alone makes them agree)".to_string(),
        };
        output.line(&format!(
            "{} and {}: kappa {kappa}; {}, {}: {} marked by both, {} and {} by one of them",
            escape::terminal(&pair.first),
            escape::terminal(&pair.second),
            counted(pair.functions, "function", "functions"),
            counted(pair.lines, "line", "lines"),
            pair.both,
            pair.only_first,
            pair.only_second
        ))?;
    }
    for line in &agreement.disagreements {
        let place = match (&line.file, &line.function) {
            (Some(file), Some(function)) => format!("{file}: {function}"),
            (Some(name), None) | (None, Some(name)) => name.clone(),
            (None, None) => line.body_sha256.clone(),
        };
        let said = |what: &str, names: &[String]| {
            (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")))
        };
        let who =
            [said("flaw", &line.flaw), said("unsure", &line.unsure), said("not marked", &line.not_marked)];
        let who = who.into_iter().flatten().collect::<Vec<_>>().join("; ");
        let text = format!("{place}, line {} of the function: {} ({who})", line.line + 1, line.text.trim());
        output.line(&escape::terminal(&text))?;
    }
    if agreement.annotators.iter().any(|name| name == agreement::UNNAMED) {
        output.warn(&format!(
            "{} stands for records that name no annotator, and all of these are one; `linelens annotations import \
             --annotator NAME` says whose the labels of a file are",
            agreement::UNNAMED
        ));
    }
    if agreement.without_line_count > 0 {
        let count = agreement.without_line_count;
        let do_not = if count == 1 { "does not" } else { "do not" };
        output.warn(&format!(
            "{} {do_not} count: no record says how many lines there are (`range`)",
            counted(count, "function", "functions")
        ));
    }
    if agreement.without_hash > 0 {
        let count = agreement.without_hash;
        let do_not = if count == 1 { "does not" } else { "do not" };
        output.warn(&format!("{} without `body_sha256` {do_not} count", counted(count, "record", "records")));
    }
    Ok(())
}

fn check(command: &Check, output: &mut Output) -> Result<usize, Failure> {
    let mut bad = 0;
    let shown = if command.all { usize::MAX } else { SHOWN_A_KIND };
    for file in &command.from.files {
        let samples = command.from.open(file, dataset::import_located)?;
        let format = samples.format();
        let mut labels = [0_usize; 3];
        let (mut with_lines, mut lines) = (0, 0);
        let count = each(file, samples, shown, output, |_, record, _| {
            labels[record.label as usize] += 1;
            with_lines += usize::from(!record.lines.is_empty());
            lines += record.lines.len();
            Ok(())
        })?;
        let [vulnerable, benign, unsure] = labels;
        output.line(&format!(
            "{}: {format}, {}: {vulnerable} vulnerable, {benign} benign, {unsure} unsure; {with_lines} with \
             {}; {}",
            escape::terminal(&file.to_string_lossy()),
            counted(count.good, "function", "functions"),
            counted(lines, "labelled line", "labelled lines"),
            bad_rows(count.bad)
        ))?;
        bad += count.bad;
        if format == Format::Native {
            warn_of_lost(file, shown, output);
        }
    }
    Ok(bad)
}

/// Records whose functions are gone are no bad rows: what they say was right once.
fn warn_of_lost(file: &Path, shown: usize, output: &mut Output) {
    let name = escape::terminal(&file.to_string_lossy());
    let LostRecords { records, set_aside, doubtful, lines, missing, nowhere } = lost::look_up(file);
    for (problems, one, many) in [
        (records, "record belongs to no function", "records belong to no function"),
        (nowhere, "record names neither a file nor a text", "records name neither a file nor a text"),
        (missing, "record is of a file that cannot be read", "records are of files that cannot be read"),
        (set_aside, "record is set aside for a newer one", "records are set aside for newer ones"),
        (doubtful, "record is only probably of its function", "records are only probably of their functions"),
        (
            lines,
            "record labels lines that are not as it says",
            "records label lines that are not as they say",
        ),
    ] {
        for problem in problems.iter().take(shown) {
            output.warn(&problem.to_string());
        }
        if problems.len() > shown {
            output.warn(&format!("{name}: {}", counted(problems.len(), one, many)));
        }
    }
}

impl Input {
    fn open(
        &self,
        file: &Path,
        open: impl Fn(&Path, Option<Format>) -> Result<Samples, dataset::DatasetError>,
    ) -> Result<Samples, Failure> {
        let format = self.from.as_deref().map(str::parse::<Format>).transpose().map_err(Failure::new)?;
        open(file, format).map_err(|error| Failure::new(error.to_string()))
    }
}

#[derive(Default)]
struct Count {
    good: usize,
    bad: usize,
}

/// Hands every record on, says which rows are bad (of each kind the first `shown`), and how many of each kind.
fn each(
    file: &Path,
    samples: Samples,
    shown: usize,
    output: &mut Output,
    mut take: impl FnMut(usize, Record, &mut Output) -> Result<(), Failure>,
) -> Result<Count, Failure> {
    let name = escape::terminal(&file.to_string_lossy());
    let mut count = Count::default();
    let mut kinds: BTreeMap<&'static str, usize> = BTreeMap::new();
    let format = samples.format();
    let (mut said, mut repeated, mut not_found) = (Said::default(), 0, 0);
    for sample in samples {
        match sample {
            Ok(sample) => {
                count.good += 1;
                if format == Format::Native
                    && let Some(earlier) = said.before(&sample.record, sample.row)
                {
                    repeated += 1;
                    if repeated <= shown {
                        let said = escape::terminal(&repeats::sentence(&sample.record, earlier));
                        output.warn(&format!("{name}, row {}: {said}", sample.row));
                    }
                }
                not_found += usize::from(format == Format::Sarif && sample.code.is_empty());
                take(sample.row, sample.record, output)?;
            }
            Err(RowError { row, reason }) => {
                count.bad += 1;
                let of_kind = kinds.entry(reason.kind()).or_default();
                *of_kind += 1;
                if *of_kind <= shown {
                    output.warn(&format!("{name}, row {row}: {}", escape::terminal(&reason.to_string())));
                }
            }
        }
    }
    if count.bad > 0 {
        let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        output.warn(&format!("{name}: {}: {}", bad_rows(count.bad), kinds.join(", ")));
    }
    if repeated > shown {
        let said =
            counted(repeated, "row repeats one of its annotator", "rows repeat one of their annotator");
        output.warn(&format!("{name}: {said}"));
    }
    if not_found > 0 {
        output.warn(&format!(
            "{name}: {}; `import --root DIR` says where the files are",
            counted(
                not_found,
                "result's function was not found beside it, so its record names lines of a file",
                "results' functions were not found beside it, so their records name lines of files"
            )
        ));
    }
    Ok(count)
}

/// Where records go: a file that is there whole or not at all, or standard output.
enum Sink {
    File(PathBuf, AtomicFile),
    Output,
}

impl Sink {
    fn new(out: Option<&Path>, force: bool) -> Result<Sink, Failure> {
        let Some(path) = out else { return Ok(Sink::Output) };
        if !force && std::fs::symlink_metadata(path).is_ok() {
            return Err(Failure::new(format!("{} exists already; `--force` replaces it", path.display())));
        }
        let file = AtomicFile::create(path).map_err(|error| Sink::failure(path, &error))?;
        Ok(Sink::File(path.to_path_buf(), file))
    }

    fn failure(path: &Path, error: &io::Error) -> Failure {
        Failure::new(format!("{} cannot be written: {error}", path.display()))
    }

    fn write(&mut self, bytes: &[u8], output: &mut Output) -> Result<(), Failure> {
        match self {
            Sink::File(path, file) => file.write_all(bytes).map_err(|error| Sink::failure(path, &error)),
            Sink::Output => {
                // Whole lines come in; what belongs to one comes at once.
                let text = String::from_utf8_lossy(bytes);
                output.text(&escape::json(&text))
            }
        }
    }

    fn finish(self, output: &mut Output) -> Result<(), Failure> {
        match self {
            Sink::File(path, file) => file.commit().map_err(|error| Sink::failure(&path, &error)),
            Sink::Output => output.flush(),
        }
    }
}

struct Native {
    sink: Sink,
    /// The header is written before the first record, so that a file that cannot be read leaves nothing on the output.
    has_header: bool,
}

impl Native {
    fn new(sink: Sink) -> Native {
        Native { sink, has_header: false }
    }

    fn begin(&mut self, output: &mut Output) -> Result<(), Failure> {
        if std::mem::replace(&mut self.has_header, true) {
            return Ok(());
        }
        self.sink.write(format!("{}\n", native::header()).as_bytes(), output)
    }

    fn add(&mut self, record: &Record, output: &mut Output) -> Result<(), Failure> {
        self.begin(output)?;
        self.sink.write(format!("{}\n", native::to_line(record)).as_bytes(), output)
    }

    fn finish(mut self, output: &mut Output) -> Result<(), Failure> {
        self.begin(output)?;
        self.sink.finish(output)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AgreementJson<'a> {
    annotators: &'a [String],
    pairs: Vec<PairJson<'a>>,
    disagreements: Vec<DisagreementJson<'a>>,
    functions_without_line_count: usize,
    records_without_hash: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PairJson<'a> {
    first: &'a str,
    second: &'a str,
    functions: usize,
    lines: usize,
    both: usize,
    only_first: usize,
    only_second: usize,
    /// `null` where chance alone makes them agree.
    kappa: Option<f64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DisagreementJson<'a> {
    file: &'a Option<String>,
    function: &'a Option<String>,
    body_sha256: &'a str,
    /// 1-based, in the function.
    line: usize,
    text: &'a str,
    flaw: &'a [String],
    unsure: &'a [String],
    not_marked: &'a [String],
}

impl<'a> AgreementJson<'a> {
    fn new(agreement: &'a Agreement) -> AgreementJson<'a> {
        AgreementJson {
            annotators: &agreement.annotators,
            pairs: agreement
                .pairs
                .iter()
                .map(|pair| PairJson {
                    first: &pair.first,
                    second: &pair.second,
                    functions: pair.functions,
                    lines: pair.lines,
                    both: pair.both,
                    only_first: pair.only_first,
                    only_second: pair.only_second,
                    kappa: pair.kappa,
                })
                .collect(),
            disagreements: agreement
                .disagreements
                .iter()
                .map(|line| DisagreementJson {
                    file: &line.file,
                    function: &line.function,
                    body_sha256: &line.body_sha256,
                    line: line.line + 1,
                    text: &line.text,
                    flaw: &line.flaw,
                    unsure: &line.unsure,
                    not_marked: &line.not_marked,
                })
                .collect(),
            functions_without_line_count: agreement.without_line_count,
            records_without_hash: agreement.without_hash,
        }
    }
}

fn bad_rows(count: usize) -> String {
    counted(count, "bad row", "bad rows")
}
