//! `wicketgate policy firewall`: what the firewall finds in a text, what it looks for, and how well.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::error::FileError;
use crate::cli::{Exit, Failure, JsonArg, fail, print_facts};
use crate::config::own_rules;
use crate::domain::json::{Json, Limits};
use crate::firewall::{self, Class, Confidence, Hit};

/// Find secrets, personal data and hidden text as the gate does.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

/// Rules besides ours.
#[derive(Debug, clap::Args)]
struct OwnArgs {
    /// A file with shapes of your own keys, as `firewall.shapes` names it
    #[arg(long, value_name = "FILE")]
    shapes: Vec<PathBuf>,
    /// A file with rules in the form of gitleaks, as `firewall.gitleaks` names it
    #[arg(long, value_name = "FILE")]
    gitleaks: Vec<PathBuf>,
    /// Work for each MiB of text, as `firewall.work.mib_ms` states it
    #[arg(long, value_name = "N", default_value_t = firewall::MIB_MS)]
    mib_ms: u64,
}

impl OwnArgs {
    fn install(&self) -> Result<(), Failure> {
        let rules = own_rules(&self.shapes, &self.gitleaks, self.mib_ms);
        let rules = rules.map_err(Failure::invalid)?;
        firewall::install(rules).map_err(Failure::invalid)
    }
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print the findings in a file, without their values; exit with 1 if one is surely a secret
    #[command(after_help = "Examples:\n  wicketgate policy firewall scan notes.txt\n  \
        git diff | wicketgate policy firewall scan -")]
    Scan {
        /// The file, `-` for standard input. JSON is read as the gate reads it, anything else as one text
        #[arg(value_name = "FILE", default_value = "-")]
        file: PathBuf,
        #[command(flatten)]
        own: OwnArgs,
        #[command(flatten)]
        json: JsonArg,
    },
    /// Print every kind of finding, and the digest of the rules
    #[command(after_help = "Examples:\n  wicketgate policy firewall rules\n  \
        wicketgate policy firewall rules --shapes lab-keys.yaml")]
    Rules {
        #[command(flatten)]
        own: OwnArgs,
        #[command(flatten)]
        json: JsonArg,
    },
    /// Scan a corpus, and print per kind how much of it is found; exit with 1 if something is missed or found in vain.
    ///
    /// Each line of the corpus is a JSON object: `text`, and `kinds`, the kinds that are to be found in it. Without
    /// `kinds` nothing of confidence `high` may be.
    #[command(after_help = "Examples:\n  wicketgate policy firewall test corpus.jsonl")]
    Test {
        /// The corpus
        #[arg(value_name = "CORPUS")]
        corpus: PathBuf,
        #[command(flatten)]
        own: OwnArgs,
        #[command(flatten)]
        json: JsonArg,
    },
}

/// Runs the command.
pub fn run(args: &Args) -> Exit {
    let done = match &args.command {
        Command::Scan { file, own, .. } => own.install().and_then(|()| scan(file)),
        Command::Rules { own, .. } => own.install().map(|()| rules()),
        Command::Test { corpus, own, .. } => own.install().and_then(|()| test(corpus)),
    };
    done.unwrap_or_else(Failure::print)
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    if file == Path::new("-") {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().read_to_end(&mut bytes);
        return read.map(|_| bytes).map_err(|error| Failure::invalid(FileError::at(file)(error)));
    }
    std::fs::read(file).map_err(|error| Failure::invalid(FileError::at(file)(error)))
}

/// What the firewall finds in these bytes.
fn found(bytes: &[u8]) -> Vec<Hit> {
    let text = || Json::from(String::from_utf8_lossy(bytes).into_owned());
    let value = Json::parse(bytes, &Limits::FILE).unwrap_or_else(|_| text());
    firewall::scan(&value)
}

fn is_sure(hit: &Hit) -> bool {
    hit.class == Class::Secret && hit.confidence == Confidence::High
}

fn scan(file: &Path) -> Result<Exit, Failure> {
    let hits = found(&read(file)?);
    let line = |hit: &Hit| {
        let path = if hit.path.is_empty() { "the text" } else { hit.path.as_str() };
        let (class, confidence, how) =
            (hit.class.as_str(), hit.confidence.as_str(), hit.how.as_str());
        format!("{} ({class}, {confidence}, {how}) at {path}", hit.kind)
    };
    let lines: Vec<String> = match hits.is_empty() {
        true => vec!["nothing is found".to_owned()],
        false => hits.iter().map(line).collect(),
    };
    let all: Vec<Value> = hits.iter().map(facts).collect();
    print_facts(
        json!({"findings": all, "rules": firewall::rules_digest().prefixed()}),
        lines.join("\n"),
    );
    Ok(if hits.iter().any(is_sure) { Exit::Invalid } else { Exit::Ok })
}

fn facts(hit: &Hit) -> Value {
    json!({"kind": hit.kind, "class": hit.class.as_str(), "confidence": hit.confidence.as_str(),
        "how": hit.how.as_str(), "path": hit.path})
}

fn rules() -> Exit {
    let rows: Vec<_> = firewall::kinds().collect();
    let line = |row: &firewall::KindRow| {
        format!("{:<24} {:<10} {}", row.name, row.class.as_str(), row.about)
    };
    let mut lines: Vec<String> = rows.iter().map(line).collect();
    let digest = firewall::rules_digest().prefixed();
    lines.push(format!("rules {digest}"));
    let all = rows
        .iter()
        .map(|row| json!({"kind": row.name, "class": row.class.as_str(), "about": row.about}));
    print_facts(json!({"kinds": all.collect::<Vec<_>>(), "rules": digest}), lines.join("\n"));
    Exit::Ok
}

/// One line of a corpus.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sample {
    text: String,
    #[serde(default)]
    kinds: Vec<String>,
}

/// How well one kind is found.
#[derive(Clone, Copy, Default, Debug)]
struct KindScore {
    found: u64,
    missed: u64,
    in_vain: u64,
}

impl KindScore {
    /// Thousandths of what there is that are found; `None` if there is nothing.
    fn recall(self) -> Option<u64> {
        thousandths(self.found, self.found.saturating_add(self.missed))
    }

    /// Thousandths of what is found that are what they seem; `None` if nothing is found.
    fn precision(self) -> Option<u64> {
        thousandths(self.found, self.found.saturating_add(self.in_vain))
    }
}

fn thousandths(part: u64, whole: u64) -> Option<u64> {
    part.saturating_mul(1000).checked_div(whole)
}

/// A share in words: `0.98`.
fn shown(share: Option<u64>) -> String {
    share.map_or_else(|| "-".to_owned(), |of| format!("{}.{:03}", of / 1000, of % 1000))
}

fn test(corpus: &Path) -> Result<Exit, Failure> {
    let bytes = read(corpus)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut scores: BTreeMap<String, KindScore> = BTreeMap::new();
    for (number, line) in (1_usize..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty())
    {
        let sample: Sample = match serde_json::from_str(line) {
            Ok(sample) => sample,
            Err(error) => {
                let place = corpus.display();
                return Ok(fail(Exit::Invalid, format!("`{place}`, line {number}: {error}")));
            }
        };
        score(&mut scores, &sample);
    }
    let line = |(kind, score): (&String, &KindScore)| {
        format!(
            "{kind:<24} {} found, {} missed, {} in vain, recall {}, precision {}",
            score.found,
            score.missed,
            score.in_vain,
            shown(score.recall()),
            shown(score.precision())
        )
    };
    let lines: Vec<String> = scores.iter().map(line).collect();
    let all = scores.iter().map(|(kind, score)| {
        json!({"kind": kind, "found": score.found, "missed": score.missed, "in_vain": score.in_vain,
            "recall_permille": score.recall(), "precision_permille": score.precision()})
    });
    print_facts(json!({"kinds": all.collect::<Vec<_>>()}), lines.join("\n"));
    let is_good = scores.values().all(|score| score.missed == 0 && score.in_vain == 0);
    Ok(if is_good { Exit::Ok } else { Exit::Invalid })
}

fn score(scores: &mut BTreeMap<String, KindScore>, sample: &Sample) {
    let hits = found(sample.text.as_bytes());
    for kind in &sample.kinds {
        let score = scores.entry(kind.clone()).or_default();
        let is_found = hits.iter().any(|hit| hit.kind == kind.as_str());
        let counter = if is_found { &mut score.found } else { &mut score.missed };
        *counter = counter.saturating_add(1);
    }
    let is_wanted = |hit: &&Hit| sample.kinds.iter().any(|kind| kind == hit.kind);
    let sure = hits.iter().filter(|hit| hit.confidence == Confidence::High);
    for hit in sure.filter(|hit| !is_wanted(hit)) {
        let score = scores.entry(hit.kind.to_owned()).or_default();
        score.in_vain = score.in_vain.saturating_add(1);
    }
}
