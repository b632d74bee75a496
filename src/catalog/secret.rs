//! A secret that only `expose` shows.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

/// Bytes of the shortest secret: anything shorter cannot be told from ordinary text in an answer.
pub const SECRET_BYTES_MIN: usize = 8;
/// Bytes of the longest secret.
pub const SECRET_BYTES_MAX: usize = 16 * 1024;

/// One credential value: visible ASCII, 8 to 16,384 bytes; wiped when the last holder lets go.
#[derive(Clone)]
pub struct Secret(Arc<Zeroizing<String>>);

impl Secret {
    /// Takes a value over; one trailing line break, as editors leave it, is not part of it.
    ///
    /// # Errors
    /// What is wrong with it, without showing it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&text.len()) {
            return Err(format!(
                "a secret has {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes, this one has {}",
                text.len()
            ));
        }
        if !text.bytes().all(|b| (0x20..0x7f).contains(&b)) || text.trim() != text {
            return Err("a secret is visible ASCII without surrounding space".into());
        }
        Ok(Self(Arc::new(Zeroizing::new(text.to_owned()))))
    }

    /// The value. Only for the request it belongs to and for finding it where it must not be.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown_by_debug() {
        let secret = Secret::parse("tok-12345678\n").unwrap();
        assert_eq!(secret.expose(), "tok-12345678");
        assert_eq!(format!("{secret:?}"), "[secret]");
    }

    #[test]
    fn what_could_break_a_header_or_hide_in_text_is_refused() {
        for bad in ["short", "line\r\nbreak-xx", " spaced-out-x", "ümlaut-secret", ""] {
            assert!(Secret::parse(bad).is_err(), "{bad:?}");
        }
    }
}
