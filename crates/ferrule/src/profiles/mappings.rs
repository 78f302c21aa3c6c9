//! The executable mappings of this process.

use std::ops::Range;

/// A mapping of a file's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The address range.
    pub addresses: Range<u64>,
    /// The offset in the file.
    pub offset: u64,
    /// The file.
    pub file: String,
    /// The id that the linker gave the file, in hexadecimal; empty if it is unknown.
    pub build_id: String,
    /// Whether the profile itself names what is at its addresses, so that tools need not.
    pub has_names: bool,
}

/// The mappings of this process, the program's own first. Empty without `/proc`.
pub fn own() -> Vec<Mapping> {
    std::fs::read_to_string("/proc/self/maps").map(|text| read(&text)).unwrap_or_default()
}

fn read(maps: &str) -> Vec<Mapping> {
    maps.lines().filter_map(mapping).collect()
}

/// A line, if it is about code: `addresses rights offset device inode file`.
fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let is_code = words.next()?.contains('x');
    let offset = number(words.next()?)?;
    let file = words.nth(2)?.to_owned();
    let addresses = number(start)?..number(end)?;
    is_code.then_some(Mapping { addresses, offset, file, build_id: String::new(), has_names: true })
}

fn number(hex: &str) -> Option<u64> {
    u64::from_str_radix(hex, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_in_files_counts() {
        let maps = "5580-5590 r--p 0000 fd:00 12 /bin/x\n5590-55a0 r-xp 0010 fd:00 12 /bin/x\n\
                    7000-7010 rw-p 0000 00:00 0 [heap]\n7f00-7f10 r-xp 0000 00:00 0 \nnonsense\n\n7 r-xp";
        let expected = Mapping {
            addresses: 0x5590..0x55a0,
            offset: 0x10,
            file: "/bin/x".into(),
            build_id: String::new(),
            has_names: true,
        };
        assert_eq!(read(maps), [expected]);
    }
}
