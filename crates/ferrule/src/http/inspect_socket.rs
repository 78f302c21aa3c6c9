//! The unix socket on which the running proxy answers questions of commands.
//!
//! A process that starts while another one still has the socket waits for it to end. Nothing but answers depends on the
//! socket: if it cannot be opened, that is logged once and the proxy serves on.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferrule_kernel::local_socket::{ListenError, ListeningPath, listen};
use ferrule_model::ReportOnce;
use tokio::task::AbortHandle;
use tracing::{info, warn};

use super::connections::PortKind;
use super::runtime::{HttpRuntime, serve_opened};
use super::{Handler, InspectHandler};

/// How often a socket that could not be opened is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Where questions are answered, until this is dropped.
#[derive(Debug)]
pub struct InspectSocket {
    /// There while this process listens.
    listening: Arc<Mutex<Option<ListeningPath>>>,
    task: AbortHandle,
}

impl InspectSocket {
    /// Begins to listen at a path, now or as soon as that is possible.
    pub fn serve(path: PathBuf, handler: InspectHandler, http: &HttpRuntime) -> Self {
        let listening = Arc::new(Mutex::new(None));
        let server = http.server(PortKind::Inspect, Arc::new(handler) as Arc<dyn Handler>);
        let kept = Arc::clone(&listening);
        let mut failure = ReportOnce::default();
        let work = async move {
            loop {
                if let Some(socket) = opened(&path, &kept, &mut failure) {
                    let error = serve_opened(Arc::clone(&server), socket).await;
                    warn!(err = %error, path = %path.display(), "The socket for questions failed, retrying every 5s");
                }
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
        };
        let task = http.handle(PortKind::Inspect).spawn(work).abort_handle();
        Self { listening, task }
    }
}

impl Drop for InspectSocket {
    fn drop(&mut self) {
        self.task.abort();
        self.listening.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// The socket, if it can be opened. A failure is logged once.
fn opened(
    path: &Path,
    listening: &Mutex<Option<ListeningPath>>,
    failure: &mut ReportOnce<String>,
) -> Option<OwnedFd> {
    let mut listening = listening.lock().unwrap_or_else(PoisonError::into_inner);
    // The file of a socket that failed goes before a new one is made.
    *listening = None;
    match listen(path) {
        Ok((socket, path)) => {
            *listening = Some(path);
            failure.is_over();
            Some(socket)
        }
        Err(error) => {
            if failure.is_new(error.to_string()) {
                log(path, &error);
            }
            None
        }
    }
}

fn log(path: &Path, error: &ListenError) {
    let path = path.display();
    match error {
        ListenError::InUse => {
            info!(%path, "Another process answers questions at this path, waiting until it ends");
        }
        ListenError::NotASocket | ListenError::Failed(_) => {
            info!(%path, err = %error, "Questions are not answered at this path, trying again every 5s");
        }
    }
}
