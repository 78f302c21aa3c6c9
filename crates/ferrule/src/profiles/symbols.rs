//! Names of addresses, from what the compiler left in the program.

use std::ffi::c_void;

/// A function at an address, and where in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbol {
    /// Its name, for people.
    pub name: String,
    /// Its name, for linkers.
    pub mangled: String,
    /// The source file, if known.
    pub file: String,
    /// The line in it, or 0.
    pub line: u32,
}

/// The functions at an address: if some were inlined, the innermost first. None if nothing is known.
pub fn of(address: usize) -> Vec<Symbol> {
    let mut symbols = Vec::new();
    // Whoever looks up an address takes it for a return address, and looks one byte before.
    let address = std::ptr::without_provenance_mut::<c_void>(address.wrapping_add(1));
    backtrace::resolve(address, |symbol| {
        let Some(name) = symbol.name() else { return };
        symbols.push(Symbol {
            name: format!("{name:#}"),
            mangled: name.as_str().unwrap_or_default().to_owned(),
            file: symbol.filename().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default(),
            line: symbol.lineno().unwrap_or_default(),
        });
    });
    symbols
}

/// Frees what was read to answer.
pub fn forget() {
    backtrace::clear_symbol_cache();
}
