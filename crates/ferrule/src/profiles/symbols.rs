//! Symbolises addresses with the program's own symbol table and debug information.

use std::ffi::c_void;
use std::fs::File;
use std::ops::Range;
use std::path::Path;

use backtrace::SymbolName;
use object::elf::PF_X;
use object::read::elf::ElfFile64;
use object::{
    Endianness, Object as _, ObjectSegment as _, ObjectSymbol as _, ReadCache, SegmentFlags, SymbolKind,
};

use super::mappings::Mapping;

/// A function at an address, with the source line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbol {
    /// The demangled name.
    pub name: String,
    /// The mangled name.
    pub mangled: String,
    /// The source file, if known.
    pub file: String,
    /// The line in it, or 0.
    pub line: u32,
}

/// The program's symbols.
#[derive(Debug, Default)]
pub struct Symbols {
    /// File addresses where functions begin, with their names.
    whole_names: Vec<(u64, Vec<u8>)>,
    /// The program's own code: where it lies, and what to take away to be in the file's count.
    own: Option<(Range<u64>, u64)>,
    /// The program's build id, by which tools find its symbols where it has none itself.
    build_id: String,
}

impl Symbols {
    /// Reads the symbol table, unless the program is stripped.
    pub fn read(mappings: &[Mapping]) -> Self {
        Self::try_read(mappings).unwrap_or_default()
    }

    fn try_read(mappings: &[Mapping]) -> Option<Self> {
        let cache = ReadCache::new(File::open("/proc/self/exe").ok()?);
        let program: ElfFile64<'_, Endianness, _> = ElfFile64::parse(&cache).ok()?;
        let path = std::env::current_exe().ok()?;
        let code = mappings.iter().find(|mapping| Path::new(&mapping.file) == path)?;
        let segment = program.segments().find(|segment| is_code(segment.flags()))?;
        // What lies in memory begins at a whole page, so it may begin before the segment does.
        let in_file = segment.address().wrapping_sub(segment.file_range().0).wrapping_add(code.offset);
        let functions = program.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
        let mut whole_names: Vec<_> = functions
            .filter_map(|symbol| Some((symbol.address(), symbol.name_bytes().ok()?.to_vec())))
            .collect();
        whole_names.sort_unstable();
        let own = Some((code.addresses.clone(), code.addresses.start.wrapping_sub(in_file)));
        let build_id = program.build_id().ok().flatten().unwrap_or_default();
        let build_id = build_id.iter().fold(String::new(), |id, byte| format!("{id}{byte:02x}"));
        Some(Self { whole_names, own, build_id })
    }

    /// Adds to the program's own mapping what a reader of the profile needs to find names, if the program was stripped of them.
    pub fn identify(&self, mappings: &mut [Mapping]) {
        let Some((own, _)) = &self.own else { return };
        for mapping in mappings.iter_mut().filter(|mapping| mapping.addresses == *own) {
            mapping.build_id.clone_from(&self.build_id);
            mapping.has_names = !self.whole_names.is_empty();
        }
    }

    /// The functions at an address: if some were inlined, the innermost first. None if nothing is known.
    pub fn of(&self, address: usize) -> Vec<Symbol> {
        let mut symbols = resolved(address);
        // Tables of lines have `run` where the table of symbols has `ferrule::app::run`, but know of inlined functions.
        if let Some(mangled) = self.whole_name(address as u64) {
            let outermost = symbols.pop().unwrap_or_default();
            let name = format!("{:#}", SymbolName::new(mangled));
            symbols.push(Symbol {
                name,
                mangled: String::from_utf8_lossy(mangled).into_owned(),
                ..outermost
            });
        }
        symbols
    }

    fn whole_name(&self, address: u64) -> Option<&[u8]> {
        let (own, shift) = self.own.as_ref()?;
        if !own.contains(&address) {
            return None;
        }
        let after = self.whole_names.partition_point(|(start, _)| *start <= address.wrapping_sub(*shift));
        self.whole_names.get(after.checked_sub(1)?).map(|(_, name)| name.as_slice())
    }
}

fn is_code(flags: SegmentFlags) -> bool {
    matches!(flags, SegmentFlags::Elf { p_flags, .. } if p_flags & PF_X == PF_X)
}

fn resolved(address: usize) -> Vec<Symbol> {
    let mut symbols = Vec::new();
    // The lookup takes an address for a return address, and resolves the byte before.
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

impl Drop for Symbols {
    /// The tables of lines are kept elsewhere.
    fn drop(&mut self) {
        backtrace::clear_symbol_cache();
    }
}
