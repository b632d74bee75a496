//! `report.html`: the bundle for people who do not know the product.
//!
//! Static: no script, no external resource, one style sheet whose hash the page's own policy names.
//! A pure function of the other files, so that a verifier makes it again byte for byte. External
//! content is escaped as text, and characters that hide or reorder others are spelled out.

mod first;
mod proof;
mod runs;
mod terms;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::bundle::Files;
use super::scope::Scope;
use super::statement::Exporter;
use super::survey::Survey;
use crate::domain::digest::Digest;

pub use first::{NOT_OBSERVED, NOT_PROVEN, claimed, uncovered};

/// The whole style of the page.
const STYLE: &str = include_str!("style.css");

/// The page about these files. It ignores `report.html`, the manifest and its envelope.
pub fn page(files: &Files, exporter: &Exporter) -> Vec<u8> {
    let survey = Survey::of(files);
    let sections = sections(&survey);
    let title = title(&survey);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy());
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="referrer" content="no-referrer";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { (title) }
                    (first::lead(&survey))
                    p .small {
                        "This page was made by the exporter, wicketgate " (exporter.version) ", on "
                        (exporter.at) ". It proves nothing by itself: "
                        strong { "verify what it says yourself" } ", with stock software, as "
                        code { "VERIFY.md" } " beside it explains. "
                        "Times are UTC."
                    }
                }
                main {
                    (first::screen(&survey, exporter))
                    nav aria-label="Contents" {
                        ul {
                            @for (id, heading, _) in &sections {
                                li { a href={ "#" (id) } { (heading) } }
                            }
                        }
                    }
                    @for (id, heading, body) in &sections {
                        section {
                            h2 id=(id) { (heading) }
                            (body)
                        }
                    }
                }
            }
        }
        "\n"
    };
    terms::visible(&page.into_string()).into_bytes()
}

/// The page loads nothing; only the style sheet with this hash applies.
fn policy() -> String {
    let hash = STANDARD.encode(Digest::of(&[STYLE.as_bytes()]).as_bytes());
    format!("default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'")
}

fn title(survey: &Survey<'_>) -> String {
    match (survey.scope, survey.runs().as_slice()) {
        (Scope::Run, [material]) => format!("Evidence of run {}", material.run),
        (Scope::Run, _) => "Evidence of a run".to_owned(),
        (Scope::Range, _) => "Evidence of a span of a log".to_owned(),
        (Scope::Population, _) => "Evidence of a population".to_owned(),
    }
}

type Section = (&'static str, &'static str, Markup);

fn sections(survey: &Survey<'_>) -> Vec<Section> {
    let mut all = vec![("what", "What this is about", runs::about(survey))];
    if survey.scope == Scope::Population {
        all.push(("population", "The population", proof::population(survey)));
    }
    all.push(("decisions", "Decisions", runs::decisions(survey)));
    all.push(("calls", "Calls, with their inputs and outputs", runs::calls(survey)));
    all.push(("alerts", "Alerts", runs::alerts(survey)));
    all.push(("approvals", "Approvals", runs::approvals(survey)));
    all.push(("time", "Time", proof::time(survey)));
    all.push(("log", "Keys and logs", proof::log(survey)));
    all.push(("payloads", "Payloads: shown, withheld, redacted, erased", proof::payloads(survey)));
    all.push(("exports", "Recorded exports", proof::exports(survey)));
    all.push(("controls", "What supports which requirement", proof::controls(survey)));
    all.push(("files", "Files of this bundle", proof::files(survey)));
    all.push(("words", "Words used here", proof::glossary()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::{AGENT_RUN, ENTRIES};
    use crate::domain::canonical;
    use crate::domain::decision::Verdict;
    use crate::domain::id::{CallId, ChainId, RunId, ToolName};
    use crate::domain::json::Json;
    use crate::domain::time::Timestamp;
    use crate::payloads::{Payload, Payloads};
    use crate::record::{Boot, Commitment, Draft, Entry, HexDigest, Kind, Role, RunLink};
    use wicketgate_record::sample::body;

    fn of(all: &Files) -> String {
        let exporter = Exporter {
            version: "1<2".into(),
            at: "now\u{202e}".into(),
            sha256: "<".into(),
            requester: "<b>".into(),
        };
        String::from_utf8(page(all, &exporter)).unwrap()
    }

    /// The entries of one run, as they are in a bundle.
    fn lines(drafts: Vec<Draft>) -> Vec<u8> {
        let run = RunId::from_random([7; 16]);
        let line = |(seq, draft): (u64, Draft)| {
            let prev = (seq > 0).then(|| Digest::of(&[b"before"]));
            let entry = Entry {
                chain: ChainId::from_bytes([1; 16]),
                epoch: 1,
                seq,
                prev: Digest::of(&[b"before"]),
                ts: Timestamp::from_millis(1),
                boot: Boot::from_random([0; 4]),
                mono: 1,
                run: Some(RunLink { run, seq, prev }),
                draft: Draft { run: Some(run), ..draft },
            };
            [entry.bytes(), b"\n".to_vec()].concat()
        };
        (0..).zip(drafts).flat_map(line).collect()
    }

    #[test]
    fn nothing_of_a_bundle_becomes_markup_and_hidden_characters_are_spelled_out() {
        let hostile = "</pre><script>alert(1)</script>\u{202e}\u{200b}\u{7}\u{feff}' \" &amp;";
        let object = |names: &[&str]| {
            Json::object(names.iter().map(|name| ((*name).to_owned(), Json::from(hostile))))
        };
        let labels = Json::from(vec![object(&["k", "v"])]);
        let opened = [("agent", hostile.into()), ("model", hostile.into()), ("labels", labels)];
        let reasons = Json::from(vec![object(&["code", "detail", "message", "rule"])]);
        let c = Digest::of(&[b"arguments"]);
        let call = |draft| Draft { call: CallId::parse("c1"), ..draft };
        let denied = Draft {
            tool: ToolName::parse("t"),
            policy: Some(Digest::of(&[b"bundle"])),
            rule: Some(hostile.into()),
            verdict: Some(Verdict::Deny),
            commit: vec![Commitment { c: HexDigest(c), len: 9_u64.into(), role: Role::Args }],
            ..Draft::of(body(Kind::CallDenied, [("reasons", reasons)]))
        };
        let failed = Draft::of(body(Kind::CallFailed, [("message", hostile.into())]));
        let drafts = vec![Draft::of(body(Kind::RunOpened, opened)), call(denied), call(failed)];
        let argument = Payload::Opened {
            salt: [0; 32],
            role: "args".into(),
            media_type: "application/json".into(),
            body: canonical::bytes(&Json::object([(hostile, Json::from(hostile))])),
        };
        let mut files = Files::default();
        files.put(ENTRIES, lines(drafts));
        Payloads([(c, argument)].into()).write(&mut files);
        let page = of(&files);
        assert!(page.contains("&lt;script") && !page.contains("<script"), "{page}");
        for shown in ["<code>c1</code> to", "REFUSED", "Input", "message: "] {
            assert!(page.contains(shown), "{shown}: {page}");
        }
        assert_eq!(page.matches("</pre>").count(), page.matches("<pre>").count());
        assert!(
            page.contains("[U+202E]") && page.contains("[U+200B]") && page.contains("[U+FEFF]")
        );
        let hidden =
            |c: char| (c.is_control() && c != '\n') || ('\u{200B}'..='\u{200F}').contains(&c);
        assert!(!page.chars().any(hidden) && page.contains("1&lt;2"));
    }

    #[test]
    fn files_that_are_missing_or_make_no_sense_still_give_a_page() {
        for files in [
            &[][..],
            &[(ENTRIES, "{"), ("population.json", "[]"), ("fleet/checkpoint.txt", "\n\n")],
            &[(AGENT_RUN, r#"{"runs":[1,{"run":2}]}"#), ("controls.json", "null")],
        ] {
            let mut all = Files::default();
            files.iter().for_each(|(name, text)| all.put(*name, *text));
            let page = of(&all);
            assert!(page.starts_with("<!DOCTYPE html>") && page.contains("Not proven"), "{page}");
        }
    }
}
