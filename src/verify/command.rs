//! `evidence verify` as a command, shared by both programs that offer it.
//!
//! The small program `wicketgate-verify` links no database and no network. The large one has the
//! same options, output and exit codes, because it calls the same function.

use std::io::Write as _;
use std::path::PathBuf;

use super::bundle::MANIFEST;
use super::check::verify_watched;
use super::progress::Progress;
use super::trust::Trust;
use crate::clock::{Clock as _, SystemClock};
use crate::domain::canonical;
use crate::domain::id::RunId;
use crate::domain::json::Json;

/// Verify a bundle offline, against trust roots of your own.
///
/// The same checks, output and exit codes as `wicketgate evidence verify`, in a program that links
/// no database and no network code.
#[derive(clap::Parser, Debug)]
#[command(
    name = "wicketgate-verify",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  wicketgate-verify evidence --trust trust.txt\n  \
    wicketgate-verify evidence.zip --trust trust.txt --level 3 --json\n\n\
    Exit codes: 0 valid, 1 invalid, 2 unverifiable or below the level, 64 usage."
)]
pub struct Program {
    /// What its command line says.
    #[command(flatten)]
    pub options: Option<Options>,
    /// Something else than to verify.
    #[command(subcommand)]
    pub other: Option<Other>,
}

/// What the program does beside verifying.
#[derive(Clone, Copy, Debug, clap::Subcommand)]
pub enum Other {
    /// Print a guide to verifying a bundle with stock tools: the text of VERIFY.md, taken from this program and
    /// not from a bundle
    Guide,
}

impl Program {
    /// Does what the command line says.
    pub fn run(&self) -> End {
        match (self.other, &self.options) {
            (Some(Other::Guide), _) => print_guide(),
            (None, Some(options)) => run(options),
            (None, None) => usage(false, "name a bundle and `--trust FILE`, or `guide`"),
        }
    }
}

/// Prints `VERIFY.md` as this program has it.
pub fn print_guide() -> End {
    // A closed pipe (`| head`) is not a failure.
    let _ = std::io::stdout().write_all(super::guide::GUIDE.as_bytes());
    End::Valid
}

/// Says why nothing was verified; with `--json` as one object, like every error of the command line.
fn usage(json: bool, why: impl std::fmt::Display) -> End {
    let line = match json {
        true => canonical::text(&Json::object([
            ("code", Json::from("usage")),
            ("hint", Json::from("run the same command with `--help`")),
            ("message", Json::from(why.to_string())),
        ])),
        false => format!("error: {why}"),
    };
    // Ignore a terminal that is gone.
    let _ = writeln!(std::io::stderr(), "{line}");
    End::Usage
}

/// What to verify, and against what.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Trust roots: keys, approved policies, and heads that you pinned (see `wicketgate evidence guide`)
    #[arg(long, value_name = "FILE")]
    trust: PathBuf,
    /// Run that the bundle must be about
    #[arg(long, value_name = "ID", value_parser = run_id)]
    run: Option<RunId>,
    /// Exit with 2 below this level: 0 files, 1 in the log, 2 extends a pinned head, 3 witnessed, 4 stamped
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=4))]
    level: Option<u8>,
    /// Also make every decision again, from its recorded input and the policy's bytes
    #[arg(long)]
    replay: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// The bundle: a directory, or a `.zip` file
    #[arg(value_name = "PATH")]
    bundle: PathBuf,
}

/// How the command ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// 0: every requested check holds.
    Valid,
    /// 1: something is invalid.
    Invalid,
    /// 2: something cannot be decided, or the level is below the requested one.
    Unverifiable,
    /// 64: the command line or the trust file is wrong.
    Usage,
}

impl End {
    /// The exit code.
    pub const fn code(self) -> u8 {
        match self {
            Self::Valid => 0,
            Self::Invalid => 1,
            Self::Unverifiable => 2,
            Self::Usage => 64,
        }
    }
}

/// A text that is not the id of a run.
#[derive(Debug, thiserror::Error)]
#[error("a run id is a lowercase UUID with hyphens")]
pub struct NoRunId;

/// Reads a run's id.
///
/// # Errors
/// See [`NoRunId`].
pub fn run_id(text: &str) -> Result<RunId, NoRunId> {
    RunId::parse(text).ok_or(NoRunId)
}

/// Verifies, prints the report to standard output, and returns the result.
pub fn run(options: &Options) -> End {
    let mut trust = match Trust::load(&options.trust) {
        Ok(trust) => trust,
        Err(error @ super::Error::Io { .. }) => {
            return usage(
                options.json,
                format!(
                    "the trust file {error}; it says whom you trust, one line each, as `evidence-key FILE`: \
                 see `wicketgate evidence guide`"
                ),
            );
        }
        Err(error) => return usage(options.json, error),
    };
    if !options.bundle.is_dir() && !options.bundle.is_file() {
        return usage(
            options.json,
            format!(
                "`{}` is not a directory or a file: name what `wicketgate evidence export --out` wrote",
                options.bundle.display()
            ),
        );
    }
    trust.run = options.run;
    trust.replay = options.replay;
    trust.now = Some(SystemClock::new().now());
    let progress = Progress::new(options.json);
    let report = verify_watched(&options.bundle, &trust, &progress);
    drop(progress);
    let text = if options.json { canonical::text(&report.to_json()) } else { report.to_text() };
    // A closed pipe (`| head`) is not a failure.
    let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
    let short = options.level.is_some_and(|wanted| report.level().is_none_or(|is| is < wanted));
    let end = match report.exit_code() {
        0 if short => End::Unverifiable,
        0 => End::Valid,
        1 => End::Invalid,
        _ => End::Unverifiable,
    };
    if let Some(next) = next_step(options, trust.evidence.is_empty(), short, end) {
        let line = match options.json {
            true => canonical::text(&Json::object([("note", Json::from(format!("next: {next}")))])),
            false => format!("next: {next}"),
        };
        // The report is on standard output; ignore a closed standard error.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
    end
}

/// The most likely remedy for a result other than "valid".
fn next_step(options: &Options, trusts_nobody: bool, short: bool, end: End) -> Option<String> {
    let (bundle, trust) = (options.bundle.display(), options.trust.display());
    let is_bundle = options.bundle.is_file() || options.bundle.join(MANIFEST).is_file();
    match end {
        End::Valid | End::Usage => None,
        End::Invalid | End::Unverifiable if !is_bundle => Some(format!(
            "`{bundle}` holds no `{}`: name what `wicketgate evidence export --out` wrote",
            MANIFEST
        )),
        End::Invalid | End::Unverifiable if trusts_nobody => Some(format!(
            "`{trust}` names no `evidence-key`: get the exporter's public key on a way you trust, and name it"
        )),
        End::Invalid => Some(
            "a check that does not hold is explained under its name in `wicketgate evidence guide`; keep your copy, \
             and ask its sender for another one"
                .to_owned(),
        ),
        End::Unverifiable if short => Some(
            "the level asked for needs more than this bundle or your trust file has: `wicketgate evidence guide` \
             says what each level rests on"
                .to_owned(),
        ),
        End::Unverifiable => Some(format!(
            "add to `{trust}` what the lines above miss (keys, `policy sha256:…`, noted heads): \
             `wicketgate evidence guide` says how"
        )),
    }
}
