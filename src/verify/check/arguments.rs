//! Whether the arguments in a policy's input are those of the call. Of a call to a model the input has
//! only the messages that its run had not sent before, and of long ones the digest; and the digest of
//! tools and instructions that the policy had allowed before.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::contradiction::Error;
use super::input::Input;
use crate::conversation::RunMessages;
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::facts::{BYPASSED, Finding, FindingAge};
use crate::domain::json::{Json, Limits};
use crate::firewall;
use crate::payloads::Payloads;
use crate::record::HexDigest;
use crate::record::conversation::{
    APART, MemberDigest, References, list_member, messages, normal, without_messages,
};

/// What the effect of a call to a model says about its messages.
#[derive(Deserialize)]
struct ModelEffect {
    kind: String,
    messages: Option<u64>,
    new_messages: Option<u64>,
}

/// A message that is shown without its text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CutMessage {
    bytes: u64,
    role: Json,
    sha256: HexDigest,
}

/// The arguments that a policy saw, compared with those that were stored.
pub(super) struct ShownArguments {
    /// For each shown message its index in the conversation, and whether its text is there; none
    /// for calls that are not to a model.
    shown: Option<Vec<(usize, bool)>>,
    /// The members of which it has only the digest.
    digests: BTreeSet<&'static str>,
}

/// Compares the input with the stored arguments. `None`: part of them is not disclosed.
pub(super) fn compare(
    input: &Input,
    stored: &[u8],
    (said, payloads): (&RunMessages<'_>, &Payloads),
) -> Result<Option<ShownArguments>, Error> {
    let effect: Option<ModelEffect> = input.effect.read().ok();
    let effect = effect.filter(|effect| effect.kind == "model");
    let (Some(effect), Some(seen)) = (effect, messages(&input.args)) else {
        let same = canonical::bytes(&input.args) == stored;
        let all = ShownArguments { shown: None, digests: BTreeSet::new() };
        return if same { Ok(Some(all)) } else { Err(Error::Arguments) };
    };
    let stored = Json::parse(stored, &Limits::FILE)?;
    let Some(all) = conversation(&stored, said, payloads) else { return Ok(None) };
    let rest = match References::of(&stored) {
        None => without_digests(&input.args, &stored),
        Some(references) => {
            let same = references.put(&input.args) == stored;
            apart(&input.args, &references, payloads).filter(|_| same)
        }
    };
    let digests = rest.ok_or(Error::Arguments)?;
    let Some(all) = all.into_iter().collect::<Option<Vec<Json>>>() else { return Ok(None) };
    let mut shown = Vec::new();
    let mut places = all.iter().enumerate();
    for message in seen {
        let found = places.find_map(|(index, place)| Some((index, is_it(message, place)?)));
        shown.push(found.ok_or(Error::Arguments)?);
    }
    let (count, new) = (number(all.len()), number(shown.len()));
    // Without the member, an earlier version showed every message.
    if effect.messages.is_some_and(|of| of != count) || effect.new_messages.unwrap_or(count) != new
    {
        return Err(Error::Arguments);
    }
    Ok(Some(ShownArguments { shown: Some(shown), digests }))
}

/// The messages of stored arguments, in normal form.
fn conversation(
    stored: &Json,
    said: &RunMessages<'_>,
    payloads: &Payloads,
) -> Option<Vec<Option<Json>>> {
    match References::of(stored) {
        Some(references) => said.read(&references.conversation, payloads),
        None => Some(messages(stored)?.iter().map(|message| Some(normal(message))).collect()),
    }
}

/// The members of which the input has only the digest; none if a member is not the stored one. Those
/// that are not disclosed are taken as they are.
fn apart(
    args: &Json,
    references: &References,
    payloads: &Payloads,
) -> Option<BTreeSet<&'static str>> {
    let mut digests = BTreeSet::new();
    for (name, c) in &references.apart {
        let seen = args.get(name)?;
        let has_text = match crate::conversation::json(payloads, c) {
            Some(stored) => MemberDigest::shows(seen, &stored)?,
            None => seen.read::<MemberDigest>().is_err(),
        };
        digests.extend((!has_text).then_some(*name));
    }
    Some(digests)
}

/// The same for arguments that are stored whole, of which every other member must be the same too.
fn without_digests(args: &Json, stored: &Json) -> Option<BTreeSet<&'static str>> {
    let (seen, stored) = (without_messages(args), without_messages(stored));
    let (Json::Object(mut seen), Json::Object(mut stored)) = (seen, stored) else { return None };
    let mut digests = BTreeSet::new();
    for (name, _) in APART {
        let (Some(shown), Some(member)) = (seen.get(name), stored.get(name)) else { continue };
        digests.extend((!MemberDigest::shows(shown, member)?).then_some(name));
        seen.remove(name);
        stored.remove(name);
    }
    (seen == stored).then_some(digests)
}

/// Whether the shown message is this one of the conversation; and then, whether its text is there.
fn is_it(shown: &Json, message: &Json) -> Option<bool> {
    if let Ok(CutMessage { bytes, role, sha256 }) = shown.read() {
        let written = canonical::bytes(message);
        let same = number(written.len()) == bytes
            && Digest::of(&[&written]) == sha256.0
            && *message.get("role").unwrap_or(&Json::Null) == role;
        return same.then_some(false);
    }
    (normal(shown) == *message).then_some(true)
}

impl ShownArguments {
    /// Whether the firewall finds the same in what the policy saw. What it found in messages that
    /// are not shown, or without their text, cannot be found again.
    pub fn finds(&self, input: &Input) -> Result<(), Error> {
        let recorded: Vec<Finding> = input.findings.read().map_err(Error::Shape)?;
        // Earlier inputs do not tell how sure a finding is, and no mark can be made again without its key.
        let tells = input.firewall.is_some();
        let form = |one: Finding| match tells {
            true => Finding { mark: None, ..one },
            false => Finding { confidence: None, how: None, mark: None, ..one },
        };
        let recorded: BTreeSet<Finding> = recorded.into_iter().map(form).collect();
        let Some(shown) = &self.shown else {
            let again: BTreeSet<Finding> =
                firewall::findings(&input.args).into_iter().map(form).collect();
            return if again == recorded { Ok(()) } else { Err(Error::Findings) };
        };
        let mut rest = without_messages(&input.args);
        if let Json::Object(members) = &mut rest {
            members.retain(|name, _| !self.digests.contains(name.as_str()));
        }
        let mut again: BTreeSet<Finding> =
            firewall::findings(&rest).into_iter().map(form).collect();
        let (mut cut, list) = (Vec::new(), list_member(&input.args));
        let seen = messages(&input.args).unwrap_or_default().iter().zip(shown);
        for (index, (message, (_, has_text))) in seen.enumerate() {
            if !has_text {
                cut.push(format!("/{list}/{index}"));
                continue;
            }
            let found = firewall::findings(message).into_iter();
            again.extend(found.map(|one| {
                let path = format!("/{list}/{index}{}", one.path);
                form(Finding { path, ..one })
            }));
        }
        // More than an input names: those that it names are not all.
        let is_cut = recorded.len() > firewall::FINDINGS_MAX
            && recorded.iter().any(|one| one.path.is_empty());
        let below = |path: &str, top: &str| {
            path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let unseen = |one: &Finding| {
            one.path.is_empty()
                || one.since == FindingAge::Earlier
                // The gate compared the results with the calls that had come.
                || one.kind == BYPASSED
                || cut.iter().any(|top| below(&one.path, top))
        };
        let all_there = is_cut || again.iter().all(|one| recorded.contains(one));
        let no_others = recorded.iter().all(|one| again.contains(one) || unseen(one));
        if all_there && no_others { Ok(()) } else { Err(Error::Findings) }
    }
}

fn number(of: usize) -> u64 {
    u64::try_from(of).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(findings: &str) -> Input {
        let text = format!(
            r#"{{"v":"wicketgate/input/1","agent":{{"id":"a","version":"1","manifest":"m","binding":"claimed",
            "owner":"o","labels":{{}},"delegation":[]}},"approvals":[],"args":{{"messages":[{{"role":"tool","content":"done"}}]}},
            "break_glass":false,"call":{{"id":"c"}},"context":{{"claimed":{{}}}},"effect":{{}},"findings":{findings},
            "history":{{"calls":0,"errors":0}},"observe":[],"pools":[],"quorum":{{}},"run":{{"id":"r","mode":"enforce",
            "opened_at":"2026-11-27T12:00:00.000Z","labels":{{}},"calls":0,"errors":0}},"time":{{}},
            "tool":{{"name":"t","kind":"http","tier":"T1","definition":"d"}}}}"#
        );
        Input::of(&Json::parse(text.as_bytes(), &Limits::FILE).unwrap()).unwrap()
    }

    #[test]
    fn a_result_past_the_gate_is_no_finding_that_the_firewall_would_make_again() {
        let seen = ShownArguments { shown: Some(vec![(0, true)]), digests: BTreeSet::new() };
        let one =
            |kind: &str| format!(r#"[{{"kind":"{kind}","path":"/messages/0","since":"new"}}]"#);
        assert!(seen.finds(&input("[]")).is_ok());
        assert!(seen.finds(&input(&one(BYPASSED))).is_ok());
        assert!(seen.finds(&input(&one("email"))).is_err());
    }

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes(), &Limits::FILE).unwrap()
    }

    #[test]
    fn arguments_that_are_stored_whole_are_those_that_a_policy_saw_by_their_digest() {
        let stored = json(r#"{"messages":[{"role":"user"}],"model":"m","system":"s","tools":[1]}"#);
        let digest = |member: &Json| Json::of(&MemberDigest::of(member));
        let seen = |name: &str, member: Option<Json>| {
            let Json::Object(mut members) = stored.clone() else { panic!("no object") };
            members.remove(name);
            members.extend(member.map(|member| (name.to_owned(), member)));
            without_digests(&Json::Object(members), &stored)
        };
        let names = |names: &[&'static str]| Some(names.iter().copied().collect());
        let tools = json("[1]");
        assert_eq!(seen("tools", Some(tools.clone())), names(&[]));
        assert_eq!(seen("tools", Some(digest(&tools))), names(&["tools"]));
        assert_eq!(seen("system", Some(digest(&json(r#""s""#)))), names(&["system"]));
        // Another member, none, one too many, and one that has no digest.
        assert_eq!(seen("tools", Some(digest(&json("[2]")))), None);
        assert_eq!(seen("tools", None), None);
        assert_eq!(seen("instructions", Some(json(r#""s""#))), None);
        assert_eq!(seen("model", Some(digest(&json(r#""m""#)))), None);
        // What was said is compared elsewhere.
        assert_eq!(seen("messages", Some(json("[]"))), names(&[]));
    }
}
