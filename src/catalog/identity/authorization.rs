//! The credential in an `authorization` header, read once for all faces.

use super::error::IdentityError;

/// Bytes of a credential.
const CREDENTIAL_BYTES_MAX: usize = 8192;

/// The one bearer credential among the values of `authorization`, without its scheme; `None` if the
/// header is not there.
///
/// # Errors
/// [`IdentityError::Malformed`]: more than one value, another scheme, or no credential of printable
/// characters after it.
pub fn bearer<'a>(
    mut values: impl Iterator<Item = &'a [u8]>,
) -> Result<Option<&'a str>, IdentityError> {
    let Some(value) = values.next() else { return Ok(None) };
    let text = std::str::from_utf8(value).ok().filter(|_| values.next().is_none());
    let (scheme, token) =
        text.and_then(|text| text.split_once(' ')).ok_or(IdentityError::Malformed)?;
    let fits = (1..=CREDENTIAL_BYTES_MAX).contains(&token.len())
        && token.bytes().all(|byte| byte.is_ascii_graphic());
    match scheme.eq_ignore_ascii_case("bearer") && fits {
        true => Ok(Some(token)),
        false => Err(IdentityError::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bearer_credential_counts_and_nothing_else() {
        let read = |values: &[&'static str]| bearer(values.iter().map(|value| value.as_bytes()));
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&["Bearer abc"]), Ok(Some("abc")));
        assert_eq!(read(&["bEARER a.b-c_d~+/="]), Ok(Some("a.b-c_d~+/=")));
        for text in
            ["", "Bearer", "Bearer ", "Bearer  a", "Bearer a b", "Basic abc", "abc", " Bearer a"]
        {
            assert_eq!(read(&[text]), Err(IdentityError::Malformed), "`{text}`");
        }
        assert_eq!(read(&["Bearer a", "Bearer a"]), Err(IdentityError::Malformed));
        let long = format!("Bearer {}", "a".repeat(CREDENTIAL_BYTES_MAX));
        assert!(bearer([long.as_bytes()].into_iter()).is_ok());
        let longer = format!("{long}a");
        let unreadable: [&[u8]; 2] = [longer.as_bytes(), b"Bearer \xff"];
        for text in unreadable {
            assert_eq!(bearer([text].into_iter()), Err(IdentityError::Malformed));
        }
    }
}
