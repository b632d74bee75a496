//! SCRAM-SHA-256 (RFC 5802, RFC 7677), the client's side, without channel binding.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// The mechanism's name.
pub(super) const MECHANISM: &str = "SCRAM-SHA-256";
/// Rounds a server may ask for: PostgreSQL says 4,096, and a hostile one could say billions.
const ROUNDS_MAX: u32 = 200_000;

/// One exchange.
pub(super) struct Scram<'a> {
    password: &'a str,
    nonce: String,
}

/// The exchange after the server's first word: what the server still has to prove.
pub(super) struct Proof([u8; 32]);

impl<'a> Scram<'a> {
    /// `nonce`: visible ASCII without commas, random.
    pub const fn new(password: &'a str, nonce: String) -> Self {
        Self { password, nonce }
    }

    /// The client's first message. PostgreSQL takes the role's name from elsewhere.
    pub fn first(&self) -> String {
        format!("n,,n=,r={}", self.nonce)
    }

    /// The client's last message, and what the server must answer.
    ///
    /// # Errors
    /// A first message of the server that is none, or that asks for too much work.
    pub fn last(&self, server: &str) -> Result<(String, Proof), &'static str> {
        const BAD: &str = "the server's first word is not SCRAM";
        let mut parts = server.split(',');
        let mut part = |name: &str| parts.next().and_then(|part| part.strip_prefix(name));
        let (nonce, salt, rounds) = (part("r="), part("s="), part("i="));
        let nonce = nonce.filter(|n| n.len() > self.nonce.len() && n.starts_with(&self.nonce));
        let salt = salt.and_then(|salt| STANDARD.decode(salt).ok());
        let rounds = rounds.and_then(|rounds| rounds.parse::<u32>().ok());
        let (nonce, salt, rounds) = (nonce.ok_or(BAD)?, salt.ok_or(BAD)?, rounds.ok_or(BAD)?);
        if !(1..=ROUNDS_MAX).contains(&rounds) {
            return Err("the server asks for too many rounds of SCRAM");
        }
        let salted = salted(self.password.as_bytes(), &salt, rounds)?;
        let bare = format!("c=biws,r={nonce}");
        let message = format!("n=,r={},{server},{bare}", self.nonce);
        let client = mac(&salted, b"Client Key")?;
        let stored: [u8; 32] = Sha256::digest(client).into();
        let signature = mac(&stored, message.as_bytes())?;
        let mut proof = client;
        proof.iter_mut().zip(signature).for_each(|(a, b)| *a ^= b);
        let server = mac(&mac(&salted, b"Server Key")?, message.as_bytes())?;
        Ok((format!("{bare},p={}", STANDARD.encode(proof)), Proof(server)))
    }
}

impl Proof {
    /// Whether the server knows the password too.
    pub fn holds(&self, server: &str) -> bool {
        let said = server.strip_prefix("v=").and_then(|said| STANDARD.decode(said).ok());
        said.is_some_and(|said| bool::from(said.ct_eq(&self.0)))
    }
}

fn mac(key: &[u8], text: &[u8]) -> Result<[u8; 32], &'static str> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(|_| "a key of no length")?;
    mac.update(text);
    Ok(mac.finalize().into_bytes().into())
}

/// PBKDF2 with one block.
fn salted(password: &[u8], salt: &[u8], rounds: u32) -> Result<[u8; 32], &'static str> {
    let mut one = mac(password, &[salt, &[0, 0, 0, 1]].concat())?;
    let mut all = one;
    for _ in 1..rounds {
        one = mac(password, &one)?;
        all.iter_mut().zip(one).for_each(|(a, b)| *a ^= b);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_recorded_by_others_is_repeated() {
        // A recorded session of psql with the password `foobar`.
        let scram = Scram::new("foobar", "9IZ2O01zb9IgiIZ1WJ/zgpJB".into());
        assert_eq!(scram.first(), "n,,n=,r=9IZ2O01zb9IgiIZ1WJ/zgpJB");
        let server = "r=9IZ2O01zb9IgiIZ1WJ/zgpJBjx/oIRLs02gGSHcw1KEty3eY,s=fs3IXBy7U7+IvVjZ,i=4096";
        let (last, proof) = scram.last(server).unwrap();
        assert_eq!(
            last,
            "c=biws,r=9IZ2O01zb9IgiIZ1WJ/zgpJBjx/oIRLs02gGSHcw1KEty3eY,\
             p=AmNKosjJzS31NTlQYNs5BTeQjdHdk7lOflDo5re2an8="
        );
        assert!(proof.holds("v=U+ppxD5XUKtradnv8e2MkeupiA8FU87Sg8CXzXHDAzw="));
        assert!(!proof.holds("v=V+ppxD5XUKtradnv8e2MkeupiA8FU87Sg8CXzXHDAzw="));
    }

    #[test]
    fn a_server_that_lies_or_asks_for_too_much_is_refused() {
        let scram = Scram::new("password", "abc".into());
        for bad in [
            "r=xyz1,s=c2FsdA==,i=4096",
            "r=abc,s=c2FsdA==,i=4096",
            "r=abcd,s=%,i=4096",
            "r=abcd,s=c2FsdA==,i=0",
            "r=abcd,s=c2FsdA==,i=4000000000",
            "e=other-error",
            "",
        ] {
            assert!(scram.last(bad).is_err(), "{bad}");
        }
    }
}
