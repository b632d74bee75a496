//! `wicketgate check`: one list of everything that has to be right, with what to do where it is not.

mod container;
mod gate;
mod ground;
pub(super) mod list;
mod scratch;

use std::path::Path;

use super::config::{self, ArchiveArgs, ConfigFile};
use super::{Exit, block_on, doctor, fail, tools};
use crate::app::named::{self, Area, NamedFiles, NamedLine};
use crate::cli::error::FileError;
use crate::config::Config;
use crate::config::archive::ArchiveSource;
use container::Container;
use list::{CheckList, CheckSection, waiting};
use scratch::Scratch;

/// Check everything that a gate needs, and say what to do where something is wrong.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
        wicketgate check\n  \
        wicketgate check --pre --config deploy/wicketgate.yaml\n  \
        wicketgate check --config-archive gate.archive --archive-key archive.pem.pub\n  \
        wicketgate check --as-agent --socket /run/wicketgate/agent.sock\n  \
        wicketgate check --chart values.yaml --set-file 'gate.files.agent\\.yaml=agent.yaml'\n  \
        wicketgate check --root image --config image/etc/wicketgate/wicketgate.yaml\n\n\
        Checks the configuration and its signatures, the policy bundle, the state directory, the ledger and the clock, the\n\
        servers behind the tools, and the running gate. It calls no tool, sends no credential but to a database, and writes nothing.\n\n\
        Exit codes: 0 nothing failed, 1 something failed, 2 something could not be determined, 78 the configuration is wrong.")]
pub struct Args {
    #[command(flatten)]
    at: ConfigFile,
    #[command(flatten)]
    archive: ArchiveArgs,
    #[command(flatten)]
    container: container::ContainerArgs,
    /// Check before the gate runs: its addresses have to be free, and no gate is asked
    #[arg(long)]
    pre: bool,
    /// Reach no server of a tool
    #[arg(long, conflicts_with = "as_agent")]
    offline: bool,
    /// Run as the agent, and check that nothing can be reached around the gate (as `config doctor`)
    #[arg(long, conflicts_with = "pre")]
    as_agent: bool,
    #[command(flatten)]
    way: doctor::GateAccess,
    /// Seconds that a server has to answer
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
        value_parser = clap::value_parser!(u64).range(1..=3600))]
    wait: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Sections whose failure means that a gate does not start with this configuration.
const CONFIG: &[&str] =
    &["configuration", "trust", "agents", "tools", "policy", "approvals", "operators"];

/// Runs it.
pub fn run(args: &Args) -> Exit {
    let done = block_on(async {
        let mut list = CheckList::default();
        if args.as_agent {
            match gate::isolation(&args.way).await {
                Ok(section) => list.add(section, args.json),
                Err(why) => return fail(Exit::Unverifiable, why),
            }
        } else {
            match Container::of(&args.container, &args.at.config) {
                Ok(Some(container)) => files(args, &container, &mut list).await,
                Ok(None) => {
                    match args.archive.source(&args.at.config).as_ref().map(in_archive).transpose()
                    {
                        Ok(archived) => all(args, archived, &mut list).await,
                        Err(why) => return fail(Exit::Config, why),
                    }
                }
                Err(why) => return fail(Exit::Config, why),
            }
        }
        list.end(CONFIG, args.json)
    });
    done.unwrap_or_else(|exit| exit)
}

/// What the files of a container say. What is outside of them is the cluster's.
async fn files(args: &Args, container: &Container, list: &mut CheckList) {
    let (section, config) = loaded(container.config(), container.loaded());
    let section = container.told(section);
    let has_failed = section.has_failed();
    list.add(section, args.json);
    let mut cluster = CheckSection::new("cluster");
    let Some(config) = config else {
        if !has_failed {
            cluster.unknown(
                "the configuration needs what only the cluster has: nothing else was checked",
                "put copies of these files below a directory, and check that with `--root`",
            );
            list.add(cluster, args.json);
        }
        return;
    };
    for section in areas(named::check(&config, Vec::new())) {
        list.add(container.told(section), args.json);
    }
    cluster.skipped(
        "the state directory, the ledger, the servers of the tools and the running gate are the container's: \
         run `wicketgate check` in it",
    );
    list.add(cluster, args.json);
}

/// A configuration that was read from an archive, and where the archive's files are.
type InArchive = (Scratch, Result<Config, Vec<String>>);

fn in_archive(source: &ArchiveSource) -> Result<InArchive, FileError> {
    let scratch = Scratch::new()?;
    let read = scratch.load(source);
    Ok((scratch, read))
}

async fn all(args: &Args, archived: Option<InArchive>, list: &mut CheckList) {
    let file = &args.at.config;
    let (scratch, read) = archived.unzip();
    let shortened = |section: CheckSection| match &scratch {
        Some(scratch) => section.told(&|text| scratch.shortened(text), &|_| None),
        None => section,
    };
    let (mut section, config) = loaded(file, read.unwrap_or_else(|| config::load(file)));
    if let Some(archived) = config.as_ref().and_then(|config| config.archived.as_ref()) {
        let digest = archived.digest().prefixed();
        section.passed(format!("the archive is signed by a trusted key: {digest}"));
    }
    list.add(shortened(section), args.json);
    let Some(config) = config else { return };
    let (found, uncompared) = config::named_files(&config).await;
    let is_whole = found.problems.is_empty();
    for section in areas(found) {
        list.add(shortened(section), args.json);
    }
    list.add(ground::state(&config), args.json);
    let (mut ledger, clock) = ground::ledger(&config).await;
    uncompared.into_iter().for_each(|why| ledger.warned(why.to_string()));
    ledger_note(&config, &mut ledger);
    list.add(ledger, args.json);
    list.add(clock, args.json);
    list.add(upstreams(args, &config, is_whole).await, args.json);
    match args.pre {
        true => list.add(ground::addresses(&config), args.json),
        false => list.add(gate::running(&config).await, args.json),
    }
}

/// The file and the environment.
fn loaded(file: &Path, read: Result<Config, Vec<String>>) -> (CheckSection, Option<Config>) {
    let mut section = CheckSection::new("configuration");
    match read {
        Ok(config) => {
            section.passed(format!("`{}` can be read, every field is known", file.display()));
            crate::config::operators::unheard(&config)
                .into_iter()
                .for_each(|line| section.warned(line));
            (section, Some(config))
        }
        Err(problems) => {
            problems.into_iter().for_each(|line| section.failed(line, None));
            (section, None)
        }
    }
}

fn ledger_note(config: &Config, section: &mut CheckSection) {
    config::passing(config, &crate::config::environment)
        .into_iter()
        .for_each(|line| section.warned(line));
}

/// What the configuration names, a section for each part.
fn areas(found: NamedFiles) -> Vec<CheckSection> {
    let mut sections: Vec<(Area, CheckSection)> =
        Area::ALL.iter().map(|area| (*area, CheckSection::new(area.as_str()))).collect();
    let mut each = |lines: Vec<NamedLine>, add: &dyn Fn(&mut CheckSection, String)| {
        for NamedLine { area, text } in lines {
            if let Some((_, section)) = sections.iter_mut().find(|(of, _)| *of == area) {
                add(section, text);
            }
        }
    };
    each(found.loaded, &|section, text| section.passed(text));
    each(found.problems, &|section, text| section.failed(text, None));
    each(found.warnings, &|section, text| section.warned(text));
    let sections = sections.into_iter().map(|(_, section)| section);
    sections.filter(|section| !section.is_empty()).collect()
}

/// The servers behind the tools.
async fn upstreams(args: &Args, config: &Config, is_whole: bool) -> CheckSection {
    let mut section = CheckSection::new("upstreams");
    if args.offline {
        section.skipped("no server of a tool was reached (--offline)");
        return section;
    }
    if !is_whole {
        section.skipped("the configuration is wrong: no server of a tool was reached");
        return section;
    }
    waiting("the servers of the tools", args.json);
    let inside = config.archived.as_ref().and(config.file.as_ref());
    let file = inside.unwrap_or(&args.at.config).clone();
    match tools::probed(file, config, args.wait).await {
        Err(why) => section.failed(why.reason(), None),
        Ok(points) if points.is_empty() => section.skipped("no tools are configured"),
        Ok(points) => {
            for (tool, point) in points {
                let text = format!("{tool}: {}: {}", point.what, point.found);
                let hint = point.todo.unwrap_or_default();
                if point.state.is_fine() {
                    section.passed(text);
                } else if point.state.is_unknown() {
                    section.unknown(text, &hint);
                } else {
                    section.failed(text, Some(hint).filter(|hint| !hint.is_empty()));
                }
            }
        }
    }
    section
}
