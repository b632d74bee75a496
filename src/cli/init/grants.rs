//! Derives from a server's command line what it may read and change in a sandbox.
//!
//! The user's file does not say what a server may touch, so this module derives it from the
//! server's command line: the server may read its program and script with the package they belong
//! to, and change directories and data files among its arguments and variables. None of that grants
//! a network: a credential or a URL does not say that its server may reach whatever this host
//! reaches.

use std::path::{Path, PathBuf};

use crate::catalog::server::Stdio;
use crate::cli::{Cause, FileError};
use crate::config;
use crate::tool::mcp::locate;
use crate::tool::sandbox::{is_nobodys, is_system};

/// Programs that download and start other programs.
const RUNNERS: [&str; 10] =
    ["npx", "uvx", "uv", "bunx", "pnpm", "pnpx", "yarn", "pipx", "docker", "podman"];
/// What a script is called.
const SCRIPTS: [&str; 9] = ["js", "mjs", "cjs", "ts", "mts", "py", "pyz", "rb", "php"];
/// What lies in the directory of a package or an environment, and how far above a script that is looked for.
const MARKS: [&str; 2] = ["package.json", "pyvenv.cfg"];
const ABOVE: usize = 4;

/// Something that no sandbox can give a server.
#[derive(Debug, thiserror::Error)]
pub enum GrantError {
    /// Its program is not found.
    #[error(transparent)]
    Program(Cause),
    /// Its program starts others.
    #[error(
        "`{0}` downloads packages and starts other programs, which no sandbox allows; install the package and name its \
         own program"
    )]
    Runner(String),
    /// A path it needs does not exist.
    #[error(transparent)]
    File(#[from] FileError),
    /// A path it needs contains all files of the user.
    #[error("it is given `{}`, which holds all files of this user", .0.display())]
    Home(PathBuf),
    /// A path it needs belongs to root.
    #[error("a gate that runs as root starts it as uid 65534, which may not change `{}`", .0.display())]
    Owner(PathBuf),
}

/// What it gets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Grants {
    /// What it may read besides the system's programs and libraries.
    pub read: Vec<PathBuf>,
    /// What it may change.
    pub write: Vec<PathBuf>,
    /// Whether it may connect to whatever the gate's host can reach.
    pub network: bool,
    /// Hosts it may connect to otherwise: `HOST` or `HOST:PORT`.
    pub hosts: Vec<String>,
    /// Its arguments, with paths that do not depend on where it runs.
    pub args: Vec<String>,
}

impl Grants {
    /// The rights for this command line and these values of variables.
    ///
    /// # Errors
    /// A path that no sandbox can give it.
    pub fn of(stdio: &Stdio, values: &[&str]) -> Result<Self, GrantError> {
        let program = locate(&stdio.program, stdio);
        let program = program.map_err(|cause| GrantError::Program(cause.into()))?;
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        if RUNNERS.contains(&name.as_ref()) {
            return Err(GrantError::Runner(name.into_owned()));
        }
        let mut grants = Self::default();
        grants.reads(&program);
        for arg in &stdio.args {
            let arg = grants.argument(arg, &stdio.cwd)?;
            grants.args.push(arg);
        }
        for value in values.iter().filter(|value| value.starts_with('/')) {
            grants.given(Path::new(value))?;
        }
        for paths in [&mut grants.read, &mut grants.write] {
            paths.sort();
            paths.dedup();
        }
        Ok(grants)
    }

    /// Lets it read this too, by a person's option.
    ///
    /// # Errors
    /// The path does not exist.
    pub fn add_read(&mut self, path: &Path) -> Result<(), GrantError> {
        self.read.push(path.canonicalize().map_err(FileError::at(path))?);
        self.read.sort();
        Ok(())
    }

    /// Lets it change this too, by a person's option.
    ///
    /// # Errors
    /// The path does not exist, or contains all files of the user.
    pub fn add_write(&mut self, path: &Path) -> Result<(), GrantError> {
        self.changes(path.canonicalize().map_err(FileError::at(path))?)
    }

    fn argument(&mut self, arg: &str, cwd: &Path) -> Result<String, GrantError> {
        let option = arg.split_once('=').filter(|(option, _)| option.starts_with('-'));
        let (option, text) = option
            .map_or(("", arg), |(_, text)| (arg.strip_suffix(text).unwrap_or_default(), text));
        // Any argument may be the name of a file by chance: one with a slash or a dot is meant.
        let relative = !text.starts_with('/');
        if relative && (!text.contains(['/', '.']) || !cwd.join(text).exists()) {
            return Ok(arg.to_owned());
        }
        let path: PathBuf = cwd.join(text).components().collect();
        self.given(&path)?;
        Ok(if relative { format!("{option}{}", path.display()) } else { arg.to_owned() })
    }

    /// A path in the server's arguments or variables.
    fn given(&mut self, path: &Path) -> Result<(), GrantError> {
        let Ok(real) = path.canonicalize() else {
            // The server may make this file, unless the text is not a path at all.
            let dir = path.parent().and_then(|dir| dir.canonicalize().ok());
            return dir.filter(|dir| dir != Path::new("/")).map_or(Ok(()), |dir| self.changes(dir));
        };
        let script = |path: &Path| {
            path.extension().is_some_and(|is| SCRIPTS.iter().any(|known| is == *known))
        };
        if real.is_file() && (script(path) || script(&real)) {
            self.reads(path);
            return Ok(());
        }
        if real.is_file() || real.is_dir() { self.changes(real) } else { Ok(()) }
    }

    /// A program or a script, under its name and where that leads to.
    fn reads(&mut self, path: &Path) {
        let real = path.canonicalize().ok();
        for path in [Some(path.to_owned()), real].into_iter().flatten() {
            let home = belongings(&path);
            self.read.extend(home.canonicalize().ok().filter(|home| !is_system(home)));
        }
    }

    fn changes(&mut self, path: PathBuf) -> Result<(), GrantError> {
        if is_system(&path) {
            return Ok(());
        }
        if is_above_the_user(&path) {
            return Err(GrantError::Home(path));
        }
        if !is_nobodys(&path) {
            return Err(GrantError::Owner(path));
        }
        self.write.push(path);
        Ok(())
    }
}

/// The package or environment that a program or a script is part of, or itself alone.
fn belongings(path: &Path) -> &Path {
    let modules =
        path.ancestors().filter(|dir| dir.file_name().is_some_and(|n| n == "node_modules"));
    let marked = |dir: &&Path| MARKS.iter().any(|mark| dir.join(mark).is_file());
    let whole = modules.last().or_else(|| path.ancestors().skip(1).take(ABOVE).find(marked));
    whole.filter(|dir| !is_above_the_user(dir)).unwrap_or(path)
}

fn is_above_the_user(path: &Path) -> bool {
    let home = config::environment("HOME").filter(|home| home.starts_with('/'));
    path == Path::new("/") || home.is_some_and(|home| Path::new(&home).starts_with(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::server::Isolation;

    fn stdio(program: &Path, args: &[&str], cwd: &Path) -> Stdio {
        Stdio {
            program: program.display().to_string(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: Vec::new(),
            secrets: Vec::new(),
            cwd: cwd.to_owned(),
            isolation: Isolation::None { stated: true },
            path: None,
        }
    }

    #[test]
    fn what_a_command_line_names_is_read_or_changed() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        for made in ["pkg/dist", "mods/node_modules/a/node_modules/b", "data", ".venv/bin"] {
            std::fs::create_dir_all(at(made)).unwrap();
        }
        let files = ["pkg/package.json", "pkg/dist/index.js", ".venv/pyvenv.cfg", "alone.py"];
        for made in files.iter().chain(&["mods/node_modules/a/node_modules/b/cli.js", "kept.db"]) {
            std::fs::write(at(made), "").unwrap();
        }
        for written in ["data", "kept.db"] {
            let open_mode = std::fs::Permissions::from_mode(0o777);
            std::fs::set_permissions(at(written), open_mode).unwrap();
        }
        let python = at(".venv/bin/python");
        std::os::unix::fs::symlink("/usr/bin/env", &python).unwrap();
        let data = at("data").display().to_string();
        let made = at("data/new.json").display().to_string();
        let of = |args: &[&str], values: &[&str]| {
            Grants::of(&stdio(&python, args, &at("")), values).unwrap()
        };
        let found =
            of(&["pkg/dist/index.js", &data, "--db=kept.db", "stdio", "--port=8"], &[&made]);
        assert_eq!(found.read, [at(".venv"), at("pkg")]);
        assert_eq!(found.write, [at("data"), at("kept.db")]);
        let (script, db) = (at("pkg/dist/index.js"), at("kept.db"));
        let args = [&script.display().to_string(), &data, &format!("--db={}", db.display())];
        assert_eq!(found.args[..3], args.map(String::clone));
        assert_eq!(found.args[3..], ["stdio", "--port=8"]);
        assert!(!found.network && !of(&["--url=https://example.com/x"], &[]).network);
        let found = of(&["mods/node_modules/a/node_modules/b/cli.js", "alone.py", "/usr/lib"], &[]);
        assert_eq!(found.read, [at(".venv"), at("alone.py"), at("mods/node_modules")]);
        assert!(found.write.is_empty(), "the system is nobody's to change: {found:?}");
    }

    #[test]
    fn grants_that_no_sandbox_can_give_are_refused() {
        let env = Path::new("/usr/bin/env");
        let refused = |args: &[&str]| Grants::of(&stdio(env, args, Path::new("/")), &[]);
        assert!(matches!(refused(&["/"]), Err(GrantError::Home(_))));
        let dir = tempfile::tempdir().unwrap();
        let npx = dir.path().join("npx");
        std::fs::write(&npx, "").unwrap();
        let runner = Grants::of(&stdio(&npx, &["-y", "x"], dir.path()), &[]);
        assert!(matches!(runner, Err(GrantError::Runner(name)) if name == "npx"));
    }
}
