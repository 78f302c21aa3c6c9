//! Signals that end the program. As process 1 of a container nothing ends it but a handler.

use std::io;
use std::sync::mpsc::SyncSender as Sender;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Event;

/// Tells the loop of SIGTERM and SIGINT.
pub fn listen(events: Sender<Event>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut terminate, mut interrupt) = {
        let _entered = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    let work = move || {
        let name = runtime.block_on(first_of(&mut terminate, &mut interrupt));
        let _ = events.send(Event::End(name));
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(work)?;
    Ok(())
}

async fn first_of(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}
