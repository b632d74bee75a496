//! A login that began in one browser.
//!
//! Everything that the issuer sees of it is derived from one secret, which only the browser has. So a store needs to know
//! no more than its digest, once: every replica of a hub can go on with a login that another one began.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Response;
use http::header::HeaderMap;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::clock::{Entropy, random32};
use crate::domain::commitment::derived;
use crate::domain::digest::Digest;
use crate::serve::console::cookie::LOGIN;

/// The secret of one login.
pub(in super::super) struct StartedLogin(Zeroizing<[u8; 32]>);

impl StartedLogin {
    /// A login that begins.
    pub(in super::super) fn new(entropy: &dyn Entropy) -> Self {
        Self(Zeroizing::new(random32(entropy)))
    }

    /// The login of these headers.
    pub(in super::super) fn of(headers: &HeaderMap, secure: bool) -> Option<Self> {
        LOGIN.read(headers, secure).map(Self)
    }

    /// Gives it to the browser with this answer.
    pub(in super::super) fn give<B>(&self, response: &mut Response<B>, secure: bool) {
        LOGIN.set(response, Some(&self.0), secure);
    }

    /// Has the browser forget it with this answer.
    pub(in super::super) fn forget<B>(response: &mut Response<B>, secure: bool) {
        LOGIN.set(response, None, secure);
    }

    /// What a store knows it by.
    pub(in super::super) fn digest(&self) -> Digest {
        Digest::of(&[&*self.0])
    }

    fn part(&self, name: &[u8]) -> String {
        hex::encode(derived(&self.0, &[b"wicketgate/console/oidc/1\0", name]))
    }

    /// What the issuer sends back with the browser: the answer is to a question of this browser.
    pub(super) fn state(&self) -> String {
        self.part(b"state")
    }

    /// Whether this is what was sent along.
    pub(in super::super) fn is_state(&self, state: &str) -> bool {
        bool::from(self.state().as_bytes().ct_eq(state.as_bytes()))
    }

    /// What the ID token must name: it is of this login.
    pub(super) fn nonce(&self) -> String {
        self.part(b"nonce")
    }

    /// What is shown with the code (RFC 7636), so that a stolen one is worth nothing.
    pub(super) fn verifier(&self) -> Zeroizing<String> {
        Zeroizing::new(self.part(b"verifier"))
    }

    /// What the issuer is told of the verifier before.
    pub(super) fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Digest::of(&[self.verifier().as_bytes()]).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::clock::SystemEntropy;

    #[test]
    fn what_is_sent_along_is_of_one_login_and_says_nothing_about_the_rest() {
        let (one, two) = (StartedLogin::new(&SystemEntropy), StartedLogin::new(&SystemEntropy));
        let parts = |of: &StartedLogin| {
            [of.state(), of.nonce(), of.verifier().to_string(), of.challenge(), hex::encode(*of.0)]
        };
        let all: BTreeSet<String> = parts(&one).into_iter().chain(parts(&two)).collect();
        assert_eq!(all.len(), 10);
        assert!(one.is_state(&one.state()));
        assert!(!one.is_state(&two.state()) && !one.is_state("") && !one.is_state(&one.nonce()));
        // RFC 7636: 43 to 128 characters, and its own example.
        assert_eq!(one.verifier().len(), 64);
        let challenge =
            |verifier: &str| URL_SAFE_NO_PAD.encode(Digest::of(&[verifier.as_bytes()]).as_bytes());
        assert_eq!(
            challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        );
        assert_eq!(one.challenge(), challenge(&one.verifier()));
    }
}
