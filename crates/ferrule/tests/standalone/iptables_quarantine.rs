//! Services whose rules iptables refuses: they are left out and counted, the others are served, and nobody is told that all is well.

use std::path::Path;

use ferrule_testkit::Program;
use ferrule_testkit::netns::or_skip;

use crate::fakes::Fakes;
use crate::iptables::{MODE, ready};
use crate::stand::{ASKING_POD, BINARY, PATIENCE, PODS, Stand, VIP, is_answered_by, until};

const ODD_VIP: &str = "10.96.0.66";

/// Refuses rules with a name in them, as iptables names a line.
const REFUSES_ODD: &str = r#"
if [ -e $HERE/refuse ]; then
  cat >$HERE/text.$$
  line=$(grep -n default/odd $HERE/text.$$ | head -1 | cut -d: -f1)
  if [ -n "$line" ]; then rm $HERE/text.$$; echo "iptables-restore: line $line failed" >&2; exit 1; fi
  exec <$HERE/text.$$
  rm $HERE/text.$$
fi"#;

fn odd_service(stand: &Stand) {
    let text = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: odd, namespace: default}}\nspec:\n  clusterIP: {ODD_VIP}\n  \
         ports:\n  - {{name: http, port: 80, targetPort: 8080}}\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
         metadata:\n  name: odd-1\n  namespace: default\n  labels: {{kubernetes.io/service-name: odd}}\n\
         addressType: IPv4\nports:\n- {{name: http, port: 8080}}\nendpoints:\n- {{addresses: [{}]}}\n",
        PODS[0]
    );
    stand.write("odd.yaml", &text);
}

fn quarantined(stand: &Stand) -> Option<String> {
    let page = stand.net.node().page(10249, "/metrics")?;
    let series = "ferrule_quarantined_service_ports{ip_family=\"IPv4\"} ";
    page.lines().find_map(|line| line.strip_prefix(series)).map(str::to_owned)
}

fn status(stand: &Stand, page: &str) -> Option<u16> {
    stand.net.node().page_status(10256, page)
}

#[test]
fn while_a_service_is_left_out_it_is_not_ready_and_a_metric_counts_it() {
    let Some(stand) = ready() else { return };
    odd_service(&stand);
    let fakes = Fakes::new();
    fakes.before("-restore", REFUSES_ODD);
    fakes.set("refuse");
    let program = fakes.start(&stand, &MODE[1..]);
    let synced = program.wait_for("family=\"IPv6\" written=", 0, PATIENCE);
    assert!(synced.is_some(), "{}", program.log().join("\n"));
    assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS), "the others are served");
    assert_eq!(quarantined(&stand).as_deref(), Some("1"));
    assert_eq!((status(&stand, "/readyz"), status(&stand, "/healthz")), (Some(503), Some(200)));
    // Some checks later nothing has changed, and nobody is told again.
    let said = program.said();
    assert!(program.wait_for("Rules verified", said, PATIENCE).is_some(), "{}", program.log().join("\n"));
    let told = program.log().iter().filter(|line| line.contains("Some rules were rejected")).count();
    assert_eq!(told, 1, "{}", program.log().join("\n"));
    fakes.unset("refuse");
    stand.ask_until(ASKING_POD, ODD_VIP, 80, |seen| is_answered_by(seen, &PODS));
    until(|| (status(&stand, "/readyz") == Some(200)).then_some(()));
    assert_eq!(quarantined(&stand).as_deref(), Some("0"));
}

#[test]
fn a_service_that_comes_later_and_is_refused_counts_too_until_it_goes() {
    let Some(stand) = ready() else { return };
    let fakes = Fakes::new();
    fakes.before("-restore", REFUSES_ODD);
    let program = fakes.start(&stand, &MODE[1..]);
    let synced = program.wait_for("family=\"IPv6\" written=", 0, PATIENCE);
    assert!(synced.is_some(), "{}", program.log().join("\n"));
    until(|| (status(&stand, "/readyz") == Some(200)).then_some(()));
    fakes.set("refuse");
    odd_service(&stand);
    until(|| (quarantined(&stand).as_deref() == Some("1")).then_some(()));
    assert_eq!(status(&stand, "/readyz"), Some(503));
    assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS));
    stand.remove("odd.yaml");
    until(|| (quarantined(&stand).as_deref() == Some("0")).then_some(()));
    assert_eq!(status(&stand, "/readyz"), Some(200));
}

/// kube-proxy takes any text that is not empty, and iptables then refuses every rule.
#[test]
fn an_interface_that_no_kernel_has_ends_a_start_in_every_mode_with_the_name_of_the_field() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    let folder = stand.folder().to_string_lossy().into_owned();
    for mode in ["iptables", "nftables"] {
        let mode = format!("--proxy-mode={mode}");
        let detect = "--detect-local-mode=InterfaceNamePrefix";
        let arguments = ["--manifests", &folder, &mode, detect, "--pod-interface-name-prefix=a/b c"];
        let program = Program::start(stand.net.node(), Path::new(BINARY), &arguments).expect("it starts");
        let line = program.wait_for("command failed", 0, PATIENCE).unwrap_or_default();
        assert!(line.contains("--pod-interface-name-prefix") && line.contains("a/b c"), "{mode}: {line}");
        assert!(!program.wait().expect("it ends").success());
    }
}
