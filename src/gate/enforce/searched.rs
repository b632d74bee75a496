//! The search through a request for tokens and credentials: once for each message of a run.

use super::conversations::RunConversations;
use crate::domain::sent::{MessageKey, RequestSearch, SearchedFor};
use crate::tool::scrub::Scrub;

/// The search through a request: the run knows the messages that were searched before.
pub(super) struct RunSearch<'a> {
    said: &'a RunConversations,
    scrub: &'a Scrub,
    /// WHY read before the search: a credential that changes meanwhile makes the result an old one.
    searched_for: SearchedFor,
}

impl<'a> RunSearch<'a> {
    /// A search that begins now.
    pub fn of(said: &'a RunConversations, scrub: &'a Scrub) -> Self {
        Self { said, scrub, searched_for: scrub.searched_for() }
    }
}

impl RequestSearch for RunSearch<'_> {
    fn remembers(&self, message: &[u8]) -> Option<(MessageKey, bool)> {
        self.said.remembers(message, self.searched_for)
    }

    fn search(&self, json: &[u8]) -> Option<SearchedFor> {
        (!self.scrub.hides_in(json)).then_some(self.searched_for)
    }
}
