//! What the figures are compared with: no proxy at all.

use crate::endpoints::Endpoints;
use crate::peers::Peer;

/// Straight to the first endpoint of each kind.
pub fn peer(endpoints: Endpoints) -> Peer {
    Peer {
        name: "direct".to_owned(),
        echo: endpoints.echo[0],
        source: endpoints.source[0],
        degraded: None,
        datagrams: Some(endpoints.datagrams[0]),
        descriptors: 1,
        process: None,
        _endpoints: endpoints,
        _files: None,
        _server: None,
    }
}
