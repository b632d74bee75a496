//! Held calls: the list of them, the details of one, and the approvals, refusals and proposals of
//! operators.

use crate::domain::tier::Tier;
use std::collections::BTreeMap;

use super::OperatorApi;
use super::api::lookups::{RunLine, Runs};
use super::api::replies::{HeldCall, HeldCallDetail, HeldCalls, OrderReply};
use super::api::requests::{HeldCallPath, Modification, Page, SignedStatement};
use super::api::{OperatorRequest, route};
use super::approval_queue::{self, Hold, OpenRuns, Run};
use super::earlier::RunReader;
use super::operators::Operator;
use super::view::copies::ReadBefore;
use super::view::parts::EarlierCall;
use super::view::{Approved, Claim, Facts, HELD_MAX, Layer, REVIEW_MAX, Reason, Unviewable, words};
use crate::approval::{ApproverVerdict, Statement as _};
use crate::control::Order;
use crate::domain::canonical;
use crate::domain::code::{Code, held};
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, ChainId, RunId, Seq, ToolName};
use crate::domain::json::{Json, Limits};
use crate::ledger::store::{PayloadRef, PayloadRow};
use crate::record::calls::Phase;
use crate::record::conversation::messages;
use crate::record::run::Setting;
use crate::record::{self, Kind, Role};
use crate::serve::problem::Problem;

/// Held calls in one answer, at most.
pub(super) const SHOWN_MAX: usize = 200;
/// Bytes of a signature: an armored SSHSIG of an ed25519 key or a passkey is about 1 KiB.
const SIGNATURE_MAX: usize = 8 * 1024;
/// Limits of the policy's input: it is never larger than a stored one, and holds the arguments.
const INPUT: Limits = Limits { bytes_max: HELD_MAX, depth_max: 72, ..Limits::MODEL };

/// A held call with its run.
struct HeldMatch {
    chain: ChainId,
    seq: Seq,
    origin: String,
    facts: Facts,
    input: Option<PayloadRef>,
    effect: Option<String>,
    args: (PayloadRef, u64),
}

/// The run, the tool, and the arguments' digest if it is known: equal queries are shown once.
type CallQuery = (RunId, String, Option<Digest>);
/// One held call, its id and its run.
type Waiting<'a> = (&'a Run, &'a CallId, &'a Hold);

impl OperatorApi {
    /// Held calls, the gravest first, then those that expire soonest. A repeated call of one run is
    /// listed once.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(super) async fn held(
        &self,
        request: OperatorRequest<route::HeldCalls>,
    ) -> Result<HeldCalls, Problem> {
        let most = request.request.lines().min(SHOWN_MAX);
        let open_runs = self.look().await?;
        let mut groups: BTreeMap<CallQuery, Vec<Waiting<'_>>> = BTreeMap::new();
        for (id, run) in open_runs.chains().flat_map(|chain| &chain.runs) {
            for (call, hold) in &run.held {
                let tool = hold.entry.draft.tool.as_ref().map(ToString::to_string);
                let key = (*id, tool.unwrap_or_default(), hold.args_digest);
                groups.entry(key).or_default().push((run, call, hold));
            }
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        let first = |group: &Vec<Waiting<'_>>| {
            let hold = group.first().map(|(_, _, hold)| *hold);
            let tier = hold.and_then(|hold| hold.held.tier).unwrap_or(Tier::T3).to_string();
            (std::cmp::Reverse(tier), hold.map(Hold::expires))
        };
        for group in &mut groups {
            group.sort_by_key(|(_, _, hold)| hold.expires());
        }
        groups.sort_by_key(first);
        let calls = groups.iter().map(Vec::len).sum::<usize>();
        let shown = groups.iter().take(most).filter_map(|group| held_request(group));
        let (held, requests) = (shown.collect(), groups.len());
        Ok(HeldCalls { held, asks: requests, calls, more: requests > most })
    }

    /// All facts about one held call, and the statement that an approver signs.
    ///
    /// # Errors
    /// `call.not_found`, or `approval.unviewable`: an incomplete view is never shown.
    pub(super) async fn show(
        &self,
        request: OperatorRequest<route::HeldCallDetail>,
    ) -> Result<HeldCallDetail, Problem> {
        let (mut facts, at) = self.facts(&request.path).await?;
        let unviewable = |error: Unviewable| self.unviewable(&error);
        if facts.is_long() {
            facts.earlier = self.earlier(&request.path, &facts, at).await?;
        }
        let view = facts.render().map_err(unviewable)?;
        let statement = |verdict| {
            let (_, statement) = facts.check(verdict)?;
            Ok(statement.text())
        };
        let approval = statement(ApproverVerdict::Approve).map_err(unviewable)?;
        let refusal = statement(ApproverVerdict::Refuse).map_err(unviewable)?;
        Ok(HeldCallDetail { facts, statement: approval, refusal, view })
    }

    /// What a long held call repeats of one that was allowed before.
    async fn earlier(
        &self,
        path: &HeldCallPath,
        facts: &Facts,
        (chain, seq): (ChainId, Seq),
    ) -> Result<Option<EarlierCall>, Problem> {
        let (run, _) = self.named(path)?;
        let args = Json::parse(facts.arguments.as_bytes(), &INPUT).ok();
        let Some((args, tool)) = args.zip(ToolName::parse(&facts.tool)) else { return Ok(None) };
        if messages(&args).is_none() {
            return Ok(None);
        }
        let (reader, vault) = (&*self.reader, self.vault.as_deref());
        let run = RunReader { reader, vault, chain: &chain, run: &run };
        Ok(run.repeated(&tool, seq, &args).await?)
    }

    fn unviewable(&self, error: &Unviewable) -> Problem {
        self.refused(Code::ApprovalUnviewable, error.detail, &*error.message)
    }

    fn not_held(&self) -> Problem {
        self.refused(Code::CallNotFound, "approval.not_held", held::NOT_HELD)
    }

    fn named(&self, path: &HeldCallPath) -> Result<(RunId, CallId), Problem> {
        let named = RunId::parse(&path.run).zip(CallId::parse(&path.call));
        named.ok_or_else(|| self.not_held())
    }

    /// All facts about one held call, and the entry of its hold.
    ///
    /// # Errors
    /// The call is not held, or cannot be shown whole.
    pub(super) async fn facts(
        &self,
        path: &HeldCallPath,
    ) -> Result<(Facts, (ChainId, Seq)), Problem> {
        let (run, call) = self.named(path)?;
        let found = {
            let open_runs = self.look().await?;
            find(&open_runs, &run, &call)
        };
        let Some(found) = found else { return Err(self.not_held()) };
        let HeldMatch { chain, seq, mut facts, input, effect, args: (args, len), .. } = found;
        if len > u64::try_from(HELD_MAX).unwrap_or(u64::MAX) {
            return Err(self.unviewable(&Unviewable::too_large(len)));
        }
        let row = self.payload(&chain, &args).await?;
        let input = match input {
            Some(input) => self.payload(&chain, &input).await?,
            None => None,
        };
        let withheld = |what: &str| {
            let message = format!("{what} of the call are not stored, or no longer stored");
            self.unviewable(&Unviewable::new("approval.withheld", message))
        };
        let row = row.ok_or_else(|| withheld("the arguments"))?;
        let input = input.ok_or_else(|| withheld("the facts"))?;
        let Ok(text) = String::from_utf8(row.body) else { return Err(withheld("the arguments")) };
        facts.arguments = text;
        facts.salt = hex::encode(row.salt);
        let input = Json::parse(&input.body, &INPUT).ok();
        let seen = input.as_ref().and_then(|input| input.get("effect"));
        let (Some(seen), Some(effect)) = (seen, effect) else { return Err(withheld("the facts")) };
        facts.effect = String::from_utf8_lossy(&canonical::bytes(seen)).into_owned();
        facts.effect_digest = effect;
        Ok((facts, (chain, seq)))
    }

    /// `input.effect` of the policy's input that an entry commits to, if it is stored.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(super) async fn recorded_effect(
        &self,
        chain: &ChainId,
        (entry, commitment): (Seq, &Digest),
    ) -> Result<Option<Json>, Problem> {
        let input = self.payload(chain, &PayloadRef::of(entry, commitment)).await?;
        let input = input.and_then(|row| Json::parse(&row.body, &INPUT).ok());
        Ok(input.as_ref().and_then(|input| input.get("effect")).cloned())
    }

    async fn payload(
        &self,
        chain: &ChainId,
        at: &PayloadRef,
    ) -> Result<Option<PayloadRow>, Problem> {
        let read = approval_queue::payload(&*self.reader, self.vault.as_deref(), chain, at).await;
        Ok(read?)
    }

    /// Passes a signed approval or refusal on to the gate that holds the call. The operator API
    /// accepts only the two statements of this held call; the gate that runs the call checks the
    /// signature.
    ///
    /// # Errors
    /// The call is not held, or the statement is another.
    pub(super) async fn decide(
        &self,
        request: OperatorRequest<route::HeldCallDecision>,
    ) -> Result<OrderReply, Problem> {
        let OperatorRequest { who, path, request: SignedStatement { statement, signature } } =
            request;
        let (facts, _) = self.facts(&path).await?;
        let ours = [ApproverVerdict::Approve, ApproverVerdict::Refuse]
            .into_iter()
            .any(|verdict| facts.check(verdict).is_ok_and(|(_, ours)| ours.text() == statement));
        if !ours {
            let message = "the statement does not match this held call: sign exactly the bytes that are shown";
            return Err(self.refused(Code::RequestMalformed, "approval.statement", message));
        }
        self.armored(&signature)?;
        let (run, call) = self.named(&path)?;
        let order = Order::ApproverStatement { run, call, statement, signature };
        self.to_holder(&who, &order, "").await
    }

    /// Checks the armour of a signature only; the gate that acts on the signature verifies it.
    pub(super) fn armored(&self, signature: &str) -> Result<(), Problem> {
        let armored = signature.starts_with("-----BEGIN SSH SIGNATURE-----")
            && signature.trim_end().ends_with("-----END SSH SIGNATURE-----");
        if armored && signature.len() <= SIGNATURE_MAX {
            return Ok(());
        }
        let message = "the signature is not an armored SSH signature";
        Err(self.refused(Code::RequestMalformed, "approval.signature", message))
    }

    /// Passes a signed proposal on to the gate that holds the call, to submit the call again with
    /// other arguments. The policy judges the new call like any other, and a second approver must
    /// approve it. The gate that runs the call checks the signature.
    ///
    /// # Errors
    /// The call is not held, the arguments are invalid, or the statement is about others.
    pub(super) async fn modify(
        &self,
        sent: OperatorRequest<route::HeldCallProposal>,
    ) -> Result<OrderReply, Problem> {
        let OperatorRequest { who, path, request } = sent;
        let Modification { arguments, reason, statement, signature } = request;
        let read = Json::parse(arguments.as_bytes(), &Limits::ARGUMENTS);
        let fits = |json: &Json| json.as_object().is_some() && arguments.len() <= REVIEW_MAX;
        let Some(arguments) = read.ok().filter(fits) else {
            let message = "the arguments must be a JSON object of at most 64 KiB";
            return Err(self.refused(Code::RequestMalformed, "approval.arguments", message));
        };
        let arguments = canonical::bytes(&arguments);
        let (facts, _) = self.facts(&path).await?;
        let proposal = facts.proposal(&arguments).map_err(|error| self.unviewable(&error))?;
        if proposal.text() != statement {
            let message = "the statement is not a proposal of these arguments for this held call";
            return Err(self.refused(Code::RequestMalformed, "approval.statement", message));
        }
        self.armored(&signature)?;
        let (run, call) = self.named(&path)?;
        let arguments = String::from_utf8_lossy(&arguments).into_owned();
        let order = Order::Modify { run, call, arguments, statement, signature };
        self.to_holder(&who, &order, &reason).await
    }

    /// Puts an order on the list that only the gate of the run can obey.
    async fn to_holder(
        &self,
        who: &Operator,
        order: &Order,
        reason: &str,
    ) -> Result<OrderReply, Problem> {
        let (Order::ApproverStatement { run, call, .. } | Order::Modify { run, call, .. }) = order
        else {
            return Err(self.not_held());
        };
        let found = {
            let open_runs = self.look().await?;
            find(&open_runs, run, call)
        };
        let origin = found.ok_or_else(|| self.not_held())?.origin;
        self.order(who, order, (reason, None), Some(&origin)).await
    }

    /// Open runs, those with held calls first.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(super) async fn open_runs(&self, limit: Option<u64>) -> Result<Runs, Problem> {
        let most = Page { limit }.lines().min(SHOWN_MAX);
        let open_runs = self.look().await?;
        let as_of = self.clock.now().to_string();
        let mut runs: Vec<_> = open_runs
            .chains()
            .flat_map(|chain| chain.runs.iter().map(move |(id, run)| (chain, id, run)))
            .collect();
        runs.sort_by_key(|(_, id, run)| (std::cmp::Reverse(run.held.len()), run.at, **id));
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let (open, more) = (count(runs.len()), runs.len() > most);
        let denied = Phase::Over(Kind::CallDenied);
        let shown = runs.into_iter().take(most).map(|(chain, id, run)| RunLine {
            run: id.to_string(),
            origin: chain.origin.clone(),
            agent: run.opened.agent.to_string(),
            version: run.opened.version.to_string(),
            manifest: run.opened.manifest.to_string(),
            parent: run.opened.parent.map(|parent| parent.to_string()),
            opened: run.at.to_string(),
            sealed: None,
            reason: None,
            calls: count(run.calls.len()),
            in_flight: count(run.calls.in_flight()),
            held: count(run.held.len()),
            denied: count(run.calls.iter().filter(|(_, phase)| *phase == denied).count()),
        });
        Ok(Runs { runs: shown.collect(), open, more, next: None, as_of, behind: 0 })
    }
}

/// One ask, as a line of the list: no argument is in it.
fn held_request(group: &[Waiting<'_>]) -> Option<HeldCall> {
    let (run, call, hold) = group.first()?;
    let digest = hold.call_digest();
    let held = &hold.held;
    Some(HeldCall {
        run: hold.entry.draft.run.map(|run| run.to_string()),
        call: call.to_string(),
        count: group.len(),
        calls: group.iter().map(|(_, call, _)| call.to_string()).collect(),
        tool: hold.entry.draft.tool.as_ref().map(ToString::to_string),
        tier: held.tier.map(|tier| tier.to_string()),
        agent: run.opened.agent.to_string(),
        version: run.opened.version.to_string(),
        held: hold.entry.ts.to_string(),
        expires: held.expires.map(|at| at.to_string()),
        bytes: hold.payload(Role::Args).map(|(_, len)| len),
        reasons: held.reasons.iter().map(|reason| reason.message.to_string()).collect(),
        digest: digest.map(|digest| digest.hex()),
        words: digest.map(|digest| words(&digest)),
        approvals: hold.granted.len(),
        asked_by: held.asked_by.as_ref().map(|by| by.subject.to_string()),
    })
}

/// What the ledger records about one held call, without its payloads.
fn find(open_runs: &OpenRuns, run: &RunId, call: &CallId) -> Option<HeldMatch> {
    let (id, chain, open) = open_runs.run(run)?;
    let hold = open.held.get(call)?;
    let (held, opened) = (&hold.held, &open.opened);
    let layer = |one: &record::call::Layer| Layer {
        layer: one.layer.to_string(),
        digest: one.digest.to_string(),
    };
    let reason = |one: &record::call::Reason| Reason {
        code: one.code.to_string(),
        detail: one.detail.to_string(),
        message: one.message.to_string(),
        rule: one.rule.to_string(),
    };
    let text = |value: Option<String>| value.unwrap_or_default();
    let facts = Facts {
        run: run.to_string(),
        call: call.to_string(),
        tool: hold.entry.draft.tool.as_ref()?.to_string(),
        tier: text(held.tier.map(|tier| tier.to_string())),
        effect: String::new(),
        effect_digest: String::new(),
        arguments: String::new(),
        salt: String::new(),
        call_digest: text(held.call_digest.map(|digest| digest.to_string())),
        definition: held.definition.map(|digest| digest.to_string()),
        layers: held.layers.iter().map(layer).collect(),
        reasons: held.reasons.iter().map(reason).collect(),
        manifest: opened.manifest.to_string(),
        agent: opened.agent.to_string(),
        version: opened.version.to_string(),
        binding: held.binding.to_string(),
        held: hold.entry.ts.to_string(),
        expires: text(held.expires.map(|at| at.to_string())),
        nonce: text(held.nonce.map(|nonce| nonce.to_string())),
        approvals: hold.granted.clone(),
        asked_by: held
            .asked_by
            .as_ref()
            .map(|by| Approved::by(&by.subject, &by.key, by.origin.as_deref())),
        claims: claims(open, hold),
        headers: held.asked_in.iter().flat_map(headers).collect(),
        earlier: None,
        read_before: held.taint.as_ref().map(ReadBefore::from),
    };
    let at = |c: &Digest| PayloadRef::of(hold.entry.seq, c);
    Some(HeldMatch {
        chain: id,
        seq: hold.entry.seq,
        origin: chain.origin.clone(),
        facts,
        input: hold.payload(Role::PolicyInput).map(|(c, _)| at(&c)),
        effect: held.effect.map(|digest| digest.to_string()),
        args: hold.payload(Role::Args).map(|(c, len)| (at(&c), len))?,
    })
}

/// The headers of the agent that go to the provider with its request.
fn headers(form: &record::call::AskedIn) -> Vec<Claim> {
    let all = form.headers.iter().flat_map(|all| all.iter());
    all.map(|one| Claim { name: one.name.to_string(), value: one.value.to_string() }).collect()
}

/// The agent's own claims: its reason for the call, and those from the opening of the run.
fn claims(run: &Run, hold: &Hold) -> Vec<Claim> {
    let label =
        |one: &Setting| Claim { name: format!("label {}", one.k), value: one.v.to_string() };
    let why = hold.held.justification.as_ref();
    let why = why.map(|text| Claim { name: "reason".to_owned(), value: text.to_string() });
    let mut claims: Vec<Claim> = why.into_iter().collect();
    claims.extend(run.opened.labels.iter().map(label));
    let model = &run.opened.model;
    if !model.is_empty() {
        claims.push(Claim { name: "model".to_owned(), value: model.to_string() });
    }
    claims
}
