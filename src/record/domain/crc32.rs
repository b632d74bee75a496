//! The checksum of zip, of gzip and of tokens.

/// CRC-32 as zip and gzip have it (reflected 0xEDB88320). It detects accidents, not attackers.
pub fn crc32(bytes: &[u8]) -> u32 {
    static TABLE: std::sync::OnceLock<Vec<u32>> = std::sync::OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
        (0..=255_u32).map(|byte| (0..8).fold(byte, |crc, _| step(crc))).collect()
    });
    let all = bytes.iter().fold(u32::MAX, |crc, byte| {
        let [low, ..] = crc.to_le_bytes();
        let known = table.get(usize::from(low ^ byte)).copied().unwrap_or_default();
        (crc >> 8) ^ known
    });
    !all
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_check_value_of_the_algorithm() {
        assert_eq!(super::crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(super::crc32(b""), 0);
    }
}
