//! Each limit at its edge, on source made for the purpose.

use super::*;

fn measure_one(path: &str, text: &str) -> Measured {
    measure(&[SourceFile { path: path.to_owned(), text: text.to_owned() }])
}

/// The names under which `text` breaks a limit.
fn broken(path: &str, text: &str) -> Vec<String> {
    measure_one(path, text).oversized.into_iter().map(|oversized| oversized.name).collect()
}

fn function_of(lines: usize) -> String {
    format!("fn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
}

#[test]
fn a_file_may_have_500_lines_and_no_more() {
    assert!(broken("crates/a/src/b.rs", &"// line\n".repeat(500)).is_empty());
    assert_eq!(broken("crates/a/src/b.rs", &"// line\n".repeat(501)), ["crates/a/src/b.rs"]);
}

#[test]
fn test_code_is_not_measured() {
    let long = "// line\n".repeat(501) + &function_of(100);
    for path in ["crates/a/src/b/tests.rs", "crates/a/tests/b.rs", "crates/a/benches/b.rs"] {
        assert!(broken(path, &long).is_empty(), "{path}");
    }
    assert_eq!(broken("crates/a/src/contests.rs", &long).len(), 2);
}

#[test]
fn an_in_file_test_module_does_not_count_for_the_file_but_has_its_own_limit() {
    let with_tests = |lines: usize| {
        let body = "    // case\n".repeat(lines - 3);
        format!("{}#[cfg(test)]\nmod tests {{\n{body}}}\n", "// line\n".repeat(500))
    };
    assert!(broken("a.rs", &with_tests(100)).is_empty());
    assert_eq!(broken("a.rs", &with_tests(101)), ["a.rs::tests"]);
    assert_eq!(
        broken("a.rs", &with_tests(101).replace("cfg(test)", "cfg(all(test, unix))")),
        ["a.rs::tests"]
    );
    assert_eq!(broken("a.rs", &with_tests(20).replace("cfg(test)", "cfg(not(test))")), ["a.rs"]);
}

#[test]
fn a_function_may_have_60_lines_and_no_more() {
    assert!(broken("a.rs", &function_of(60)).is_empty());
    assert_eq!(broken("a.rs", &function_of(61)), ["a.rs::long"]);
}

#[test]
fn docs_and_attributes_are_not_part_of_a_functions_length() {
    let documented = format!("{}#[inline]\n{}", "/// Why.\n".repeat(30), function_of(60));
    assert!(broken("a.rs", &documented).is_empty());
}

#[test]
fn methods_are_measured_and_named_with_their_type() {
    let in_impl = format!("impl Plan {{\n{}}}\n", function_of(61));
    assert_eq!(broken("a.rs", &in_impl), ["a.rs::Plan::long"]);
    let in_trait_impl = format!("impl Display for Plan<'_> {{\n{}}}\n", function_of(61));
    assert_eq!(broken("a.rs", &in_trait_impl), ["a.rs::Plan::long"]);
    let in_trait = format!("trait Backend {{\n{}}}\n", function_of(61));
    assert_eq!(broken("a.rs", &in_trait), ["a.rs::Backend::long"]);
}

#[test]
fn a_function_may_take_four_parameters_beside_self() {
    assert!(broken("a.rs", "impl A { fn f(&self, a: A, b: B, c: C, d: D) {} }").is_empty());
    assert_eq!(broken("a.rs", "impl A { fn f(&self, a: A, b: B, c: C, d: D, e: E) {} }"), ["a.rs::A::f"]);
    assert_eq!(broken("a.rs", "trait A { fn f(a: A, b: B, c: C, d: D, e: E); }"), ["a.rs::A::f"]);
    assert!(broken("a.rs", "impl T for A { fn f(a: A, b: B, c: C, d: D, e: E) {} }").is_empty());
}

#[test]
fn members_of_a_tuple_parameter_count() {
    assert!(broken("a.rs", "fn f((a, b): (A, B), c: C, d: &D) {}").is_empty());
    assert_eq!(broken("a.rs", "fn f((a, b): (A, B), c: C, d: D, e: E) {}"), ["a.rs::f"]);
    assert_eq!(broken("a.rs", "fn f(a: &mut (A, B, (C, D)), e: E) {}"), ["a.rs::f"]);
    assert!(broken("a.rs", "fn f(a: (), b: B, c: Vec<(C, D)>, e: fn(A, B)) {}").is_empty());
    assert!(broken("a.rs", "fn f() { let g = |(a, b, c, d, e)| a; }").is_empty());
}

#[test]
fn a_bool_parameter_of_a_public_library_function_is_noted() {
    let notes = |path: &str, text: &str| measure_one(path, text).notes.len();
    assert_eq!(notes("crates/plan/src/a.rs", "pub fn f(masquerade: bool) {}"), 1);
    assert_eq!(notes("crates/plan/src/a.rs", "impl A { pub fn f(&self, masquerade: bool) {} }"), 1);
    assert_eq!(notes("crates/plan/src/a.rs", "fn f(masquerade: bool) {}"), 0);
    assert_eq!(notes("crates/ferrule/src/a.rs", "pub fn f(masquerade: bool) {}"), 0);
    assert_eq!(notes("crates/plan/src/a.rs", "pub fn f(masquerade: Masquerade) -> bool { true }"), 0);
}

#[test]
fn soft_limits_are_counted() {
    let measured = measure_one("a.rs", &("// line\n".repeat(300) + &function_of(41)));
    assert_eq!((measured.long_files, measured.long_functions), (1, 1));
    let measured = measure_one("a.rs", &("// line\n".repeat(260) + &function_of(40)));
    assert_eq!((measured.long_files, measured.long_functions), (0, 0));
}

#[test]
fn a_file_that_is_not_rust_is_found_with_its_line() {
    let measured = measure_one("a.rs", "//! Fine.\nfn {\n");
    assert_eq!(measured.oversized.len(), 1);
    assert_eq!(measured.oversized[0].finding.line, 2);
}
