//! One client's connection: two sockets, two directions, and what an end or an error on one side means for the other.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};

use super::accepting::linger_zero;
use super::dial::Dial;
use super::direction::{Broken, Direction, Ends, Tools};
use crate::worker::limits::Opened;
use crate::worker::shared::PortalState;

/// An endpoint that resets a connection so soon did not wait for the client.
const AT_ONCE: Duration = Duration::from_secs(1);

/// One client's connection.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not a hidden state machine")]
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
    /// How many dials have begun.
    pub(super) dials: u8,
    pub(super) inbound: Direction,
    pub(super) outbound: Direction,
    pub(super) last_active: Instant,
    pub(super) client_is_watched: bool,
    pub(super) is_admitted: bool,
    /// Waits for another turn.
    pub(super) is_unfinished: bool,
    /// One side has ended its half.
    is_half_open: bool,
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
            dials: 0,
            inbound: Direction::default(),
            outbound: Direction::default(),
            last_active: Instant::now(),
            client_is_watched: false,
            is_admitted: true,
            is_unfinished: false,
            is_half_open: false,
        }
    }

    /// Both sockets are connected: the client may have sent something already, and both can be written to.
    pub(super) fn established(&mut self) {
        self.inbound.assume_ready();
        self.outbound.assume_writable();
    }

    /// Whether one side has ended its half.
    pub(super) fn is_half_open(&self) -> bool {
        self.is_half_open
    }

    /// Moves bytes both ways.
    pub(super) fn advance(&mut self, tools: &mut Tools, now: Instant) -> Next {
        let (Some(client), Some(endpoint)) = (&self.client, &self.endpoint) else { return Next::End };
        let portal = &self.portal;
        let inward = Ends { source: client.as_fd(), destination: endpoint.as_fd(), portal };
        let outward = Ends { source: endpoint.as_fd(), destination: client.as_fd(), portal };
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
            (Err(broken), _) => self.after_outbound_error(broken, now),
            (_, Err(broken)) => self.after_inbound_error(broken, tools, now),
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
        self.settled();
    }

    /// No other endpoint will be tried: this one serves the client.
    fn settled(&mut self) {
        if self.dial.take().is_some()
            && let Some(endpoint) = self.endpoint_address
        {
            self.portal.pool.note_served(endpoint);
        }
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
        if (asked || answered) && !self.is_half_open {
            self.is_half_open = true;
            // The other half can still carry data: a client may send all it has and then wait for the answer.
            let other_side = if asked { &self.endpoint } else { &self.client };
            if let Some(socket) = other_side {
                let _ = shutdown(socket, Shutdown::Write);
            }
        }
        if has_more { Next::Continue } else { Next::Wait }
    }

    /// The endpoint cannot be read, or the client not be written to.
    fn after_outbound_error(&mut self, broken: Broken, now: Instant) -> Next {
        match broken {
            Broken::Source(_) => self.endpoint_failed(now),
            Broken::Destination(_) => {
                self.reset_both();
                Next::End
            }
        }
    }

    /// The client cannot be read, or the endpoint not be written to.
    fn after_inbound_error(&mut self, broken: Broken, tools: &mut Tools, now: Instant) -> Next {
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
                self.endpoint_failed(now)
            }
        }
    }

    /// What the endpoint sent before its reset still belongs to the client.
    fn drain_answer(&mut self, tools: &mut Tools) {
        if let (Some(client), Some(endpoint)) = (&self.client, &self.endpoint) {
            let before = self.outbound.delivered();
            self.outbound.assume_ready();
            let ends = Ends { source: endpoint.as_fd(), destination: client.as_fd(), portal: &self.portal };
            let _ = self.outbound.advance(ends, tools);
            let moved = self.outbound.delivered() - before;
            if moved > 0 {
                self.count(0, moved);
            }
        }
    }

    /// The endpoint has reset the connection. If no byte was passed on, another one can take its place.
    fn endpoint_failed(&mut self, now: Instant) -> Next {
        if self.is_fault_of_endpoint(now)
            && let Some(endpoint) = self.endpoint_address
        {
            self.portal.blame(endpoint, now);
        }
        if self.dial.is_some() && !self.is_half_open {
            self.portal.count(|counters| &counters.dial_failures, 1);
            self.endpoint = None;
            self.outbound = Direction::default();
            self.inbound.destination_replaced();
            return Next::DialAgain;
        }
        self.reset_both();
        Next::End
    }

    /// Whether nothing that the client did can have led to a reset: it reached the endpoint with no byte and no end, and there
    /// was no time to be idle in. Otherwise a client could have endpoints set aside that serve others well.
    fn is_fault_of_endpoint(&self, now: Instant) -> bool {
        self.inbound.delivered() == 0
            && self.outbound.delivered() == 0
            && !self.is_half_open
            // The time of the connection, as long as no byte has passed.
            && now.saturating_duration_since(self.last_active) < AT_ONCE
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
        if self.stage == Stage::Relaying {
            self.settled();
        }
        self.stage = Stage::Ended;
        self.client = None;
        self.endpoint = None;
        self.inbound = Direction::default();
        self.outbound = Direction::default();
        self.dial = None;
        self.portal.close(Opened::Connection);
    }
}
