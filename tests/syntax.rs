//! Finding functions: one shape a line of code, the expected definitions beside it.

// The helpers of tests are not tests to the linter.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use linelens::syntax::{Edit, FunctionKind, Language, NoFunction, SyntaxTree};
use std::fmt::Write;

/// The functions of a text, one a line: kind, name, and the span with line breaks shown as `⏎`.
fn found(text: &str, language: Language) -> String {
    let mut out = String::new();
    for function in SyntaxTree::parse(text, language).functions(text) {
        let span = function.span.of(text).expect("on characters").replace('\n', "⏎");
        writeln!(out, "{} {} | {span}", function.kind.as_str(), function.name).unwrap();
        let name = function.name_span.of(text).expect("on characters");
        assert!(function.span.contains_span(function.name_span));
        assert!(
            function.kind == FunctionKind::Macro
                || name.starts_with(function.name.split([' ', '(']).next().unwrap())
                || function.name.contains(&format!("::{}", name.split([' ', '(', ':']).next().unwrap()))
        );
    }
    out
}

#[track_caller]
fn check(language: Language, text: &str, expected: &[&str]) {
    let found = found(text, language);
    assert_eq!(found.lines().collect::<Vec<_>>(), expected, "in {language:?}:\n{text}");
}

/// The whole text is one function.
#[track_caller]
fn check_whole(text: &str, expected: &str) {
    for language in [Language::C, Language::Cpp] {
        check(language, text, &[&format!("{expected} | {}", text.replace('\n', "⏎"))]);
    }
}

#[track_caller]
fn check_none(text: &str) {
    for language in [Language::C, Language::Cpp] {
        check(language, text, &[]);
    }
}

#[test]
fn plain_functions() {
    check_whole("int main() { return 0; }", "function main");
    check_whole("static inline const struct a *f(struct b *x, int (*cb)(int)) {\n}", "function f");
    check_whole("unsigned long long *\nf(void)\n{\n  if (x) { y(); } else { z(); }\n}", "function f");
    check_whole("enum kind f(enum kind k) { return k; }", "function f");
    check_whole("struct point f(void) { struct point p = {1, 2}; return p; }", "function f");
    check_whole("int (*f(int a))(int, char) { return 0; }", "function f");
    check_whole("int (f)(int a) { return a; }", "function f");
    check_whole("void *(*f(void))(void) { }", "function f");
    check_whole("int f(int a[static 3], char b[]) { return a[0]; }", "function f");
    check_whole("f(x) { return 1; }", "function f");
    check_whole("with_args(const struct s *const p, int n, const char *q) {\n}", "function with_args");
    check_whole("_Noreturn void die(const char *why, ...) { for (;;) { } }", "function die");
    check_whole("int f(void) { char c = '{'; char *s = \"}\"; /* } */ // }\n return c; }", "function f");
    check_whole("déjà vu(void) { }", "function vu");
}

#[test]
fn what_follows_the_brace_is_not_part_of_it() {
    for rest in [" /* f */", ";", " // f", "\n\n#define X {\n"] {
        check(Language::C, &format!("int f(void) {{ }}{rest}"), &["function f | int f(void) { }"]);
    }
}

#[test]
fn old_style_definitions() {
    check_whole("int f(a, b)\n  int a;\n  char *b;\n{ return a; }", "function f");
    check_whole("f(a) char a; { }", "function f");
    check_whole("static char *\nname(buf, len)\n\tchar buf[];\n\tint (*len)();\n{\n}", "function name");
    check(Language::C, "FOO(bar)\nint x;\nint g(void) { }", &["function g | int g(void) { }"]);
    check(Language::C, "int f(a, b);\nint x;\nstruct s { int y; };", &[]);
    check(
        Language::C,
        "#ifdef A\nint f(int a, HANDLE(b) c);\nint g(HANDLE(b) c);\n#else\nint f(void) { }\n#endif\nint h(void) { }",
        &["function f | int f(void) { }", "function h | int h(void) { }"],
    );
}

#[test]
fn attributes_and_macros_around_the_type() {
    for text in [
        "EXPORT_API int f(void) { }",
        "static __always_inline int f(void) { }",
        "__attribute__((noinline, cold)) int f(void) { }",
        "int __attribute__((noinline)) f(void) { }",
        "int f(void) __attribute__((cold)) { }",
        "__declspec(dllexport) int __stdcall f(int a) { }",
        "[[nodiscard]] static int f(void) { }",
        "int f(struct lock *l) __releases(&l->lock) __acquires(x) { }",
        "static int __init f(void) { }",
        "STATIC SSize_t\nf(pTHX_ int a, int b)\n{ }",
        "PyMODINIT_FUNC f(void) { }",
        "JNIEXPORT jint JNICALL\nf(JNIEnv *env, jobject self) { }",
        "METHODDEF(void)\nf (j_common_ptr p) { }",
        "PHPAPI(int) f(int a) { }",
        "static STACK_OF(X509) *f(X509 *x) { }",
        "PRINTF_LIKE(1, 2)\nstatic void f(const char *fmt, ...) { }",
        "void f(int a) NO_SANITIZE { }",
        "typeof(int *) f(int a) { }",
        "extern \"C\" int f(void) { }",
    ] {
        check_whole(text, "function f");
    }
    check_whole("static void FUNC(decode)(struct ctx *c, int n) { }", "function decode");
    check(Language::C, "MODULE_LICENSE(\"GPL\")\nint f(void) { }", &["function f | int f(void) { }"]);
    check(
        Language::C,
        "G_BEGIN_DECLS\nint f(void) { }\nG_END_DECLS\nint g(void) { }",
        &["function f | int f(void) { }", "function g | int g(void) { }"],
    );
}

#[test]
fn definition_macros() {
    check_whole(
        "SYSCALL_DEFINE3(open, const char __user *, name, int, flags, umode_t, mode)\n{ }",
        "macro open",
    );
    check_whole("DEFINE_RUN_ONCE_STATIC(do_init) { return 1; }", "macro do_init");
    check_whole("static PHP_FUNCTION(strlen) { }", "macro strlen");
    check_whole("PHP_METHOD(Phar, open) { }", "macro Phar::open");
    check_whole("TEST(Parser, Empty) { EXPECT_TRUE(x); }", "macro Parser.Empty");
    check_whole("TEST_F(Parser, Full) { }", "macro Parser.Full");
    check_whole("DEFINE_TEST() { }", "macro DEFINE_TEST");
    check_whole("IMPLEMENT(int, get) { }", "macro get");
    check_whole("MAIN(int argc, char **argv) { }", "function MAIN");
}

#[test]
fn methods_constructors_operators() {
    let cpp = |text: &str, expected: &[&str]| check(Language::Cpp, text, expected);
    cpp("int A::f() const noexcept { }", &["method A::f | int A::f() const noexcept { }"]);
    cpp(
        "A::A(int x) : x_(x), y_{x}, Base<int>{x}, z_() { }",
        &["constructor A::A | A::A(int x) : x_(x), y_{x}, Base<int>{x}, z_() { }"],
    );
    cpp("template <class T>\nA<T>::A() { }", &["constructor A<T>::A | template <class T>⏎A<T>::A() { }"]);
    cpp("ns::A::~A() { }", &["destructor ns::A::~A | ns::A::~A() { }"]);
    cpp(
        "A &A::operator=(const A &other) { }",
        &["operator A::operator= | A &A::operator=(const A &other) { }"],
    );
    cpp("bool operator==(A a, A b) { }", &["operator operator== | bool operator==(A a, A b) { }"]);
    cpp("A::operator bool() const { }", &["operator A::operator bool | A::operator bool() const { }"]);
    cpp("int A::operator()(int a) { }", &["operator A::operator() | int A::operator()(int a) { }"]);
    cpp("int &A::operator[](size_t i) { }", &["operator A::operator[] | int &A::operator[](size_t i) { }"]);
    cpp("void *operator new(size_t n) { }", &["operator operator new | void *operator new(size_t n) { }"]);
    cpp(
        "S &operator<<(S &s, const A &a) { }",
        &["operator operator<< | S &operator<<(S &s, const A &a) { }"],
    );
    cpp("A operator/(A a, A b) { }", &["operator operator/ | A operator/(A a, A b) { }"]);
    cpp("auto f(int a) -> std::vector<int> { }", &["function f | auto f(int a) -> std::vector<int> { }"]);
    cpp(
        "std::map<int, std::pair<A, B>> f(int (&a)[3] = {}) { }",
        &["function f | std::map<int, std::pair<A, B>> f(int (&a)[3] = {}) { }"],
    );
    cpp(
        "template <typename T, typename = std::enable_if_t<(N > 0)>> void f(T t) { }",
        &["function f | template <typename T, typename = std::enable_if_t<(N > 0)>> void f(T t) { }"],
    );
    cpp("template <> int f<int>(int a) { }", &["function f<int> | template <> int f<int>(int a) { }"]);
    cpp(
        "A::A() try : x(1) { g(); } catch (int) { h(); } catch (...) { }\nint g() { }",
        &[
            "constructor A::A | A::A() try : x(1) { g(); } catch (int) { h(); } catch (...) { }",
            "function g | int g() { }",
        ],
    );
    cpp(
        "int f() try { return 1; } catch (...) { return 0; }",
        &["function f | int f() try { return 1; } catch (...) { return 0; }"],
    );
    cpp("void A::f() const & override final { }", &["method A::f | void A::f() const & override final { }"]);
}

#[test]
fn scopes_are_looked_into() {
    let text = "namespace a::b {\nclass EXPORT Foo final : public Bar<int>, private Baz {\n  Q_OBJECT\npublic:\n  Foo() = default;\n  \
                explicit Foo(int x) : x_{x} {}\n  ~Foo() {}\n  virtual int get() const = 0;\n  int f() { return 1; }\n\
                  friend bool operator<(Foo a, Foo b) { return false; }\n  struct Inner { void g() {} };\nprivate:\n  int x_{3};\n\
                 };\nextern \"C\" { int c(void) { return 0; } }\n}\nint outside() { }";
    check(
        Language::Cpp,
        text,
        &[
            "constructor a::b::Foo::Foo | explicit Foo(int x) : x_{x} {}",
            "destructor a::b::Foo::~Foo | ~Foo() {}",
            "method a::b::Foo::f | int f() { return 1; }",
            "operator a::b::operator< | friend bool operator<(Foo a, Foo b) { return false; }",
            "method a::b::Foo::Inner::g | void g() {}",
            "function a::b::c | int c(void) { return 0; }",
            "function outside | int outside() { }",
        ],
    );
}

#[test]
fn what_is_no_function() {
    check_none("int f(void);\nextern int g(int a);\nstruct s;\ntypedef int (*h)(int);");
    check_none("struct s { int a; int (*f)(int); };\nunion u { int b; };\nenum e { A, B = (1 << 2) };");
    check_none("static const struct ops ops = { .open = f, .call = g(1), };\nint a[] = {1, 2};");
    check_none("typedef struct { int a; } s;\ntypedef enum e { A } e;");
    check_none("#define F(x) int f##x(void) { return x; }\n#define G do { \\\n } while (0)");
    check_none("// int f(void) { }\n/* int g(void) { } */\nconst char *s = \"int h(void) { }\";");
    check_none("");
    for keyword in
        ["if", "else if", "while", "for", "switch", "return", "catch", "sizeof", "} else if", "do { } while"]
    {
        check_none(&format!("{keyword} (x) {{ y(); }}"));
    }
    check(
        Language::Cpp,
        "class A { A() = delete; A(const A &) = default; };\nusing B = int;\nauto l = [](int a) { return a; };",
        &[],
    );
    check(Language::Cpp, "enum class E : unsigned int { A };\nconcept C = requires(T t) { t.f(); };", &[]);
}

#[test]
fn loops_made_by_macros_are_part_of_their_function() {
    check_whole(
        "int f(void) {\n  list_for_each(pos, head) {\n    g();\n  }\n  CASE(A) { h(); }\n  else_if(x) { }\n}",
        "function f",
    );
}

#[test]
fn lambdas_belong_to_their_function_and_nested_functions_are_innermost() {
    check(
        Language::Cpp,
        "void f() { auto g = [&](int a) { return a; }; h([] { k(); }); }",
        &["function f | void f() { auto g = [&](int a) { return a; }; h([] { k(); }); }"],
    );
    let nested = "int f(int a) { int g(int b) { return b; } return g(a); }";
    check(
        Language::C,
        nested,
        &[&format!("function f | {nested}"), "function g | int g(int b) { return b; }"],
    );
    let local = "void f() { struct L { int g() { return 1; } L() {} }; L().g(); }";
    check(
        Language::Cpp,
        local,
        &[
            &format!("function f | {local}"),
            "method L::g | int g() { return 1; }",
            "constructor L::L | L() {}",
        ],
    );
    let tree = SyntaxTree::parse(nested, Language::C);
    assert_eq!(tree.function_at(nested, nested.find("return b").unwrap()).unwrap().name, "g");
    assert_eq!(tree.function_at(nested, nested.find("return g").unwrap()).unwrap().name, "f");
}

#[test]
fn conditionals() {
    check_whole(
        "#ifdef A\nint f(int a) {\n#else\nint f(void) {\n#endif\n  return 0;\n}"
            .trim_start_matches("#ifdef A\n"),
        "function f",
    );
    let split = "#ifdef A\nint f(int a) {\n#else\nint f(void) {\n#endif\n  return 0;\n}\nint g(void) { }";
    check(
        Language::C,
        split,
        &[
            "function f | int f(int a) {⏎#else⏎int f(void) {⏎#endif⏎  return 0;⏎}",
            "function g | int g(void) { }",
        ],
    );
    check_whole(
        "int f(int a)\n{\n#if A\n  if (a) {\n#else\n  if (!a) {\n#endif\n    g();\n  }\n}",
        "function f",
    );
    check_whole("int f(int a)\n{\n  if (a) {\n#ifdef A\n  } else if (b) {\n#endif\n  }\n}", "function f");
    check_whole(
        "int f(int a)\n{\n#ifndef A\n  if (a) {\n#endif\n  g();\n#ifdef A\n  h();\n#else\n  }\n#endif\n}",
        "function f",
    );
    check_whole("int f(int a)\n{\n#if 0\n  } } don't {\n#endif\n  g();\n}", "function f");
    check(
        Language::C,
        "int f(int a)\n{\n#ifdef A\n  return 1;\n}\n#else\n  if (a) { }\n  return 2;\n}\n#endif\n",
        &["function f | int f(int a)⏎{⏎#ifdef A⏎  return 1;⏎}⏎#else⏎  if (a) { }⏎  return 2;⏎}"],
    );
    check_whole("static int f(int a,\n#ifdef A\n  int b,\n#endif\n  int c)\n{\n}", "function f");
    check(
        Language::C,
        "#ifdef A\nint f(void) { return 1; }\n#else\nint f(void) { return 2; }\n#endif\nint g(void) { }",
        &[
            "function f | int f(void) { return 1; }",
            "function f | int f(void) { return 2; }",
            "function g | int g(void) { }",
        ],
    );
    check(
        Language::C,
        "#if 0\nThis isn't { code (\n#endif\nint g(void) { }",
        &["function g | int g(void) { }"],
    );
    check(
        Language::C,
        "#ifdef __cplusplus\nextern \"C\" {\n#endif\nint g(void) { }\n#ifdef __cplusplus\n}\n#endif\nint h(void) { }",
        &["function g | int g(void) { }", "function h | int h(void) { }"],
    );
}

fn has_errors(text: &str) -> bool {
    SyntaxTree::parse(text, Language::C).functions(text)[0].parse_errors
}

#[test]
fn broken_text_keeps_its_other_functions() {
    let broken = "int f(void)\n{\n  if (x) {\n  return 0;\n}\n\nint g(void)\n{\n  return 1;\n}\n";
    check(
        Language::C,
        broken,
        &["function f | int f(void)⏎{⏎  if (x) {⏎  return 0;⏎}", "function g | int g(void)⏎{⏎  return 1;⏎}"],
    );
    check(
        Language::C,
        "int f(void) { } } }\nint g(void) { }",
        &["function f | int f(void) { }", "function g | int g(void) { }"],
    );
    check(Language::C, " end of a comment */\nint g(void) { }", &["function g | int g(void) { }"]);
    check(
        Language::C,
        "int f(int a {\n}\nint g(void) { }",
        &["function f | int f(int a {⏎}", "function g | int g(void) { }"],
    );
    check(
        Language::C,
        "int f(void) {\n  if (a) {\n    b();\n  }\n // end\n",
        &["function f | int f(void) {⏎  if (a) {⏎    b();⏎  }"],
    );
    assert!(has_errors("int f(void) {"));
    assert!(has_errors("int f(void) { int = ; }"));
    assert!(!has_errors("int f(void) { int a; }"));
}

#[test]
fn the_function_at_an_offset() {
    let text = "int f(void) { }int g(void) { }\n\nint x;\n";
    let tree = SyntaxTree::parse(text, Language::C);
    let name_at = |offset| tree.function_at(text, offset).map(|function| function.name);
    assert_eq!(name_at(0).unwrap(), "f");
    assert_eq!(name_at(14).unwrap(), "f");
    assert_eq!(name_at(15).unwrap(), "g", "where two meet, the one that starts");
    assert_eq!(name_at(30).unwrap(), "g", "behind the brace");
    assert_eq!(name_at(31), Err(NoFunction::Outside));
    assert_eq!(name_at(9999), Err(NoFunction::Outside));
    assert_eq!(SyntaxTree::parse("int x;", Language::C).function_at("int x;", 2), Err(NoFunction::Empty));
}

#[test]
fn detects_the_language() {
    let detect = |extension, id, text| Language::detect(extension, id, text);
    assert_eq!(detect(Some("c"), None, ""), Language::C);
    assert_eq!(detect(Some(".c"), None, ""), Language::C);
    assert_eq!(detect(Some("c"), Some("cpp"), ""), Language::Cpp);
    assert_eq!(detect(Some("cpp"), Some("c"), ""), Language::C);
    assert_eq!(detect(Some("cu"), Some("cuda-cpp"), ""), Language::Cpp);
    assert_eq!(detect(Some("cc"), Some("plaintext"), ""), Language::Cpp);
    assert_eq!(detect(Some("c"), Some("plaintext"), ""), Language::C);
    assert_eq!(detect(Some("C"), None, ""), Language::Cpp);
    assert_eq!(detect(None, None, ""), Language::Cpp);
    assert_eq!(detect(Some("h"), None, "int f(void);"), Language::C);
    assert_eq!(detect(Some("h"), None, ""), Language::C);
    assert_eq!(detect(Some("h"), None, "namespace a { class B { public: void f(); }; }"), Language::Cpp);
}

#[test]
fn kinds_have_names() {
    let names = [
        FunctionKind::Function,
        FunctionKind::Method,
        FunctionKind::Constructor,
        FunctionKind::Destructor,
        FunctionKind::Operator,
        FunctionKind::Macro,
    ]
    .map(FunctionKind::as_str);
    assert_eq!(names, ["function", "method", "constructor", "destructor", "operator", "macro"]);
}

/// A small generator of numbers, so that failures repeat.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

const SAMPLE: &str = "#include <x.h>\r\n#ifdef A\nstatic int f(int a)\r\n{\r\n  if (a) { return '\\n'; }\n  return g(\"é😀\"); /* ü */\n}\n#endif\n\
    struct s { int a; };\nint (*h(void))(int) { return 0; }\nSYSCALL_DEFINE1(k, int, a) { for (;;) { b(); } }\n";
const SAMPLE_CPP: &str = "namespace n {\ntemplate <class T> class C : public B<T> {\npublic:\n  C() : x{1} {}\n  int f() const { return [] { return 1; }(); }\n\
    };\r\n}\nauto n::C<int>::g() -> int { struct L { int m() { return 2; } }; return L().m(); }\n";

#[test]
fn edits_give_what_a_fresh_parse_gives() {
    let pieces = [
        "{",
        "}",
        "(",
        ")",
        ";",
        "\n",
        "\r\n",
        " ",
        "é",
        "😀",
        "int x;",
        "/*",
        "*/",
        "//",
        "\"",
        "'",
        "#if A\n",
        "#endif\n",
        "#else\n",
        "int q(int r) { return r; }\n",
        "struct t { int u; };",
        "=",
        "<",
        ">",
        "::",
        "else if (x) {",
        "MACRO(y)",
        "\\\n",
        ",",
    ];
    let mut numbers = Numbers(7);
    for (language, sample) in [(Language::C, SAMPLE), (Language::Cpp, SAMPLE_CPP)] {
        let mut text = sample.to_owned();
        let mut tree = SyntaxTree::parse(&text, language);
        for round in 0..1000 {
            if round % 50 == 0 {
                text = sample.to_owned();
                tree = SyntaxTree::parse(&text, language);
            }
            let start = text.floor_char_boundary(numbers.below(text.len() + 1));
            let removed = if numbers.below(2) == 0 { 0 } else { numbers.below(12) };
            let old_end = text.ceil_char_boundary((start + removed).min(text.len()));
            let inserted = if numbers.below(3) == 0 { "" } else { pieces[numbers.below(pieces.len())] };
            let new = format!("{}{inserted}{}", &text[..start], &text[old_end..]);
            tree = tree.edited(&text, &new, Edit { start, old_end, new_end: start + inserted.len() });
            let fresh = SyntaxTree::parse(&new, language);
            assert_eq!(tree.functions(&new), fresh.functions(&new), "round {round} in {language:?}:\n{new}");
            text = new;
        }
    }
}

/// What ends such a body is no brace, and it ends elsewhere after an edit.
#[test]
fn a_body_that_ends_in_a_literal_with_a_brace_is_not_closed() {
    for (end, inserted) in [("\"}", "/*"), ("'// x \\\n}", "/*"), ("\"}\n", "\""), ("\"}", "g();")] {
        let old = format!("int f(void)\n{{\n  return 1; {end}");
        let start = old.find("return").unwrap();
        let new = format!("{}{inserted}{}", &old[..start], &old[start..]);
        let edit = Edit { start, old_end: start, new_end: start + inserted.len() };
        for language in [Language::C, Language::Cpp] {
            let edited = SyntaxTree::parse(&old, language).edited(&old, &new, edit);
            assert_eq!(edited.functions(&new), SyntaxTree::parse(&new, language).functions(&new), "{new}");
        }
    }
}

#[test]
fn a_wrong_edit_means_a_fresh_parse() {
    let (old, new) = ("int f(void) { }", "int g(int a) { return a; } int h(void) { }");
    let tree = SyntaxTree::parse(old, Language::C);
    for edit in [
        Edit { start: 4, old_end: 5, new_end: 5 },
        Edit { start: 9, old_end: 3, new_end: 2 },
        Edit { start: 0, old_end: 999, new_end: usize::MAX },
    ] {
        assert_eq!(
            tree.edited(old, new, edit).functions(new),
            SyntaxTree::parse(new, Language::C).functions(new)
        );
    }
}

#[test]
fn hostile_texts() {
    let long = |piece: &str, bytes: usize| piece.repeat(bytes / piece.len());
    let pieces = [
        "{",
        "(",
        "}",
        "[",
        "<",
        "#if A\n",
        "#if 0\n",
        "#else\n",
        "#if A\n{\n",
        "int f(",
        "f(a) int b; ",
        "namespace {",
        "class A {",
        "\"",
        "/*",
        "'",
        "\\\n",
        "template<",
        "operator",
        "::",
        "a::",
        "if (x) {",
        "int f(void) {\n",
        "=",
        ":",
        ";",
        "\u{0}",
        "é",
        "R\"(",
        "x(",
        "A(b)",
        "int f() { ",
        "#endif\n",
        "try { ",
        "~",
        "*",
        "f(a,",
        "]]",
        "[[",
    ];
    for piece in pieces {
        // Short enough for the grammar, and too long for it.
        for bytes in [30_000, 5_000_000] {
            let text = long(piece, bytes);
            for language in [Language::C, Language::Cpp] {
                let started = std::time::Instant::now();
                let tree = SyntaxTree::parse(&text, language);
                let _ = tree.function_at(&text, text.len() / 2);
                assert!(started.elapsed().as_secs() < 20, "{bytes} bytes of {piece:?} in {language:?}");
            }
        }
    }
}

#[test]
fn deep_nesting() {
    let deep = |open: &str, close: &str| {
        format!("int f(void) {{ {}{} }}\n", open.repeat(100_000), close.repeat(100_000))
    };
    let text = [deep("{", "}"), deep("(", ")"), "int g(void) { }".to_owned()].concat();
    let tree = SyntaxTree::parse(&text, Language::C);
    let names: Vec<_> = tree.functions(&text).into_iter().map(|function| function.name).collect();
    assert_eq!(names, ["f", "f", "g"]);
    let edit = Edit { start: 0, old_end: 0, new_end: 1 };
    assert_eq!(tree.edited(&text, &format!(" {text}"), edit).functions(&text).len(), 3);
}

#[test]
fn random_bytes() {
    let mut numbers = Numbers(3);
    for _ in 0..300 {
        let bytes: Vec<u8> = (0..numbers.below(400)).map(|_| numbers.below(256) as u8).collect();
        let text = String::from_utf8_lossy(&bytes);
        let tree = SyntaxTree::parse(&text, Language::Cpp);
        assert!(tree.functions(&text).iter().all(|function| function.span.of(&text).is_some()));
    }
}

#[test]
fn macros_that_stand_on_their_own_before_something_else() {
    for (text, expected) in [
        ("namespace std VISIBLE_AS(default)\n{\nint q() { }\n}", "function std::q | int q() { }"),
        ("namespace std VISIBLE {\nint q() { }\n}", "function std::q | int q() { }"),
        ("namespace API a::inline b {\nint q() { }\n}", "function a::b::q | int q() { }"),
        ("namespace NS {\nint q() { }\n}", "function NS::q | int q() { }"),
        (
            "WARNINGS_PUSH_(42)\nnamespace n {\nint f() { return 1; }\n}",
            "function n::f | int f() { return 1; }",
        ),
        (
            "WARNINGS_PUSH_(42 \\\n)\n// A class.\nclass API C {\n  void f() {}\n};",
            "method C::f | void f() {}",
        ),
        (
            "REGISTER(a)\nREGISTER(b)\nstruct s {\n  s() : x(0) {\n  }\n};",
            "constructor s::s | s() : x(0) {⏎  }",
        ),
        ("HEADER_ID(x_h, \"$Id$\")\nextern \"C\" {\nint f(void) { }\n}", "function f | int f(void) { }"),
        ("LIST_OF(x)\ntypedef enum {\n  A\n} e;\nint f(void) { }", "function f | int f(void) { }"),
        (
            "LIST_OF(x)\n\n/* A list. */\nstatic const int l[] = { 1 };\nint f(void) { }",
            "function f | int f(void) { }",
        ),
        ("typedef enum WITH_TYPE(uint8_t)\n{\n  A\n} e;\nint f(void) { }", "function f | int f(void) { }"),
        ("typedef struct HINT(packed) {\n  int a;\n} s;\nint f(void) { }", "function f | int f(void) { }"),
        ("struct HINT(packed) {\n  int a;\n};\nint f(void) { }", "function f | int f(void) { }"),
        ("class LOCKABLE(\"mutex\") M {\n  void f() {}\n};", "method M::f | void f() {}"),
        ("class M LOCKABLE(\"mutex\") {\n  void f() {}\n};", "method M::f | void f() {}"),
        ("PACKED (\ntypedef struct {\n  int a;\n}) s;\nint f(void) { }", "function f | int f(void) { }"),
        (
            "FUNCTIONS_of(A)\nMORE_FUNCTIONS_of(A)\nA *make(int n) { }",
            "function make | FUNCTIONS_of(A)⏎MORE_FUNCTIONS_of(A)⏎A *make(int n) { }",
        ),
        ("FUNCTIONS_of(A)\nMORE_FUNCTIONS_of(A)\n\nA *make(int n) { }", "function make | A *make(int n) { }"),
        ("BEGIN_API\n\nint f(void) { }", "function f | int f(void) { }"),
        ("REGISTER(\"x\", y)\n\nTEST_OF(z) { }", "macro z | TEST_OF(z) { }"),
        (
            "externs(, a)\nfuncs(INLINE, , a)\n\nINLINE a *\nfetch(bool b)\n{ }",
            "function fetch | INLINE a *⏎fetch(bool b)⏎{ }",
        ),
    ] {
        check(Language::Cpp, text, &[expected]);
    }
}

#[test]
fn digraphs_are_braces() {
    for language in [Language::C, Language::Cpp] {
        check(
            language,
            "int f(void) <%\n  if (x %2) <% return 1; %>\n%>\nint g(void)\n{ return a<%>b; }",
            &[
                "function f | int f(void) <%⏎  if (x %2) <% return 1; %>⏎%>",
                "function g | int g(void)⏎{ return a<%>b; }",
            ],
        );
    }
}

#[test]
fn labels_after_macros() {
    check(
        Language::Cpp,
        "class C {\n  NO_COPIES(C)\nprivate:\n  struct P {\n    P() : x(0) {\n    }\n    ~P() {}\n  };\n};",
        &["constructor C::P::P | P() : x(0) {⏎    }", "destructor C::P::~P | ~P() {}"],
    );
}

#[test]
fn macros_before_conditionals() {
    check(
        Language::Cpp,
        "#ifdef A\nint a() { }\n#else\nint b() { }\n#endif\nNAMESPACE_BEGIN\n#ifdef A\nint c() { }\n#else\nint d() { }\n#endif\n\
         NAMESPACE_BEGIN\n#ifndef A\nint e() { }\n#endif",
        &[
            "function a | int a() { }",
            "function b | int b() { }",
            "function c | int c() { }",
            "function d | int d() { }",
            "function e | int e() { }",
        ],
    );
}

#[test]
fn braces_inside_headers() {
    for (text, expected) in [
        ("A::A(B b) : C([&](int d) {\n  return d;\n}) {\n  e();\n}", "constructor A::A"),
        (
            "A::A(B b) noexcept(noexcept(typename P::f{}(b))) : c_(typename P::f{}(b)) {\n}",
            "constructor A::A",
        ),
        ("bool A::f() noexcept(noexcept(P{}(x_))) {\n}", "method A::f"),
        ("auto f(T t) -> g<h{}, T> {\n  return t;\n}", "function f"),
        ("void f(C c = C{1, 2}, D d = D{}) {\n}", "function f"),
    ] {
        let whole = format!("{expected} | {}", text.replace('\n', "⏎"));
        check(Language::Cpp, text, &[&whole]);
    }
    check(Language::Cpp, "auto f(T t) -> g<h{}, T>;\ni(T t) -> i<decltype(j(T{}))>;", &[]);
    check(Language::Cpp, "INSTANTIATE(a, b, Values(1), [](const P &p) {\n  return p;\n});", &[]);
    check(
        Language::C,
        "int f(int a {\n}\nint g(void) { }",
        &["function f | int f(int a {⏎}", "function g | int g(void) { }"],
    );
}

#[test]
fn operators_in_template_arguments() {
    check(
        Language::Cpp,
        "template <class R>\nstruct s<R, if_t<both<is<kind<R>::value != kind::none && a == b>, c<(d > e)>>::value>>\n    : t<R> {\n  s() {}\n};",
        &["constructor s::s | s() {}"],
    );
    check(
        Language::Cpp,
        "template <class T, if_t<(sizeof(T) > 4) ? true : false> = 0>\nint f(T t) { }",
        &["function f | template <class T, if_t<(sizeof(T) > 4) ? true : false> = 0>⏎int f(T t) { }"],
    );
}

#[test]
fn methods_of_classes_in_functions() {
    let text = "int f() {\n  struct {\n    state s = state::a;\n    API void operator()(state t) {\n      s = t;\n    }\n  } g;\n  \
                switch (x) {\n  default: {\n    struct h : public i<j> {\n      MAYBE int on(int k) { struct l { int m() { return 1; } }; return 2; }\n    } n = {o, 0};\n  } }\n\
                  for (struct p *q = r; q; q = q->next) { s({1}); }\n  return 0;\n}";
    let on = "MAYBE int on(int k) { struct l { int m() { return 1; } }; return 2; }";
    check(
        Language::Cpp,
        text,
        &[
            &format!("function f | {}", text.replace('\n', "⏎")),
            "operator operator() | API void operator()(state t) {⏎      s = t;⏎    }",
            &format!("method h::on | {on}"),
            "method l::m | int m() { return 1; }",
        ],
    );
}

#[test]
fn definitions_made_by_macros_with_values() {
    check_whole("Matcher_p(HasLength, len, \"\") { return arg == len; }", "macro HasLength");
    check_whole("Wrapped(pp_lock, 2, 0)\n{\n}", "macro pp_lock");
    check_whole(
        "DEFUN (show_it,\n       show_it_cmd,\n       \"show it\",\n       \"Show\\n\")\n{\n}",
        "macro show_it",
    );
}

#[test]
fn a_function_of_five_thousand_lines() {
    let lines: String = (0..5_000)
        .map(|line| format!("  if (a[{line}]) {{ b({line}); }} else if (c) {{ d(); }}\n"))
        .collect();
    let text = format!("int before(void) {{ }}\n\nint f(int *a)\n{{\n{lines}}}\nint after(void) {{ }}\n");
    let tree = SyntaxTree::parse(&text, Language::C);
    let function = tree.function_at(&text, text.len() / 2).unwrap();
    assert_eq!(function.name, "f");
    assert!(!function.parse_errors);
    assert_eq!(text[..function.span.start].matches('\n').count(), 2);
    assert_eq!(function.span.of(&text).unwrap().matches('\n').count(), 5_002);
}

#[test]
fn texts_of_any_size_have_their_functions() {
    let piece =
        "struct s {\n  int m() { struct l { int n() { return 0; } }; return 1; }\n};\nint f() { int = ; }\n";
    let text = piece.repeat(9 * (1 << 20) / piece.len());
    let tree = SyntaxTree::parse(&text, Language::Cpp);
    let functions = tree.functions(&text);
    assert_eq!(functions.len(), 3 * (9 * (1 << 20) / piece.len()));
    assert_eq!(functions[1].name, "l::n");
    assert!(!functions.iter().any(|function| function.parse_errors), "too long to read all of it");
    assert!(tree.function_at(&text, piece.find("int =").unwrap()).unwrap().parse_errors);
    assert_eq!(tree.function_at(&text, piece.find("return 0").unwrap()).unwrap().name, "l::n");
}

#[test]
fn a_function_answers_to_its_name_with_less_of_its_scope() {
    let text = "namespace n { template <class T> struct S { void f() {} }; }\ntemplate <> bool n::S<a<b>>::operator<(int x) { }";
    let functions = SyntaxTree::parse(text, Language::Cpp).functions(text);
    let [method, operator] = &functions[..] else { panic!("{functions:?}") };
    for name in ["f", "S::f", "n::S::f"] {
        assert!(method.is_named(name), "{name}");
    }
    for name in ["", "::f", "n::f", "S", "g", "Xn::S::f", ":f", "of"] {
        assert!(!method.is_named(name), "{name}");
    }
    for name in
        ["operator<", "S::operator<", "n::S::operator<", "S<a<b>>::operator<", "n::S<a<b>>::operator<"]
    {
        assert!(operator.is_named(name), "{name}");
    }
    assert!(!operator.is_named("operator"));
}

/// The grammars' versions are part of what is shown: an upgrade has to be a decision.
#[test]
fn the_grammars_read_a_fixed_function_as_ever() {
    let text = "/* before */\nstatic int parse(const char *text, struct range *out)\n{\n  int nested(int a) { return a; }\n\n  \
                if (!text || !*text)\n    return -1;\n  for (out->end = 0; text[out->end]; out->end++) {\n    switch (text[out->end]) {\n    \
                case ' ': continue;\n    default: break;\n    }\n  }\n  return nested(out->end);\n}\nint broken(void) { int = 1; }\n";
    let functions: Vec<_> = SyntaxTree::parse(text, Language::C)
        .functions(text)
        .into_iter()
        .map(|function| {
            let line = |offset: usize| text[..offset].matches('\n').count();
            let (start, end) = (function.span.start, function.span.end);
            (function.name, start, end, line(start), line(end), function.parse_errors)
        })
        .collect();
    assert_eq!(
        functions,
        [
            ("parse".to_owned(), 13, 305, 1, 14, false),
            ("nested".to_owned(), 71, 102, 3, 3, false),
            ("broken".to_owned(), 306, 335, 15, 15, true),
        ]
    );
}
