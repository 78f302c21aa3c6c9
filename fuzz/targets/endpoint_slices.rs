//! A Service and slices as JSON, `[service, [slice, …]]`, through the converters and the planner.
#![no_main]

use ferrule_watch::{api, convert};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok((service, slices)) = serde_json::from_slice::<(api::Service, Vec<api::EndpointSlice>)>(bytes)
    else {
        return;
    };
    let own_node = ferrule_fuzz::own_node();
    let put = slices.iter().map(|slice| convert::endpoint_slice(slice, &own_node));
    let deleted = slices.iter().take(1).map(|slice| convert::endpoint_slice_deleted(&slice.metadata));
    ferrule_fuzz::plan_all(
        bytes.len(),
        std::iter::once(convert::service(&service)).chain(put).chain(deleted),
    );
});
