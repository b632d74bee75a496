//! Credentials with rules of their own, each read where its first letters stand.

use std::ops::Range;

use super::kinds::Confidence::{High, Low};
use super::plain::{ASSIGNED, AUTHORIZATION, Pass};
use super::shape::{self, BASE64, Keyed, Look, Sort, TOKEN, URL};
use crate::domain::json::{Json, Limits};

/// Bytes of the longest private key that is masked as one.
pub(super) const PEM_MAX: usize = 16 * 1024;
/// Bytes of a line that begins or ends a key.
const LABEL_MAX: usize = 80;
/// Letters of the shortest body of a key.
const PEM_MIN: usize = 48;

/// What begins a private key, if a text does: its label.
fn pem_label(text: &[u8]) -> Option<&[u8]> {
    let line = text.get(..LABEL_MAX.min(text.len()))?.strip_prefix(b"-----BEGIN ")?;
    let end = line.windows(5).position(|dashes| dashes == b"-----")?;
    let label = line.get(..end)?;
    label.windows(11).any(|words| words == b"PRIVATE KEY").then_some(label)
}

/// Where a text that comes in pieces has the beginning of a private key that is not complete.
pub(super) fn open_pem(text: &str) -> Option<usize> {
    const BEGIN: &[u8] = b"-----BEGIN";
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(rest) = bytes.get(from..) {
        let at = from + rest.windows(BEGIN.len()).position(|part| part == BEGIN)?;
        let rest = bytes.get(at..).unwrap_or_default();
        let is_label = pem_label(rest).is_some();
        let is_open = if is_label {
            rest.len() < PEM_MAX && pem_end(rest).is_none()
        } else {
            rest.len() < LABEL_MAX && !rest.contains(&b'\n')
        };
        if is_open {
            return Some(at);
        }
        from = at + BEGIN.len();
    }
    None
}

/// How long a private key is that ends.
fn pem_end(text: &[u8]) -> Option<usize> {
    let text = text.get(..PEM_MAX.min(text.len()))?;
    let end = text.windows(9).position(|part| part == b"-----END ")?;
    let line = text.get(end + 9..)?;
    let dashes = line.iter().take(LABEL_MAX).collect::<Vec<_>>();
    let close = dashes.windows(5).position(|five| five.iter().all(|byte| **byte == b'-'))?;
    Some(end + 9 + close + 5)
}

/// A text up to where the same mark stands again, so that many marks cost no more than one.
pub(super) fn up_to_next<'t>(text: &'t [u8], mark: &[u8]) -> &'t [u8] {
    let behind = text.get(1..).unwrap_or_default();
    let next = behind.windows(mark.len().max(1)).position(|part| part == mark);
    text.get(..next.map_or(text.len(), |at| at + 1)).unwrap_or(text)
}

/// A private key in PEM: the whole block, or as much of it as there is.
pub(super) fn pem(pass: &mut Pass<'_>, at: usize) {
    let rest = pass.text.get(at..).unwrap_or_default();
    if pass.is_in("private_key", at) || pem_label(rest).is_none() {
        return;
    }
    let rest = up_to_next(rest.get(..PEM_MAX.min(rest.len())).unwrap_or(rest), b"-----BEGIN ");
    let length = pem_end(rest).unwrap_or_else(|| PEM_MAX.min(rest.len()));
    let block = rest.get(LABEL_MAX.min(20)..length).unwrap_or_default();
    if body_letters(block) >= PEM_MIN && has_line_of_key(block) {
        pass.note("private_key", High, at..at + length);
    }
}

/// Bytes behind the label in which the first line of a key stands, and letters of it.
const FIRST_LINE: (usize, usize) = (1024, 40);

/// Whether a line of a key follows the label. Programs that read or write keys name the label too, and go on
/// with words.
fn has_line_of_key(block: &[u8]) -> bool {
    let (bytes, letters) = FIRST_LINE;
    let near = block.get(..bytes.min(block.len())).unwrap_or_default();
    near.split(|byte| !BASE64.has(*byte)).any(|run| {
        let has = |is: fn(&u8) -> bool| run.iter().any(is);
        run.len() >= letters
            && has(u8::is_ascii_uppercase)
            && has(u8::is_ascii_lowercase)
            // A path has no digit, most times.
            && (has(u8::is_ascii_digit) || !run.contains(&b'/'))
    })
}

/// The letters of base64 in a block whose bytes differ.
fn body_letters(block: &[u8]) -> usize {
    let letters = block.iter().filter(|byte| BASE64.has(**byte));
    let mut seen = [false; 256];
    let mut count = 0_usize;
    for byte in letters {
        if let Some(seen) = seen.get_mut(usize::from(*byte)) {
            *seen = true;
        }
        count += 1;
    }
    let distinct = seen.iter().filter(|is| **is).count();
    if distinct < 20 { 0 } else { count }
}

/// A private key as PuTTY keeps it.
pub(super) fn putty(pass: &mut Pass<'_>, at: usize) {
    let rest = pass.text.get(at..).unwrap_or_default();
    let rest = rest.get(..PEM_MAX.min(rest.len())).unwrap_or_default();
    let rest = up_to_next(rest, b"PuTTY-User-Key-File-");
    let Some(private) = rest.windows(14).position(|part| part == b"Private-Lines:") else { return };
    let end =
        rest.windows(12).position(|part| part == b"Private-MAC:").filter(|end| *end > private);
    let end = end.map_or(rest.len(), |end| {
        let line = rest.get(end..).unwrap_or_default().iter().take_while(|byte| **byte != b'\n');
        end + line.count()
    });
    let block = rest.get(private..end).unwrap_or_default();
    if body_letters(block) >= PEM_MIN {
        pass.note("private_key", High, at..at + end);
    }
}

/// A token of three parts (or five, encrypted) whose first one names an algorithm.
pub(super) fn jwt(pass: &mut Pass<'_>, at: usize) {
    if pass.is_in("jwt", at) || !pass.begins_at(at) || pass.byte(at) != Some(b'e') {
        return;
    }
    let mut ends = Vec::with_capacity(5);
    let mut from = at;
    while ends.len() < 5 {
        let end = pass.run_end(from, URL);
        ends.push(from..end);
        if pass.byte(end) != Some(b'.') {
            break;
        }
        from = end + 1;
    }
    let Some(header) = ends.first().filter(|part| (12..2048).contains(&part.len())) else { return };
    let letters = pass.text.get(header.clone()).unwrap_or_default();
    let (Some(payload), Some(signature)) = (ends.get(1), ends.get(2)) else { return };
    let is_sealed = ends.len() == 5;
    if signature.len() < 16 || (payload.len() < 2 && !is_sealed) || !names_algorithm(letters) {
        return;
    }
    let last = if is_sealed { ends.last() } else { Some(signature) };
    let Some(end) = last.map(|part| part.end) else { return };
    let body = pass.text.get(signature.clone()).unwrap_or_default();
    let confidence = match shape::look(body, URL) {
        Look::Random => High,
        Look::Example | Look::Words => Low,
    };
    pass.note("jwt", confidence, at..end);
}

/// Whether a first part is an object with `alg`.
fn names_algorithm(letters: &[u8]) -> bool {
    use base64::Engine as _;
    let letters = letters.strip_suffix(b"=").unwrap_or(letters);
    let Ok(bytes) = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(letters) else {
        return false;
    };
    Json::parse(&bytes, &Limits::ENTRY).is_ok_and(|json| json.get("alg").is_some())
}

/// Whether a value is a name for another one: `${TOKEN}`, `{{ token }}`, `<token>`, `%s`.
pub(super) fn is_reference(value: &[u8]) -> bool {
    let [first, rest @ ..] = value else { return true };
    match first {
        b'$' => rest.first().is_none_or(|next| next.is_ascii_alphabetic() || b"{(_".contains(next)),
        b'%' => rest.first().is_none_or(|next| b"s({d".contains(next)) && rest.len() < 32,
        b'{' | b'<' | b'[' | b'(' => true,
        _ => false,
    }
}

/// Names of schemes of a header.
const SCHEMES: [&[u8]; 8] =
    [b"bearer", b"basic", b"token", b"apikey", b"api-key", b"key", b"ssws", b"oauth"];

/// The value of an `Authorization` header.
pub(super) fn authorization(pass: &mut Pass<'_>, behind: usize) {
    let Some(from) = separated(pass, behind, 2) else { return };
    let word = pass.run_end(from, TOKEN);
    let scheme = pass.text.get(from..word).unwrap_or_default().to_ascii_lowercase();
    let is_scheme = SCHEMES.contains(&scheme.as_slice());
    let start = if is_scheme { word + spaces(pass.text, word) } else { from };
    value(pass, start, scheme == b"basic");
}

/// The value behind `Bearer`.
pub(super) fn bearer(pass: &mut Pass<'_>, at: usize, behind: usize) {
    if pass.begins_at(at) {
        let start = behind + spaces(pass.text, behind);
        value(pass, start, false);
    }
}

fn spaces(text: &[u8], from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    rest.iter().take(4).take_while(|byte| **byte == b' ').count()
}

/// Notes the value of a header that begins here.
fn value(pass: &mut Pass<'_>, start: usize, is_basic: bool) {
    let end = pass.run_end(start, TOKEN);
    let bytes = pass.text.get(start..end).unwrap_or_default();
    if is_basic {
        if is_user_and_password(bytes) {
            pass.note(AUTHORIZATION, High, start..end);
        }
        return;
    }
    if !(16..8192).contains(&bytes.len()) || !bytes.iter().any(u8::is_ascii_digit) {
        return;
    }
    pass.judge(AUTHORIZATION, Sort::Live, start..end, &(start..end), TOKEN);
}

/// Whether these letters decode to a name and a password.
fn is_user_and_password(letters: &[u8]) -> bool {
    use base64::Engine as _;
    let engine = base64::engine::general_purpose::STANDARD;
    let Ok(bytes) = engine.decode(letters) else { return false };
    let is_text = bytes.iter().all(|byte| (b' '..0x7f).contains(byte));
    let password = bytes.iter().position(|byte| *byte == b':').and_then(|at| bytes.get(at + 1..));
    is_text && password.is_some_and(|password| password.len() >= 4 && !is_reference(password))
}

/// The signature of an address that is signed.
pub(super) fn signature(pass: &mut Pass<'_>, at: usize, behind: usize) {
    let end = pass.run_end(behind, TOKEN.and("%"));
    let word = pass.text.get(behind..end).unwrap_or_default();
    let before = pass.text.get(..at).unwrap_or_default();
    let near = before.get(before.len().saturating_sub(400)..).unwrap_or_default();
    let is_signed = near.windows(3).any(|part| matches!(part, b"sv=" | b"se=" | b"sr="));
    if is_signed && (40..=120).contains(&word.len()) && pass.ends_at(end) {
        pass.judge("azure_connection", Sort::Live, behind..end, &(behind..end), TOKEN);
    }
}

/// Bytes of a name behind the word in it.
const NAME_MAX: usize = 40;

/// Where the value begins that belongs to a name which ends about here: behind quotes, white space and
/// at least one separator. `least`: as many separators as a quote counts less.
fn separated(pass: &Pass<'_>, behind: usize, least: usize) -> Option<usize> {
    let rest = pass.text.get(behind..).unwrap_or_default();
    let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    let name = rest.iter().take(NAME_MAX).take_while(is_name).count();
    let mut marks = 0_usize;
    let mut at = name;
    while let Some(byte) = rest.get(at).filter(|_| at < name + 12) {
        match byte {
            b'=' | b':' => marks += 2,
            b'>' if marks > 0 => {}
            b'"' | b'\'' | b'`' | b'\\' => marks += 1,
            b' ' | b'\t' | b',' | b'(' | b'[' | b']' => {}
            _ => break,
        }
        at += 1;
    }
    (marks >= least && at > name).then_some(behind + at)
}

/// What names end with whose values look like keys and are none.
const NO_KEYS: [&[u8]; 12] = [
    b"id",
    b"ids",
    b"uuid",
    b"sha",
    b"sha1",
    b"sha256",
    b"md5",
    b"hash",
    b"commit",
    b"digest",
    b"checksum",
    b"revision",
];

/// Whether a name, from the vendor's on, is that of something else: `datadog.trace_id: `, `nomadAllocID = `.
fn names_no_key(name: &[u8]) -> bool {
    let is_letter = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    let name = name.get(..name.iter().take_while(is_letter).count()).unwrap_or_default();
    let last = name.rsplit(|byte| b"_-.".contains(byte)).next().unwrap_or_default();
    NO_KEYS.contains(&last.to_ascii_lowercase().as_slice())
        || [&b"Id"[..], b"ID", b"Sha", b"SHA", b"Hash"].iter().any(|end| last.ends_with(end))
}

/// The value beside the name of a vendor.
pub(super) fn keyed(pass: &mut Pass<'_>, keyed: &'static Keyed, behind: usize) {
    let Some(start) = separated(pass, behind, 1) else { return };
    if names_no_key(pass.text.get(behind..start).unwrap_or_default()) {
        return;
    }
    for body in keyed.bodies {
        let end = pass.walk(start, body);
        if let Some(end) = end.filter(|end| pass.ends_at(*end)) {
            let alphabet = shape::widest(body);
            return pass.judge(keyed.kind, Sort::Live, start..end, &(start..end), alphabet);
        }
    }
}

/// Bytes of a value that is assigned.
const ASSIGNED_BYTES: Range<usize> = 12..256;

/// What names of tokens begin with that say where a list goes on, or which request this is.
const PLACES: [&[u8]; 10] = [
    b"page",
    b"pagination",
    b"next",
    b"previous",
    b"continuation",
    b"cursor",
    b"sync",
    b"resume",
    b"starting",
    b"idempotency",
];

/// Whether the name that ends here is that of a place in a list: `pageToken`, `next_sync_token`.
fn names_place(before: &[u8]) -> bool {
    let near = before.get(before.len().saturating_sub(16)..).unwrap_or_default();
    let name = near.strip_suffix(b"_").or_else(|| near.strip_suffix(b"-")).unwrap_or(near);
    let folded = name.to_ascii_lowercase();
    PLACES.iter().any(|place| folded.ends_with(place))
}

/// The value of something that is named like a secret.
pub(super) fn assigned(pass: &mut Pass<'_>, at: usize, behind: usize) {
    let Some(start) = separated(pass, behind, 2) else { return };
    let is_token =
        pass.text.get(at..behind).is_some_and(|name| name.eq_ignore_ascii_case(b"token"));
    let before = pass.text.get(..at).unwrap_or_default();
    if pass.is_in(ASSIGNED, start) || (is_token && names_place(before)) {
        return;
    }
    let rest = pass.text.get(start..).unwrap_or_default();
    let is_value = |byte: &&u8| byte.is_ascii_graphic() && !b"\"'`,;()[]{}<>\\|".contains(byte);
    let length = rest.iter().take(ASSIGNED_BYTES.end).take_while(is_value).count();
    let value = rest.get(..length).unwrap_or_default();
    let calls = rest.get(length).is_some_and(|next| b"([{".contains(next));
    let has = |is: fn(&u8) -> bool| value.iter().any(is);
    if !ASSIGNED_BYTES.contains(&length) || !has(u8::is_ascii_digit) {
        return;
    }
    if !has(u8::is_ascii_alphabetic) || calls || is_reference(value) || is_path(value) {
        return;
    }
    if shape::look(value, TOKEN) == Look::Random {
        pass.note(ASSIGNED, Low, start..start + length);
    }
}

/// Whether a value is a path: of a type, of a member, of a file, of a URL.
fn is_path(value: &[u8]) -> bool {
    let starts = |front: &[u8]| value.starts_with(front);
    let has = |part: &[u8]| value.windows(part.len()).any(|at| at == part);
    if starts(b"/") || starts(b"./") || starts(b"../") || starts(b"~") || has(b"://") || has(b"::")
    {
        return true;
    }
    let is_name = |part: &[u8]| {
        part.first().is_some_and(|first| first.is_ascii_alphabetic() || *first == b'_')
            && part.len() <= 24
            && part.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
            && part.iter().filter(|byte| byte.is_ascii_digit()).count() <= 3
    };
    has(b".") && value.split(|byte| *byte == b'.').all(is_name)
}

/// What a token of Discord has: the number of its bot, a time and a signature.
pub(super) fn discord(pass: &mut Pass<'_>, run: &Range<usize>) {
    use base64::Engine as _;
    if !(23..=28).contains(&run.len())
        || pass.byte(run.end) != Some(b'.')
        || !pass.begins_at(run.start)
    {
        return;
    }
    let letters = pass.text.get(run.clone()).unwrap_or_default();
    let id = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(letters);
    if !id.is_ok_and(|id| (17..=20).contains(&id.len()) && id.iter().all(u8::is_ascii_digit)) {
        return;
    }
    let time = pass.run_end(run.end + 1, URL);
    let end = pass.run_end(time + 1, URL);
    let signature = end.saturating_sub(time + 1);
    let is_token = (5..=8).contains(&time.saturating_sub(run.end + 1))
        && pass.byte(time) == Some(b'.')
        && (27..=48).contains(&signature);
    if is_token {
        pass.judge("discord", Sort::Live, run.start..end, &(time + 1..end), URL);
    }
}

/// Whether an address is none of a person: that of a repository, or a password before a host.
pub(super) fn is_no_mailbox(bytes: &[u8], start: usize, address: &str) -> bool {
    let before = bytes.get(start.saturating_sub(USER_MAX)..start).unwrap_or_default();
    let word = before.rsplit(u8::is_ascii_whitespace).next().unwrap_or_default();
    address.starts_with("git@")
        || word.ends_with(b":") && word.array_windows().any(|part| part == b"://")
}

/// Bytes of the scheme and the user before a password.
const USER_MAX: usize = 128;

/// Whether a number goes on behind a dash, before it or after it.
pub(super) fn is_within(bytes: &[u8], start: usize, end: usize) -> bool {
    let byte = |at: Option<usize>| at.and_then(|at| bytes.get(at)).copied();
    let is_digit = |at: Option<usize>| byte(at).is_some_and(|byte| byte.is_ascii_digit());
    byte(start.checked_sub(1)) == Some(b'-') && is_digit(start.checked_sub(2))
        || byte(Some(end)) == Some(b'-') && is_digit(end.checked_add(1))
}
