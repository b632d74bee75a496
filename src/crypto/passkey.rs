//! Passkeys (WebAuthn) as OpenSSH writes them (PROTOCOL.u2f): keys on the curve P-256 that sign in a
//! browser, and what a browser signs with them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use sha2::{Digest as _, Sha256};

use super::ssh::{Wire, put};
use super::sshsig::Error;

/// Bytes of a point in the uncompressed form.
const POINT: usize = 65;
/// The first byte of that form.
const UNCOMPRESSED: u8 = 4;
/// The most bytes of an origin.
const ORIGIN_MAX: usize = 300;
/// The most bytes of what a browser collects for one signature; browsers write some 200.
const CLIENT_DATA_MAX: usize = 2048;
/// The most bytes of an authenticator's extensions.
const EXTENSIONS_MAX: usize = 1024;
/// The most bytes of one half of a signature, with zeros before it.
const HALF_MAX: usize = 64;

/// Flag: a person was there.
const PRESENT: u8 = 0x01;
/// Flag: the authenticator verified that person, by a PIN or a finger.
const VERIFIED: u8 = 0x04;
/// Flag: the key may be copied to other devices.
const SYNCED: u8 = 0x08;
/// Flag: the data of a new key follow, which no signature has.
const ATTESTED: u8 = 0x40;
/// Flag: extensions follow.
const EXTENDED: u8 = 0x80;

/// A public key on the curve P-256.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct P256Key([u8; POINT]);

impl P256Key {
    /// The key of an uncompressed point. No signature is valid by a point that is not on the curve.
    #[must_use]
    pub fn from_point(point: &[u8]) -> Option<Self> {
        let point = <[u8; POINT]>::try_from(point).ok()?;
        (point.first() == Some(&UNCOMPRESSED)).then_some(Self(point))
    }

    /// The uncompressed point.
    #[must_use]
    pub const fn point(&self) -> &[u8; POINT] {
        &self.0
    }

    fn verifies(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.0);
        key.verify(message, signature).is_ok()
    }
}

/// Where a browser signs, as browsers write it: `https://console.example.com`, with a port only if
/// it is not 443. Without TLS only `http://localhost:PORT`; never an IP address.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct WebOrigin(String);

impl WebOrigin {
    /// Reads an origin in its one spelling.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let (host, port) = match rest.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (rest, None),
        };
        let usual = match scheme {
            "https" => "443",
            "http" if host == "localhost" => "80",
            _ => return None,
        };
        let is_port = |port: &str| {
            port.parse::<u16>().is_ok_and(|n| n > 0 && n.to_string() == port) && port != usual
        };
        let valid = is_host(host) && port.is_none_or(is_port) && text.len() <= ORIGIN_MAX;
        valid.then(|| Self(text.to_owned()))
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn host(&self) -> &str {
        let rest = self.0.split_once("://").map_or("", |(_, rest)| rest);
        rest.split_once(':').map_or(rest, |(host, _)| host)
    }

    /// Whether keys of this application may sign here: it is the host, or a domain of at least two
    /// labels above it. Browsers make no key for a domain that everybody may register under.
    #[must_use]
    pub fn serves(&self, application: &str) -> bool {
        let host = self.host();
        let above = host.strip_suffix(application).is_some_and(|below| below.ends_with('.'));
        host == application || above && is_host(application) && application.contains('.')
    }
}

/// A host by name, in lower case. The last label of a name is no number.
fn is_host(text: &str) -> bool {
    let label = |label: &str| {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        (1..=63).contains(&label.len()) && label.bytes().all(plain)
    };
    let number = |label: &str| label.bytes().all(|b| b.is_ascii_digit());
    text.split('.').all(label) && !text.rsplit('.').next().is_some_and(number)
}

/// What a browser and an authenticator signed, and the signature. The check is OpenSSH's, and asks
/// for a person who was verified besides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assertion {
    signature: [u8; 64],
    flags: u8,
    counter: u32,
    origin: WebOrigin,
    client_data: Vec<u8>,
    extensions: Vec<u8>,
}

impl Assertion {
    /// Where it was signed.
    #[must_use]
    pub const fn origin(&self) -> &WebOrigin {
        &self.origin
    }

    /// Whether the key may be copied to other devices: a synced passkey, not one bound to hardware.
    #[must_use]
    pub const fn is_synced(&self) -> bool {
        self.flags & SYNCED != 0
    }

    /// Reads everything after the name of the signature's type.
    pub(super) fn read(mut wire: Wire<'_>) -> Result<Self, Error> {
        let malformed = || Error::Form("the passkey's answer is malformed".into());
        let signature = wire.string().and_then(halves).ok_or_else(malformed)?;
        let flags = wire.take(1).and_then(|one| one.first().copied()).ok_or_else(malformed)?;
        let counter = wire.number().ok_or_else(malformed)?;
        let origin = wire.text().ok_or_else(malformed)?;
        let client_data = wire.string().ok_or_else(malformed)?;
        let extensions = wire.string().ok_or_else(malformed)?;
        if !wire.ends() {
            return Err(malformed());
        }
        if client_data.len() > CLIENT_DATA_MAX || extensions.len() > EXTENSIONS_MAX {
            return Err(Error::Form("the passkey's answer is too long".into()));
        }
        let origin = WebOrigin::parse(origin).ok_or(Error::Origin)?;
        let (client_data, extensions) = (client_data.to_owned(), extensions.to_owned());
        Ok(Self { signature, flags, counter, origin, client_data, extensions })
    }

    /// Appends what [`Self::read`] reads.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let (r, s) = self.signature.split_at(32);
        let mut both = Vec::new();
        put_half(&mut both, r);
        put_half(&mut both, s);
        put(out, &both);
        out.push(self.flags);
        out.extend_from_slice(&self.counter.to_be_bytes());
        put(out, self.origin.as_str().as_bytes());
        put(out, &self.client_data);
        put(out, &self.extensions);
    }

    /// Whether this key of this application signed the challenge, at the origin that the answer
    /// names, while a verified person was there.
    pub(super) fn verify(
        &self,
        key: &P256Key,
        application: &str,
        challenge: &[u8],
    ) -> Result<(), Error> {
        let is_extended = self.flags & EXTENDED != 0;
        if self.flags & ATTESTED != 0 || is_extended == self.extensions.is_empty() {
            return Err(Error::Flags(self.flags));
        }
        if !self.client_data.starts_with(prefix(challenge, &self.origin).as_bytes()) {
            return Err(Error::ClientData);
        }
        let mut signed = Sha256::digest(application.as_bytes()).to_vec();
        signed.push(self.flags);
        signed.extend_from_slice(&self.counter.to_be_bytes());
        signed.extend_from_slice(&self.extensions);
        signed.extend_from_slice(&Sha256::digest(&self.client_data));
        if !key.verifies(&signed, &self.signature) {
            return Err(Error::Wrong);
        }
        if self.flags & PRESENT == 0 {
            return Err(Error::Absent);
        }
        if self.flags & VERIFIED == 0 {
            return Err(Error::Unverified);
        }
        if self.origin.serves(application) {
            return Ok(());
        }
        let shown = application.chars().filter(|c| !c.is_control()).take(64).collect();
        Err(Error::Application(self.origin.as_str().to_owned(), shown))
    }
}

/// How the browser's data begin (WebAuthn, 5.8.1.1): an origin has no character that JSON escapes.
fn prefix(challenge: &[u8], origin: &WebOrigin) -> String {
    let (challenge, origin) = (URL_SAFE_NO_PAD.encode(challenge), origin.as_str());
    format!(r#"{{"type":"webauthn.get","challenge":"{challenge}","origin":"{origin}""#)
}

/// The two numbers of a signature, 32 bytes each.
fn halves(blob: &[u8]) -> Option<[u8; 64]> {
    let mut wire = Wire(blob);
    let mut out = Vec::with_capacity(64);
    for _ in 0..2 {
        let half = wire.string().filter(|half| half.len() <= HALF_MAX)?;
        // A first bit would make it negative.
        if half.first().is_some_and(|first| first & 0x80 != 0) {
            return None;
        }
        let digits = significant(half);
        let zeros = 32_usize.checked_sub(digits.len())?;
        out.extend(std::iter::repeat_n(0, zeros));
        out.extend_from_slice(digits);
    }
    <[u8; 64]>::try_from(out).ok().filter(|_| wire.ends())
}

/// A number without the zeros before it.
fn significant(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|b| **b == 0).count();
    bytes.split_at_checked(zeros).map_or(bytes, |(_, digits)| digits)
}

/// Appends a number of SSH's `mpint` form.
fn put_half(out: &mut Vec<u8>, bytes: &[u8]) {
    let digits = significant(bytes);
    let negative = digits.first().is_some_and(|first| first & 0x80 != 0);
    let mut half = if negative { vec![0] } else { Vec::new() };
    half.extend_from_slice(digits);
    put(out, &half);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_the_one_spelling_of_a_browser() {
        for good in [
            "https://console.example.com",
            "https://console.example.com:8443",
            "https://localhost",
            "http://localhost:7301",
            "https://a-b.c1",
        ] {
            assert_eq!(WebOrigin::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            "console.example.com",
            "http://console.example.com",
            "https://Console.example.com",
            "https://console.example.com/",
            "https://console.example.com:443",
            "https://console.example.com:0443",
            "https://console.example.com:0",
            "https://console.example.com:70000",
            "https://console.example.com:",
            "https://user@console.example.com",
            "https://console.example.com.",
            "https://.example.com",
            "https://127.0.0.1:7301",
            "http://127.0.0.1:7301",
            "https://[::1]",
            "http://localhost:80",
            "http://a.localhost:1",
            "https://a\".example.com",
            "https://",
        ] {
            assert_eq!(WebOrigin::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_application_is_the_host_or_a_domain_above_it() {
        let origin = WebOrigin::parse("https://console.acme.example.com:8443").unwrap();
        for good in ["console.acme.example.com", "acme.example.com", "example.com"] {
            assert!(origin.serves(good), "{good}");
        }
        for bad in [
            "",
            "com",
            ".example.com",
            "ample.com",
            "other.example.com",
            "https://console.acme.example.com",
            "a.console.acme.example.com",
            "ssh:",
        ] {
            assert!(!origin.serves(bad), "{bad}");
        }
        assert!(WebOrigin::parse("http://localhost:7301").unwrap().serves("localhost"));
    }

    #[test]
    fn numbers_are_read_as_openssh_reads_them_and_written_shortest() {
        let wire = |parts: &[&[u8]]| {
            let mut out = Vec::new();
            for part in parts {
                put(&mut out, part);
            }
            out
        };
        let read = halves(&wire(&[&[0, 0x80, 1], &[7]])).unwrap();
        assert_eq!((read[30], read[31], read[63]), (0x80, 1, 7));
        let mut again = Vec::new();
        put_half(&mut again, read.split_at(32).0);
        put_half(&mut again, read.split_at(32).1);
        assert_eq!(again, wire(&[&[0, 0x80, 1], &[7]]));
        assert_eq!(halves(&wire(&[&[0, 0, 0, 0x80, 1], &[0, 7]])), Some(read));
        for bad in [
            wire(&[&[0x80], &[7]]),
            wire(&[&[1; 33], &[7]]),
            wire(&[&[7]]),
            wire(&[&[7], &[7], &[7]]),
        ] {
            assert_eq!(halves(&bad), None);
        }
    }
}
