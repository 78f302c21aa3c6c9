//! The sockets that are served, each with the endpoints behind it.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use ferrule_kernel::sockets::discard_received;
use ferrule_model::ServicePortName;
use ferrule_relay::{Admission, Pool, PoolLimits, Portal, Relay, RelayError};

use super::counters::Ledger;
use super::wanted::PortalSpec;

/// A bound socket that is not served yet.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

impl Socket {
    pub(crate) fn local_addr(&self) -> std::io::Result<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr(),
            Self::Udp(socket) => socket.local_addr(),
        }
    }

    /// Forgets what came in before there were rules to guard it. A socket that does not listen has nothing to forget.
    fn discard_received(&self) {
        match self {
            Self::Tcp(_) => {}
            Self::Udp(socket) => discard_received(socket),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Udp(socket) => socket.as_fd(),
        }
    }
}

/// Why a socket is not served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    #[error("{doing} {address}")]
    Bind { doing: &'static str, address: SocketAddr, source: std::io::Error },
    #[error("reading the address of a socket")]
    Address { source: std::io::Error },
    #[error("choosing a port: {0}")]
    NoPort(#[from] ferrule_relay::ports::NoPortsLeft),
    #[error(transparent)]
    Relay(#[from] RelayError),
}

/// Sockets by key.
pub(crate) struct Portals<K> {
    relay: Arc<Relay>,
    open: BTreeMap<K, OpenPortal>,
    /// Whom all of them serve.
    admission: Admission,
    /// Where it is noted what Service ports serve, if that is of interest.
    ledger: Option<Ledger>,
}

/// What tells sockets apart.
pub(crate) trait PortalKey: Ord + Clone {
    /// The Service port whose socket it is.
    fn owner(&self) -> Option<&ServicePortName> {
        None
    }
}

struct OpenPortal {
    portal: Portal,
    pool: Arc<Pool>,
    spec: PortalSpec,
}

impl<K: PortalKey> Portals<K> {
    pub(crate) fn new(relay: Arc<Relay>) -> Self {
        Self { relay, open: BTreeMap::new(), admission: Admission::Everyone, ledger: None }
    }

    /// The same, with what Service ports serve noted here.
    pub(crate) fn noted_in(self, ledger: Ledger) -> Self {
        Self { ledger: Some(ledger), ..self }
    }

    /// The same for these clients only.
    pub(crate) fn admitting(self, admission: Admission) -> Self {
        Self { admission, ..self }
    }

    pub(crate) fn is_open(&self, key: &K) -> bool {
        self.open.contains_key(key)
    }

    /// The keys of all sockets.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.open.keys()
    }

    /// Where clients reach each socket.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (&K, SocketAddr)> {
        self.open.iter().map(|(key, open)| (key, open.portal.local_addr()))
    }

    /// Begins to serve a socket that rules guard by now, without those who sent to it before.
    pub(crate) fn serve_new(&mut self, key: K, socket: Socket, spec: &PortalSpec) -> Result<(), RelayError> {
        socket.discard_received();
        self.serve(key, socket, spec)
    }

    /// Begins to serve a socket, and who waits there.
    pub(crate) fn serve(&mut self, key: K, socket: Socket, spec: &PortalSpec) -> Result<(), RelayError> {
        let pool = Pool::new(PoolLimits::default());
        pool.set_admitted(self.admission.clone());
        pool.set_affinity(spec.affinity);
        pool.set_endpoints(spec.endpoints.clone());
        if let (Some(ledger), Some(owner)) = (&self.ledger, key.owner()) {
            ledger.add(owner, &pool);
        }
        let portal = match socket {
            Socket::Tcp(listener) => self.relay.serve_tcp(listener, Arc::clone(&pool))?,
            Socket::Udp(socket) => self.relay.serve_udp(socket, Arc::clone(&pool))?,
        };
        self.open.insert(key, OpenPortal { portal, pool, spec: spec.clone() });
        Ok(())
    }

    /// Gives a socket other endpoints; returns whether it had others.
    pub(crate) fn update(&mut self, key: &K, spec: &PortalSpec) -> bool {
        let Some(open) = self.open.get_mut(key).filter(|open| open.spec != *spec) else { return false };
        if open.spec.affinity != spec.affinity {
            open.pool.set_affinity(spec.affinity);
        }
        if open.spec.endpoints != spec.endpoints {
            open.pool.set_endpoints(spec.endpoints.clone());
        }
        open.spec = spec.clone();
        true
    }

    /// What a socket has now.
    pub(crate) fn spec(&self, key: &K) -> Option<&PortalSpec> {
        self.open.get(key).map(|open| &open.spec)
    }

    /// Closes all but these; returns where clients reached those that were closed. TCP connections go on.
    pub(crate) fn close_others(&mut self, stays: impl Fn(&K) -> bool) -> Vec<(K, SocketAddr)> {
        let closed: Vec<K> = self.open.keys().filter(|key| !stays(key)).cloned().collect();
        let closed = closed.into_iter().filter_map(|key| {
            let open = self.open.remove(&key)?;
            Some((key, open.portal.local_addr()))
        });
        closed.collect()
    }

    /// Frees what is remembered about clients that were not seen for long.
    pub(crate) fn purge_expired(&self) {
        let sticky = self.open.values().filter(|open| open.spec.affinity.is_some());
        sticky.for_each(|open| open.pool.purge_expired());
    }

    /// Has clients leave so many descriptors to others.
    pub(crate) fn reserve_descriptors(&self, reserved: u64) {
        self.relay.reserve_descriptors(reserved);
    }

    /// Lets connections end by themselves, at most for this long. New ones are served meanwhile: no other process does.
    pub(crate) fn wait_until_idle(&self, grace: Duration) {
        self.relay.wait_until_idle(grace);
    }

    /// The same without new ones.
    pub(crate) fn drain(&self, grace: Duration) {
        self.relay.drain(grace);
    }

    /// Accepts clients again where others did meanwhile.
    pub(crate) fn accept_again(&self) {
        self.open.values().for_each(|open| open.portal.accept_again());
    }

    /// All sockets, for a process that takes them over.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = (&K, BorrowedFd<'_>)> {
        self.open.iter().map(|(key, open)| (key, open.portal.as_fd()))
    }
}
