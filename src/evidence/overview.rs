//! `report.html` of a range or a population: what was asked for, and the runs in it, for people.

use std::fmt::Write as _;

use super::page::{NOT_PROVEN, STYLE, escape};
use super::projection::Material;
use crate::domain::canonical;
use crate::domain::json::Json;

/// The page. A pure function of the statement's predicate and the runs, so that a verifier can make it
/// again.
#[must_use]
pub fn overview(predicate: &Json, materials: &[Material<'_>]) -> Vec<u8> {
    let mut out = String::with_capacity(16 << 10);
    let mut push = |text: std::fmt::Arguments<'_>| {
        // INVARIANT: writing to a String cannot fail.
        out.write_fmt(text).unwrap_or_default();
    };
    let scope = predicate.get("query").and_then(|q| q.get("scope")).and_then(Json::as_str);
    let scope = escape(scope.unwrap_or_default());
    push(format_args!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>Evidence of a {scope}</title><style>{STYLE}</style></head><body>\n\
         <h1>Evidence of a {scope}</h1>\n\
         <p>This page is a summary made by the exporter. It proves nothing by itself: see <code>VERIFY.md</code>.</p>\n<table>\n",
    ));
    for name in ["query", "counts", "chains", "origin", "checkpoint", "range", "exporter"] {
        if let Some(value) = predicate.get(name) {
            let value = escape(&canonical::text(value));
            push(format_args!("<tr><th>{name}</th><td><code>{value}</code></td></tr>\n"));
        }
    }
    push(format_args!("</table>\n<h2>Not proven by this bundle</h2>\n<ul>\n"));
    for item in NOT_PROVEN {
        push(format_args!("<li>{}</li>\n", escape(item)));
    }
    push(format_args!(
        "</ul>\n<h2>Runs</h2>\n<table>\n<tr><th>run</th><th>log</th><th>status</th><th>entries</th><th>calls</th><th>not enforced</th></tr>\n"
    ));
    for material in materials {
        push(format_args!(
            "<tr><td><code>{}</code></td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            material.run,
            escape(material.origin),
            material.status(),
            material.of_run().count(),
            material.calls_count(),
            material.unenforced_count(),
        ));
    }
    push(format_args!("</table>\n</body></html>\n"));
    out.into_bytes()
}
