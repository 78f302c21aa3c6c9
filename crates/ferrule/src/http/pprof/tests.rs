//! Handler asked without a socket.

use std::sync::atomic::AtomicBool;

use super::*;

fn quick(path: &str) -> (u16, String) {
    let answer = page(&Request::get(path)).expect("a page");
    (answer.status, String::from_utf8_lossy(&answer.body).into_owned())
}

fn slowly(path: &str) -> (u16, String) {
    let answer = blocking(&Request::get(path)).expect("a slow page")(&AtomicBool::new(false));
    (answer.status, String::from_utf8_lossy(&answer.body).into_owned())
}

/// Row: server 4.2
#[test]
fn the_index_names_what_there_is_and_the_rest_is_refused_with_it() {
    let found = page(&Request::get("/debug/pprof")).expect("a page");
    assert_eq!(found.status, 302);
    assert!(found.headers.contains(&("location", "/debug/pprof/".to_owned())));
    let (status, index) = quick("/debug/pprof/");
    assert_eq!(status, 200);
    for (name, _) in PAGES {
        assert!(index.contains(&format!("<a href=\"{name}\">")), "{index}");
    }
    for absent in ["goroutine", "threadcreate", "block", "mutex", "allocs", "trace", "heap/", "../flags"] {
        let (status, text) = quick(&format!("/debug/pprof/{absent}"));
        assert_eq!((status, text.lines().count()), (404, 1), "{absent}: {text}");
        assert!(text.contains("profile, heap, cmdline, symbol"), "{text}");
    }
    assert_eq!(page(&Request::get("/debug/other")), None);
}

#[test]
fn the_command_line_is_told_with_zeros_between() {
    let (status, text) = quick("/debug/pprof/cmdline");
    assert_eq!((status, text), (200, std::env::args().collect::<Vec<_>>().join("\0")));
}

#[test]
fn a_time_that_makes_no_sense_is_refused() {
    for seconds in ["0", "-1", "301", "1.5", "", "x", "99999999999999999999999", "%31", "1e2"] {
        let (status, text) = slowly(&format!("/debug/pprof/profile?seconds={seconds}"));
        assert_eq!(
            (status, text.as_str()),
            (400, "seconds must be a whole number from 1 to 300\n"),
            "{seconds}"
        );
    }
    assert_eq!(slowly("/debug/pprof/heap?seconds=5").0, 400);
}

/// Only the program itself records allocations from its start; whoever is without is told.
#[test]
fn without_a_record_of_allocations_there_is_no_heap_profile() {
    let (status, text) = slowly("/debug/pprof/heap");
    assert!(status == 500 && text.contains("not recorded"), "{status} {text}");
}

#[test]
fn a_password_in_the_address_of_the_api_server_is_not_shown() {
    let arguments = ["ferrule", "--master=https://admin:hunter2@a:1", "--master", "admin:hunter2@b", "-v=2"];
    let shown = without_secrets(arguments.map(str::to_owned).into_iter());
    assert_eq!(shown, ["ferrule", "--master=https://a:1", "--master", "b", "-v=2"]);
}
