//! What the tests with real packets share.

use ferrule_backends::nftables::{Reason, Reconciler};
use ferrule_kernel::nft::{Family, NftClient};
use ferrule_model::IpFamily;
use ferrule_testkit::World;
use ferrule_testkit::netns::NetWorld;

/// Programs the node of a network for a world's plan, in every family it serves.
pub fn program(net: &NetWorld, world: &World) {
    for (family, plan) in world.plan.families.iter() {
        let plan = plan.clone();
        let family = match family {
            IpFamily::V4 => Family::Ip,
            IpFamily::V6 => Family::Ip6,
        };
        let synced = net.node().run(move || {
            let client = NftClient::open(family).expect("a netlink socket");
            Reconciler::new(client)
                .sync(&plan, Reason::Look)
                .map(|_| ())
                .map_err(|error| format!("{error:?}"))
        });
        synced.expect("the node's namespace").expect("a sync");
    }
}
