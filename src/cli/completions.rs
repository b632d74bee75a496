//! `wicketgate config completions`: scripts for a shell's tab completion.

use std::path::PathBuf;

use clap::Command;
use clap_complete::Shell;

use super::{Exit, fail, programs, say_bytes, write_all};

/// Print completions for bash, zsh or fish.
///
/// With `--out`, the scripts for `wicketgate` and `wicketgate-verify` are written to that directory, under the
/// file names that the shell expects.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  source <(wicketgate config completions bash)\n  wicketgate config completions zsh --out ~/.zsh/completions"
)]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: TestedShell,
    /// Write the scripts of both programs to this directory, instead of standard output
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
}

/// The shells whose scripts are tested.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum TestedShell {
    Bash,
    Zsh,
    Fish,
}

impl TestedShell {
    const fn shell(self) -> Shell {
        match self {
            Self::Bash => Shell::Bash,
            Self::Zsh => Shell::Zsh,
            Self::Fish => Shell::Fish,
        }
    }
}

/// Prints or writes them.
pub fn run(args: &Args) -> Exit {
    use clap_complete::Generator as _;
    let shell = args.shell.shell();
    let made = programs().map(|program| {
        let mut program = shown(program);
        let name = program.get_name().to_owned();
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut program, &name, &mut script);
        (shell.file_name(&name), script)
    });
    match &args.out {
        None => say_bytes(&made[0].1),
        Some(out) => {
            if let Err(why) = write_all(out, &made) {
                return fail(Exit::Invalid, why);
            }
        }
    }
    Exit::Ok
}

/// The command line without hidden commands: scripts offer every command of a tree.
fn shown(of: Command) -> Command {
    let of = of.mut_subcommands(shown);
    if !of.get_subcommands().any(Command::is_hide_set) {
        return of;
    }
    let listed = of.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let bare = Command::new(of.get_name().to_owned()).disable_help_subcommand(true);
    let bare = match of.get_version() {
        Some(version) => bare.version(version.to_owned()),
        None => bare,
    };
    bare.about(of.get_about().cloned().unwrap_or_default()).subcommands(listed)
}
