//! Rules of iptables: the first line as text, encoded, damaged by the bytes behind it, and decoded again; and all bytes as what
//! the kernel may send.
#![no_main]

use ferrule_kernel::iptables::direct::{Context, SetNames, XtRule};
use ferrule_kernel::netlink::{Attributes, Writer};
use ferrule_kernel::nft::Family;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let sets: SetNames = [(3, "KUBE-CLUSTER-IP".to_owned())].into_iter().collect();
    for family in [Family::Ip, Family::Ip6] {
        let context = Context { family, sets: &sets };
        read(bytes, &context);
        let (line, damages) =
            bytes.split_at(bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len()));
        let Ok(text) = str::from_utf8(line) else { continue };
        let Ok(rule) = XtRule::parse(text, family) else { continue };
        let mut writer = Writer::new();
        if rule.encode(&mut writer, &context).is_err() {
            continue;
        }
        let mut encoded = writer.as_bytes().to_vec();
        assert_eq!(
            printed(&XtRule::decode(Attributes::new(&encoded), &context), family),
            printed(&rule, family)
        );
        for damage in damages.get(1..).unwrap_or_default().chunks_exact(3) {
            let at = usize::from(u16::from_be_bytes([damage[0], damage[1]])) % encoded.len();
            encoded[at] = damage[2];
        }
        read(&encoded, &context);
    }
});

/// What is read is either the same rule when it is written again, or cannot be written.
fn read(bytes: &[u8], context: &Context<'_>) {
    let rule = XtRule::decode(Attributes::new(bytes), context);
    let text = printed(&rule, context.family);
    assert!(!text.contains('\n'), "a rule is one line");
    if let Ok(again) = XtRule::parse(&text, context.family) {
        assert!(rule.is_understood(), "{text}");
        assert_eq!(printed(&again, context.family), text);
    }
}

fn printed(rule: &XtRule<'_>, family: Family) -> String {
    let mut text = String::new();
    rule.print(family, &mut text);
    text
}
