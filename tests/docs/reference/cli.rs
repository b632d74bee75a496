//! The command line: what `--help` prints of every command.

use std::fmt::Write as _;

use clap::Command;

use super::begin;

pub fn page() -> String {
    let mut page = begin("Command line", "the programs' own command tree");
    page.push_str(
        "\nExit codes: 0 ok, 1 invalid or denied, 2 unverifiable, 64 usage, 75 fenced, 78 bad configuration.\n",
    );
    for mut program in wicketgate::cli::programs() {
        program.build();
        command(&program, program.get_name(), &mut page);
    }
    page
}

fn command(command: &Command, name: &str, page: &mut String) {
    let help = command.clone().render_long_help().to_string();
    writeln!(page, "\n## {name}\n\n```text").unwrap();
    for line in help.lines() {
        writeln!(page, "{}", line.trim_end()).unwrap();
    }
    page.push_str("```\n");
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        self::command(below, &format!("{name} {}", below.get_name()), page);
    }
}

#[test]
fn every_command_that_is_shown_has_its_section() {
    let page = page();
    for name in ["wicketgate serve", "wicketgate policy amendments show", "wicketgate-verify"] {
        assert!(page.contains(&format!("\n## {name}\n")), "{name}");
    }
    assert!(!page.contains("quickstart-tools"), "hidden commands are not shown");
}
