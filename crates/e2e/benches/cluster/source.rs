//! The fastest way to create and change things: a source's own client.

use ferrule_model::NodeName;
use ferrule_testkit::api_server::{ApiServer, User};
use ferrule_watch::server::{
    ApiAccess, Encoding, EndpointsApi, RequestRate, ServerConfig, ServerSource, user_agent,
};

/// A source as an administrator, for nobody's node. It watches as long as it lives, which costs the API server something.
pub fn source(server: &ApiServer) -> ServerSource {
    let path = server.kubeconfig(User::Admin).expect("a kubeconfig");
    let config = ServerConfig {
        access: ApiAccess::Kubeconfig { path, master: None },
        rate: RequestRate::Unlimited,
        user_agent: user_agent("bench", "v0"),
        encoding: Encoding::Protobuf,
        endpoints_api: EndpointsApi::default(),
    };
    let start = || ServerSource::start(&config, &NodeName::new("nobody"), |_| {}).expect("a client");
    server.namespace().run(start).expect("the namespace")
}
