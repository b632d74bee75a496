//! Custody: payloads under a legal hold, and payloads that were erased.
//!
//! To place a hold takes a role. To lift one, and to erase, takes a signature: the page gives the command.

use maud::{Markup, html};

use super::bundle::shown_lines;
use super::{Failure, command, facts, id, shown, time, token, word};
use crate::domain::plural::many;
use crate::operator::api::replies::{
    ErasureDetail, ErasureReply, ErasureRow, Erasures, LegalHolds,
};
use crate::operator::api::requests::{Erasure, ErasurePath, LegalHold};
use crate::operator::api::route;
use crate::serve::console::visit::{Answer, Visit};

const CUSTODY: &str = "/console/custody";
const HOLD: &str = "/console/custody/hold";
const ERASURE: &str = "/console/custody/erasure";

/// The page.
pub(in super::super) async fn page(visit: &mut Visit) -> Result<Answer, Failure> {
    let holds = visit.ask::<route::LegalHolds>((), ()).await?;
    let erasures = visit.ask::<route::Erasures>((), ()).await?;
    let hub = hub(visit);
    let body = html! {
        @if !visit.console.api.has_evidence() {
            p .failure {
                "No evidence key is configured here (" code { "evidence.key" } "): this process can neither hold nor erase."
            }
        }
        h2 { "Legal holds" }
        (held(&holds, &hub))
        @if visit.may::<route::LegalHold>() { (hold_form(visit)) } @else {
            p .hint { "To place or to lift a hold takes the role auditor." }
        }
        h2 { "Erasures" }
        (erased(&erasures))
        @if visit.may::<route::Erasure>() { (erasure_form(visit, &hub)) } @else {
            p .hint { "To erase takes the role operator, and a signature." }
        }
    };
    Ok(Answer::Page("Custody".to_owned(), body))
}

/// Where a command of payloads asks.
fn hub(visit: &Visit) -> String {
    format!(" --hub {} --token-file TOKEN", visit.url().unwrap_or_else(|| "URL".to_owned()))
}

/// The holds in force, each with the command that lifts it.
pub(super) fn held(holds: &LegalHolds, hub: &str) -> Markup {
    if holds.holds.is_empty() {
        return html! { p .empty { "Nothing is held." } };
    }
    html! {
        div .wide { table {
            caption { (many(holds.holds.len(), "legal hold")) " in force" }
            thead { tr {
                th scope="col" { "Held" } th scope="col" { "Why" } th scope="col" { "By" }
                th scope="col" { "Entry" }
            } }
            tbody { @for one in &holds.holds { tr data-row {
                th scope="row" { @match &one.run {
                    Some(run) => { "run " a href={ "/console/runs/" (shown(run)) } { (shown(run)) } },
                    None => "the whole log",
                } p .hint { (shown(&one.log)) } }
                td { (shown(&one.reason)) }
                td { (shown(&one.by)) }
                td { (one.entry) }
            } } }
        } }
        h3 { "Lift a hold" }
        p { "To lift a hold is signed with your own SSH key, with the role operator in the signed list." }
        @for one in &holds.holds {
            (command(&format!(
                "wicketgate ledger payload release{hub} {} --reason 'WHY' --operator-key KEY",
                match &one.run {
                    Some(run) => format!("--run {}", word(run)),
                    None => format!("--log {}", word(&one.log)),
                }
            )))
        }
    }
}

fn hold_form(visit: &Visit) -> Markup {
    html! {
        h3 { "Place a hold" }
        p { "Payloads under a hold are neither erased nor dropped with age." }
        form method="post" action=(HOLD) {
            (token(visit, HOLD))
            label for="hold-run" { "Id of a run" }
            input id="hold-run" name="run" autocomplete="off";
            label for="hold-log" { "or the name of a log" }
            input id="hold-log" name="log" autocomplete="off";
            label for="reason" { "Reason, for the ledger" }
            input id="reason" name="reason" required maxlength="1024" autocomplete="off";
            button { "Place the hold" }
        }
    }
}

/// Places a hold.
pub(in super::super) async fn hold(visit: &mut Visit) -> Result<Answer, Failure> {
    let asked = {
        let field = |name: &str| {
            Some(visit.form.field(name).trim().to_owned()).filter(|text| !text.is_empty())
        };
        let [run, log, reason] = ["run", "log", "reason"].map(field);
        LegalHold { run, log, reason, ..LegalHold::default() }
    };
    let placed = visit.ask::<route::LegalHold>((), asked).await;
    placed.map_err(|failure| failure.leading_to(CUSTODY))?;
    Ok(Answer::SeeOther(CUSTODY.to_owned()))
}

/// What was erased.
pub(super) fn erased(erasures: &Erasures) -> Markup {
    if erasures.erasures.is_empty() {
        return html! { p .empty { "Nothing was erased." } };
    }
    html! {
        div .wide { table {
            caption { (many(erasures.erasures.len(), "erasure")) ", newest first" }
            thead { tr {
                th scope="col" { "Entry" } th scope="col" { "When" } th scope="col" { "Payloads" }
                th scope="col" { "Log" } th scope="col" { "Basis" } th scope="col" { "By" }
                th scope="col" { "Backups expire" }
            } }
            tbody { @for one in &erasures.erasures { tr data-row { (row(one)) } } }
        } }
        @if erasures.more { p { "There are more erasures than are shown." } }
    }
}

fn row(one: &ErasureRow) -> Markup {
    html! {
        th scope="row" { a href={ (CUSTODY) "/erasures/" (one.entry) } { (one.entry) } p .hint { (shown(&one.fleet)) } }
        @match &one.facts {
            None => td colspan="6" .bad { "■ the entry cannot be read: verify the ledger" },
            Some(facts) => {
                td { (time(&facts.at)) }
                td { (facts.payloads) }
                td { (shown(&facts.log)) }
                td { (shown(&facts.basis)) @if let Some(request) = &facts.request { " (" (shown(request)) ")" } }
                td { (shown(facts.signed_by.as_deref().unwrap_or(&facts.by))) }
                td { (time(&facts.backups_expire_by)) }
            },
        }
    }
}

fn erasure_form(visit: &Visit, hub: &str) -> Markup {
    html! {
        h3 { "Erase the payloads of a run" }
        p { "First count what would be erased. Nothing is erased by this form." }
        form method="post" action=(ERASURE) {
            (token(visit, ERASURE))
            label for="erase-run" { "Id of the run" }
            input id="erase-run" name="run" required autocomplete="off";
            label for="role" { "Only this role, such as args; empty for all" }
            input id="role" name="role" autocomplete="off";
            button { "Count" }
        }
        p { "To erase is signed with your own SSH key, with the role operator in the signed list:" }
        (command(&erase_command(hub, "RUN", "")))
    }
}

fn erase_command(hub: &str, run: &str, role: &str) -> String {
    let role = if role.is_empty() { String::new() } else { format!(" --role {}", word(role)) };
    format!(
        "wicketgate ledger payload erase{hub} --run {}{role} --basis 'WHY' --operator-key KEY --yes",
        word(run)
    )
}

/// Counts what an erasure would erase, and gives the command that erases it.
pub(in super::super) async fn count(visit: &mut Visit) -> Result<Answer, Failure> {
    let field = |name: &str| visit.form.field(name).trim().to_owned();
    let (run, role) = (field("run"), field("role"));
    let asked = Erasure {
        dry_run: true,
        run: Some(run.clone()),
        role: Some(role.clone()).filter(|role| !role.is_empty()),
        ..Erasure::default()
    };
    let found = visit.ask::<route::Erasure>((), asked).await;
    let found = found.map_err(|failure| failure.leading_to(CUSTODY))?;
    let body = counted(&found, (&run, &role), &hub(visit));
    Ok(Answer::Page("What would be erased".to_owned(), body))
}

/// The count, and the command.
pub(super) fn counted(found: &ErasureReply, (run, role): (&str, &str), hub: &str) -> Markup {
    html! {
        (facts(&[
            ("Run", id(run)),
            ("Stored", html! { b { (many(found.payloads, "payload")) } " would be erased" }),
            ("Erased before", html! { (found.before) }),
            ("Never stored", html! { (found.absent) }),
            ("Store", html! { (shown(&found.store)) }),
        ]))
        p { "Nothing was erased. This command signs the order and erases:" }
        (command(&erase_command(hub, run, role)))
        p { a href=(CUSTODY) { "Back to custody" } }
    }
}

/// One erasure with its receipt.
pub(in super::super) async fn erasure(visit: &mut Visit) -> Result<Answer, Failure> {
    let path = visit.path::<ErasurePath>().await?;
    let detail = visit.ask::<route::ErasureDetail>(path, ()).await?;
    Ok(Answer::Page(format!("Erasure {}", detail.erasure.entry), receipt(&detail)))
}

pub(super) fn receipt(detail: &ErasureDetail) -> Markup {
    let erasures = Erasures { erasures: vec![detail.erasure.clone()], more: false };
    let envelope = serde_json::to_string_pretty(&detail.receipt).unwrap_or_default();
    html! {
        (erased(&erasures))
        h2 { "Receipt" }
        p { "Signed by the evidence key. Save it as " code { "receipt.json" } " to verify it later:" }
        (command("wicketgate ledger payload receipt --public-key evidence.pem.pub receipt.json"))
        pre .arguments tabindex="0" { (shown_lines(&envelope)) }
        p { a href=(CUSTODY) { "Back to custody" } }
    }
}
