//! Writes a bundle: it gets its name once every byte of it is on disk.

use std::io::Write as _;
use std::path::Path;

use super::bundle::Files;
use super::{Error, zip};

/// Writes all files into a new directory beside `dir`, then renames it.
///
/// # Errors
/// `dir` exists and is not empty, or a file cannot be written.
pub fn write(files: &Files, dir: &Path) -> Result<(), Error> {
    free(dir)?;
    if zipped(dir) {
        return write_zip(files, dir);
    }
    let occupied = || Error::Occupied(dir.display().to_string());
    let name = dir.file_name().ok_or_else(occupied)?.to_string_lossy().into_owned();
    let part = dir.with_file_name(format!(".{name}.{}.part", std::process::id()));
    let written = write_into(files, &part).and_then(|()| {
        // Renaming a directory onto an empty one replaces it, onto any other fails.
        std::fs::rename(&part, dir).map_err(|e| Error::io(dir, e))?;
        sync_parent(dir)
    });
    if written.is_err() {
        // Removes the rest of a failed export; an error here must not hide the cause.
        drop(std::fs::remove_dir_all(&part));
    }
    written
}

fn write_zip(files: &Files, path: &Path) -> Result<(), Error> {
    let io = |e| Error::io(path, e);
    let bytes = zip::write(files).map_err(io)?;
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(|e| Error::io(parent, e))?;
    }
    let part = path.with_extension(format!("{}.part", std::process::id()));
    let mut file = std::fs::File::create_new(&part).map_err(io)?;
    let written = file.write_all(&bytes).and_then(|()| file.sync_all());
    let written = written.and_then(|()| std::fs::rename(&part, path)).map_err(io);
    let written = written.and_then(|()| sync_parent(path));
    if written.is_err() {
        drop(std::fs::remove_file(&part));
    }
    written
}

fn write_into(files: &Files, part: &Path) -> Result<(), Error> {
    if let Some(parent) = part.parent() {
        std::fs::create_dir_all(parent).map_err(|e| Error::io(parent, e))?;
    }
    std::fs::create_dir(part).map_err(|e| Error::io(part, e))?;
    for (name, bytes) in &files.0 {
        let path = part.join(name);
        let io = |e| Error::io(&path, e);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(io)?;
        }
        let mut file = std::fs::File::create_new(&path).map_err(io)?;
        file.write_all(bytes).map_err(io)?;
    }
    // WHY: a sync per file is a commit of the file system's journal per file, and most of the time of
    // an export. One for all is as safe: the bundle gets its name after it.
    std::fs::File::open(part)
        .and_then(|dir| Ok(rustix::fs::syncfs(&dir)?))
        .map_err(|e| Error::io(part, e))
}

/// Makes the bundle's name durable: an export that was reported survives a power cut.
fn sync_parent(path: &Path) -> Result<(), Error> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    std::fs::File::open(parent)
        .and_then(|parent| parent.sync_all())
        .map_err(|e| Error::io(parent, e))
}

/// Whether a bundle of this name is one `.zip` file.
#[must_use]
pub fn zipped(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zip"))
}

/// Whether a bundle can be written here: the path is free, or an empty directory.
///
/// # Errors
/// The path is occupied.
pub fn free(path: &Path) -> Result<(), Error> {
    let occupied = || Err(Error::Occupied(path.display().to_string()));
    match std::fs::read_dir(path).map(|mut entries| entries.next().is_some()) {
        Ok(true) => occupied(),
        Ok(false) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => occupied(),
        Err(e) => Err(Error::io(path, e)),
    }
}
