//! The way in: every call is screened before it is prepared, whatever its tool.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::demand::{demand, unknown_kind};
use super::excuse::{self, Excuses};
use super::{HitAction, UNAVAILABLE, detail, finding, in_words, judged, masked_kinds, masks};
use crate::domain::call::{CallSource, ToolCall};
use crate::domain::canonical;
use crate::domain::decision::{Alarm, LayerReason};
use crate::domain::effect::{Effect, ToolKind};
use crate::domain::facts::ToolFacts;
use crate::domain::guarded::{GuardAction, GuardFinding, Withheld};
use crate::domain::json::{Json, Limits};
use crate::domain::pointer;
use crate::firewall::{self, Class, Confidence, Hit, How};
use crate::judge::conversation::ModelArgs;
use crate::judge::exceptions::CallExceptions;
use crate::judge::guarding::{
    Direction, MaskedViews, Screening, ToolGuard, secret_kinds, without_secrets,
};
use crate::record::conversation;
use crate::tool::Toolbox;

/// The rule of every refusal of the guard.
pub(super) const RULE: &str = "firewall";

/// One call that the firewall has searched. Only [`screen`] makes it, and nothing else is prepared.
#[derive(Debug)]
#[must_use]
pub struct Screened {
    call: ToolCall,
    model: Option<ModelArgs>,
    alarm: Option<Alarm>,
    screening: Screening,
}

impl Screened {
    /// Its parts, for `prepare`.
    pub(in crate::tool) fn into_parts(
        self,
    ) -> (ToolCall, Option<ModelArgs>, Option<Alarm>, Screening) {
        (self.call, self.model, self.alarm, self.screening)
    }
}

/// Searches a call: for the credentials of this gate, and then for what the configuration looks for.
/// `model`: the messages of a call to a model, as its run knows them. `exceptions`: the signed orders about
/// its tool. `demanded`: the kinds that the policy wants masked.
pub fn screen(
    toolbox: &Toolbox,
    call: ToolCall,
    model: Option<ModelArgs>,
    (exceptions, demanded): (&CallExceptions, Vec<String>),
) -> Screened {
    // Searched even if the tool does not exist, because a refused call is stored too.
    let searched_for = toolbox.scrub().searched_for();
    let is_clean =
        call.searched() == Some(searched_for) || !toolbox.scrub().hides_in(call.canonical());
    let alarm = (!is_clean).then_some(Alarm::Credential);
    if let Some(model) = model.as_ref().filter(|_| is_clean) {
        model.clean_of.get_or_init(|| searched_for);
    }
    let (guard, direction) = rules(toolbox, &call);
    let excuses = Excuses { direction, marks: toolbox.guard().marks(), exceptions };
    let rules = (&guard, excuses, demanded.as_slice());
    let searched = catch_unwind(AssertUnwindSafe(|| searched(rules, &call, model.as_ref())));
    let (masked, mut screening) = searched.unwrap_or_else(|_| (None, unavailable(guard)));
    if let Some(unknown) = demanded.iter().find(|kind| !firewall::is_kind(kind)) {
        screening.refusal.get_or_insert_with(|| unknown_kind(unknown));
    }
    screening.demanded = demanded;
    if alarm.is_some() {
        // A member may be named like the credential, in letters that no pattern of ours has: no place is recorded.
        screening.findings.iter_mut().for_each(|one| one.path.clear());
    }
    let call = match masked {
        // A call with a credential is refused whole.
        Some(args) if alarm.is_none() && screening.refusal.is_none() => {
            screening.unmasked = Some(Arc::new(call.clone()));
            call.with_masked_args(args)
        }
        Some(_) | None => call,
    };
    Screened { call, model, alarm, screening }
}

/// What applies to a call.
fn rules(toolbox: &Toolbox, call: &ToolCall) -> (ToolGuard, Direction) {
    let kind = toolbox.get(call.tool()).map(|tool| tool.facts.kind.as_str());
    let is_model = kind == Some(ToolKind::Model.as_str());
    let direction = if is_model { Direction::Prompts } else { Direction::Arguments };
    (toolbox.guard().of(call.tool().as_str()), direction)
}

/// The canonical arguments with which a call is judged, if they are masked: a repeated request is
/// compared by these. `demanded`: the kinds that the policy wanted masked.
#[must_use]
pub fn as_judged(
    toolbox: &Toolbox,
    call: &ToolCall,
    (exceptions, demanded): (&CallExceptions, &[String]),
) -> Option<Vec<u8>> {
    let (guard, direction) = rules(toolbox, call);
    // What may be none is masked by `low`, where sure ones are blocked.
    let masks = guard.actions(direction).masks() || guard.low == GuardAction::Redact;
    if !masks && demanded.is_empty() {
        return None;
    }
    let excuses = Excuses { direction, marks: toolbox.guard().marks(), exceptions };
    let (masked, _) = searched((&guard, excuses, demanded), call, None);
    masked.map(|args| canonical::bytes(&args))
}

/// The screening of a call whose search failed. WHY a refusal: nothing passes that was not searched.
fn unavailable(guard: ToolGuard) -> Screening {
    let why = "the arguments could not be searched for secrets; make the call smaller, or report this to the operator";
    let refusal = Some(LayerReason::effect_refused(RULE, UNAVAILABLE, why));
    Screening { guard, refusal, withheld: Some(Withheld::Firewall), ..Screening::default() }
}

/// The masked arguments, if they are masked, and what was found.
fn searched(
    (guard, excuses, demanded): (&ToolGuard, Excuses<'_>, &[String]),
    call: &ToolCall,
    model: Option<&ModelArgs>,
) -> (Option<Json>, Screening) {
    let direction = excuses.direction;
    let mut nothing = nothing(guard, excuses);
    if guard.actions(direction).is_off() && demanded.is_empty() {
        return (None, nothing);
    }
    let args = call.args();
    let hits = match model {
        // Their places are those of the conversation, whatever its request writes of it.
        Some(model) => model.hits.iter().cloned().map(Hit::elsewhere).collect(),
        None => firewall::scan(args),
    };
    let seen = model.is_none().then(|| super::marked(&hits, excuses.marks, args));
    let headers = of_headers(call);
    let mut all = judged(guard, direction, &hits);
    let conversation = model.filter(|_| all.iter().any(is_stopped)).map(|_| normalized(args));
    let document = conversation.as_ref().unwrap_or(args);
    excuses.apply(&mut all, document);
    demand(&mut all, &hits, demanded);
    // A header has no place that an order names.
    all.extend(judged(guard, direction, &headers));
    if all.is_empty() {
        nothing.seen = seen;
        return (None, nothing);
    }
    // A request to a model and a tool call of its answer are no bytes of the gate's own making.
    let is_maskable = direction == Direction::Arguments
        && !matches!(call.source(), CallSource::Proposal { .. } | CallSource::Dialect(_));
    if !is_maskable {
        // WHY: `low` is the most that happens to these, and to block is more.
        let weak = all.iter_mut().filter(|one| one.hit.confidence == Confidence::Low);
        weak.filter(|one| one.action == GuardAction::Redact && !one.demanded)
            .for_each(|one| one.action = GuardAction::Warn);
    }
    let kinds = masks(&all);
    let masked = match kinds.is_empty() {
        true => None,
        false => {
            let rules = (guard, excuses, demanded);
            let masked = if is_maskable { masked(rules, args, &all) } else { None };
            if masked.is_none() {
                let masks = all.iter_mut().filter(|one| one.action == GuardAction::Redact);
                masks.for_each(|one| one.action = GuardAction::Block);
            }
            masked
        }
    };
    let mut screening = screening((guard, excuses), (call, model, document), &all);
    let masked = masked.filter(|_| screening.refusal.is_none());
    screening.seen = seen.filter(|_| masked.is_none());
    (masked, screening)
}

/// The screening of a call in which nothing was found.
fn nothing(guard: &ToolGuard, excuses: Excuses<'_>) -> Screening {
    let (marks, exceptions) = (excuses.marks.clone(), Arc::clone(excuses.exceptions));
    Screening { guard: *guard, marks, exceptions, ..Screening::default() }
}

fn is_stopped(one: &HitAction<'_>) -> bool {
    one.action > GuardAction::Warn
}

/// The arguments of a call to a model with its messages in the form whose places findings name.
fn normalized(args: &Json) -> Json {
    let all = conversation::messages(args).unwrap_or_default();
    conversation::with_messages(args, all.iter().map(conversation::normal).collect())
}

/// The arguments with every finding masked whose kind is; `None` if something of them would be left, or
/// a member would have another name. What passes by order stays.
fn masked(
    (guard, excuses, demanded): (&ToolGuard, Excuses<'_>, &[String]),
    args: &Json,
    all: &[HitAction<'_>],
) -> Option<Json> {
    let done = firewall::redact_sparing(args, &masks(all), &excuse::spared(all))?.value;
    let hits = firewall::scan(&done);
    let mut left = judged(guard, Direction::Arguments, &hits);
    excuses.apply(&mut left, &done);
    demand(&mut left, &hits, demanded);
    let is_exact = left.iter().all(|one| one.action < GuardAction::Redact);
    (is_exact && same_names(args, &done)).then_some(done)
}

/// Whether the members of both have the same names.
fn same_names(one: &Json, other: &Json) -> bool {
    match (one, other) {
        (Json::Object(one), Json::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, value)| {
                    other.get(name).is_some_and(|other| same_names(value, other))
                })
        }
        (Json::Array(one), Json::Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| same_names(one, other))
        }
        // A list that spells something becomes a text.
        (Json::Array(_), _) => matches!(other, Json::String(_)),
        (Json::Object(_), _) => false,
        (Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) | Json::String(_), _) => true,
    }
}

fn screening(
    (guard, excuses): (&ToolGuard, Excuses<'_>),
    (call, model, document): (&ToolCall, Option<&ModelArgs>, &Json),
    all: &[HitAction<'_>],
) -> Screening {
    let direction = excuses.direction;
    let mut blocked = all.iter().filter(|one| one.action == GuardAction::Block);
    let first = blocked.clone().min_by_key(|one| one.hit.class);
    let tool = call.tool().as_str();
    let refusal =
        first.map(|one| because(call, direction, (one, excuses.way(one, document, tool))));
    // What is masked is no longer there.
    let has_secret =
        all.iter().any(|one| one.hit.class == Class::Secret && one.action != GuardAction::Redact);
    let is_personal = blocked.any(|one| one.hit.class == Class::Personal);
    let withheld = match (has_secret, is_personal, refusal.is_some()) {
        (true, _, _) => Some(Withheld::Secret),
        (false, true, _) => Some(Withheld::Personal),
        (false, false, true) => Some(Withheld::Firewall),
        (false, false, false) => None,
    };
    let mut screening = Screening {
        used: excuse::used(all),
        findings: all.iter().map(|one| finding(one, (excuses.marks, call.args()))).collect(),
        withheld,
        masked: all.iter().any(|one| one.action == GuardAction::Redact) && refusal.is_none(),
        masks: if refusal.is_none() { masked_kinds(all) } else { None },
        refusal,
        ..nothing(guard, excuses)
    };
    if has_secret && screening.refusal.is_none() {
        screening.views = views(call, model);
        if screening.views.is_none() {
            let first = all.iter().find(|one| one.hit.class == Class::Secret);
            screening.refusal = first.map(|one| because(call, direction, (one, None)));
        }
    }
    screening
}

/// Why the call is refused, and what to do next. `way`: how a person lets this one value pass.
fn because(
    call: &ToolCall,
    direction: Direction,
    (one, way): (&HitAction<'_>, Option<String>),
) -> LayerReason {
    let (class, tool) = (one.hit.class, call.tool());
    if one.demanded {
        let message = format!(
            "the policy wants {} masked in the arguments, and no mask is exact there: leave it out",
            in_words(one)
        );
        return LayerReason::effect_refused(RULE, detail(class), message);
    }
    let next = match class {
        Class::Unscanned => "make the call smaller".to_owned(),
        Class::Secret | Class::Personal | Class::Injection | Class::Unicode => {
            let (direction, class) = (direction.as_str(), class.as_str());
            let rule = format!("`firewall.tools.{tool}.{direction}.{class}: warn`");
            match way {
                None => {
                    format!("leave it out; where it has to pass, an operator allows it with {rule}")
                }
                Some(way) => format!(
                    "leave it out; where it has to pass, an operator allows this one value with {way}, or all of them with {rule}"
                ),
            }
        }
    };
    let message = format!("the call holds {}: {next}", in_words(one));
    LayerReason::effect_refused(RULE, detail(class), message)
}

/// What a policy is shown of arguments with secrets.
fn views(call: &ToolCall, model: Option<&ModelArgs>) -> Option<MaskedViews> {
    let masked = |value: &Json| {
        let done = firewall::redact(value, secret_kinds())?;
        // What no mask reaches is shown to no policy.
        let left = firewall::scan(&done.value);
        let is_clean = !left.iter().any(|hit| hit.class == Class::Secret);
        is_clean.then(|| canonical::bytes(&done.value))
    };
    let all = masked(call.args())?;
    let shown = match model {
        Some(model) => masked(&Json::parse(&model.shown, &Limits::FILE).ok()?)?,
        None => all.clone(),
    };
    Some(MaskedViews { shown, all })
}

/// The findings in what an agent sends a provider beside its request.
fn of_headers(call: &ToolCall) -> Vec<Hit> {
    let headers = call.dialect().map(|request| request.headers.as_slice()).unwrap_or_default();
    let values = headers.iter().filter(|(name, _)| name != "user-agent");
    let values: Vec<Json> = values.map(|(_, value)| Json::from(value.as_str())).collect();
    if values.is_empty() {
        Vec::new()
    } else {
        firewall::scan(&values.into()).into_iter().map(Hit::elsewhere).collect()
    }
}

/// Adds to a screening what is found in what an effect decodes to: the receiver reads that form. What
/// the arguments show is known already; a secret that only the effect shows is put together from
/// several of them, or written in a way that its tool undoes, so no mask reaches it.
pub(in crate::tool) fn of_effect(
    screening: &mut Screening,
    call: &ToolCall,
    (effect, composed, facts): (&Effect, Option<&Json>, &ToolFacts),
) {
    if facts.kind == ToolKind::Model.as_str() {
        return;
    }
    let decoded = decoded(effect);
    let hits = firewall::scan(&decoded);
    // The URL of a fetch is the agent's, all of it.
    let is_constant = |hit: &Hit| {
        facts.kind != ToolKind::Fetch.as_str()
            && hit.how != How::Joined
            && is_of_binding(effect, &hit.path, call.args())
    };
    let is_secret = |hit: &Hit| hit.class == Class::Secret;
    let of_effect: Vec<Hit> =
        hits.into_iter().filter(|hit| is_secret(hit) && !is_constant(hit)).collect();
    let of_body = composed.map(firewall::scan).unwrap_or_default();
    let of_body = of_body
        .into_iter()
        .filter(|hit| is_secret(hit) && !is_of_template(composed, hit, call.args()));
    let of_body: Vec<Hit> = of_body.map(Hit::elsewhere).collect();
    let direction = Direction::Arguments;
    // What passes in the arguments passes here too.
    let exceptions = screening.used.iter().cloned().collect();
    let excuses = Excuses { direction, marks: &screening.marks, exceptions: &exceptions };
    let mut all = judged(&screening.guard, direction, &of_effect);
    excuses.apply_decoded(&mut all, &decoded);
    let mut rest = judged(&screening.guard, direction, &of_body);
    if let Some(body) = composed {
        excuses.apply_decoded(&mut rest, body);
    }
    all.append(&mut rest);
    for one in &mut all {
        if one.action == GuardAction::Redact {
            one.action = GuardAction::Block;
        }
    }
    if all.is_empty() {
        return;
    }
    screening.withheld = Some(Withheld::Secret);
    // What the arguments show is named already.
    let is_new =
        |one: &GuardFinding| !screening.findings.iter().any(|known| known.kind == one.kind);
    let within = (&screening.marks, &decoded);
    let new: Vec<GuardFinding> =
        all.iter().map(|one| finding(one, within)).filter(is_new).collect();
    screening.findings.extend(new);
    let blocked = all.iter().find(|one| one.action == GuardAction::Block);
    screening.refusal = blocked.map(|one| because(call, direction, (one, None)));
}

/// Whether a text of an effect is written in the binding of its tool: nothing of the arguments stands in
/// it. An operator put it there, such as a public key of a map service, and no agent can leave it out.
/// `path`: its place among the [`decoded`] ones.
pub(super) fn is_of_binding(effect: &Effect, path: &str, args: &Json) -> bool {
    let Some(place) = path.strip_prefix('/').and_then(|place| place.parse::<usize>().ok()) else {
        return false;
    };
    let text = if let Effect::Http { query, .. } = effect {
        query.get(place).map(|(_, value)| value)
    } else if let Effect::Command { argv, .. } = effect {
        argv.get(place)
    } else {
        None
    };
    text.is_some_and(|text| !has_part_in(args, text))
}

/// Whether a text of a body is written in its template, as [`is_of_binding`].
fn is_of_template(body: Option<&Json>, hit: &Hit, args: &Json) -> bool {
    let text = body.and_then(|body| pointer::find(body, &hit.path)).and_then(Json::as_str);
    hit.how != How::Joined && text.is_some_and(|text| !has_part_in(args, text))
}

/// Whether a text or a number of these arguments stands in a text.
fn has_part_in(args: &Json, text: &str) -> bool {
    match args {
        Json::String(part) => !part.is_empty() && text.contains(part.as_str()),
        Json::Int(_) | Json::Float(_) => text.contains(&canonical::text(args)),
        Json::Array(items) => items.iter().any(|item| has_part_in(item, text)),
        Json::Object(members) => members.values().any(|item| has_part_in(item, text)),
        Json::Null | Json::Bool(_) => false,
    }
}

/// The texts of an effect that come from arguments: a URL as its receiver reads it, and the arguments of
/// a program.
fn decoded(effect: &Effect) -> Json {
    use crate::catalog::web_url::unescaped;
    let texts: Vec<String> = match effect {
        Effect::Http { path, query, .. } => {
            let pairs = query.iter().map(|(name, value)| format!("{name}={value}"));
            pairs.chain([unescaped(path)]).collect()
        }
        Effect::Command { argv, .. } => argv.clone(),
        Effect::None
        | Effect::File { .. }
        | Effect::Model { .. }
        | Effect::Mcp { .. }
        | Effect::Sql(_)
        | Effect::Grpc(_)
        | Effect::Client { .. }
        | Effect::Recorded { .. } => Vec::new(),
    };
    texts.into_iter().map(Json::from).collect::<Vec<_>>().into()
}

/// Why the data to undo a call is not kept, and the call refused with it: it holds a secret, and would be
/// stored.
pub(in crate::tool) fn of_pre_image(
    guard: &ToolGuard,
    call: &ToolCall,
    kept: &Json,
) -> Option<LayerReason> {
    if guard.arguments.secret < GuardAction::Redact {
        return None;
    }
    let hits = firewall::scan(kept);
    let all = judged(guard, Direction::Arguments, &hits);
    let mut secrets = all.iter().filter(|one| one.hit.class == Class::Secret);
    let one = secrets.find(|one| one.action >= GuardAction::Redact)?;
    let message = format!(
        "what the call would change holds {}, and the gate would have to store that to undo the call: an operator \
         allows it with `firewall.tools.{}.arguments.secret: warn`",
        in_words(one),
        call.tool()
    );
    Some(LayerReason::effect_refused(RULE, detail(Class::Secret), message))
}

/// Reasons of other layers about a call whose arguments are not stored: they may quote these.
pub(in crate::tool) fn without_secrets_in(
    screening: &Screening,
    reasons: Vec<LayerReason>,
) -> Vec<LayerReason> {
    if screening.withheld.is_none() {
        return reasons;
    }
    let masked =
        |reason: LayerReason| LayerReason { message: without_secrets(&reason.message), ..reason };
    reasons.into_iter().map(masked).collect()
}
