//! Reading arguments: pflag's habits one by one, and texts nobody would type.

use proptest::prelude::*;

use super::*;

fn line(arguments: &[&str]) -> CommandLine {
    parse(arguments).expect("a good command line")
}

fn refusal(arguments: &[&str]) -> String {
    parse(arguments).expect_err("a bad command line").to_string()
}

#[test]
fn values_follow_an_equals_sign_or_a_space() {
    assert_eq!(line(&["--config=a"]).text("config"), "a");
    assert_eq!(line(&["--config", "a"]).text("config"), "a");
    assert_eq!(line(&["--config", "--cleanup"]).text("config"), "--cleanup");
    assert_eq!(line(&["--oom-score-adj", "-5"]).integer("oom-score-adj"), -5);
    assert_eq!(refusal(&["--config"]), "flag needs an argument: --config");
}

#[test]
fn underscores_stand_for_dashes() {
    assert_eq!(line(&["--bind_address=1.2.3.4"]).text("bind-address"), "1.2.3.4");
}

#[test]
fn switches_take_no_separate_value() {
    assert!(line(&["--cleanup"]).is_on("cleanup"));
    assert!(line(&["--cleanup=T"]).is_on("cleanup"));
    assert!(!line(&["--cleanup=0"]).is_on("cleanup"));
    assert_eq!(line(&["--cleanup", "false"]).positional, ["false"]);
    assert!(refusal(&["--cleanup=yes"]).contains("\"--cleanup\""));
}

#[test]
fn verbosity_has_a_letter() {
    for arguments in [&["-v=4"][..], &["-v4"], &["-v", "4"], &["--v=4"], &["--v", "4"]] {
        assert_eq!(line(arguments).text("v"), "4", "{arguments:?}");
    }
    assert!(line(&["-h"]).help);
    assert!(line(&["-hv", "3"]).help);
    assert_eq!(refusal(&["-v"]), "flag needs an argument: 'v' in -v");
}

#[test]
fn lists_append_and_scalars_take_the_last() {
    let given = line(&["--nodeport-addresses=a,b", "--nodeport-addresses=c", "--config=x", "--config=y"]);
    assert_eq!(given.text("nodeport-addresses"), "[a,b,c]");
    assert_eq!(given.text("config"), "y");
    let gates = line(&["--feature-gates=A=true", "--feature-gates=B=false,A=false"]);
    assert_eq!(gates.text("feature-gates"), "A=false,B=false");
}

#[test]
fn two_dashes_end_the_flags() {
    assert_eq!(line(&["--cleanup", "--", "--config=x", "y"]).positional, ["--config=x", "y"]);
    assert_eq!(line(&["-"]).positional, ["-"]);
}

#[test]
fn deprecated_flags_say_so_once() {
    let given = line(&["--healthz-port=1", "--healthz-port=2"]);
    assert_eq!(given.notices.len(), 1);
    assert!(given.notices[0].starts_with("Flag --healthz-port has been deprecated"));
    assert_eq!(line(&["--boot-id-file=/x"]).notices, [""; 0]);
}

#[test]
fn a_typo_brings_a_guess() {
    assert_eq!(refusal(&["--proxy-mod=x"]), "unknown flag: --proxy-mod, did you mean --proxy-mode?");
    assert_eq!(refusal(&["--cluster_cdir=x"]), "unknown flag: --cluster_cdir, did you mean --cluster-cidr?");
    assert_eq!(refusal(&["-config=x"]), "unknown shorthand flag: 'c' in -config=x, did you mean --config?");
    assert_eq!(refusal(&["--frobnicate"]), "unknown flag: --frobnicate");
    assert_eq!(refusal(&["---x"]), "bad flag syntax: ---x");
    assert_eq!(refusal(&["--=x"]), "bad flag syntax: --=x");
}

#[test]
fn a_bad_value_names_the_flag_and_the_reason() {
    assert_eq!(
        refusal(&["--bind-address=10.0.0.0/8"]),
        "invalid argument \"10.0.0.0/8\" for \"--bind-address\" flag: \"10.0.0.0/8\" is not a valid IP address"
    );
    assert!(refusal(&["-v=x"]).starts_with("invalid argument \"x\" for \"-v, --v\" flag: "));
    assert!(refusal(&["--oom-score-adj=2147483648"]).contains("\"--oom-score-adj\""));
}

proptest! {
    #[test]
    fn no_command_line_makes_the_parser_panic(arguments in prop::collection::vec("(--?)?[-a-z_=0-9.,é ]{0,20}", 0..6)) {
        if let Err(problem) = parse(&arguments) {
            prop_assert!(!problem.to_string().is_empty());
        }
    }

    #[test]
    fn every_flag_takes_its_own_printed_value(index in any::<prop::sample::Index>()) {
        let all = flags::all();
        let flag = index.get(&all);
        let text = if flag.default == "[]" { "" } else { flag.default };
        let given = parse(&[format!("--{}={text}", flag.name)]).expect("the default is valid");
        prop_assert_eq!(given.text(flag.name), flag.default);
    }
}
