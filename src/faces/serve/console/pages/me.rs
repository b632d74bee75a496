//! Who is logged in: roles, keys on the signed list of approvers, and a new passkey for it.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use maud::{Markup, html};

use super::{facts, id, shown};
use crate::crypto::ssh::SshKey;
use crate::domain::plural::many;
use crate::operator::api::route;
use crate::operator::operators::Operator;
use crate::operator::own_keys::OwnKey;
use crate::serve::console::assets;
use crate::serve::console::site::Console;
use crate::serve::console::visit::{Answer, Visit};

/// The page.
pub(in super::super) async fn me(
    State(console): State<Arc<Console>>,
    request: Request,
) -> Response {
    match Visit::enter(console, request, None).await {
        Ok(visit) => {
            let keys = visit.console.api.own_keys(&visit.who).await;
            let keys = keys.as_deref().map_err(String::as_str);
            let body = html! {
                (page(&visit.who, keys))
                @if visit.may::<route::HeldCallDecision>() { (enrolment(&visit.who.subject)) }
            };
            visit.answer(Ok(Answer::Page("You".to_owned(), body)))
        }
        Err(response) => *response,
    }
}

/// An operator's roles and keys.
pub(super) fn page(who: &Operator, keys: Result<&[OwnKey], &str>) -> Markup {
    html! {
        (facts(&[
            ("Operator", html! { (shown(&who.subject)) }),
            ("Roles", html! { (who.role_names().join(", ")) }),
            ("Logged in with", html! { (shown(&who.auth)) }),
        ]))
        p { a href="/console/logout" { "Your session, and the button to log out" } }
        h2 { "Your keys" }
        @match keys {
            Err(why) => p .empty { (shown(why)) },
            Ok([]) => p .empty { "The signed list of approvers has no key of yours." },
            Ok(keys) => (table(keys)),
        }
    }
}

fn table(keys: &[OwnKey]) -> Markup {
    html! {
        div .wide { table {
            caption { (many(keys.len(), "key")) " on the signed list of approvers" }
            thead { tr {
                th scope="col" { "Key" } th scope="col" { "Kind" } th scope="col" { "Signs" }
                th scope="col" { "Roles" } th scope="col" { "State" }
            } }
            tbody { @for OwnKey { signer, revoked } in keys { tr {
                th scope="row" { (id(&signer.key.fingerprint())) }
                td { (shown(&kind(&signer.key))) }
                td { (shown(&signer.namespaces.join(", "))) }
                td { (shown(&signer.roles.join(", "))) }
                td {
                    @if *revoked { span .bad { "■ revoked" } }
                    @else if let Some(before) = signer.before { "valid until " (before) }
                    @else { "● on the list" }
                }
            } } }
        } }
    }
}

fn kind(key: &SshKey) -> String {
    match key {
        SshKey::Plain(_) => "file or agent".to_owned(),
        SshKey::Hardware { .. } => "security key".to_owned(),
        SshKey::Passkey { application, .. } => format!("passkey of {application}"),
    }
}

/// The button that makes a passkey. The line that comes of it counts only on the signed list: a console adds no
/// approver.
fn enrolment(subject: &str) -> Markup {
    html! {
        section #enrolment aria-labelledby="passkey" data-subject=(shown(subject)) {
            h2 id="passkey" { "A new passkey" }
            p {
                "Your browser keeps the passkey. The page shows one line for the list of approvers. "
                b { "The passkey counts only once that line is in the signed list" }
                ": send it to a person who signs the list (" code { "wicketgate approval sign-approvers" } ")."
            }
            p #said role="status" { "Only a script can make a passkey: this browser has not run it." }
            button type="button" disabled { "Make a passkey" }
            div hidden {
                label for="line" { "Line for the list" }
                textarea id="line" rows="5" readonly {}
            }
        }
        script type="module" src=(assets::path(assets::SIGN)) {}
    }
}
