//! Profiles read back.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::ops::Range;

use flate2::read::GzDecoder;
use rustix::time::{ClockId, clock_gettime};

use super::mappings::Mapping;
use super::symbols::Symbol;
use super::*;

/// A message as its fields: numbers, or bytes.
type Message = BTreeMap<u64, Vec<Field>>;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().expect("a number is cut off");
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    value
}

fn message(mut bytes: &[u8]) -> Message {
    let mut fields = Message::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let number = varint(&mut bytes);
        let field = match key & 7 {
            0 => Field::Number(number),
            2 => {
                let (content, rest) = bytes.split_at(usize::try_from(number).expect("a length"));
                bytes = rest;
                Field::Bytes(content.to_vec())
            }
            other => panic!("no field of ours is of type {other}"),
        };
        fields.entry(key >> 3).or_default().push(field);
    }
    fields
}

fn numbers(message: &Message, field: u64) -> Vec<u64> {
    let of = |field: &Field| match field {
        Field::Number(number) => vec![*number],
        Field::Bytes(bytes) => {
            let mut rest = bytes.as_slice();
            std::iter::from_fn(|| (!rest.is_empty()).then(|| varint(&mut rest))).collect()
        }
    };
    message.get(&field).into_iter().flatten().flat_map(of).collect()
}

fn messages(parent: &Message, field: u64) -> Vec<Message> {
    texts(parent, field).iter().map(|bytes| message(bytes)).collect()
}

fn texts(parent: &Message, field: u64) -> Vec<Vec<u8>> {
    let of = |field: &Field| match field {
        Field::Bytes(bytes) => bytes.clone(),
        Field::Number(number) => panic!("{number} is no message"),
    };
    parent.get(&field).into_iter().flatten().map(of).collect()
}

fn unpacked(bytes: &[u8]) -> Message {
    let mut plain = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut plain).expect("gzip");
    message(&plain)
}

/// Every stack as the names of its functions, with its values.
fn stacks(profile: &Message) -> Vec<(Vec<String>, Vec<u64>)> {
    let texts = texts(profile, 6);
    let text = |number: u64| {
        String::from_utf8_lossy(&texts[usize::try_from(number).expect("a number")]).into_owned()
    };
    let id = |message: &Message| numbers(message, 1)[0];
    let functions: BTreeMap<u64, String> =
        messages(profile, 5).iter().map(|function| (id(function), text(numbers(function, 2)[0]))).collect();
    let names = |location: &Message| -> Vec<String> {
        messages(location, 4).iter().map(|line| functions[&id(line)].clone()).collect()
    };
    let locations: BTreeMap<u64, Vec<String>> =
        messages(profile, 4).iter().map(|location| (id(location), names(location))).collect();
    let stack = |sample: &Message| {
        (numbers(sample, 1).iter().flat_map(|number| locations[number].clone()).collect(), numbers(sample, 2))
    };
    messages(profile, 2).iter().map(stack).collect()
}

#[test]
fn stacks_come_back_with_names_and_numbers() {
    let mut profile = Profile::new([OBJECTS, BYTES], (SPACE, 512));
    profile.add(&[0x1010, 0x1020], [1, 300]);
    profile.add(&[0x1010, 0x1020], [1, 2]);
    profile.add(&[0x1020, 0x9999], [3, 4]);
    profile.note_lost(7);
    let symbol = |name: &str| Symbol { name: name.into(), mangled: format!("_{name}"), ..Symbol::default() };
    let symbols = |address| match address {
        0x1010 => vec![symbol("inlined"), symbol("leaf")],
        0x1020 => vec![symbol("main")],
        _ => Vec::new(),
    };
    let addresses: Range<u64> = 0x1000..0x2000;
    let mapping = Mapping {
        addresses,
        offset: 0x1000,
        file: "/bin/program".into(),
        build_id: "4f2a".into(),
        has_names: false,
    };
    let read = unpacked(&profile.written(&[mapping], symbols));
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let expected = [(names(&["inlined", "leaf", "main"]), vec![2, 302]), (names(&["main"]), vec![3, 4])];
    assert_eq!(stacks(&read), expected);
    assert_eq!(texts(&read, 6)[0], b"");
    assert!(texts(&read, 6).contains(&b"7 more were not recorded: there was no room".to_vec()));
    assert_eq!(numbers(&read, 12), [512]);
    let mapped: Vec<u64> = messages(&read, 4)
        .iter()
        .map(|location| numbers(location, 2).first().copied().unwrap_or(0))
        .collect();
    assert_eq!(mapped, [1, 1, 0]);
    let mapping = &messages(&read, 3)[0];
    let build_id = usize::try_from(numbers(mapping, 6)[0]).expect("a number");
    assert_eq!(texts(&read, 6)[build_id], b"4f2a");
    // Protobuf leaves out what is false.
    assert_eq!(numbers(mapping, 7), [] as [u64; 0], "names are left to the reader");
}

/// Tools find the symbols of a stripped program by its build id.
#[test]
fn the_programs_own_mapping_is_identified() {
    let mut own = mappings::own();
    let symbols = Symbols::read(&own);
    symbols.identify(&mut own);
    let path = std::env::current_exe().expect("a path");
    let mapping = own.iter().find(|mapping| std::path::Path::new(&mapping.file) == path).expect("a mapping");
    assert!(mapping.has_names, "this program is not stripped");
    assert!(mapping.build_id.len() >= 16 && mapping.build_id.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert!(own.iter().filter(|other| other.file != mapping.file).all(|other| other.build_id.is_empty()));
}

/// Works until it has had this much of a processor, however long others keep it waiting, then says so.
#[inline(never)]
fn a_function_that_is_busy(time: Duration, is_done: &AtomicBool) {
    let mut sum: u64 = 1;
    while Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).is_ok_and(|used| used < time) {
        for number in 0..10_000 {
            sum = std::hint::black_box(sum.wrapping_mul(31) ^ number);
        }
    }
    is_done.store(true, std::sync::atomic::Ordering::Relaxed);
}

#[test]
fn a_profile_of_the_processor_names_who_was_busy() {
    let is_done = AtomicBool::new(false);
    let bytes = std::thread::scope(|scope| {
        scope.spawn(|| a_function_that_is_busy(Duration::from_millis(1_500), &is_done));
        cpu_profile(Duration::from_mins(1), &is_done).expect("nobody else takes one")
    });
    let stacks = stacks(&unpacked(&bytes));
    let is_ours = |stack: &[String]| {
        stack.iter().any(|name| name == "ferrule::profiles::tests::a_function_that_is_busy")
    };
    let of_ours: u64 = stacks.iter().filter(|(stack, _)| is_ours(stack)).map(|(_, values)| values[0]).sum();
    assert!(of_ours >= 20, "{stacks:?}");
    // What is innermost is the busy function itself or what is inlined there, not the machinery that looks.
    let leaves: Vec<&String> = stacks.iter().filter_map(|(stack, _)| stack.first()).collect();
    let machinery = ["walk_stack", "interrupted", "on_profiling_signal", "restore_rt"];
    assert!(!leaves.iter().any(|leaf| machinery.iter().any(|part| leaf.contains(part))), "{leaves:?}");
}
