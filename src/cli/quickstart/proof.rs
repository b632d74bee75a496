//! The auditor's part: commands that the user could type in the quickstart's directory.

use std::path::Path;

use serde_json::{Value, json};

use super::directory::DemoDirectory;
use super::error::Error;
use super::own::CommandOutput;
use super::steps::StepPrinter;
use crate::cli::FileError;
use crate::domain::plural::many;
use serde::{Deserialize, Serialize};

const CONFIG: &str = "wicketgate.yaml";
const TRUST: &str = "auditor/trust.txt";

/// Notes the head of the log before the run. Its size.
pub async fn pin(demo: &DemoDirectory, printer: &mut StepPrinter) -> Result<u64, Error> {
    let args = ["ledger", "head", "--config", CONFIG];
    let ran = done(demo, &args).await?;
    let line = ran.out.trim();
    let size: Option<u64> = line.split(' ').nth(2).and_then(|size| size.parse().ok());
    let size = size.filter(|_| line.starts_with("head "));
    let Some(size) = size else { return Err(unexpected(&args, ran)) };
    demo.note(line)?;
    let note = format!("an auditor notes the head of the log ({}) and leaves", many(size, "entry"));
    printer.step("pin", "auditor", &note, &json!({"size": size, "head": line}));
    Ok(size)
}

/// Shows the end of the ledger, which must contain the approval of the held call.
pub async fn tail(demo: &DemoDirectory, printer: &mut StepPrinter) -> Result<(), Error> {
    let args = ["ledger", "tail", "--config", CONFIG, "-n", "8"];
    let ran = done(demo, &args).await?;
    if !ran.out.contains("run.sealed") || !ran.out.contains("approval.granted") {
        return Err(unexpected(&args, ran));
    }
    let lines: Vec<&str> = ran.out.lines().collect();
    printer.step("tail", "ledger", "its newest entries", &json!({"lines": lines}));
    printer.command(&args);
    for line in &lines {
        printer.more(&without_run(line));
    }
    printer.gap();
    Ok(())
}

/// A line of `ledger tail` without the run's long name.
fn without_run(line: &str) -> String {
    match line.split_once(" run ") {
        Some((before, after)) => {
            let (_, after) = after.split_once(' ').unwrap_or((after, ""));
            format!("{before} {after}")
        }
        None => line.to_owned(),
    }
}

/// Has the head of all chains cosigned by the auditor's witness.
pub async fn anchor(demo: &DemoDirectory, printer: &mut StepPrinter) -> Result<(), Error> {
    let args = ["ledger", "anchor", "--config", CONFIG];
    let with_json: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    let ran = done(demo, &with_json).await?;
    let reply: Value = ran.out.parse().unwrap_or_default();
    let cosigned = Anchored::deserialize(&reply).is_ok_and(|done| !done.cosigned.is_empty());
    if !cosigned {
        return Err(unexpected(&with_json, ran));
    }
    let line =
        "the fleet log records the head of the log; the auditor's witness cosigns the fleet log";
    printer.step("anchor", "anchored", line, &reply);
    Ok(())
}

/// Writes the evidence of the run.
pub async fn export(
    demo: &DemoDirectory,
    run: &str,
    since: u64,
    printer: &mut StepPrinter,
) -> Result<(), Error> {
    let since = since.to_string();
    let args = [
        "evidence",
        "export",
        "--config",
        CONFIG,
        "--run",
        run,
        "--out",
        "evidence",
        "--key",
        "keys/evidence.pem",
        "--artifacts",
        "state/artifacts",
        "--since",
        &since,
        "--json",
    ];
    let ran = done(demo, &args).await?;
    let reply: Value = ran.out.parse().unwrap_or_default();
    let exported = Exported::deserialize(&reply).ok().filter(|done| done.sealed);
    let Some(Exported { files, entries, .. }) = exported else {
        return Err(unexpected(&args, ran));
    };
    let line = format!("evidence/: {}, {}", many(files, "file"), many(entries, "entry"));
    printer.step("export", "exported", &line, &reply);
    Ok(())
}

/// Verifies it, offline, with the auditor's own trust.
pub async fn verify(demo: &DemoDirectory, printer: &mut StepPrinter) -> Result<(), Error> {
    let args = ["evidence", "verify", "--trust", TRUST, "evidence"];
    let (ran, report) = verified(demo, &args).await?;
    let (checks, level) = (report.checks.len(), report.level);
    if ran.code != Some(0) || checks == 0 {
        return Err(unexpected(&args, ran));
    }
    let line = format!(
        "{checks} checks passed, level {level}: a witness saw the log, which extends the head that the auditor noted"
    );
    printer.step(
        "verify",
        "verified",
        &line,
        &json!({"exit": 0, "checks": checks, "level": level}),
    );
    printer.command(&args);
    Ok(())
}

/// Changes one byte in a copy, and verifies that.
pub async fn tamper(demo: &DemoDirectory, printer: &mut StepPrinter) -> Result<(), Error> {
    let (file, from, to) = forge(&demo.path("evidence"), &demo.path("evidence-tampered"))?;
    let args = ["evidence", "verify", "--trust", TRUST, "evidence-tampered"];
    let (ran, report) = verified(demo, &args).await?;
    let failed: Vec<ProofCheck> =
        report.checks.into_iter().filter(|check| check.outcome == "INVALID").collect();
    if ran.code != Some(1) || failed.is_empty() {
        return Err(unexpected(&args, ran));
    }
    let line = format!("in a copy, {file} now says `{to}` where it said `{from}`: INVALID, exit 1");
    let facts = json!({"exit": 1, "file": file, "from": from, "to": to, "failed": failed});
    printer.step("tamper", "tampered", &line, &facts);
    printer.command(&args);
    for ProofCheck { id, title, detail, .. } in &failed {
        printer.more(&format!("{id} {title}: {detail}"));
    }
    Ok(())
}

/// Verifies the whole ledger once the gate has ended.
pub async fn ledger(demo: &DemoDirectory, printer: &mut StepPrinter) -> Result<(), Error> {
    let args = ["ledger", "verify", "--config", CONFIG, "--trust", TRUST];
    let ran = done(demo, &args).await?;
    let lines: Vec<&str> = ran.out.lines().collect();
    let first = lines.last().copied().unwrap_or_default();
    printer.step("ledger", "ledger", first, &json!({"exit": 0, "says": ran.out.trim()}));
    printer.command(&args);
    Ok(())
}

async fn verified(demo: &DemoDirectory, args: &[&str]) -> Result<(CommandOutput, Report), Error> {
    let with_json: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    let ran = demo.run(&with_json).await?;
    match serde_json::from_str(&ran.out) {
        Ok(report) => Ok((ran, report)),
        Err(_) => Err(unexpected(&with_json, ran)),
    }
}

/// What `ledger anchor --json` prints, as far as it is looked at here.
#[derive(Deserialize)]
struct Anchored {
    cosigned: Vec<Value>,
}

/// What `evidence export --json` prints, as far as it is looked at here.
#[derive(Deserialize)]
struct Exported {
    sealed: bool,
    files: u64,
    entries: u64,
}

/// What `evidence verify --json` prints, as far as it is looked at here.
#[derive(Deserialize)]
struct Report {
    checks: Vec<ProofCheck>,
    /// Absent where something does not hold.
    #[serde(default)]
    level: Value,
}

/// One check of a report.
#[derive(Serialize, Deserialize)]
struct ProofCheck {
    #[serde(flatten)]
    rest: serde_json::Map<String, Value>,
    id: String,
    title: String,
    outcome: String,
    detail: String,
}

/// Copies the evidence and makes 250 into 950 in the arguments of a call. The file, before, after.
fn forge(from: &Path, to: &Path) -> Result<(String, &'static str, &'static str), Error> {
    const BEFORE: &str = "{\"amount\":250,";
    const AFTER: &str = "{\"amount\":950,";
    copy(from, to).map_err(FileError::at(to))?;
    let payloads = to.join("payloads");
    let failed = FileError::at(&payloads);
    for entry in std::fs::read_dir(&payloads).map_err(&failed)? {
        let path = entry.map_err(&failed)?.path();
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        // The arguments themselves, not the policy's input, which contains them too.
        if text.starts_with(BEFORE) {
            std::fs::write(&path, text.replacen(BEFORE, AFTER, 1)).map_err(&failed)?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let (start, _) = name.split_at_checked(8).unwrap_or((&name, ""));
            return Ok((format!("payloads/{start}….bin"), "\"amount\":250", "\"amount\":950"));
        }
    }
    Err(Error::NoPayload)
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// The output of a command that has to succeed.
async fn done(demo: &DemoDirectory, args: &[&str]) -> Result<CommandOutput, Error> {
    let ran = demo.run(args).await?;
    if ran.code == Some(0) { Ok(ran) } else { Err(unexpected(args, ran)) }
}

fn unexpected(args: &[&str], ran: CommandOutput) -> Error {
    Error::Unexpected { command: args.join(" "), ran }
}
