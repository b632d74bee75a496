//! What a policy is shown of the messages of a call to a model, and of what the firewall found there.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::facts::{BYPASSED, Finding, FindingAge};
use crate::domain::json::Json;
use crate::firewall::{self, Hit};
use crate::judge::conversation::{KnownMessage, KnownRest};
use crate::record::conversation::normal;

/// The most text that a policy is shown of new messages.
const SHOWN_MAX: usize = 64 * 1024;

/// One message of the call that is being prepared.
pub(super) struct ReadMessage<'a> {
    pub json: &'a Json,
    pub exact: Cow<'a, [u8]>,
    pub known: KnownMessage,
    pub is_new: bool,
    /// It has the result of a tool of the gate that the agent ran itself.
    pub is_bypassed: bool,
}

impl ReadMessage<'_> {
    /// The normal form. WHY made where it is needed: of a message that is stored, nothing needs it.
    pub fn normal(&self) -> Cow<'_, [u8]> {
        if self.known.normal == self.known.exact {
            return Cow::Borrowed(&self.exact);
        }
        Cow::Owned(canonical::bytes(&normal(self.json)))
    }
}

/// The arguments beside the messages of the call that is being prepared.
pub(super) struct ReadRest {
    pub known: KnownRest,
    /// The members that a policy sees by their digest only: the same arguments were allowed before.
    pub digests: BTreeMap<&'static str, Json>,
}

impl ReadRest {
    /// Whether a finding is in one of those members.
    fn hides(&self, finding: &Hit) -> bool {
        let member = finding.path.split('/').nth(1);
        member.is_some_and(|member| self.digests.contains_key(member))
    }
}

/// The new messages as a policy sees them, and how many of them without their text. The last ones
/// are shown first: they are what the model is to answer.
pub(super) fn shown(read: &[ReadMessage<'_>]) -> (Vec<Json>, usize) {
    let (mut left, mut cut) = (SHOWN_MAX, 0_usize);
    let new = read.iter().rev().filter(|message| message.is_new);
    let mut all: Vec<Json> = new
        .map(|message| match left.checked_sub(message.exact.len()) {
            Some(rest) => {
                left = rest;
                message.json.clone()
            }
            None => {
                cut = cut.saturating_add(1);
                let normal = message.normal();
                let sha256 = Digest::of(&[&normal]).hex();
                let bytes = number(normal.len());
                let role = message.json.get("role").cloned().unwrap_or(Json::Null);
                let members = [("bytes", bytes.into()), ("sha256", sha256.into()), ("role", role)];
                Json::object(members)
            }
        })
        .collect();
    all.reverse();
    (all, cut)
}

/// The arguments with the digests of these members in their place.
pub(super) fn with_digests(args: Json, digests: &BTreeMap<&'static str, Json>) -> Json {
    let Json::Object(mut members) = args else { return args };
    members.extend(digests.iter().map(|(name, digest)| ((*name).to_owned(), digest.clone())));
    Json::Object(members)
}

/// The findings, each with its place: for a new message among the messages that are shown, for an
/// earlier one in the whole conversation, which is the member `list`. `all`: everything is shown.
pub(super) fn found(
    (list, rest): (&str, &ReadRest),
    read: &[ReadMessage<'_>],
    all: bool,
) -> Vec<Finding> {
    let of_rest = rest.known.findings.iter().map(|one| {
        let since = if !all && rest.hides(one) { FindingAge::Earlier } else { FindingAge::New };
        one.finding(one.path.clone(), since)
    });
    let mut found: BTreeSet<Finding> = of_rest.collect();
    let mut at_new = 0_usize;
    for (index, message) in read.iter().enumerate() {
        let is_new = all || message.is_new;
        let at = if is_new && !all { at_new } else { index };
        at_new = at_new.saturating_add(usize::from(message.is_new));
        let since = if is_new { FindingAge::New } else { FindingAge::Earlier };
        let placed = message.known.findings.iter();
        let placed = placed.map(|one| one.finding(format!("/{list}/{at}{}", one.path), since));
        found.extend(placed);
        if message.is_bypassed {
            let path = format!("/{list}/{at}");
            found.insert(Finding { since, ..Finding::new(BYPASSED, path) });
        }
    }
    firewall::bounded(found)
}

/// All findings with their places in the whole conversation, which is the member `list`.
pub(super) fn hits((list, rest): (&str, &ReadRest), read: &[ReadMessage<'_>]) -> Vec<Hit> {
    let of_messages = read.iter().enumerate().flat_map(|(index, message)| {
        message.known.findings.iter().map(move |one| {
            let mut placed = one.clone();
            placed.path = format!("/{list}/{index}{}", one.path);
            placed
        })
    });
    rest.known.findings.iter().cloned().chain(of_messages).collect()
}

pub(super) fn number(of: usize) -> u64 {
    u64::try_from(of).unwrap_or(u64::MAX)
}
