//! Sessions: who is logged in to the console, for how long.
//!
//! A session is bound to the credential that opened it: each request searches the operators for that credential again,
//! so that a removed operator is out at once. Of an id only its SHA-256 is kept.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::header::{COOKIE, HeaderMap};
use parking_lot::Mutex;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::clock::{Entropy, random32};
use crate::domain::commitment::derived;
use crate::domain::digest::Digest;
use crate::identity::certificate::ClientCertificate;
use crate::operator::credential::ShownCredential;
use crate::operator::operators::Login;

/// A session without a request for this long has ended.
const IDLE: Duration = Duration::from_secs(15 * 60);
/// So does each session after this long.
const LONGEST: Duration = Duration::from_secs(8 * 60 * 60);
/// Sessions of one operator at the same time. One more ends the one of these that was used the longest ago.
// WHY of one: an operator who logs in again and again ends only sessions of their own.
const OWN_MAX: usize = 16;

/// The secret that a browser shows for its session.
pub(super) struct SessionId(Zeroizing<[u8; 32]>);

impl SessionId {
    /// The name of its cookie. Over TLS no other host and no page in the clear can set it.
    const fn cookie_name(secure: bool) -> &'static str {
        if secure { "__Host-wicketgate" } else { "wicketgate" }
    }

    /// The id in these headers. Of two cookies of this name, another site may have chosen one: neither counts.
    pub(super) fn of(headers: &HeaderMap, secure: bool) -> Option<Self> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs =
            cookies.flat_map(|value| value.split(';')).filter_map(|one| one.split_once('='));
        let mut ours = pairs.filter(|(name, _)| name.trim() == Self::cookie_name(secure));
        let (Some((_, value)), None) = (ours.next(), ours.next()) else { return None };
        let mut id = Zeroizing::new([0; 32]);
        hex::decode_to_slice(value.trim(), &mut *id).ok()?;
        Some(Self(id))
    }

    /// The header that gives it to the browser.
    pub(super) fn cookie(&self, secure: bool) -> Zeroizing<String> {
        let value = Zeroizing::new(hex::encode(*self.0));
        Zeroizing::new(cookie(&value, "", secure))
    }

    /// The header that takes it back.
    pub(super) fn no_cookie(secure: bool) -> String {
        cookie("", "; Max-Age=0", secure)
    }

    /// What a form that is sent to this path carries: it cannot be made without the id.
    pub(super) fn token(&self, path: &str) -> String {
        hex::encode(derived(&self.0, &[b"wicketgate/console/form/1\0", path.as_bytes()]))
    }

    /// Whether a form that was sent to this path carried the right token.
    pub(super) fn is_token(&self, path: &str, token: &str) -> bool {
        bool::from(self.token(path).as_bytes().ct_eq(token.as_bytes()))
    }

    /// What is kept of it.
    pub(super) fn digest(&self) -> Digest {
        Digest::of(&[&*self.0])
    }
}

fn cookie(value: &str, more: &str, secure: bool) -> String {
    let (name, of_tls) = (SessionId::cookie_name(secure), if secure { "; Secure" } else { "" });
    format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{of_tls}{more}")
}

/// One session; times are those of the clock that never steps.
struct ConsoleSession {
    login: Login,
    began: Duration,
    seen: Duration,
}

impl ConsoleSession {
    fn is_over(&self, now: Duration) -> bool {
        now.saturating_sub(self.seen) >= IDLE || now.saturating_sub(self.began) >= LONGEST
    }
}

/// The open sessions of this process, by the digests of their ids.
#[derive(Default)]
pub(super) struct ConsoleSessions(Mutex<BTreeMap<Digest, ConsoleSession>>);

impl ConsoleSessions {
    /// Opens a session under a new id.
    pub(super) fn begin(&self, login: Login, now: Duration, entropy: &dyn Entropy) -> SessionId {
        let id = SessionId(Zeroizing::new(random32(entropy)));
        let mut open = self.0.lock();
        open.retain(|_, session| !session.is_over(now));
        let own = open.iter().filter(|(_, session)| session.login.is(&login));
        let own: Vec<(Duration, Digest)> = own.map(|(of, session)| (session.seen, *of)).collect();
        if let Some((_, oldest)) = own.iter().min().filter(|_| own.len() >= OWN_MAX) {
            open.remove(oldest);
        }
        open.insert(id.digest(), ConsoleSession { login, began: now, seen: now });
        id
    }

    /// The login of an open session, which is used by this.
    pub(super) fn find(&self, id: &SessionId, now: Duration) -> Option<Login> {
        let mut open = self.0.lock();
        let session = open.get_mut(&id.digest()).filter(|session| !session.is_over(now))?;
        session.seen = now;
        Some(session.login.clone())
    }

    /// The login of an open session, which is not used by this.
    pub(super) fn peek(&self, of: &Digest, now: Duration) -> Option<Login> {
        let open = self.0.lock();
        let session = open.get(of).filter(|session| !session.is_over(now))?;
        Some(session.login.clone())
    }

    /// Ends a session.
    pub(super) fn end(&self, id: &SessionId) {
        self.0.lock().remove(&id.digest());
    }
}

/// The credential of a session on a connection with this certificate, or with none. What a certificate opened counts
/// only where the certificate is shown again; a token and a certificate together count nowhere.
pub(super) fn shown(
    login: Login,
    certificate: Option<&Arc<ClientCertificate>>,
) -> Option<ShownCredential> {
    match (login, certificate) {
        (login @ Login::Token(_), None) => Some(ShownCredential::Session(login)),
        (Login::Certificate(of), Some(certificate)) if of == certificate.thumbprint => {
            Some(ShownCredential::Certificate(Arc::clone(certificate)))
        }
        (Login::Token(_), Some(_)) | (Login::Certificate(_), _) => None,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::clock::SystemEntropy;
    use crate::domain::time::Timestamp;

    fn login() -> Login {
        Login::Token(Digest::of(&[b"token"]))
    }

    fn headers(all: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in all {
            headers.append(COOKIE, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn a_session_ends_unused_after_fifteen_minutes_and_used_after_eight_hours() {
        let sessions = ConsoleSessions::default();
        let at = Duration::from_secs;
        let (idle, used) = (sessions.begin(login(), at(0), &SystemEntropy), at(0));
        assert!(sessions.find(&idle, at(899)).is_some());
        assert!(sessions.find(&idle, at(899 + 900)).is_none());
        let id = sessions.begin(login(), used, &SystemEntropy);
        for minute in (0..8 * 60).step_by(10) {
            assert!(sessions.find(&id, at(minute * 60)).is_some(), "{minute}");
        }
        assert!(sessions.find(&id, at(8 * 3600 - 1)).is_some());
        assert!(sessions.find(&id, at(8 * 3600)).is_none());
    }

    #[test]
    fn an_ended_session_is_unknown_and_there_is_a_limit_to_those_of_one_operator() {
        let sessions = ConsoleSessions::default();
        let at = Duration::from_millis;
        let another = Login::Token(Digest::of(&[b"another"]));
        let another = sessions.begin(another, at(0), &SystemEntropy);
        let first = sessions.begin(login(), at(0), &SystemEntropy);
        let second = sessions.begin(login(), at(1), &SystemEntropy);
        for n in 2..17 {
            sessions.begin(login(), at(n), &SystemEntropy);
        }
        assert!(sessions.find(&first, at(2000)).is_none(), "used the longest ago");
        assert!(sessions.find(&second, at(2000)).is_some());
        sessions.end(&second);
        assert!(sessions.find(&second, at(2000)).is_none());
        assert_eq!(sessions.0.lock().len(), OWN_MAX);
        assert!(sessions.find(&another, at(2000)).is_some(), "used before all of them");
    }

    #[test]
    fn a_cookie_counts_alone_under_the_name_of_its_connection() {
        let id = "ab".repeat(32);
        let counts = |all: &[&str], secure| SessionId::of(&headers(all), secure).is_some();
        let (plain, host) = (format!("wicketgate={id}"), format!("__Host-wicketgate={id}"));
        assert!(counts(&[&plain], false) && counts(&[&host], true));
        assert!(counts(&[&format!("other=1; {plain}")], false));
        assert!(!counts(&[&plain], true) && !counts(&[&host], false));
        assert!(!counts(&[&format!("{plain}; {plain}")], false));
        assert!(!counts(&[&plain, &plain], false));
        for value in ["", "ab", "zz", &"ab".repeat(33)] {
            assert!(!counts(&[&format!("wicketgate={value}")], false), "{value}");
        }
    }

    #[test]
    fn a_form_token_is_of_one_session_and_one_path() {
        let sessions = ConsoleSessions::default();
        let begin = || sessions.begin(login(), Duration::ZERO, &SystemEntropy);
        let (one, two) = (begin(), begin());
        let token = one.token("/console/logout");
        assert!(one.is_token("/console/logout", &token));
        assert!(!one.is_token("/console/orders", &token));
        assert!(!two.is_token("/console/logout", &token));
        assert!(!one.is_token("/console/logout", ""));
        assert!(!token.contains(&hex::encode(*one.0)));
    }

    #[test]
    fn what_a_certificate_opened_counts_only_with_that_certificate() {
        let of = Digest::of(&[b"der"]);
        let certificate = |thumbprint| {
            let not_after = Timestamp::from_millis(1);
            Arc::new(ClientCertificate { thumbprint, not_after, spiffe: None })
        };
        let (own, other) = (certificate(of), certificate(Digest::of(&[b"other"])));
        assert!(matches!(shown(login(), None), Some(ShownCredential::Session(_))));
        assert!(shown(login(), Some(&own)).is_none());
        let opened = || Login::Certificate(of);
        assert!(matches!(shown(opened(), Some(&own)), Some(ShownCredential::Certificate(_))));
        assert!(shown(opened(), Some(&other)).is_none());
        assert!(shown(opened(), None).is_none());
    }
}
