//! A complete list in one response.

use http::Response;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::timeout;
use tracing::debug;

use super::super::ApiError;
use super::super::connection::{ApiRequest, RESPONSE_TIMEOUT};
use super::super::events::{Encoding, ReadError};
use super::super::list_parser::ListParser;
use super::super::list_strategy::ListStrategy;
use super::super::seen_versions::{Missing, PendingList};
use super::Reflector;
use crate::MassRemoval;

/// The first list is reported in chunks of this many objects, so that the loop works while the rest arrives.
const LIST_CHUNK: usize = 256;

impl Reflector<'_> {
    pub(super) async fn list(&mut self, strategy: ListStrategy) -> Result<(), ApiError> {
        let request = self.resource.list_request(self.not_older_than(strategy));
        let response = self.connection.send(&request).await.inspect_err(|error| {
            // The version may be another server's, or newer than a restored store.
            if !error.is_transport() {
                self.newest_seen = None;
            }
        })?;
        debug!(kind = %self.resource.kind, ?strategy, encoding = ?Encoding::from_headers(response.headers()), "Listing");
        let result = self.read_list(&request, response).await;
        if strategy == ListStrategy::Consistent && result.as_ref().is_err_and(ApiError::is_transport) {
            // An API server cuts a response off after a minute. A watch has no such limit, so a slow link streams.
            self.strategy = Some(ListStrategy::Streamed);
        }
        result
    }

    /// The first list may be of any state, unless the newest is cheap for the server; a later one must not be older than
    /// ours.
    fn not_older_than(&self, strategy: ListStrategy) -> Option<&str> {
        match (strategy, &self.newest_seen) {
            (ListStrategy::Consistent, _) => None,
            (ListStrategy::Streamed | ListStrategy::Cached, Some(version)) => Some(version),
            (ListStrategy::Streamed | ListStrategy::Cached, None) => (!self.is_in_sync).then_some("0"),
        }
    }

    async fn read_list(
        &mut self,
        request: &ApiRequest,
        response: Response<Incoming>,
    ) -> Result<(), ApiError> {
        let encoding = Encoding::from_headers(response.headers());
        let mut parser = ListParser::new(encoding, self.resource.type_name());
        let (mut list, mut bytes) = (PendingList::default(), 0);
        let mut body = response.into_body();
        loop {
            let Ok(frame) = timeout(RESPONSE_TIMEOUT, body.frame()).await else {
                return Err(self.cut_off(request, "it stopped arriving".into()));
            };
            let Some(frame) = frame else { break };
            let broken = |error: hyper::Error| ApiError::transport(self.connection.describe(request), &error);
            let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
            bytes += data.len();
            let parsed = self.parse_items(&mut parser, &data, &mut list);
            parsed.map_err(|error| self.unreadable(request, error.to_string()))?;
        }
        self.connection.report_response(request, bytes);
        let version = parser.finish().map_err(|error| match error {
            ReadError::EndsEarly => self.cut_off(request, "it ended too early".into()),
            error => self.unreadable(request, error.to_string()),
        })?;
        self.complete_list(list, version);
        Ok(())
    }

    fn parse_items(
        &mut self,
        parser: &mut ListParser,
        data: &[u8],
        list: &mut PendingList,
    ) -> Result<(), ReadError> {
        let mut result = Ok(());
        parser.feed(data, |object| {
            if let Err(error) = self.put_in_list(object, list) {
                result = Err(error);
            }
        })?;
        if parser.is_type_confirmed() {
            self.report_chunk(list);
        }
        result
    }

    /// Reports what has arrived of the first list. A later list is reported as a whole: the loop acts upon changes then,
    /// and must not see half of them.
    pub(super) fn report_chunk(&mut self, list: &mut PendingList) {
        if !self.is_in_sync && list.unreported() >= LIST_CHUNK {
            self.reporter.changes(self.seen.take_chunk(list));
        }
    }

    pub(super) fn complete_list(&mut self, list: PendingList, version: String) {
        let Missing { known, removed } = self.seen.missing_from(&list);
        if let Some(removal) = MassRemoval::detect(self.resource.kind, removed, known) {
            self.reporter.mass_removal(removal, &version);
        }
        self.reporter.changes(self.seen.replace(list));
        self.set_version(version);
        if !std::mem::replace(&mut self.is_in_sync, true) {
            self.reporter.in_sync(self.resource.kind);
        }
        self.reporter.watch_succeeded(self.resource.kind);
    }
}
