//! A connection's socket with a write timeout, so that a client that stops reading cannot hold it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::connections::ConnectionGuard;

/// A stream that fails if nothing can be written for a while, and that reports when everything was.
#[derive(Debug)]
pub struct GuardedStream<S> {
    stream: S,
    guard: Arc<ConnectionGuard>,
    max_stall: Duration,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> GuardedStream<S> {
    /// Fails once a write has stalled for `max_stall`.
    pub fn new(stream: S, guard: Arc<ConnectionGuard>, max_stall: Duration) -> Self {
        Self { stream, guard, max_stall, stalled: None }
    }

    /// The result of a write, or a timeout.
    fn checked(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(self.max_stall)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for GuardedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for GuardedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.checked(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.checked(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called once everything was written.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.guard.responses_sent();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;
    use crate::http::connections::{Connections, PortKind};

    const BRIEFLY: Duration = Duration::from_millis(50);

    async fn guarded(buffer: usize) -> (GuardedStream<tokio::io::DuplexStream>, tokio::io::DuplexStream) {
        let connections = Arc::new(Connections::new(64));
        let permit = connections.acquire(PortKind::Metrics).await;
        let (ours, theirs) = duplex(buffer);
        (GuardedStream::new(ours, Arc::new(connections.register(PortKind::Metrics, permit)), BRIEFLY), theirs)
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(test);
    }

    #[test]
    fn a_client_that_stops_reading_is_cut() {
        run(async {
            let (mut stream, _client) = guarded(1000).await;
            let cut = stream.write_all(&[0; 10_000]).await;
            assert_eq!(cut.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
        });
    }

    #[test]
    fn a_client_that_reads_slowly_is_not() {
        run(async {
            let (mut stream, mut client) = guarded(1000).await;
            let sending = tokio::spawn(async move { stream.write_all(&[0; 5000]).await });
            let mut read = 0;
            while read < 5000 {
                sleep(BRIEFLY / 2).await;
                read += client.read(&mut [0; 500]).await.expect("something");
            }
            sending.await.expect("no panic").expect("all was sent");
        });
    }
}
