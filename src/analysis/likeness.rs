//! Which function of another version of a file is the same one.

use crate::syntax::Function;
use similar::{Algorithm, TextDiff, capture_diff_slices_deadline, get_diff_ratio};
use std::time::{Duration, Instant};

/// A comparison of hostile texts may take long; then texts seem less alike than they are.
const LONGEST_DIFF: Duration = Duration::from_millis(200);
/// Of more functions of one name only as many are compared.
const MOST: usize = 16;
/// A longer beginning is compared only as far.
const LONGEST_HEAD: usize = 400;
/// Below this likeness (of at most 2), and within this distance of another one, a function is only a guess.
const LEAST: f32 = 1.0;
const APART: f32 = 0.1;

/// The functions of a version of a file, and its text.
#[derive(Clone, Copy, Debug)]
pub struct Functions<'a> {
    pub functions: &'a [Function],
    pub text: &'a str,
}

/// A function of another version.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counterpart<'a> {
    pub function: &'a Function,
    /// Others of its name would do as well, or it is hardly like the one that was looked for.
    pub is_guess: bool,
}

/// Why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoCounterpart {
    /// No function there has its name.
    NoName,
    /// All that have its name are still here, as they were there.
    New,
}

impl NoCounterpart {
    /// A sentence about a function, and the other version.
    pub fn sentence(self, name: &str, version: &str) -> String {
        match self {
            NoCounterpart::NoName => format!("there is no function {name} as of {version}"),
            NoCounterpart::New => format!(
                "this {name} is new in this version: as of {version}, every function of this name is one that is still here \
                 unchanged"
            ),
        }
    }
}

/// The function of another version that is the same: of this name, and of several with the same text, else the one that is
/// most like it in signature and lines. Functions of this version share none.
pub fn counterpart<'a>(
    function: &Function,
    here: Functions<'_>,
    there: Functions<'a>,
) -> Result<Counterpart<'a>, NoCounterpart> {
    let named = |all: &Function| all.name == function.name;
    let of_here: Vec<&Function> = here.functions.iter().filter(|other| named(other)).collect();
    let of_there: Vec<&Function> = there.functions.iter().filter(|other| named(other)).collect();
    let own = of_here.iter().position(|other| other.span == function.span).ok_or(NoCounterpart::NoName)?;
    if of_there.is_empty() {
        return Err(NoCounterpart::NoName);
    }
    if let ([only], [_]) = (of_there.as_slice(), of_here.as_slice()) {
        return Ok(Counterpart { function: only, is_guess: false });
    }
    let text = |function: &Function, text: &'_ str| function.span.of(text).unwrap_or_default().to_string();
    let (from, to) = (own.saturating_sub(MOST / 2), own.saturating_sub(MOST / 2) + MOST);
    let window = |all: &[&Function], of: &str| -> Vec<(usize, Compared)> {
        let near = all.iter().enumerate().skip(from).take(to - from);
        near.map(|(number, function)| (number, Compared::new(&text(function, of)))).collect()
    };
    let (old, new) = (window(&of_there, there.text), window(&of_here, here.text));
    let mut alike: Vec<(f32, usize, usize)> = Vec::new();
    for (here, compared) in &new {
        alike.extend(old.iter().map(|(there, other)| (compared.likeness(other), *here, *there)));
    }
    // Of equal likeness, those that come as many-th.
    alike.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.abs_diff(a.2).cmp(&b.1.abs_diff(b.2))));
    let (mut used_here, mut used_there) = (Vec::new(), Vec::new());
    let mut found = None;
    // Those that another one here is to the letter.
    let mut unchanged = Vec::new();
    for (likeness, here, there) in &alike {
        if used_here.contains(here) || used_there.contains(there) {
            continue;
        }
        used_here.push(*here);
        used_there.push(*there);
        if *here == own {
            found = Some((*likeness, *there));
        } else if *likeness >= 2.0 {
            unchanged.push(*there);
        }
    }
    let most = || {
        let mut own = alike.iter().filter(|(_, here, _)| *here == own).map(|(_, _, there)| *there);
        own.find(|there| !unchanged.contains(there))
    };
    let (number, is_guess) = match found {
        Some((likeness, number)) => {
            // Another one that is as much like it, or to which it is as much like.
            let has_rival = alike
                .iter()
                .any(|(other, here, there)| (*here == own) != (*there == number) && likeness - other < APART);
            (number, likeness < LEAST || has_rival && likeness < 2.0)
        }
        None => (most().ok_or(NoCounterpart::New)?, true),
    };
    of_there.get(number).map(|function| Counterpart { function, is_guess }).ok_or(NoCounterpart::NoName)
}

/// What functions are compared by.
struct Compared {
    head: String,
    lines: Vec<String>,
}

impl Compared {
    fn new(text: &str) -> Compared {
        let head = text.split('{').next().unwrap_or_default();
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        Compared {
            head: squeezed(head).chars().take(LONGEST_HEAD).collect(),
            lines: text.lines().map(squeezed).filter(|line| !line.is_empty()).collect(),
        }
    }

    /// From 0 to 2, which is equality: that of the beginnings and that of the lines.
    fn likeness(&self, other: &Compared) -> f32 {
        if self.lines == other.lines {
            return 2.0;
        }
        let heads = match self.head == other.head {
            true => 1.0,
            false => TextDiff::from_chars(self.head.as_str(), other.head.as_str()).ratio(),
        };
        let deadline = Instant::now() + LONGEST_DIFF;
        let operations =
            capture_diff_slices_deadline(Algorithm::Myers, &self.lines, &other.lines, Some(deadline));
        heads + get_diff_ratio(&operations, self.lines.len(), other.lines.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::{Language, SyntaxTree};

    const OF_INT: &str = "int parse(int n) {\n  check(n);\n  return table[n];\n}\n";
    const OF_TEXT: &str = "int parse(char *s) {\n  char to[8];\n  strcpy(to, s);\n  return to[0];\n}\n";

    fn functions(text: &str) -> Vec<Function> {
        SyntaxTree::parse(text, Language::Cpp).functions(text).to_vec()
    }

    /// The text of the counterpart of each function, and whether it is a guess.
    fn counterparts<'a>(new: &str, old: &'a str) -> Vec<Option<(&'a str, bool)>> {
        let (here, there) = (functions(new), functions(old));
        let sides = (Functions { functions: &here, text: new }, Functions { functions: &there, text: old });
        let found = here.iter().map(|function| {
            let found = counterpart(function, sides.0, sides.1).ok()?;
            Some((found.function.span.of(old).unwrap(), found.is_guess))
        });
        found.collect()
    }

    #[test]
    fn overloads_find_themselves_edited_and_swapped() {
        let old = format!("{OF_INT}\n{OF_TEXT}");
        let (of_int, of_text) = (OF_INT.trim(), OF_TEXT.trim());
        let new_text = OF_TEXT.replace("strcpy(to, s)", "strlcpy(to, s, 8)");
        let new_int = OF_INT.replace("check(n)", "check(n + 1)");
        let sure = |text| Some((text, false));
        assert_eq!(counterparts(&format!("{new_int}{new_text}"), &old), [sure(of_int), sure(of_text)]);
        assert_eq!(counterparts(&format!("{new_text}{new_int}"), &old), [sure(of_text), sure(of_int)]);
        assert_eq!(counterparts(&old, &old), [sure(of_int), sure(of_text)]);
        // One that is new has none; the most alike one is a guess.
        assert_eq!(
            counterparts(&format!("{new_text}{new_int}"), OF_TEXT),
            [sure(of_text), Some((of_text, true))]
        );
        assert_eq!(counterparts("int other() { return 1; }", &old), [None]);
        // A single one is it, however it was rewritten.
        assert_eq!(counterparts("int parse(long a, long b) { return a; }", OF_INT), [sure(of_int)]);
    }

    #[test]
    fn an_added_overload_is_new_where_all_others_are_unchanged() {
        let (of_int, of_text) = (OF_INT.trim(), OF_TEXT.trim());
        let sure = |text| Some((text, false));
        let added = OF_INT.replace("int n", "long n");
        assert_eq!(counterparts(&format!("{OF_INT}{added}"), OF_INT), [sure(of_int), None]);
        assert_eq!(counterparts(&format!("{added}{OF_INT}"), OF_INT), [None, sure(of_int)]);
        let old = format!("{OF_INT}{OF_TEXT}");
        let new = format!("{OF_TEXT}{added}{OF_INT}");
        assert_eq!(counterparts(&new, &old), [sure(of_text), None, sure(of_int)]);
        // One that was edited may be it.
        let edited = OF_TEXT.replace("to[8]", "to[9]");
        let guessed = counterparts(&format!("{OF_INT}{edited}{added}"), &old);
        assert_eq!(
            (guessed[0], guessed[1], guessed[2]),
            (sure(of_int), sure(of_text), Some((of_text, true)))
        );
        let new = format!("{OF_INT}{added}");
        let (here, there) = (functions(&new), functions(OF_INT));
        let (here_side, there_side) =
            (Functions { functions: &here, text: &new }, Functions { functions: &there, text: OF_INT });
        assert_eq!(counterpart(&here[1], here_side, there_side), Err(NoCounterpart::New));
        let none = Functions { functions: &[], text: "" };
        assert_eq!(counterpart(&here[1], here_side, none), Err(NoCounterpart::NoName));
        assert!(NoCounterpart::New.sentence("parse", "revision \"HEAD\"").contains("is new in this version"));
    }

    #[test]
    fn what_could_be_either_is_a_guess() {
        let one = "int f(int a) {\n  one(a);\n  both(a);\n}\n";
        let new = "int f(int a) {\n  new(a);\n  both(a);\n}\n";
        let old = format!("#if A\n{one}#else\n{}#endif\n", one.replace("one", "two"));
        let both = format!("#if A\n{new}#else\n{}#endif\n", new.replace("new", "newer"));
        assert!(counterparts(&both, &old).iter().all(|found| found.unwrap().1));
        // Equal texts stay in their order, and are no guess.
        let twice = format!("#if A\n{one}#else\n{one}#endif\n");
        assert!(counterparts(&twice, &twice).iter().all(|found| !found.unwrap().1));
    }
}
