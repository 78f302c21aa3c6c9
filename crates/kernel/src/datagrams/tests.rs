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
        Outgoing { payload: b"a", segment: 1, peer, local: from("127.0.0.3") },
        Outgoing { payload: b"bb", segment: 2, peer, local: from("127.0.0.4") },
        Outgoing { payload: b"", segment: 0, peer, local: None },
    ];
    let sent = send(&server, &datagrams, &mut Merging::default()).unwrap();
    assert_eq!(sent, Sent { datagrams: 3, bytes: 3 });
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
        let segment = encode_segment_size(1472, &mut control[length..]);
        assert!(segment > 0, "both fit");
        let both = &control[..length + segment];
        assert_eq!(decode_control(both).local, Some(local));
        assert_eq!(decode_control(&control[..length - 8]).local, None);
        assert_eq!(decode_control(&control[..control::CONTROL_HEADER]), control::Control::default());
    }
}

/// Sizes of the datagrams that a socket receives.
fn sizes(socket: &UdpSocket) -> Vec<usize> {
    socket.set_nonblocking(true).unwrap();
    let mut buffer = vec![0; 1 << 16];
    std::iter::from_fn(|| socket.recv(&mut buffer).ok()).collect()
}

fn pair() -> (UdpSocket, UdpSocket) {
    let (from, to) = (bound("127.0.0.1:0"), bound("127.0.0.1:0"));
    from.connect(to.local_addr().unwrap()).unwrap();
    (from, to)
}

fn outgoing(payload: &[u8]) -> Outgoing<'_> {
    Outgoing { payload, segment: payload.len(), peer: None, local: None }
}

#[test]
fn datagrams_of_one_size_go_as_one_message_and_arrive_as_they_were() {
    let bytes = vec![5; 2000];
    let lengths = [100, 100, 100, 40, 100, 0, 100, 100, 1500, 1500, 1, 1, 1];
    let datagrams: Vec<Outgoing<'_>> = lengths.iter().map(|length| outgoing(&bytes[..*length])).collect();
    let (from, to) = pair();
    let mut merging = Merging::default();
    let sent = send(&from, &datagrams, &mut merging).unwrap();
    assert_eq!(sent, Sent { datagrams: lengths.len(), bytes: lengths.iter().sum() });
    assert!(merging.is_on());
    assert_eq!(sizes(&to), lengths);
    // The same, to a socket that receives them merged: what was sent as one is received as one.
    receive_merged(&to).unwrap();
    send(&from, &datagrams, &mut merging).unwrap();
    let mut batch = DatagramBatch::new();
    batch.receive(&to, MAX_DATAGRAMS).unwrap();
    let received: Vec<(usize, usize)> =
        batch.datagrams().map(|datagram| (datagram.payload.len(), datagram.segment)).collect();
    assert_eq!(received, [(340, 100), (100, 100), (0, 0), (200, 100), (3001, 1500), (2, 1)]);
}

#[test]
fn merged_datagrams_are_passed_on_with_their_sizes() {
    let (from, through) = pair();
    let (onward, to) = pair();
    receive_merged(&through).unwrap();
    let bytes = vec![5; 500];
    let datagrams: Vec<Outgoing<'_>> = [500, 500, 500, 7].map(|length| outgoing(&bytes[..length])).into();
    send(&from, &datagrams, &mut Merging::default()).unwrap();
    let mut batch = DatagramBatch::new();
    assert_eq!(batch.receive(&through, MAX_DATAGRAMS).unwrap(), 1);
    let passed: Vec<Outgoing<'_>> = batch
        .datagrams()
        .map(|datagram| Outgoing {
            payload: datagram.payload,
            segment: datagram.segment,
            peer: None,
            local: None,
        })
        .collect();
    for mut merging in [Merging::default(), Merging::OFF] {
        assert_eq!(send(&onward, &passed, &mut merging).unwrap(), Sent { datagrams: 4, bytes: 1507 });
        assert_eq!(sizes(&to), [500, 500, 500, 7]);
    }
}

#[test]
fn a_path_that_cannot_take_parts_of_this_size_turns_merging_off_and_nothing_is_lost() {
    // Parts that are larger than the loopback interface permits, and a datagram that has to be split on its way anyway.
    let bytes = vec![5; 65_507];
    let (from, to) = pair();
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&to, 4 << 20).ok();
    let part = outgoing(&bytes[..40_000]);
    let merged = Outgoing { payload: &bytes[..], segment: 70_000, peer: None, local: None };
    assert_eq!(merged.count(), 1);
    let mut merging = Merging::default();
    send(&from, &[part, merged], &mut merging).unwrap();
    assert_eq!(sizes(&to), [40_000, 65_507]);
}

#[test]
fn messages_keep_to_the_limits_of_the_kernel() {
    let bytes = vec![5; 60_000];
    let (from, to) = pair();
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&to, 8 << 20).ok();
    let small = vec![outgoing(&bytes[..1]); MAX_DATAGRAMS];
    let many = Outgoing { payload: &bytes[..128], segment: 1, peer: None, local: None };
    assert_eq!(send(&from, &small, &mut Merging::default()).unwrap().datagrams, MAX_DATAGRAMS);
    assert_eq!(sizes(&to).len(), MAX_DATAGRAMS);
    // More parts than an older kernel permits in one message: whatever it says, all of them arrive.
    assert_eq!(send(&from, &[many], &mut Merging::default()).unwrap().datagrams, 128);
    assert_eq!(sizes(&to).len(), 128);
    let large = vec![outgoing(&bytes[..1400]); 60];
    assert_eq!(send(&from, &large, &mut Merging::default()).unwrap().datagrams, 60);
    assert_eq!(sizes(&to), [1400; 60]);
}
