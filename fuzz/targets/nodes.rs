//! A Node, a ServiceCIDR and a Service as JSON, `[node, range, service]`, through the converters and the planner.
#![no_main]

use ferrule_watch::{api, convert};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    type Input = (api::Node, api::ServiceCidr, api::Service);
    let Ok((node, range, service)) = serde_json::from_slice::<Input>(bytes) else { return };
    ferrule_fuzz::plan_all(
        bytes.len(),
        [
            convert::service(&service),
            convert::node(&node),
            convert::service_cidr(&range),
            convert::service_cidr_deleted(&range.metadata),
        ],
    );
});
