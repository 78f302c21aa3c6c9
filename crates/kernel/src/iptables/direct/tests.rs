//! Rules as text, as data and as expressions: what one of them says, the others say too.

mod generated;
mod other_versions;

use proptest::prelude::*;

use super::{Context, RuleError, SetNames, XtRule};
use crate::netlink::{Attributes, Writer};
use crate::nft::Family;
use generated::{SETS, any_family, any_rule};

fn set_names() -> SetNames {
    (1_u16..).zip(SETS.map(str::to_owned)).collect()
}

fn printed(rule: &XtRule<'_>, family: Family) -> String {
    let mut text = String::new();
    rule.print(family, &mut text);
    text
}

/// What is printed of a rule that is decoded from these attributes.
fn decoded(writer: &Writer, family: Family) -> String {
    let sets = set_names();
    let context = Context { family, sets: &sets };
    printed(&XtRule::decode(Attributes::new(writer.as_bytes()), &context), family)
}

fn encoded(rule: &XtRule<'_>, family: Family) -> Vec<u8> {
    let (sets, mut writer) = (set_names(), Writer::new());
    rule.encode(&mut writer, &Context { family, sets: &sets }).unwrap();
    writer.as_bytes().to_vec()
}

// Rules borrow for one lifetime and no shorter one, so they are compared by what they show.
fn decodes_to(bytes: &[u8], rule: &XtRule<'_>, family: Family) -> bool {
    let sets = set_names();
    let read = XtRule::decode(Attributes::new(bytes), &Context { family, sets: &sets });
    format!("{read:?}") == format!("{rule:?}")
}

fn parses_to(text: &str, rule: &XtRule<'_>, family: Family) -> bool {
    XtRule::parse(text, family).is_ok_and(|parsed| format!("{parsed:?}") == format!("{rule:?}"))
}

/// What the text of a rule is after it was parsed; `None` if it cannot be written.
fn reprinted(text: &str, family: Family) -> Option<String> {
    XtRule::parse(text, family).ok().map(|rule| printed(&rule, family))
}

proptest! {
    #[test]
    fn what_is_decoded_is_what_was_encoded((family, rule) in any_family().prop_flat_map(any_rule)) {
        prop_assert!(decodes_to(&encoded(&rule, family), &rule, family));
    }

    #[test]
    fn what_is_parsed_is_what_was_printed((family, rule) in any_family().prop_flat_map(any_rule)) {
        let text = printed(&rule, family);
        prop_assert!(parses_to(&text, &rule, family), "{} {:?}", text, XtRule::parse(&text, family));
    }

    #[test]
    fn any_text_is_parsed_or_rejected(text in "(-[sdiopmjg]|--[a-z-]{3,8}|!|\"|\\\\|tcp|recent|[ -~é]{0,6}| ){0,12}") {
        let _ = XtRule::parse(&text, Family::Ip);
    }

    #[test]
    fn any_bytes_are_decoded_and_printed(bytes in prop::collection::vec(any::<u8>(), 0..300), family in any_family()) {
        let sets = SetNames::default();
        let rule = XtRule::decode(Attributes::new(&bytes), &Context { family, sets: &sets });
        let _ = printed(&rule, family);
    }

    /// What was understood is written back as the same rule or not at all, and what was not is never written.
    #[test]
    fn a_damaged_rule_is_read_as_what_it_is(
        (family, rule) in any_family().prop_flat_map(any_rule),
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = encoded(&rule, family);
        for (at, value) in damages {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let sets = set_names();
        let read = XtRule::decode(Attributes::new(&bytes), &Context { family, sets: &sets });
        let text = printed(&read, family);
        let again = reprinted(&text, family);
        prop_assert!(again.is_none() || (read.is_understood() && again.as_ref() == Some(&text)), "{} {:?}", text, again);
    }
}

/// What iptables 1.8.9 sends, on a kernel that is made to seem to have IPVS.
#[test]
fn virtual_services_are_encoded_as_iptables_does() {
    let rule = XtRule::parse("-m ipvs --vaddr 198.51.100.8 --vproto tcp ! --vport 80", Family::Ip).unwrap();
    let address = [&[198, 51, 100, 8][..], &[0; 12], &[0xff; 16]].concat();
    let expected = [&address[..], &[0, 80, 6, 0, 0, 0, 8, 15]].concat();
    let encoded = encoded(&rule, Family::Ip);
    assert!(encoded.windows(expected.len()).any(|part| part == expected), "{encoded:x?}");
    let shown = "-m ipvs --vproto 6 --vaddr 198.51.100.8 ! --vport 80";
    assert_eq!(printed(&rule, Family::Ip), shown);
}

#[test]
fn what_cannot_be_written_is_rejected_by_name() {
    let error = |text: &'static str| XtRule::parse(text, Family::Ip).expect_err(text);
    let unknown = |option: &str| RuleError::UnknownOption(option.to_owned());
    assert_eq!(error("-m tcp -p tcp --tcp-flags SYN SYN"), unknown("--tcp-flags"));
    assert_eq!(error("--dport 80"), unknown("--dport"));
    assert_eq!(error("-j X --to-ports 1"), unknown("--to-ports"));
    assert_eq!(error("-j MASQUERADE --to-destination 1.2.3.4"), unknown("--to-destination"));
    assert_eq!(error("-m statistic --mode random --probability 0.5 stray"), unknown("stray"));
    assert_eq!(error("\"-j\" X"), unknown("-j"));
    assert_eq!(error("-m hashlimit"), RuleError::UnknownMatch("hashlimit".to_owned()));
    assert_eq!(error("-s"), RuleError::MissingValue("-s".to_owned()));
    assert_eq!(error("-j X !"), RuleError::MissingValue("!".to_owned()));
    assert_eq!(error("! -j X"), RuleError::NotNegatable("-j".to_owned()));
    assert_eq!(error("-m comment ! --comment x"), RuleError::NotNegatable("--comment".to_owned()));
    for (text, missing) in [
        ("-m comment", "--comment"),
        ("-m mark", "--mark"),
        ("-m statistic --mode random", "--probability"),
        ("-m recent --name x", "--set"),
        ("-j MARK", "--set-xmark"),
        ("-j DNAT", "--to-destination"),
        ("-m tcp -j X", "-p"),
        ("-p udp -m tcp -j X", "-p"),
    ] {
        assert_eq!(error(text), RuleError::Incomplete(missing), "{text}");
    }
}

#[test]
fn options_that_are_repeated_or_contradict_each_other_are_rejected() {
    for text in [
        "-s 1.2.3.4 -s 1.2.3.4",
        "-p tcp -p tcp",
        "-j X -j Y",
        "-j X -g Y",
        "-p tcp --dport 1 --dport 2",
        "-m recent --set --rcheck",
        "-m recent --set --rsource --rdest",
        "-m mark --mark 1 --mark 2",
        "-j MARK --or-mark 1 --xor-mark 1",
        "-p tcp -m tcp -m tcp",
    ] {
        assert!(matches!(XtRule::parse(text, Family::Ip), Err(RuleError::Repeated(_))), "{text}");
    }
}

#[test]
fn values_of_the_wrong_kind_are_rejected() {
    for text in [
        "-s fd00::1",
        "-s 1.2.3.4/33",
        "-d host",
        "-i a-name-that-is-too-long",
        "-i +",
        "-p tcp --dport 70000",
        "-p tcp --dport 5:4",
        "-p tcp --dport http",
        "-m statistic --mode nth --probability 1",
        "-m statistic --mode random --probability 1.5",
        "-m conntrack --ctstate OPEN",
        "-m state --state DNAT",
        "-m addrtype --dst-type local",
        "-m set --match-set X up",
        "-m mark --mark 0xg",
        "-j REJECT --reject-with icmp6-no-route",
        "-p tcp -j DNAT --to-destination [fd00::1]:80",
        "-p tcp -j REDIRECT --to-ports 0",
    ] {
        assert!(matches!(XtRule::parse(text, Family::Ip), Err(RuleError::BadValue { .. })), "{text}");
    }
    assert!(matches!(XtRule::parse("-j a\u{e9}", Family::Ip), Err(RuleError::BadChain(_))));
    assert!(matches!(XtRule::parse("-g ACCEPT", Family::Ip), Err(RuleError::BadChain(_))));
}
