//! The statements of a function: which of them an offset belongs to, whatever the layout.

use super::{Language, tree};
use tree_sitter::{Node, Tree};

/// The statements, declarations and conditions of one function's text, numbered in the order of their start.
///
/// A unit is what is left of a statement or declaration without the smaller ones in it: of an `if`, `for`, `while` or
/// `switch` the header, of a block its braces, of a function its signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statements {
    /// From this offset on, up to the next entry, the text belongs to this unit. In order of offset, from 0.
    changes: Vec<(usize, usize)>,
    count: usize,
}

impl Statements {
    /// The unit of an offset of the text: the smallest that holds it.
    pub fn at(&self, offset: usize) -> usize {
        let index = self.changes.partition_point(|(start, _)| *start <= offset);
        index.checked_sub(1).and_then(|index| self.changes.get(index)).map_or(0, |(_, unit)| *unit)
    }

    /// How many units there are; their numbers are below.
    pub fn count(&self) -> usize {
        self.count
    }
}

/// The statements of a function's text. They depend on that text alone, so they are the same wherever it stands: it is
/// read as C++, or as C where that gives fewer errors. `None` where the parser gave up on it.
pub fn statements(text: &str) -> Option<Statements> {
    let cpp = tree::parse(text, Language::Cpp, None);
    let is_clean = cpp.as_ref().is_some_and(|tree| !tree.root_node().has_error());
    let c = if is_clean { None } else { tree::parse(text, Language::C, None) };
    let tree = match (cpp, c) {
        (Some(cpp), Some(c)) => {
            if errors(&c) < errors(&cpp) {
                c
            } else {
                cpp
            }
        }
        (cpp, c) => cpp.or(c)?,
    };
    Some(Collector::through(&tree))
}

/// How many bytes of the text the grammar could not read, and how many tokens it misses.
fn errors(tree: &Tree) -> usize {
    let mut errors = 0;
    let mut cursor = tree.walk();
    loop {
        let node = cursor.node();
        if node.is_error() {
            errors += node.byte_range().len();
        } else if node.is_missing() {
            errors += 1;
        }
        if !node.is_error() && node.has_error() && cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return errors;
            }
        }
    }
}

/// A node around the present one.
struct Around {
    /// The unit of what is in the node and in no smaller unit.
    unit: usize,
    end: usize,
    /// Whether the node is (in) a header, which is one unit with all that stands in it.
    is_header: bool,
    /// Whether the node's parts other than its bodies are its header.
    has_header: bool,
}

struct Collector {
    changes: Vec<(usize, usize)>,
    count: usize,
}

impl Collector {
    /// Without recursion: trees of hostile texts are deep.
    fn through(tree: &Tree) -> Statements {
        // Unit 0 is what stands outside everything.
        let mut collector = Collector { changes: vec![(0, 0)], count: 1 };
        let mut around: Vec<Around> = Vec::new();
        let mut cursor = tree.walk();
        loop {
            let node = cursor.node();
            let entered = collector.enter(node, cursor.field_name(), around.last());
            if cursor.goto_first_child() {
                around.push(entered);
                continue;
            }
            let parent = around.last().map_or(0, |around| around.unit);
            collector.change(entered.end, parent);
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return Statements { changes: collector.changes, count: collector.count };
                }
                let left = around.pop();
                let parent = around.last().map_or(0, |around| around.unit);
                if let Some(left) = left {
                    collector.change(left.end, parent);
                }
            }
        }
    }

    fn enter(&mut self, node: Node<'_>, field: Option<&str>, parent: Option<&Around>) -> Around {
        let is_body = matches!(field, Some("body" | "consequence" | "alternative"));
        let in_header = parent.is_some_and(|parent| parent.is_header || parent.has_header && !is_body);
        let kind = node.kind();
        // The block of a lambda or of a statement expression is no part of the header that it stands in.
        let is_block = kind == "compound_statement";
        let is_header = in_header && !is_block;
        let mut unit = parent.map_or(0, |parent| parent.unit);
        if !is_header && opens_unit(kind) {
            unit = self.count;
            self.count += 1;
            self.change(node.start_byte(), unit);
        }
        let has_header = matches!(
            kind,
            "if_statement" | "for_statement" | "for_range_loop" | "while_statement" | "switch_statement"
        );
        Around { unit, end: node.end_byte(), is_header, has_header: has_header && !is_header }
    }

    fn change(&mut self, offset: usize, unit: usize) {
        match self.changes.last_mut() {
            Some((_, last)) if *last == unit => {}
            // Nothing stands between the two changes.
            Some((start, last)) if *start >= offset => *last = unit,
            _ => self.changes.push((offset, unit)),
        }
    }
}

fn opens_unit(kind: &str) -> bool {
    match kind {
        "declaration" | "for_range_loop" | "linkage_specification" => true,
        // `[[…]]`, a part of the statement behind it.
        "attribute_declaration" => false,
        _ => {
            kind.ends_with("_statement")
                || kind.ends_with("_definition")
                || kind.ends_with("_declaration") && !kind.contains("parameter")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// The words of each unit, in order of the units' start.
    fn units(text: &str) -> Vec<String> {
        let statements = statements(text).unwrap();
        let mut units: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        let mut at = 0;
        for word in text.split_inclusive(char::is_whitespace) {
            if !word.trim().is_empty() {
                units.entry(statements.at(at)).or_default().push(word.trim().to_string());
            }
            at += word.len();
        }
        assert!(units.keys().all(|unit| *unit < statements.count()));
        units.into_values().map(|words| words.join(" ")).collect()
    }

    #[test]
    fn headers_are_units_without_their_bodies() {
        assert_eq!(
            units(
                "int f ( int n ) { int s = 0 ; for ( int i = 0 ; i < n ; i ++ ) { s += i ; } \
                 if ( s > 1 ) return s ; else if ( n ) { g ( s ) ; } while ( n -- ) ; return 0 ; }"
            ),
            [
                "int f ( int n )",
                "{ }",
                "int s = 0 ;",
                "for ( int i = 0 ; i < n ; i ++ )",
                "{ }",
                "s += i ;",
                "if ( s > 1 ) else",
                "return s ;",
                "if ( n )",
                "{ }",
                "g ( s ) ;",
                "while ( n -- )",
                ";",
                "return 0 ;",
            ]
        );
    }

    #[test]
    fn switches_labels_and_do_loops() {
        assert_eq!(
            units(
                "void f ( int n ) { switch ( n ) { case 1 : g ( ) ; break ; default : h ( ) ; } \
                 do { n -- ; } while ( n ) ; out : goto out ; }"
            ),
            [
                "void f ( int n )",
                "{ }",
                "switch ( n )",
                "{ }",
                "case 1 :",
                "g ( ) ;",
                "break ;",
                "default :",
                "h ( ) ;",
                "do while ( n ) ;",
                "{ }",
                "n -- ;",
                "out :",
                "goto out ;",
            ]
        );
    }

    #[test]
    fn cpp_and_what_stands_in_expressions() {
        assert_eq!(
            units(
                "template < class T > T f ( T a ) { for ( auto x : a ) use ( x ) ; \
                 if ( auto y = a ; y ) run ( [ & ] { y = 1 ; } ) ; try { t ( ) ; } catch ( E & e ) { throw ; } }"
            ),
            [
                "template < class T >",
                "T f ( T a )",
                "{ }",
                "for ( auto x : a )",
                "use ( x ) ;",
                "if ( auto y = a ; y )",
                "run ( [ & ] ) ;",
                "{ }",
                "y = 1 ;",
                "try catch ( E & e )",
                "{ }",
                "t ( ) ;",
                "{ }",
                "throw ;",
            ]
        );
        // A block in a header is none of it.
        assert_eq!(
            units("int f ( ) { if ( ( { g ( ) ; 1 ; } ) ) return 1 ; }"),
            ["int f ( )", "{ }", "if ( ( ) )", "{ }", "g ( ) ;", "1 ;", "return 1 ;"]
        );
    }

    #[test]
    fn c_that_is_no_cpp_is_read_as_c() {
        assert_eq!(
            units("int f ( int new ) { int class = new ; return class ; }"),
            ["int f ( int new )", "{ }", "int class = new ;", "return class ;"]
        );
    }

    #[test]
    fn every_text_has_units() {
        for text in ["", " ", "}", "int f(", "é", "int f() { if (", "a\0b", "#if 1\nint f() {\n#endif\n}"] {
            let statements = statements(text).unwrap();
            for offset in 0..=text.len() + 1 {
                assert!(statements.at(offset) < statements.count());
            }
        }
    }
}
