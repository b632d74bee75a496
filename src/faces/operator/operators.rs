//! Who the operators are: subjects and roles out of this process's own configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

use super::credential::ShownCredential;
use crate::catalog::form::FilePath;
use crate::domain::digest::Digest;
use crate::domain::time::Timestamp;
use crate::domain::token::Family;
use crate::identity::callers::{TokenError, read_token_of};
use crate::identity::certificate::{NoThumbprint, thumbprint};
use crate::session::{CredentialKind, SessionCredential};

/// Characters a token of an operator has at least: 256 bits in base64url.
const TOKEN_CHARS_MIN: usize = 43;

crate::domain::closed::texts! {
    /// What an operator is.
    #[derive(JsonSchema)]
    #[schemars(rename_all = "snake_case")]
    pub enum Role {
        /// Sees runs, gates, orders and which calls are held, but no arguments.
        Viewer = "viewer",
        /// Stops and reinstates; erases payloads that are not under legal hold.
        Operator = "operator",
        /// Sees held calls with their arguments, and approves or refuses them.
        Approver = "approver",
        /// Proposes policy bundles.
        PolicyAuthor = "policy_author",
        /// Approves bundles that others proposed, and puts them in force.
        PolicyPublisher = "policy_publisher",
        /// Sees everything and changes nothing; records its reviews, exports evidence, and places payloads on legal hold.
        Auditor = "auditor",
    }
}

/// A right that the operator API checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Right {
    /// To see runs, gates, orders and which calls are held.
    Look,
    /// To see the arguments of a held call.
    Read,
    /// To approve or refuse a held call.
    Decide,
    /// To stop and to reinstate, and to submit signed break-glass statements.
    Switch,
    /// To record the review of what was done under break-glass.
    Review,
    /// To take evidence away, as a bundle.
    Export,
    /// To erase payloads. An operator who may hold payloads may not erase them.
    Erase,
    /// To hold payloads against erasing, and to lift that. An operator who may erase payloads may
    /// not hold them.
    Hold,
    /// To see which payloads are erased or under a legal hold.
    Custody,
    /// To see which bundles are proposed, with their files.
    Study,
    /// To propose a bundle.
    Propose,
    /// To approve a bundle and have it put in force.
    Publish,
}

impl Right {
    const fn held_by(self) -> &'static [Role] {
        match self {
            Self::Look => &[Role::Viewer, Role::Operator, Role::Approver, Role::Auditor],
            Self::Read => &[Role::Approver, Role::Auditor],
            Self::Decide => &[Role::Approver],
            Self::Switch => &[Role::Operator],
            Self::Review | Self::Custody => &[Role::Operator, Role::Auditor],
            Self::Export | Self::Hold => &[Role::Auditor],
            Self::Erase => &[Role::Operator],
            Self::Study => Role::ALL,
            Self::Propose => &[Role::PolicyAuthor],
            Self::Publish => &[Role::PolicyPublisher],
        }
    }

    /// The roles that have it, for a message.
    pub fn roles(self) -> String {
        let names = self.held_by().iter().map(|role| format!("`{}`", role.as_str()));
        names.collect::<Vec<_>>().join(", ")
    }
}

/// `operators[]` of the configuration.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Name of the operator in entries.
    #[schemars(
        regex(pattern = r"^[A-Za-z0-9_.@+-]{1,128}$"),
        extend("x-error" = "expected a subject: [A-Za-z0-9_.@+-]{1,128}")
    )]
    pub subject: String,
    /// What the operator may do.
    #[schemars(length(min = 1, max = 6))]
    pub roles: BTreeSet<Role>,
    /// A file of mode 0600 that holds the token: at least 43 printable characters (256 bits). An operator has a token, a
    /// certificate or a subject of an issuer: one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FilePath>")]
    pub token_file: Option<PathBuf>,
    /// Thumbprint of the operator's client certificate under `operator.tls.client_ca`: `sha256:` and the SHA-256 of its
    /// DER bytes.
    // WHY: not a name in it. Names are what an authority may give to another person tomorrow; these bytes it can give
    // only once, and the configuration shows exactly who gets in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        regex(pattern = r"^sha256:[0-9a-f]{64}$"),
        extend("x-error" = "expected `sha256:` and 64 hex digits: `openssl x509 -in FILE -outform DER | sha256sum`")
    )]
    pub certificate: Option<String>,
    /// The person at the issuer of `console.oidc`, who logs in to the console with a browser. The roles are those of this
    /// entry, whatever the issuer says about the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oidc: Option<OidcSubject>,
}

/// `operators[].oidc`: a person, as the issuer of `console.oidc` names them.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OidcSubject {
    /// The issuer that names the person. Default: that of `console.oidc`, which is the only one that is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub issuer: Option<String>,
    /// The claim `sub` of the person's ID tokens, exactly. It is no mail address: an issuer may give that to another
    /// person.
    #[schemars(
        regex(pattern = r"^[!-~]{1,255}$"),
        extend("x-error" = "expected the claim `sub` of an ID token: 1 to 255 printable ASCII characters")
    )]
    pub subject: String,
}

impl OidcSubject {
    /// The person in one text, `issuer#subject`; without an issuer there is no person.
    fn name(&self) -> Option<String> {
        let issuer = self.issuer.as_deref().filter(|issuer| !issuer.contains('#'))?;
        Some(format!("{issuer}#{}", self.subject))
    }
}

/// Why an operator cannot be known.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The subject is another operator's already: of this number.
    #[error("subject `{subject}` is operators[{first}] already")]
    Subject {
        /// The subject.
        subject: String,
        /// The operator that has it.
        first: usize,
    },
    /// No role says what the operator may do.
    #[error("a subject without a role may do nothing: leave it out")]
    NoRole,
    /// There are two ways to log in, or none.
    #[error("expected exactly one of `token_file`, `certificate` and `oidc`")]
    Ways,
    /// The subject is of no issuer.
    #[error("`oidc` needs the issuer of `console.oidc`")]
    Issuer,
    /// The token file cannot be used.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The token has less than 256 bits.
    #[error(
        "token file `{}` needs at least {TOKEN_CHARS_MIN} characters: 256 bits, as \
         `wicketgate config keygen --token operator --out FILE` writes them",
        .0.display()
    )]
    Short(PathBuf),
    /// The certificate is named in another form.
    #[error(transparent)]
    Thumbprint(#[from] NoThumbprint),
    /// The token is another operator's.
    #[error("another operator has the same token as `{}`", .0.display())]
    SharedToken(PathBuf),
    /// The certificate is another operator's.
    #[error("another operator has the same certificate")]
    SharedCertificate,
    /// The subject of the issuer is another operator's.
    #[error("another operator has the same subject of the issuer")]
    SharedSubject,
}

/// What is wrong with one operator of the configuration.
#[derive(Debug, thiserror::Error)]
#[error("operators[{index}]: {error}")]
pub struct MemberError {
    /// Its place in the list.
    pub index: usize,
    /// What is wrong.
    pub error: Error,
}

/// How one operator logs in. No login can be made of its digest, so that it can be kept.
#[derive(Clone, Debug)]
pub enum Login {
    /// SHA-256 of the token.
    Token(Digest),
    /// Thumbprint of the certificate.
    Certificate(Digest),
    /// SHA-256 of `issuer#subject`. Only a session of the console has it.
    Oidc(Digest),
}

impl Member {
    /// The one way this member logs in.
    fn login(&self) -> Result<Login, Error> {
        match (&self.token_file, &self.certificate, &self.oidc) {
            (Some(file), None, None) => {
                let token = read_token_of(Family::Operator, file)?;
                if token.len() < TOKEN_CHARS_MIN {
                    return Err(Error::Short(file.clone()));
                }
                Ok(Login::Token(Digest::of(&[token.as_bytes()])))
            }
            (None, Some(text), None) => Ok(Login::Certificate(thumbprint(text)?)),
            (None, None, Some(person)) => {
                person.name().map(|name| Login::oidc(&name)).ok_or(Error::Issuer)
            }
            _ => Err(Error::Ways),
        }
    }
}

/// An operator whose credential was verified.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operator {
    /// The name in entries.
    pub subject: String,
    /// What that person may do.
    pub roles: BTreeSet<Role>,
    /// How, as entries show it: `token`, `certificate sha256:…` with the thumbprint, or `oidc issuer#subject`.
    pub auth: String,
}

impl Operator {
    /// Whether one of the roles has this right.
    #[must_use]
    pub fn may(&self, right: Right) -> bool {
        right.held_by().iter().any(|role| self.roles.contains(role))
    }

    /// The roles as entries show them.
    pub fn role_names(&self) -> Vec<String> {
        self.roles.iter().map(|role| role.as_str().to_owned()).collect()
    }
}

#[derive(Clone, Debug)]
struct Badge {
    login: Login,
    who: Operator,
}

/// All operators. It keeps only the hashes of their tokens.
#[derive(Clone, Debug, Default)]
pub struct Operators {
    badges: Vec<Badge>,
}

impl Operators {
    /// Reads every token.
    ///
    /// # Errors
    /// Everything that is wrong: a file that other users may read, a token that is too short or
    /// that two operators share, a subject that is there twice or has no role.
    pub fn load(members: &[Member]) -> Result<Self, Vec<MemberError>> {
        let (mut operators, mut problems) = (Self::default(), Vec::new());
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, member) in members.iter().enumerate() {
            let added = match seen.insert(&member.subject, index) {
                Some(first) => Err(Error::Subject { subject: member.subject.clone(), first }),
                None => operators.add(member),
            };
            problems.extend(added.err().map(|error| MemberError { index, error }));
        }
        if problems.is_empty() { Ok(operators) } else { Err(problems) }
    }

    fn add(&mut self, member: &Member) -> Result<(), Error> {
        if member.roles.is_empty() {
            return Err(Error::NoRole);
        }
        let login = member.login()?;
        if self.badges.iter().any(|badge| badge.login.is(&login)) {
            return Err(match (&member.token_file, &member.oidc) {
                (Some(file), _) => Error::SharedToken(file.clone()),
                (None, Some(_)) => Error::SharedSubject,
                (None, None) => Error::SharedCertificate,
            });
        }
        let auth = match &login {
            Login::Token(_) => "token".to_owned(),
            Login::Certificate(thumbprint) => format!("certificate {}", thumbprint.prefixed()),
            Login::Oidc(_) => {
                let name = member.oidc.as_ref().and_then(OidcSubject::name);
                format!("oidc {}", name.unwrap_or_default())
            }
        };
        let (subject, roles) = (member.subject.clone(), member.roles.clone());
        self.badges.push(Badge { login, who: Operator { subject, roles, auth } });
        Ok(())
    }

    /// Whether no operator is configured, so that every request is refused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.badges.is_empty()
    }

    /// The operator with this credential, now. It compares with every operator, so that the time
    /// taken does not depend on the match.
    #[must_use]
    pub fn identify(&self, shown: &ShownCredential, now: Timestamp) -> Option<Operator> {
        let login = shown.login(now)?;
        let found = self
            .badges
            .iter()
            .fold(None, |found, badge| if badge.login.is(&login) { Some(badge) } else { found });
        found.map(|badge| badge.who.clone())
    }
}

impl Login {
    /// The login of a person whom an issuer names, as `issuer#subject`. An issuer has no `#`, so that no two persons
    /// have one text.
    pub(crate) fn oidc(name: &str) -> Self {
        Self::Oidc(Digest::of(&[name.as_bytes()]))
    }

    /// The login as a session keeps it.
    pub(crate) const fn credential(&self) -> SessionCredential {
        let (kind, digest) = match self {
            Self::Token(digest) => (CredentialKind::Token, *digest),
            Self::Certificate(digest) => (CredentialKind::Certificate, *digest),
            Self::Oidc(digest) => (CredentialKind::Oidc, *digest),
        };
        SessionCredential { kind, digest }
    }

    /// The login that opened a session.
    pub const fn of_session(credential: SessionCredential) -> Self {
        match credential.kind {
            CredentialKind::Token => Self::Token(credential.digest),
            CredentialKind::Certificate => Self::Certificate(credential.digest),
            CredentialKind::Oidc => Self::Oidc(credential.digest),
        }
    }

    /// Whether this is the same login, in constant time.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let (one, two) = (self.credential(), other.credential());
        one.kind == two.kind && bool::from(one.digest.as_bytes().ct_eq(two.digest.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Arc;

    use super::*;
    use crate::identity::certificate::ClientCertificate;

    fn member(dir: &std::path::Path, subject: &str, token: &str, roles: &[Role]) -> Member {
        let token_file = dir.join(format!("{subject}-{}.token", token.len()));
        std::fs::write(&token_file, token).unwrap();
        std::fs::set_permissions(&token_file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let (subject, roles) = (subject.into(), roles.iter().copied().collect());
        Member { subject, roles, token_file: Some(token_file), certificate: None, oidc: None }
    }

    fn problems_of(members: &[Member]) -> String {
        let problems = Operators::load(members).unwrap_err();
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    fn shows(token: &str) -> ShownCredential {
        ShownCredential::Token(zeroize::Zeroizing::new(token.to_owned()))
    }

    #[test]
    fn roles_come_from_the_configuration_and_rights_from_the_roles() {
        let dir = tempfile::tempdir().unwrap();
        let token = |c: char| c.to_string().repeat(43);
        let members = [
            member(dir.path(), "vera", &token('v'), &[Role::Viewer]),
            member(dir.path(), "otto", &token('o'), &[Role::Operator]),
            member(dir.path(), "anna", &token('a'), &[Role::Approver]),
            member(dir.path(), "paul", &token('p'), &[Role::PolicyAuthor, Role::PolicyPublisher]),
            member(dir.path(), "aude", &token('u'), &[Role::Auditor]),
        ];
        let operators = Operators::load(&members).unwrap();
        let rights = |c: char| {
            let who = operators.identify(&shows(&token(c)), Timestamp::from_millis(0)).unwrap();
            [Right::Look, Right::Read, Right::Decide, Right::Switch].map(|right| who.may(right))
        };
        let amends = |c: char| {
            let who = operators.identify(&shows(&token(c)), Timestamp::from_millis(0)).unwrap();
            [Right::Study, Right::Propose, Right::Publish].map(|right| who.may(right))
        };
        for c in ['v', 'o', 'a', 'u'] {
            assert_eq!(amends(c), [true, false, false], "{c}");
        }
        assert_eq!(amends('p'), [true, true, true]);
        assert_eq!(rights('v'), [true, false, false, false]);
        assert_eq!(rights('o'), [true, false, false, true]);
        assert_eq!(rights('a'), [true, true, true, false]);
        assert_eq!(rights('p'), [false, false, false, false]);
        assert_eq!(rights('u'), [true, true, false, false]);
        assert_eq!(operators.identify(&shows(&token('x')), Timestamp::from_millis(0)), None);
        assert_eq!(operators.identify(&shows(""), Timestamp::from_millis(0)), None);
        assert!(!format!("{operators:?}").contains(&token('v')));
    }

    #[test]
    fn a_short_shared_or_readable_token_and_a_subject_that_is_there_twice_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let valid = member(dir.path(), "anna", &"a".repeat(43), &[Role::Viewer]);
        let problems_with = |member: &Member| problems_of(&[valid.clone(), member.clone()]);
        let short = member(dir.path(), "bert", &"b".repeat(42), &[Role::Viewer]);
        assert!(problems_with(&short).contains("256 bits"), "{}", problems_with(&short));
        let shared = member(dir.path(), "bert", &"a".repeat(43), &[Role::Viewer]);
        assert!(problems_with(&shared).contains("another operator has"));
        let idle = member(dir.path(), "bert", &"b".repeat(44), &[]);
        assert!(problems_with(&idle).contains("without a role"));
        let twice = member(dir.path(), "anna", &"c".repeat(45), &[Role::Approver]);
        assert!(problems_with(&twice).contains("operators[0] already"));
        let open = member(dir.path(), "bert", &"d".repeat(46), &[Role::Viewer]);
        let mode = std::fs::Permissions::from_mode(0o640);
        std::fs::set_permissions(open.token_file.as_ref().unwrap(), mode).unwrap();
        assert!(problems_with(&open).contains("mode 640"));
    }

    #[test]
    fn a_person_of_an_issuer_has_the_roles_of_the_configuration_and_no_other_login() {
        let dir = tempfile::tempdir().unwrap();
        let base = member(dir.path(), "anna", &"a".repeat(43), &[Role::Approver]);
        let person = |subject: &str, issuer: Option<&str>| Member {
            token_file: None,
            oidc: Some(OidcSubject {
                issuer: issuer.map(str::to_owned),
                subject: subject.to_owned(),
            }),
            ..base.clone()
        };
        let issuer = Some("https://id.example.com");
        let operators = Operators::load(&[person("00u1", issuer)]).unwrap();
        let at = Timestamp::from_millis(0);
        let login = |name: &str| ShownCredential::Session(Login::oidc(name));
        let who = operators.identify(&login("https://id.example.com#00u1"), at).unwrap();
        assert_eq!(who.auth, "oidc https://id.example.com#00u1");
        assert_eq!(who.roles, BTreeSet::from([Role::Approver]));
        for other in ["https://id.example.com#00U1", "https://id.example.com/#00u1", "#00u1"] {
            assert_eq!(operators.identify(&login(other), at), None, "{other}");
        }
        assert_eq!(operators.identify(&shows("https://id.example.com#00u1"), at), None);
        let (of, digest) = (Digest::of(&[b"https://id.example.com#00u1"]), Login::Token);
        assert_eq!(operators.identify(&ShownCredential::Session(digest(of)), at), None);
        assert!(problems_of(&[person("00u1", None)]).contains("needs the issuer"));
        assert!(problems_of(&[person("b#c", Some("a#"))]).contains("needs the issuer"));
        let twice = Member { subject: "bert".to_owned(), ..person("00u1", issuer) };
        assert!(problems_of(&[person("00u1", issuer), twice]).contains("same subject"));
        let both = Member { token_file: base.token_file.clone(), ..person("00u1", issuer) };
        assert!(problems_of(&[both]).contains("exactly one of"));
    }

    #[test]
    fn a_certificate_identifies_one_operator_by_its_full_digest_until_it_expires() {
        let dir = tempfile::tempdir().unwrap();
        let at = Timestamp::from_millis;
        let (of, other) = (Digest::of(&[b"anna"]), Digest::of(&[b"bert"]));
        let token = member(dir.path(), "otto", &"o".repeat(43), &[Role::Operator]);
        let anna = Member {
            token_file: None,
            certificate: Some(of.prefixed()),
            ..member(dir.path(), "anna", &"a".repeat(43), &[Role::Viewer])
        };
        let operators = Operators::load(&[token.clone(), anna.clone()]).unwrap();
        let shown = |thumbprint| {
            let certificate = ClientCertificate { thumbprint, not_after: at(10), spiffe: None };
            ShownCredential::Certificate(Arc::new(certificate))
        };
        let who = operators.identify(&shown(of), at(10)).unwrap();
        assert_eq!(
            (who.subject.as_str(), who.auth),
            ("anna", format!("certificate sha256:{}", of.hex()))
        );
        assert_eq!(operators.identify(&shown(of), at(11)), None, "it has ended");
        assert_eq!(operators.identify(&shown(other), at(0)), None);
        assert_eq!(
            operators.identify(&shows(&of.prefixed()), at(0)),
            None,
            "a thumbprint is no token"
        );
        let problems_with = |member: Member| problems_of(&[anna.clone(), member]);
        let with = |certificate: &str, token_file: Option<PathBuf>| Member {
            token_file,
            certificate: Some(certificate.to_owned()),
            ..token.clone()
        };
        let both = with(&other.prefixed(), token.token_file.clone());
        assert!(problems_with(both).contains("exactly one of"));
        let none = Member { token_file: None, ..token.clone() };
        assert!(problems_with(none).contains("exactly one of"));
        assert!(problems_with(with(&of.prefixed(), None)).contains("another operator has"));
        for text in
            [other.hex(), other.prefixed().to_uppercase(), "sha256:12".into(), "CN=anna".into()]
        {
            assert!(problems_with(with(&text, None)).contains("64 hex digits"), "{text}");
        }
    }
}
