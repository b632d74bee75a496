//! The forms of a secret in each encoding that depends on the secret alone.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use crate::catalog::template;
use crate::domain::token;

/// Every form of a secret to search for literally, the secret itself first.
pub(super) fn forms(secret: &str) -> Vec<String> {
    let mut percent = String::new();
    template::encode(secret, &mut percent);
    let mut percent_lower = String::new();
    for byte in secret.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            percent_lower.push(char::from(byte));
        } else {
            percent_lower.push_str(&format!("%{byte:02x}"));
        }
    }
    // As JSON in a text writes it, with and without the escaped slash of some writers.
    let quoted = secret.replace('\\', "\\\\").replace('"', "\\\"");
    let percent_of_form = percent.replace("%20", "+");
    let mut out = vec![
        secret.to_owned(),
        quoted.replace('/', "\\/"),
        quoted,
        percent,
        percent_lower,
        hex::encode(secret),
        hex::encode_upper(secret),
        secret.chars().rev().collect(),
        // As HTML forms write a space, and as some programs write bytes: numbers in a list.
        secret.replace(' ', "+"),
        percent_of_form,
        secret.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(","),
        secret.chars().map(token::turned).collect(),
    ];
    for shift in 0..5_usize {
        let core = base32_core(secret, shift);
        out.push(core.to_ascii_lowercase());
        out.push(core);
    }
    for shift in 0..3_usize {
        out.extend(base64_core(&STANDARD_NO_PAD, secret, shift));
        out.extend(base64_core(&URL_SAFE_NO_PAD, secret, shift));
    }
    out
}

/// The base32 characters (RFC 4648, section 6) that depend on the secret alone, if it starts
/// `shift` bytes after a group of five.
fn base32_core(secret: &str, shift: usize) -> String {
    const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let bits: Vec<u8> = std::iter::repeat_n(0, shift)
        .chain(secret.bytes())
        .flat_map(|byte| (0..8).rev().map(move |bit| (byte >> bit) & 1))
        .collect();
    let first = shift.saturating_mul(8).div_ceil(5);
    let letters = bits.chunks_exact(5).skip(first).map(|five| {
        let index = five.iter().fold(0_usize, |sum, bit| (sum << 1) | usize::from(*bit));
        ALPHABET.get(index).copied().map(char::from)
    });
    letters.flatten().collect()
}

/// The base64 characters that depend on the secret alone, if it starts `shift` bytes after a group
/// of three.
fn base64_core(
    engine: &base64::engine::GeneralPurpose,
    secret: &str,
    shift: usize,
) -> Option<String> {
    let padded = [vec![0; shift], secret.as_bytes().to_vec()].concat();
    let text = engine.encode(&padded);
    let first = match shift {
        0 => 0,
        1 => 2,
        _ => 3,
    };
    let last = padded.len().checked_mul(8)?.checked_div(6)?;
    text.get(first..last).map(str::to_owned)
}
