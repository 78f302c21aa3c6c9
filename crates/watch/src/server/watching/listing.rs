//! All there is of a kind, in one answer.

use http::Response;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::timeout;
use tracing::debug;

use super::super::connection::{Ask, PATIENCE};
use super::super::events::{Encoding, ReadError};
use super::super::items::Items;
use super::super::known::Listing;
use super::super::lists::Lists;
use super::super::{ApiError, Batch};
use super::Watching;
use crate::MassRemoval;

/// A first list is told in portions of so many objects: the sink takes them in while the rest is on its way.
const PORTION: usize = 256;

impl Watching<'_> {
    /// Lists, to the end.
    pub(super) async fn list(&mut self, lists: Lists) -> Result<(), ApiError> {
        let ask = self.resource.list(self.not_older_than(lists));
        let response = self.connection.send(&ask).await.inspect_err(|error| {
            // It may be of another server's time, or of a future that a restored store does not know.
            if !error.is_transport() {
                self.reached = None;
            }
        })?;
        let came = self.take_list(&ask, response, lists).await;
        if lists == Lists::Newest && came.as_ref().is_err_and(ApiError::is_transport) {
            // An API server ends an answer after a minute; not so a watch, for those to whom a minute is too short.
            self.lists = Some(Lists::Streamed);
        }
        came
    }

    /// The version a list must not be older than. Any state will do at first, if the newest is not cheap for the server; later
    /// only one that is not older than ours.
    fn not_older_than(&self, lists: Lists) -> Option<&str> {
        match (lists, &self.reached) {
            (Lists::Newest, _) => None,
            (_, Some(version)) => Some(version),
            (_, None) => (!self.is_in_sync).then_some("0"),
        }
    }

    async fn take_list(
        &mut self,
        ask: &Ask,
        response: Response<Incoming>,
        lists: Lists,
    ) -> Result<(), ApiError> {
        let encoding = Encoding::of(response.headers());
        debug!(kind = %self.resource.kind, ?lists, ?encoding, "Listing");
        let (mut items, mut listing, mut bytes) =
            (Items::new(encoding, self.resource.type_name()), Listing::default(), 0);
        let mut body = response.into_body();
        loop {
            let Ok(frame) = timeout(PATIENCE, body.frame()).await else {
                return Err(self.cut_off(ask, "it stopped coming".into()));
            };
            let Some(frame) = frame else { break };
            let broken = |error: hyper::Error| ApiError::transport(self.connection.what(ask), &error);
            let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
            bytes += data.len();
            let taken = self.take_items(&mut items, &data, &mut listing);
            taken.map_err(|error| self.unreadable(ask, error.to_string()))?;
        }
        self.connection.answered(ask, bytes);
        let version = items.finish().map_err(|error| match error {
            ReadError::EndsEarly => self.cut_off(ask, "it ended too early".into()),
            error => self.unreadable(ask, error.to_string()),
        })?;
        self.complete(listing, version);
        Ok(())
    }

    /// Takes more of a list.
    fn take_items(&mut self, items: &mut Items, data: &[u8], listing: &mut Listing) -> Result<(), ReadError> {
        let mut taken = Ok(());
        items.feed(data, |object| {
            if let Err(error) = self.put(object, Some(listing), &mut Batch::default()) {
                taken = Err(error);
            }
        })?;
        if items.is_of_wanted_type() {
            self.tell_portion(listing);
        }
        taken
    }

    /// Tells what came of a list though the rest is not there, before the first one is complete: until then nobody acts upon
    /// Services and endpoints.
    pub(super) fn tell_portion(&mut self, listing: &mut Listing) {
        if !self.is_in_sync && listing.untold() >= PORTION {
            self.reporter.changes(self.known.put_so_far(listing));
        }
    }

    /// All of a list has come.
    pub(super) fn complete(&mut self, list: Listing, version: String) {
        let (known, removed) = self.known.lacking(&list);
        if let Some(mass) = MassRemoval::of(self.resource.kind, removed, known) {
            self.reporter.mass_removal(mass, &version);
        }
        self.reporter.changes(self.known.replace(list));
        self.reached(version);
        if !std::mem::replace(&mut self.is_in_sync, true) {
            self.reporter.in_sync(self.resource.kind);
        }
        self.reporter.success(self.resource.kind);
    }
}
