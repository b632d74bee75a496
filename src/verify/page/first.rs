//! The first screen: what the files prove, what they do not, and who vouches for them.

use maud::{Markup, html};

use super::runs::opening;
use crate::domain::decision::Verdict;
use crate::domain::plural::many;
use crate::domain::tier::Binding;
use crate::projection::{BundleMaterial, decides, is_observed};
use crate::record::chain::ChainGenesis;
use crate::scope::Scope;
use crate::statement::Exporter;
use crate::survey::Survey;

/// What no bundle of this version proves, even if every check holds.
pub const NOT_PROVEN: [&str; 7] = [
    "that nothing happened outside the gate: a ledger knows only the calls that went through it",
    "that history was not rewritten by a holder of every key, unless a third party noted a head before",
    "that this is every run and every chain, beyond what the checks above say",
    "the time: `ts` is the writer's claim, except where a third party's time brackets it",
    "that the policy engine would decide the same again, unless decisions were replayed",
    "that a tool did what it answered: an output is what the gate received, byte for byte, and no more",
    "who a caller was beyond what the gate saw: it names the agent by its own observation and its manifest",
];

/// What observed calls do not prove.
pub const NOT_OBSERVED: &str = "beyond the model traffic that the gate saw: that there was no other, that the agent ran what a model asked for, that user messages came from a user";

/// What stays unproven about a run whose agent claims its model. `observed`: calls of it are *observed*.
pub const fn claimed(observed: bool) -> &'static str {
    match observed {
        true => {
            "model and instructions behind calls that are not `observed`: they are the agent's own claim"
        }
        false => "model and instructions: they are the agent's own claim and were not observed",
    }
}

/// What is recorded of an answer whose gate ended while it left.
pub fn uncovered(bytes: u64) -> String {
    format!(
        "the answer left at least {}; what left after that is not recorded",
        many(bytes, "byte")
    )
}

/// One sentence about what happened, for the head of the page.
pub(super) fn lead(survey: &Survey<'_>) -> Markup {
    let (entries, heads) = (survey.entries().count(), survey.heads.len());
    let runs = survey.runs();
    html! {
        p .lead {
            @match survey.scope {
                Scope::Run => @for material in &runs { (run_lead(material)) },
                Scope::Range => {
                    "Everything the log " code { (origin(survey)) } " holds in one span: "
                    (many(entries, "entry")) ", "
                    (many(runs.len(), "run")) "."
                },
                Scope::Population => {
                    "What " (many(heads, "log")) (if heads == 1 { " contains" } else { " contain" }) " that matches the query: "
                    (many(entries, "entry")) "."
                },
            }
        }
    }
}

/// The calls of a run by outcome: each call is counted once, by its last decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sums {
    allowed: usize,
    refused: usize,
    /// Held, without a later decision.
    waiting: usize,
    /// Calls whose decisions the bundle lacks.
    undecided: usize,
}

impl Sums {
    fn of(material: &BundleMaterial<'_>) -> Self {
        let mut sums = Self::default();
        for call in material.calls() {
            let last = call.lines.iter().rev().find(|line| decides(line));
            let count = match last.and_then(|line| line.entry.draft.verdict) {
                Some(Verdict::Allow) => &mut sums.allowed,
                Some(Verdict::Deny) => &mut sums.refused,
                Some(Verdict::RequireApproval) => &mut sums.waiting,
                None => &mut sums.undecided,
            };
            *count = count.saturating_add(1);
        }
        sums
    }
}

fn run_lead(material: &BundleMaterial<'_>) -> Markup {
    let opening = opening(material);
    let Sums { allowed, refused, waiting, undecided } = Sums::of(material);
    let (calls, unenforced) = (material.calls_count(), material.unenforced_count());
    html! {
        "The agent " strong { @if let Some(run) = opening { (run.agent) } " " @if let Some(run) = opening { (run.version) } }
        " asked for " (many(calls, "call")) ": "
        (allowed) " allowed, " (refused) " refused, " (waiting) " held for a person and still undecided"
        @if undecided > 0 { ", " (undecided) " whose decision is not in this bundle" }
        ". The run is "
        @match material.status() {
            "sealed" => "sealed: nothing can be added to it.",
            "open" => { strong { "OPEN" } ": more may have happened since." },
            _ => "cut off by the ends of the export.",
        }
        @if unenforced > 0 {
            " " strong { (unenforced) " of the decisions were NOT ENFORCED" }
            ": those calls ran although the policy did not allow them (observe mode)."
        }
    }
}

fn origin<'a>(survey: &'a Survey<'_>) -> &'a str {
    survey.heads.first().map_or("", |head| head.checkpoint.origin.as_str())
}

/// The three boxes.
pub(super) fn screen(survey: &Survey<'_>, exporter: &Exporter) -> Markup {
    html! {
        div .first {
            section {
                h2 { "Proven if the checks pass" }
                p .small { "Each line names the checks that decide it (" code { "VERIFY.md" } ")." }
                ul { @for (claim, checks) in proven(survey) {
                    li { (claim) " " span .small { "[" (checks) "]" } }
                } }
            }
            section .not {
                h2 { "Not proven by this bundle" }
                ul {
                    @for item in own_limits(survey) { li { (item) } }
                    @for item in NOT_PROVEN { li { (item) } }
                }
            }
        }
        section .wide {
            h2 { "Who vouches for this, and up to when" }
            dl .facts { @for (name, value) in whose(survey, exporter) { dt { (name) } dd { (value) } } }
        }
    }
}

/// What the material in the bundle lets a verifier prove.
fn proven(survey: &Survey<'_>) -> Vec<(String, &'static str)> {
    let mut all = vec![(
        "the files are the ones the holder of the evidence key exported".to_owned(),
        "B1 B2 B3",
    )];
    let entries = survey.entries().count();
    for head in survey.heads.iter().take(1) {
        let of = match survey.heads.len() {
            1 => {
                format!("the log {} when it held {}", head.checkpoint.origin, head.checkpoint.size)
            }
            n => format!("{n} logs, at the sizes below"),
        };
        all.push((
            format!(
                "all {} shown here are in {of}, unchanged and in this order",
                many(entries, "entry")
            ),
            "H1 E1 E2 S1 S2",
        ));
    }
    if survey.runs().iter().any(BundleMaterial::sealed) {
        all.push(("nothing is missing in a sealed run: its entries are numbered, linked and counted by its seal".to_owned(), "S3 S4"));
    }
    if survey.decisions().next().is_some() {
        all.push((
            "each call was decided before it ran, for exactly these arguments, and has one outcome"
                .to_owned(),
            "S5 P2",
        ));
    }
    let opened = survey.payloads_in("opened").saturating_add(survey.payloads_in("redacted"));
    if opened > 0 {
        let what = format!(
            "{} shown here, whole or in part, are the bytes that were recorded",
            many(opened, "payload")
        );
        all.push((what, "P1"));
    }
    if survey.named("policy/").next().is_some() {
        all.push((
            "the policy is included byte for byte, and was in force when it decided".to_owned(),
            "P3",
        ));
    }
    if survey.has(crate::bundle::AGENT) {
        all.push((
            "the manifest that the agent was bound to is included byte for byte".to_owned(),
            "A1",
        ));
    }
    all.extend(reach(survey));
    all
}

/// What it proves beyond the entries themselves: completeness, and which parties saw the log.
fn reach(survey: &Survey<'_>) -> Vec<(String, &'static str)> {
    let mut all = Vec::new();
    all.extend(match survey.scope {
        Scope::Run => None,
        Scope::Range => {
            Some(("these are all entries of the span: no other lies between them".to_owned(), "R1"))
        }
        Scope::Population => Some((
            "the counts are those of all entries of the spans: none was left out".to_owned(),
            "R1 R2",
        )),
    });
    let older = survey.older_heads();
    if !older.is_empty() {
        let sizes: Vec<String> = older.iter().map(ToString::to_string).collect();
        all.push((format!("the log only grew since it held {} entries", sizes.join(", ")), "H2"));
    }
    if let Some(head) = &survey.fleet_head {
        all.push((
            format!("the log is enrolled in {}, the tenant's log of logs", head.checkpoint.origin),
            "F1",
        ));
        let others = survey.witnesses().len();
        if others > 0 {
            let seen = many(others, "witness");
            all.push((format!("{seen} saw a head of that log, if you trust their keys"), "W1"));
        }
    }
    all
}

/// What this bundle leaves open and another could show.
fn own_limits(survey: &Survey<'_>) -> Vec<String> {
    let mut all = Vec::new();
    let mut say = |there: bool, what: &str| all.extend(there.then(|| what.to_owned()));
    let runs = survey.runs();
    say(
        runs.iter().any(|run| run.status() == "open"),
        "that the run is complete: it is OPEN, more may have happened since",
    );
    say(
        runs.iter().any(|run| run.cut.any()),
        "runs that begin before or end after the span are not complete here",
    );
    let bound = |how| runs.iter().any(|run| opening(run).is_some_and(|run| run.binding == how));
    let observed = survey.decisions().any(is_observed);
    say(bound(Binding::Claimed), claimed(observed));
    say(observed, NOT_OBSERVED);
    say(bound(Binding::Unclaimed), "which model and instructions ran: the agent claimed none");
    say(
        runs.iter().any(|run| run.unenforced_count() > 0),
        "that every decision was enforced: some were only recorded (observe mode)",
    );
    let uncovered = |run: &BundleMaterial<'_>| {
        run.calls().iter().filter(|call| call.covered_bytes().is_some()).count()
    };
    let uncovered: usize = runs.iter().map(uncovered).sum();
    say(
        uncovered > 0,
        &format!(
            "all that left of {}: the gate ended before it could record the rest",
            many(uncovered, "answer")
        ),
    );
    let seen = !survey.witnesses().is_empty() || !survey.tokens().is_empty();
    say(
        survey.fleet_head.is_none(),
        "that the log is known to a third party: there is no fleet log here, so no witness and no time stamp",
    );
    say(
        survey.fleet_head.is_some() && !seen,
        "that a third party has seen the head of the log: no witness cosigned it, no authority stamped it",
    );
    say(
        seen && !survey.newest_is_seen(),
        "that a third party has seen the newest entries of the log of logs: those who vouch here saw an older head of it",
    );
    for (state, what) in [
        ("withheld", "withheld or never stored: only their commitments are here"),
        ("redacted", "redacted: only the members that are shown can be checked"),
        ("erased", "erased: they are gone, and the erasure is recorded"),
    ] {
        let n = survey.payloads_in(state);
        if n > 0 {
            all.push(format!("the content of {} that are {what}", many(n, "payload")));
        }
    }
    all
}

fn whose(survey: &Survey<'_>, exporter: &Exporter) -> Vec<(&'static str, Markup)> {
    let mut all = vec![(
        "Exported by",
        html! { "the holder of the evidence key (" code { "manifest.dsse.json" } "), on " (exporter.at) " by the exporter's clock" },
    )];
    let written = survey.of_kinds(&["writer.started"]).count();
    let enrolled = survey.of_kinds(&["chain.genesis"]);
    let enrolled = enrolled.filter_map(|noted| noted.entry.draft.get::<ChainGenesis>());
    for genesis in enrolled.take(1) {
        all.push((
            "Written by",
            html! {
                (many(written, "writer")) " whose keys are certified by the enrolment key "
                code { (genesis.enrolment_key) } ". Compare it with the one you were given."
            },
        ));
    }
    for head in survey.heads.iter().take(8) {
        all.push((
            "Up to",
            html! {
                "entry " (head.checkpoint.size.saturating_sub(1)) " of " code { (head.checkpoint.origin) }
                ", root " code { (head.checkpoint.root.hex()) }
            },
        ));
    }
    if let (Some(first), Some(last)) = (survey.entries().next(), survey.entries().last()) {
        all.push(("Time, as the writer says", html! { (first.entry.ts) " to " (last.entry.ts) }));
    }
    let (witnessed, stamped) = (survey.witnesses(), survey.tokens().len());
    let seen = match (witnessed.is_empty(), stamped) {
        (true, 0) => "no third party: see what is not proven".to_owned(),
        (true, n) => format!("{} of a time stamping authority", many(n, "token")),
        (false, 0) => witnessed.join(", "),
        (false, n) => format!("{}; {}", witnessed.join(", "), many(n, "time stamp token")),
    };
    all.push(("Seen by", html! { (seen) }));
    let approvals = survey.of_kinds(&["approval.granted", "approval.refused"]).count();
    all.push(("Approved by", html! { (if approvals == 0 { "none: no approval is recorded here" } else { "see Approvals" }) }));
    let logs = survey.population.chains.len();
    if logs > 0 {
        all.push(("Logs asked", html! { (logs) }));
    }
    all
}
