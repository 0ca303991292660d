//! `linelens unpack`: a dataset as files that an editor opens, with its ground truth beside them.
//!
//! Nothing is written outside the folder, whatever names the dataset holds, and nothing is overwritten: a file that is
//! there already must be what would be written.

use super::arguments::Unpack;
use super::eval::{Malformed, format_named, open, shown};
use super::output::{Failure, Output};
use crate::annotations::problem::counted;
use crate::annotations::{FunctionLines, Label, Record, Sample, atomic, native};
use crate::syntax::{Function, Language, SyntaxTree};
use crate::text::LineIndex;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// Functions in one folder.
const IN_A_FOLDER: usize = 1000;
/// Bytes of a function's own name in its file's name.
const LONGEST_NAME: usize = 60;

pub(super) fn run(command: &Unpack, output: &mut Output) -> Result<u8, Failure> {
    let format = format_named(command.input_format.as_deref())?;
    let samples = open(&command.dataset, format)?;
    let root = &command.directory;
    std::fs::create_dir_all(root).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Failure::new(format!("{} is to be a folder, but {}", shown(root), atomic::what_is_there(root)))
        }
        _ => failed(root, "cannot be made", &error),
    })?;
    make_folder(&root.join(".linelens"))?;
    let annotations = Annotations::create(root)?;
    let written = write(samples, command.limit, root, annotations, output);
    let (functions, malformed) = written?;
    malformed.warn(&shown(&command.dataset), output);
    output.line(&format!("{} in {}", counted(functions, "function", "functions"), shown(root)))?;
    Ok(u8::from(malformed.total() > 0))
}

fn write(
    samples: crate::annotations::dataset::Samples,
    limit: Option<u64>,
    root: &Path,
    mut annotations: Annotations,
    output: &mut Output,
) -> Result<(usize, Malformed), Failure> {
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let mut malformed = Malformed::default();
    let mut number = 0;
    for sample in samples {
        if number >= limit {
            break;
        }
        let sample = match sample {
            Ok(sample) => sample,
            Err(error) => {
                malformed.count(&error);
                continue;
            }
        };
        let folder = format!("{:03}", number / IN_A_FOLDER);
        if number % IN_A_FOLDER == 0 {
            make_folder(&root.join(&folder))?;
        }
        let file = format!("{folder}/{}", file_name(number, &sample));
        write_new(&root.join(&file), sample.code.as_bytes())?;
        for record in records(&sample, file) {
            annotations.add(&record)?;
        }
        number += 1;
        if number % 500 == 0 {
            output.progress(&counted(number, "function", "functions"));
        }
    }
    output.progress("");
    annotations.finish()?;
    Ok((number, malformed))
}

/// `000012-name.c`: a number of ours, and of the dataset's name only what is safe in every file system.
fn file_name(number: usize, sample: &Sample) -> String {
    let name = sample.record.function.as_deref().or(sample.id.as_deref()).unwrap_or("function");
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    let name: String = name.chars().take(LONGEST_NAME).map(safe).collect();
    let extension = match Language::detect(Some("h"), None, &sample.code) {
        Language::C => "c",
        Language::Cpp => "cpp",
    };
    format!("{number:06}-{name}.{extension}")
}

/// The sample's record, about the file that was written.
fn record(sample: &Sample, file: String) -> Record {
    let lines = LineIndex::new(&sample.code).line_count();
    // The empty line behind the last line end is none.
    let last = lines.saturating_sub(1 + usize::from(sample.code.ends_with(['\n', '\r'])));
    Record { file: Some(file), range: Some((0, last)), ..sample.record.clone() }
}

/// The sample's record, about the function of its text that holds the labelled lines. Where several hold some of them, or
/// none of several does and all are benign, one record each: a record is of one function.
fn records(sample: &Sample, file: String) -> Vec<Record> {
    let whole = record(sample, file);
    let extension = Path::new(whole.file.as_deref().unwrap_or_default()).extension();
    let language = Language::detect(extension.and_then(|name| name.to_str()), None, &sample.code);
    let functions = SyntaxTree::parse(&sample.code, language).functions(&sample.code).to_vec();
    if functions.len() < 2 {
        return vec![whole];
    }
    let text = FunctionLines::new(&sample.code);
    let lines_of = |function: &Function| {
        let (start, end) =
            (function.span.start, function.span.end.saturating_sub(1).max(function.span.start));
        text.line_at(start)..=text.line_at(end)
    };
    let holder = |line: usize| functions.iter().position(|function| lines_of(function).contains(&line));
    let holders: BTreeSet<Option<usize>> = whole.lines.iter().map(|line| holder(line.line)).collect();
    if whole.lines.is_empty() {
        if whole.label != Label::Benign {
            return vec![whole];
        }
    } else if holders.len() == 1
        && let Some(only) = holders.first().copied().flatten()
    {
        return vec![Record { function: Some(functions[only].name.clone()), ..whole }];
    }
    let of_function = |number: usize, function: &Function| {
        let first = *lines_of(function).start();
        let own = FunctionLines::new(function.span.of(&sample.code).unwrap_or_default());
        let labels = whole.lines.iter().filter(|line| holder(line.line) == Some(number));
        let lines = labels.map(|line| own.labelled(line.line - first, line.label)).collect();
        Record {
            function: Some(function.name.clone()),
            range: Some((first, first + own.count() - 1)),
            body_sha256: Some(own.sha256()),
            body_sha256_ws: Some(own.sha256_ws()),
            lines,
            ..whole.clone()
        }
    };
    let is_meant = |number: usize| whole.lines.is_empty() || holders.contains(&Some(number));
    let mut records: Vec<Record> = functions
        .iter()
        .enumerate()
        .filter(|(number, _)| is_meant(*number))
        .map(|(number, function)| of_function(number, function))
        .collect();
    if holders.contains(&None) {
        // What stands in no function stays a line of the file.
        let lines = whole.lines.iter().filter(|line| holder(line.line).is_none()).cloned().collect();
        records.push(Record { function: None, lines, ..whole });
    }
    records
}

/// Makes a folder unless it is there; a symbolic link in its place may lead elsewhere.
fn make_folder(path: &Path) -> Result<(), Failure> {
    match std::fs::create_dir(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let is_folder = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
            match is_folder {
                true => Ok(()),
                false => Err(Failure::new(format!(
                    "{} is to be a folder, but {}",
                    shown(path),
                    atomic::what_is_there(path)
                ))),
            }
        }
        Err(error) => Err(failed(path, "cannot be made", &error)),
    }
}

/// Writes a file that is not there; one that is must hold the same bytes.
fn write_new(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    // A new file follows no symbolic link.
    match atomic::create_new(path) {
        Ok(mut file) => file.write_all(bytes).map_err(|error| failed(path, "cannot be written", &error)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let is_file = std::fs::symlink_metadata(path)
                .is_ok_and(|metadata| metadata.is_file() && metadata.len() == bytes.len() as u64);
            if is_file && std::fs::read(path).is_ok_and(|found| found == bytes) {
                return Ok(());
            }
            Err(taken(path))
        }
        Err(error) => Err(failed(path, "cannot be written", &error)),
    }
}

fn taken(path: &Path) -> Failure {
    match atomic::refuse_link(path) {
        Err(error) => failed(path, "cannot be written", &error),
        Ok(()) => Failure::new(format!(
            "{} is there already and is not what would be written; nothing is overwritten: choose an empty folder",
            shown(path)
        )),
    }
}

/// The annotation file, written aside and put in its place at the end.
struct Annotations {
    path: PathBuf,
    temporary: PathBuf,
    out: BufWriter<File>,
}

impl Annotations {
    fn create(root: &Path) -> Result<Annotations, Failure> {
        let path = root.join(".linelens").join("annotations.jsonl");
        let temporary = root.join(".linelens").join(format!("annotations.jsonl.{}.tmp", std::process::id()));
        let file =
            atomic::create_new(&temporary).map_err(|error| failed(&temporary, "cannot be made", &error))?;
        let mut annotations = Annotations { path, temporary, out: BufWriter::new(file) };
        annotations.line(&native::header())?;
        Ok(annotations)
    }

    fn add(&mut self, record: &Record) -> Result<(), Failure> {
        self.line(&native::to_line(record))
    }

    fn line(&mut self, line: &str) -> Result<(), Failure> {
        writeln!(self.out, "{line}").map_err(|error| failed(&self.temporary, "cannot be written", &error))
    }

    fn finish(mut self) -> Result<(), Failure> {
        let written = self.out.flush().and_then(|()| self.out.get_ref().sync_all());
        written.map_err(|error| failed(&self.temporary, "cannot be written", &error))?;
        // Unlike a rename, this replaces nothing.
        let place = || -> std::io::Result<()> {
            let mut file = atomic::create_new(&self.path)?;
            std::io::copy(&mut File::open(&self.temporary)?, &mut file)?;
            file.sync_all()
        };
        match place() {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                if same_bytes(&self.temporary, &self.path).unwrap_or(false) {
                    return Ok(());
                }
                Err(taken(&self.path))
            }
            Err(error) => Err(failed(&self.path, "cannot be written", &error)),
        }
    }
}

impl Drop for Annotations {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.temporary);
    }
}

fn same_bytes(a: &Path, b: &Path) -> std::io::Result<bool> {
    if !std::fs::symlink_metadata(b)?.is_file() || std::fs::metadata(a)?.len() != std::fs::metadata(b)?.len()
    {
        return Ok(false);
    }
    let (mut a, mut b) = (File::open(a)?, File::open(b)?);
    let (mut of_a, mut of_b) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let read = a.read(&mut of_a)?;
        if read == 0 {
            return Ok(true);
        }
        b.read_exact(&mut of_b[..read])?;
        if of_a[..read] != of_b[..read] {
            return Ok(false);
        }
    }
}

fn failed(path: &Path, what: &str, error: &std::io::Error) -> Failure {
    Failure::new(format!("{} {what}: {error}", shown(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe() {
        let name = |function: Option<&str>, id: Option<&str>| {
            let record = Record { function: function.map(str::to_string), ..Record::new(Label::Benign) };
            let sample = Sample {
                row: 1,
                id: id.map(str::to_string),
                code: "int f(void) { return 0; }".to_string(),
                record,
                collection: None,
                project: None,
                commit: None,
                columns: (None, None),
                at_odds: crate::annotations::AtOdds::default(),
                is_region: false,
            };
            file_name(12, &sample)
        };
        assert_eq!(name(Some("Foo::bar"), Some("7")), "000012-Foo__bar.c");
        assert_eq!(name(None, Some("../../etc/passwd\0")), "000012-______etc_passwd_.c");
        assert_eq!(name(None, None), "000012-function.c");
        assert!(name(Some(&"é".repeat(5000)), None).len() < 80);
    }
}
