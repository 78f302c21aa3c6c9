//! Limits for the length of files and functions, and for the number of parameters.
//!
//! Test code (files named `tests.rs`, anything under `tests` or `benches`, modules under `cfg(test)`) is not measured:
//! tables of cases are long for a good reason. Only a test module inside a source file is, so that it moves out when it
//! grows. The limits are those of the style guide; [`super::exceptions`] lifts single ones.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Block, FnArg, ImplItemFn, ItemFn, ItemImpl, ItemMod, Signature, TraitItemFn, Type, Visibility,
};

use crate::finding::Finding;
use crate::tree::SourceFile;

pub const SOFT_FILE_LINES: usize = 300;
pub const SOFT_FUNCTION_LINES: usize = 40;
const FILE_LINES: usize = 500;
const FUNCTION_LINES: usize = 60;
const TEST_MODULE_LINES: usize = 100;
const PARAMETERS: usize = 4;

/// The result of measuring all files.
#[derive(Debug, Default)]
pub struct Measured {
    /// Above a hard limit.
    pub oversized: Vec<Oversized>,
    /// Worth a second look in review, not an error.
    pub notes: Vec<Finding>,
    pub long_files: usize,
    pub long_functions: usize,
}

/// A broken limit, and the name by which the list of exceptions can lift it.
#[derive(Clone, Debug)]
pub struct Oversized {
    pub name: String,
    pub finding: Finding,
}

/// Measures every Rust file that is not test code.
pub fn measure(files: &[SourceFile]) -> Measured {
    let mut measured = Measured::default();
    for file in files.iter().filter(|file| file.is_rust() && !is_test_code(&file.path)) {
        match syn::parse_file(&file.text) {
            Ok(syntax) => {
                let mut ruler = Ruler { path: &file.path, owner: Owner::Module, test_lines: 0, measured };
                ruler.visit_file(&syntax);
                ruler.measure_file(file.text.lines().count());
                measured = ruler.measured;
            }
            Err(error) => {
                let line = error.span().start().line;
                let message = format!("is not Rust that can be read ({error}); correct it");
                measured.add(file.path.clone(), Finding::new(&file.path, line, message));
            }
        }
    }
    measured
}

pub(super) fn is_test_code(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "benches"))
}

impl Measured {
    fn add(&mut self, name: String, finding: Finding) {
        self.oversized.push(Oversized { name, finding });
    }
}

/// Walks one file.
struct Ruler<'a> {
    path: &'a str,
    owner: Owner,
    test_lines: usize,
    measured: Measured,
}

/// The owner of the function that is being measured.
enum Owner {
    Module,
    Type(String),
    /// Its signature is the trait's decision, not the function's.
    TraitImpl(String),
}

impl Ruler<'_> {
    fn measure_file(&mut self, lines: usize) {
        let lines = lines - self.test_lines;
        if lines > FILE_LINES {
            let message = format!("{lines} lines without tests, the limit is {FILE_LINES}; split it");
            self.measured.add(self.path.to_owned(), Finding::new(self.path, 1, message));
        }
        self.measured.long_files += usize::from(lines > SOFT_FILE_LINES);
    }

    fn measure_function(&mut self, signature: &Signature, body: Option<&Block>) {
        let lines = body.map_or(0, |body| lines_between(signature.span(), body.span()));
        let name = self.name_of(signature);
        if lines > FUNCTION_LINES {
            let message =
                format!("`{name}` has {lines} lines, the limit is {FUNCTION_LINES}; split it by step");
            self.report(&name, signature, message);
        }
        self.measured.long_functions += usize::from(lines > SOFT_FUNCTION_LINES);

        let parameters: usize = signature.inputs.iter().map(values_of).sum();
        if parameters > PARAMETERS && !matches!(self.owner, Owner::TraitImpl(_)) {
            let message = format!(
                "`{name}` takes {parameters} parameters, members of tuples counted; the limit is {PARAMETERS}, group \
                 them in a struct"
            );
            self.report(&name, signature, message);
        }
    }

    fn note_bools(&mut self, visibility: &Visibility, signature: &Signature) {
        let in_library = self.path.starts_with("crates/") && !self.path.starts_with("crates/ferrule/");
        let ours = !matches!(self.owner, Owner::TraitImpl(_));
        let public = matches!(visibility, Visibility::Public(_));
        if in_library && ours && public && signature.inputs.iter().any(is_bool) {
            let name = self.name_of(signature);
            let message = format!("`{name}` takes a bool; could an enum say what it means?");
            self.measured.notes.push(Finding::new(self.path, first_line(signature.span()), message));
        }
    }

    fn report(&mut self, name: &str, signature: &Signature, message: String) {
        let finding = Finding::new(self.path, first_line(signature.span()), message);
        self.measured.add(format!("{}::{name}", self.path), finding);
    }

    fn name_of(&self, signature: &Signature) -> String {
        match &self.owner {
            Owner::Module => signature.ident.to_string(),
            Owner::Type(name) | Owner::TraitImpl(name) => format!("{name}::{}", signature.ident),
        }
    }
}

impl<'ast> Visit<'ast> for Ruler<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !item.attrs.iter().any(is_cfg_test) {
            return visit::visit_item_mod(self, item);
        }
        if item.content.is_some() {
            let lines = lines_between(item.span(), item.span());
            self.test_lines += lines;
            if lines > TEST_MODULE_LINES {
                let message = format!(
                    "test module `{}` has {lines} lines, the limit is {TEST_MODULE_LINES}; move it to a tests.rs",
                    item.ident
                );
                let finding = Finding::new(self.path, first_line(item.span()), message);
                self.measured.add(format!("{}::{}", self.path, item.ident), finding);
            }
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let name = type_name(&item.self_ty);
        let owner = if item.trait_.is_some() { Owner::TraitImpl(name) } else { Owner::Type(name) };
        let outer = std::mem::replace(&mut self.owner, owner);
        visit::visit_item_impl(self, item);
        self.owner = outer;
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        let outer = std::mem::replace(&mut self.owner, Owner::Type(item.ident.to_string()));
        visit::visit_item_trait(self, item);
        self.owner = outer;
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        // A function inside a method belongs to no type.
        let outer = std::mem::replace(&mut self.owner, Owner::Module);
        self.measure_function(&item.sig, Some(&item.block));
        self.note_bools(&item.vis, &item.sig);
        visit::visit_item_fn(self, item);
        self.owner = outer;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.measure_function(&item.sig, Some(&item.block));
        self.note_bools(&item.vis, &item.sig);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        self.measure_function(&item.sig, item.default.as_ref());
        visit::visit_trait_item_fn(self, item);
    }
}

/// The number of values a caller passes for a parameter. A tuple counts its members: it would dodge the limit and lose
/// their names at the call.
fn values_of(input: &FnArg) -> usize {
    match input {
        FnArg::Typed(parameter) => values_in(&parameter.ty),
        FnArg::Receiver(_) => 0,
    }
}

fn values_in(parameter: &Type) -> usize {
    match parameter {
        Type::Tuple(tuple) if !tuple.elems.is_empty() => tuple.elems.iter().map(values_in).sum(),
        Type::Reference(reference) => values_in(&reference.elem),
        Type::Paren(inner) => values_in(&inner.elem),
        _ => 1,
    }
}

/// `#[cfg(test)]` or `#[cfg(all(test, …))]`; code under `not(test)` is not test code.
pub(super) fn is_cfg_test(attribute: &Attribute) -> bool {
    let Ok(list) = attribute.meta.require_list() else { return false };
    let condition = list.tokens.to_string();
    let words = || condition.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let says = |wanted: &str| words().any(|word| word == wanted);
    attribute.path().is_ident("cfg") && says("test") && !says("not")
}

fn is_bool(input: &FnArg) -> bool {
    let FnArg::Typed(input) = input else { return false };
    matches!(&*input.ty, Type::Path(path) if path.path.is_ident("bool"))
}

fn type_name(self_type: &Type) -> String {
    match self_type {
        Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default(),
        Type::Reference(reference) => type_name(&reference.elem),
        _ => "_".to_owned(),
    }
}

fn first_line(span: Span) -> usize {
    span.start().line
}

fn lines_between(first: Span, last: Span) -> usize {
    last.end().line + 1 - first_line(first)
}

#[cfg(test)]
mod tests;
