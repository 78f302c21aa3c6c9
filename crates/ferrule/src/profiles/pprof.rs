//! Encodes the pprof format: a compressed protocol buffer of some ten kinds of fields, so it is written by hand.
//!
//! <https://github.com/google/pprof/blob/main/proto/profile.proto> has the numbers of the fields.

mod fields;

use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::mappings::Mapping;
use super::symbols::Symbol;
use fields::Fields;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// As in `cpu`.
    pub name: &'static str,
    /// As in `nanoseconds`.
    pub unit: &'static str,
}

/// Stacks with two values each.
#[derive(Debug)]
pub struct Profile {
    kinds: [Kind; 2],
    period: (Kind, i64),
    stacks: BTreeMap<Vec<usize>, [i64; 2]>,
    /// The duration in nanoseconds; 0 for a snapshot.
    pub took: i64,
    note: Option<String>,
}

impl Profile {
    /// An empty one. What is shown first is the second kind, as in Go's.
    pub fn new(kinds: [Kind; 2], period: (Kind, i64)) -> Self {
        Self { kinds, period, stacks: BTreeMap::new(), took: 0, note: None }
    }

    /// Adds a stack, innermost frame first.
    pub fn add(&mut self, stack: &[usize], values: [i64; 2]) {
        let sums = self.stacks.entry(stack.to_vec()).or_default();
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum = sum.saturating_add(value);
        }
    }

    /// Adds a comment if samples were lost.
    pub fn note_lost(&mut self, lost: u64) {
        self.note = (lost > 0).then(|| format!("{lost} more were not recorded: there was no room"));
    }

    /// The encoded, compressed profile.
    pub fn written(&self, mappings: &[Mapping], symbols: impl Fn(usize) -> Vec<Symbol>) -> Vec<u8> {
        let mut writing = Writing::default();
        writing.text("");
        for kind in self.kinds {
            let kind = writing.kind(kind);
            writing.profile.message(1, &kind);
        }
        for (stack, values) in &self.stacks {
            writing.sample(stack, *values);
        }
        writing.mappings(mappings);
        writing.locations(mappings, symbols);
        writing.rest(self);
        compressed(&writing.finished())
    }
}

#[derive(Default)]
struct Writing {
    profile: Fields,
    texts: HashMap<String, u64>,
    /// By number, the first being 0 and empty.
    text_list: Vec<String>,
    /// From 1 on.
    locations: HashMap<usize, u64>,
    location_list: Vec<usize>,
    functions: HashMap<(String, String), u64>,
}

impl Writing {
    /// The number of a text.
    fn text(&mut self, text: &str) -> u64 {
        if let Some(number) = self.texts.get(text) {
            return *number;
        }
        let number = self.text_list.len() as u64;
        self.texts.insert(text.to_owned(), number);
        self.text_list.push(text.to_owned());
        number
    }

    fn kind(&mut self, kind: Kind) -> Fields {
        let mut fields = Fields::default();
        fields.number(1, self.text(kind.name)).number(2, self.text(kind.unit));
        fields
    }

    fn sample(&mut self, stack: &[usize], values: [i64; 2]) {
        let locations: Vec<u64> = stack.iter().map(|address| self.location(*address)).collect();
        let mut sample = Fields::default();
        sample.packed(1, &locations).packed(2, &values.map(i64::cast_unsigned));
        self.profile.message(2, &sample);
    }

    /// The number of an address.
    fn location(&mut self, address: usize) -> u64 {
        let next = self.location_list.len() as u64 + 1;
        let number = *self.locations.entry(address).or_insert(next);
        if number == next {
            self.location_list.push(address);
        }
        number
    }

    fn mappings(&mut self, mappings: &[Mapping]) {
        for (number, mapping) in (1..).zip(mappings) {
            let mut fields = Fields::default();
            fields.number(1, number).number(2, mapping.addresses.start).number(3, mapping.addresses.end);
            fields.number(4, mapping.offset).number(5, self.text(&mapping.file));
            fields.number(6, self.text(&mapping.build_id));
            // Functions, files, lines and inlined calls are included: tools need not symbolise again.
            let has_names = u64::from(mapping.has_names);
            fields.number(7, has_names).number(8, has_names).number(9, has_names).number(10, has_names);
            self.profile.message(3, &fields);
        }
    }

    fn locations(&mut self, mappings: &[Mapping], symbols: impl Fn(usize) -> Vec<Symbol>) {
        for (number, address) in (1..).zip(std::mem::take(&mut self.location_list)) {
            let address_there = address as u64;
            let place = mappings.iter().position(|mapping| mapping.addresses.contains(&address_there));
            let mut location = Fields::default();
            location.number(1, number).number(2, place.map_or(0, |index| index as u64 + 1));
            location.number(3, address_there);
            for symbol in symbols(address) {
                let mut line = Fields::default();
                line.number(1, self.function(&symbol)).number(2, u64::from(symbol.line));
                location.message(4, &line);
            }
            self.profile.message(4, &location);
        }
    }

    /// The number of a function, which is written when it is first met.
    fn function(&mut self, symbol: &Symbol) -> u64 {
        let next = self.functions.len() as u64 + 1;
        let key = (symbol.mangled.clone(), symbol.file.clone());
        let number = *self.functions.entry(key).or_insert(next);
        if number == next {
            let mut function = Fields::default();
            function.number(1, number).number(2, self.text(&symbol.name));
            function.number(3, self.text(&symbol.mangled)).number(4, self.text(&symbol.file));
            self.profile.message(5, &function);
        }
        number
    }

    fn rest(&mut self, profile: &Profile) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let (kind, period) = profile.period;
        let kind = self.kind(kind);
        self.profile.number(9, u64::try_from(now).unwrap_or_default());
        self.profile.number(10, profile.took.cast_unsigned());
        self.profile.message(11, &kind).number(12, period.cast_unsigned());
        if let Some(note) = &profile.note {
            let note = self.text(note);
            self.profile.packed(13, &[note]);
        }
    }

    fn finished(mut self) -> Vec<u8> {
        for text in &self.text_list {
            self.profile.bytes(6, text.as_bytes());
        }
        self.profile.into_bytes()
    }
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory does not fail; if it did, the uncompressed form would be valid as well.
    encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap_or_else(|_| bytes.to_vec())
}
