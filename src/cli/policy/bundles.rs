//! Bundles as commands are given them.

use std::path::Path;

use crate::policy::bundle::Bundle;

/// Reads a bundle: a directory, or the archive that evidence carries.
///
/// # Errors
/// All that is wrong with it, one problem a line.
pub(super) fn read(path: &Path) -> Result<Bundle, String> {
    let shown = path.display();
    if path.is_file() {
        let bytes = std::fs::read(path).map_err(|e| format!("`{shown}`: {e}"))?;
        return Bundle::from_tar(&bytes).map_err(|e| format!("`{shown}`: {e}"));
    }
    Bundle::load(path).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(|e| format!("\n  {e}")).collect();
        format!("`{shown}` does not load:{}", lines.concat())
    })
}
