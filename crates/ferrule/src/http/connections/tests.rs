//! Who gets in, and who goes for it.

use std::future::pending;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::PortKind::{Health, Metrics, ServiceChecks};
use super::*;

const SHARE_OF_64: usize = 8;
const COMMON_OF_64: usize = 64 - 4 * SHARE_OF_64;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().expect("a runtime")
}

/// A connection whose task does nothing until it is ended.
struct Client {
    id: u64,
    guard: std::sync::Weak<ConnectionGuard>,
    task: JoinHandle<()>,
}

async fn connect(connections: &Arc<Connections>, kind: PortKind) -> Client {
    let permit = connections.acquire(kind).await;
    let guard = Arc::new(connections.register(kind, permit));
    let (id, weak) = (guard.id(), Arc::downgrade(&guard));
    let task = tokio::spawn(async move {
        let _guard = guard;
        pending::<()>().await;
    });
    connections.set_task(id, task.abort_handle());
    Client { id, guard: weak, task }
}

async fn connect_many(connections: &Arc<Connections>, kind: PortKind, count: usize) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(connect(connections, kind).await);
    }
    clients
}

fn alive(clients: &[Client]) -> Vec<u64> {
    clients.iter().filter(|client| !client.task.is_finished()).map(|client| client.id).collect()
}

#[test]
fn a_port_that_is_full_takes_every_new_client_and_the_least_recently_used_goes() {
    runtime().block_on(async {
        let connections = Arc::new(Connections::new(64));
        let clients = connect_many(&connections, Metrics, 200).await;
        let newest: Vec<u64> =
            clients.iter().rev().take(COMMON_OF_64 + SHARE_OF_64).rev().map(|client| client.id).collect();
        assert_eq!(alive(&clients), newest);
        assert_eq!(connections.evicted(Metrics), 200 - newest.len() as u64);
    });
}

#[test]
fn whoever_fills_one_port_leaves_the_others_their_share() {
    runtime().block_on(async {
        let connections = Arc::new(Connections::new(64));
        let attack = connect_many(&connections, ServiceChecks, 500).await;
        for kind in [Health, Metrics] {
            let clients = connect_many(&connections, kind, SHARE_OF_64).await;
            assert_eq!(alive(&clients).len(), SHARE_OF_64, "{kind:?}");
            let later = connect_many(&connections, kind, 1).await;
            assert_eq!(alive(&later).len(), 1, "and one more in the guard of the oldest");
            assert_eq!(alive(&clients).len(), SHARE_OF_64 - 1, "{kind:?}");
        }
        assert_eq!(alive(&attack).len(), COMMON_OF_64 + SHARE_OF_64, "nothing was taken from them");
    });
}

#[test]
fn clients_that_wait_for_a_slow_page_go_last() {
    runtime().block_on(async {
        let connections = Arc::new(Connections::new(64));
        let patient = connect(&connections, Metrics).await;
        patient.guard.upgrade().expect("it is open").blocking_started();
        let flood = connect_many(&connections, Metrics, 200).await;
        assert!(!patient.task.is_finished());
        assert_eq!(alive(&flood).len(), COMMON_OF_64 + SHARE_OF_64 - 1);
    });
}

/// Whoever has asked for something and does not read it is no better than whoever has not asked yet.
#[test]
fn answers_that_nobody_reads_do_not_protect_a_connection() {
    runtime().block_on(async {
        let connections = Arc::new(Connections::new(64));
        let stalled = connect_many(&connections, Metrics, COMMON_OF_64 + SHARE_OF_64).await;
        for client in &stalled {
            client.guard.upgrade().expect("it is open").response_started(1000);
        }
        let new = connect_many(&connections, Metrics, 10).await;
        assert_eq!((alive(&new).len(), alive(&stalled).len()), (10, COMMON_OF_64 + SHARE_OF_64 - 10));
    });
}

#[test]
fn a_client_that_asks_again_counts_as_new() {
    runtime().block_on(async {
        let connections = Arc::new(Connections::new(64));
        let clients = connect_many(&connections, Health, COMMON_OF_64 + SHARE_OF_64).await;
        let guard = clients[0].guard.upgrade().expect("it is open");
        guard.response_started(10);
        guard.responses_sent();
        drop(guard);
        connect(&connections, Health).await;
        assert!(!clients[0].task.is_finished() && clients[1].task.is_finished());
    });
}

#[test]
fn without_descriptors_the_least_recently_used_of_any_port_go() {
    runtime().block_on(async {
        let connections = Arc::new(Connections::new(64));
        let first = connect_many(&connections, ServiceChecks, EVICTED_WHEN_EXHAUSTED - 1).await;
        let second = connect_many(&connections, Health, 2).await;
        assert!(connections.accept_failed(), "told once");
        tokio::task::yield_now().await;
        assert_eq!((alive(&first).len(), alive(&second)), (0, vec![second[1].id]));
        assert!(!connections.accept_failed());
        connections.accepted();
        assert!(connections.accept_failed(), "and again once it was well in between");
        tokio::task::yield_now().await;
        assert_eq!(alive(&second).len(), 0);
    });
}

#[test]
fn answers_that_nobody_reads_take_up_bounded_memory() {
    runtime().block_on(async {
        let connections = Arc::new(Connections::new(64));
        let length = MAX_UNREAD_BYTES / 4;
        let clients = connect_many(&connections, Metrics, 5).await;
        for client in &clients {
            assert!(connections.reserve_memory(Metrics, length));
            client.guard.upgrade().expect("it is open").response_started(length);
        }
        tokio::task::yield_now().await;
        assert_eq!(alive(&clients).len(), 4, "the slowest went");
        assert!(!connections.reserve_memory(Health, length), "not for another port's sake");
        clients[4].guard.upgrade().expect("it is open").responses_sent();
        assert!(connections.reserve_memory(Health, length));
        assert!(connections.reserve_memory(Metrics, 10 * MAX_UNREAD_BYTES), "a large one alone");
    });
}
