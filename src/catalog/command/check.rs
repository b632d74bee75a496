//! From `command:` as it was written to a command, or to everything that is wrong with it.

use std::path::{Path, PathBuf};

use super::argv::{self, Element};
use super::{Command, CommandLimits, ElfError, Level, Program, Workspace, config, inspect};
use crate::check::{self, Draft, Surroundings, TIMEOUT_MS, bounded};
use crate::domain::digest::Digest;
use crate::schema::Schema;
use crate::server::{is_variable, variables};
use crate::{Kind, Problems, Section};

/// Bytes of the largest program: it is hashed at every call.
const PROGRAM_BYTES_MAX: u64 = 64 << 20;
/// Programs whose arguments are programs. This list catches mistakes; it is no defence.
const SHELLS: [&str; 9] = ["sh", "ash", "bash", "busybox", "dash", "env", "ksh", "xargs", "zsh"];
/// Bytes of memory: the least, those of a command that names none, and the most.
pub(crate) const MEMORY: (u64, u64, u64) = (16 << 20, 512 << 20, 64 << 30);
/// Seconds of processor time.
pub(crate) const CPU_SECONDS_MAX: u64 = 600;
/// Processes and threads.
pub(crate) const PIDS: u64 = 32;
pub(crate) const PIDS_MAX: u64 = 1024;
/// Variables that make a program load or run the file they name.
const LOADERS: [&str; 4] = ["BASH_ENV", "ENV", "GCONV_PATH", "IFS"];

/// Why a program is not bound.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("expected an absolute path: the gate does not search `PATH`")]
    Relative,
    #[error(transparent)]
    File(#[from] check::Error),
    #[error("`{}` is not executable, or gains privileges when it is run", .0.display())]
    Mode(PathBuf),
    #[error("`{}` {why}", .0.display(), why = .1)]
    Elf(PathBuf, #[source] ElfError),
}

/// A `cgroup` that is neither of its two texts.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is neither `available` nor `required`")]
pub(crate) struct CgroupError(String);

impl Section for config::Command {
    /// WHY true: its own check refuses them, and names `command.credentials` instead.
    fn secret_files(&self) -> Vec<&Path> {
        self.credentials.iter().filter_map(|one| one.file.as_deref()).collect()
    }

    fn check(&self, draft: &Draft<'_>, problems: &mut Problems) -> Option<(Schema, Kind)> {
        let schema = draft.schema(None, problems);
        let command = command(self, draft, schema.as_ref(), problems);
        Some((schema?, Kind::Command(Box::new(command?))))
    }
}

/// The command, if it has no error.
fn command(
    raw: &config::Command,
    draft: &Draft<'_>,
    schema: Option<&Schema>,
    problems: &mut Problems,
) -> Option<Command> {
    let Draft { tool, surroundings, secrets, .. } = *draft;
    if !tool.credentials.is_empty() {
        let why = "a command gets its secrets by `command.credentials`";
        problems.add(format!("{}.credentials", draft.at), why);
    }
    let at = format!("{}.command", draft.at);
    let before = problems.0.len();
    let program = problems.take(&format!("{at}.program"), program(&raw.program, surroundings));
    if let (Some(program), Some(pin)) = (&program, &raw.sha256) {
        pinned(program, pin, &format!("{at}.sha256"), problems);
    }
    let argv = template(raw, schema, &at, problems);
    if let Some(program) = &program {
        shell(program, &argv, &format!("{at}.argv"), problems);
    }
    environment(raw, &at, problems);
    let credentials = variables(&raw.credentials, &raw.env, &at, surroundings, problems);
    let read = readable(raw, &at, surroundings, secrets, problems);
    let children = raw.children.iter().enumerate().filter_map(|(i, path)| {
        problems.take(&format!("{at}.children[{i}]"), self::program(path, surroundings))
    });
    let children = children.collect::<Vec<_>>();
    let (level, workspace) = isolation(raw, &at, problems);
    let limits = limits(&raw.limits, tool.timeout_ms, &at, problems);
    if problems.0.len() > before {
        return None;
    }
    Some(Command {
        program: program?,
        argv,
        stdin: raw.stdin.clone(),
        env: raw.env.clone().into_iter().collect(),
        secrets: credentials,
        read,
        children,
        workspace,
        level,
        limits: limits?,
        exit_codes: raw.exit_codes.clone(),
    })
}

/// A program by its absolute path: regular, executable, ELF, not one that gains privileges.
pub(crate) fn program(path: &Path, surroundings: &Surroundings<'_>) -> Result<Program, Error> {
    use std::os::unix::fs::PermissionsExt as _;
    if !path.is_absolute() {
        return Err(Error::Relative);
    }
    let shown = || path.to_owned();
    let open = |e| check::Error::Open(shown(), e);
    let real = path.canonicalize().map_err(open)?;
    let mode = real.metadata().map_err(open)?.permissions();
    if mode.mode() & 0o111 == 0 || mode.mode() & 0o6000 != 0 {
        return Err(Error::Mode(shown()));
    }
    let bytes = surroundings.read(&real, PROGRAM_BYTES_MAX)?;
    let elf = inspect(&bytes).map_err(|why| Error::Elf(shown(), why))?;
    Ok(Program { path: real, digest: Digest::of(&[&bytes]), interpreter: elf.interpreter })
}

fn pinned(program: &Program, pin: &str, at: &str, problems: &mut Problems) {
    match Digest::parse(pin) {
        None => problems.add(at, "is 64 lowercase hex digits"),
        Some(wanted) if wanted != program.digest => {
            let is = program.digest.hex();
            problems.add(at, format!("`{}` has another: {is}", program.path.display()));
        }
        Some(_) => {}
    }
}

fn template(
    raw: &config::Command,
    schema: Option<&Schema>,
    at: &str,
    problems: &mut Problems,
) -> Vec<Element> {
    let mut elements = Vec::new();
    let known = |name: &str| schema.is_none_or(|schema| schema.knows(name));
    for (i, written) in raw.argv.iter().enumerate() {
        let at = format!("{at}.argv[{i}]");
        let Some(element) = problems.take(&at, argv::parse(written)) else { continue };
        if let Some(name) = element.argument().filter(|name| !known(name)) {
            problems.add(at, format!("`{name}` is no argument of the schema"));
        }
        elements.push(element);
    }
    if let Some(name) = raw.stdin.as_deref().filter(|name| !known(name)) {
        problems.add(format!("{at}.stdin"), format!("`{name}` is no argument of the schema"));
    }
    elements
}

/// A shell's argument is a program, and an agent must not write programs.
fn shell(program: &Program, argv: &[Element], at: &str, problems: &mut Problems) {
    let name = program.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if SHELLS.contains(&name) && argv.iter().any(|element| element.argument().is_some()) {
        let why = format!("`{name}` runs what its arguments say: bind the program itself");
        problems.add(at, why);
    }
}

fn environment(raw: &config::Command, at: &str, problems: &mut Problems) {
    for (name, value) in &raw.env {
        let at = format!("{at}.env.{name}");
        if !is_variable(name) {
            problems.add(at.as_str(), "is no name of a variable: [A-Za-z_][A-Za-z0-9_]*");
        }
        if name.starts_with("LD_") || LOADERS.contains(&name.as_str()) {
            problems.add(at.as_str(), "makes a program load or run what it names");
        }
        if value.contains('\0') {
            problems.add(at, "holds a zero byte");
        }
    }
}

fn readable(
    raw: &config::Command,
    at: &str,
    surroundings: &Surroundings<'_>,
    secrets: &[PathBuf],
    problems: &mut Problems,
) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (i, path) in raw.read.iter().enumerate() {
        let joined = surroundings.base_dir.join(path);
        let path = joined
            .canonicalize()
            .map_err(|e| check::Error::Open(joined, e))
            .and_then(|path| surroundings.apart_from_own(&path, secrets).map(|()| path));
        found.extend(problems.take(&format!("{at}.read[{i}]"), path));
    }
    found
}

fn isolation(raw: &config::Command, at: &str, problems: &mut Problems) -> (Level, Workspace) {
    let level = raw.sandbox.as_deref();
    let level = level.map_or(Ok(Level::S2), |text| Level::parse(text, "`S1`, `S2`"));
    let level = problems.take(&format!("{at}.sandbox"), level).unwrap_or(Level::S2);
    let workspace = raw.workspace.as_deref().map_or(Ok(Workspace::None), |text| {
        let none = || format!("`{text}` is not one of `none`, `per_call`, `run`");
        Workspace::parse(text).ok_or_else(none)
    });
    let workspace = problems.take(&format!("{at}.workspace"), workspace);
    let workspace = workspace.unwrap_or(Workspace::None);
    if level < Level::S2 {
        if workspace != Workspace::None {
            problems.add(format!("{at}.workspace"), "a workspace needs `sandbox: S2`");
        }
        if !raw.children.is_empty() {
            problems.add(format!("{at}.children"), "processes of its own need `sandbox: S2`");
        }
    }
    (level, workspace)
}

fn limits(
    raw: &config::CommandLimitsConfig,
    timeout_ms: Option<u64>,
    at: &str,
    problems: &mut Problems,
) -> Option<CommandLimits> {
    let memory = raw.memory_bytes.unwrap_or(MEMORY.1);
    let memory = if (MEMORY.0..=MEMORY.2).contains(&memory) {
        Ok(memory)
    } else {
        Err(format!("is {} to {}", MEMORY.0, MEMORY.2))
    };
    let memory = problems.take(&format!("{at}.limits.memory_bytes"), memory);
    let seconds = timeout_ms.unwrap_or(TIMEOUT_MS).div_ceil(1000).clamp(1, CPU_SECONDS_MAX);
    let cpu = bounded(raw.cpu_seconds, seconds, CPU_SECONDS_MAX);
    let cpu = problems.take(&format!("{at}.limits.cpu_seconds"), cpu);
    let pids = bounded(raw.pids, PIDS, PIDS_MAX);
    let pids = problems.take(&format!("{at}.limits.pids"), pids);
    let together = problems.take(&format!("{at}.limits.cgroup"), together(raw.cgroup.as_deref()));
    Some(CommandLimits {
        memory_bytes: memory?,
        cpu_seconds: cpu?,
        pids: pids?,
        together: together?,
    })
}

/// Whether control groups are demanded.
pub(crate) fn together(written: Option<&str>) -> Result<bool, CgroupError> {
    match written {
        None | Some("available") => Ok(false),
        Some("required") => Ok(true),
        Some(other) => Err(CgroupError(other.to_owned())),
    }
}
