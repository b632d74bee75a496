//! Limits: what is left of each pool, and what is suspended or stopped.

use maud::{Markup, html};

use super::{Failure, id, shown, time};
use crate::domain::plural::many;
use crate::operator::api::route;
use crate::operator::api::status::{LimitsState, PoolState, StopState, Suspension};
use crate::serve::console::visit::{Answer, Visit};

/// The page.
pub(in super::super) async fn limits(visit: &mut Visit) -> Result<Answer, Failure> {
    let state = visit.ask::<route::Limits>((), ()).await?;
    Ok(Answer::Page("Limits".to_owned(), sections(&state)))
}

pub(super) fn sections(state: &LimitsState) -> Markup {
    html! {
        p .hint { "As each gate last reported it." }
        @if !state.silent.is_empty() {
            p .failure { "Silent gates, of which this may be old:"
                @for origin in &state.silent { " " (id(origin)) }
            }
        }
        h2 { "Pools" }
        (pools(&state.pools))
        h2 { "Suspended after too many denials" }
        (suspended(&state.suspended))
        h2 { "Stops that operators ordered" }
        (stops(&state.stops))
    }
}

fn pools(pools: &[PoolState]) -> Markup {
    if pools.is_empty() {
        return html! { p .empty { "No gate reports a pool." } };
    }
    html! {
        div .wide { table {
            caption { (many(pools.len(), "pool")) ", as each gate sees them" }
            thead { tr {
                th scope="col" { "Pool" } th scope="col" { "Counts" } th scope="col" { "Left" }
                th scope="col" { "Of" } th scope="col" { "Gate" }
            } }
            tbody { @for pool in pools { tr data-row {
                th scope="row" { (shown(&pool.pool)) }
                td { (shown(&pool.unit)) }
                td { @match pool.left {
                    None => "not used in this window",
                    Some(0) => b .bad { "■ 0" },
                    Some(left) => (left),
                } }
                td { (pool.size) @if pool.per != "none" { " a " (shown(&pool.per)) } }
                td { (id(&pool.origin)) }
            } } }
        } }
    }
}

fn suspended(all: &[Suspension]) -> Markup {
    if all.is_empty() {
        return html! { p .empty { "No run is suspended." } };
    }
    html! {
        div .wide { table {
            caption { (many(all.len(), "suspension")) }
            thead { tr {
                th scope="col" { "Agent" } th scope="col" { "What" } th scope="col" { "Run" } th scope="col" { "Gate" }
            } }
            tbody { @for one in all { tr data-row {
                th scope="row" { a href={ "/console/runs/" (shown(&one.run)) } { (shown(&one.agent)) } }
                td { @match &one.tool { None => "the whole run", Some(tool) => { "the tool " (shown(tool)) } } }
                td { (id(&one.run)) }
                td { (id(&one.origin)) }
            } } }
        } }
    }
}

fn stops(all: &[StopState]) -> Markup {
    if all.is_empty() {
        return html! { p .empty { "No stop is in force." } };
    }
    html! {
        div .wide { table {
            caption { (many(all.len(), "stop")) " in force" }
            thead { tr {
                th scope="col" { "Order" } th scope="col" { "What" } th scope="col" { "Target" }
                th scope="col" { "Until" } th scope="col" { "Gate" }
            } }
            tbody { @for stop in all { tr data-row {
                th scope="row" { a href={ "/console/orders/" (stop.seq) } { "#" (stop.seq) } }
                td { (shown(&stop.action)) }
                td { (shown(&stop.target)) " " @if !stop.name.is_empty() { (id(&stop.name)) } }
                td {
                    @match &stop.expires { None => "it is reinstated", Some(at) => (time(at)) }
                    @if let Some(at) = &stop.lifted { ", lifted until " (time(at)) }
                }
                td { (id(&stop.origin)) }
            } } }
        } }
    }
}
