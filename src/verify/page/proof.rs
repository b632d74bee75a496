//! The proof behind the story: time, keys and logs, erasures, exports, controls, files, glossary.

use maud::{Markup, html};

use super::terms::{moment, pretty};
use crate::bundle;
use crate::controls as mapping;
use crate::crypto::note::SignatureLine;
use crate::domain::json::Json;
use crate::domain::plural::many;
use crate::population::{ChainSummary, Population};
use crate::record::chain::{AnchorObserved, ChainGenesis, WriterStarted};
use crate::survey::{Noted, Signed, Survey};

/// The most rows of a table; the named file has the rest.
const ROWS_MAX: usize = 200;

/// The query, and what each log contributes to it.
pub(super) fn population(survey: &Survey<'_>) -> Markup {
    let Population { query, totals, chains, .. } = &survey.population;
    html! {
        h3 { "Asked" } pre { (pretty(query)) }
        h3 { "Found in all" } pre { (pretty(&Json::of(totals))) }
        table {
            thead { tr { th scope="col" { "Log" } th scope="col" { "Span" } th scope="col" { "Entries" } th scope="col" { "Runs" } th scope="col" { "Calls" } th scope="col" { "Gaps" } th scope="col" { "Signs of life" } } }
            tbody { @for chain in chains.iter().take(ROWS_MAX) { (chain_row(chain)) } }
        }
        @if chains.len() > ROWS_MAX { p { "And " (chains.len().saturating_sub(ROWS_MAX)) " more in " code { (bundle::POPULATION) } "." } }
    }
}

fn chain_row(chain: &ChainSummary) -> Markup {
    let beats = &chain.heartbeats;
    let calls: Vec<String> = chain.calls.iter().map(|c| format!("{} {}", c.v, c.k)).collect();
    html! {
        tr {
            td { code { (chain.origin) } }
            td { (chain.from) " to " (chain.to) }
            td { (chain.entries) }
            td { (chain.runs) }
            td { (calls.join(", ")) }
            td { @if chain.gaps.is_empty() { "none" } @else { pre { (pretty(&Json::of(&chain.gaps))) } } }
            td { (beats.count) ", longest gap " (beats.longest_ms) " ms of " (beats.declared_ms.unwrap_or_default()) " ms declared"
                @if let Some(tests) = &chain.enforcement_tests { "; tests of its own enforcement: " (tests.count) ", failed " (tests.failed) ", last " (tests.last) }
                @if let Some(told) = &chain.postures { "; agents' own reports of their isolation, not verified: " (told.count) ", failed " (told.failed) ", last " (told.last) } }
        }
    }
}

/// The writer's time, and the times that others vouch for.
pub(super) fn time(survey: &Survey<'_>) -> Markup {
    let observed: Vec<Noted<'_>> = survey
        .of_kinds(&["anchor.observed"])
        .chain(survey.fleet_of(&["anchor.observed"]))
        .collect();
    let steps = survey.of_kinds(&["clock.step"]).count();
    let tokens = survey.tokens();
    let times = |(head, line): (&Signed, &SignatureLine)| {
        Some((head.file.clone(), line.name.clone(), cosigned_at(&line.signature)?))
    };
    let cosigned: Vec<(String, String, String)> = survey.cosigned().filter_map(times).collect();
    html! {
        p { "The time of each entry is the writer's claim; it never goes backwards within a log. Where third parties vouch for times, an entry was written between two of them: after the last such time that the log had recorded, and before the first time at which a third party had seen the log." }
        @if steps > 0 { p { (many(steps, "clock step")) " recorded (" code { "clock.step" } ")." } }
        @if observed.is_empty() && tokens.is_empty() && cosigned.is_empty() {
            p { strong { "No time of a third party is in this bundle." } }
        } @else {
            table {
                thead { tr { th scope="col" { "What" } th scope="col" { "Time" } th scope="col" { "Says" } } }
                tbody {
                    @for noted in observed.iter().take(ROWS_MAX) { (anchor(noted)) }
                    @for (file, name, at) in &cosigned { tr {
                        td { "cosignature by " code { (name) } } td { (moment(at)) }
                        td { "the head of the fleet log in " code { (file) } " existed by then, if you trust this witness" }
                    } }
                    @for name in &tokens { tr {
                        td { "RFC 3161 token " code { (name) } } td { "in the token" }
                        td { "the note beside it existed by then, if you trust the authority (" code { "openssl ts -reply -in " (name) " -text" } ")" }
                    } }
                }
            }
        }
    }
}

fn anchor(noted: &Noted<'_>) -> Markup {
    let Some(seen) = noted.entry.draft.get::<AnchorObserved>() else { return html! {} };
    html! { tr {
        td { (seen.source) " " code { (seen.name) } ", seen as entry " (noted.entry.seq) " of " code { (noted.file()) } }
        td { (moment(&seen.time.to_string())) }
        td { "entries after it were written after that time; it is about " code { (seen.log) } " at " (seen.size) }
    } }
}

/// Cosignatures carry their time: 8 bytes of seconds, then 64 of signature.
fn cosigned_at(signature: &[u8]) -> Option<String> {
    let (seconds, rest) = signature.split_first_chunk::<8>()?;
    let seconds = i64::try_from(u64::from_be_bytes(*seconds)).ok().filter(|_| rest.len() == 64)?;
    jiff::Timestamp::from_second(seconds).ok().map(|at| at.to_string())
}

/// Which keys signed what, and the heads.
pub(super) fn log(survey: &Survey<'_>) -> Markup {
    let genesis = survey.of_kinds(&["chain.genesis"]).chain(survey.fleet_of(&["chain.genesis"]));
    let writers = survey.of_kinds(&["writer.started"]).chain(survey.fleet_of(&["writer.started"]));
    let kinds = [
        "chain.enrolled",
        "chain.checkpoint",
        "chain.retired",
        "key.rotated",
        "key.revoked",
        "retention.pruned",
    ];
    html! {
        h3 { "Heads" }
        table {
            thead { tr { th scope="col" { "Log" } th scope="col" { "Entries" } th scope="col" { "Root" } th scope="col" { "Signed by" } } }
            tbody { @for head in survey.heads.iter().chain(&survey.fleet_head).chain(&survey.anchored).take(ROWS_MAX) { (head_row(head)) } }
        }
        h3 { "Keys, as the logs name them" }
        p { "Do not trust these keys because they are listed here: compare them with keys that you received separately." }
        table {
            thead { tr { th scope="col" { "Key" } th scope="col" { "In" } th scope="col" { "Value" } } }
            tbody {
                @for noted in genesis.take(ROWS_MAX) { (key_row("enrolment key", &noted)) }
                @for noted in writers.take(ROWS_MAX) { (key_row("writer key", &noted)) }
            }
        }
        @if survey.has_fleet() {
            h3 { "What the fleet log says about logs and keys" }
            (entries(survey.fleet_of(&kinds)))
        } @else {
            p { "There is no fleet log in this bundle." }
        }
    }
}

fn head_row(head: &Signed) -> Markup {
    let others: Vec<&str> = head
        .lines
        .iter()
        .map(|line| line.name.as_str())
        .filter(|name| *name != head.checkpoint.origin)
        .collect();
    html! { tr {
        td { code { (head.checkpoint.origin) } br; span .small { (head.file) } }
        td { (head.checkpoint.size) }
        td { code { (head.checkpoint.root.hex()) } }
        td { "the log" @if !others.is_empty() { ", cosigned by " (others.join(", ")) } }
    } }
}

fn key_row(what: &str, noted: &Noted<'_>) -> Markup {
    let draft = &noted.entry.draft;
    let writer = draft.get::<WriterStarted>().map(|started| started.writer_key);
    let key = writer.or_else(|| draft.get::<ChainGenesis>().map(|genesis| genesis.enrolment_key));
    html! { tr {
        td { (what) ", epoch " (noted.entry.epoch) }
        td { code { (noted.file()) } ", entry " (noted.entry.seq) }
        td { code { @if let Some(key) = key { (key) } } }
    } }
}

/// Raw entries, one a row.
fn entries<'a>(found: impl Iterator<Item = Noted<'a>>) -> Markup {
    let found: Vec<Noted<'_>> = found.collect();
    html! {
        @if found.is_empty() { p { "Nothing." } } @else {
            table {
                thead { tr { th scope="col" { "Entry" } th scope="col" { "Time" } th scope="col" { "What" } th scope="col" { "Says" } } }
                tbody { @for noted in found.iter().take(ROWS_MAX) { tr {
                    td .n { (noted.entry.seq) }
                    td { (moment(&noted.entry.ts.to_string())) }
                    td { (noted.kind()) }
                    td { pre { (pretty(&noted.data())) } }
                } } }
            }
            @if found.len() > ROWS_MAX { p { "And " (found.len().saturating_sub(ROWS_MAX)) " more in " code { (bundle::FLEET_ENTRIES) } "." } }
        }
    }
}

/// How much of the payloads is disclosed.
pub(super) fn payloads(survey: &Survey<'_>) -> Markup {
    let kinds = ["payload.erased", "hold.placed", "hold.lifted"];
    html! {
        p { "The log holds no content, only salted commitments: without the salt they reveal nothing about the content; with it, exactly one content matches." }
        ul {
            @for (state, what) in [
                ("opened", "shown: bytes and salt are here"),
                ("redacted", "redacted: some members are shown, the others stay hidden and still count"),
                ("withheld", "withheld or never stored: only the commitment is here"),
                ("erased", "erased: bytes and salt are gone; the erasure is recorded"),
            ] { li { (survey.payloads_in(state)) " " (what) } }
        }
        h3 { "Recorded erasures and holds" }
        (entries(survey.fleet_of(&kinds)))
    }
}

/// Exports recorded in the fleet log; this one is recorded after its files are made.
pub(super) fn exports(survey: &Survey<'_>) -> Markup {
    html! {
        p {
            "Where there is a fleet log, each export is an entry of it (" code { "evidence.exported" } "): scope, query, who asked, and the SHA-256 of "
            code { "manifest.json" } ". The entry about this very bundle comes after it and cannot be inside it: ask the operator for it, "
            "and compare with " code { "sha256sum manifest.json" } ". Exports before it that are in this bundle:"
        }
        (entries(survey.fleet_of(&["evidence.exported"])))
    }
}

/// The control mapping.
pub(super) fn controls(survey: &Survey<'_>) -> Markup {
    html! {
        p { (mapping::MEANING) }
        table {
            caption { "Supports; certifies nothing. Requirements for which this bundle has no material have no row." }
            thead { tr { th scope="col" { "Requirement" } th scope="col" { "About" } th scope="col" { "What supports it here" } th scope="col" { "Files" } th scope="col" { "Checks" } } }
            tbody { @for row in mapping::rows(survey) { tr {
                th scope="row" { (row.framework) " " (row.requirement) }
                td { (row.about) }
                td { (row.supports) " " span .small { "(" (row.count) ")" } }
                td { @for file in row.files.iter().take(6) { code { (file) } " " } @if row.files.len() > 6 { "and " (row.files.len().saturating_sub(6)) " more" } }
                td { (row.checks.join(", ")) }
            } } }
        }
    }
}

/// The content of the bundle, file by file.
pub(super) fn files(survey: &Survey<'_>) -> Markup {
    let made = [bundle::PAGE, bundle::MANIFEST, bundle::ENVELOPE];
    let named: Vec<(&str, usize)> = survey
        .named("")
        .filter(|(name, _)| !made.contains(name) && !name.ends_with(".bin"))
        .collect();
    let bins: Vec<usize> = survey
        .named("payloads/")
        .filter(|(name, _)| name.ends_with(".bin"))
        .map(|(_, size)| size)
        .collect();
    html! {
        table {
            thead { tr { th scope="col" { "File" } th scope="col" { "Bytes" } th scope="col" { "What it is" } } }
            tbody {
                @for (name, size) in named.iter().take(ROWS_MAX) { tr { td { code { (name) } } td { (size) } td { (purpose(name)) } } }
                @if !bins.is_empty() { tr { td { code { "payloads/*.bin" } } td { (bins.iter().sum::<usize>()) } td { (many(bins.len(), "payload")) ", byte for byte" } } }
                tr { td { code { (bundle::MANIFEST) } ", " code { (bundle::ENVELOPE) } } td {} td { "the list of all files with their SHA-256 (in-toto Statement), and its signature (DSSE)" } }
            }
        }
        @if named.len() > ROWS_MAX { p { "And " (named.len().saturating_sub(ROWS_MAX)) " more in " code { (bundle::MANIFEST) } "." } }
    }
}

fn purpose(name: &str) -> &'static str {
    match name {
        bundle::AGENT_RUN => "the run and its transcript",
        bundle::DECISION => "every decision in order",
        bundle::TOOL_TRACE => "every call with inputs and outputs",
        bundle::ENTRIES => "the entries, byte for byte",
        bundle::CHECKPOINT => "the log's signed head",
        bundle::INCLUSION => "for each entry, the proof that it is under that head",
        bundle::CONSISTENCY => "proofs that older heads are beginnings of this one",
        bundle::RANGE => "proof that the entries are all there are in the span",
        bundle::POPULATION => "the query and its results, log by log",
        bundle::FLEET_ENTRIES => "the relevant entries of the tenant's log of logs",
        bundle::FLEET_CHECKPOINT => "its signed head, with cosignatures",
        bundle::FLEET_INCLUSION => "proofs that those entries are under that head",
        bundle::FLEET_RANGE => "proof that the entries of the fleet log are all there are",
        bundle::POLICY => "the policy that decided last",
        bundle::AGENT => "the agent's manifest",
        bundle::AGENT_SIG => "its signature",
        bundle::PAYLOADS => "what opens each commitment",
        bundle::CONTROLS => "the table above, for programs",
        bundle::SCHEMA => "the JSON Schema of entries",
        bundle::GUIDE => "how to check all of this with stock tools",
        other if other.starts_with(bundle::TEMPLATES) => {
            "a template of instructions that a manifest names"
        }
        other if other.starts_with("policy/") => "an earlier policy",
        other if other.starts_with("anchors/") => "a time stamp, or what it is about",
        other if other.starts_with("chains/") => "a part of one log of the population",
        other if other.ends_with(".tlog-proof") => {
            "one entry's proof with its head, for stock tools"
        }
        _ => "",
    }
}

/// Explains terms that a reader may not know.
pub(super) fn glossary() -> Markup {
    let terms = [
        ("Entry", "one line of the log: an event, with the hash of the line before it"),
        ("Log, chain", "all entries of one gate in order; nothing is ever changed or taken out"),
        (
            "Root, head, checkpoint",
            "one hash over all entries so far, and a note with size and root, signed by the log's key",
        ),
        (
            "Fleet log",
            "the tenant's log of logs: which logs there are, their heads, keys, erasures and exports",
        ),
        ("Witness", "a third party that signs a head only if it extends the one it signed before"),
        ("Commitment", "a salted hash that stands for content without revealing it"),
        ("Manifest", "the signed list of what an agent may use at all"),
        ("Policy", "the signed rules that decide about each call"),
        ("Sealed", "the run was closed, and its last entry counts all of its entries"),
        ("Held", "the call has to wait until a person approves it"),
        (
            "Check",
            "one step of the verification, named by a letter and a number; VERIFY.md has them with commands",
        ),
    ];
    html! { dl .facts { @for (word, meaning) in terms { dt { (word) } dd { (meaning) } } } }
}
