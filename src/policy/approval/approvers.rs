//! The approvers: a signed file that stock OpenSSH reads as its `allowed_signers`.
//!
//! One key a line:
//! `subject namespaces="wicketgate-approval" ssh-ed25519 AAAA… roles=approver,treasury`.
//! A key with the namespace `wicketgate-amendment` and the role `policy_publisher` approves
//! amendments of the policy, one with `wicketgate-order` and the role `operator` reinstates what
//! operators stopped. The roles use OpenSSH's comment field.
//! `valid-after` and `valid-before` are in UTC (`20270101Z`). The reader refuses OpenSSH options by
//! which a line would mean more than one subject and one key.
//!
//! Before the first key a comment may give the edition of the list:
//! `# wicketgate: version=2 expires=20270101Z`. A list that follows another one has a higher
//! version; without the comment a list has version 0 and no end.

use crate::record::chain::SignerList;
use std::collections::{BTreeMap, BTreeSet};

pub use super::list::{Error, LineError, ListError, Namespaces};
use super::{NAMESPACE, PasskeyTerms, amendment, break_glass, order};
use crate::crypto::dsse;
use crate::crypto::keys::{PublicKey, SecretKey};
use crate::crypto::ssh::SshKey;
use crate::domain::digest::Digest;
use crate::domain::time::Timestamp;

/// DSSE payload type of the list. Its envelope is a file beside it, under its name with
/// `.sig.json`.
pub const PAYLOAD_TYPE: &str = "application/vnd.wicketgate.approvers.v1";

/// The purpose of a list, and so what its keys may sign. The type of its signature fixes the
/// purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Approvals and refusals of held calls.
    Approval,
    /// Words about amendments of the policy: by keys of the same list.
    Amendment,
    /// Orders that reinstate what operators stopped: by keys of the same list.
    Order,
    /// Break-glass statements.
    BreakGlass,
}

impl Purpose {
    /// The SSHSIG namespace of its signatures.
    #[must_use]
    pub const fn namespace(self) -> &'static str {
        match self {
            Self::Approval => NAMESPACE,
            Self::Amendment => amendment::NAMESPACE,
            Self::Order => order::NAMESPACE,
            Self::BreakGlass => break_glass::NAMESPACE,
        }
    }

    /// The namespaces of this purpose: each line of its list has to name one of them.
    #[must_use]
    pub const fn namespaces(self) -> &'static [&'static str] {
        match self {
            Self::Approval | Self::Amendment | Self::Order => {
                &[NAMESPACE, amendment::NAMESPACE, order::NAMESPACE]
            }
            Self::BreakGlass => &[break_glass::NAMESPACE],
        }
    }

    /// The name of its list, in entries and messages.
    #[must_use]
    pub const fn list(self) -> SignerList {
        match self {
            Self::Approval | Self::Amendment | Self::Order => SignerList::Approvers,
            Self::BreakGlass => SignerList::BreakGlass,
        }
    }

    /// The role that a key needs to count.
    #[must_use]
    pub const fn role(self) -> &'static str {
        match self {
            Self::Approval => super::check::ROLE,
            Self::Amendment => amendment::ROLE,
            Self::Order => order::ROLE,
            Self::BreakGlass => break_glass::ROLE,
        }
    }

    /// The DSSE payload type of the list.
    #[must_use]
    pub const fn payload_type(self) -> &'static str {
        match self {
            Self::Approval | Self::Amendment | Self::Order => PAYLOAD_TYPE,
            Self::BreakGlass => "application/vnd.wicketgate.break-glass-signers.v1",
        }
    }
}

/// The prefix of the comment with the edition.
const EDITION: &str = "wicketgate:";
/// What entries can hold as a number.
pub(super) const VERSION_MAX: u64 = 9_007_199_254_740_991;
/// Bytes of a list.
pub(super) const BYTES_MAX: usize = 256 * 1024;
/// Keys in a list.
pub(super) const KEYS_MAX: usize = 1024;
/// Bytes of a subject or a role.
pub(super) const WORD_MAX: usize = 128;
/// Roles of one key.
pub(super) const ROLES_MAX: usize = 16;

/// One key of the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signer {
    /// Whose it is. One subject may have several keys and counts once.
    pub subject: String,
    /// What the subject may do with it, sorted.
    pub roles: Vec<String>,
    /// The namespaces its signatures may use, sorted: [`NAMESPACE`], [`amendment::NAMESPACE`],
    /// [`order::NAMESPACE`], or others.
    pub namespaces: Vec<String>,
    /// The key.
    pub key: SshKey,
    /// Before this it does not count yet.
    pub after: Option<Timestamp>,
    /// The key counts until this time.
    pub before: Option<Timestamp>,
}

impl Signer {
    /// Whether the key's signatures in this namespace count.
    #[must_use]
    pub fn signs(&self, namespace: &str) -> bool {
        self.namespaces.iter().any(|one| one == namespace)
    }
}

/// Which list of its kind it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Edition {
    /// The signer counts it up; a gate never accepts a list with a lower one after this.
    pub version: u64,
    /// From then on no approver on the list counts; `None`: it has no end.
    pub expires: Option<Timestamp>,
}

impl Edition {
    /// The edition in this comment, without `#`; `None` for any other comment.
    fn parse(comment: &str) -> Option<Result<Self, LineError>> {
        let words = comment.trim().strip_prefix(EDITION)?;
        let (mut version, mut expires) = (None, None);
        for word in words.split_ascii_whitespace() {
            let taken = match word.split_once('=') {
                Some(("version", number)) => {
                    let plain = number.bytes().all(|b| b.is_ascii_digit()) && !number.is_empty();
                    let number = number.parse().ok().filter(|n| plain && *n <= VERSION_MAX);
                    let Some(number) = number else {
                        return Some(Err(LineError::Version(word.to_owned())));
                    };
                    version.replace(number).is_some()
                }
                Some(("expires", at)) => match time(at) {
                    Ok(at) => expires.replace(at).is_some(),
                    Err(why) => return Some(Err(why)),
                },
                Some(_) | None => {
                    return Some(Err(LineError::Part(word.to_owned())));
                }
            };
            if taken {
                return Some(Err(LineError::Twice(word.to_owned())));
            }
        }
        let version = version.ok_or(LineError::NoVersion);
        Some(version.map(|version| Self { version, expires }))
    }
}

/// The list, keys of it that were revoked since, and which of its passkeys count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Approvers {
    digest: Digest,
    edition: Edition,
    signers: Vec<Signer>,
    revoked: BTreeSet<String>,
    passkeys: PasskeyTerms,
}

impl Approvers {
    /// Opens a signed list for this purpose: its text, and the envelope that enough trusted keys
    /// signed over exactly it.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn open(
        purpose: Purpose,
        text: &[u8],
        envelope: &[u8],
        (trusted, threshold): (&[PublicKey], usize),
    ) -> Result<Self, Error> {
        let signed = dsse::open(envelope, purpose.payload_type(), trusted, threshold)?;
        if signed.payload == text {
            Self::parse_for(purpose, text)
        } else {
            Err(Error::Whole(ListError::Envelope))
        }
    }

    /// The envelope of a valid list for this purpose, signed by these keys.
    ///
    /// # Errors
    /// The first invalid line.
    pub fn sign(purpose: Purpose, text: &[u8], keys: &[&SecretKey]) -> Result<Vec<u8>, Error> {
        Self::parse_for(purpose, text)?;
        Ok(dsse::sign(purpose.payload_type(), text, keys))
    }

    /// Reads a list without checking its signature: the caller does that.
    ///
    /// # Errors
    /// The first invalid line.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        Self::parse_for(Purpose::Approval, text)
    }

    /// As [`Self::parse`], for this purpose.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn parse_for(purpose: Purpose, text: &[u8]) -> Result<Self, Error> {
        if text.len() > BYTES_MAX {
            return Err(Error::Whole(ListError::Size));
        }
        let lines = std::str::from_utf8(text).map_err(|_| Error::Whole(ListError::Utf8))?;
        // Some readers end a line at a carriage return, and some do not: refuse it.
        if !text.iter().all(|b| matches!(b, b'\n' | b'\t' | b' '..=b'~')) {
            return Err(Error::Whole(ListError::Character));
        }
        let (mut signers, mut edition) = (Vec::<Signer>::new(), None);
        for (at, line) in lines.lines().enumerate() {
            let malformed = |why| Error::Line { line: at.saturating_add(1), why };
            let line = line.trim();
            if let Some(stated) = line.strip_prefix('#').and_then(Edition::parse) {
                let stated = stated.map_err(malformed)?;
                if edition.replace(stated).is_some() || !signers.is_empty() {
                    return Err(malformed(LineError::Edition));
                }
            }
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let signer = signer(purpose, line).map_err(malformed)?;
            if signers.iter().any(|other| other.key == signer.key) {
                return Err(malformed(LineError::Again));
            }
            signers.push(signer);
        }
        if signers.len() > KEYS_MAX {
            return Err(Error::Whole(ListError::Keys));
        }
        alike(&signers)?;
        let (digest, edition) = (Digest::of(&[text]), edition.unwrap_or_default());
        let (revoked, passkeys) = (BTreeSet::new(), PasskeyTerms::Off);
        Ok(Self { digest, edition, signers, revoked, passkeys })
    }

    /// The same list without these keys, named by fingerprint (`SHA256:…`).
    #[must_use]
    pub fn without(mut self, revoked: impl IntoIterator<Item = String>) -> Self {
        self.revoked = revoked.into_iter().collect();
        self
    }

    /// The same list, whose passkeys count on these terms. Without terms none counts.
    #[must_use]
    pub fn admitting(mut self, passkeys: PasskeyTerms) -> Self {
        self.passkeys = passkeys;
        self
    }

    /// Which of its passkeys count.
    #[must_use]
    pub const fn passkeys(&self) -> &PasskeyTerms {
        &self.passkeys
    }

    /// SHA-256 of the list's text: entries name the list by it.
    #[must_use]
    pub const fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Which list of its kind it is.
    #[must_use]
    pub const fn edition(&self) -> Edition {
        self.edition
    }

    /// Every key, in the order of the list.
    #[must_use]
    pub fn signers(&self) -> &[Signer] {
        &self.signers
    }

    /// The line of this key.
    #[must_use]
    pub fn signer(&self, key: &SshKey) -> Option<&Signer> {
        self.signers.iter().find(|signer| signer.key == *key)
    }

    /// Whether the key of this fingerprint was revoked.
    #[must_use]
    pub fn is_revoked(&self, fingerprint: &str) -> bool {
        self.revoked.contains(fingerprint)
    }
}

/// Refuses two spellings of one subject: they would count as two people.
fn alike(signers: &[Signer]) -> Result<(), Error> {
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for signer in signers {
        let known = seen.entry(signer.subject.to_ascii_lowercase()).or_insert(&signer.subject);
        if *known != signer.subject {
            let why = ListError::Case((*known).to_owned(), signer.subject.clone());
            return Err(Error::Whole(why));
        }
    }
    Ok(())
}

fn signer(purpose: Purpose, line: &str) -> Result<Signer, LineError> {
    let (subject, rest) = field(line);
    if !is_name(subject) {
        return Err(LineError::Subject);
    }
    let (options, rest) = field(rest);
    let options = KeyOptions::parse(purpose, options)?;
    let mut words = rest.split_ascii_whitespace();
    let (name, key) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let key = SshKey::parse(&format!("{name} {key}"))?;
    let roles = words.next().and_then(|word| word.strip_prefix("roles="));
    let roles = roles.ok_or(LineError::NoRoles)?;
    let roles: Vec<&str> = roles.split(',').collect();
    let sorted: BTreeSet<String> = roles.iter().map(|role| (*role).to_owned()).collect();
    if !sorted.iter().all(|role| is_name(role)) || sorted.len() != roles.len() {
        return Err(LineError::Roles);
    }
    if sorted.len() > ROLES_MAX {
        return Err(LineError::ManyRoles);
    }
    if let (Some(after), Some(before)) = (options.after, options.before)
        && after >= before
    {
        return Err(LineError::Validity);
    }
    let roles = sorted.into_iter().collect();
    Ok(Signer {
        subject: subject.to_owned(),
        roles,
        namespaces: options.namespaces.into_iter().collect(),
        key,
        after: options.after,
        before: options.before,
    })
}

/// A subject or a role: no wildcard, no list, no space.
fn is_name(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._@+:/-".contains(&b);
    !text.is_empty() && text.len() <= WORD_MAX && text.bytes().all(plain)
}

/// The first field of a line and the rest; white space between quotes does not end a field.
fn field(line: &str) -> (&str, &str) {
    let line = line.trim_ascii_start();
    let mut quoted = false;
    let end = line.bytes().position(|b| {
        quoted ^= b == b'"';
        !quoted && b.is_ascii_whitespace()
    });
    line.split_at_checked(end.unwrap_or(line.len())).unwrap_or((line, ""))
}

#[derive(Default)]
struct KeyOptions {
    namespaces: BTreeSet<String>,
    after: Option<Timestamp>,
    before: Option<Timestamp>,
}

impl KeyOptions {
    fn parse(purpose: Purpose, text: &str) -> Result<Self, LineError> {
        let (mut options, mut seen) = (Self::default(), BTreeSet::new());
        let (mut rest, namespace) = (text, purpose.namespace());
        while !rest.is_empty() {
            let (name, value, left) = option(rest).ok_or(LineError::Options(namespace))?;
            rest = left;
            if !seen.insert(name) {
                return Err(LineError::Twice(name.to_owned()));
            }
            match name {
                "namespaces" => options.namespaces = value.split(',').map(str::to_owned).collect(),
                "valid-after" => options.after = Some(time(value)?),
                "valid-before" => options.before = Some(time(value)?),
                _ => return Err(LineError::Option(name.to_owned())),
            }
        }
        let ours = purpose.namespaces();
        if ours.iter().any(|one| options.namespaces.contains(*one)) {
            return Ok(options);
        }
        Err(LineError::Namespace(Namespaces(ours)))
    }
}

/// `name="value"`, and the text after its comma.
fn option(text: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = text.split_once("=\"")?;
    let (value, rest) = rest.split_once('"')?;
    let rest =
        if rest.is_empty() { rest } else { rest.strip_prefix(',').filter(|r| !r.is_empty())? };
    let plain = |b: u8| b.is_ascii_lowercase() || b == b'-';
    (name.bytes().all(plain) && !value.contains('\\')).then_some((name, value, rest))
}

/// `YYYYMMDDZ`, `YYYYMMDDHHMMZ` or `YYYYMMDDHHMMSSZ`.
fn time(text: &str) -> Result<Timestamp, LineError> {
    let malformed = || LineError::Time(text.to_owned());
    let digits = text.strip_suffix('Z').ok_or_else(malformed)?;
    if !digits.bytes().all(|b| b.is_ascii_digit()) || !matches!(digits.len(), 8 | 12 | 14) {
        return Err(malformed());
    }
    let whole = format!("{digits:0<14}");
    let part = |range: std::ops::Range<usize>| whole.get(range).unwrap_or_default();
    let text = format!(
        "{}-{}-{}T{}:{}:{}.000Z",
        part(0..4),
        part(4..6),
        part(6..8),
        part(8..10),
        part(10..12),
        part(12..14)
    );
    Timestamp::parse(&text).ok_or_else(malformed)
}
