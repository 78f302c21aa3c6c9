//! The requests, which are kube-proxy's.

use super::*;

fn resource(kind: ObjectKind) -> Resource {
    Resource::new(kind, &NodeName::new("node-1"), Encoding::Json)
}

/// Row: server 3.13
#[test]
fn each_kind_is_watched_with_kube_proxys_selectors() {
    let path = |kind| {
        let WatchRequest { request, timeout } = resource(kind).watch_request(WatchStart::InitialEvents);
        assert!((300..600).contains(&timeout.as_secs()), "{timeout:?}");
        request.path.replace(&format!("timeoutSeconds={}", timeout.as_secs()), "timeoutSeconds=T")
    };
    let query = "watch=true&allowWatchBookmarks=true&timeoutSeconds=T&sendInitialEvents=true\
                 &resourceVersionMatch=NotOlderThan";
    let expected = [
        (
            ObjectKind::Service,
            format!(
                "/api/v1/services?{query}&labelSelector=%21service.kubernetes.io%2Fservice-proxy-name\
                 &fieldSelector=spec.clusterIP%21%3DNone"
            ),
        ),
        (
            ObjectKind::EndpointSlice,
            format!(
                "/apis/discovery.k8s.io/v1/endpointslices?{query}&labelSelector=%21service.kubernetes.io%2Fheadless"
            ),
        ),
        (ObjectKind::ServiceCidr, format!("/apis/networking.k8s.io/v1/servicecidrs?{query}")),
        (ObjectKind::Node, format!("/api/v1/nodes?{query}&fieldSelector=metadata.name%3Dnode-1")),
    ];
    for (kind, expected) in expected {
        assert_eq!(path(kind), expected);
    }
}

#[test]
fn a_watch_resumes_from_a_version_and_a_list_is_not_older_than_one() {
    let nodes = resource(ObjectKind::Node);
    assert!(nodes.watch_request(WatchStart::Version("7")).request.path.contains("&resourceVersion=7&"));
    let list = "/api/v1/nodes?";
    let selector = "fieldSelector=metadata.name%3Dnode-1";
    assert_eq!(nodes.list_request(None).path, format!("{list}{selector}"));
    let newer = "resourceVersion=7&resourceVersionMatch=NotOlderThan";
    assert_eq!(nodes.list_request(Some("7")).path, format!("{list}{newer}&{selector}"));
}
