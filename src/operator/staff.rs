//! Who the operators are: subjects and roles out of this process's own configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

use crate::domain::digest::Digest;
use crate::domain::time::Timestamp;
use crate::identity::callers::read_token;

/// Characters a token of an operator has at least: 256 bits in base64url.
const TOKEN_CHARS_MIN: usize = 43;

/// What an operator is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Sees runs, gates, orders and which calls are held, but no arguments.
    Viewer,
    /// Stops and reinstates.
    Operator,
    /// Sees held calls with their arguments, and gives a word about them.
    Approver,
    /// Proposes policy bundles.
    PolicyAuthor,
    /// Approves bundles that others proposed, and has them put in force.
    PolicyPublisher,
    /// Sees everything, changes nothing; records what it looked at.
    Auditor,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 6] = [
        Self::Viewer,
        Self::Operator,
        Self::Approver,
        Self::PolicyAuthor,
        Self::PolicyPublisher,
        Self::Auditor,
    ];

    /// The word in the configuration and in entries.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Approver => "approver",
            Self::PolicyAuthor => "policy_author",
            Self::PolicyPublisher => "policy_publisher",
            Self::Auditor => "auditor",
        }
    }
}

/// What may be asked of the office.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Right {
    /// To see runs, gates, orders and which calls are held.
    Look,
    /// To see the arguments of a held call.
    Read,
    /// To give a word about a held call.
    Word,
    /// To stop and to reinstate, and to bring what break-glass signers have signed.
    Switch,
    /// To record that somebody looked at what was done under break-glass.
    Review,
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
            Self::Word => &[Role::Approver],
            Self::Switch => &[Role::Operator],
            Self::Review => &[Role::Operator, Role::Auditor],
            Self::Study => &Role::ALL,
            Self::Propose => &[Role::PolicyAuthor],
            Self::Publish => &[Role::PolicyPublisher],
        }
    }

    /// The roles that have it, for a message.
    #[must_use]
    pub fn roles(self) -> String {
        let names = self.held_by().iter().map(|role| format!("`{}`", role.as_str()));
        names.collect::<Vec<_>>().join(", ")
    }
}

/// `operators[]` of the configuration.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Who: the name in entries.
    pub subject: String,
    /// What that person may do.
    pub roles: BTreeSet<Role>,
    /// A file of mode 0600 with the token, at least 43 printable characters (256 bits).
    pub token_file: PathBuf,
}

/// An operator who has proved who it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Who {
    /// The name in entries.
    pub subject: String,
    /// What that person may do.
    pub roles: BTreeSet<Role>,
    /// How: `token`.
    pub auth: &'static str,
}

impl Who {
    /// Whether one of the roles has this right.
    #[must_use]
    pub fn may(&self, right: Right) -> bool {
        right.held_by().iter().any(|role| self.roles.contains(role))
    }

    /// The roles as entries show them.
    #[must_use]
    pub fn role_names(&self) -> Vec<String> {
        self.roles.iter().map(|role| role.as_str().to_owned()).collect()
    }
}

#[derive(Clone, Debug)]
struct Badge {
    sha256: Digest,
    who: Who,
}

/// Everybody who is known. Of tokens only hashes are kept.
#[derive(Clone, Debug, Default)]
pub struct Staff {
    badges: Vec<Badge>,
}

impl Staff {
    /// Reads every token.
    ///
    /// # Errors
    /// Everything that is wrong: a file others may read, a token that is too short or somebody else's, a
    /// subject that is there twice or has no role.
    pub fn load(members: &[Member]) -> Result<Self, Vec<String>> {
        let (mut staff, mut wrong) = (Self::default(), Vec::new());
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for (i, member) in members.iter().enumerate() {
            if let Some(first) = seen.insert(&member.subject, i) {
                let name = &member.subject;
                wrong.push(format!(
                    "operators[{i}]: subject `{name}` is operators[{first}] already"
                ));
                continue;
            }
            if let Err(why) = staff.add(member) {
                wrong.push(format!("operators[{i}]: {why}"));
            }
        }
        if wrong.is_empty() { Ok(staff) } else { Err(wrong) }
    }

    fn add(&mut self, member: &Member) -> Result<(), String> {
        if member.roles.is_empty() {
            return Err("a subject without a role may do nothing: leave it out".into());
        }
        let token = read_token(&member.token_file)?;
        let shown = member.token_file.display();
        if token.len() < TOKEN_CHARS_MIN {
            let message = format!(
                "token file `{shown}` needs at least {TOKEN_CHARS_MIN} characters: 256 bits in \
                 base64url, as `head -c 32 /dev/urandom | basenc --base64url` prints them"
            );
            return Err(message);
        }
        let sha256 = Digest::of(&[token.as_bytes()]);
        if self.badges.iter().any(|badge| badge.sha256 == sha256) {
            return Err(format!("the token in `{shown}` is another operator's"));
        }
        let (subject, roles) = (member.subject.clone(), member.roles.clone());
        self.badges.push(Badge { sha256, who: Who { subject, roles, auth: "token" } });
        Ok(())
    }

    /// Whether nobody is known, so that nothing may be asked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.badges.is_empty()
    }

    /// Who shows this. Looks at every token, so that time tells nothing about where a match stands.
    #[must_use]
    pub fn identify(&self, shown: &str, _now: Timestamp) -> Option<Who> {
        let hash = Digest::of(&[shown.as_bytes()]);
        let found = self.badges.iter().fold(None, |found, badge| {
            let same = bool::from(badge.sha256.as_bytes().ct_eq(hash.as_bytes()));
            if same { Some(badge) } else { found }
        });
        found.map(|badge| badge.who.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn member(dir: &std::path::Path, subject: &str, token: &str, roles: &[Role]) -> Member {
        let token_file = dir.join(format!("{subject}-{}.token", token.len()));
        std::fs::write(&token_file, token).unwrap();
        std::fs::set_permissions(&token_file, std::fs::Permissions::from_mode(0o600)).unwrap();
        Member { subject: subject.into(), roles: roles.iter().copied().collect(), token_file }
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
        let staff = Staff::load(&members).unwrap();
        let rights = |c: char| {
            let who = staff.identify(&token(c), Timestamp::from_millis(0)).unwrap();
            [Right::Look, Right::Read, Right::Word, Right::Switch].map(|right| who.may(right))
        };
        let amends = |c: char| {
            let who = staff.identify(&token(c), Timestamp::from_millis(0)).unwrap();
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
        assert_eq!(staff.identify(&token('x'), Timestamp::from_millis(0)), None);
        assert_eq!(staff.identify("", Timestamp::from_millis(0)), None);
        assert!(!format!("{staff:?}").contains(&token('v')));
    }

    #[test]
    fn a_short_shared_or_readable_token_and_a_subject_that_is_there_twice_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let good = member(dir.path(), "anna", &"a".repeat(43), &[Role::Viewer]);
        let wrong =
            |member: &Member| Staff::load(&[good.clone(), member.clone()]).unwrap_err().join("\n");
        let short = member(dir.path(), "bert", &"b".repeat(42), &[Role::Viewer]);
        assert!(wrong(&short).contains("256 bits"), "{}", wrong(&short));
        let shared = member(dir.path(), "bert", &"a".repeat(43), &[Role::Viewer]);
        assert!(wrong(&shared).contains("another operator's"));
        let idle = member(dir.path(), "bert", &"b".repeat(44), &[]);
        assert!(wrong(&idle).contains("without a role"));
        let twice = member(dir.path(), "anna", &"c".repeat(45), &[Role::Approver]);
        assert!(wrong(&twice).contains("operators[0] already"));
        let open = member(dir.path(), "bert", &"d".repeat(46), &[Role::Viewer]);
        let mode = std::fs::Permissions::from_mode(0o640);
        std::fs::set_permissions(&open.token_file, mode).unwrap();
        assert!(wrong(&open).contains("mode 640"));
    }
}
