//! Texts that the firewall looks through and masks.

use base64::Engine as _;
use wicketgate::domain::json::Json;
use wicketgate::firewall::{self, Class, Confidence, RedactWindow};

/// Every kind that is masked.
fn kinds() -> Vec<String> {
    let masks = |class: Class| matches!(class, Class::Secret | Class::Personal);
    firewall::kinds().filter(|row| masks(row.class)).map(|row| row.name.to_owned()).collect()
}

/// A text that can be masked has nothing left to mask, and what is stripped once is clean.
pub fn scan(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let value = Json::String(text.clone().into_owned());
    for hit in firewall::scan(&value) {
        assert_eq!(firewall::class_of(hit.kind), Some(hit.class));
    }
    if let Some(done) = firewall::redact_text(&text, &kinds()) {
        let again = firewall::redact_text(&done.value, &kinds()).unwrap();
        assert_eq!((again.value, again.masked), (done.value, 0));
    }
    if let Some((clean, removed)) = firewall::strip_text(&text) {
        assert!(removed > 0 && clean.len() < text.len());
    }
}

/// A text that comes in two pieces leaves nothing that its parts would be masked for.
pub fn tail(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let middle = text.len() / 2;
    let cut = (middle..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap();
    let (first, second) = text.split_at(cut);
    let mut window = RedactWindow::new(&kinds(), true);
    let Ok(mut out) = window.push(first) else { return };
    let Ok(more) = window.push(second) else { return };
    out.push_str(&more);
    let Ok(rest) = window.flush() else { return };
    out.push_str(&rest);
    if window.masked() == 0 {
        assert_eq!(out, text);
    }
}

/// A secret that surely is one is found in what a recipient decodes to the same text.
pub fn views(bytes: &[u8]) {
    let is_plain = |c: &char| c.is_ascii_graphic() || matches!(c, ' ' | '\n');
    let text: String = String::from_utf8_lossy(bytes).chars().filter(is_plain).collect();
    let secrets = |text: &str| {
        let hits = firewall::scan(&Json::from(text)).into_iter();
        hits.filter(|hit| hit.class == Class::Secret).collect::<Vec<_>>()
    };
    if !secrets(&text).iter().any(|hit| hit.confidence == Confidence::High) {
        return;
    }
    let escaped: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let standard = base64::engine::general_purpose::STANDARD;
    for form in [standard.encode(&text), hex::encode(&text), escaped] {
        assert!(!secrets(&form).is_empty(), "{text} as {form}");
    }
}
