//! Erasing payloads over the door, with a receipt, and holding them against that.
//!
//! Who erases does not hold, who holds does not erase, and whoever gave a word about a call of a run does not
//! erase the run: roles say the first, the ledger the second.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::evidence::{Evidence, Room, by};
use super::staff::Who;
use super::{Office, unavailable};
use crate::domain::code::Code;
use crate::domain::digest::Digest;
use crate::domain::id::{RunId, Seq};
use crate::domain::json::Json;
use crate::evidence::erasure::{Asked, Error, Found, HoldOn, HoldSet, Recorded, Shelf, set_hold};
use crate::evidence::receipt::{self, Told};
use crate::ledger::entry::{Entry, Kind};
use crate::ledger::fleet::Fleet;
use crate::ledger::retention::{Grounds, Records, fleet_logs};
use crate::ledger::store::{ChainRow, EntryRow, LedgerReader};
use crate::serve::problem::Problem;

/// Members of a request to erase, and of one to hold.
pub(super) const ERASE: [&str; 7] =
    ["run", "role", "commitments", "basis", "request", "dry_run", "vacuum"];
pub(super) const HOLD: [&str; 4] = ["run", "log", "reason", "lift"];
/// Bytes of a basis or a reason, of a request's name, and of a role or a log.
const WORDS_MAX: usize = 1024;
const NAME_MAX: usize = 256;
/// Payloads that one request names.
const NAMED_MAX: usize = 1000;
/// Erasures that are shown at once, the newest first.
const SHOWN_MAX: usize = 200;

/// A request to erase.
#[derive(Clone, Debug)]
pub(super) struct Request {
    asked: Asked,
    basis: String,
    request: Option<String>,
    /// Only to say what would be erased.
    dry_run: bool,
    /// Make the file of a SQLite ledger anew in any case.
    anew: bool,
}

/// A request to hold, or to lift that.
#[derive(Clone, Debug)]
pub(super) struct HoldRequest {
    on: HoldOn,
    reason: String,
    place: bool,
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
        let list = list.as_array().filter(|list| (1..=NAMED_MAX).contains(&list.len()));
        let read = |item: &Json| item.as_str().and_then(Digest::parse);
        let all = list.and_then(|list| list.iter().map(read).collect());
        let why = || format!("`commitments` is a list of 1 to {NAMED_MAX} times 64 hex digits");
        all.ok_or_else(|| self.wrong(why()))
    }
}

impl Office {
    /// Reads a request to erase.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn erasure_asked(&self, body: &Json) -> Result<Request, Problem> {
        let members = Members { office: self, body };
        let (run, role) = (members.run()?, members.text("role", NAME_MAX)?);
        let commitments = members.commitments()?;
        match (&run, commitments.is_empty(), &role) {
            (None, true, _) => Err(members.wrong("name a `run` or `commitments`".to_owned())),
            (Some(_), false, _) => Err(members.wrong("a `run` or `commitments`, not both".into())),
            (None, false, Some(_)) => Err(members.wrong("`role` narrows a `run`".to_owned())),
            (Some(_), true, _) | (None, false, None) => Ok(Request {
                asked: Asked { run, role, commitments },
                basis: members.needed("basis")?,
                request: members.text("request", NAME_MAX)?,
                dry_run: members.flag("dry_run")?,
                anew: members.flag("vacuum")?,
            }),
        }
    }

    /// Reads a request to hold.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn hold_asked(&self, body: &Json) -> Result<HoldRequest, Problem> {
        let members = Members { office: self, body };
        let on = match (members.run()?, members.text("log", WORDS_MAX)?) {
            (Some(run), None) => HoldOn::Run(run),
            (None, Some(log)) => HoldOn::Log(log),
            (None, None) | (Some(_), Some(_)) => {
                return Err(members.wrong("name a `run` or a `log`".to_owned()));
            }
        };
        Ok(HoldRequest { on, reason: members.needed("reason")?, place: !members.flag("lift")? })
    }

    /// Erases payloads: all that are meant or, if one is held or not known, none.
    ///
    /// # Errors
    /// Nothing was erased; or, `erasure.unfinished`, it is on the books and asking again finishes it.
    pub(super) async fn erase(
        self: &Arc<Self>,
        who: &Who,
        request: Request,
    ) -> Result<Value, Problem> {
        let room = self.evidence()?;
        let place = self.erasure_place(&room)?;
        let (office, who) = (Arc::clone(self), who.clone());
        // WHY: what is on the books is to be deleted, whether or not anybody still waits.
        let working = self.tasks.spawn(async move {
            let done = Box::pin(office.erase_now(&room.evidence, &who, &request)).await;
            drop(place);
            done
        });
        working.await.unwrap_or_else(|_panicked| Err(unfinished("the work ended early")))
    }

    async fn erase_now(
        &self,
        evidence: &Evidence,
        who: &Who,
        request: &Request,
    ) -> Result<Value, Problem> {
        let reader = self.ledger(evidence).await?;
        let keeper = evidence.archive.keeper().await.map_err(|e| unavailable(&e))?;
        let keeper = keeper.ok_or_else(|| {
            let message = "no role that erases is configured here (`evidence.eraser_url_file`)";
            self.refuse(Problem::new(Code::RequestMalformed, "erasure.none", message))
        })?;
        let chains = chains(&*reader).await?;
        let (reader, keeper) = (reader.as_ref(), keeper.as_ref());
        let shelf = Shelf { reader, keeper, chains: &chains, tenant: &self.tenant };
        let refused = |error: Error| self.refuse(problem(&error));
        let found = shelf.find(&request.asked).await.map_err(refused)?;
        let records = shelf.records().await.map_err(refused)?;
        let before = self.erased_before(&request.asked, &found, &records)?;
        shelf.refuse_held(&records, &found.wanted).await.map_err(refused)?;
        let wanted = (&found.wanted, request.asked.run.as_ref());
        let part = shelf.part_in(wanted, (&who.subject, &by(who))).await;
        if let Some(why) = part.map_err(refused)? {
            return Err(self.refuse(Problem::new(Code::OperatorForbidden, "erasure.part", why)));
        }
        let mut told = json!({"payloads": found.count(), "before": before,
            "absent": found.absent.len().saturating_sub(before), "store": evidence.store});
        if !request.dry_run {
            let done = self.erase_found(evidence, &shelf, (who, request, &found)).await?;
            if let (Some(told), Value::Object(done)) = (told.as_object_mut(), done) {
                told.extend(done);
            }
        }
        Ok(told)
    }

    /// How many of the absent ones the fleet log calls erased. One that was named, and is neither stored
    /// nor was ever erased, is a mistake.
    fn erased_before(
        &self,
        asked: &Asked,
        found: &Found,
        records: &Records,
    ) -> Result<usize, Problem> {
        let erased: BTreeSet<&Digest> = records.erased.keys().map(|(_, c)| c).collect();
        let mut unknown = found.absent.iter().filter(|c| !erased.contains(c));
        if let Some(unknown) = unknown.next().filter(|_| asked.run.is_none()) {
            let message = format!("no payload {unknown}: nothing was erased");
            return Err(self.refuse(Problem::new(Code::CallNotFound, "erasure.unknown", message)));
        }
        Ok(found.absent.iter().filter(|c| erased.contains(c)).count())
    }

    /// Records, deletes, cleans and signs, in this order.
    async fn erase_found(
        &self,
        evidence: &Evidence,
        shelf: &Shelf<'_>,
        (who, request, found): (&Who, &Request, &Found),
    ) -> Result<Value, Problem> {
        let recorded = match found.count() {
            0 => Recorded::default(),
            _ => {
                let grounds = Grounds {
                    basis: request.basis.clone(),
                    by: by(who),
                    request: request.request.clone(),
                    backups_expire_by: self.clock.now().plus(evidence.backups),
                };
                let fleet = self.open_fleet(evidence).await?;
                let recorded = shelf.record(&fleet, &found.wanted, &grounds).await;
                let closed = fleet.close().await;
                let recorded = recorded.map_err(|error| self.refuse(problem(&error)))?;
                closed.map_err(|error| self.refuse(unfinished(&error.to_string())))?;
                recorded
            }
        };
        // Rows are deleted only now: every one of them stands in the log.
        let late = |why: String| self.refuse(unfinished(&why));
        let deleted = shelf.sweep().await.map_err(|e| late(e.to_string()))?;
        let residue = shelf.keeper.scrub(request.anew).await.map_err(|e| late(e.to_string()))?;
        let Recorded { fleet, seqs } = &recorded;
        let told = Told { deleted, residue: residue.as_str(), store: evidence.store };
        let receipt = match seqs.as_slice() {
            [] => Value::Null,
            seqs => {
                let made = receipt::make(shelf.reader, fleet, seqs, &told, &*evidence.key).await;
                envelope(&made.map_err(|e| late(e.to_string()))?)
            }
        };
        tracing::info!(by = by(who), deleted, ?seqs, "payloads were erased");
        Ok(json!({"deleted": deleted, "residue": told.residue, "log": fleet, "entries": seqs,
            "receipt": receipt}))
    }

    /// Holds payloads of a run or a log, or lifts that.
    ///
    /// # Errors
    /// There is no such run, log or hold, or it cannot be recorded.
    pub(super) async fn hold(
        self: &Arc<Self>,
        who: &Who,
        request: HoldRequest,
    ) -> Result<Value, Problem> {
        let room = self.evidence()?;
        let place = self.erasure_place(&room)?;
        let (office, who) = (Arc::clone(self), who.clone());
        let working = self.tasks.spawn(async move {
            let done = Box::pin(office.hold_now(&room, &who, &request)).await;
            drop(place);
            done
        });
        working.await.unwrap_or_else(|_panicked| Err(unfinished("the work ended early")))
    }

    async fn hold_now(
        &self,
        room: &Room,
        who: &Who,
        request: &HoldRequest,
    ) -> Result<Value, Problem> {
        let reader = self.ledger(&room.evidence).await?;
        let fleet = self.open_fleet(&room.evidence).await?;
        let HoldRequest { on, reason, place } = request;
        let what = (self.tenant.as_str(), on, *place);
        let done = set_hold(reader.as_ref(), &fleet, what, (reason, &by(who))).await;
        let log = fleet.origin().to_owned();
        // What was recorded is durable, however the log is closed.
        drop(fleet.close().await);
        match done.map_err(|error| self.refuse(problem(&error)))? {
            HoldSet::Already(now) => Ok(json!({"held": place, "log": log, "entry": now.seq,
                "already": true})),
            HoldSet::Recorded(receipt) => Ok(json!({"held": place, "log": log,
                "entry": receipt.seq, "already": false})),
        }
    }

    /// Holds in force.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(super) async fn holds(&self) -> Result<Value, Problem> {
        let records = Records::read(&*self.reader, &self.tenant).await;
        let records = records.map_err(|e| unavailable(&e))?;
        let shown = records.holds.iter().map(|hold| {
            json!({"log": hold.log, "run": hold.run.map(|run| run.to_string()),
                "reason": hold.reason, "by": hold.by, "entry": hold.seq})
        });
        Ok(json!({"holds": shown.collect::<Vec<_>>()}))
    }

    /// The last erasures, the newest first.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(super) async fn erasures(&self) -> Result<Value, Problem> {
        let all = self.erasure_rows().await?;
        let shown = all.iter().rev().take(SHOWN_MAX).map(|(chain, row)| shown(chain, row));
        Ok(json!({"erasures": shown.collect::<Vec<_>>(), "more": all.len() > SHOWN_MAX}))
    }

    /// One erasure, with a receipt that is made anew.
    ///
    /// # Errors
    /// The newest fleet log has no erasure there.
    pub(super) async fn erasure(&self, seq: Seq) -> Result<Value, Problem> {
        let room = self.evidence()?;
        let mut all = self.erasure_rows().await?;
        let newest = all.last().map(|(chain, _)| chain.origin.clone());
        all.retain(|(chain, row)| row.seq == seq && Some(&chain.origin) == newest.as_ref());
        let Some((chain, row)) = all.first() else {
            let message = "no such erasure";
            let problem = Problem::new(Code::CallNotFound, "erasure.seq", message);
            return Err(self.refuse(problem));
        };
        let reader = self.ledger(&room.evidence).await?;
        let deleted = gone(&*reader, &self.tenant, row).await?;
        // Whoever asks later cannot search the files for bytes that nobody has any more.
        let told = Told { deleted, residue: "unknown", store: room.evidence.store };
        let key = &*room.evidence.key;
        let made = receipt::make(&*reader, &chain.origin, &[seq], &told, key).await;
        let made = made.map_err(|error| unavailable(&error))?;
        let mut shown = shown(chain, row);
        if let Some(members) = shown.as_object_mut() {
            members.insert("receipt".into(), envelope(&made));
        }
        Ok(shown)
    }

    async fn erasure_rows(&self) -> Result<Vec<(ChainRow, EntryRow)>, Problem> {
        let logs = fleet_logs(&*self.reader, &self.tenant).await.map_err(|e| unavailable(&e))?;
        let mut all = Vec::new();
        for chain in logs {
            let kinds = [Kind::PayloadErased.as_str()];
            let rows = self.reader.entries_of(&chain.chain, &kinds).await;
            let rows = rows.map_err(|e| unavailable(&e))?;
            all.extend(rows.into_iter().map(|row| (chain.clone(), row)));
        }
        Ok(all)
    }

    async fn ledger(&self, evidence: &Evidence) -> Result<Arc<dyn LedgerReader>, Problem> {
        evidence.archive.reader().await.map_err(|error| unavailable(&error))
    }

    async fn open_fleet(&self, evidence: &Evidence) -> Result<Fleet, Problem> {
        let closed = |why: String| {
            self.refuse(Problem::new(Code::LedgerUnavailable, "", format!("the fleet log: {why}")))
        };
        let parts = evidence.archive.fleet().await.map_err(closed)?;
        Fleet::open(parts).await.map_err(|error| closed(error.to_string()))
    }
}

type Chains = BTreeMap<crate::domain::id::ChainId, ChainRow>;

async fn chains(reader: &dyn LedgerReader) -> Result<Chains, Problem> {
    let chains = reader.chains().await.map_err(|error| unavailable(&error))?;
    Ok(chains.into_iter().map(|row| (row.chain, row)).collect())
}

/// How many of the payloads that an entry calls erased are not stored any more.
async fn gone(reader: &dyn LedgerReader, tenant: &str, row: &EntryRow) -> Result<u64, Problem> {
    let chains = reader.chains().await.map_err(|error| unavailable(&error))?;
    let Ok(entry) = Entry::parse(&row.body) else { return Ok(0) };
    let data = &entry.draft.data;
    let log = data.get("log").and_then(Json::as_str);
    let chain = chains.iter().find(|c| c.tenant == tenant && Some(c.origin.as_str()) == log);
    let Some(chain) = chain else { return Ok(0) };
    let named = data.get("c").and_then(Json::as_array).unwrap_or_default();
    let mut gone = 0_u64;
    for c in named.iter().filter_map(|c| c.as_str().and_then(Digest::parse)) {
        let stored = reader.payload(&chain.chain, &c).await.map_err(|e| unavailable(&e))?;
        gone = gone.saturating_add(u64::from(stored.is_none()));
    }
    Ok(gone)
}

/// What an entry says of an erasure; no commitments.
fn shown(chain: &ChainRow, row: &EntryRow) -> Value {
    let Ok(entry) = Entry::parse(&row.body) else {
        return json!({"fleet": chain.origin, "entry": row.seq});
    };
    let data = &entry.draft.data;
    let text = |name: &str| data.get(name).and_then(Json::as_str);
    json!({
        "fleet": chain.origin, "entry": row.seq, "at": entry.ts.to_string(), "log": text("log"),
        "payloads": data.get("c").and_then(Json::as_array).map_or(0, <[Json]>::len),
        "basis": text("basis"), "by": text("by"), "request": text("request"),
        "backups_expire_by": text("backups_expire_by"),
    })
}

/// A signed envelope as JSON within JSON.
fn envelope(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or(Value::Null)
}

fn unfinished(why: &str) -> Problem {
    tracing::error!(why, "an erasure is on the books and not finished");
    let message = "it is on the books and not finished: ask again";
    Problem::new(Code::LedgerUnavailable, "erasure.unfinished", message)
}

fn problem(error: &Error) -> Problem {
    let (code, detail) = match error {
        Error::Store(_) | Error::Unrecorded(_) => (Code::LedgerUnavailable, ""),
        Error::NoRun(_) => (Code::RunUnknown, ""),
        Error::NoLog(_) => (Code::RequestMalformed, "hold.log"),
        Error::Held { .. } => (Code::OperatorForbidden, "erasure.held"),
        Error::NotHeld(_) => (Code::CallNotFound, "hold.none"),
    };
    Problem::new(code, detail, error.to_string())
}
