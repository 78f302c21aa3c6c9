//! A hash of everything a dataplane wrote, updated object by object.
//!
//! Every commit leaves it in the kernel, so that the next start recognises the state it finds. It must be the same for the same
//! state in every build of the same layout, which the standard library's hashes do not promise.

/// The sum of the hashes of all objects: order does not matter, and objects can be removed again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateHash(u64);

impl StateHash {
    /// For the stamp.
    pub fn as_number(self) -> u64 {
        self.0
    }

    pub(crate) fn from_number(number: u64) -> Self {
        Self(number)
    }

    pub(crate) fn add(&mut self, object: ObjectHash) {
        self.0 = self.0.wrapping_add(object.finish());
    }

    pub(crate) fn remove(&mut self, object: ObjectHash) {
        self.0 = self.0.wrapping_sub(object.finish());
    }
}

/// FNV-1a with a final mix, so that sums of similar objects do not cancel out.
pub(crate) struct ObjectHash(u64);

impl ObjectHash {
    pub(crate) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn of_text(text: &str) -> Self {
        let mut hash = Self::new();
        hash.part(text.as_bytes());
        hash
    }

    /// Texts, and how many there are.
    pub(crate) fn texts<'a>(&mut self, texts: impl IntoIterator<Item = &'a str>) {
        let mut count = 0_u64;
        for text in texts {
            self.part(text.as_bytes());
            count += 1;
        }
        self.part(&count.to_le_bytes());
    }

    /// A part and its length, so that parts do not run into each other.
    pub(crate) fn part(&mut self, bytes: &[u8]) {
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
