//! Whether the endpoints of Services are read from EndpointSlices or from Endpoints, the API they replaced.

use http::Method;
use serde::Deserialize;

use super::connection::{ApiRequest, Connection};
use super::events::Encoding;

/// Where the endpoints of Services are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndpointsApi {
    /// EndpointSlices; Endpoints if the API server has none.
    #[default]
    SlicesIfServed,
    /// Endpoints, even if there are EndpointSlices.
    Endpoints,
}

/// Whether the API server says itself that it does not serve EndpointSlices. A server that cannot be asked may have them.
pub(super) async fn has_no_slices(connection: &Connection) -> bool {
    let request = ApiRequest {
        method: Method::GET,
        path: "/apis".into(),
        content: None,
        operation: "asking for the API groups".into(),
        is_watch: false,
        accepts: Encoding::Json,
    };
    let response = connection.fetch(&request).await;
    response.is_ok_and(|response| lacks_slices(&response))
}

fn lacks_slices(response: &[u8]) -> bool {
    let Ok(list) = serde_json::from_slice::<GroupList>(response) else { return false };
    let mut versions = list.groups.iter().flat_map(|group| &group.versions);
    list.kind == "APIGroupList" && !versions.any(|version| version.group_version == "discovery.k8s.io/v1")
}

#[derive(Deserialize)]
struct GroupList {
    kind: String,
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    versions: Vec<GroupVersion>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GroupVersion {
    group_version: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_list_of_groups_says_that_slices_are_not_served() {
        let group =
            |name: &str| format!(r#"{{"name":"x","versions":[{{"groupVersion":"{name}","version":"v"}}]}}"#);
        let list = |kind: &str, groups: &[&str]| {
            let groups: Vec<String> = groups.iter().map(|name| group(name)).collect();
            format!(r#"{{"kind":"{kind}","apiVersion":"v1","groups":[{}]}}"#, groups.join(","))
        };
        let rows = [
            (list("APIGroupList", &["apps/v1", "discovery.k8s.io/v1"]), false),
            (list("APIGroupList", &["apps/v1", "discovery.k8s.io/v1beta1"]), true),
            (list("APIGroupList", &[]), true),
            (list("Status", &["apps/v1"]), false),
            ("it works!".to_string(), false),
        ];
        for (response, expected) in rows {
            assert_eq!(lacks_slices(response.as_bytes()), expected, "{response}");
        }
    }
}
