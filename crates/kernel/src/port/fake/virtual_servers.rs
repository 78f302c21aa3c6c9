//! Virtual servers in memory.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::SocketAddr;

use rustix::io::Errno;

use super::{FakeIpvsKernel, State};
use crate::ipvs::{
    IpvsChange, RealServer, SeenRealServer, SeenVirtualServer, SeenVirtualServers, Stats, VirtualServer,
    VirtualServerId,
};
use crate::netlink::{NetlinkError, Rejection};
use crate::port::VirtualServers;

const PERSISTENT: u32 = 0x1;

#[derive(Debug)]
pub(super) struct FakeService {
    server: VirtualServer,
    pub stats: Stats,
    pub servers: BTreeMap<SocketAddr, SeenRealServer>,
}

impl VirtualServers for FakeIpvsKernel {
    fn list(&mut self) -> Result<SeenVirtualServers, NetlinkError> {
        let mut state = self.state();
        state.read("ipvs list")?;
        let seen = |service: &FakeService| SeenVirtualServer {
            server: service.server.clone(),
            stats: service.stats,
        };
        let skipped = state.skipped.take();
        let servers = state.services.values().filter(|service| skipped != Some(service.server.id));
        let servers = servers.map(seen).collect();
        Ok(SeenVirtualServers { servers, fwmarks: state.fwmarks.clone() })
    }

    fn real_servers(&mut self, service: &VirtualServerId) -> Result<Vec<SeenRealServer>, NetlinkError> {
        let mut state = self.state();
        state.read(&format!("server list {service}"))?;
        let found = state.services.get(service);
        Ok(found.map(|service| service.servers.values().copied().collect()).unwrap_or_default())
    }

    fn apply(&mut self, changes: &[IpvsChange]) -> Result<Vec<Result<(), Rejection>>, NetlinkError> {
        let mut state = self.state();
        Ok(changes.iter().map(|change| state.write(line(change), |state| state.apply(change))).collect())
    }
}

impl State {
    fn apply(&mut self, change: &IpvsChange) -> Result<(), i32> {
        match change {
            IpvsChange::AddService(server) => self.add_service(server),
            IpvsChange::SetService(server) => {
                self.check_scheduler(server)?;
                self.service(&server.id)?.server = server.clone();
                Ok(())
            }
            IpvsChange::DeleteService(id) => {
                self.services.remove(id).map(drop).ok_or(Errno::SRCH.raw_os_error())
            }
            IpvsChange::AddServer { service, server } => {
                let is_same_family = service.address.is_ipv4() == server.address.is_ipv4();
                let servers = &mut self.service(service)?.servers;
                let Entry::Vacant(vacant) = servers.entry(server.address) else {
                    return Err(Errno::EXIST.raw_os_error());
                };
                if !is_same_family {
                    return Err(Errno::INVAL.raw_os_error());
                }
                vacant.insert(seen(*server));
                Ok(())
            }
            IpvsChange::SetServer { service, server } => {
                let servers = &mut self.service(service)?.servers;
                let found = servers.get_mut(&server.address).ok_or(Errno::NOENT.raw_os_error())?;
                found.server = *server;
                Ok(())
            }
            IpvsChange::DeleteServer { service, server } => {
                let servers = &mut self.service(service)?.servers;
                servers.remove(server).map(drop).ok_or(Errno::NOENT.raw_os_error())
            }
        }
    }

    fn add_service(&mut self, server: &VirtualServer) -> Result<(), i32> {
        if self.services.contains_key(&server.id) {
            return Err(Errno::EXIST.raw_os_error());
        }
        self.check_scheduler(server)?;
        let service =
            FakeService { server: server.clone(), stats: Stats::default(), servers: BTreeMap::new() };
        self.services.insert(server.id, service);
        Ok(())
    }

    fn service(&mut self, id: &VirtualServerId) -> Result<&mut FakeService, i32> {
        self.services.get_mut(id).ok_or(Errno::SRCH.raw_os_error())
    }

    fn check_scheduler(&self, server: &VirtualServer) -> Result<(), i32> {
        let is_known = self.schedulers.iter().any(|known| **known == *server.scheduler);
        if is_known { Ok(()) } else { Err(Errno::NOENT.raw_os_error()) }
    }
}

fn seen(server: RealServer) -> SeenRealServer {
    let stats = Stats::default();
    SeenRealServer { server, forwarding: 0, active: 0, inactive: 0, persistent: 0, stats }
}

fn line(change: &IpvsChange) -> String {
    let server_line = |verb, service, server: &RealServer| {
        format!("server {verb} {service} {} weight {}", server.address, server.weight)
    };
    match change {
        IpvsChange::AddService(server) => service_line("add", server),
        IpvsChange::SetService(server) => service_line("set", server),
        IpvsChange::DeleteService(id) => format!("ipvs delete {id}"),
        IpvsChange::AddServer { service, server } => server_line("add", service, server),
        IpvsChange::SetServer { service, server } => server_line("set", service, server),
        IpvsChange::DeleteServer { service, server } => format!("server delete {service} {server}"),
    }
}

fn service_line(verb: &str, server: &VirtualServer) -> String {
    let VirtualServer { id, scheduler, flags, timeout } = server;
    let persistent = if flags & PERSISTENT == 0 { String::new() } else { format!(" persistent {timeout}") };
    let others = flags & !PERSISTENT;
    let others = if others == 0 { String::new() } else { format!(" flags {others:#x}") };
    format!("ipvs {verb} {id} {scheduler}{persistent}{others}")
}
