//! One process hands its sockets to another, here two threads.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::systemd::Systemd;
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
        let next = offer.wait().unwrap();
        offer.hand_over(&next, &sockets).unwrap()
    });
    let Taken { sockets: mut taken, offer: _offer } = take(&name).unwrap().unwrap();
    given.join().unwrap();
    let listener = TcpListener::from(taken.remove("web").unwrap());
    assert_eq!(listener.local_addr().unwrap(), address);
    listener.accept().unwrap();
    assert!(taken.is_empty());
}

#[test]
fn without_a_process_that_runs_there_is_nothing_to_take() {
    assert!(take(&name("nobody")).unwrap().is_none());
}

#[test]
fn a_name_is_offered_by_one_process_at_a_time() {
    let name = name("twice");
    let first = Offer::open(&name).unwrap();
    assert_eq!(Offer::open(&name).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    drop(first);
    Offer::open(&name).unwrap();
}

/// However soon after each other they start: each finds the sockets of the one before, and none a moment without them.
#[test]
fn processes_that_start_together_take_over_one_after_the_other() {
    const PROCESSES: usize = 8;
    let name = name("together");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let sockets = NamedSockets::from([("web".to_owned(), OwnedFd::from(listener))]);
    let first = Taken { sockets, ..take_or_offer(&name).unwrap() };
    let give_to_next = |Taken { sockets, offer }: Taken| {
        let offer = offer.expect("the place is handed over");
        let next = offer.wait().unwrap();
        offer.hand_over(&next, &sockets).unwrap();
    };
    let had_them = Arc::new(AtomicUsize::new(0));
    let start = |_| {
        let (name, had_them) = (name.clone(), Arc::clone(&had_them));
        thread::spawn(move || {
            let taken = take_or_offer(&name).unwrap();
            let web = taken.sockets.get("web").expect("the sockets of the process before");
            let listener = TcpListener::from(web.try_clone().unwrap());
            assert_eq!(listener.local_addr().unwrap(), address);
            if had_them.fetch_add(1, Ordering::SeqCst) + 1 < PROCESSES {
                give_to_next(taken);
            }
        })
    };
    let all: Vec<_> = (0..PROCESSES).map(start).collect();
    give_to_next(first);
    for one in all {
        one.join().unwrap();
    }
    assert_eq!(had_them.load(Ordering::SeqCst), PROCESSES);
}

#[test]
fn a_process_that_takes_over_from_one_that_died_is_the_first() {
    let name = name("died");
    let dying = Offer::open(&name).unwrap();
    let next = thread::spawn({
        let name = name.clone();
        move || take_or_offer(&name)
    });
    // It asks, and gets no answer.
    let asking = dying.wait().unwrap();
    drop(dying);
    drop(asking);
    let first = next.join().unwrap().unwrap();
    assert!(first.sockets.is_empty() && first.offer.is_some());
}

/// Whatever becomes of the one that took over, and however many handed over before.
#[test]
fn who_handed_over_has_the_place_again_when_no_other_has() {
    let name = name("again");
    let first = Offer::open(&name).unwrap();
    let (mut last, mut standing_by) = (first, Vec::new());
    for _ in 0..2 {
        let giving = thread::spawn(move || {
            let next = last.wait().unwrap();
            last.hand_over(&next, &NamedSockets::new()).unwrap()
        });
        last = take(&name).unwrap().unwrap().offer.unwrap();
        standing_by.push(giving.join().unwrap());
    }
    for stand_by in &standing_by {
        assert!(matches!(stand_by.lock.try_lock(), Err(TryLockError::WouldBlock)), "the last one has it");
    }
    // Even without the file, which is no reason to have two of them.
    std::fs::remove_file(name.with_extension("lock")).unwrap();
    for stand_by in standing_by {
        assert!(stand_by.lock.try_lock().is_err());
        drop(last);
        stand_by.wait();
        last = stand_by.offer().unwrap();
    }
    assert_eq!(last.path(), name);
}

/// It died after it had confirmed, and nobody received the lock.
#[test]
fn a_lock_that_nobody_received_is_free() {
    let name = name("unreceived");
    let offer = Offer::open(&name).unwrap();
    let asking = packet_socket().unwrap();
    net::connect(&asking, &SocketAddrUnix::new(&name).unwrap()).unwrap();
    // The request, and the confirmation.
    net::send(&asking, REQUEST, SendFlags::NOSIGNAL).unwrap();
    net::send(&asking, REQUEST, SendFlags::NOSIGNAL).unwrap();
    let next = offer.wait().unwrap();
    let stand_by = offer.hand_over(&next, &NamedSockets::new()).unwrap();
    assert!(stand_by.lock.try_lock().is_err(), "it is on its way");
    drop((next, asking));
    stand_by.wait();
}

/// Whatever another process does between the two: there is one place, and everybody finds it.
#[test]
fn a_place_is_not_stolen_before_its_owner_listens() {
    let name = name("stolen");
    let socket = packet_socket().unwrap();
    let path = name.with_extension("lock");
    let lock = File::options().create(true).truncate(false).write(true).open(path).unwrap();
    lock.lock().unwrap();
    net::bind(&socket, &SocketAddrUnix::new(&name).unwrap()).unwrap();
    assert_eq!(Offer::open(&name).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    assert!(take(&name).unwrap().is_none());
    assert!(name.exists());
}

#[test]
fn a_process_that_asks_for_something_else_gets_nothing() {
    let name = name("other");
    let offer = Offer::open(&name).unwrap();
    let waiting = thread::spawn(move || {
        let next = offer.wait().unwrap();
        offer.hand_over(&next, &NamedSockets::new()).unwrap()
    });
    let stranger = packet_socket().unwrap();
    net::connect(&stranger, &SocketAddrUnix::new(&name).unwrap()).unwrap();
    net::send(&stranger, b"give me everything", SendFlags::NOSIGNAL).unwrap();
    let mut buffer = [0; 8];
    let received = net::recv(&stranger, &mut buffer[..], RecvFlags::empty());
    assert!(received.is_err() || received.is_ok_and(|(length, _)| length == 0));
    // The next one, which asks as it should, is served.
    assert!(take(&name).unwrap().unwrap().sockets.is_empty());
    waiting.join().unwrap();
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
