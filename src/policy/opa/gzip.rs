//! One gzip member (RFC 1952), written so that the same bytes make the same file.

use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;

use crate::domain::crc32::crc32;

/// Bytes that are inflated at most: four times the largest bundle.
const INFLATED_MAX: usize = 16 << 20;
/// Magic, deflate, no flags, no time, no extra word, unknown system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
const HEADER_CRC: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;

/// These bytes, compressed.
pub(super) fn write(bytes: &[u8]) -> Vec<u8> {
    let mut out = HEADER.to_vec();
    out.extend(compress_to_vec(bytes, 6));
    out.extend(crc32(bytes).to_le_bytes());
    let size = u32::try_from(bytes.len() & 0xFFFF_FFFF).unwrap_or_default();
    out.extend(size.to_le_bytes());
    out
}

/// The bytes of one member that is the whole file.
pub(super) fn read(file: &[u8]) -> Result<Vec<u8>, &'static str> {
    let body = after_header(file).ok_or("not a gzip file")?;
    let (data, tail) = body.split_last_chunk::<8>().ok_or("the gzip file ends too early")?;
    let [a, b, c, d, e, f, g, h] = *tail;
    let bytes = decompress_to_vec_with_limit(data, INFLATED_MAX)
        .map_err(|_| "the gzip file is damaged, or holds more than 16 MiB")?;
    let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    if crc32(&bytes) == u32::from_le_bytes([a, b, c, d]) && size == u32::from_le_bytes([e, f, g, h])
    {
        Ok(bytes)
    } else {
        Err("the checksum of the gzip file is another")
    }
}

/// The bytes after the header and the optional fields of other writers.
fn after_header(file: &[u8]) -> Option<&[u8]> {
    let (header, mut rest) = file.split_first_chunk::<10>()?;
    let [0x1f, 0x8b, 8, flags, ..] = *header else { return None };
    if flags & EXTRA != 0 {
        let (length, after) = rest.split_first_chunk::<2>()?;
        rest = after.get(usize::from(u16::from_le_bytes(*length))..)?;
    }
    for flag in [NAME, COMMENT] {
        if flags & flag != 0 {
            let end = rest.iter().position(|byte| *byte == 0)?;
            rest = rest.get(end.saturating_add(1)..)?;
        }
    }
    if flags & HEADER_CRC != 0 {
        rest = rest.get(2..)?;
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_reads_back_and_a_damaged_one_does_not() {
        let bytes = b"package wicketgate.agent\n".repeat(40);
        let file = write(&bytes);
        assert_eq!(read(&file).unwrap(), bytes);
        assert_eq!(write(&bytes), file);
        for at in [0, 2, file.len() / 2, file.len() - 8, file.len() - 1] {
            let mut other = file.clone();
            other[at] ^= 1;
            assert!(read(&other).is_err(), "byte {at}");
        }
        assert!(read(&file[..file.len() - 1]).is_err() && read(b"").is_err());
    }

    #[test]
    fn a_header_with_a_name_is_read_too() {
        let mut file = write(b"x");
        file[3] = NAME;
        file.splice(10..10, *b"bundle.tar\0");
        assert_eq!(read(&file).unwrap(), b"x");
    }

    #[test]
    fn a_small_file_that_swells_is_refused() {
        let file = write(&vec![0; INFLATED_MAX + 1]);
        assert!(file.len() < 100_000 && read(&file).is_err());
    }
}
