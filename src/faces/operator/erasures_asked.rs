//! Requests to erase and to hold, as they arrive over the door.

use std::collections::BTreeSet;

use super::Office;
use super::erasures::problem;
use crate::approval::Signed;
use crate::approval::order::{PAYLOADS_MAX, Statement};
use crate::domain::code::Code;
use crate::domain::digest::Digest;
use crate::domain::id::RunId;
use crate::domain::json::Json;
use crate::evidence::erasure::{Asked, HoldOn};
use crate::serve::problem::Problem;

/// Members of a request to erase, and of one to hold.
pub(super) const ERASE: [&str; 7] =
    ["run", "role", "commitments", "dry_run", "vacuum", "statement", "signature"];
pub(super) const HOLD: [&str; 5] = ["run", "log", "reason", "statement", "signature"];
/// Bytes of a reason and a log's name, of a role or a run, and of a statement or a signature.
const WORDS_MAX: usize = 1024;
const NAME_MAX: usize = 256;
const SIGNED_MAX: usize = 20 * 1024;
/// A request to erase.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub asked: Asked,
    /// What lets it be done; without, it is only said what would be erased.
    pub order: Option<Signed>,
    /// Make the file of a SQLite ledger anew in any case.
    pub anew: bool,
}

/// A request to hold, or to lift that.
#[derive(Clone, Debug)]
pub(super) enum HoldRequest {
    /// To place one, and why.
    Place(HoldOn, String),
    /// To end one.
    Lift(HoldOn, Signed),
}

/// Reads the members of a body.
struct Members<'a> {
    office: &'a Office,
    body: &'a Json,
}

impl Members<'_> {
    fn wrong(&self, why: String) -> Problem {
        self.office.refuse(Problem::new(Code::RequestMalformed, "", why))
    }

    /// A text that is not blank.
    fn text(&self, name: &str, most: usize) -> Result<Option<String>, Problem> {
        let Some(value) = self.body.get(name) else { return Ok(None) };
        let text = value.as_str().filter(|text| !text.trim().is_empty() && text.len() <= most);
        let text = text.ok_or_else(|| self.wrong(format!("`{name}` is text of 1 to {most} bytes")));
        text.map(|text| Some(text.to_owned()))
    }

    fn needed(&self, name: &str) -> Result<String, Problem> {
        let text = self.text(name, WORDS_MAX)?;
        text.ok_or_else(|| self.wrong(format!("`{name}` says why, for whoever reads it")))
    }

    fn flag(&self, name: &str) -> Result<bool, Problem> {
        let Some(value) = self.body.get(name) else { return Ok(false) };
        value.as_bool().ok_or_else(|| self.wrong(format!("`{name}` is `true` or `false`")))
    }

    fn run(&self) -> Result<Option<RunId>, Problem> {
        let run = self.text("run", NAME_MAX)?;
        let parsed = |text: String| {
            let why = || self.wrong("`run` is the id of a run".to_owned());
            RunId::parse(&text).ok_or_else(why)
        };
        run.map(parsed).transpose()
    }

    fn commitments(&self) -> Result<BTreeSet<Digest>, Problem> {
        let Some(list) = self.body.get("commitments") else { return Ok(BTreeSet::new()) };
        let list = list.as_array().filter(|list| (1..=PAYLOADS_MAX).contains(&list.len()));
        let read = |item: &Json| item.as_str().and_then(Digest::parse);
        let all = list.and_then(|list| list.iter().map(read).collect());
        let why = || format!("`commitments` is a list of 1 to {PAYLOADS_MAX} times 64 hex digits");
        all.ok_or_else(|| self.wrong(why()))
    }

    /// An order that is signed, and what it says.
    fn order(&self) -> Result<Option<(Statement, Signed)>, Problem> {
        let part = |name| self.text(name, SIGNED_MAX);
        let (statement, signature) = match (part("statement")?, part("signature")?) {
            (None, None) => return Ok(None),
            (Some(statement), Some(signature)) => (statement, signature),
            (Some(_), None) | (None, Some(_)) => {
                return Err(self.wrong("`statement` and `signature` belong together".into()));
            }
        };
        let said = Statement::parse(statement.as_bytes());
        let said = said.map_err(|why| self.wrong(format!("`statement`: {why}")))?;
        Ok(Some((said, Signed { statement, signature })))
    }

    /// Refuses members that say beside a statement what is to be done.
    fn nothing_beside(&self, names: &[&str]) -> Result<(), Problem> {
        match names.iter().find(|name| self.body.get(name).is_some()) {
            Some(name) => Err(self.wrong(format!("the statement says it: leave out `{name}`"))),
            None => Ok(()),
        }
    }
}

impl Office {
    /// Reads a request to erase.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn erasure_asked(&self, body: &Json) -> Result<Request, Problem> {
        let members = Members { office: self, body };
        let anew = members.flag("vacuum")?;
        if let Some((said, order)) = members.order()? {
            members.nothing_beside(&["run", "role", "commitments", "dry_run"])?;
            let asked = Asked::of(&said).map_err(|error| self.refuse(problem(&error)))?;
            return Ok(Request { asked, order: Some(order), anew });
        }
        if !members.flag("dry_run")? {
            let why = "an erasure is signed: send `statement` and `signature`, or `dry_run` to see what would be erased";
            return Err(self.refuse(Problem::new(Code::OperatorForbidden, "order.unsigned", why)));
        }
        let (run, role) = (members.run()?, members.text("role", NAME_MAX)?);
        let commitments = members.commitments()?;
        match (&run, commitments.is_empty(), &role) {
            (None, true, _) => Err(members.wrong("name a `run` or `commitments`".to_owned())),
            (Some(_), false, _) => Err(members.wrong("a `run` or `commitments`, not both".into())),
            (None, false, Some(_)) => Err(members.wrong("`role` narrows a `run`".to_owned())),
            (Some(_), true, _) | (None, false, None) => {
                Ok(Request { asked: Asked { run, role, commitments }, order: None, anew })
            }
        }
    }

    /// Reads a request to hold.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn hold_asked(&self, body: &Json) -> Result<HoldRequest, Problem> {
        let members = Members { office: self, body };
        if let Some((said, order)) = members.order()? {
            members.nothing_beside(&["run", "log", "reason"])?;
            let on = HoldOn::of(&said).map_err(|error| self.refuse(problem(&error)))?;
            return Ok(HoldRequest::Lift(on, order));
        }
        let on = match (members.run()?, members.text("log", WORDS_MAX)?) {
            (Some(run), None) => HoldOn::Run(run),
            (None, Some(log)) => HoldOn::Log(log),
            (None, None) | (Some(_), Some(_)) => {
                return Err(members.wrong("name a `run` or a `log`".to_owned()));
            }
        };
        Ok(HoldRequest::Place(on, members.needed("reason")?))
    }
}
