//! The architecture as a test: who may import whom, what never appears where, and that the pages agree with the code.
//!
//! The source is scanned as text: comments and literals are blanked, code under `#[cfg(test)]` is left out, and `use`
//! trees are expanded into paths. Each rule is a function from a source file to complaints; each has a test that it
//! does complain.

#[path = "tidy/scan.rs"]
mod scan;

use scan::Source;
use std::fs;
use std::path::{Path, PathBuf};

/// A module and the modules that it may import. `docs/architecture.md` holds the same table.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("text", &[]),
    ("escape", &[]),
    ("sources", &[]),
    ("syntax", &["text"]),
    ("tokens", &["text"]),
    ("graph", &[]),
    ("detector", &["text", "tokens", "graph"]),
    ("explain", &["tokens", "graph", "detector"]),
    ("lines", &["text", "tokens"]),
    ("annotations", &["text", "syntax"]),
    ("alignment", &["lines"]),
    (
        "analysis",
        &[
            "text",
            "escape",
            "syntax",
            "tokens",
            "graph",
            "detector",
            "explain",
            "lines",
            "annotations",
            "alignment",
        ],
    ),
    (
        "evaluation",
        &["text", "syntax", "tokens", "detector", "explain", "lines", "annotations", "alignment", "analysis"],
    ),
    ("shape", &["alignment", "analysis"]),
    ("report", &["text", "escape", "detector", "lines", "annotations", "analysis"]),
    ("config", &["tokens", "detector", "explain", "annotations", "analysis"]),
    ("doctor", &["escape", "tokens", "detector", "explain", "config"]),
    ("revision", &[]),
    ("cli", &[EVERYTHING_BELOW]),
    ("lsp", &[EVERYTHING_BELOW]),
];
const EVERYTHING_BELOW: &str = "*";

/// All that `detector`, and `doctor` that shows it, may know of `tokens`.
const DETECTOR_KNOWS_OF_TOKENS: &[&str] = &["Tokenizer", "TokenizerError", "Normalize", "LongPolicy"];

/// A crate (or path) and the only places under `src/` where it may appear: a module's name, or one file.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("ort", &["detector/session.rs", "detector/session/arena.rs", "detector/session/weights.rs"]),
    ("tree_sitter", &["syntax"]),
    ("tree_sitter_c", &["syntax"]),
    ("tree_sitter_cpp", &["syntax"]),
    ("tokenizers", &["tokens"]),
    ("prost", &["graph"]),
    ("tower_lsp", &["lsp"]),
    ("ls_types", &["lsp"]),
    ("lsp_types", &["lsp"]),
    ("dashmap", &["lsp"]),
    ("tokio", &["lsp", "cli"]),
    ("clap", &["cli"]),
    ("serde", &["detector", "annotations", "shape", "config", "cli", "lsp"]),
    ("std::fs", &["detector", "annotations", "config", "doctor", "revision", "cli", "lsp"]),
    ("std::env", &["detector", "annotations", "config", "doctor", "revision", "cli", "lsp", "main.rs"]),
    ("std::process", &["detector", "annotations", "config", "doctor", "revision", "cli", "lsp", "main.rs"]),
    // No network, ever.
    ("std::net", &[]),
    ("tokio::net", &[]),
];

/// Views own their formats, and `shape` what they share; domain types have none. The detector reads files, it writes none; ground truth is a file
/// format, whose own types are serialized.
const MAY_SERIALIZE: &[&str] = &["annotations", "shape", "config", "cli", "lsp"];
const MAY_DESERIALIZE: &[&str] = &["annotations", "shape", "config", "cli", "lsp", "detector"];
const MAY_PRINT: &[&str] = &["cli", "main.rs"];
const MAX_LINES: usize = 800;
/// What a reader sees of the README before scrolling, roughly.
const FIRST_SCREEN: usize = 40;

type Complaints = Vec<String>;
type Rule = fn(&Source) -> Complaints;
const RULES: &[Rule] = &[imports, foreign_paths, serialization, printing, writing, unwrapping, module_docs];

// ---------------------------------------------------------------------------------------------------- the source

#[test]
fn source_keeps_the_architecture() {
    let sources = sources();
    assert!(sources.len() > 10, "the scan found only {} source files", sources.len());
    let complaints: Complaints = sources.iter().flat_map(|s| RULES.iter().flat_map(|rule| rule(s))).collect();
    report(complaints);
}

#[test]
fn every_module_has_a_row() {
    let lib = read("src/lib.rs");
    let modules: Vec<&str> =
        lib.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    assert!(modules.contains(&"text"), "src/lib.rs is not understood any more");
    for module in modules {
        assert!(MAY_IMPORT.iter().any(|(name, _)| *name == module), "{module} has no row in MAY_IMPORT");
    }
}

#[test]
fn the_architecture_page_holds_the_same_table() {
    let page = read("docs/architecture.md");
    let lib = read("src/lib.rs");
    let missing = MAY_IMPORT
        .iter()
        .filter(|(module, _)| lib.contains(&format!("pub mod {module};")))
        .map(|(module, allowed)| table_row(module, allowed))
        .filter(|row| !page.contains(row.as_str()))
        .map(|row| format!("docs/architecture.md misses the row {row}"))
        .collect();
    report(missing);
}

fn table_row(module: &str, allowed: &[&str]) -> String {
    let imports = match (module, allowed) {
        (_, []) => "nothing".to_string(),
        ("cli", _) => "everything above, and `lsp::run` to start the server".to_string(),
        ("lsp", _) => "everything above but `cli`".to_string(),
        _ => allowed.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
    };
    format!("| `{module}` | {imports} |")
}

/// A module imports only what its row allows.
fn imports(source: &Source) -> Complaints {
    let mut complaints = Vec::new();
    let depth = source.depth();
    for path in source.paths() {
        let supers = path.names.iter().take_while(|name| *name == "super").count();
        if supers > 0 && supers >= depth {
            complaints.push(source.at(path.line, "reaches the crate root by `super`: write `crate::…`"));
        }
        let root = if source.module() == "main.rs" { "linelens" } else { "crate" };
        if path.names[0] != root || path.names.len() < 2 {
            continue;
        }
        let target = path.names[1].as_str();
        if target == source.module() || source.module() == "lib.rs" {
            continue;
        }
        if !may_import(source.module(), &path.names[1..]) {
            complaints
                .push(source.at(path.line, &format!("`{}` must not import `{target}`", source.module())));
        }
    }
    complaints
}

fn may_import(module: &str, path: &[String]) -> bool {
    let target = path[0].as_str();
    let item = path.get(1).map(String::as_str);
    match (module, target) {
        ("main.rs", "cli") => true,
        ("cli", "lsp") => item == Some("run"),
        ("lsp", "cli") => false,
        ("detector" | "doctor", "tokens") => {
            item.is_some_and(|item| DETECTOR_KNOWS_OF_TOKENS.contains(&item))
        }
        _ => MAY_IMPORT
            .iter()
            .find(|(name, _)| *name == module)
            .is_some_and(|(_, allowed)| allowed.contains(&EVERYTHING_BELOW) || allowed.contains(&target)),
    }
}

/// Crates and parts of the standard library stay where they belong.
fn foreign_paths(source: &Source) -> Complaints {
    let mut complaints = Vec::new();
    for path in source.paths() {
        if path.names.len() == 1 && !path.in_use {
            continue; // A local name, as in `ort.run()`.
        }
        for (name, places) in ONLY_IN {
            let prefix: Vec<&str> = name.split("::").collect();
            let is_prefix =
                path.names.len() >= prefix.len() && prefix.iter().zip(&path.names).all(|(a, b)| a == b);
            if is_prefix && !source.is_in(places) {
                let message = format!("`{name}` does not belong here; only in: {}", places.join(", "));
                complaints.push(source.at(path.line, &message));
            }
        }
    }
    complaints
}

/// Domain types have no format of their own.
fn serialization(source: &Source) -> Complaints {
    let mut complaints = Vec::new();
    for token in source.tokens() {
        let allowed = match token.text {
            "Serialize" => MAY_SERIALIZE,
            "Deserialize" => MAY_DESERIALIZE,
            _ => continue,
        };
        if !source.is_in(allowed) {
            complaints.push(
                source.at(
                    token.line,
                    &format!("`{}` belongs to the views: {}", token.text, allowed.join(", ")),
                ),
            );
        }
    }
    complaints
}

/// Standard output belongs to the command line; in the server it is the protocol's.
fn printing(source: &Source) -> Complaints {
    let tokens = source.tokens();
    tokens
        .windows(2)
        .filter(|pair| {
            ["print", "println", "eprint", "eprintln", "dbg"].contains(&pair[0].text) && pair[1].text == "!"
        })
        .filter(|pair| pair[0].text == "dbg" || !source.is_in(MAY_PRINT))
        .map(|pair| source.at(pair[0].line, &format!("`{}!` outside the command line", pair[0].text)))
        .collect()
}

/// Files are written in one place, which follows no symbolic link.
fn writing(source: &Source) -> Complaints {
    const WRITERS: &[&[&str]] =
        &[&["File", "create"], &["File", "create_new"], &["fs", "write"], &["fs", "rename"], &["fs", "copy"]];
    if source.is_in(&["annotations/atomic.rs"]) {
        return Vec::new();
    }
    let mut complaints = Vec::new();
    for path in source.paths() {
        let names: Vec<&str> = path.names.iter().map(AsRef::as_ref).collect();
        if names.contains(&"OpenOptions") || WRITERS.iter().any(|writer| names.ends_with(writer)) {
            let message = format!("`{}` writes files; only annotations/atomic.rs does", names.join("::"));
            complaints.push(source.at(path.line, &message));
        }
    }
    complaints
}

/// A panic in waiting states why it cannot happen: `// reason: …` (or an attribute's `reason = "…"`) in the same
/// statement or on the line above it.
fn unwrapping(source: &Source) -> Complaints {
    let tokens = source.tokens();
    tokens
        .windows(3)
        .filter(|t| t[0].text == "." && ["unwrap", "expect"].contains(&t[1].text) && t[2].text == "(")
        .filter(|t| {
            let statement = source.statement_so_far(t[1].line);
            !statement.iter().any(|line| line.contains("reason:") || line.contains("reason = "))
        })
        .map(|t| source.at(t[1].line, &format!("`.{}()` without a `// reason: …`", t[1].text)))
        .collect()
}

/// A module says in its first line what it is for.
fn module_docs(source: &Source) -> Complaints {
    if source.text.starts_with("//! ") || source.is_generated() {
        return Vec::new();
    }
    vec![source.at(1, "the file does not start with a `//!` line")]
}

// ------------------------------------------------------------------------------------------------- the whole tree

#[test]
fn files_are_short_and_free_of_machine_paths() {
    let mut complaints = Vec::new();
    for path in tree() {
        let Ok(text) = fs::read_to_string(root().join(&path)) else { continue }; // Not text: a model, a picture.
        complaints.extend(too_long(&path, &text));
        complaints.extend(machine_paths(&path, &text));
    }
    report(complaints);
}

fn too_long(path: &str, text: &str) -> Complaints {
    let is_source = [".rs", ".lua", ".ts", ".py", ".sh"].iter().any(|extension| path.ends_with(extension));
    let lines = text.lines().count();
    if !is_source || lines <= MAX_LINES || scan::is_generated(text) {
        return Vec::new();
    }
    vec![format!("{path}: {lines} lines; at most {MAX_LINES}: split it by subject")]
}

/// Absolute paths that exist on one machine only, and addresses that a lock file must not pin.
fn machine_paths(path: &str, text: &str) -> Complaints {
    let folders = [concat!("/", "work"), concat!("/", "root"), concat!("/", "farm")];
    let in_a_name = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    let mut complaints = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let absolute = folders.iter().any(|folder| {
            line.match_indices(folder).any(|(at, _)| {
                let before = line[..at].chars().next_back();
                let after = line[at + folder.len()..].chars().next();
                !before.is_some_and(in_a_name) && after.is_none_or(|c| !in_a_name(c))
            })
        });
        // A root-anchored pattern of an ignore file is no path of a machine.
        if absolute && !path.ends_with("ignore") {
            complaints.push(format!("{path}:{}: an absolute path of one machine", number + 1));
        }
        if path.ends_with("package-lock.json") && line.contains("\"resolved\": \"http") {
            complaints.push(format!("{path}:{}: a lock file names a download address", number + 1));
        }
    }
    complaints
}

// ---------------------------------------------------------------------------------------------------- the pages

#[test]
fn readme_starts_with_the_two_commands() {
    report(first_screen(&read("README.md")));
}

fn first_screen(readme: &str) -> Complaints {
    let screen: Vec<&str> = readme.lines().take(FIRST_SCREEN).collect();
    ["make demo", "make test"]
        .iter()
        .filter(|command| !screen.iter().any(|line| line.trim() == **command))
        .map(|command| format!("README.md: `{command}` is not in the first {FIRST_SCREEN} lines"))
        .collect()
}

#[test]
fn changelog_has_a_place_for_what_is_next() {
    report(changelog(&read("CHANGELOG.md"), cargo_version()));
}

fn changelog(text: &str, version: &str) -> Complaints {
    let headings: Vec<&str> = text.lines().filter(|line| line.starts_with("## [")).collect();
    let mut complaints = Vec::new();
    if headings.first() != Some(&"## [Unreleased]") {
        complaints.push("CHANGELOG.md: the first heading is not `## [Unreleased]`".to_string());
    }
    if let Some(release) = headings.get(1)
        && !release.starts_with(&format!("## [{version}]"))
    {
        complaints.push(format!("CHANGELOG.md: the newest release is not {version}: {release}"));
    }
    complaints
}

#[test]
fn versions_agree() {
    let mut complaints = Vec::new();
    for path in tree() {
        if path.ends_with(".md") && path != "CHANGELOG.md" {
            complaints.extend(named_versions(&path, &read(&path), "linelens", cargo_version()));
            complaints.extend(named_versions(&path, &read(&path), "Rust", env!("CARGO_PKG_RUST_VERSION")));
        }
        if path.starts_with("editors/") && path.ends_with("/package.json") {
            let package: serde_json::Value = serde_json::from_str(&read(&path)).unwrap();
            if package["version"] != cargo_version() {
                complaints.push(format!("{path}: version {} is not {}", package["version"], cargo_version()));
            }
        }
    }
    report(complaints);
}

/// `NAME 1.2.3` in a page must be the version in force.
fn named_versions(path: &str, text: &str, name: &str, version: &str) -> Complaints {
    let marker = format!("{name} ");
    text.match_indices(&marker)
        .map(|(at, _)| {
            let rest = &text[at + marker.len()..];
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            rest[..end].trim_end_matches('.')
        })
        .filter(|named| named.contains('.') && *named != version)
        .map(|named| format!("{path}: names {name} {named}, but it is {version}"))
        .collect()
}

#[test]
fn every_setting_is_documented() {
    let page = read("docs/configuration.md");
    let missing = linelens::config::KEYS
        .iter()
        .map(|key| {
            let workspace = if key.workspace { "yes" } else { "no" };
            format!("| `{}` | {workspace} | `{}` |", key.name, key.environment_variable())
        })
        .filter(|row| !page.contains(row.as_str()))
        .map(|row| format!("docs/configuration.md misses the row {row}"))
        .collect();
    report(missing);
    let rows = page.lines().filter(|line| line.starts_with("| `") && line.contains("`LINELENS_")).count();
    assert_eq!(rows, linelens::config::KEYS.len(), "docs/configuration.md has a row for a key that is gone");
}

#[test]
fn the_demo_shows_a_function_of_the_examples() {
    let makefile = read("Makefile");
    let demo = makefile.lines().find_map(|line| line.strip_prefix("DEMO := ")).expect("DEMO in the Makefile");
    let (file, line) = demo.rsplit_once(':').unwrap();
    let line: usize = line.parse().unwrap();
    let text = read(file);
    let shown = text.lines().nth(line - 1).unwrap();
    assert!(shown.contains('('), "{demo} is not the first line of a function: {shown}");
    assert!(read("README.md").contains(demo), "README.md does not show {demo}");
}

// ------------------------------------------------------------------------------------- the rules can say no

#[test]
fn imports_are_checked() {
    accepts(imports, "src/lines.rs", "use crate::text::LineIndex;");
    accepts(imports, "src/lines.rs", "#[cfg(test)]\nmod tests { use crate::detector::Detector; }");
    accepts(
        imports,
        "src/lines.rs",
        "// use crate::detector::Detector;\nconst A: &str = \"crate::detector\";",
    );
    accepts(imports, "src/cli/serve.rs", "fn f() { crate::lsp::run() }");
    accepts(imports, "src/lsp/proto/ext.rs", "use super::super::worker::Worker;");
    accepts(imports, "src/main.rs", "use linelens::cli;");
    accepts(imports, "src/detector.rs", "use crate::tokens::{LongPolicy, Tokenizer};");
    rejects(imports, "src/lines.rs", "use crate::detector::Detector;");
    rejects(
        imports,
        "src/lines/sum.rs",
        "use crate::{\n    text::{self, ByteSpan},\n    explain::Method,\n};",
    );
    rejects(imports, "src/text.rs", "type T = Vec<crate::tokens::Token>;");
    rejects(imports, "src/text.rs", "use super::tokens::Token;");
    rejects(imports, "src/detector.rs", "use crate::tokens::{Encoding, Tokenizer};");
    rejects(imports, "src/explain.rs", "use crate::lines::aggregate;");
    rejects(imports, "src/cli/serve.rs", "use crate::lsp::documents::Documents;");
    rejects(imports, "src/lsp.rs", "use crate::cli::render;");
    rejects(imports, "src/main.rs", "use linelens::detector::Detector;");
    rejects(imports, "src/newcomer.rs", "use crate::text::ByteSpan;");
}

#[test]
fn foreign_paths_are_checked() {
    accepts(foreign_paths, "src/detector/session.rs", "use ort::session::Session;");
    accepts(foreign_paths, "src/lsp/worker.rs", "use tower_lsp::ls_types::Url;");
    accepts(foreign_paths, "src/lines.rs", "fn f(ort: u8) -> u8 { ort }");
    rejects(foreign_paths, "src/detector/locate.rs", "use ort::session::Session;");
    rejects(foreign_paths, "src/analysis.rs", "fn f(p: tower_lsp::ls_types::Position) {}");
    rejects(foreign_paths, "src/lines.rs", "fn f(n: tree_sitter::Node<'_>) {}");
    rejects(foreign_paths, "src/detector.rs", "use tokenizers::Tokenizer;");
    rejects(foreign_paths, "src/detector.rs", "use prost::Message;");
    rejects(foreign_paths, "src/syntax.rs", "use std::{collections::HashMap, fs};");
    rejects(foreign_paths, "src/explain/ig.rs", "fn f() { let _ = std::env::var(\"X\"); }");
    rejects(foreign_paths, "src/lsp.rs", "use std::net::TcpListener;");
    rejects(foreign_paths, "src/lines.rs", "use serde::Serialize;");
}

#[test]
fn serialization_is_checked() {
    accepts(serialization, "src/cli/json.rs", "#[derive(Serialize)] struct S;");
    accepts(serialization, "src/detector/files.rs", "#[derive(Deserialize)] struct S;");
    rejects(serialization, "src/detector/files.rs", "#[derive(Serialize)] struct S;");
    rejects(serialization, "src/analysis.rs", "#[derive(Debug, serde::Deserialize)] struct S;");
}

#[test]
fn printing_is_checked() {
    accepts(printing, "src/cli/render.rs", "fn f() { println!() }");
    accepts(printing, "src/lines.rs", "/// println!(\"\")\nfn f() {}");
    rejects(printing, "src/lsp.rs", "fn f() { println!(\"x\") }");
    rejects(printing, "src/explain.rs", "fn f() { eprintln!(\"x\") }");
    rejects(printing, "src/cli.rs", "fn f() { dbg!(1); }");
}

#[test]
fn writing_is_checked() {
    accepts(writing, "src/annotations/atomic.rs", "use std::fs::OpenOptions;");
    accepts(writing, "src/cli/unpack.rs", "fn f() { std::fs::read(\"x\"); File::open(\"y\"); }");
    accepts(writing, "src/revision.rs", "#[test]\nfn f() { std::fs::write(\"x\", \"\"); }");
    rejects(writing, "src/cli/unpack.rs", "use std::fs::{File, OpenOptions};");
    rejects(writing, "src/cli/unpack.rs", "fn f() { File::create(\"x\"); }");
    rejects(writing, "src/lsp/truth.rs", "fn f() { fs::rename(\"x\", \"y\"); }");
    rejects(writing, "src/cli.rs", "fn f() { std::fs::write(\"x\", \"\"); }");
}

#[test]
fn unwrapping_is_checked() {
    accepts(unwrapping, "src/lines.rs", "fn f() {\n    x.unwrap_or(1);\n}");
    accepts(unwrapping, "src/lines.rs", "fn f() {\n    // reason: checked above\n    x.unwrap();\n}");
    accepts(
        unwrapping,
        "src/lines.rs",
        "fn f() {\n    // reason: checked above\n    x.y()\n        .unwrap();\n}",
    );
    accepts(unwrapping, "src/lines.rs", "#[test]\nfn f() {\n    x.unwrap();\n}");
    accepts(unwrapping, "src/lines/tests.rs", "fn f() {\n    x.unwrap();\n}");
    rejects(unwrapping, "src/lines.rs", "fn f() {\n    x.unwrap();\n}");
    rejects(unwrapping, "src/lines.rs", "fn f() {\n    x.expect(\"reason: in a string\");\n}");
    rejects(
        unwrapping,
        "src/lines.rs",
        "fn f() {\n    // reason: checked\n    x.unwrap();\n    y.unwrap();\n}",
    );
}

#[test]
fn pages_and_files_are_checked() {
    rejects(module_docs, "src/lines.rs", "use crate::text;");
    accepts(module_docs, "src/graph/onnx.rs", "// This file is @generated by prost-build.\n");
    assert!(too_long("src/a.rs", &"\n".repeat(MAX_LINES)).is_empty());
    assert!(!too_long("src/a.rs", &"\n".repeat(MAX_LINES + 1)).is_empty());
    for path in [concat!("see /", "work/x"), concat!("\"/", "root\""), concat!("file:///", "farm/a.c")] {
        assert!(!machine_paths("docs/a.md", path).is_empty(), "{path}");
    }
    for path in ["src/work/a", concat!("/", "workspace/a"), "a/root/b"] {
        assert!(machine_paths("docs/a.md", path).is_empty(), "{path}");
    }
    assert!(!machine_paths("package-lock.json", "\"resolved\": \"https://host/x.tgz\"").is_empty());
    assert!(!first_screen(&format!("{}make demo\nmake test\n", "\n".repeat(FIRST_SCREEN))).is_empty());
    assert!(first_screen("make demo\nmake test\n").is_empty());
    assert!(changelog("# Changelog\n## [Unreleased]\n## [1.2.3] - 2026-01-01\n", "1.2.3").is_empty());
    assert!(!changelog("# Changelog\n## [1.2.3] - 2026-01-01\n", "1.2.3").is_empty());
    assert!(!changelog("## [Unreleased]\n## [1.2.2] - 2026-01-01\n", "1.2.3").is_empty());
    assert!(!named_versions("a.md", "install linelens 0.0.1.", "linelens", "0.1.0").is_empty());
    assert!(
        named_versions("a.md", "install linelens 0.1.0. See linelens 2 times", "linelens", "0.1.0")
            .is_empty()
    );
}

fn accepts(rule: Rule, path: &str, text: &str) {
    let complaints = rule(&Source::new(path, text));
    assert!(complaints.is_empty(), "should pass: {text}\n{complaints:?}");
}

fn rejects(rule: Rule, path: &str, text: &str) {
    assert!(!rule(&Source::new(path, text)).is_empty(), "should be rejected in {path}: {text}");
}

// -------------------------------------------------------------------------------------------------------- helpers

fn report(complaints: Complaints) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn cargo_version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn sources() -> Vec<Source> {
    tree()
        .iter()
        .filter(|path| path.starts_with("src/") && path.ends_with(".rs"))
        .map(|path| Source::new(path, &read(path)))
        .collect()
}

/// Every file that is not ignored, relative to the root, with forward slashes.
fn tree() -> Vec<String> {
    let relative = |path: PathBuf| {
        let path = path.strip_prefix(root()).ok()?.to_str()?.replace('\\', "/");
        (path != ".git" && !path.starts_with(".git/")).then_some(path)
    };
    ignore::WalkBuilder::new(root())
        .hidden(false)
        .require_git(false)
        .sort_by_file_path(Path::cmp)
        .build()
        .filter_map(|entry| entry.ok())
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
        .filter_map(|entry| relative(entry.into_path()))
        .collect()
}
