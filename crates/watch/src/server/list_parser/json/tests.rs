//! Lists split at every byte, and text that is not a list.

use super::*;

fn items(list: &str, piece: usize) -> (Vec<String>, Result<ListHeader, ReadError>) {
    let mut parser = JsonParser::default();
    let mut found = Vec::new();
    for bytes in list.as_bytes().chunks(piece) {
        parser.feed(bytes, |item| found.push(String::from_utf8_lossy(item).into_owned())).unwrap();
    }
    (found, parser.finish())
}

#[test]
fn items_are_whole_wherever_the_list_is_split() {
    let list = "{\"kind\":\"List\",\"metadata\":{\"resourceVersion\":\"7\",\"x\":[{\"items\":[1]}]},\n \"items\": [ \
                {\"a\":\"}]\\\"\",\"items\":[{}]} ,\n{\"b\":[[1],{}]},{}] , \"tail\": \"items\" }";
    for piece in 1..list.len() {
        let (found, header) = items(list, piece);
        assert_eq!(
            found,
            ["{\"a\":\"}]\\\"\",\"items\":[{}]}", "{\"b\":[[1],{}]}", "{}"],
            "pieces of {piece}"
        );
        assert_eq!(header.unwrap().version, "7");
    }
}

#[test]
fn lists_without_items_are_lists() {
    for list in [
        "{\"items\":[],\"metadata\":{\"resourceVersion\":\"7\"}}",
        "{\"items\":null,\"metadata\":{\"resourceVersion\":\"7\"}}",
        "{\"metadata\":{\"resourceVersion\":\"7\"}}",
    ] {
        let (found, header) = items(list, 3);
        assert!(found.is_empty(), "{list}");
        assert_eq!(header.unwrap().version, "7");
    }
}

#[test]
fn half_a_list_is_an_error() {
    items("{\"metadata\":{\"resourceVersion\":\"7\"},\"items\":[{}", 5).1.unwrap_err();
}

proptest::proptest! {
    #[test]
    fn nothing_makes_it_panic(text in "[\\[\\]{}\",:\\\\a items]*", piece in 1_usize..9) {
        let _ = items(&text, piece);
    }
}
