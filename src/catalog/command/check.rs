//! From `command:` as it was written to a command, or to everything that is wrong with it.

use std::path::{Path, PathBuf};

use super::argv::{self, Element};
use super::{
    ArgumentSource, Command, CommandLimits, ElfError, Level, Program, WorkDirectory, Workspace,
    config, inspect,
};
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
/// Forms of a list that an agent gives.
pub(crate) const FORMS_MAX: usize = 64;
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
        let forms = forms(self, &format!("{}.command", draft.at), problems);
        let own = (!forms.is_empty()).then(|| own_schema(&forms, self.stdin.as_deref()));
        let schema = draft.schema(own.as_deref(), problems);
        let command = command(self, draft, (schema.as_ref(), forms), problems);
        Some((schema?, Kind::Command(Box::new(command?))))
    }
}

/// The command, if it has no error.
fn command(
    raw: &config::Command,
    draft: &Draft<'_>,
    (schema, forms): (Option<&Schema>, Vec<Vec<Element>>),
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
    let argv = if raw.forms.is_empty() {
        ArgumentSource::Template(argv)
    } else {
        ArgumentSource::Forms(forms)
    };
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
    let level = raw.sandbox.as_deref();
    let level = level.map_or(Ok(Level::S2), |text| Level::parse(text, "`S1`, `S2`"));
    let level = problems.take(&format!("{at}.sandbox"), level).unwrap_or(Level::S2);
    let workspace = directory(raw, level, &at, (surroundings, secrets), problems);
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
        workspace: workspace?,
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
    if !raw.forms.is_empty() && !known(argv::AGENT_LIST) {
        let why = format!("`forms` need the argument `{}` in the schema", argv::AGENT_LIST);
        problems.add(format!("{at}.forms"), why);
    }
    elements
}

/// The forms of a list that the agent gives.
fn forms(raw: &config::Command, at: &str, problems: &mut Problems) -> Vec<Vec<Element>> {
    if !raw.forms.is_empty() && !raw.argv.is_empty() {
        problems.add(format!("{at}.forms"), "give one of `argv` and `forms`");
    }
    if raw.forms.len() > FORMS_MAX {
        problems.add(format!("{at}.forms"), format!("has at most {FORMS_MAX} forms"));
    }
    let mut all = Vec::new();
    for (i, written) in raw.forms.iter().enumerate() {
        let mut form = Vec::new();
        for (j, written) in written.iter().enumerate() {
            let at = format!("{at}.forms[{i}][{j}]");
            match problems.take(&at, argv::parse(written)) {
                Some(Element::Flag { .. }) => {
                    problems.add(at, "a form has no flags: write a second form with the text");
                }
                Some(element) => form.push(element),
                None => {}
            }
        }
        all.push(form);
    }
    all
}

/// The schema of a command whose agent gives the list: it tells the model the forms.
fn own_schema(forms: &[Vec<Element>], stdin: Option<&str>) -> Vec<u8> {
    let items = forms.iter().map(Vec::len).max().unwrap_or_default();
    let description = format!("one of: {}", argv::shown(forms));
    let list = serde_json::json!({"type": "array", "maxItems": items, "items": {"type": "string"},
        "description": description});
    let mut properties = serde_json::Map::new();
    properties.extend(stdin.map(|name| (name.to_owned(), serde_json::json!({"type": "string"}))));
    properties.insert(argv::AGENT_LIST.to_owned(), list);
    let schema = serde_json::json!({"type": "object", "required": [argv::AGENT_LIST], "properties": properties});
    schema.to_string().into_bytes()
}

/// A shell's argument is a program, and an agent must not write programs.
fn shell(program: &Program, argv: &ArgumentSource, at: &str, problems: &mut Problems) {
    let name = program.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let mut places = argv.lists().iter().flatten();
    if SHELLS.contains(&name) && places.any(|element| element.argument().is_some()) {
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

/// What the command may write.
fn directory(
    raw: &config::Command,
    level: Level,
    at: &str,
    (surroundings, secrets): (&Surroundings<'_>, &[PathBuf]),
    problems: &mut Problems,
) -> Option<WorkDirectory> {
    let workspace = raw.workspace.as_deref().map_or(Ok(Workspace::None), |text| {
        let none = || format!("`{text}` is not one of `none`, `per_call`, `run`");
        Workspace::parse(text).ok_or_else(none)
    });
    let workspace = problems.take(&format!("{at}.workspace"), workspace);
    if level < Level::S2 {
        for (name, there, why) in [
            (
                "workspace",
                workspace.is_some_and(|it| it != Workspace::None),
                "a workspace needs `sandbox: S2`",
            ),
            ("directory", raw.directory.is_some(), "a directory to write needs `sandbox: S2`"),
            ("children", !raw.children.is_empty(), "processes of its own need `sandbox: S2`"),
        ] {
            if there {
                problems.add(format!("{at}.{name}"), why);
            }
        }
    }
    let Some(path) = &raw.directory else { return workspace.map(WorkDirectory::Memory) };
    let at = format!("{at}.directory");
    if raw.workspace.is_some() {
        problems.add(at.as_str(), "give one of `workspace` and `directory`");
    }
    let joined = surroundings.base_dir.join(path);
    let path = joined.canonicalize().map_err(|e| check::Error::Open(joined, e));
    let path = path.and_then(|path| surroundings.apart_from_own(&path, secrets).map(|()| path));
    let path = problems.take(&at, path)?;
    if !path.is_dir() {
        problems.add(at, check::Error::NotDirectory(path).to_string());
        return None;
    }
    Some(WorkDirectory::Disk(path))
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
