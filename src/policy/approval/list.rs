//! Why a text is not a valid list of approvers.

use super::approvers::{BYTES_MAX, KEYS_MAX, ROLES_MAX, VERSION_MAX, WORD_MAX};
use crate::crypto::{dsse, ssh};

/// Why a list does not count.
#[derive(PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// A line of it.
    #[error("approvers line {line}: {why}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        why: LineError,
    },
    /// The whole of it.
    #[error("approvers: {0}")]
    Whole(ListError),
    /// The list lacks signatures.
    #[error("approvers: {0}")]
    Unsigned(#[from] dsse::Error),
}

/// What is wrong with a list as a whole.
#[derive(PartialEq, Eq, Debug, thiserror::Error)]
pub enum ListError {
    /// More bytes than [`BYTES_MAX`].
    #[error("too large: more than {BYTES_MAX} bytes")]
    Size,
    /// The bytes are not text.
    #[error("not UTF-8")]
    Utf8,
    /// A character that readers take in different ways.
    #[error("a character that is neither printable ASCII nor a line feed")]
    Character,
    /// More keys than [`KEYS_MAX`].
    #[error("too many keys: more than {KEYS_MAX}")]
    Keys,
    /// Two spellings of one subject.
    #[error("`{0}` and `{1}` differ in case only")]
    Case(String, String),
    /// The envelope beside it.
    #[error("the envelope signs another list")]
    Envelope,
}

/// What is wrong with a line of a list.
#[derive(PartialEq, Eq, Debug, thiserror::Error)]
pub enum LineError {
    /// A second edition, or one after a key.
    #[error("give `# wicketgate: version=…` once, before the first key")]
    Edition,
    /// A part of the edition, as it is written.
    #[error("`{0}`: a version is a number up to {VERSION_MAX}")]
    Version(String),
    /// A part of the edition that is not known.
    #[error("`{0}` is neither `version=…` nor `expires=…`")]
    Part(String),
    /// An edition that does not count.
    #[error("no `version=…` after `# wicketgate:`")]
    NoVersion,
    /// A part of the edition, or an option, that is there twice.
    #[error("`{0}` is there twice")]
    Twice(String),
    /// A time in another form.
    #[error("`{0}` is no time in UTC, such as `20270131Z` or `202701311200Z`")]
    Time(String),
    /// A key that an earlier line has.
    #[error("the key is in the list before")]
    Again,
    /// A subject with wildcards, with more than one name, or too long.
    #[error("the subject is not one name of at most {WORD_MAX} letters, digits and `._@+:/-`")]
    Subject,
    /// Options in another form; one that would do.
    #[error("expected options such as `namespaces=\"{0}\"`")]
    Options(&'static str),
    /// An option that OpenSSH may know and that is refused here.
    #[error("option `{0}` is not used here")]
    Option(String),
    /// A key with other namespaces than these.
    #[error("the key is not for {0}")]
    Namespace(Namespaces),
    /// The key itself.
    #[error(transparent)]
    Key(#[from] ssh::Error),
    /// No roles where OpenSSH has its comment.
    #[error("no `roles=…` after the key")]
    NoRoles,
    /// The roles are not valid names, or one is there twice.
    #[error("`roles` is not a list of different names")]
    Roles,
    /// More roles than [`ROLES_MAX`].
    #[error("more than {ROLES_MAX} roles")]
    ManyRoles,
    /// The two times leave no valid period.
    #[error("`valid-before` is not after `valid-after`")]
    Validity,
}

/// The namespaces of one purpose: a key needs one of them.
#[derive(PartialEq, Eq, Debug)]
pub struct Namespaces(pub(super) &'static [&'static str]);

impl std::fmt::Display for Namespaces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown: Vec<String> = self.0.iter().map(|one| format!("`{one}`")).collect();
        f.write_str(&shown.join(" or "))
    }
}
