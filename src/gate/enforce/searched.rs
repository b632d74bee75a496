//! The search through a request for tokens and credentials: once for each message of a run.

use super::Road;
use super::conversations::RunConversations;
use super::run::Run;
use crate::domain::call::{CallOrigin, DialectRequest, ToolCall};
use crate::domain::json;
use crate::domain::sent::{MessageKey, RequestSearch, SearchedFor, SentJson};
use crate::record::conversation::list_member;
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

impl Road {
    /// The call that a request to a model is, searched for tokens and credentials.
    pub(super) fn call_of_request(
        &self,
        run: &Run,
        asking: CallOrigin,
        (tool, sent): (&str, SentJson),
        request: DialectRequest,
    ) -> Result<ToolCall, json::Error> {
        let toolbox = self.in_force.toolbox();
        let (list, said) = (list_member(sent.value()), run.models.conversations.lock());
        let search = RunSearch::of(&said, toolbox.scrub());
        let asked = (request, list, &search as &dyn RequestSearch);
        ToolCall::of_request(asking, tool, sent, asked)
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
