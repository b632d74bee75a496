//! The password in a URL.

use super::kinds::Confidence::{High, Low};
use super::plain::Pass;
use super::special::is_reference;

/// Bytes of the part of a URL between the scheme and the path.
const AUTHORITY_MAX: usize = 512;
/// Passwords of examples, and hosts of them.
const WEAK: [&[u8]; 16] = [
    b"password",
    b"passwd",
    b"pass",
    b"pwd",
    b"secret",
    b"postgres",
    b"root",
    b"admin",
    b"guest",
    b"user",
    b"test",
    b"example",
    b"changeme",
    b"mysecretpassword",
    b"redis",
    b"token",
];

/// The password in a URL: `scheme://user:password@host`.
pub(super) fn url(pass: &mut Pass<'_>, at: usize, behind: usize) {
    let before = pass.text.get(..at).unwrap_or_default();
    let scheme = before
        .iter()
        .rev()
        .take(20)
        .take_while(|b| b.is_ascii_alphanumeric() || b"+-.".contains(b));
    if scheme.count() < 2 {
        return;
    }
    let rest = pass.text.get(behind..).unwrap_or_default();
    let ends = |byte: &&u8| !byte.is_ascii_whitespace() && !b"/?#\"'`<>\\".contains(byte);
    let authority: Vec<u8> = rest.iter().take(AUTHORITY_MAX).take_while(ends).copied().collect();
    let Some(host) = authority.iter().rposition(|byte| *byte == b'@') else { return };
    let user = authority.get(..host).unwrap_or_default();
    let Some(colon) = user.iter().position(|byte| *byte == b':') else { return };
    let password = user.get(colon + 1..).unwrap_or_default();
    let has = |part: &[u8]| password.windows(part.len()).any(|at| at == part);
    // `${PASSWORD:-app}`, `{{ password }}`, and `([^@]+)` of a pattern that reads such a URL.
    let is_template = (has(b"${") || has(b"{{")) && has(b"}") || has(b"[^") && has(b"]");
    if password.is_empty() || is_template || is_reference(password) {
        return;
    }
    if password.iter().all(|b| b"xX*.".contains(b)) {
        return;
    }
    let host = authority.get(host + 1..).unwrap_or_default();
    // A name without a dot is that of a service beside this one: files of compositions have such ones.
    let name = host.split(|byte| *byte == b':').next().unwrap_or_default();
    let is_near = [&b"localhost"[..], b"127.", b"example.", b"host"]
        .iter()
        .any(|near| host.starts_with(near))
        || (!name.contains(&b'.') && password.len() < 16);
    let read = unescaped(password);
    let mut classes = [false; 3];
    for byte in &read {
        let class =
            usize::from(byte.is_ascii_digit()) + 2 * usize::from(!byte.is_ascii_alphanumeric());
        if let Some(class) = classes.get_mut(class.min(2)) {
            *class = true;
        }
    }
    let has_one = classes.iter().filter(|has| **has).count() < 2;
    let folded = read.to_ascii_lowercase();
    let is_user = user.get(..colon) == Some(password);
    let is_short = read.len() < 6 || read.len() < 8 && (has_one || is_near);
    let count = folded.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    // `secret123` is `secret`.
    let word = folded.get(..folded.len() - count.min(4)).unwrap_or_default();
    let is_weak = WEAK.contains(&folded.as_slice())
        || WEAK.contains(&word)
        || is_short
        || is_user
        || (is_near && has_one)
        || read.iter().any(u8::is_ascii_control);
    let start = behind + colon + 1;
    pass.note("url_password", if is_weak { Low } else { High }, start..start + password.len());
}

/// A part of a URL as its server reads it.
fn unescaped(part: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let mut read = Vec::with_capacity(part.len());
    let mut rest = part;
    while let [first, after @ ..] = rest {
        let code = match (first, digit(after.first()), digit(after.get(1))) {
            (b'%', Some(high), Some(low)) => u8::try_from(high * 16 + low).ok(),
            _ => None,
        };
        read.push(code.unwrap_or(*first));
        rest = if code.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    read
}
