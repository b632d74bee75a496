//! A bundle as one `.zip` file: the same files always make the same bytes, and reading distrusts
//! them.
//!
//! Two programs that read one archive may see different files in it, because of a second directory,
//! of contradictory headers, or of bytes that no header covers. So an archive is accepted only if
//! every byte of it belongs to exactly one entry, the directory, or its end, and repeated values
//! agree. Entries are plain files, stored or deflated; nothing is inflated beyond its declared
//! size.

use std::collections::BTreeSet;

use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use super::bundle::{BYTES_MAX, FILE_BYTES_MAX, FILES_MAX, Files, plain};
use crate::domain::crc32::crc32;
use crate::entries::Damage;

const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const DESCRIPTOR: u32 = 0x0807_4b50;
const LOCAL_BYTES: usize = 30;
const CENTRAL_BYTES: usize = 46;
const END_BYTES: usize = 22;
/// Sizes follow the data.
const FLAG_DESCRIPTOR: u16 = 1 << 3;
/// Deflater effort (1, 2), sizes after the data (3), names in UTF-8 (11): the flags that do not
/// matter here. All others, above all encryption, are refused.
const FLAGS: u16 = 0b0000_1000_0000_1110;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
/// Extra fields that repeat sizes (zip64) or the name (Unicode path).
const SECOND_WORDS: [u16; 2] = [0x0001, 0x7075];
/// The highest compression ratio of a file. Our own files stay below half of it.
const RATIO_MAX: u64 = 200;
/// A file up to this size may exceed the ratio.
const RATIO_FREE: u64 = 64 << 10;
/// 1980-01-01: the first day that an archive can express.
const DAY_ONE: u16 = 0x0021;
/// Made on Unix, by version 2.0 of the format.
const MADE_BY: u16 = 0x0314;
/// `-rw-r--r--`, a plain file.
const MODE: u32 = 0o100_644;

/// The files as an archive: sorted, without times, the same bytes every time.
///
/// # Errors
/// There are too many or too large files for an archive without extensions.
pub fn write(files: &Files) -> Result<Vec<u8>, std::io::Error> {
    let too_large = || std::io::Error::other("too large for a zip archive");
    let size = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(|_| too_large());
    let mut out = Vec::new();
    let mut directory = Vec::new();
    for (name, bytes) in &files.0 {
        let offset = size(&out)?;
        let deflated = compress_to_vec(bytes, 6);
        let small = deflated.len() < bytes.len();
        let is_plausible = length(bytes) / 100 <= length(&deflated);
        let (method, data) = if small && is_plausible {
            (DEFLATED, deflated.as_slice())
        } else {
            (STORED, bytes.as_slice())
        };
        let mut common = Vec::new();
        put16(&mut common, &[20, 0, method, 0, DAY_ONE]);
        put32(&mut common, &[crc32(bytes), size(data)?, size(bytes)?]);
        put16(&mut common, &[u16::try_from(name.len()).map_err(|_| too_large())?, 0]);
        put32(&mut out, &[LOCAL]);
        out.extend_from_slice(&common);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(data);
        put32(&mut directory, &[CENTRAL]);
        put16(&mut directory, &[MADE_BY]);
        directory.extend_from_slice(&common);
        put16(&mut directory, &[0, 0, 0]);
        put32(&mut directory, &[MODE << 16, offset]);
        directory.extend_from_slice(name.as_bytes());
    }
    let count = u16::try_from(files.0.len()).ok().filter(|n| *n < u16::MAX);
    let count = count.ok_or_else(too_large)?;
    let (start, bytes) = (size(&out)?, size(&directory)?);
    out.extend_from_slice(&directory);
    put32(&mut out, &[END]);
    put16(&mut out, &[0, 0, count, count]);
    put32(&mut out, &[bytes, start]);
    put16(&mut out, &[0]);
    Ok(out)
}

fn put16(out: &mut Vec<u8>, values: &[u16]) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
}

fn put32(out: &mut Vec<u8>, values: &[u32]) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// Why an archive is not read.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("`{0}`: {1}")]
    Entry(String, #[source] Box<Self>),
    #[error("{0} bytes when unpacked; the maximum is {BYTES_MAX}")]
    Total(u64),
    #[error("`{name}` begins at {found}, expected {expected}")]
    Begins { name: String, found: usize, expected: usize },
    #[error("bytes before the directory belong to no file, from offset {0}")]
    Before(usize),
    #[error("too short for an archive")]
    Short,
    #[error("it does not end with an end-of-directory record")]
    End,
    #[error("it is part of a multi-volume archive")]
    Volumes,
    #[error("{0} files or more; there must be fewer than {FILES_MAX}")]
    Files(u16),
    #[error("the directory is not where its end says, or has an extension (zip64)")]
    Directory,
    #[error("the directory's bytes are not the expected ones")]
    DirectoryBytes,
    #[error("the directory has fewer entries than it says")]
    DirectoryShort,
    #[error("a comment, or another volume")]
    Comment,
    #[error("encrypted, or with unsupported flags")]
    Flags,
    #[error("a malformed extra field")]
    Extra,
    #[error("sizes or a name in an extra field")]
    Twofold,
    #[error("a link, or not a plain file")]
    Mode,
    #[error("{0} bytes; the maximum is {FILE_BYTES_MAX}")]
    Size(u64),
    #[error("{packed} bytes would inflate to {size}: the ratio is too high")]
    Ratio { packed: u64, size: u64 },
    #[error("not a plain file name")]
    Name,
    #[error("in the archive twice")]
    Twice,
    #[error("`{0}` is a file and a folder")]
    Folder(String),
    #[error("its header and the directory contradict each other")]
    Header,
    #[error("it runs into what follows it")]
    Overlap,
    #[error("it runs beyond the archive")]
    Beyond,
    #[error("neither stored nor deflated")]
    Method,
    #[error("its checksum does not match")]
    Checksum,
    #[error("bytes after it belong to no file")]
    After,
    #[error("what follows it and the directory contradict each other")]
    Descriptor,
    #[error("it does not inflate to exactly {0} bytes")]
    Inflate(usize),
    #[error("it ends in the middle of a header")]
    Cut,
    #[error("sizes in an extension (zip64)")]
    Zip64,
    #[error("a name that is not UTF-8")]
    Text,
}

impl Error {
    /// This error, for the entry of this name.
    fn of(self, name: &str) -> Self {
        Self::Entry(name.escape_default().to_string(), Box::new(self))
    }
}

/// The directory's record of one entry.
struct Entry {
    name: String,
    flags: u16,
    method: u16,
    crc: u32,
    packed: usize,
    size: usize,
    offset: usize,
}

/// Reads an archive.
///
/// # Errors
/// `B2`, and the flaw.
pub fn read(archive: &[u8]) -> Result<Files, Damage> {
    unpack(archive).map_err(|why| Damage::new("B2", format!("the archive: {why}")))
}

fn unpack(archive: &[u8]) -> Result<Files, Error> {
    let (entries, start) = directory(archive)?;
    names(&entries)?;
    let total: u64 = entries.iter().map(|entry| to_u64(entry.size)).sum();
    if total > BYTES_MAX {
        return Err(Error::Total(total));
    }
    let mut order: Vec<&Entry> = entries.iter().collect();
    order.sort_by_key(|entry| entry.offset);
    let mut files = Files::default();
    let mut at = 0;
    for (place, entry) in order.iter().enumerate() {
        let next = order.get(place.saturating_add(1)).map_or(start, |next| next.offset);
        if entry.offset != at {
            let (name, found) = (entry.name.clone(), entry.offset);
            return Err(Error::Begins { name, found, expected: at });
        }
        let bytes = content(archive, entry, next).map_err(|why| why.of(&entry.name))?;
        at = next;
        if !entry.name.ends_with('/') {
            files.0.insert(entry.name.clone(), bytes);
        }
    }
    if at != start {
        return Err(Error::Before(at));
    }
    Ok(files)
}

/// The directory at the end, and where it begins.
fn directory(archive: &[u8]) -> Result<(Vec<Entry>, usize), Error> {
    let end_at = archive.len().checked_sub(END_BYTES).ok_or(Error::Short)?;
    let end = Fields { bytes: archive, at: end_at };
    if end.u32(0)? != END || end.u16(20)? != 0 {
        return Err(Error::End);
    }
    let (count, start, size) = (end.u16(10)?, end.size(16)?, end.size(12)?);
    if end.u16(4)? != 0 || end.u16(6)? != 0 || end.u16(8)? != count {
        return Err(Error::Volumes);
    }
    if usize::from(count) >= FILES_MAX {
        return Err(Error::Files(count));
    }
    if start.checked_add(size) != Some(end_at) {
        return Err(Error::Directory);
    }
    let mut entries = Vec::new();
    let mut at = start;
    for _ in 0..count {
        let (entry, next) = central(archive, at)?;
        entries.push(entry);
        at = next;
    }
    if at == end_at { Ok((entries, start)) } else { Err(Error::DirectoryBytes) }
}

fn central(archive: &[u8], at: usize) -> Result<(Entry, usize), Error> {
    let fields = Fields { bytes: archive, at };
    if fields.u32(0)? != CENTRAL {
        return Err(Error::DirectoryShort);
    }
    let (name_len, extra_len) = (fields.u16(28)?, fields.u16(30)?);
    let name = fields.text(CENTRAL_BYTES, name_len)?;
    let extra = fields.slice(CENTRAL_BYTES.saturating_add(name_len.into()), extra_len)?;
    let refuse = |why: Error| Err(why.of(&name));
    if fields.u16(32)? != 0 || fields.u16(34)? != 0 {
        return refuse(Error::Comment);
    }
    let flags = fields.u16(8)?;
    if flags & !FLAGS != 0 {
        return refuse(Error::Flags);
    }
    once(extra).map_err(|why| why.of(&name))?;
    let mode = fields.u32(38)? >> 16;
    // Systems other than Unix leave the mode empty, and have no links.
    let kind = mode & 0o170_000;
    let expected = if name.ends_with('/') { 0o040_000 } else { 0o100_000 };
    if kind != 0 && kind != expected {
        return refuse(Error::Mode);
    }
    let entry = Entry {
        flags,
        method: fields.u16(10)?,
        crc: fields.u32(16)?,
        packed: fields.size(20)?,
        size: fields.size(24)?,
        offset: fields.size(42)?,
        name,
    };
    let (packed, size) = (to_u64(entry.packed), to_u64(entry.size));
    if size > FILE_BYTES_MAX {
        return Err(Error::Size(size).of(&entry.name));
    }
    if size > RATIO_FREE && size / RATIO_MAX > packed {
        return Err(Error::Ratio { packed, size }.of(&entry.name));
    }
    let next = at.saturating_add(CENTRAL_BYTES).saturating_add(name_len.into());
    Ok((entry, next.saturating_add(extra_len.into())))
}

/// No extra field repeats a name or a size, and none is malformed.
fn once(extra: &[u8]) -> Result<(), Error> {
    let mut rest = extra;
    while !rest.is_empty() {
        let (Some((id, after)), true) = (rest.split_first_chunk::<2>(), rest.len() >= 4) else {
            return Err(Error::Extra);
        };
        if SECOND_WORDS.contains(&u16::from_le_bytes(*id)) {
            return Err(Error::Twofold);
        }
        let Some((len, after)) = after.split_first_chunk::<2>() else {
            return Err(Error::Extra);
        };
        match after.split_at_checked(u16::from_le_bytes(*len).into()) {
            Some((_, after)) => rest = after,
            None => return Err(Error::Extra),
        }
    }
    Ok(())
}

/// Every name is plain, unique in any spelling, and not a folder of another.
fn names(entries: &[Entry]) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for entry in entries {
        let name = entry.name.strip_suffix('/').unwrap_or(&entry.name);
        if !plain(name) {
            return Err(Error::Name.of(&entry.name));
        }
        if !seen.insert(entry.name.to_ascii_lowercase()) {
            return Err(Error::Twice.of(&entry.name));
        }
    }
    for entry in entries {
        let lower = entry.name.to_ascii_lowercase();
        let mut folders = lower.match_indices('/').filter_map(|(at, _)| lower.get(..at));
        if let Some(folder) = folders.find(|folder| seen.contains(*folder)) {
            return Err(Error::Folder(folder.to_owned()));
        }
    }
    Ok(())
}

/// The bytes of an entry, whose place in the archive ends at `next`.
fn content(archive: &[u8], entry: &Entry, next: usize) -> Result<Vec<u8>, Error> {
    let local = Fields { bytes: archive, at: entry.offset };
    let (name_len, extra_len) = (local.u16(26)?, local.u16(28)?);
    let described = entry.flags & FLAG_DESCRIPTOR != 0;
    let sizes = (local.u32(14)?, local.size(18)?, local.size(22)?);
    let header = (entry.crc, entry.packed, entry.size);
    let same = local.u32(0)? == LOCAL
        && local.u16(6)? == entry.flags
        && local.u16(8)? == entry.method
        && (sizes == header || (described && sizes == (0, 0, 0)))
        && local.text(LOCAL_BYTES, name_len)? == entry.name;
    if !same {
        return Err(Error::Header);
    }
    let extra_at = LOCAL_BYTES.saturating_add(name_len.into());
    once(local.slice(extra_at, extra_len)?)?;
    let data_at = entry.offset.saturating_add(extra_at).saturating_add(extra_len.into());
    let data_end = data_at.checked_add(entry.packed).filter(|end| *end <= next);
    let data_end = data_end.ok_or(Error::Overlap)?;
    descriptor(archive, data_end, next, described.then_some(entry))?;
    let data = archive.get(data_at..data_end).ok_or(Error::Beyond)?;
    let bytes = match entry.method {
        STORED if entry.packed == entry.size => data.to_vec(),
        DEFLATED => inflate(data, entry.size)?,
        _ => return Err(Error::Method),
    };
    if crc32(&bytes) == entry.crc { Ok(bytes) } else { Err(Error::Checksum) }
}

/// The bytes between an entry's data and the next entry: none, or its sizes again.
fn descriptor(archive: &[u8], at: usize, next: usize, entry: Option<&Entry>) -> Result<(), Error> {
    let Some(entry) = entry else {
        return if at == next { Ok(()) } else { Err(Error::After) };
    };
    let signed = match next.checked_sub(at) {
        Some(16) => 4,
        Some(12) => 0,
        _ => return Err(Error::After),
    };
    let fields = Fields { bytes: archive, at };
    let begins = signed == 0 || fields.u32(0)? == DESCRIPTOR;
    let fields = Fields { bytes: archive, at: at.saturating_add(signed) };
    let described = (fields.u32(0)?, fields.size(4)?, fields.size(8)?);
    if begins && described == (entry.crc, entry.packed, entry.size) {
        Ok(())
    } else {
        Err(Error::Descriptor)
    }
}

/// Inflates exactly `size` bytes out of exactly `data`.
fn inflate(data: &[u8], size: usize) -> Result<Vec<u8>, Error> {
    let mut out = vec![0; size];
    let mut state = Box::<DecompressorOxide>::default();
    let flags = TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
    let (status, read, written) = decompress(&mut state, data, &mut out, 0, flags);
    if status == TINFLStatus::Done && read == data.len() && written == size {
        Ok(out)
    } else {
        Err(Error::Inflate(size))
    }
}

/// Little-endian fields from one place on.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Fields<'_> {
    fn slice(&self, offset: usize, len: u16) -> Result<&[u8], Error> {
        let from = self.at.saturating_add(offset);
        let slice = self.bytes.get(from..from.saturating_add(len.into()));
        slice.ok_or(Error::Cut)
    }

    fn u16(&self, offset: usize) -> Result<u16, Error> {
        let raw = <[u8; 2]>::try_from(self.slice(offset, 2)?).map_err(|_| Error::Cut)?;
        Ok(u16::from_le_bytes(raw))
    }

    fn u32(&self, offset: usize) -> Result<u32, Error> {
        let raw = <[u8; 4]>::try_from(self.slice(offset, 4)?).map_err(|_| Error::Cut)?;
        Ok(u32::from_le_bytes(raw))
    }

    /// A size or offset; all ones would refer to an extension.
    fn size(&self, offset: usize) -> Result<usize, Error> {
        let value = self.u32(offset)?;
        let value = usize::try_from(value).ok().filter(|_| value != u32::MAX);
        value.ok_or(Error::Zip64)
    }

    fn text(&self, offset: usize, len: u16) -> Result<String, Error> {
        let text = std::str::from_utf8(self.slice(offset, len)?);
        text.map(str::to_owned).map_err(|_| Error::Text)
    }
}

fn to_u64(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}
