//! A credential in every encoding that whoever is sent it would undo: one table, for every kind of tool.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

/// Each with its name. None has a NUL, which no command line could carry.
pub fn forms(secret: &str) -> Vec<(String, String)> {
    let each = |form: fn(u8) -> String| secret.bytes().map(form).collect::<String>();
    let mut all: Vec<(String, String)> = [
        ("as it is", secret.to_owned()),
        ("backwards", secret.chars().rev().collect()),
        ("hexadecimal", each(|byte| format!("{byte:02x}"))),
        ("HEXADECIMAL", each(|byte| format!("{byte:02X}"))),
        ("hexadecimal with colons", each(|byte| format!("{byte:02x}:"))),
        ("hexadecimal with spaces", each(|byte| format!("{byte:02X} "))),
        ("an array of C", each(|byte| format!("0x{byte:02x}, "))),
        ("percent", each(|byte| format!("%{byte:02X}"))),
        ("percent twice", each(|byte| format!("%25{byte:02x}"))),
        ("JSON escapes", each(|byte| format!("\\u{byte:04x}"))),
        ("C escapes", each(|byte| format!("\\x{byte:02X}"))),
        ("HTML entities", each(|byte| format!("&#{byte};"))),
        ("hexadecimal HTML entities", each(|byte| format!("&#x{byte:x};"))),
        ("quoted-printable", each(|byte| format!("={byte:02X}"))),
        ("numbers", each(|byte| format!("{byte},")).trim_end_matches(',').to_owned()),
        ("percent three times", each(|byte| format!("%2525{byte:02x}"))),
        ("with nothing seen between", each(|byte| format!("{}\u{200b}", char::from(byte)))),
        ("full width", secret.chars().map(|c| moved(c, 0xfee0)).collect()),
        ("tags", secret.chars().map(|c| moved(c, 0xe_0000)).collect()),
        ("thirteen places on", secret.chars().map(turned).collect()),
        ("letters apart", each(|byte| format!("{} ", char::from(byte)))),
    ]
    .map(|(name, form)| (name.to_owned(), form))
    .into();
    // Base64 has three forms of what stands in the middle of something.
    for before in ["", "a", "ab"] {
        let around = format!("{before}{secret}~");
        let standard = STANDARD.encode(&around);
        let mut lines = String::new();
        for (i, c) in standard.chars().enumerate() {
            let _ = write!(lines, "{c}{}", if i % 7 == 6 { "\r\n" } else { "" });
        }
        let behind = before.len();
        all.push((format!("base64 behind {behind}"), standard));
        all.push((format!("base64 of URLs behind {behind}"), URL_SAFE_NO_PAD.encode(&around)));
        all.push((format!("base64 in lines behind {behind}"), lines));
    }
    // And base32 five.
    for behind in 0..5 {
        let around = format!("{}{secret}~", &"abcd"[..behind]);
        let base32 = base32(&around);
        all.push((format!("lowercase base32 behind {behind}"), base32.to_ascii_lowercase()));
        all.push((format!("base32 behind {behind}"), base32));
    }
    all
}

fn moved(c: char, by: u32) -> char {
    char::from_u32(u32::from(c) + by).unwrap()
}

fn turned(c: char) -> char {
    let first = if c.is_ascii_lowercase() { b'a' } else { b'A' };
    if !c.is_ascii_alphabetic() {
        return c;
    }
    char::from((u8::try_from(c).unwrap() - first + 13) % 26 + first)
}

/// RFC 4648, section 6, without padding.
fn base32(text: &str) -> String {
    let bits: String = text.bytes().map(|byte| format!("{byte:08b}")).collect();
    let letters = bits.as_bytes().chunks(5).map(|five| {
        let five = format!("{:0<5}", std::str::from_utf8(five).unwrap());
        let at = usize::from_str_radix(&five, 2).unwrap();
        char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[at])
    });
    letters.collect()
}

/// The same of what is no credential but all of one except its last two characters: half of the very last one is
/// all that base64 and base32 have of it alone.
pub fn near(secret: &str) -> Vec<(String, String)> {
    forms(&secret[..secret.len() - 2])
}

/// A text as the value of a query.
pub fn percent(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
