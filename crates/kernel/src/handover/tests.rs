//! One process hands its sockets to another, here two threads.

use std::net::{TcpListener, TcpStream};
use std::thread;

use super::*;

fn name(test: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("ferrule-handover-{}", std::process::id()));
    meeting_point(&directory, test).unwrap()
}

#[test]
fn sockets_that_were_taken_over_accept_connections_of_before() {
    let name = name("taken");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let _waiting = TcpStream::connect(address).unwrap();
    let offer = Offer::open(&name).unwrap();
    let given = thread::spawn(move || {
        let sockets = NamedSockets::from([("web".to_owned(), OwnedFd::from(listener))]);
        offer.wait().unwrap().send(&sockets)
    });
    let mut taken = take(&name).unwrap();
    given.join().unwrap().unwrap();
    let listener = TcpListener::from(taken.remove("web").unwrap());
    assert_eq!(listener.local_addr().unwrap(), address);
    listener.accept().unwrap();
    assert!(taken.is_empty());
}

#[test]
fn without_a_process_that_runs_there_is_nothing_to_take() {
    assert!(take(&name("nobody")).unwrap().is_empty());
}

#[test]
fn a_name_is_offered_by_one_process_at_a_time() {
    let name = name("twice");
    let first = Offer::open(&name).unwrap();
    assert_eq!(Offer::open(&name).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    drop(first);
    Offer::open(&name).unwrap();
}

#[test]
fn a_process_that_asks_for_something_else_gets_nothing() {
    let name = name("other");
    let offer = Offer::open(&name).unwrap();
    let waiting = thread::spawn(move || offer.wait().unwrap().send(&NamedSockets::new()));
    let stranger = packet_socket().unwrap();
    net::connect(&stranger, &SocketAddrUnix::new(&name).unwrap()).unwrap();
    net::send(&stranger, b"give me everything", SendFlags::NOSIGNAL).unwrap();
    let mut buffer = [0; 8];
    let received = net::recv(&stranger, &mut buffer[..], RecvFlags::empty());
    assert!(received.is_err() || received.is_ok_and(|(length, _)| length == 0));
    // The next one, which asks as it should, is served.
    assert!(take(&name).unwrap().is_empty());
    waiting.join().unwrap().unwrap();
}

#[test]
fn systemd_gets_a_socket_with_its_name() {
    let name = format!("ferrule-test-systemd-{}", std::process::id());
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
    let manager =
        net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).unwrap();
    net::bind(&manager, &address).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let systemd = Systemd::at(&format!("@{name}")).unwrap();
    systemd.send("FDSTORE=1\nFDNAME=web\n", Some(listener.as_fd())).unwrap();
    drop(listener);
    let (message, kept) = receive_with(&manager).unwrap().unwrap();
    assert_eq!(message, "FDSTORE=1\nFDNAME=web\n");
    assert_eq!(TcpListener::from(kept).local_addr().unwrap(), address);
    systemd.send("FDSTOREREMOVE=1\nFDNAME=web\n", None).unwrap();
    let mut buffer = [0; 64];
    let (length, _) = net::recv(&manager, &mut buffer[..], RecvFlags::empty()).unwrap();
    assert_eq!(&buffer[..length], b"FDSTOREREMOVE=1\nFDNAME=web\n");
}

#[test]
fn a_socket_that_a_killed_process_left_is_no_obstacle() {
    let name = name("killed");
    // What is left is a file without a listener.
    let socket = packet_socket().unwrap();
    net::bind(&socket, &SocketAddrUnix::new(&name).unwrap()).unwrap();
    drop(socket);
    Offer::open(&name).unwrap();
}

#[test]
fn a_directory_that_others_can_enter_is_not_used() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = std::env::temp_dir().join(format!("ferrule-handover-open-{}", std::process::id()));
    meeting_point(&directory, "x").unwrap();
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(meeting_point(&directory, "x").is_err());
    std::fs::remove_dir(&directory).unwrap();
}
