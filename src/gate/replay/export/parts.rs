//! Arguments of calls to models, put together from what earlier calls stored.

use super::step::{absence, bound, bound_to};
use crate::domain::json::{Json, Limits};
use crate::evidence::payloads::Payloads;
use crate::evidence::projection::decides;
use crate::ledger::verify::EntryLine;
use crate::record::Role;
use crate::record::conversation::References;
use crate::replay::flaw::Absence;
use crate::replay::messages::recorded_name;
use crate::verify::conversation::RunMessages;

/// The arguments of one step that are stored in parts.
pub(super) struct StepParts {
    /// Put together: messages in normal form.
    pub whole: Json,
    /// As they are stored.
    pub stored: Json,
    /// What binds the parts, as a step records it.
    pub bound: Vec<Json>,
}

/// The arguments of this decision, if they are stored in parts.
pub(super) fn in_parts(
    main: &EntryLine,
    (payloads, said): (&Payloads, &EarlierMessages<'_>),
    args: Option<&Json>,
) -> Result<Option<StepParts>, (Role, Absence)> {
    let in_parts = main.decision().is_some_and(|decided| decided.args_bytes.is_some());
    let Some(args) = args.filter(|_| in_parts) else { return Ok(None) };
    let take = |role| bound(payloads, main, role).map_err(|why| (role, why));
    let list = take(Role::Conversation)?;
    let whole = said.messages.whole(args, &said.payloads).ok_or_else(|| {
        let missing = said.messages.missing(&list.c, &said.payloads);
        let missing = missing.and_then(|c| said.payloads.0.get(&c));
        (Role::Message, absence(missing, 0))
    })?;
    let json = |body: &[u8]| Json::parse(body, &Limits::FILE).unwrap_or(Json::Null);
    let order = list.body.as_deref().map_or(Json::Null, json);
    let mut stored = vec![("args", args.clone()), ("conversation", order)];
    let mut commitments = vec![list.commitment];
    let references = References::of(args);
    for (name, c) in references.into_iter().flat_map(|all| all.apart) {
        // A call before this one has the others.
        let Some(own) = main.entry.draft.commit.iter().find(|own| own.c.0 == c) else { continue };
        let member = bound_to(payloads, own).map_err(|why| (own.role, why))?;
        let text = member.body.and_then(|body| String::from_utf8(body).ok());
        stored.extend(text.map(|text| (recorded_name(name), Json::from(text))));
        commitments.push(member.commitment);
    }
    for message in main.entry.draft.commit.iter().filter(|c| c.role == Role::Message) {
        let message = bound_to(payloads, message).map_err(|why| (Role::Message, why))?;
        commitments.push(message.commitment);
    }
    Ok(Some(StepParts { whole, stored: Json::object(stored), bound: commitments }))
}

/// What the runs of a recording said to models before a call, and in it.
#[derive(Default)]
pub(super) struct EarlierMessages<'a> {
    messages: RunMessages<'a>,
    /// Messages, their order, offered tools and instructions.
    payloads: Payloads,
}

impl<'a> EarlierMessages<'a> {
    /// Adds a call. `model`: its tool is a model.
    pub fn add(&mut self, lines: &[&'a EntryLine], payloads: &Payloads, model: bool) {
        for line in lines.iter().filter(|line| model && decides(line)) {
            for commitment in &line.entry.draft.commit {
                let kept = match commitment.role {
                    Role::Message
                    | Role::Conversation
                    | Role::Offer
                    | Role::Instructions
                    | Role::Args => true,
                    Role::Result
                    | Role::PolicyInput
                    | Role::Approval
                    | Role::Raw
                    | Role::PreImage
                    | Role::Tools
                    | Role::Stream => false,
                };
                if let Some(payload) = payloads.0.get(&commitment.c).filter(|_| kept) {
                    self.payloads.0.insert(commitment.c.0, payload.clone());
                }
            }
            self.messages.add(line, &self.payloads);
        }
    }
}
