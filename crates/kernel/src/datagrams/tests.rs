//! Datagrams over loopback, and encodings there and back.

use std::net::UdpSocket;

use super::*;

fn bound(address: &str) -> UdpSocket {
    UdpSocket::bind(address).unwrap()
}

/// Without waiting, so the test asks until the datagrams are there; loopback delivers before `send` returns.
fn receive(batch: &mut DatagramBatch, socket: &UdpSocket) -> usize {
    batch.receive(socket, MAX_DATAGRAMS).unwrap()
}

#[test]
fn a_batch_has_all_datagrams_with_peers_and_local_addresses() {
    for (wildcard, local) in [("0.0.0.0:0", "127.0.0.2"), ("[::]:0", "::1")] {
        let server = bound(wildcard);
        report_local_addresses(&server, server.local_addr().unwrap()).unwrap();
        let local: IpAddr = local.parse().unwrap();
        let client = bound(&SocketAddr::new(local, 0).to_string());
        client.connect(SocketAddr::new(local, server.local_addr().unwrap().port())).unwrap();
        let large = vec![7_u8; 65_507];
        for payload in [&b"one"[..], b"", &large] {
            client.send(payload).unwrap();
        }
        let mut batch = DatagramBatch::new();
        assert_eq!(receive(&mut batch, &server), 3);
        let payloads: Vec<&[u8]> = batch.datagrams().map(|datagram| datagram.payload).collect();
        assert_eq!(payloads, [&b"one"[..], b"", &large]);
        for datagram in batch.datagrams() {
            assert_eq!(datagram.peer, Some(client.local_addr().unwrap()));
            assert_eq!(datagram.local.unwrap().ip, local);
        }
    }
}

#[test]
fn replies_come_from_the_address_they_are_told_to() {
    let (server, client) = (bound("0.0.0.0:0"), bound("127.0.0.1:0"));
    client.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
    let peer = client.local_addr().ok();
    let from = |ip: &str| Some(LocalAddress { ip: ip.parse().unwrap(), interface: 0 });
    let datagrams = [
        Outgoing { payload: b"a", peer, local: from("127.0.0.3") },
        Outgoing { payload: b"bb", peer, local: from("127.0.0.4") },
        Outgoing { payload: b"", peer, local: None },
    ];
    assert_eq!(send(&server, &datagrams).unwrap(), 3);
    let mut buffer = [0; 8];
    for (length, ip) in [(1, "127.0.0.3"), (2, "127.0.0.4"), (0, "127.0.0.1")] {
        let (received, from) = client.recv_from(&mut buffer).unwrap();
        assert_eq!((received, from.ip().to_string()), (length, ip.to_owned()));
        assert_eq!(from.port(), server.local_addr().unwrap().port());
    }
}

#[test]
fn an_empty_socket_would_block() {
    let error = DatagramBatch::new().receive(bound("127.0.0.1:0"), 1).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn addresses_survive_encoding_and_cut_off_ones_are_nothing() {
    for text in ["192.0.2.1:53", "[2001:db8::1]:53", "[fe80::1%7]:9"] {
        let address: SocketAddr = text.parse().unwrap();
        let mut name = [0; NAME_BYTES];
        let length = encode_address(address, &mut name);
        assert_eq!(decode_address(&name[..length]), Some(address));
        assert_eq!(decode_address(&name[..length - 13]), None);
        let local = LocalAddress { ip: address.ip(), interface: 0 };
        let mut control = [0; CONTROL_BYTES];
        let length = encode_local_address(local, &mut control);
        assert_eq!(decode_local_address(&control[..length]), Some(local));
        assert_eq!(decode_local_address(&control[..CONTROL_HEADER]), None);
    }
}
