//! The body of a message to a third party's server, in the form that the receiver reads.
//!
//! Slack and Teams show texts of agents beside our own. Neither form may let such a text call people (`<!channel>`),
//! link elsewhere, or look like our words: Slack texts are escaped and stand in code, Teams texts are runs without
//! markup.

use serde_json::{Value, json};

use crate::domain::closed::texts;
use crate::operator::visible;

/// Characters of one value that are shown. The receivers refuse bodies with longer texts than some thousand.
const VALUE_MAX: usize = 300;

texts! {
    /// What a receiver of messages reads.
    pub enum WebhookFormat {
        /// The body of Standard Webhooks: `type`, `timestamp` and `data`.
        Standard = "standard",
        /// A message for an incoming webhook of Slack: `text` and `blocks`.
        Slack = "slack",
        /// A message for a workflow of Teams: an Adaptive Card.
        Teams = "teams",
    }
}

/// One message, before it has a form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::operator) struct WebhookMessage {
    /// `call.held`, `break_glass.opening`.
    pub kind: &'static str,
    /// When it happened.
    pub at: String,
    /// The members of `data` in the standard form.
    pub data: Value,
    /// The headline: our own words.
    pub title: &'static str,
    /// What a person reads, by name.
    pub facts: Vec<(&'static str, String)>,
    /// The page about it.
    pub link: Option<String>,
}

impl WebhookMessage {
    /// The body for a receiver of this form.
    pub(super) fn body(&self, format: WebhookFormat) -> String {
        let body = match format {
            WebhookFormat::Standard => {
                json!({"type": self.kind, "timestamp": self.at, "data": self.data})
            }
            WebhookFormat::Slack => self.slack(),
            WebhookFormat::Teams => self.teams(),
        };
        body.to_string()
    }

    /// Block Kit. `verbatim`: Slack makes no link and no mention of its own out of the text.
    fn slack(&self) -> Value {
        let text = |text: String| json!({"type": "mrkdwn", "verbatim": true, "text": text});
        let field = |(name, value): &(&str, String)| text(format!("*{name}*\n{}", code(value)));
        let fields: Vec<Value> = self.facts.iter().map(field).collect();
        let mut blocks = vec![json!({
            "type": "header",
            "text": {"type": "plain_text", "emoji": false, "text": self.title},
        })];
        // A section has at most ten fields.
        blocks.extend(fields.chunks(10).map(|some| json!({"type": "section", "fields": some})));
        if let Some(link) = &self.link {
            let link = text(format!("<{}|Open in the console>", address(link)));
            blocks.push(json!({"type": "section", "text": link}));
        }
        let facts = self.facts.iter().map(|(name, value)| format!("{name} {}", code(value)));
        let short = format!("{}: {}", self.title, facts.collect::<Vec<_>>().join(", "));
        json!({"text": short, "blocks": blocks, "unfurl_links": false, "unfurl_media": false})
    }

    /// An Adaptive Card. Its text runs have no markup, unlike its text blocks.
    fn teams(&self) -> Value {
        let line = |(name, value): &(&str, String)| {
            json!({"type": "RichTextBlock", "inlines": [
                {"type": "TextRun", "weight": "Bolder", "text": format!("{name}: ")},
                {"type": "TextRun", "fontType": "Monospace", "text": short(value)},
            ]})
        };
        let title = json!({"type": "TextBlock", "size": "Medium", "weight": "Bolder",
            "wrap": true, "text": self.title});
        let body: Vec<Value> = std::iter::once(title).chain(self.facts.iter().map(line)).collect();
        let open = |url: &String| json!({"type": "Action.OpenUrl", "title": "Open in the console", "url": url});
        let actions: Vec<Value> = self.link.iter().map(open).collect();
        json!({"type": "message", "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.4",
                "body": body,
                "actions": actions,
            },
        }]})
    }
}

/// What can be seen of a text, cut to a length that receivers take.
fn short(text: &str) -> String {
    let text = visible(text);
    match text.char_indices().nth(VALUE_MAX) {
        None => text,
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

/// A text that is not ours, for Slack: `&`, `<` and `>` begin its entities, mentions and links, and a backtick would end
/// the code that the text stands in.
fn code(text: &str) -> String {
    let text = short(text).replace('`', "'");
    // Code of no characters would show its own marks.
    if text.trim().is_empty() {
        return "–".to_owned();
    }
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!("`{text}`")
}

/// An address inside `<…|…>`.
fn address(link: &str) -> String {
    let link = link.replace('<', "%3C").replace('>', "%3E").replace('|', "%7C");
    link.replace('&', "&amp;")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What would call people, link elsewhere, end the code, hide, and stand as markup.
    const HOSTILE: &str = "<!channel> <@U1> <https://evil.example|x> `*a*` [x](https://evil.example) &amp; \u{202e}\u{200b}\u{7} {{DATE(1)}}";

    fn message(value: &str) -> WebhookMessage {
        WebhookMessage {
            kind: "call.held",
            at: "2026-11-21T20:05:03.123Z".to_owned(),
            data: json!({"tool": value}),
            title: "A call is held",
            facts: vec![("Tool", value.to_owned()), ("Agent", value.to_owned())],
            link: Some("https://hub.example.com/console/approvals/r/c?a=1&b=<|>".to_owned()),
        }
    }

    /// Every text of a body.
    fn texts(body: &Value, found: &mut Vec<String>) {
        match body {
            Value::String(text) => found.push(text.clone()),
            Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
            Value::Object(members) => members.values().for_each(|item| texts(item, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn read(format: WebhookFormat, value: &str) -> (Value, Vec<String>) {
        let body: Value = serde_json::from_str(&message(value).body(format)).unwrap();
        let mut found = Vec::new();
        texts(&body, &mut found);
        (body, found)
    }

    #[test]
    fn in_slack_a_text_of_an_agent_mentions_no_person_and_links_nowhere() {
        let (body, texts) = read(WebhookFormat::Slack, HOSTILE);
        let own = "<https://hub.example.com/console/approvals/r/c?a=1&amp;b=%3C%7C%3E|Open in the console>";
        assert!(texts.iter().any(|text| text == own), "{texts:?}");
        for text in texts.iter().filter(|text| *text != own) {
            assert!(!text.contains(['<', '>', '\u{202e}', '\u{200b}', '\u{7}']), "{text}");
            assert_eq!(text.matches('`').count() % 2, 0, "{text}");
            assert!(!text.contains("&amp;lt;"), "escaped once: {text}");
        }
        assert!(texts.iter().any(|text| text.contains("&lt;!channel&gt;")), "{texts:?}");
        let markdown = body.to_string().matches("\"mrkdwn\"").count();
        assert_eq!(body.to_string().matches("\"verbatim\":true").count(), markdown);
        assert_eq!(body["blocks"][0]["type"], "header");
    }

    #[test]
    fn in_teams_a_text_of_an_agent_stands_only_in_runs_without_markup() {
        let (body, _) = read(WebhookFormat::Teams, HOSTILE);
        let card = &body["attachments"][0]["content"];
        assert_eq!((&body["type"], &card["type"]), (&json!("message"), &json!("AdaptiveCard")));
        assert_eq!(card["body"][0]["text"], "A call is held");
        let runs = card["body"].as_array().unwrap().iter().skip(1).flat_map(|block| {
            assert_eq!(block["type"], "RichTextBlock");
            block["inlines"].as_array().unwrap().clone()
        });
        for run in runs {
            assert_eq!(run["type"], "TextRun");
            let text = run["text"].as_str().unwrap();
            assert!(!text.contains(['\u{202e}', '\u{200b}', '\u{7}']), "{text}");
        }
        assert!(
            card["actions"][0]["url"].as_str().unwrap().starts_with("https://hub.example.com/")
        );
    }

    #[test]
    fn a_long_text_is_cut_and_an_empty_one_is_shown_as_none() {
        for format in [WebhookFormat::Slack, WebhookFormat::Teams] {
            let (_, texts) = read(format, &"é".repeat(100_000));
            assert!(texts.iter().all(|text| text.len() < 2000), "{format}");
        }
        let (_, texts) = read(WebhookFormat::Slack, "");
        assert!(texts.contains(&"*Tool*\n–".to_owned()), "{texts:?}");
    }
}
