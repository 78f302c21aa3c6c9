//! Control messages: the local address of a datagram, and the size of each of several that go as one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{CONTROL_BYTES, LocalAddress, array};

/// A length, a level and a type, in front of each control message.
pub(super) const CONTROL_HEADER: usize = size_of::<usize>() + 2 * size_of::<i32>();

/// What the kernel says beside a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Control {
    pub(super) local: Option<LocalAddress>,
    /// The size of each of several datagrams that were merged.
    pub(super) segment: Option<usize>,
}

pub(super) fn decode_control(mut control: &[u8]) -> Control {
    let mut found = Control::default();
    while let Some(length) = array(control, 0).map(usize::from_ne_bytes) {
        let Some(data) = control.get(CONTROL_HEADER..length) else { break };
        let level = array(control, size_of::<usize>()).map(i32::from_ne_bytes);
        let kind = array(control, size_of::<usize>() + size_of::<i32>()).map(i32::from_ne_bytes);
        match (level, kind) {
            (Some(libc::IPPROTO_UDP), Some(libc::UDP_GRO)) => {
                let size = array(data, 0).map(i32::from_ne_bytes);
                found.segment = size.and_then(|size| usize::try_from(size).ok());
            }
            (Some(level), Some(kind)) => {
                found.local = found.local.or_else(|| decode_local_address((level, kind), data));
            }
            _ => break,
        }
        control = control.get(aligned(length)..).unwrap_or_default();
    }
    found
}

fn decode_local_address((level, kind): (i32, i32), data: &[u8]) -> Option<LocalAddress> {
    match (level, kind) {
        // The interface, the address to reply from, the destination in the header.
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            let interface = u32::from_ne_bytes(array(data, 0)?);
            Some(LocalAddress { ip: Ipv4Addr::from(array::<4>(data, 4)?).into(), interface })
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let interface = u32::from_ne_bytes(array(data, 16)?);
            Some(LocalAddress { ip: Ipv6Addr::from(array::<16>(data, 0)?).into(), interface })
        }
        _ => None,
    }
}

pub(super) fn encode_local_address(local: LocalAddress, control: &mut [u8; CONTROL_BYTES]) -> usize {
    let (level, kind, data_length) = match local.ip {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_PKTINFO, 12),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, 20),
    };
    let length = encode_header((level, kind), data_length, control);
    match local.ip {
        // No interface: the reply follows the routes, which may lead out of another one.
        IpAddr::V4(ip) => control[CONTROL_HEADER + 4..][..4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => {
            control[CONTROL_HEADER..][..16].copy_from_slice(&ip.octets());
            if ip.is_unicast_link_local() {
                control[CONTROL_HEADER + 16..][..4].copy_from_slice(&local.interface.to_ne_bytes());
            }
        }
    }
    length
}

/// Has the kernel split a message into datagrams of this size.
pub(super) fn encode_segment_size(size: usize, control: &mut [u8]) -> usize {
    let size = u16::try_from(size).unwrap_or(u16::MAX).to_ne_bytes();
    if control.len() < aligned(CONTROL_HEADER + size.len()) {
        return 0;
    }
    let length = encode_header((libc::IPPROTO_UDP, libc::UDP_SEGMENT), size.len(), control);
    control[CONTROL_HEADER..][..size.len()].copy_from_slice(&size);
    length
}

/// Writes a header, and returns the room that the kernel wants for the message, up to the next aligned one.
fn encode_header((level, kind): (i32, i32), data_length: usize, control: &mut [u8]) -> usize {
    let length = CONTROL_HEADER + data_length;
    control[..size_of::<usize>()].copy_from_slice(&length.to_ne_bytes());
    control[size_of::<usize>()..][..4].copy_from_slice(&level.to_ne_bytes());
    control[size_of::<usize>() + 4..][..4].copy_from_slice(&kind.to_ne_bytes());
    aligned(length)
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(size_of::<usize>())
}
