//! Whether this machine can isolate the play's command. Where it cannot, the play goes on without it and
//! says so.

use std::path::Path;

use crate::catalog::command::Level;
use crate::tool::sandbox::Levels;

/// The program of the command, as the example binds it.
const PROGRAM: &str = "/usr/bin/wc";

/// Why the command is left out; `None`: it is played. Blocks some milliseconds.
pub fn missing() -> Option<String> {
    let program = Path::new(PROGRAM);
    match program.canonicalize() {
        Err(error) => Some(format!("`{PROGRAM}`: {error}")),
        // One program of many names would not know which of them it is.
        Ok(real) if real.file_name() != program.file_name() => {
            Some(format!("`{PROGRAM}` is `{}`", real.display()))
        }
        Ok(_) => Levels::default().check(Level::S1).err().map(|why| why.to_string()),
    }
}
