//! Services as JSON, one or several in a list, through the converter and the planner.
#![no_main]

use ferrule_watch::{api, convert};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let services: Vec<api::Service> = match serde_json::from_slice(bytes) {
        Ok(services) => services,
        Err(_) => serde_json::from_slice(bytes).into_iter().collect(),
    };
    let put = services.iter().map(convert::service);
    let deleted = services.iter().take(1).map(|service| convert::service_deleted(&service.metadata));
    ferrule_fuzz::plan_all(bytes.len(), put.chain(deleted));
});
