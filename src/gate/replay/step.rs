//! One recorded call, read from its line and held against what its entries commit to.

use crate::record::Nonce;
use std::collections::{BTreeMap, BTreeSet};

use super::line::Members;
use crate::approval::Approval;
use crate::approval::break_glass::{Open, ROLE, Signed, Statement};
use crate::domain::canonical;
use crate::domain::commitment::opens;
use crate::domain::digest::{Digest, Salt};
use crate::domain::id::RunId;
use crate::domain::json::Json;
use crate::domain::outcome::{FailureClass, Outcome};
use crate::domain::time::Timestamp;
use crate::evidence::payloads::{self, Payload};
use crate::policy::input;

/// One recorded call.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// From 1, in the order of decisions.
    pub number: u64,
    /// The run it is of; none: that of the header.
    pub run: Option<RunId>,
    /// The tool.
    pub tool: String,
    /// Its arguments; nothing if something of them was left out.
    pub args: Json,
    /// The time the policy was told, or that of the entry if none was asked.
    pub at: Timestamp,
    /// The decision: `verdict`, `enforced`, `reasons`, `obligations`, `policy`.
    pub decision: Json,
    /// Roles of payloads of which something was left out.
    pub redacted: Vec<String>,
    /// What the policy was told; none if it was not asked.
    pub input: Option<Json>,
    /// Who approved it, if it was held and then ran.
    pub approved: Option<Approved>,
    /// The break-glass order under which it ran without an approver, if it did.
    pub break_glass: Option<Broken>,
    /// How it ended.
    pub ended: Json,
    /// What the agent was given, if it completed.
    pub result: Option<String>,
}

/// How a held call came to run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Approved {
    /// Who approved it.
    pub by: Vec<Approval>,
    /// The nonce of the hold.
    pub nonce: Nonce,
    /// The salt of its arguments.
    pub salt: Salt,
    /// The keyed digest of its effect.
    pub effect: Option<Digest>,
}

/// The break-glass order of one call, as its entry and its payloads have it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken {
    signed: Signed,
    statement: Statement,
    by: Vec<String>,
    signers: Digest,
}

/// Whether these bytes are what was committed to.
pub(super) fn opened(members: Members<'_>, body: &[u8]) -> Result<(), String> {
    let role = members.maybe("role").unwrap_or("tools");
    let opened = opens(&members.digest("c")?, &members.salt("salt")?, body);
    opened.map(drop).ok_or_else(|| format!("`{role}` is not what was recorded"))
}

/// Whether what is there and what stands for the rest is what was committed to.
fn left_out(members: Members<'_>, role: &str) -> Result<(), String> {
    let wrong = || format!("`{role}` is not what was recorded");
    let read = members.0.get("parts").and_then(payloads::read_redacted);
    let Some(Payload::Redacted { role: of, parts }) = read else { return Err(wrong()) };
    let opened = parts.open(&members.digest("c")?).ok().filter(|_| of == role);
    opened.map(drop).ok_or_else(wrong)
}

impl Step {
    /// Reads the object of one line.
    ///
    /// # Errors
    /// What is missing.
    pub fn read(json: &Json) -> Result<Self, String> {
        let members = Members(json);
        let left_out = json.get("redacted").and_then(Json::as_array).unwrap_or_default();
        let redacted: Vec<String> =
            left_out.iter().filter_map(Json::as_str).map(str::to_owned).collect();
        let args = match redacted.iter().any(|role| role == "args") {
            true => Json::Null,
            false => members.value("args")?.clone(),
        };
        let approved = json.get("approved").map(|approved| Approved::read(Members(approved)));
        let broken = json.get("break_glass").map(|broken| Broken::read(Members(broken)));
        let run = members.maybe("run").map(|run| RunId::parse(run).ok_or("`run` is malformed"));
        Ok(Self {
            number: members.number("n")?,
            run: run.transpose()?,
            tool: members.text("tool")?.to_owned(),
            args,
            at: members.time("at")?,
            decision: members.value("decision")?.clone(),
            redacted,
            input: json.get("input").cloned(),
            approved: approved.transpose()?,
            break_glass: broken.transpose()?,
            ended: members.value("ended")?.clone(),
            result: members.maybe("result").map(str::to_owned),
        })
    }

    /// Whether every payload is the one its entry commits to.
    pub(super) fn is_bound(&self, members: Members<'_>) -> Result<(), String> {
        let mut bodies = BTreeMap::from([("args", canonical::bytes(&self.args))]);
        let mut redacted: BTreeSet<&str> = self.redacted.iter().map(String::as_str).collect();
        if redacted.contains("args") {
            bodies.remove("args");
        }
        bodies.extend(self.input.as_ref().map(|input| ("policy_input", canonical::bytes(input))));
        bodies.extend(self.result.as_ref().map(|result| ("result", result.clone().into_bytes())));
        bodies.extend(self.break_glass.as_ref().map(|broken| ("approval", broken.signed.bytes())));
        self.as_told()?;
        for payload in members.list("payloads")? {
            let payload = Members(payload);
            let role = payload.text("role")?;
            if redacted.remove(role) {
                left_out(payload, role)?;
                continue;
            }
            let body = bodies.remove(role).ok_or_else(|| format!("no `{role}` is there"))?;
            opened(payload, &body)?;
        }
        match bodies.into_keys().chain(redacted).next() {
            Some(role) => Err(format!("`{role}` is bound to no entry")),
            None => Ok(()),
        }
    }

    /// Whether the policy was told of the break-glass order that is there, or of none.
    fn as_told(&self) -> Result<(), String> {
        let Some(told) = self.input.as_ref().and_then(|input| input.get("break_glass")) else {
            return Ok(());
        };
        let said = self.break_glass.as_ref().map(|broken| input::broken(&broken.open()));
        if *told == input::break_glass_json(said.as_ref()) {
            return Ok(());
        }
        Err("the policy was told of another break-glass order than is there".into())
    }

    /// What the decision says under this name.
    #[must_use]
    pub fn decided(&self, name: &str) -> Option<&Json> {
        self.decision.get(name)
    }

    /// How it ended, if it ran: as the agent was told.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        let ended = Members(&self.ended);
        let text = |name: &str| ended.maybe(name).unwrap_or_default().to_owned();
        match ended.maybe("kind")? {
            "call.completed" => Some(Outcome::Completed {
                result: self.result.clone()?.into_bytes(),
                status: text("status"),
            }),
            "call.failed" => Some(Outcome::Failed {
                class: FailureClass::parse(&text("class"))?,
                started: self.ended.get("started").and_then(Json::as_bool).unwrap_or(true),
                message: text("message"),
            }),
            "call.unknown" => Some(Outcome::Unknown { cause: text("cause") }),
            "call.cancelled" => Some(Outcome::Cancelled { reason: text("reason") }),
            _ => None,
        }
    }

    /// Whether it was held and never ran: an approver refused it, or nobody came.
    #[must_use]
    pub fn lapsed(&self) -> bool {
        self.ended.get("lapsed").and_then(Json::as_bool).unwrap_or(false)
    }
}

impl Approved {
    fn read(members: Members<'_>) -> Result<Self, String> {
        let by = members.list("by")?.iter().map(|one| {
            let one = Members(one);
            let roles = one.list("roles")?.iter().filter_map(Json::as_str);
            Ok(Approval {
                subject: one.text("approver")?.to_owned(),
                roles: roles.map(str::to_owned).collect(),
                key: one.text("key")?.to_owned(),
            })
        });
        Ok(Self {
            by: by.collect::<Result<_, String>>()?,
            nonce: Nonce::parse(members.text("nonce")?).ok_or("`nonce` is malformed")?,
            salt: members.salt("salt")?,
            effect: members.maybe("effect").and_then(Digest::parse),
        })
    }
}

impl Broken {
    fn read(members: Members<'_>) -> Result<Self, String> {
        let wrong = || "`break_glass` is malformed".to_owned();
        let signed = Signed::of(members.value("signed")?).ok_or_else(wrong)?;
        let statement = Statement::parse(signed.statement.as_bytes()).map_err(|e| e.to_string())?;
        let by = members.list("by")?.iter().map(|one| one.as_str().map(str::to_owned));
        let by: Option<Vec<String>> = by.collect();
        Ok(Self {
            signed,
            statement,
            by: by.ok_or_else(wrong)?,
            signers: members.digest("signers")?,
        })
    }

    /// The order as it was when the call ran. Nobody checks its signatures again: it stands for this call,
    /// and for nothing else.
    #[must_use]
    pub fn open(&self) -> Open {
        let by = self.by.iter().map(|subject| Approval {
            subject: subject.clone(),
            roles: vec![ROLE.to_owned()],
            key: String::new(),
        });
        Open {
            statement: self.statement.clone(),
            by: by.collect(),
            quorum: self.by.len(),
            signers: self.signers,
            signed: self.signed.clone(),
        }
    }

    /// The nonce of the order.
    #[must_use]
    pub fn nonce(&self) -> &str {
        &self.statement.nonce
    }

    /// Who signed it, sorted.
    #[must_use]
    pub fn by(&self) -> &[String] {
        &self.by
    }
}
