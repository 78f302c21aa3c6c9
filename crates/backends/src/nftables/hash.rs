//! A hash of the table that is updated element by element.
//!
//! Every commit leaves it in the kernel, so that the next start recognises the state it finds. It must be the same for the same
//! state in every build of the same layout, which the standard library's hashes do not promise.

use ferrule_kernel::nft::{Element, Value, Verdict};

/// The sum of the hashes of all objects: order does not matter, and objects can be removed again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateHash(u64);

impl StateHash {
    /// For the stamp.
    pub fn as_number(self) -> u64 {
        self.0
    }

    pub(super) fn from_number(number: u64) -> Self {
        Self(number)
    }

    pub(super) fn add(&mut self, element: &Element) {
        self.0 = self.0.wrapping_add(hash_of(element));
    }

    pub(super) fn remove(&mut self, element: &Element) {
        self.0 = self.0.wrapping_sub(hash_of(element));
    }

    pub(super) fn add_text(&mut self, text: &str) {
        self.0 = self.0.wrapping_add(hash_of_text(text));
    }

    pub(super) fn remove_text(&mut self, text: &str) {
        self.0 = self.0.wrapping_sub(hash_of_text(text));
    }
}

fn hash_of(element: &Element) -> u64 {
    let mut hash = Fnv::new();
    hash.part(element.set.as_str().as_bytes());
    hash.part(&element.key);
    match &element.value {
        None => hash.part(b""),
        Some(Value::Data(data)) => hash.part(data),
        Some(Value::Verdict(Verdict::Goto(chain))) => hash.part(chain.as_str().as_bytes()),
        Some(Value::Verdict(other)) => hash.part(format!("{other:?}").as_bytes()),
    }
    hash.finish()
}

fn hash_of_text(text: &str) -> u64 {
    let mut hash = Fnv::new();
    hash.part(text.as_bytes());
    hash.finish()
}

/// FNV-1a with a final mix, so that sums of similar elements do not cancel out.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// A part and its length, so that parts do not run into each other.
    fn part(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().copied().chain((bytes.len() as u64).to_le_bytes()) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(self) -> u64 {
        let mut hash = self.0;
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^ (hash >> 31)
    }
}
