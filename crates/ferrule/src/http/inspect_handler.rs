//! `/ferrule/v1/…`: questions about this node, answered as JSON. Read-only, without secrets.
//!
//! Answers are worked out from a snapshot, on a thread that may take its time; the loop goes on. What costs a reading of the
//! kernel is answered on the unix socket alone, one question at a time: anyone can reach the metrics address.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferrule_backends::BackendError;
use ferrule_backends::counters::SharedReading;
use ferrule_model::{IpFamily, with_causes};
use serde::Serialize;
use serde_json::json;
use tokio::sync::Semaphore;

use super::{BlockingResponse, EventStream, Handler, MakeMessage, Method, Request, Response};
use crate::history::History;
use crate::questions::query::{self, Parameters};
use crate::questions::{
    DiffAnswer, QuestionError, counters, diff, explain, history, kernel, plan, service, services, status,
};
use crate::run::{InspectError, Inspector, Snapshot};

/// How all of its paths begin.
const PREFIX: &str = "/ferrule/v1/";

/// A sync of iptables rules may take this long and more; a client that asks again then is served.
const TIMEOUT: Duration = Duration::from_secs(5);
/// More frontends than this are not listed on the metrics address.
const MAX_FRONTENDS: usize = 1000;
/// More clients than this do not listen to events at a time.
const MAX_STREAMS: usize = 8;
/// What a sync leaves for packets under way is gone after this.
const SETTLE_TIME: Duration = Duration::from_millis(50);
/// A cluster that changes all the time is compared as it is after this many readings.
const MAX_READINGS: usize = 3;

/// Where questions come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Surface {
    /// The unix socket, which is root's alone.
    Socket,
    /// The metrics address.
    Network,
}

/// Answers questions.
#[derive(Clone)]
pub struct InspectHandler {
    inspector: Inspector,
    surface: Surface,
    history: Arc<History>,
    /// Held while the kernel is read.
    reading: Arc<Mutex<()>>,
    streams: Arc<Semaphore>,
    /// Read at most once a second, however many ask.
    counters: Option<Arc<SharedReading>>,
}

impl InspectHandler {
    /// For the unix socket.
    pub fn on_socket(inspector: Inspector, history: Arc<History>) -> Self {
        Self::new(inspector, history, Surface::Socket)
    }

    /// For the metrics address.
    pub fn on_network(inspector: Inspector, history: Arc<History>) -> Self {
        Self::new(inspector, history, Surface::Network)
    }

    fn new(inspector: Inspector, history: Arc<History>, surface: Surface) -> Self {
        let streams = Arc::new(Semaphore::new(MAX_STREAMS));
        Self { inspector, surface, history, reading: Arc::default(), streams, counters: None }
    }

    /// Answers questions about counters as well, if there are any.
    #[must_use]
    pub fn with_counters(self, counters: Option<Arc<SharedReading>>) -> Self {
        Self { counters, ..self }
    }

    fn stream(&self) -> Result<EventStream, Response> {
        let Ok(permit) = Arc::clone(&self.streams).try_acquire_owned() else {
            return Err(problem(503, "too many clients listen already, ask /ferrule/v1/history instead"));
        };
        let history = Arc::clone(&self.history);
        let message = MakeMessage(Box::new(move || history::summary(&history)));
        Ok(EventStream { changes: self.history.subscribe(), message, permit })
    }
}

impl Handler for InspectHandler {
    fn handle(&self, _: &Request) -> Response {
        problem(
            404,
            "no such page; there are status, services, service, plan, explain, diff, counters, history and events",
        )
    }

    fn events(&self, request: &Request) -> Option<Result<EventStream, Response>> {
        (request.path.strip_prefix(PREFIX)? == "events").then(|| match request.method {
            Method::Get => self.stream(),
            Method::Put | Method::Delete | Method::Other => Err(only_get()),
        })
    }

    fn handle_blocking(&self, request: &Request) -> Option<BlockingResponse> {
        let question = Question::of(request.path.strip_prefix(PREFIX)?)?;
        let parameters = Parameters::parse(&request.query);
        let is_get = request.method == Method::Get;
        let handler = self.clone();
        Some(Box::new(move |is_cancelled| {
            if !is_get {
                return only_get();
            }
            let asking = Asking { handler: &handler, parameters: &parameters, is_cancelled };
            match asking.answer(question) {
                Ok(response) => response,
                Err(NoAnswer::Question(error)) => problem(400, &error.to_string()),
                Err(NoAnswer::Loop(error)) => problem(503, &error.to_string()),
                Err(NoAnswer::Reading(error)) => problem(503, &with_causes(&error)),
                Err(NoAnswer::NotHere) => problem(
                    403,
                    "this reads the kernel and is answered on the unix socket only (--inspect-socket)",
                ),
            }
        }))
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Status,
    Plan,
    Explain,
    Diff,
    Services,
    Service,
    History,
    Counters,
}

impl Question {
    fn of(word: &str) -> Option<Self> {
        match word {
            "status" => Some(Self::Status),
            "plan" => Some(Self::Plan),
            "explain" => Some(Self::Explain),
            "diff" => Some(Self::Diff),
            "services" => Some(Self::Services),
            "service" => Some(Self::Service),
            "history" => Some(Self::History),
            "counters" => Some(Self::Counters),
            _ => None,
        }
    }
}

/// Why there is no answer.
enum NoAnswer {
    Question(QuestionError),
    Loop(InspectError),
    Reading(BackendError),
    NotHere,
}

impl From<QuestionError> for NoAnswer {
    fn from(error: QuestionError) -> Self {
        Self::Question(error)
    }
}

impl From<InspectError> for NoAnswer {
    fn from(error: InspectError) -> Self {
        Self::Loop(error)
    }
}

/// One question, on the thread that answers it.
struct Asking<'a> {
    handler: &'a InspectHandler,
    parameters: &'a Parameters,
    is_cancelled: &'a AtomicBool,
}

impl Asking<'_> {
    fn answer(&self, question: Question) -> Result<Response, NoAnswer> {
        match question {
            Question::Status => Ok(page(&status::answer(&self.snapshot()?))),
            Question::Plan => self.plan(),
            Question::Explain => self.explain(),
            Question::Diff => self.diff(),
            Question::Services => self.services(),
            Question::Service => self.service(),
            Question::History => {
                query::bare_question(self.parameters)?;
                Ok(page(&history::answer(&self.handler.history)))
            }
            Question::Counters => self.counters(),
        }
    }

    fn services(&self) -> Result<Response, NoAnswer> {
        let question = query::services_question(self.parameters)?;
        // The snapshot is gone before the answer is written: a change must not copy the cluster meanwhile.
        let answer = services::answer(&self.snapshot()?, &question);
        Ok(page(&answer))
    }

    fn service(&self) -> Result<Response, NoAnswer> {
        let name = query::service_question(self.parameters)?;
        let answer = service::answer(&self.snapshot()?, &name)?;
        Ok(page(&answer))
    }

    fn snapshot(&self) -> Result<Snapshot, InspectError> {
        self.handler.inspector.snapshot(TIMEOUT, || self.is_cancelled.load(Ordering::Relaxed))
    }

    fn plan(&self) -> Result<Response, NoAnswer> {
        let mut question = query::plan_question(self.parameters)?;
        if self.handler.surface == Surface::Network {
            question.limit = Some(question.limit.map_or(MAX_FRONTENDS, |limit| limit.min(MAX_FRONTENDS)));
        }
        Ok(page(&plan::answer(&self.snapshot()?, &question)))
    }

    fn explain(&self) -> Result<Response, NoAnswer> {
        let question = query::explain_question(self.parameters)?;
        let snapshot = self.snapshot()?;
        let mut explained = explain::answer(&snapshot.explainer(), snapshot.mode, &question)?;
        explained.answer.pending_changes = snapshot.has_pending_changes;
        let reads_kernel =
            self.handler.surface == Surface::Socket && self.parameters.get("kernel") != Some("false");
        let (verdict, detail) = if reads_kernel {
            self.kernel(&snapshot, &explained)
        } else {
            kernel::unknown("the kernel was not read".to_owned())
        };
        explained.answer.kernel = verdict;
        explained.answer.kernel_detail = detail;
        Ok(page(&explained.answer))
    }

    fn kernel(
        &self,
        snapshot: &Snapshot,
        explained: &explain::Explained,
    ) -> (crate::questions::KernelVerdict, crate::questions::KernelDetail) {
        let _reading = self.handler.reading.lock().unwrap_or_else(PoisonError::into_inner);
        kernel::answer(snapshot, explained)
    }

    fn counters(&self) -> Result<Response, NoAnswer> {
        let question = query::counters_question(self.parameters)?;
        let Some(counters) = &self.handler.counters else { return Ok(page(&counters::disabled())) };
        let reading = counters.get().map_err(NoAnswer::Reading)?;
        Ok(page(&counters::answer(&reading, &question)))
    }

    fn diff(&self) -> Result<Response, NoAnswer> {
        if self.handler.surface == Surface::Network {
            return Err(NoAnswer::NotHere);
        }
        query::diff_question(self.parameters)?;
        let _reading = self.handler.reading.lock().unwrap_or_else(PoisonError::into_inner);
        match self.parameters.get("manifests") {
            Some(folder) => self.diff_of_folder(Path::new(folder)),
            None => self.diff_of_cluster(),
        }
    }

    /// What the proxy is about to write anyway is not a difference: the kernel is read again if anything happened meanwhile.
    fn diff_of_cluster(&self) -> Result<Response, NoAnswer> {
        let mut snapshot = self.snapshot()?;
        let mut answer = self.compared(&snapshot)?;
        for _ in 1..MAX_READINGS {
            let is_empty = answer.families.values().all(|diff| diff.lines.is_empty());
            if is_empty || self.is_cancelled.load(Ordering::Relaxed) {
                break;
            }
            std::thread::park_timeout(SETTLE_TIME);
            let now = self.snapshot()?;
            let is_settled = is_same_state(&snapshot, &now) && !was_just_synced(&snapshot);
            snapshot = now;
            if is_settled {
                break;
            }
            answer = self.compared(&snapshot)?;
        }
        Ok(page(&answer))
    }

    fn compared(&self, snapshot: &Snapshot) -> Result<DiffAnswer, InspectError> {
        if let Some(answer) = diff::answer(snapshot) {
            return Ok(answer);
        }
        let diffs = self.handler.inspector.diff(TIMEOUT, || self.is_cancelled.load(Ordering::Relaxed))?;
        Ok(diff::of(snapshot, &diffs))
    }

    fn diff_of_folder(&self, folder: &Path) -> Result<Response, NoAnswer> {
        let mut snapshot = self.snapshot()?;
        let cluster = diff::cluster_of_folder(folder, &snapshot.view.name, &snapshot.cluster)?;
        snapshot.plan = Arc::new(ferrule_plan::plan(&cluster, &snapshot.view).0);
        let answer = diff::answer(&snapshot).ok_or_else(|| {
            QuestionError("in this mode only the plan of the running proxy can be compared".to_owned())
        })?;
        Ok(page(&DiffAnswer { with: "manifests".to_owned(), ..answer }))
    }
}

/// Whether nothing was planned or synced between two snapshots.
fn is_same_state(one: &Snapshot, other: &Snapshot) -> bool {
    let synced_at = |snapshot: &Snapshot, family| {
        snapshot.families.get(family).and_then(|status| status.last_sync.as_ref()).map(|sync| sync.at)
    };
    Arc::ptr_eq(&one.plan, &other.plan)
        && !other.has_pending_changes
        && IpFamily::BOTH.into_iter().all(|family| synced_at(one, family) == synced_at(other, family))
}

/// Whether a sync may still have to remove what packets under way needed.
fn was_just_synced(snapshot: &Snapshot) -> bool {
    let mut syncs = snapshot.families.iter().filter_map(|(_, status)| status.last_sync.as_ref());
    syncs.any(|sync| sync.at.monotonic.elapsed() < 3 * SETTLE_TIME)
}

fn page(answer: &impl Serialize) -> Response {
    match serde_json::to_string_pretty(answer) {
        Ok(text) => for_this_site(Response::json(200, text + "\n")),
        Err(error) => problem(500, &error.to_string()),
    }
}

fn only_get() -> Response {
    problem(405, "questions are asked with GET").with("allow", "GET, HEAD")
}

fn problem(status: u16, text: &str) -> Response {
    for_this_site(Response::json(status, format!("{:#}\n", json!({ "error": text }))))
}

/// Other web sites can neither read an answer nor use it otherwise.
fn for_this_site(response: Response) -> Response {
    response.with("cache-control", "no-store").with("cross-origin-resource-policy", "same-origin")
}
