//! How long finding functions takes in a file of 50,000 lines: `cargo bench --bench finder`.

use divan::{Bencher, black_box};
use linelens::syntax::{Edit, Language, SyntaxTree};
use linelens::text::LineIndex;

fn main() {
    divan::main();
}

/// Functions of 50 lines, 50,000 lines in all, with conditionals, comments and macros as such files have them.
fn file(language: Language) -> String {
    let mut text = String::new();
    if language == Language::Cpp {
        text.push_str("namespace files {\nclass Reader : public Base<int> {\npublic:\n");
    }
    for number in 0..1_000 {
        text.push_str(&format!(
            "/* Reads record {number}; see \"{{\" there. */\nEXPORT_API static int read_{number}(struct file *file, const char *name)\n{{\n    \
             int total = 0;\n#ifdef WITH_CHECKS\n    if (!file) {{\n        return -1;\n    }}\n#endif\n"
        ));
        for step in 0..13 {
            text.push_str(&format!(
                "    if (file->field_{step} > {step}) {{\n        total += table[{step}] * value(name, '{{'); // }}\n    }}\n"
            ));
        }
        text.push_str("    return total;\n}\n\n");
    }
    if language == Language::Cpp {
        text.push_str("};\n}\n");
    }
    text
}

/// The text with `inserted` before the first `anchor` in its second half, and the edit that makes it.
fn inserted(text: &str, anchor: &str, inserted: &str) -> (String, Edit) {
    let middle = text.len() / 2;
    let start = text[middle..].find(anchor).map_or(middle, |at| middle + at);
    let mut new = text.to_owned();
    new.insert_str(start, inserted);
    (new, Edit { start, old_end: start, new_end: start + inserted.len() })
}

fn edit(bencher: Bencher, language: Language, anchor: &str, piece: &str) {
    let old = file(language);
    let (new, edit) = inserted(&old, anchor, piece);
    let tree = SyntaxTree::parse(&old, language);
    let _ = tree.functions(&old);
    bencher.bench(|| {
        let tree = tree.edited(black_box(&old), black_box(&new), edit);
        tree.function_at(&new, edit.new_end)
    });
}

const LANGUAGES: [Language; 2] = [Language::C, Language::Cpp];

/// A word typed into a body, and the function around it read.
#[divan::bench(args = LANGUAGES)]
fn a_word(bencher: Bencher, language: &Language) {
    edit(bencher, *language, "total +=", "more + ");
}

/// An opening brace typed into a body, in C++ inside a class: the file's definitions are looked for again.
#[divan::bench(args = LANGUAGES)]
fn a_brace(bencher: Bencher, language: &Language) {
    edit(bencher, *language, "total +=", "{ ");
}

/// A parameter typed into a header.
#[divan::bench(args = LANGUAGES)]
fn a_parameter(bencher: Bencher, language: &Language) {
    edit(bencher, *language, "struct file", "int number, ");
}

/// All functions after a word typed into a body, as the scheduling asks for them.
#[divan::bench(args = LANGUAGES)]
fn all_functions_after_a_word(bencher: Bencher, language: &Language) {
    let old = file(*language);
    let (new, edit) = inserted(&old, "total +=", "more + ");
    let tree = SyntaxTree::parse(&old, *language);
    let _ = tree.functions(&old);
    bencher.bench(|| tree.edited(&old, &new, edit).functions(&new));
}

/// A file that is opened: its definitions.
#[divan::bench(args = LANGUAGES)]
fn open(bencher: Bencher, language: &Language) {
    let text = file(*language);
    bencher.bench(|| SyntaxTree::parse(black_box(&text), *language));
}

/// A file that is opened: its functions, each read with the grammar.
#[divan::bench(args = LANGUAGES, sample_count = 5)]
fn open_and_read_all(bencher: Bencher, language: &Language) {
    let text = file(*language);
    bencher.bench(|| SyntaxTree::parse(black_box(&text), *language).functions(&text));
}

/// The index of lines after a word typed in the middle.
#[divan::bench]
fn lines_after_a_word(bencher: Bencher) {
    let old = file(Language::C);
    let (new, edit) = inserted(&old, "total +=", "more + ");
    let mut lines = LineIndex::new(&old);
    bencher.bench_local(|| {
        lines.update(&new, edit.start, edit.old_end, edit.new_end);
        lines.update(&old, edit.start, edit.new_end, edit.old_end);
    });
}
