//! A Service written after everything else: once it answers, its proxy has seen what was written before.
//!
//! Services, slices and the Node come over three watches, and each family has rules of its own. So the marker is new each
//! time (Services), has endpoints (slices) of both families, and hints that mean something only in the Node's zone.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ferrule_model::Protocol::Tcp;
use ferrule_plan::Packet;
use ferrule_testkit::api_server::Objects;
use ferrule_testkit::netns::{NetSpec, Seen};
use serde_json::{Value, json};

const PORT: u16 = 7;
/// For each family the endpoint for the Node's zone, then the one for another.
const ENDPOINTS: [[IpAddr; 2]; 2] = [
    [IpAddr::V4(Ipv4Addr::new(10, 245, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 245, 0, 2))],
    [
        IpAddr::V6(Ipv6Addr::new(0xfd45, 0, 0, 0, 0, 0, 0, 1)),
        IpAddr::V6(Ipv6Addr::new(0xfd45, 0, 0, 0, 0, 0, 0, 2)),
    ],
];

/// The marker of a number.
pub struct Marker {
    number: u16,
    zone: Option<String>,
}

impl Marker {
    pub fn new(number: u16, zone: Option<String>) -> Self {
        Self { number, zone }
    }

    /// Its endpoints, for the worlds it is used in.
    pub fn inhabit(spec: NetSpec) -> NetSpec {
        ENDPOINTS.into_iter().flatten().fold(spec, |spec, endpoint| spec.beyond(endpoint, &[(Tcp, PORT)]))
    }

    /// A packet to it from each of the node's primary addresses.
    pub fn packets(&self, spec: &NetSpec) -> Vec<Packet> {
        let packet = |to: IpAddr| {
            let from = spec.node.iter().find(|address| address.is_ipv4() == to.is_ipv4())?;
            Some(Packet { from: *from, interface: None, to, port: Some((Tcp, PORT)) })
        };
        self.addresses().into_iter().filter_map(packet).collect()
    }

    /// Whether this answer is the one of a proxy that has seen everything.
    pub fn is_answered(&self, seen: &Seen) -> bool {
        let Seen::Answered { by, .. } = seen else { return false };
        let [first, second] = ENDPOINTS[usize::from(by.is_ipv6())];
        by.ip() == first || self.zone.is_none() && by.ip() == second
    }

    /// Its Service.
    pub fn name(&self) -> String {
        format!("default/marker-{}", self.number)
    }

    pub fn add_to(&self, objects: &mut Objects) {
        let name = format!("marker-{}", self.number);
        objects.insert(format!("/api/v1/namespaces/default/services/{name}"), self.service(&name));
        for (family, endpoints) in ["IPv4", "IPv6"].into_iter().zip(ENDPOINTS) {
            let slice = format!("{name}-{}", family.to_lowercase());
            let path = format!("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/{slice}");
            objects.insert(path, self.slice(&name, &slice, (family, endpoints)));
        }
    }

    fn addresses(&self) -> [IpAddr; 2] {
        let [high, low] = self.number.to_be_bytes();
        [
            Ipv4Addr::new(10, 111, high, low).into(),
            Ipv6Addr::new(0xfd00, 0x96, 0, 0, 0, 0, 0xf, self.number).into(),
        ]
    }

    fn service(&self, name: &str) -> Value {
        json!({
            "kind": "Service", "apiVersion": "v1", "metadata": { "name": name, "namespace": "default" },
            "spec": {
                "ports": [{ "port": PORT }], "ipFamilyPolicy": "RequireDualStack",
                "clusterIP": self.addresses()[0], "clusterIPs": self.addresses(), "ipFamilies": ["IPv4", "IPv6"],
            },
        })
    }

    fn slice(&self, name: &str, slice: &str, (family, endpoints): (&str, [IpAddr; 2])) -> Value {
        let zones = [self.zone.as_deref().unwrap_or("nowhere"), "elsewhere"];
        let endpoints = endpoints.into_iter().zip(zones).map(|(address, zone)| {
            json!({
                "addresses": [address], "conditions": { "ready": true },
                "hints": { "forZones": [{ "name": zone }] },
            })
        });
        json!({
            "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "addressType": family,
            "metadata": {
                "name": slice, "namespace": "default", "labels": { "kubernetes.io/service-name": name },
            },
            "ports": [{ "name": "", "port": PORT, "protocol": "TCP" }],
            "endpoints": endpoints.collect::<Vec<_>>(),
        })
    }
}
