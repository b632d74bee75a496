//! What an approver has to look at twice: text that looks like something else.

use crate::domain::json::Json;
use crate::domain::plural::many;
use crate::operator::escape::{hidden_in, quoted, visible};

/// Values that look like something else.
pub(super) fn doubts(path: &str, value: &Json, found: &mut Vec<String>) {
    match value {
        Json::String(text) => doubt(path, text, found),
        Json::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                doubts(&format!("{path}/{i}"), item, found);
            }
        }
        Json::Object(members) => {
            for (name, item) in members {
                let below = format!("{path}/{}", visible(name));
                doubt(&format!("the name {below}"), name, found);
                doubts(&below, item, found);
            }
        }
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) => {}
    }
}

fn doubt(path: &str, text: &str, found: &mut Vec<String>) {
    let unseen = hidden_in(text);
    if unseen > 0 {
        let unseen = many(unseen, "invisible character");
        found.push(format!("{path}: {unseen} spelled out"));
    }
    if text.is_ascii() {
        return;
    }
    let host = url::Url::parse(text).ok().and_then(|url| url.host_str().map(str::to_owned));
    let host = host.or_else(|| match url::Host::parse(text) {
        Ok(host) if text.contains('.') && !text.contains(char::is_whitespace) => {
            Some(host.to_string())
        }
        Ok(_) | Err(_) => None,
    });
    if let Some(host) = host.filter(|host| host.contains("xn--")) {
        let shown = quoted(text);
        found.push(format!("{path}: {shown} is not ASCII; as a host it is `{}`", visible(&host)));
    }
}
