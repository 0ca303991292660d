//! The fuzz targets on mutated files of `fuzz/corpus`: the same inputs in every run, so a failure can be repeated.
//!
//! `LINELENS_FUZZ=1000000 cargo test --release --test fuzz -- --nocapture finder` tries more of one target;
//! `LINELENS_FUZZ_FROM=200000` goes on from there, and `LINELENS_FUZZ_LARGEST=1024` cuts inputs off. An input that fails
//! is kept in `target/fuzz`, and `LINELENS_FUZZ_INPUT=FILE` runs that one alone.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../fuzz/targets.rs"]
mod targets;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use targets::TARGETS;

/// Inputs of each target in an ordinary test run, which has a few seconds for all of them.
const FEW: u64 = 400;
/// No input of this size may take longer, on a busy machine either. A parse ends after two seconds, and some targets
/// parse a dozen times.
const LONG: Duration = Duration::from_secs(40);
const WORTH_A_LOOK: Duration = Duration::from_secs(1);
const LARGEST: usize = 4 * 1024;

#[test]
fn finder() {
    run("finder");
}

#[test]
fn positions() {
    run("positions");
}

#[test]
fn sync() {
    run("sync");
}

#[test]
fn json_rpc() {
    run("json_rpc");
}

#[test]
fn configuration() {
    run("configuration");
}

#[test]
fn onnx() {
    run("onnx");
}

#[test]
fn tokenizer() {
    run("tokenizer");
}

#[test]
fn annotations() {
    run("annotations");
}

#[test]
fn every_target_has_a_corpus_a_test_and_a_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let (tests, manifest) = (read("tests/fuzz.rs"), read("fuzz/Cargo.toml"));
    for (name, _) in TARGETS {
        assert!(corpus(name).len() >= 3, "{name}: its corpus");
        assert!(tests.contains(&format!("run(\"{name}\")")), "{name}: its test");
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name}: its program");
        let program = read(&format!("fuzz/fuzz_targets/{name}.rs"));
        assert!(program.contains(&format!("targets::{name}(data)")), "{name}: its program's call");
    }
}

#[test]
fn mutations_change_inputs_and_are_repeatable() {
    let corpus = corpus("configuration");
    let inputs =
        |seed: u64| (0..200).map(|i| Random::new(seed + i).mutated(&corpus, LARGEST)).collect::<Vec<_>>();
    assert_eq!(inputs(7), inputs(7));
    let distinct: std::collections::HashSet<Vec<u8>> = inputs(7).into_iter().collect();
    assert!(distinct.len() > 150, "{} of 200 inputs are distinct", distinct.len());
}

#[test]
fn a_panic_is_noticed() {
    let fails = |data: &[u8]| assert!(!data.contains(&b'='), "an equals sign");
    assert!(failure(fails, b"a = 1").unwrap().contains("an equals sign"));
    assert_eq!(failure(fails, b"a"), None);
}

fn run(name: &str) {
    let target = TARGETS.iter().find(|(known, _)| *known == name).unwrap().1;
    if let Some(path) = std::env::var_os("LINELENS_FUZZ_INPUT") {
        return target(&std::fs::read(path).unwrap());
    }
    let variable = |name: &str| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
    let count = variable("LINELENS_FUZZ").unwrap_or(FEW);
    let from = variable("LINELENS_FUZZ_FROM").unwrap_or(0);
    let largest = variable("LINELENS_FUZZ_LARGEST").map_or(LARGEST, |bytes| bytes as usize);
    let corpus = corpus(name);
    let (begun, mut slowest) = (Instant::now(), Duration::ZERO);
    let mutated = (from..from + count).map(|number| Random::new(number).mutated(&corpus, largest));
    for (number, input) in corpus.iter().cloned().chain(mutated).enumerate() {
        let started = Instant::now();
        if let Some(message) = failure(target, &input) {
            let kept = keep(name, number, &input);
            panic!("{name}, input {number}, kept in {}: {message}", kept.display());
        }
        let took = started.elapsed();
        if took > slowest.max(WORTH_A_LOOK) {
            println!("{name}: took {took:.1?}: {}", keep(name, number, &input).display());
        }
        slowest = slowest.max(took);
        if number > 0 && number.is_multiple_of(50_000) {
            println!("{name}: {number} inputs in {:.0?}, the slowest took {slowest:.1?}", begun.elapsed());
        }
        // A long run goes on in the background, where the time that an input takes says little.
        if took > LONG && count <= FEW {
            panic!("{name}, input {number}, took {took:?}: {}", keep(name, number, &input).display());
        }
    }
    println!("{name}: {count} inputs from {from} in {:.1?}, the slowest took {slowest:.1?}", begun.elapsed());
}

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// What a panic of the target said. The target may catch panics of its own, which are no failures.
fn failure(target: impl Fn(&[u8]), input: &[u8]) -> Option<String> {
    static QUIET: std::sync::Once = std::sync::Once::new();
    QUIET.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let inside = PANIC.with_borrow_mut(|said| said.as_mut().map(|said| *said = info.to_string()));
            if inside.is_none() {
                default(info);
            }
        }));
    });
    PANIC.set(Some(String::new()));
    let outcome = catch_unwind(AssertUnwindSafe(|| target(input)));
    let said = PANIC.take();
    outcome.err().and(said)
}

fn keep(name: &str, number: usize, input: &[u8]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("fuzz");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{name}-{number}"));
    std::fs::write(&path, input).unwrap();
    path
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// Numbers that look random and are the same in every run (xorshift64*).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.next();
        random
    }
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    fn below(&mut self, count: usize) -> usize {
        ((self.next() >> 33) as usize) % count.max(1)
    }
    /// A part of `data`: mostly short, sometimes all that is left.
    fn part<'a>(&mut self, data: &'a [u8]) -> &'a [u8] {
        let start = self.below(data.len() + 1);
        let most = if self.below(4) == 0 { data.len() } else { 16 };
        let length = self.below(most.min(data.len() - start) + 1);
        &data[start..start + length]
    }

    /// A file of the corpus with one to eight changes.
    fn mutated(mut self, corpus: &[Vec<u8>], largest: usize) -> Vec<u8> {
        let mut data = corpus[self.below(corpus.len())].clone();
        for _ in 0..=self.below(8) {
            self.change(&mut data, corpus);
        }
        data.truncate(largest);
        data
    }

    fn change(&mut self, data: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        const ODD_BYTES: &[u8] = b"\0\x01\x7f\x80\xff\n\r\t \"'\\/*{}()[]#;,<>=:.-0919eE\xc3\xf0\xe2";
        const PIECES: &[&[u8]] = &[
            b"/*",
            b"*/",
            b"//",
            b"#if 0\n",
            b"#else\n",
            b"#endif\n",
            b"R\"x(",
            b")x\"",
            b"\\\n",
            b"\r\n",
            b"{{{{{{{{",
            b"}}}}}}}}",
            b"((((((((",
            b"[[[[[[[[",
            b"template<",
            b"operator",
            b"else if (",
            b"\xef\xbb\xbf",
            b"\xe2\x80\xa8",
            b"\xf0\x9d\x9b\xbc",
            b"999999999999999999999",
            b"-1",
            b"1e400",
            b"nan",
            b"null",
            b"true",
            b"\"\\u0000\"",
            b"../",
            b"Content-Length: ",
            b"\x08\x01",
            b"\x80\x80\x80\x80\x10",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        ];
        let place = self.below(data.len() + 1);
        match self.below(11) {
            0 | 1 if !data.is_empty() => {
                let place = place.min(data.len() - 1);
                data[place] ^= 1 << self.below(8);
            }
            2 if !data.is_empty() => {
                let place = place.min(data.len() - 1);
                data[place] = ODD_BYTES[self.below(ODD_BYTES.len())];
            }
            3 => data.insert(place, ODD_BYTES[self.below(ODD_BYTES.len())]),
            4 | 5 => {
                let piece = PIECES[self.below(PIECES.len())];
                data.splice(place..place, piece.iter().copied());
            }
            6 => {
                let end = (place + 1 + self.below(16)).min(data.len());
                data.drain(place.min(end)..end);
            }
            7 => {
                let part = self.part(data).to_vec();
                data.splice(place..place, part);
            }
            8 => {
                let other = self.below(corpus.len());
                let part = self.part(&corpus[other]).to_vec();
                data.splice(place..place, part);
            }
            9 if self.below(4) == 0 => data.truncate(place),
            // One thing many times: depth and length.
            10 if self.below(4) == 0 => {
                let part = self.part(data).to_vec();
                let times = 1 << self.below(11);
                data.splice(place..place, part.repeat(times).into_iter().take(LARGEST));
            }
            _ => {
                let end = (place + self.below(8)).min(data.len());
                data[place.min(end)..end].reverse();
            }
        }
    }
}
