//! Checks whether this machine can isolate the demo's command. If not, the demo runs without it and
//! says so.

use std::path::Path;

use crate::catalog::command::Level;
use crate::tool::sandbox::Levels;

/// The program of the command, as the example binds it.
const PROGRAM: &str = "/usr/bin/wc";

/// Why the demo omits the command; `None`: it runs it. Blocks some milliseconds.
pub fn missing() -> Option<String> {
    let program = Path::new(PROGRAM);
    match program.canonicalize() {
        Err(error) => Some(format!("`{PROGRAM}`: {error}")),
        // A program with many names would not know which one to be.
        Ok(real) if real.file_name() != program.file_name() => {
            Some(format!("`{PROGRAM}` is `{}`", real.display()))
        }
        Ok(_) => Levels::default().check(Level::S1).err().map(|why| why.to_string()),
    }
}
