//! `wicketgate config man`: the manual, a page for each command.

use std::path::PathBuf;

use clap::Command;

use super::{Exit, FileError, fail, programs, say_bytes, write_all};

/// Print the manual page, or write one page for each command.
///
/// With `--out`, the pages of `wicketgate`, of each of its commands and of `wicketgate-verify` are written to
/// that directory.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  wicketgate config man | man -l -\n  wicketgate config man --out /usr/local/share/man/man1"
)]
pub struct Args {
    /// Write all pages to this directory, instead of the first one to standard output
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
}

/// Prints or writes them.
pub fn run(args: &Args) -> Exit {
    match written(args) {
        Ok(()) => Exit::Ok,
        Err(why) => fail(Exit::Invalid, why),
    }
}

fn written(args: &Args) -> Result<(), FileError> {
    let Some(out) = &args.out else {
        let [program, _] = programs();
        say_bytes(&page(program));
        return Ok(());
    };
    let mut pages = Vec::new();
    for mut program in programs() {
        // The names in the synopsis of a command are whole only then.
        program.build();
        let mut open = vec![program];
        while let Some(command) = open.pop() {
            open.extend(command.get_subcommands().filter(|c| !c.is_hide_set()).cloned());
            let name = command.get_display_name().unwrap_or_else(|| command.get_name());
            pages.push((format!("{name}.1"), page(command)));
        }
    }
    write_all(out, &pages)
}

/// One page, in ASCII, so that a viewer need not guess an encoding. It has no date: the same
/// program makes the same bytes.
fn page(command: Command) -> Vec<u8> {
    let source = concat!("wicketgate ", env!("CARGO_PKG_VERSION"));
    let manual = clap_mangen::Man::new(command).section("1").manual("Wicketgate").source(source);
    let mut page = Vec::new();
    // Memory takes whatever is written.
    let _ = manual.render(&mut page);
    let text = String::from_utf8_lossy(&page);
    let escaped = text.chars().map(|c| match c.is_ascii() {
        true => c.to_string(),
        false => format!("\\[u{:04X}]", u32::from(c)),
    });
    escaped.collect::<String>().into_bytes()
}
