//! The ConfigMaps kubeadm writes, 1.30 to 1.37: each loads without a word of warning and means kubeadm's intent.

use ferrule_config::cli::parse;
use ferrule_config::complete_with_file;
use ferrule_config::settings::{ApiAccess, FlagOnly, Settings};
use ferrule_plan::ProxyMode;

#[test]
fn every_release_loads_without_error_or_warning() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/peer/kubeadm");
    let line = parse(&["--config=/var/lib/kube-proxy/config.conf", "--hostname-override=Node-A"])
        .expect("kubeadm's flags");
    for minor in 30..=37 {
        let bytes = std::fs::read(format!("{folder}/1.{minor}.yaml")).expect("the file is in the tree");
        let completed =
            complete_with_file(&line, &bytes).unwrap_or_else(|error| panic!("1.{minor}: {error}"));
        assert_eq!(completed.strict_warnings, [""; 0], "1.{minor}");
        assert_eq!(completed.mode_was_unset, minor < 37, "1.{minor}");
        let settings = Settings::resolve(&completed, &FlagOnly::default())
            .unwrap_or_else(|problems| panic!("1.{minor}: {problems}"));
        assert_eq!(settings.mode, ProxyMode::Iptables);
        let path = "/var/lib/kube-proxy/kubeconfig.conf".to_owned();
        assert_eq!(settings.client.access, ApiAccess::Kubeconfig { path });
        assert_eq!(settings.cluster_cidrs.len(), if minor % 2 == 0 { 1 } else { 2 });
    }
}
