//! Rules are verified beside the one who writes them: what is found counts only if nothing was written meanwhile, and a change waits
//! for a lock of others without forgetting what it knows.
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

mod support;

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};

use ferrule_backends::iptables::{CanaryState, Host, Scope, Verified, Verifier};
use ferrule_backends::{SyncOutcome, Trigger};
use ferrule_kernel::iptables::{IptablesError, RestoreText, RuleText, Saved};
use ferrule_kernel::nft::Family;
use ferrule_kernel::port::{Faults, Faulty, XTables};
use ferrule_kernel::subprocess::Cancel;
use ferrule_model::IpFamily;
use ferrule_plan::PlanDelta;
use support::iptables::{Writer, name, run, with_each_program, with_each_writer, with_iptables};
use support::xtables::{Lab, Recording, world};

const TWO_SERVICES: &str = "service one clusterIP 10.96.0.1 port 80→8080
    endpoint one 10.244.1.1 node a
    service two clusterIP 10.96.0.2 port 80→8080
    endpoint two 10.244.1.2 node a";

fn verifier<K>(lab: &Lab<K>, writer: Writer) -> Verifier<Box<dyn XTables + Send>>
where
    Recording<K>: XTables,
{
    Verifier::new(writer.tables(), lab.reconciler.known())
}

/// Empties one chain of a Service.
fn damage(saved: &Saved, writer: Writer) {
    let nat = saved.table("nat").expect("nat");
    let chain = nat.chains.iter().find(|chain| chain.name.starts_with("KUBE-SVC-")).expect("a chain");
    run(&name(writer), &["-t", "nat", "-F", &chain.name]);
}

#[test]
fn what_differs_is_found_and_corrected() {
    with_each_writer(|writer| {
        let mut lab = Lab::new(TWO_SERVICES, writer);
        let (before, mut verifier) = (lab.saved(), verifier(&lab, writer));
        assert_eq!(verifier.verify(&Scope::Everything).expect("a check"), Verified::Intact);
        damage(&before, writer);
        let Ok(Verified::Drifted(correction)) = verifier.verify(&Scope::Everything) else {
            unreachable!("it differs")
        };
        assert!(correction.to_string().starts_with("rules of KUBE-SVC-"), "{correction}");
        let saves = lab.reconciler.kernel().saves;
        let report = lab.reconciler.correct(*correction).expect("a correction").expect("it counts");
        assert_eq!(
            (report.outcome, report.commits, lab.reconciler.kernel().saves),
            (SyncOutcome::Rewritten, 1, saves)
        );
        assert_eq!(lab.saved(), before);
        assert_eq!(verifier.verify(&Scope::Everything).expect("a check"), Verified::Intact);
    });
}

#[test]
fn emptied_tables_are_read_alone_and_filled() {
    with_each_writer(|writer| {
        let mut lab = Lab::new(TWO_SERVICES, writer);
        let (before, mut verifier) = (lab.saved(), verifier(&lab, writer));
        run(&name(writer), &["-t", "filter", "-F"]);
        run(&name(writer), &["-t", "filter", "-X"]);
        // Damage elsewhere is not read.
        damage(&before, writer);
        let flushed = verifier.canary().expect("an answer");
        assert_eq!(flushed, Some(CanaryState::PartlyFlushed(vec!["filter"])));
        let scope = Scope::Tables(vec!["filter"]);
        let Ok(Verified::Drifted(correction)) = verifier.verify(&scope) else { unreachable!("it differs") };
        lab.reconciler.correct(*correction).expect("a correction");
        assert_eq!(verifier.verify(&scope).expect("a check"), Verified::Intact);
        assert_eq!(lab.saved().table("filter"), before.table("filter"));
        assert_ne!(lab.saved().table("nat"), before.table("nat"));
    });
}

#[test]
fn what_was_read_before_a_change_is_not_written_after_it() {
    with_each_writer(|writer| {
        let mut lab = Lab::new(TWO_SERVICES, writer);
        let mut verifier = verifier(&lab, writer);
        damage(&lab.saved(), writer);
        let Ok(Verified::Drifted(old)) = verifier.verify(&Scope::Everything) else {
            unreachable!("it differs")
        };
        lab.then("service three clusterIP 10.96.0.3 port 80→8080\nendpoint three 10.244.1.3 node a");
        let restores = lab.restores();
        assert_eq!(lab.reconciler.correct(*old).expect("nothing is tried"), None);
        assert_eq!(lab.restores(), restores);
        assert!(verifier.known().is_check_wanted(), "it is read again later");
        let Ok(Verified::Drifted(new)) = verifier.verify(&Scope::Everything) else {
            unreachable!("it differs")
        };
        lab.reconciler.correct(*new).expect("a correction").expect("it counts");
        assert_eq!(lab.verify().expect("a verification").outcome, SyncOutcome::UpToDate);
    });
}

/// Tables that announce a read or write, and wait for permission to continue.
struct Paused {
    tables: Box<dyn XTables + Send>,
    begins: Sender<()>,
    goes_on: Receiver<()>,
    pauses_at_writes: bool,
}

impl XTables for Paused {
    fn family(&self) -> Family {
        self.tables.family()
    }

    fn save(&mut self) -> Result<Saved, IptablesError> {
        self.tables.save()
    }

    /// Takes until it is cancelled.
    fn save_tables(&mut self, _: &[&'static str], cancel: &Cancel) -> Result<Saved, IptablesError> {
        self.begins.send(()).expect("the test waits");
        while !cancel.is_cancelled() {
            std::thread::yield_now();
        }
        Err(IptablesError::Injected)
    }

    fn restore(&mut self, text: &RestoreText) -> Result<(), IptablesError> {
        if self.pauses_at_writes {
            self.begins.send(()).expect("the test waits");
            self.goes_on.recv().expect("a word");
        }
        self.tables.restore(text)
    }

    fn test(&mut self, text: &RestoreText) -> Result<(), IptablesError> {
        self.tables.test(text)
    }

    fn chain_rules(&mut self, table: &str, chain: &str) -> Result<Option<Vec<RuleText>>, IptablesError> {
        self.tables.chain_rules(table, chain)
    }
}

fn paused(writer: Writer) -> (Paused, Receiver<()>, Sender<()>) {
    let ((begins, has_begun), (go_on, goes_on)) = (channel(), channel());
    let tables = writer.tables();
    (Paused { tables, begins, goes_on, pauses_at_writes: false }, has_begun, go_on)
}

#[test]
fn a_change_ends_a_read_that_is_under_way() {
    with_iptables(|| {
        let mut lab = Lab::new(TWO_SERVICES, Writer::Netlink);
        let (slow, has_begun, _go_on) = paused(Writer::Netlink);
        let mut verifier = Verifier::new(slow, lab.reconciler.known());
        let reading = std::thread::spawn(move || verifier.verify(&Scope::Everything));
        has_begun.recv().expect("it reads");
        lab.then("endpoint one 10.244.1.9 node a");
        assert_eq!(reading.join().expect("a thread").expect("no failure"), Verified::Outdated);
    });
}

#[test]
fn while_rules_are_written_nobody_looks_for_them() {
    with_iptables(|| {
        let (slow, has_begun, go_on) = paused(Writer::Netlink);
        let mut lab = Lab::with(world(TWO_SERVICES), slow, Host::default());
        let mut verifier = verifier(&lab, Writer::Netlink);
        run("iptables-nft", &["-t", "nat", "-F", "KUBE-POSTROUTING"]);
        lab.reconciler.kernel().tables.pauses_at_writes = true;
        std::thread::scope(|scope| {
            // The thread has to be in the same namespace, as a child of this one is.
            let writing = scope.spawn(|| lab.then("endpoint one 10.244.1.9 node a"));
            has_begun.recv().expect("it writes");
            assert_eq!(verifier.canary().expect("an answer"), None);
            assert_eq!(verifier.verify(&Scope::Everything).expect("an answer"), Verified::NotNow);
            go_on.send(()).expect("a word");
            writing.join().expect("a thread");
        });
        let state = verifier.canary().expect("an answer");
        assert_eq!(state, Some(CanaryState::PartlyFlushed(vec!["nat"])), "afterwards it counts");
    });
}

/// Tables behind a lock that another program may hold.
struct Locked {
    tables: Box<dyn XTables + Send>,
    is_held: bool,
}

impl Locked {
    fn check(&self) -> Result<(), IptablesError> {
        let lock = PathBuf::from("/run/xtables.lock");
        if self.is_held { Err(IptablesError::Locked { lock, operation: "writing" }) } else { Ok(()) }
    }
}

impl XTables for Locked {
    fn family(&self) -> Family {
        self.tables.family()
    }

    fn save(&mut self) -> Result<Saved, IptablesError> {
        self.tables.save()
    }

    fn save_tables(&mut self, tables: &[&'static str], cancel: &Cancel) -> Result<Saved, IptablesError> {
        self.tables.save_tables(tables, cancel)
    }

    fn check_lock(&mut self) -> Result<(), IptablesError> {
        self.check()
    }

    fn restore(&mut self, text: &RestoreText) -> Result<(), IptablesError> {
        self.check()?;
        self.tables.restore(text)
    }

    fn test(&mut self, text: &RestoreText) -> Result<(), IptablesError> {
        self.tables.test(text)
    }

    fn chain_rules(&mut self, table: &str, chain: &str) -> Result<Option<Vec<RuleText>>, IptablesError> {
        self.tables.chain_rules(table, chain)
    }
}

#[test]
fn changes_wait_for_a_lock_and_are_then_written_in_one_step_without_reading() {
    with_each_program(|writer| {
        let tables = Locked { tables: writer.tables(), is_held: false };
        let mut lab = Lab::with(world(TWO_SERVICES), tables, Host::default());
        let (mut verifier, saves) = (verifier(&lab, writer), lab.reconciler.kernel().saves);
        lab.reconciler.kernel().tables.is_held = true;
        for facts in [
            "endpoint one 10.244.1.9 node a",
            "service three clusterIP 10.96.0.3 port 80→8080",
            "gone endpoint one 10.244.1.1\ngone service two\nendpoint three 10.244.1.3 node a",
        ] {
            let failed = lab.try_then(facts).expect_err("the lock is held");
            assert!(matches!(failed, IptablesError::Locked { .. }), "{failed:?}");
            assert!(lab.reconciler.has_unwritten());
            assert_eq!(verifier.canary().expect("an answer"), None, "a restore of ours waits");
        }
        lab.reconciler.kernel().tables.is_held = false;
        let plan = lab.world.family(IpFamily::V4).expect("IPv4 is served").clone();
        let report = lab.reconciler.sync(&plan, Trigger::Changed(&PlanDelta::default())).expect("a sync");
        assert!(report.commits == 1 && report.written > 0 && !lab.reconciler.has_unwritten(), "{report:?}");
        assert_eq!(lab.reconciler.kernel().saves, saves);
        assert_eq!(verifier.verify(&Scope::Everything).expect("a check"), Verified::Intact);
        assert_eq!(lab.verify().expect("a verification").outcome, SyncOutcome::UpToDate);
    });
}

#[test]
fn a_change_that_came_with_a_correction_behind_a_lock_is_not_lost() {
    with_each_writer(|writer| {
        let tables = Locked { tables: writer.tables(), is_held: false };
        let mut lab = Lab::with(world(TWO_SERVICES), tables, Host::default());
        run(&name(writer), &["-t", "nat", "-F", "KUBE-POSTROUTING"]);
        let mut verifier = verifier(&lab, writer);
        let Verified::Drifted(correction) = verifier.verify(&Scope::Everything).expect("a check") else {
            panic!("the damage is found");
        };
        lab.reconciler.known().put_correction(correction);
        let delta = lab.say("endpoint one 10.244.1.9 node a");
        let plan = lab.world.family(IpFamily::V4).expect("IPv4 is served").clone();
        lab.reconciler.kernel().tables.is_held = true;
        let failed = lab.reconciler.sync(&plan, Trigger::Repair { changed: &delta });
        assert!(matches!(failed, Err(IptablesError::Locked { .. })), "{failed:?}");
        let again = lab.reconciler.sync(&plan, Trigger::Changed(&PlanDelta::default()));
        assert!(
            matches!(again, Err(IptablesError::Locked { .. })),
            "nothing is in the kernel yet: {again:?}"
        );
        lab.reconciler.kernel().tables.is_held = false;
        lab.reconciler.sync(&plan, Trigger::Changed(&PlanDelta::default())).expect("a sync");
        assert_eq!(lab.reconciler.diff(&plan).expect("a diff").lines, Vec::<String>::new());
    });
}

#[test]
fn rules_in_quarantine_are_tried_without_being_written() {
    with_each_writer(|writer| {
        let faulty = || Faulty::new(writer.tables(), Faults { before: 0, after: 0 }, 1);
        let mut lab = Lab::with(world(""), faulty(), Host::default());
        lab.reconciler.kernel().tables.corrupt(Some("default/two"));
        let report = lab.then(TWO_SERVICES);
        assert_eq!(report.quarantined, 1);
        let mut spoilt = faulty();
        spoilt.corrupt(Some("default/two"));
        let before = lab.saved();
        let mut verifier = Verifier::new(spoilt, lab.reconciler.known());
        assert_eq!(verifier.verify(&Scope::Everything).expect("a check"), Verified::Intact);
        let mut verifier = Verifier::new(faulty(), lab.reconciler.known());
        assert_eq!(verifier.verify(&Scope::Everything).expect("a check"), Verified::QuarantineMayEnd);
        assert_eq!(lab.saved(), before, "nothing was written to find out");
        lab.reconciler.kernel().tables.corrupt(None);
        let report = lab.verify().expect("a verification");
        assert_eq!(report.quarantined, 0);
        assert_eq!(verifier.verify(&Scope::Everything).expect("a check"), Verified::Intact);
    });
}
