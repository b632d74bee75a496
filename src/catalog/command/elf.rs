//! Reads the header of a program: whether it is one, and its loader.

use std::path::PathBuf;

/// Bytes of the longest name of a loader.
const INTERPRETER_MAX: usize = 4096;
/// The program header that names the loader.
const PT_INTERP: u32 = 3;

/// What a file is instead of a program that can be pinned; follows its name in a sentence.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ElfError {
    /// A script: its interpreter would run unpinned.
    #[error("is a script: bind its interpreter, with the script as a literal")]
    Script,
    /// Something else, or a program of another machine.
    #[error("is not a 64-bit ELF program")]
    NoElf,
    /// A header that points outside of the file.
    #[error("has a broken ELF header")]
    Broken,
    /// A loader that depends on where the program is started.
    #[error("names a loader by a relative path")]
    Relative,
}

/// A program in ELF, 64 bits, little-endian.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Elf {
    /// The loader that its header names, if it is linked dynamically.
    pub interpreter: Option<PathBuf>,
}

/// Reads the header of a program.
///
/// # Errors
/// See [`ElfError`].
pub fn inspect(bytes: &[u8]) -> Result<Elf, ElfError> {
    if bytes.starts_with(b"#!") {
        return Err(ElfError::Script);
    }
    // Magic, class 2 (64 bits), data 1 (little-endian).
    if !bytes.starts_with(&[0x7f, b'E', b'L', b'F', 2, 1]) {
        return Err(ElfError::NoElf);
    }
    let broken = || ElfError::Broken;
    let table = usize::try_from(number(bytes, 32, 8).ok_or_else(broken)?).map_err(|_| broken())?;
    let size = usize::try_from(number(bytes, 54, 2).ok_or_else(broken)?).map_err(|_| broken())?;
    let count = usize::try_from(number(bytes, 56, 2).ok_or_else(broken)?).map_err(|_| broken())?;
    for i in 0..count {
        let at = i.checked_mul(size).and_then(|offset| table.checked_add(offset));
        let at = at.ok_or_else(broken)?;
        if number(bytes, at, 4).ok_or_else(broken)? != u64::from(PT_INTERP) {
            continue;
        }
        let field = |offset: usize| {
            let value = number(bytes, at.checked_add(offset)?, 8)?;
            usize::try_from(value).ok()
        };
        let (from, length) = (field(8).ok_or_else(broken)?, field(32).ok_or_else(broken)?);
        let end = from.checked_add(length.min(INTERPRETER_MAX)).ok_or_else(broken)?;
        let name = bytes.get(from..end).ok_or_else(broken)?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = std::str::from_utf8(name).map_err(|_| broken())?;
        if !name.starts_with('/') {
            return Err(ElfError::Relative);
        }
        return Ok(Elf { interpreter: Some(PathBuf::from(name)) });
    }
    Ok(Elf { interpreter: None })
}

/// A little-endian number of this many bytes, at most eight.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let piece = bytes.get(at..at.checked_add(length)?)?;
    Some(piece.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)))
}
