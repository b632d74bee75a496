//! `report.html`: the run for people, static, with everything from outside escaped.

use std::fmt::Write as _;

use super::projection::{Material, decides, unenforced};
use super::statement::Exporter;
use crate::crypto::note::Checkpoint;
use crate::domain::decision::Verdict;
use crate::domain::json::Json;
use crate::ledger::entry::Kind;
use crate::ledger::verify::Line;

/// What no bundle of this version proves, whatever its checks say.
pub const NOT_PROVEN: [&str; 4] = [
    "that nothing happened outside the gate: a ledger knows only the calls that went through it",
    "that this is every run and every chain: a bundle speaks of one run",
    "the time: `ts` is the writer's claim, no third party vouches for it",
    "that the policy engine would decide the same again: decisions are not replayed here",
];

/// How pages look.
pub(super) const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}\
table{border-collapse:collapse;width:100%}td,th{border:1px solid #ccc;padding:.3rem .5rem;text-align:left;vertical-align:top}\
pre{white-space:pre-wrap;word-break:break-word;background:#f6f6f6;padding:.5rem;margin:0}code{word-break:break-all}";

/// The page. A pure function, so that a verifier can make it again.
#[must_use]
pub fn page(material: &Material<'_>, checkpoint: &Checkpoint, exporter: &Exporter) -> Vec<u8> {
    let mut out = String::with_capacity(16 << 10);
    let status = if material.sealed() { "sealed: complete" } else { "open: not complete" };
    let opened = material.of_run().find(|line| line.is(Kind::RunOpened));
    let said = |name| escape(opened.and_then(|line| line.text(name)).unwrap_or_default());
    push(
        &mut out,
        format_args!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
             <title>Evidence of run {run}</title><style>{STYLE}</style></head><body>\n\
             <h1>Evidence of run <code>{run}</code></h1>\n\
             <p>This page is a summary made by the exporter. It proves nothing by itself: see <code>VERIFY.md</code>.</p>\n<table>\n",
            run = material.run,
        ),
    );
    let size = checkpoint.size.to_string();
    let calls = material.calls_count().to_string();
    let calls = match material.unenforced_count() {
        0 => calls,
        n => {
            format!("{calls}, {n} of them <b>not enforced</b>: they ran against the policy's word")
        }
    };
    let rows = [
        ("agent", format!("{} {}", said("agent"), said("version"))),
        ("model and instructions", said("binding")),
        ("manifest", format!("<code>{}</code>", said("manifest"))),
        ("run", status.to_owned()),
        ("calls", calls),
        ("log", escape(material.origin)),
        ("checkpoint", format!("{size} entries, root <code>{}</code>", checkpoint.root)),
        (
            "exported",
            format!("{} by wicketgate {}", escape(&exporter.at), escape(&exporter.version)),
        ),
    ];
    for (name, value) in rows {
        push(&mut out, format_args!("<tr><th>{name}</th><td>{value}</td></tr>\n"));
    }
    out.push_str("</table>\n<h2>Not proven by this bundle</h2>\n<ul>\n");
    for item in NOT_PROVEN {
        push(&mut out, format_args!("<li>{}</li>\n", escape(item)));
    }
    out.push_str("<li>that history was not rewritten by somebody who holds every key, unless you compare it with a head you noted before</li>\n</ul>\n<h2>What happened</h2>\n<table>\n<tr><th>#</th><th>time</th><th>event</th><th>call</th><th>tool</th><th>detail</th></tr>\n");
    for line in material.of_run() {
        event(&mut out, material, line);
    }
    out.push_str("</table>\n</body></html>\n");
    out.into_bytes()
}

fn event(out: &mut String, material: &Material<'_>, line: &Line) {
    let draft = &line.entry.draft;
    let mut detail = String::new();
    if decides(line) {
        let verdict = draft.verdict.map_or("", Verdict::as_str);
        let rule = draft.rule.as_deref().unwrap_or_default();
        let how = if unenforced(line) { " (not enforced)" } else { "" };
        push(&mut detail, format_args!("<b>{}{how}</b> {}", escape(verdict), escape(rule)));
        for reason in draft.data.get("reasons").and_then(Json::as_array).unwrap_or_default() {
            let text = |name| escape(reason.get(name).and_then(Json::as_str).unwrap_or_default());
            push(&mut detail, format_args!("<br>{}: {}", text("code"), text("message")));
        }
    }
    for name in ["status", "class", "message", "cause", "reason"] {
        if let Some(text) = line.text(name) {
            push(&mut detail, format_args!("{name}: {} ", escape(text)));
        }
    }
    for commitment in draft.commit.iter().filter(|c| matches!(c.role.as_str(), "args" | "result")) {
        let shown = crate::domain::canonical::text(&material.payloads.shown(commitment));
        let shown: String = shown.chars().take(2000).collect();
        push(&mut detail, format_args!("<pre>{} {}</pre>", commitment.role, escape(&shown)));
    }
    push(
        out,
        format_args!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{detail}</td></tr>\n",
            line.entry.seq,
            line.entry.ts,
            escape(line.kind()),
            escape(draft.call.as_ref().map_or("", |call| call.as_str())),
            escape(draft.tool.as_ref().map_or("", |tool| tool.as_str())),
        ),
    );
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    // INVARIANT: writing to a String cannot fail.
    out.write_fmt(text).unwrap_or_default();
}

/// Text that means only itself in HTML, also inside a quoted attribute.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Reordering and invisible characters could make a page say what the bytes do not.
            c if c.is_control()
                || matches!(c, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}') =>
            {
                push(&mut out, format_args!("&lt;U+{:04X}&gt;", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn markup_quotes_and_reordering_characters_are_shown_and_not_obeyed() {
        assert_eq!(escape("<b a='\"'>&"), "&lt;b a=&#39;&quot;&#39;&gt;&amp;");
        assert_eq!(escape("a\u{202e}b\u{1b}"), "a&lt;U+202E&gt;b&lt;U+001B&gt;");
    }
}
