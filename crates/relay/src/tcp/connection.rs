//! One client's connection: two sockets, two directions, and what an end or an error on one side means for the other.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};

use super::accepting::linger_zero;
use super::dial::Dial;
use super::direction::{Broken, Direction, Ends, Tools};
use crate::worker::shared::PortalState;

/// One client's connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) serial: u64,
    pub(super) portal: Arc<PortalState>,
    pub(super) client_ip: IpAddr,
    pub(super) stage: Stage,
    pub(super) client: Option<OwnedFd>,
    pub(super) endpoint: Option<OwnedFd>,
    pub(super) endpoint_address: Option<SocketAddr>,
    /// Present until the first byte has been passed on: until then another endpoint can be tried.
    pub(super) dial: Option<Box<Dial>>,
    pub(super) dial_deadline: Option<Instant>,
    pub(super) inbound: Direction,
    pub(super) outbound: Direction,
    pub(super) last_active: Instant,
    pub(super) client_is_watched: bool,
    pub(super) is_admitted: bool,
    half_open: HalfOpen,
}

/// Whether one side has ended its half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HalfOpen {
    No,
    /// Just now: its idle time is to be limited.
    Begins,
    Yes,
}

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// A dial is under way.
    Dialing,
    /// There was no descriptor for a dial.
    Waiting,
    Relaying,
    /// Its sockets are closed.
    Ended,
}

/// What is to be done about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Wait for events.
    Wait,
    /// It has used up its turn.
    Continue,
    /// The endpoint failed before the first byte.
    DialAgain,
    End,
}

impl Connection {
    pub(super) fn new(portal: Arc<PortalState>, client: OwnedFd, client_ip: IpAddr, serial: u64) -> Self {
        Self {
            serial,
            portal,
            client_ip,
            stage: Stage::Dialing,
            client: Some(client),
            endpoint: None,
            endpoint_address: None,
            dial: Some(Box::default()),
            dial_deadline: None,
            inbound: Direction::default(),
            outbound: Direction::default(),
            last_active: Instant::now(),
            client_is_watched: false,
            is_admitted: true,
            half_open: HalfOpen::No,
        }
    }

    /// Both sockets are connected: the client may have sent something already, and both can be written to.
    pub(super) fn established(&mut self) {
        self.inbound.assume_ready();
        self.outbound.assume_writable();
    }

    /// Whether one side has ended its half since the last call.
    pub(super) fn has_become_half_open(&mut self) -> bool {
        let begins = self.half_open == HalfOpen::Begins;
        if begins {
            self.half_open = HalfOpen::Yes;
        }
        begins
    }

    /// Moves bytes both ways.
    pub(super) fn advance(&mut self, tools: &mut Tools, now: Instant) -> Next {
        let (Some(client), Some(endpoint)) = (&self.client, &self.endpoint) else { return Next::End };
        let inward = Ends { source: client.as_fd(), destination: endpoint.as_fd() };
        let outward = Ends { source: endpoint.as_fd(), destination: client.as_fd() };
        let (before_in, before_out) = (self.inbound.delivered(), self.outbound.delivered());
        // Answers first: an endpoint that has ended is then known before more is written to it.
        let answered = self.outbound.advance(outward, tools);
        let asked = match &answered {
            Ok(_) => self.inbound.advance(inward, tools),
            Err(_) => Ok(false),
        };
        let (moved_in, moved_out) =
            (self.inbound.delivered() - before_in, self.outbound.delivered() - before_out);
        if moved_in + moved_out > 0 {
            self.last_active = now;
            self.count(moved_in, moved_out);
        }
        match (answered, asked) {
            (Ok(answers_left), Ok(requests_left)) => self.after_progress(answers_left || requests_left),
            (Err(broken), _) => self.after_outbound_error(broken),
            (_, Err(broken)) => self.after_inbound_error(broken, tools),
        }
    }

    fn count(&mut self, moved_in: u64, moved_out: u64) {
        if moved_in > 0 {
            self.portal.count(|counters| &counters.bytes_in, moved_in);
        }
        if moved_out > 0 {
            self.portal.count(|counters| &counters.bytes_out, moved_out);
            if moved_out == self.outbound.delivered() {
                self.report_success();
            }
        }
        self.dial = None;
    }

    /// Passes the ends of halves on.
    fn after_progress(&mut self, has_more: bool) -> Next {
        let (asked, answered) = (self.inbound.is_finished(), self.outbound.is_finished());
        if asked && answered {
            if self.outbound.delivered() == 0 {
                self.report_success();
            }
            return Next::End;
        }
        if (asked || answered) && self.half_open == HalfOpen::No {
            self.half_open = HalfOpen::Begins;
            // The other half can still carry data: a client may send all it has and then wait for the answer.
            let other_side = if asked { &self.endpoint } else { &self.client };
            if let Some(socket) = other_side {
                let _ = shutdown(socket, Shutdown::Write);
            }
        }
        if has_more { Next::Continue } else { Next::Wait }
    }

    /// The endpoint cannot be read, or the client not be written to.
    fn after_outbound_error(&mut self, broken: Broken) -> Next {
        match broken {
            Broken::Source(_) => self.endpoint_failed(),
            Broken::Destination(_) => {
                self.reset_both();
                Next::End
            }
        }
    }

    /// The client cannot be read, or the endpoint not be written to.
    fn after_inbound_error(&mut self, broken: Broken, tools: &mut Tools) -> Next {
        match broken {
            Broken::Source(_) => {
                self.reset_both();
                Next::End
            }
            // It has ended after its answer, and takes no more: the answer counts.
            Broken::Destination(Errno::PIPE)
                if self.outbound.delivered() > 0 || self.outbound.is_finished() =>
            {
                self.inbound.abandon();
                self.after_progress(false)
            }
            Broken::Destination(_) => {
                self.drain_answer(tools);
                self.endpoint_failed()
            }
        }
    }

    /// What the endpoint sent before its reset still belongs to the client.
    fn drain_answer(&mut self, tools: &mut Tools) {
        if let (Some(client), Some(endpoint)) = (&self.client, &self.endpoint) {
            let before = self.outbound.delivered();
            self.outbound.assume_ready();
            let _ =
                self.outbound.advance(Ends { source: endpoint.as_fd(), destination: client.as_fd() }, tools);
            let moved = self.outbound.delivered() - before;
            if moved > 0 {
                self.count(0, moved);
            }
        }
    }

    /// The endpoint has reset the connection. If no byte was passed on, another one can take its place.
    fn endpoint_failed(&mut self) -> Next {
        if self.outbound.delivered() == 0
            && let Some(endpoint) = self.endpoint_address
        {
            self.portal.pool.report_failure(endpoint);
        }
        if self.dial.is_some() && self.half_open == HalfOpen::No {
            self.portal.count(|counters| &counters.dial_failures, 1);
            self.endpoint = None;
            self.outbound = Direction::default();
            self.inbound.destination_replaced();
            return Next::DialAgain;
        }
        self.reset_both();
        Next::End
    }

    fn report_success(&self) {
        if let Some(endpoint) = self.endpoint_address {
            self.portal.pool.report_success(endpoint);
        }
    }

    /// Makes the close that follows a reset, on both sides.
    pub(super) fn reset_both(&mut self) {
        for socket in [&self.client, &self.endpoint].into_iter().flatten() {
            linger_zero(socket);
        }
    }

    /// Closes both sockets.
    pub(super) fn close(&mut self) {
        self.stage = Stage::Ended;
        self.client = None;
        self.endpoint = None;
        self.inbound = Direction::default();
        self.outbound = Direction::default();
        self.dial = None;
        self.portal.close_connection();
    }
}
