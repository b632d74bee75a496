//! What waits for this operator.

use maud::html;

use super::{Failure, approvals, health};
use crate::operator::api::requests::Page as Lines;
use crate::operator::api::route;
use crate::serve::console::visit::{Answer, Visit};

/// Held calls shown here; the queue has all.
const LINES: u64 = 10;

/// The page.
pub(in super::super) async fn home(visit: &mut Visit) -> Result<Answer, Failure> {
    let held = visit.ask::<route::HeldCalls>((), Lines { limit: Some(LINES) }).await?;
    let fleet = visit.ask::<route::Fleet>((), ()).await?;
    let readiness = visit.console.view.now();
    let body = html! {
        section aria-labelledby="waiting" {
            h2 id="waiting" { "Held calls" }
            (approvals::table(visit, &held))
            @if held.more { p { a href="/console/approvals" { "All held calls" } } }
        }
        section aria-labelledby="ready" {
            h2 id="ready" { "Readiness" }
            (health::readiness(&readiness))
        }
        section aria-labelledby="gates" {
            h2 id="gates" { "Gates" }
            (health::gates(&fleet))
        }
    };
    Ok(Answer::Page("What waits".to_owned(), body))
}
