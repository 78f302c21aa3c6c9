//! The objects of nf_tables as the kernel sends them, attribute by attribute.

use ferrule_kernel::netlink::{Attribute, Attributes, Protocol, Request, Socket};

/// A kind of object.
#[derive(Clone, Copy)]
pub enum Object {
    Table,
    Chain,
    Rule,
}

/// All attributes of all objects of a kind, without those that number them.
///
/// Handles and positions depend on what was created before, and the use count of a chain is not part of it.
pub fn dump(family: u8, object: Object) -> Vec<Vec<(u16, Vec<u8>)>> {
    let (get, numbering): (u16, &[u16]) = match object {
        Object::Table => (1, &[4]),
        Object::Chain => (4, &[2]),
        Object::Rule => (7, &[3, 6]),
    };
    let mut socket = Socket::open(Protocol::Netfilter, &[]).unwrap();
    let request = Request { operation: "dumping", kind: 10 << 8 | get, body: &[family, 0, 0, 0] };
    socket
        .dump_whole(request, |message| {
            let attributes = message.attributes(4).into_iter();
            let kept = attributes.filter(|attribute| !numbering.contains(&attribute.kind));
            Some(kept.map(|attribute| (attribute.kind, attribute.value.to_vec())).collect())
        })
        .unwrap()
}

/// The text of an attribute.
pub fn text(object: &[(u16, Vec<u8>)], kind: u16) -> String {
    let value = object.iter().find(|(known, _)| *known == kind).map_or(&[][..], |(_, value)| value);
    String::from_utf8_lossy(value).trim_end_matches('\0').to_owned()
}

/// The expressions of a rule, one line each, for messages of failed tests.
pub fn expressions(object: &[(u16, Vec<u8>)]) -> String {
    let Some((_, list)) = object.iter().find(|(kind, _)| *kind == 4) else { return String::new() };
    let line = |expression: Attribute<'_>| {
        let name = expression.nested().text(1).unwrap_or_default().to_owned();
        format!("    {name} {:02x?}\n", expression.nested().get(2).map(|data| data.value).unwrap_or_default())
    };
    Attributes::new(list).into_iter().map(line).collect::<Vec<_>>().concat()
}
