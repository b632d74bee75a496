//! The operator's check of a command tool: whether its programs are the pinned ones, and whether
//! this machine can isolate them.

use super::{MISMATCH, open};
use crate::catalog::command::{Command as Binding, Level, Program};
use crate::tool::probe::{Point, ProbeState};
use crate::tool::sandbox::Levels;

/// Hashes the programs and tries to break out of the sandbox. Runs none of the programs. Blocks.
pub fn probe(binding: &Binding, levels: &Levels) -> Vec<Point> {
    let programs = std::iter::once(&binding.program).chain(&binding.children);
    let groups = cgroups(binding.limits.together, levels);
    programs.map(program).chain([sandbox(binding.level, levels), groups]).collect()
}

fn program(program: &Program) -> Point {
    let what = program.path.display().to_string();
    match open(program) {
        Ok(_) => Point::ready(what, format!("is {}", program.digest.prefixed())),
        Err(reason) if reason.detail == MISMATCH => {
            let todo = "look at what it is now, then let the gate read its configuration again";
            Point::wrong(what, ProbeState::Drifted, reason.message, todo)
        }
        Err(reason) => {
            Point::wrong(what, ProbeState::Missing, reason.message, "install it, or name another")
        }
    }
}

fn sandbox(level: Level, levels: &Levels) -> Point {
    let what = format!("sandbox {}", level.as_str());
    match levels.check(level) {
        Ok(()) => Point::ready(what, "a probe inside could break out of nothing; one processor"),
        Err(why) => {
            let todo = match level {
                Level::S1 => "use a Linux with Landlock (ABI 3) and seccomp",
                Level::S2 => {
                    "let the gate's user make user namespaces, or demand `sandbox: S1` of the command"
                }
            };
            Point::wrong(what, ProbeState::Unavailable, why.to_string(), todo)
        }
    }
}

fn cgroups(demanded: bool, levels: &Levels) -> Point {
    let what = "cgroups";
    match levels.cgroups() {
        Ok(groups) => {
            let held = groups.held();
            Point::ready(what, format!("limits hold for all processes together: {held}"))
        }
        Err(why) if demanded => {
            let todo =
                "give the gate a group it may make groups in, or take `cgroup: required` out";
            Point::wrong(what, ProbeState::Unavailable, why.to_string(), todo)
        }
        Err(why) => {
            let found = format!("{why}; limits hold for each process");
            Point { what: what.into(), state: ProbeState::Skipped, found, todo: None }
        }
    }
}
