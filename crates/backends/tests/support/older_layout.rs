//! A table as an older version of Ferrule left it.

use std::io::Write as _;
use std::net::Ipv6Addr;
use std::process::{Command, Stdio};

use ferrule_backends::nftables::names::SetName;
use ferrule_backends::table_family;
use ferrule_kernel::port::NftReader as _;
use ferrule_model::IpFamily;

use super::{client, nft};

/// Replaces the family's table by one of layout 3, in one transaction. In that layout the map `dispatch` was called `ways`.
pub fn write_layout_3(family: IpFamily) {
    let stamps = client(family).elements(&SetName::Stamp.name()).expect("elements").unwrap_or_default();
    let stamp: [u8; 16] = stamps.elements[0].key.as_slice().try_into().expect("a stamp of 16 bytes");
    let mut older = stamp;
    older[12] = 3;
    let [stamp, older] = [stamp, older].map(|bytes| Ipv6Addr::from(bytes).to_string());
    let table = format!("{} kube-proxy", table_family(family));
    let listing = nft(&["list", "table", &table_family(family).to_string(), "kube-proxy"]);
    let listing = listing.replace("@dispatch", "@ways").replace("map dispatch", "map ways");
    assert!(listing.contains(&stamp) && listing.contains("map ways"), "{listing}");
    load(&format!("delete table {table}\n{}", listing.replace(&stamp, &older)));
}

/// Loads a script in one transaction.
fn load(script: &str) {
    let mut nft =
        Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn().expect("the nft program");
    nft.stdin.take().expect("its input").write_all(script.as_bytes()).expect("its input");
    assert!(nft.wait().expect("its end").success(), "{script}");
}
