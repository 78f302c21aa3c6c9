//! TLS that goes wrong in the middle of a run: expired, of another authority, too old, cut.

use std::fs;

use ferrule_testkit::api_server::{Authority, kubeconfig_text};
use ferrule_testkit::scripted_server::ScriptedServer;
use ferrule_testkit::tls_front::{Behaviour, TlsFront, certified_by};
use serde_json::json;
use tempfile::TempDir;

use crate::api::{ADDED, Site, usual_answer};
use crate::clock::{HOUR, WallClock};
use crate::stand::{BINARY, PATIENCE, Stand, until};
use crate::table::{Seen, Table};

const STAYS: &str = "what is known stays in effect, one line says why; goes on once it is right";
const TOLD: &str = "Failed to watch, retrying";
const TOO_OLD: &str = "neither TLS 1.2 nor TLS 1.3";
/// A fatal alert of version 1.0: protocol version.
const OLD_ALERT: [u8; 7] = [0x15, 3, 1, 0, 2, 2, 70];

pub fn attack(table: &mut Table) {
    table.group("API server impostor");
    table.attack("its certificate expires in the middle of a run", STAYS, expired);
    table.attack("its certificate is of another authority", STAYS, other_authority);
    table.attack("it speaks TLS 1.0 only, and says so", STAYS, || raw(OLD_ALERT.to_vec(), TOO_OLD));
    table.attack("it answers in TLS 1.0", STAYS, || raw(old_hello(), TOO_OLD));
    // In a record's head, in the handshake, in an answer.
    let cuts: &[usize] = if table.is_full() { &[3, 300, 1500, 4000] } else { &[1500] };
    for bytes in cuts.iter().copied() {
        table.attack(format!("TLS is cut off after {bytes} bytes, each time"), STAYS, || cut(bytes));
    }
}

/// A site whose API server is reached over TLS, and the clock of its program.
struct SecuredSite {
    site: Site,
    front: TlsFront,
    authority: Authority,
    folder: TempDir,
    clock: WallClock,
}

impl SecuredSite {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::new().expect("an authority");
        let stand = Stand::new();
        let behaviour = Behaviour::Serve(certified_by(&authority).expect("a certificate"));
        let servers = stand.net.node().run(|| {
            let server = ScriptedServer::start(usual_answer)?;
            let front = TlsFront::start(server.address(), behaviour)?;
            std::io::Result::Ok((server, front))
        });
        let (server, front) = servers.expect("the node").expect("servers");
        let ca_file = folder.path().join("ca.crt");
        fs::write(&ca_file, authority.pem()).expect("a file");
        let kubeconfig = folder.path().join("kubeconfig");
        let text = kubeconfig_text(&front.url(), &ca_file, &json!({ "token": "secret" }));
        fs::write(&kubeconfig, text).expect("a file");
        let clock = WallClock::new();
        let variable = clock.variable().to_string_lossy().into_owned();
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let site = Site::start(stand, server, &["/usr/bin/env", &variable, BINARY, &kubeconfig]);
        Self { site, front, authority, folder, clock }
    }

    /// Whether it says this, once, and what it knows stays.
    fn notices(&self, said: usize, words: &str) -> Result<(), String> {
        let line = self.site.program.wait_for(TOLD, said, PATIENCE);
        let line = line.ok_or("no trouble was told")?;
        if !line.contains(words) || line.contains("docs.rs") || line.len() > 1024 {
            return Err(line);
        }
        if !(0..3).any(|_| self.site.serves_last()) {
            return Err("Services are gone".into());
        }
        Ok(())
    }

    /// Whether it takes in what happened meanwhile.
    fn recovers(&self, said: usize) -> Seen {
        let recovered = self.site.program.wait_for("Watching the API server again", said, PATIENCE);
        let log = self.site.program.log();
        recovered.ok_or_else(|| format!("it does not go on:\n{}", log[said..].join("\n")))?;
        until(|| self.site.serves(ADDED).then_some(()));
        let told: Vec<&String> = log.iter().skip(said).filter(|line| line.contains(TOLD)).collect();
        match told.as_slice() {
            [line] => Ok(cause(line)),
            _ => Err(format!("{} lines, the last one {:?}", told.len(), told.last())),
        }
    }
}

/// What a line says after the address.
fn cause(line: &str) -> String {
    let said = line.split_once("127.0.0.1:").and_then(|(_, rest)| rest.split_once(": "));
    said.map_or(line, |(_, cause)| cause).trim_end_matches('"').to_owned()
}

fn expired() -> Seen {
    let site = SecuredSite::new();
    let said = site.site.program.said();
    site.site.add_service();
    site.clock.jump_to(72 * HOUR);
    site.front.disconnect();
    site.notices(said, "has expired, or this machine's clock is wrong")?;
    site.clock.jump_to(0);
    site.recovers(said)
}

fn other_authority() -> Seen {
    let site = SecuredSite::new();
    let said = site.site.program.said();
    site.site.add_service();
    let other = Authority::new().expect("an authority");
    site.front.behave(Behaviour::Serve(certified_by(&other).expect("a certificate")));
    site.notices(said, "certificate-authority")?;
    fs::write(site.folder.path().join("ca.crt"), other.pem()).expect("a file");
    site.recovers(said)
}

fn raw(bytes: Vec<u8>, words: &str) -> Seen {
    let site = SecuredSite::new();
    let said = site.site.program.said();
    site.site.add_service();
    site.front.behave(Behaviour::Raw(bytes));
    site.notices(said, words)?;
    site.front.behave(site.served());
    site.recovers(said)
}

fn cut(bytes: usize) -> Seen {
    let site = SecuredSite::new();
    let said = site.site.program.said();
    site.site.add_service();
    let config = certified_by(&site.authority).expect("a certificate");
    site.front.behave(Behaviour::CutAfter(config, bytes));
    site.notices(said, "")?;
    site.front.behave(site.served());
    site.recovers(said)
}

impl SecuredSite {
    fn served(&self) -> Behaviour {
        Behaviour::Serve(certified_by(&self.authority).expect("a certificate"))
    }
}

/// The first message of a server that knows nothing newer than TLS 1.0.
fn old_hello() -> Vec<u8> {
    let record = [0x16, 3, 1, 0, 42];
    let hello = [2, 0, 0, 38, 3, 1];
    let no_session = [0];
    let cipher_and_compression = [0xc0, 0x13, 0];
    [&record[..], &hello, &[7; 32], &no_session, &cipher_and_compression].concat()
}
