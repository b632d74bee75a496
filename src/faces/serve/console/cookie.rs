//! Cookies that hold 256 random bits and nothing else.

use http::Response;
use http::header::{COOKIE, HeaderMap, HeaderValue, SET_COOKIE};
use zeroize::Zeroizing;

/// A cookie of the console. Over TLS no other host and no page in the clear can set it.
#[derive(Clone, Copy)]
pub(super) struct Cookie {
    name: &'static str,
    /// What the browser does with it, beside what every cookie of ours has.
    rules: &'static str,
}

/// Of a session. No page elsewhere can have a browser send it.
pub(super) const SESSION: Cookie = Cookie { name: "wicketgate", rules: "SameSite=Strict" };
/// Of a login at an issuer. The issuer's page leads back here, so that `Strict` would hold it back.
pub(super) const LOGIN: Cookie =
    Cookie { name: "wicketgate-login", rules: "SameSite=Lax; Max-Age=600" };

impl Cookie {
    fn is_name(self, name: &str, secure: bool) -> bool {
        let bare = if secure { name.strip_prefix("__Host-") } else { Some(name) };
        bare == Some(self.name)
    }

    /// The bits in these headers. Of two cookies of this name, another site may have chosen one: neither counts.
    pub(super) fn read(self, headers: &HeaderMap, secure: bool) -> Option<Zeroizing<[u8; 32]>> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs =
            cookies.flat_map(|value| value.split(';')).filter_map(|one| one.split_once('='));
        let mut ours = pairs.filter(|(name, _)| self.is_name(name.trim(), secure));
        let (Some((_, value)), None) = (ours.next(), ours.next()) else { return None };
        let mut bits = Zeroizing::new([0; 32]);
        hex::decode_to_slice(value.trim(), &mut *bits).ok()?;
        Some(bits)
    }

    /// The header that gives these bits to the browser, or takes them back.
    fn header(self, bits: Option<&[u8; 32]>, secure: bool) -> Zeroizing<String> {
        let (prefix, of_tls) = if secure { ("__Host-", "; Secure") } else { ("", "") };
        let value = Zeroizing::new(bits.map(hex::encode).unwrap_or_default());
        let rules = match bits {
            Some(_) => self.rules,
            None => "SameSite=Strict; Max-Age=0",
        };
        let name = self.name;
        Zeroizing::new(format!("{prefix}{name}={}; Path=/; HttpOnly; {rules}{of_tls}", &*value))
    }

    /// Gives these bits to the browser with this answer, or takes them back.
    pub(super) fn set<B>(self, response: &mut Response<B>, bits: Option<&[u8; 32]>, secure: bool) {
        if let Ok(mut value) = HeaderValue::from_str(&self.header(bits, secure)) {
            value.set_sensitive(true);
            response.headers_mut().append(SET_COOKIE, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in all {
            headers.append(COOKIE, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn a_cookie_counts_alone_under_the_name_of_its_connection() {
        let id = "ab".repeat(32);
        let counts = |all: &[&str], secure| SESSION.read(&headers(all), secure).is_some();
        let (plain, host) = (format!("wicketgate={id}"), format!("__Host-wicketgate={id}"));
        assert!(counts(&[&plain], false) && counts(&[&host], true));
        assert!(counts(&[&format!("other=1; {plain}")], false));
        assert!(!counts(&[&plain], true) && !counts(&[&host], false));
        assert!(!counts(&[&format!("{plain}; {plain}")], false));
        assert!(!counts(&[&plain, &plain], false));
        for value in ["", "ab", "zz", &"ab".repeat(33)] {
            assert!(!counts(&[&format!("wicketgate={value}")], false), "{value}");
        }
        assert!(counts(&[&format!("{plain}; wicketgate-login={}", "cd".repeat(32))], false));
    }

    #[test]
    fn what_is_set_is_read_again_and_over_tls_belongs_to_this_host() {
        for (secure, rest) in [(false, ""), (true, "; Secure")] {
            let header = LOGIN.header(Some(&[7; 32]), secure);
            let (pair, rules) = header.split_once("; ").unwrap();
            assert_eq!(rules, format!("Path=/; HttpOnly; SameSite=Lax; Max-Age=600{rest}"));
            let read = LOGIN.read(&headers(&[pair]), secure);
            assert_eq!(read.as_deref(), Some(&[7; 32]));
            assert!(SESSION.read(&headers(&[pair]), secure).is_none());
        }
        assert_eq!(
            *SESSION.header(None, true),
            "__Host-wicketgate=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0; Secure"
        );
    }
}
