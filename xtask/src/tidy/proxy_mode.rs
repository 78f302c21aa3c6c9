//! Every decision by proxy mode names every mode, so that a new mode is a compile error wherever it matters.
//!
//! A `match` on `ProxyMode` has no catch-all arm, and no code compares the name of a mode as text: names are parsed once,
//! in the file that defines the type. Tests may do both.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, ExprBinary, ExprMatch, ItemImpl, ItemMod, Lit, Pat, Path, Type};

use super::sizes::{is_cfg_test, is_test_code};
use crate::finding::Finding;
use crate::tree::SourceFile;

const TYPE: &str = "ProxyMode";
const NAMES: [&str; 5] = ["iptables", "ipvs", "nftables", "userspace", "ebpf"];

/// Catch-all arms and comparisons of names in product source.
pub fn findings(files: &[SourceFile]) -> Vec<Finding> {
    let is_product = |file: &&SourceFile| {
        file.is_rust()
            && file.path.starts_with("crates/")
            && !is_test_code(&file.path)
            && !is_for_tests(&file.path)
    };
    files.iter().filter(is_product).flat_map(in_file).collect()
}

fn is_for_tests(path: &str) -> bool {
    path.starts_with("crates/testkit/") || path.starts_with("crates/e2e/")
}

fn in_file(file: &SourceFile) -> Vec<Finding> {
    let Ok(syntax) = syn::parse_file(&file.text) else { return Vec::new() };
    let defines_type = file.text.contains(&format!("enum {TYPE} {{"));
    let mut search =
        Search { path: &file.path, is_inside_type: false, may_parse: defines_type, findings: Vec::new() };
    search.visit_file(&syntax);
    search.findings
}

struct Search<'a> {
    path: &'a str,
    /// `Self` is the mode here.
    is_inside_type: bool,
    may_parse: bool,
    findings: Vec<Finding>,
}

impl Search<'_> {
    fn report(&mut self, place: &impl Spanned, message: impl Into<String>) {
        self.findings.push(Finding::new(self.path, place.span().start().line, message));
    }

    fn names_mode(&self, pattern: &Pat) -> bool {
        let is_mode = |path: &Path| {
            path.segments
                .iter()
                .rev()
                .skip(1)
                .any(|segment| segment.ident == TYPE || (self.is_inside_type && segment.ident == "Self"))
        };
        let mut paths = PatternPaths::default();
        paths.visit_pat(pattern);
        paths.0.iter().any(|path| is_mode(path))
    }

    fn check_name(&mut self, expression: &Expr) {
        if let Some(name) = mode_name(expression).filter(|_| !self.may_parse) {
            self.report(
                expression,
                format!("compares the mode's name \"{name}\" as text; parse a `{TYPE}` once"),
            );
        }
    }
}

impl<'ast> Visit<'ast> for Search<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !item.attrs.iter().any(is_cfg_test) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let is_type = matches!(&*item.self_ty, Type::Path(path) if path.path.is_ident(TYPE));
        let outer = std::mem::replace(&mut self.is_inside_type, is_type);
        visit::visit_item_impl(self, item);
        self.is_inside_type = outer;
    }

    fn visit_expr_match(&mut self, item: &'ast ExprMatch) {
        if item.arms.iter().any(|arm| self.names_mode(&arm.pat)) {
            for arm in item.arms.iter().filter(|arm| is_catch_all(&arm.pat)) {
                self.report(arm, format!("a catch-all arm in a match on `{TYPE}`; name the other modes"));
            }
        }
        for arm in &item.arms {
            if let Some(name) = pattern_name(&arm.pat).filter(|_| !self.may_parse) {
                let message = format!("matches the mode's name \"{name}\" as text; parse a `{TYPE}` once");
                self.report(&arm.pat, message);
            }
        }
        visit::visit_expr_match(self, item);
    }

    fn visit_expr_binary(&mut self, item: &'ast ExprBinary) {
        if matches!(item.op, BinOp::Eq(_) | BinOp::Ne(_)) {
            self.check_name(&item.left);
            self.check_name(&item.right);
        }
        visit::visit_expr_binary(self, item);
    }
}

/// The paths in a pattern, such as `ProxyMode::Ipvs` in `Some(ProxyMode::Ipvs)`.
#[derive(Default)]
struct PatternPaths<'ast>(Vec<&'ast Path>);

impl<'ast> Visit<'ast> for PatternPaths<'ast> {
    fn visit_path(&mut self, path: &'ast Path) {
        self.0.push(path);
    }
}

/// `_`, or a name that takes any value.
fn is_catch_all(pattern: &Pat) -> bool {
    match pattern {
        Pat::Wild(_) => true,
        Pat::Ident(name) => name.subpat.is_none() && name.ident.to_string().starts_with(char::is_lowercase),
        _ => false,
    }
}

fn mode_name(expression: &Expr) -> Option<String> {
    let Expr::Lit(literal) = expression else { return None };
    let Lit::Str(text) = &literal.lit else { return None };
    Some(text.value()).filter(|name| NAMES.contains(&name.as_str()))
}

fn pattern_name(pattern: &Pat) -> Option<String> {
    match pattern {
        Pat::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some(text.value()).filter(|name| NAMES.contains(&name.as_str())),
            _ => None,
        },
        Pat::Or(any) => any.cases.iter().find_map(pattern_name),
        Pat::TupleStruct(inner) => inner.elems.iter().find_map(pattern_name),
        Pat::Tuple(tuple) => tuple.elems.iter().find_map(pattern_name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_in(path: &str, code: &str) -> usize {
        findings(&[SourceFile { path: path.to_owned(), text: code.to_owned() }]).len()
    }

    fn found(body: &str) -> usize {
        found_in("crates/a/src/b.rs", &format!("fn f() {{ {body} }}"))
    }

    #[test]
    fn a_catch_all_arm_is_found() {
        assert_eq!(found("match m { ProxyMode::Ipvs => 1, _ => 2 }"), 1);
        assert_eq!(found("match m { plan::ProxyMode::Ipvs | ProxyMode::Iptables => 1, other => 2 }"), 1);
        assert_eq!(found("match m { Some(ProxyMode::Ipvs) => 1, _ => 2 }"), 1);
        let inside = "impl ProxyMode { fn f(self) -> u8 { match self { Self::Ipvs => 1, _ => 2 } } }";
        assert_eq!(found_in("crates/a/src/b.rs", inside), 1);
    }

    #[test]
    fn a_name_compared_as_text_is_found() {
        assert_eq!(found("if mode == \"nftables\" {}"), 1);
        assert_eq!(found("match mode { \"ipvs\" => 1, _ => 2 }"), 1);
        assert_eq!(found("match mode { Some(\"ipvs\" | \"x\") => 1, _ => 2 }"), 1);
    }

    #[test]
    fn other_matches_the_parser_and_tests_pass() {
        assert_eq!(found("match m { ProxyMode::Ipvs => 1, ProxyMode::Iptables => 2 }"), 0);
        assert_eq!(found("match m { Other::Ipvs => 1, _ => 2 }"), 0);
        assert_eq!(found("match m { (ProxyMode::Ipvs, _) => 1, (ProxyMode::Iptables, _) => 2 }"), 0);
        assert_eq!(found("run(\"nftables\")"), 0);
        let parser = "pub enum ProxyMode { Ipvs }\nfn parse(a: &str) { match a { \"ipvs\" => 1, _ => 2 }; }";
        assert_eq!(found_in("crates/plan/src/mode.rs", parser), 0);
        let test = "fn f() { match m { ProxyMode::Ipvs => 1, _ => 2 }; }";
        assert_eq!(found_in("crates/a/tests/b.rs", test), 0);
        assert_eq!(found_in("crates/testkit/src/b.rs", test), 0);
        assert_eq!(found_in("crates/a/src/b.rs", &format!("#[cfg(test)]\nmod tests {{ {test} }}")), 0);
    }
}
