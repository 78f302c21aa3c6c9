//! Random bytes and mutated configurations: no panic, and every refusal names a field or a line.
//!
//! `FERRULE_RANDOM_CASES` says how many; the normal run does some thousands, `scripts/random-input` a million.

use crate::cli::{self, CommandLine};
use crate::config::complete::complete_with_file;
use crate::config::decode::decode;
use crate::config::encode::encode;
use crate::config::reload::judge;
use crate::config::{CompleteError, fields};
use crate::settings::{FlagOnly, Settings};

const NORMAL_CASES: u64 = 20_000;

/// A small generator of its own, so that a failing case has a number that always means the same bytes.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit.max(1)).expect("fits");
        usize::try_from(self.next() % limit).expect("fits")
    }

    fn pick<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> &'a T {
        list[self.below(list.len())]
    }
}

const WORDS: [&str; 44] = [
    "null",
    "~",
    "0",
    "-1",
    "1.5",
    "1e99",
    ".inf",
    "0x1f",
    "99999999999999999999",
    "true",
    "yes",
    "\"\"",
    "''",
    "[]",
    "{}",
    "[a, b]",
    "{a: b}",
    "30s",
    "-5s",
    "1h0m",
    "10",
    "10.0.0.0/8",
    "fd00::/64,10.0.0.0/8",
    "::",
    "[::]:1",
    "primary",
    "all",
    "nftables",
    "ipvs",
    "userspace",
    "json",
    "NodeCIDR",
    "BridgeInterface",
    "&a x",
    "*a",
    "!!int 5",
    "!!str 5",
    "|",
    ">-",
    "---",
    "...",
    "<<: *a",
    "? x",
    "\t",
];

fn seeds() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/peer/kubeadm");
    let mut seeds: Vec<Vec<u8>> = [30, 37]
        .iter()
        .map(|minor| std::fs::read(format!("{folder}/1.{minor}.yaml")).expect("in the tree"))
        .collect();
    let header = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
    for body in [
        "mode: nftables\nnodePortAddresses: [primary, 10.0.0.0/8]\nfeatureGates: {AllAlpha: true}\n",
        "mode: ipvs\nipvs: {scheduler: rr, excludeCIDRs: [10.0.0.0/8]}\nlogging:\n  vmodule:\n  - {filePattern: a, verbosity: 3}\n",
        "mode: userspace\nportRange: 1-2\nudpIdleTimeout: 1s\nbase: &b {min: 1}\nconntrack:\n  <<: *b\n",
        "healthzBindAddress: \"[::]:1\"\nclusterCIDR: fd00::/64\nhostnameOverride: |\n  a\n  b\n",
    ] {
        seeds.push(format!("{header}{body}").into_bytes());
    }
    seeds.push(
        br#"{"kind":"KubeProxyConfiguration","apiVersion":"kubeproxy.config.k8s.io/v1alpha1","mode":"ipvs","conntrack":{"min":7},"nodePortAddresses":["all"]}"#
            .to_vec(),
    );
    seeds
}

/// Every tenth case is noise; the others are a seed with a few changes.
fn case(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    if random.below(10) == 0 {
        return (0..random.below(200)).map(|_| random.next().to_le_bytes()[0]).collect();
    }
    let mut bytes = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(4) {
        mutate(&mut bytes, random, seeds);
    }
    bytes
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random, seeds: &[Vec<u8>]) {
    let at = random.below(bytes.len());
    match random.below(9) {
        0 if !bytes.is_empty() => bytes[at] = random.next().to_le_bytes()[0],
        1 if !bytes.is_empty() => drop(bytes.remove(at)),
        2 => bytes.insert(
            at,
            random.pick(&["\n", " ", ":", "\"", "{", "[", "-", "#", "\0", "\u{e9}"]).as_bytes()[0],
        ),
        3 => bytes.truncate(at),
        4 => {
            let other = &seeds[random.below(seeds.len())];
            bytes.truncate(at);
            bytes.extend_from_slice(&other[random.below(other.len())..]);
        }
        5 => change_line(bytes, random, |line, random| {
            let key = line.split(':').next().unwrap_or("").to_owned();
            format!("{key}: {}", random.pick(&WORDS))
        }),
        6 => change_line(bytes, random, |line, _| format!("{line}\n{line}")),
        7 => change_line(bytes, random, |line, random| format!("{}{line}", " ".repeat(random.below(5)))),
        _ => change_line(bytes, random, |line, random| {
            format!("{line}\n{}: {}", random.pick(&WORDS), random.pick(&WORDS))
        }),
    }
}

fn change_line(bytes: &mut Vec<u8>, random: &mut Random, change: impl Fn(&str, &mut Random) -> String) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if lines.is_empty() {
        return;
    }
    let at = random.below(lines.len());
    lines[at] = change(&lines[at], random);
    *bytes = (lines.join("\n") + "\n").into_bytes();
}

/// Runs one case through everything a changed file goes through; returns the refusal, if there is one.
fn try_case(line: &CommandLine, bytes: &[u8]) -> Option<String> {
    let completed = match complete_with_file(line, bytes) {
        Ok(completed) => completed,
        Err(CompleteError::Decode(error)) => return Some(error.to_string()),
        Err(error) => return Some(error.to_string()),
    };
    let settings = match Settings::resolve(&completed, &FlagOnly::default()) {
        Ok(settings) => settings,
        Err(problems) => return Some(problems.to_string()),
    };
    let written = encode(&completed.effective.to_written());
    let again = decode(written.as_bytes()).map_err(|error| format!("{error}\n{written}"));
    let again = again.expect("what we wrote reads back");
    assert_eq!(encode(&again.configuration), written);
    assert!(settings.sync.period >= settings.sync.min_period);
    let _ = judge(line, &completed.effective, bytes);
    None
}

fn names_a_field_or_a_line(refusal: &str) -> bool {
    let first_words = refusal.trim_start_matches('[');
    first_words.starts_with("line ")
        || first_words.starts_with("KubeProxyConfiguration.")
        || ["kind: ", "apiVersion: ", "featureGates: ", "logging."]
            .iter()
            .any(|field| first_words.starts_with(field))
        || fields::all().any(|field| first_words.starts_with(field.path))
        || first_words.split(':').next().is_some_and(fields::is_group)
}

#[test]
fn no_input_panics_and_every_refusal_names_a_field_or_a_line() {
    let cases = std::env::var("FERRULE_RANDOM_CASES")
        .map_or(NORMAL_CASES, |count| count.parse().expect("FERRULE_RANDOM_CASES is a number"));
    let line = cli::parse(&["--config=file"]).expect("good flags");
    let seeds = seeds();
    let (mut accepted, mut refused) = (0_u64, 0_u64);
    for number in 0..cases {
        let bytes = case(&mut Random(number.wrapping_mul(0x1234_5678_9abc_def1)), &seeds);
        match try_case(&line, &bytes) {
            None => accepted += 1,
            Some(refusal) => {
                refused += 1;
                let named = names_a_field_or_a_line(&refusal);
                assert!(named, "case {number}: {refusal}\n{}", String::from_utf8_lossy(&bytes));
            }
        }
    }
    println!("{cases} random files: {accepted} accepted, {refused} refused, each with a field or a line");
    // Both kinds must be there, or the mutations prove nothing.
    assert!(accepted > cases / 20 && refused > cases / 20, "{accepted} accepted, {refused} refused");
}
