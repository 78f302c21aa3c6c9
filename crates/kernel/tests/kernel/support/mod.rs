//! What the tests against the real kernel share: namespaces of their own, `nft`, and the rules of a whole proxy.

pub mod namespace;
pub mod nft_program;
pub mod rules;
pub mod skeleton;
