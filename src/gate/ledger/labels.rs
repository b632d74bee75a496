//! What a run had read when a call of it was decided, in the form of entries.

use crate::domain::taint::{Label, LabelOrigin};
use crate::judge::Judged;
use crate::judge::guarding::without_secrets;
use crate::policy::flow::is_irreversible;
use crate::record::call::{CopiedSpan, Taint, TaintLabel};
use crate::record::{List, Text, True};

/// The most passages that an entry names.
const SPANS_MAX: usize = 16;

/// What the run had read, and what of that is in the call; `None`: it had read nothing.
pub(super) fn taint(judged: &Judged) -> Option<Taint> {
    let (facts, input) = judged.taint()?;
    let run = judged.prepared().call().run();
    let other = |origin: &LabelOrigin| (origin.run != *run).then_some(origin.run);
    let labels = facts.labels.iter().map(|(label, origin)| TaintLabel {
        call: origin.call.clone(),
        label: *label,
        run: other(origin),
    });
    let tool = judged.prepared().tool();
    let irreversible = tool.is_none_or(|tool| is_irreversible(tool.tier, &tool.kind));
    let demand = input.demand(irreversible);
    let influence =
        [(Label::Private, input.influence.private), (Label::Untrusted, input.influence.untrusted)];
    let influenced = influence.into_iter().filter(|(_, passages)| *passages > 0);
    let spans = facts.spans.iter().map(|span| CopiedSpan {
        call: span.origin.call.clone(),
        end: span.end.into(),
        label: span.label,
        path: Text::clip(&without_secrets(&span.path), 256),
        run: other(&span.origin),
        start: span.start.into(),
    });
    let left = facts.spans.len().saturating_sub(SPANS_MAX);
    Some(Taint {
        action: demand.map(|(_, action)| action),
        flow: demand.map(|(flow, _)| flow),
        influenced: List::some(influenced.map(|(label, _)| label)),
        labels: List::some(labels)?,
        spans: List::some(spans),
        spans_more: (left > 0).then(|| left.into()),
        unknown: True::when(input.influence.unknown),
    })
}
