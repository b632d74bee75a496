//! Held calls: the queue, and one call with the exact bytes that would run.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use maud::{Markup, html};

use super::decisions::{found, state};
use super::{Failure, command, facts, id, left, marked, shown, time, token};
use crate::approval::ApproverVerdict;
use crate::crypto::ssh::SshKey;
use crate::crypto::sshsig::SshSig;
use crate::domain::code::Code;
use crate::domain::plural::many;
use crate::operator::api::lookups::Similar;
use crate::operator::api::replies::{HeldCall, HeldCallDetail, HeldCalls};
use crate::operator::api::requests::{HeldCallPath, Modification, Page as Lines, SignedStatement};
use crate::operator::api::route;
use crate::operator::own_keys::OwnKey;
use crate::operator::view::parts::Part;
use crate::operator::view::{Approved, Facts, Review, ShownArguments, words};
use crate::serve::console::assets;
use crate::serve::console::visit::{Answer, Visit};
use crate::serve::problem::Problem;

/// Lines of the queue.
const LINES: u64 = 100;

/// The queue.
pub(in super::super) async fn list(visit: &mut Visit) -> Result<Answer, Failure> {
    let held = visit.ask::<route::HeldCalls>((), Lines { limit: Some(LINES) }).await?;
    let body = html! {
        (table(visit, &held))
        @if held.more { p { "There are more than are shown: " (held.asks) " in all." } }
    };
    Ok(Answer::Page("Held calls".to_owned(), body))
}

/// Held calls, the gravest first.
pub(super) fn table(visit: &Visit, held: &HeldCalls) -> Markup {
    if held.held.is_empty() {
        return html! { p .empty { "No call is held." } };
    }
    let (now, reads) = (visit.console.api.clock().now(), visit.may::<route::HeldCallDetail>());
    html! {
        div .wide { table {
            caption { (many(held.calls, "held call")) ", highest tier first" }
            thead { tr {
                th scope="col" { "Tier" } th scope="col" { "Tool" } th scope="col" { "Agent" }
                th scope="col" { "Ends" } th scope="col" { "Approvals" } th scope="col" { "Why" }
            } }
            tbody { @for call in &held.held { tr data-row { (row(call, reads, |until| left(now, until))) } } }
        } }
        @if !reads { p .hint { "To see the arguments of a call takes the role approver or auditor." } }
    }
}

fn row(call: &HeldCall, reads: bool, left: impl Fn(&str) -> String) -> Markup {
    let tool = call.tool.as_deref().unwrap_or("unknown tool");
    let path =
        call.run.as_ref().map(|run| shown(&format!("/console/approvals/{run}/{}", call.call)));
    html! {
        td { b { (call.tier.as_deref().map(shown).unwrap_or_default()) } }
        th scope="row" {
            @match path.filter(|_| reads) {
                Some(path) => a href=(path) { (shown(tool)) },
                None => (shown(tool)),
            }
            @if call.count > 1 { " " span .hint { (many(call.count, "equal call")) } }
        }
        td { (shown(&call.agent)) " " (shown(&call.version)) }
        td { (call.expires.as_deref().map_or_else(|| "no end".to_owned(), left)) }
        td { (call.approvals) }
        td { @for reason in &call.reasons { p { (shown(reason)) } } }
    }
}

/// What an operator decides with: the forms of a passkey, and where a command is sent.
pub(super) struct DecisionForms {
    /// The address of the operator API, for a command; empty or an option with a space before it.
    pub url: String,
    /// The token of the forms.
    pub token: Markup,
    /// Where they are sent.
    pub path: String,
    /// The operator's passkeys on the list of approvers, in base64, or why they cannot be told.
    pub passkeys: Result<Vec<String>, String>,
}

impl DecisionForms {
    async fn of(visit: &Visit, path: String) -> Self {
        let is_passkey = |own: &OwnKey| matches!(own.signer.key, SshKey::Passkey { .. });
        let keys = visit.console.api.own_keys(&visit.who).await;
        let passkeys = keys.map(|keys| {
            let usable = keys.iter().filter(|own| is_passkey(own) && !own.revoked);
            usable.map(|own| STANDARD.encode(own.signer.key.blob())).collect()
        });
        let url = visit.url().map_or_else(String::new, |url| format!(" --url {url}"));
        Self { url, token: token(visit, &path), path, passkeys }
    }
}

/// The page of a held call.
fn page(path: &HeldCallPath) -> String {
    format!("/console/approvals/{}/{}", path.run, path.call)
}

/// One held call.
pub(in super::super) async fn one(visit: &mut Visit) -> Result<Answer, Failure> {
    let path = visit.path::<HeldCallPath>().await?;
    let call = match visit.ask::<route::HeldCallDetail>(path.clone(), ()).await {
        Ok(call) => call,
        Err(failure) => return Err(ended(visit, &path, failure).await),
    };
    let review = call.facts.review();
    let review = review.map_err(|error| Failure::new(StatusCode::CONFLICT, &error.message))?;
    let similar = visit.ask::<route::Similar>(path.clone(), ()).await;
    let ends = left(visit.console.api.clock().now(), &call.facts.expires);
    let deciding = if visit.may::<route::HeldCallDecision>() {
        Some(DecisionForms::of(visit, page(&path)).await)
    } else {
        None
    };
    let title = format!("Held call: {}", shown(&call.facts.tool));
    let signs =
        deciding.as_ref().is_some_and(|by| matches!(&by.passkeys, Ok(keys) if !keys.is_empty()));
    let beside = match &similar {
        Ok(similar) => against(similar),
        Err(failure) => {
            html! { p .failure { "There is no comparison: " (shown(&failure.message)) } }
        }
    };
    let body = html! {
        (detail(&call, &review, (&ends, deciding.as_ref()), &beside))
        @if signs { script type="module" src=(assets::path(assets::SIGN)) {} }
    };
    Ok(Answer::Page(title, body))
}

/// The last approved call of its kind: what an approver would otherwise have to remember.
pub(super) fn against(similar: &Similar) -> Markup {
    let value = |json: &Option<String>| match json {
        Some(json) => html! { code { (shown(json)) } },
        None => html! { "nothing" },
    };
    html! {
        section aria-labelledby="against" {
            @match &similar.against {
                None => {
                    h2 id="against" { "Against the last approved one" }
                    p .empty {
                        "None of the newest approved calls of this agent and tool can be compared: they have another definition or "
                        "kind of effect, their arguments are not stored or longer than 64 KiB, or there are none."
                    }
                },
                Some(call) => {
                    h2 id="against" {
                        "Against " a href={ "/console/calls/" (shown(&call.chain)) "/" (call.seq) } { (shown(&call.call)) }
                        ", approved by " (shown(&call.decided_by.join(", "))) ", " (time(&call.at))
                    }
                    @if similar.changes.is_empty() { p { "The arguments are the same." } } @else {
                        div .wide { table {
                            caption { (many(similar.changes.len(), "difference")) @if similar.more { ", and more" } }
                            thead { tr { th scope="col" { "Where" } th scope="col" { "Then" } th scope="col" { "Now" } } }
                            tbody { @for one in &similar.changes { tr {
                                th scope="row" { code { (shown(if one.at.is_empty() { "everything" } else { &one.at })) } }
                                td { (value(&one.old)) } td { (value(&one.new)) }
                            } } }
                        } }
                    }
                },
            }
        }
    }
}

/// In place of a failure that only says that the call is not held: how it ended.
async fn ended(visit: &Visit, path: &HeldCallPath, failure: Failure) -> Failure {
    if failure.status != StatusCode::NOT_FOUND {
        return failure;
    }
    let Some(line) = found(visit, path).await else { return failure };
    let message = format!("the call is not held: it {}", state(&line));
    let next = format!("/console/calls/{}/{}", line.chain, line.seq);
    Failure { message, ..failure }.leading_to(&next)
}

/// Passes on what a passkey signed in the browser.
pub(in super::super) async fn decide(visit: &mut Visit) -> Result<Answer, Failure> {
    let path = visit.path::<HeldCallPath>().await?;
    let field = |name: &str| visit.form.field(name).to_owned();
    let (statement, signature) = (field("statement"), field("signature"));
    if signature.is_empty() {
        let message = "a script of the page signs, and this browser has not run it: use the commands of the page";
        return Err(Failure::new(StatusCode::BAD_REQUEST, message).leading_to(&page(&path)));
    }
    by_own_key(visit, &signature).await?;
    let done = if field("verdict") == "modify" {
        let (arguments, reason) = (field("arguments"), field("reason"));
        let sent = Modification { arguments, reason, statement, signature };
        visit.ask::<route::HeldCallProposal>(path.clone(), sent).await
    } else {
        let sent = SignedStatement { statement, signature };
        visit.ask::<route::HeldCallDecision>(path.clone(), sent).await
    };
    match done {
        Ok(done) => Ok(Answer::SeeOther(format!("/console/decisions/{}", done.outcome.seq))),
        Err(failure) => Err(ended(visit, &path, failure).await),
    }
}

/// Refuses a signature by the key of another person: who is logged in decides here, not who lent a signature.
async fn by_own_key(visit: &Visit, signature: &str) -> Result<(), Failure> {
    let refused = |code, detail: &'static str, message: String| {
        Err(visit.console.api.refuse(Problem::new(code, detail, message)).into())
    };
    let key = match SshSig::parse(signature) {
        Ok(signature) => signature.key,
        Err(why) => return refused(Code::RequestMalformed, "approval.signature", why.to_string()),
    };
    match visit.console.api.own_keys(&visit.who).await {
        Ok(own) if own.iter().any(|own| own.signer.key == key) => Ok(()),
        Ok(_) => {
            let (key, who) = (key.fingerprint(), &visit.who.subject);
            let message = format!("{key} is not a key of `{who}` on the list of approvers");
            refused(Code::OperatorForbidden, "approval.signer", message)
        }
        Err(why) => refused(Code::OperatorForbidden, "approval.signer", why),
    }
}

/// All arguments of a held call, as a file: the bytes that an approver signs.
pub(in super::super) async fn arguments(visit: &mut Visit) -> Result<Answer, Failure> {
    let path = visit.path::<HeldCallPath>().await?;
    let HeldCallDetail { facts, .. } = visit.ask::<route::HeldCallDetail>(path, ()).await?;
    let checked = facts.check(ApproverVerdict::Approve);
    checked.map_err(|error| Failure::new(StatusCode::CONFLICT, &error.message))?;
    let name = format!("arguments-{}.json", facts.call);
    Ok(Answer::Download { name, media_type: "application/json", text: facts.arguments })
}

/// All of one call, and for who decides the ways to do it.
pub(super) fn detail(
    call: &HeldCallDetail,
    review: &Review,
    (ends, deciding): (&str, Option<&DecisionForms>),
    beside: &Markup,
) -> Markup {
    let facts = &call.facts;
    html! {
        p .tier { b { (review.tier) } " · " (ends) }
        (effect(facts, review))
        @if !review.doubts.is_empty() {
            section .doubts aria-labelledby="doubts" {
                h2 id="doubts" { "Look twice" }
                // The renderer of the terminal has spelled them out.
                ul { @for doubt in &review.doubts { li { (doubt) } } }
            }
        }
        section aria-labelledby="why" {
            h2 id="why" { "Why it is held" }
            ul { @for reason in &facts.reasons { li {
                (shown(if reason.detail.is_empty() { &reason.code } else { &reason.detail })) ": "
                (shown(&reason.message)) " " code { (shown(&reason.rule)) }
            } } }
        }
        @if !review.read_before.is_empty() {
            section aria-labelledby="read-before" {
                h2 id="read-before" { "What the run had read before" }
                // The renderer of the terminal has spelled them out.
                ul { @for line in &review.read_before { li { (line) } } }
            }
        }
        @if !facts.headers.is_empty() {
            section aria-labelledby="headers" {
                h2 id="headers" { "Headers of the agent for the provider" }
                ul { @for one in &facts.headers { li { (shown(&one.name)) ": " (shown(&one.value)) } } }
            }
        }
        (read(facts, &review.arguments))
        (beside)
        (origin(facts))
        section aria-labelledby="decide" {
            h2 id="decide" { "Decide" }
            @match deciding {
                Some(by) => {
                    (passkeys(call, by))
                    (commands(facts, &by.url))
                },
                None => p { "To decide takes the role approver." },
            }
        }
    }
}

/// The forms that a passkey signs. A module fills them in: it builds the statement from what the page shows, and
/// compares it with the server's.
fn passkeys(call: &HeldCallDetail, by: &DecisionForms) -> Markup {
    if call.facts.is_long() {
        return html! { p { "These arguments are too long to be signed here: read them as a file, and decide in a terminal." } };
    }
    let keys = match &by.passkeys {
        Ok(keys) if !keys.is_empty() => keys.join(" "),
        Ok(_) => {
            return html! { p {
                "The signed list of approvers has no passkey of yours: "
                a href="/console/me" { "make one" } ", or decide in a terminal."
            } };
        }
        Err(why) => return html! { p { "No passkey can sign here: " (shown(why)) "." } },
    };
    let fields = |verdict: &str| {
        html! {
            (by.token)
            input type="hidden" name="verdict" value=(verdict);
            input type="hidden" name="statement" value="";
            input type="hidden" name="signature" value="";
        }
    };
    html! {
        div #signing data-keys=(keys) data-salt=(shown(&call.facts.salt)) data-nonce=(shown(&call.facts.nonce))
            data-approve=(shown(&call.statement)) data-refuse=(shown(&call.refusal)) {
            p { "This console shows the call and has your passkey sign it. " b { "Compare the digest in words" }
                " with " code { "wicketgate approval show" } " on another machine if you do not trust this one." }
            p #said role="status" {}
            form method="post" action=(shown(&by.path)) { (fields("approve")) button { "Approve with passkey" } }
            form method="post" action=(shown(&by.path)) { (fields("refuse")) button .grave { "Refuse with passkey" } }
            details {
                summary { "Ask with other arguments…" }
                form method="post" action=(shown(&by.path)) {
                    (fields("modify"))
                    label for="other" { "New arguments, one JSON object; another approver then decides" }
                    textarea id="other" name="arguments" rows="6" required spellcheck="false" {}
                    label for="reason" { "Reason, for the ledger" }
                    input id="reason" name="reason" maxlength="1024" autocomplete="off";
                    button { "Propose with passkey" }
                }
            }
        }
    }
}

/// The arguments, all at once or in parts.
fn read(call: &Facts, arguments: &ShownArguments) -> Markup {
    let bytes = call.arguments.len();
    html! {
        section aria-labelledby="arguments" {
            @match arguments {
                ShownArguments::Whole(text) => {
                    h2 id="arguments" { "Arguments, all " (bytes) " bytes" }
                    // Its lines after the first stand two columns in.
                    pre .arguments tabindex="0" data-is="arguments" { "  " (text) }
                    p .hint {
                        "End of the arguments. The bytes that run, each " code { "\\" } " written twice and what cannot be seen spelled out:"
                    }
                    details { summary { "bytes" } pre .arguments tabindex="0" data-is="bytes" { (shown(&call.arguments)) } }
                }
                ShownArguments::Parts(parts) => {
                    h2 id="arguments" { "Arguments, " (bytes) " bytes: not all are shown here" }
                    p {
                        a href={ "/console/approvals/" (shown(&call.run)) "/" (shown(&call.call)) "/arguments" } { "Read all of them as a file" }
                        " before you approve. Its SHA-256 is " (id(&call.arguments_sha256())) "."
                    }
                    @for one in parts { (part(one)) }
                    p .hint { "End of the arguments." }
                }
            }
        }
    }
}

/// One part of long arguments. The renderer of the terminal has spelled out what cannot be seen.
fn part(part: &Part) -> Markup {
    html! {
        p { (part.line()) }
        @if let Some(text) = &part.text { pre .arguments tabindex="0" { "    " (text) } }
    }
}

fn effect(call: &Facts, review: &Review) -> Markup {
    html! {
        (facts(&[
            ("Tool", marked("tool", &call.tool)),
            ("Does", html! { (review.does) }),
            ("To", html! { code { (review.to) } }),
            ("Expires", html! { span data-is="expires" { (time(&call.expires)) } }),
            ("Held since", time(&call.held)),
            ("Digest", marked("digest", &review.digest.hex())),
            ("In words", id(&words(&review.digest))),
        ]))
        @if let Some(by) = &call.asked_by {
            p .doubts { "The arguments are from " (signer(by)) ", not the agent: that person cannot approve them." }
        }
        h2 { "Approvals" }
        @if call.approvals.is_empty() { p .empty { "None is recorded." } }
        ul { @for one in &call.approvals { li { (signer(one)) } } }
    }
}

/// Who signed, with which key, and where a passkey did: that console chose what the signer saw.
fn signer(one: &Approved) -> Markup {
    html! {
        b { (shown(&one.subject)) } " with " (id(&one.key))
        @if let Some(at) = &one.origin { ", signed at " (shown(at)) ", shown by that console" }
    }
}

fn origin(call: &Facts) -> Markup {
    html! {
        section aria-labelledby="origin" {
            h2 id="origin" { "Who asks" }
            (facts(&[
                ("Agent", html! { (shown(&call.agent)) " " (shown(&call.version)) " (" (shown(&call.binding)) ")" }),
                ("Run", html! { a href={ "/console/runs/" (shown(&call.run)) } { (marked("run", &call.run)) } }),
                ("Call", marked("call", &call.call)),
                ("Manifest", marked("manifest", &call.manifest)),
                ("Definition", marked("definition", call.definition.as_deref().unwrap_or("not known"))),
            ]))
            @for layer in &call.layers { p { "Policy layer " span data-is="layer" { (shown(&layer.layer)) } " " (marked("layer-digest", &layer.digest)) } }
            @if !call.claims.is_empty() {
                h3 { "Said by the agent about itself, not verified" }
                ul { @for claim in &call.claims { li { (shown(&claim.name)) " = " (shown(&claim.value)) } } }
            }
        }
    }
}

/// An approval is a signature with the approver's own key: the console gives the command that makes it.
fn commands(call: &Facts, url: &str) -> Markup {
    let of = |verb: &str| {
        format!(
            "wicketgate approval {verb} {} {} --token-file TOKEN --key KEY{url}",
            call.run, call.call
        )
    };
    html! {
        p {
            "A decision is a signature with your own key. In a terminal, an SSH key makes it. The command shows the call again, checks it against \
             the digest, and signs: " b { "compare the digest in words" } "."
        }
        @if call.is_long() {
            p { "To approve, name the file with the arguments that you read:" }
            (command(&format!("{} --arguments FILE", of("approve"))))
        } @else {
            p { "To approve:" } (command(&of("approve")))
        }
        p { "To refuse:" } (command(&of("refuse")))
        p { "To ask for other arguments:" }
        (command(&format!("{} --arguments FILE", of("modify"))))
    }
}
