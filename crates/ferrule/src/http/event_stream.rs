//! Server-sent events: a response that goes on until the client is gone, the connection is too old or the process ends.
//!
//! A message is made when there is room to send it, so a slow reader gets fewer messages, never older ones, and holds nothing but
//! its connection. Reading nothing at all is ended by [`super::guarded_stream`].

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Frame, SizeHint};
use tokio::sync::mpsc;

use super::{EventStream, Response};

/// No more than two messages a second.
const MIN_INTERVAL: Duration = Duration::from_millis(500);
/// Something is sent at least this often, so that proxies keep the connection and a client that is gone is noticed.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The body of a response.
#[derive(Debug)]
pub enum Body {
    /// All of it is there.
    Whole(Full<Bytes>),
    /// Messages as they come.
    Events(mpsc::Receiver<Bytes>),
}

impl Body {
    /// A body that is complete.
    pub fn whole(bytes: Bytes) -> Self {
        Self::Whole(Full::new(bytes))
    }

    /// Begins to send events. What makes them ends when the body is dropped.
    pub fn events(stream: EventStream) -> Self {
        let (tx, rx) = mpsc::channel(1);
        tokio::spawn(feed(stream, tx));
        Self::Events(rx)
    }
}

/// The head of the response.
pub fn head() -> Response {
    Response::new("text/event-stream", 200, "")
        .with("cache-control", "no-store")
        .with("cross-origin-resource-policy", "same-origin")
}

async fn feed(mut stream: EventStream, tx: mpsc::Sender<Bytes>) {
    let mut is_new = true;
    loop {
        let Ok(room) = tx.reserve().await else { return };
        let text = if is_new { message(&mut stream) } else { ": still here\n\n".to_owned() };
        room.send(text.into());
        is_new = tokio::select! {
            () = tx.closed() => return,
            is_new = next(&mut stream) => is_new,
        };
    }
}

fn message(stream: &mut EventStream) -> String {
    stream.changes.mark_unchanged();
    format!("data: {}\n\n", (stream.message.0)())
}

/// Waits for something new; returns whether there is.
async fn next(stream: &mut EventStream) -> bool {
    tokio::time::sleep(MIN_INTERVAL).await;
    tokio::time::timeout(HEARTBEAT, stream.changes.changed()).await.is_ok_and(|changed| changed.is_ok())
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(context),
            Self::Events(rx) => rx.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Events(_) => SizeHint::default(),
        }
    }
}
