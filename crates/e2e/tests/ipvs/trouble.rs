//! What ipvs mode cannot work with: one line says what to do, and nothing of others is touched.

use ferrule_testkit::Program;

use crate::beside_others;
use crate::node::{Node, PATIENCE};

/// Runs it as it is.
const AS_IT_IS: &str = r#"exec "$0" "$@""#;
/// By its path: the shell of the virtual machine has a lesser one of its own.
const WITHOUT_RIGHTS: &str =
    r#"exec /usr/bin/setpriv --bounding-set=-net_admin --inh-caps=-net_admin --ambient-caps=-all "$0" "$@""#;
/// Settings are not what is needed, and cannot be changed.
const READ_ONLY: &str = r#"echo 0 > /proc/sys/net/ipv4/vs/conntrack && mount -o bind /proc/sys /proc/sys &&
    mount -o remount,bind,ro /proc/sys && exec "$0" "$@""#;

/// The line with which it ends, or which it says again and again.
fn complaint(program: &Program, text: &str) -> String {
    let line = program.wait_for(text, 0, PATIENCE);
    assert!(line.is_some(), "nobody says {text}:\n{}", program.log().join("\n"));
    line.unwrap_or_default()
}

#[test]
fn each_trouble_is_one_line_that_says_what_to_do() {
    let Some(_turn) = beside_others() else { return };
    let node = Node::new("troubled");
    let scheduler = node.start_by_script(AS_IT_IS, &["--ipvs-scheduler=twos"]);
    let said = complaint(&scheduler, "modprobe ip_vs_twos");
    assert!(said.contains("does not have the IPVS scheduler twos"), "{said}");
    assert!(!scheduler.wait().expect("it ends").success());

    let unprivileged = node.start_by_script(WITHOUT_RIGHTS, &[]);
    let said = complaint(&unprivileged, "command failed");
    assert!(said.contains("CAP_NET_ADMIN"), "{said}");
    assert!(!unprivileged.wait().expect("it ends").success());

    let read_only = node.start_by_script(READ_ONLY, &[]);
    let said = complaint(&read_only, "command failed");
    assert!(said.contains("net/ipv4/vs/conntrack") && said.contains("--init-only"), "{said}");
    assert!(!read_only.wait().expect("it ends").success());
    assert_eq!(node.rules(), Vec::<String>::new(), "nothing was written");
}

#[test]
fn what_is_anothers_stays_as_it_is() {
    let Some(_turn) = beside_others() else { return };
    let node = Node::new("occupied");
    node.command("ip", &["link", "add", "kube-ipvs0", "type", "veth", "peer", "name", "other"]);
    let ferrule = node.start_by_script(AS_IT_IS, &[]);
    let said = complaint(&ferrule, "kube-ipvs0 exists and is no dummy device but veth");
    assert!(said.contains("ip link set kube-ipvs0 name"), "{said}");
    ferrule.kill().expect("it is killed");
    assert!(node.command("ip", &["link", "show", "other"]).contains("kube-ipvs0"));
    node.command("ip", &["link", "del", "kube-ipvs0"]);

    node.command("ip", &["link", "add", "kube-ipvs0", "type", "dummy"]);
    node.command("ip", &["address", "add", "10.9.9.9/32", "dev", "kube-ipvs0"]);
    let ferrule = node.start_by_script(AS_IT_IS, &[]);
    complaint(&ferrule, "addresses that are not of Services: it is another program's");
    ferrule.kill().expect("it is killed");
    node.clean_up();
    assert!(node.command("ip", &["address", "show", "kube-ipvs0"]).contains("10.9.9.9/32"));
    node.command("ip", &["link", "del", "kube-ipvs0"]);

    node.command("ipset", &["create", "KUBE-CLUSTER-IP", "hash:ip"]);
    node.command("ipset", &["add", "KUBE-CLUSTER-IP", "10.9.9.9"]);
    let ferrule = node.start_by_script(AS_IT_IS, &[]);
    let said = complaint(&ferrule, "KUBE-CLUSTER-IP exists as hash:ip");
    assert!(said.contains("ipset rename KUBE-CLUSTER-IP"), "{said}");
    ferrule.kill().expect("it is killed");
    assert!(node.command("ipset", &["list", "KUBE-CLUSTER-IP"]).contains("10.9.9.9"));
    node.command("ipset", &["destroy", "KUBE-CLUSTER-IP"]);

    let vip = node.service().to_string();
    node.command("ipvsadm", &["-A", "-t", &vip, "-s", "wlc"]);
    node.command("ipvsadm", &["-a", "-t", &vip, "-r", "192.0.2.10:9999", "-m"]);
    let before = node.command("ipvsadm", &["-S", "-n"]);
    let (ferrule, _) = node.run_ferrule(&[]);
    let said = complaint(&ferrule, "another program has a virtual server there");
    assert!(said.contains(&vip) && said.contains("ipvsadm -D"), "{said}");
    let of_vip = |listed: &str| -> Vec<String> {
        listed.lines().filter(|line| line.contains(&vip)).map(|line| line.trim().to_owned()).collect()
    };
    assert_eq!(of_vip(&node.command("ipvsadm", &["-S", "-n"])), of_vip(&before));
    ferrule.kill().expect("it is killed");
    node.clean_up();
    assert_eq!(
        of_vip(&node.command("ipvsadm", &["-S", "-n"])),
        of_vip(&before),
        "nor does clean-up touch it"
    );
}
