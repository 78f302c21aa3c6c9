//! Rates and their table.

use super::*;
use crate::app::tools::options::Command;

fn service(name: &str, connections: u64, endpoints: &[(&str, u64)]) -> ServiceCounters {
    let endpoint = |(endpoint, connections): &(&str, u64)| EndpointCounters {
        endpoint: (*endpoint).to_owned(),
        connections: *connections,
        packets: None,
        bytes: None,
    };
    ServiceCounters {
        service: name.to_owned(),
        protocol: "TCP".to_owned(),
        connections,
        packets: None,
        bytes: None,
        endpoints: endpoints.iter().map(endpoint).collect(),
    }
}

fn answer(services: Vec<ServiceCounters>) -> CountersAnswer {
    CountersAnswer { enabled: true, services }
}

fn given(arguments: &[&str]) -> Result<Given, ToolError> {
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    Given::parse(Command::Top, &arguments)
}

#[test]
fn the_busiest_service_comes_first_and_new_ones_begin_at_zero() {
    let before = answer(vec![
        service("a/idle", 900, &[]),
        service("a/some", 10, &[("10.0.0.1:80", 10)]),
        service("a/restarted", 500, &[]),
    ]);
    let now = answer(vec![
        service("a/idle", 900, &[]),
        service("a/new", 6, &[]),
        service("a/some", 50, &[("10.0.0.1:80", 30), ("10.0.0.2:80", 20)]),
        service("a/restarted", 2, &[]),
    ]);
    let top = compared(&before, &now, Duration::from_secs(2));
    let rates: Vec<_> =
        top.services.iter().map(|row| (row.service.as_str(), row.rates.connections_per_second)).collect();
    assert_eq!(rates, [("a/some", 20.0), ("a/new", 3.0), ("a/restarted", 1.0), ("a/idle", 0.0)]);
    let endpoints: Vec<f64> =
        top.services[0].endpoints.iter().map(|row| row.rates.connections_per_second).collect();
    assert_eq!(endpoints, [10.0, 10.0]);
}

#[test]
fn a_table_has_the_endpoints_and_the_rows_that_were_asked_for() {
    let now = answer(vec![service("a/one", 4, &[("10.0.0.1:80", 4)]), service("b/two", 1, &[])]);
    let top = compared(&answer(Vec::new()), &now, Duration::from_secs(1));
    let style = Style { is_wide: false, is_colored: false };
    let all = given(&["--endpoints"]).expect("options");
    assert_eq!(
        table(&top, (&all, 1), style),
        "5.0 connections a second to 2 Service ports, over 1.0 s\n\
         SERVICE        PROTOCOL  CONN/S  CONNECTIONS\n\
         a/one          TCP       4.0     4\n  \
           10.0.0.1:80            4.0     4\n"
    );
    let wide = table(&top, (&given(&[]).expect("none"), 9), Style { is_wide: true, is_colored: false });
    assert!(wide.contains("BYTES/S") && wide.contains("b/two") && !wide.contains("10.0.0.1"), "{wide}");
    assert!(!wide.contains('\x1b'));
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for arguments in [
        &["--interval=0.5"][..],
        &["--interval=often"],
        &["--interval=1e30"],
        &["--count=0"],
        &["--count=2", "--once"],
    ] {
        assert!(given(arguments).and_then(|given| pace(&given).map(drop)).is_err(), "{arguments:?}");
    }
    let fine = pace(&given(&["--interval=1.5s", "--count=3"]).expect("options")).expect("a pace");
    assert_eq!((fine.interval, fine.count), (Duration::from_millis(1500), Some(3)));
}
