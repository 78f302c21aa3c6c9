//! What the hash of an element is made of.

use ferrule_kernel::nft::{Element, Value, Verdict};

use crate::state_hash::ObjectHash;

pub(super) fn hash_of(element: &Element) -> ObjectHash {
    let mut hash = ObjectHash::new();
    hash.part(element.set.as_str().as_bytes());
    hash.part(&element.key);
    match &element.value {
        None => hash.part(b""),
        Some(Value::Data(data)) => hash.part(data),
        Some(Value::Verdict(Verdict::Goto(chain))) => hash.part(chain.as_str().as_bytes()),
        Some(Value::Verdict(other)) => hash.part(format!("{other:?}").as_bytes()),
    }
    hash
}
