//! Resources run out: descriptors, the log's reader, room for files.

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::table::Table;
use crate::victim::Victim;

pub fn attack(table: &mut Table) {
    table.group("exhausted resources");
    table.attack(
        "1,024 descriptors, hard limit, and 1,200 idle connections",
        "health answers, rules follow",
        || {
            let victim = Victim::with_limits("ulimit -n 1024");
            let held = hold(&victim, 1200);
            let seen = victim.is_well();
            drop(held);
            seen
        },
    );
    table.attack("128 descriptors", "serves", || Victim::with_limits("ulimit -n 128").is_well());
    table.attack("nobody reads the log", "rules follow, health answers", || {
        Victim::with_unread_log().is_well()
    });
    table.attack("the log is closed", "rules follow, health answers", || Victim::with_closed_log().is_well());
    if table.is_full() {
        table.attack("a disk and a /run without room", "serves, also in iptables mode", || {
            for mode in ["nftables", "iptables"] {
                Victim::without_room(mode).is_well()?;
            }
            Ok("serves".into())
        });
        table.attack(
            "66,000 Services whose clients stick",
            "serves all of them; says which have no affinity",
            || {
                let victim = Victim::new(&[]);
                let said = victim.program.said();
                victim.stand.write("many.yaml", &many_services(66_000));
                let synced =
                    victim.program.wait_for("Served without session affinity", said, Duration::from_mins(2));
                synced.ok_or("it never said which have no affinity")?;
                victim.is_well()
            },
        );
        table.attack("100,000 endpoints in one Service", "serves on", || {
            let victim = Victim::new(&[]);
            let said = victim.program.said();
            victim.stand.write("wide.yaml", &wide_service(100_000));
            let synced = victim.program.wait_for("written=100", said, Duration::from_mins(2));
            synced.ok_or("they were never written")?;
            victim.is_well()
        });
    }
}

fn hold(victim: &Victim, count: usize) -> Vec<TcpStream> {
    let open = || {
        let one = |port| {
            TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), Duration::from_millis(300))
                .ok()
        };
        (0..count).filter_map(|nth| one(if nth % 2 == 0 { 10256 } else { 10249 })).collect()
    };
    let held: Vec<TcpStream> = victim.stand.net.node().run(open).expect("the node");
    assert!(held.len() * 10 >= count * 9, "only {} of {count} connections", held.len());
    held
}

pub fn many_services(count: usize) -> String {
    let service = |nth: usize| {
        let (high, middle, low) = (nth / 65_536, nth / 256 % 256, nth % 256);
        format!(
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: s{nth}, namespace: many}}\nspec: {{clusterIP: 10.{}.{middle}.{low}, \
             sessionAffinity: ClientIP, ports: [{{name: p, port: 80}}]}}\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
             metadata: {{name: s{nth}-1, namespace: many, labels: {{kubernetes.io/service-name: s{nth}}}}}\naddressType: IPv4\n\
             ports: [{{name: p, port: 8080}}]\nendpoints: [{{addresses: [10.245.{middle}.{low}]}}]\n",
            100 + high
        )
    };
    (0..count).map(service).collect()
}

fn wide_service(endpoints: usize) -> String {
    const PER_SLICE: usize = 1000;
    let mut text = String::from(
        "apiVersion: v1\nkind: Service\nmetadata: {name: wide, namespace: many}\nspec: {clusterIP: 10.96.0.99, ports: [{port: 80}]}\n",
    );
    for first in (0..endpoints).step_by(PER_SLICE) {
        let addresses = (first..first + PER_SLICE).map(|nth| {
            format!("{{addresses: [10.{}.{}.{}]}}", 64 + nth / 65_536, nth / 256 % 256, nth % 256)
        });
        let addresses = addresses.collect::<Vec<_>>().join(", ");
        let _ = write!(
            text,
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: wide-{first}, namespace: many, labels: \
             {{kubernetes.io/service-name: wide}}}}\naddressType: IPv4\nports: [{{port: 8080}}]\nendpoints: [{addresses}]\n"
        );
    }
    text
}
