//! The output of a command, up to a bound.

use base64::Engine as _;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::domain::json::Json;
use crate::domain::outcome::Opaque;

/// Bytes per read.
const PIECE: usize = 16 << 10;

/// Why reading stopped before the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Error {
    /// The command wrote more than the limit.
    TooMuch,
    /// The stream cannot be read.
    Lost,
}

/// The beginning of a stream, or the whole of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Output {
    /// The bytes kept, up to the limit.
    pub bytes: Vec<u8>,
    /// Whether more bytes followed.
    pub cut: bool,
}

impl Output {
    /// The output as text, or as base64 if it is not text. If the firewall cannot scan all of it,
    /// also the reason.
    pub fn member(
        &self,
        text: &'static str,
        base64: &'static str,
    ) -> ((&'static str, Json), Option<Opaque>) {
        match std::str::from_utf8(&self.bytes) {
            Ok(written) => ((text, Json::from(written)), self.cut.then_some(Opaque::Cut)),
            Err(_) => {
                let engine = base64::engine::general_purpose::STANDARD;
                ((base64, Json::from(engine.encode(&self.bytes))), Some(Opaque::Binary))
            }
        }
    }
}

/// Reads to the end; keeps `kept` bytes, and fails beyond `most`.
pub(super) async fn read(
    from: Option<impl AsyncRead + Unpin>,
    kept: u64,
    most: u64,
) -> Result<Output, Error> {
    let Some(mut from) = from else { return Err(Error::Lost) };
    let mut output = Output::default();
    let mut piece = vec![0; PIECE];
    let mut seen = 0_u64;
    loop {
        let read = from.read(&mut piece).await.map_err(|_| Error::Lost)?;
        if read == 0 {
            return Ok(output);
        }
        seen = seen.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        if seen > most {
            return Err(Error::TooMuch);
        }
        let capacity =
            usize::try_from(kept).unwrap_or(usize::MAX).saturating_sub(output.bytes.len());
        output.cut |= read > capacity;
        output.bytes.extend_from_slice(piece.get(..read.min(capacity)).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stream_is_kept_up_to_a_bound_and_read_up_to_another() {
        let kept = read(Some(&b"abcdef"[..]), 4, 6).await.unwrap();
        assert_eq!((kept.bytes.as_slice(), kept.cut), (&b"abcd"[..], true));
        assert_eq!(read(Some(&b"abcdefg"[..]), 4, 6).await, Err(Error::TooMuch));
        let whole = read(Some(&b"abcd"[..]), 4, 4).await.unwrap();
        assert!(!whole.cut);
    }

    #[test]
    fn what_is_no_text_is_shown_in_base64() {
        let binary = Output { bytes: vec![0xff, b'a'], cut: false };
        let shown = ("stdout_base64", Json::from("/2E="));
        assert_eq!(binary.member("stdout", "stdout_base64"), (shown, Some(Opaque::Binary)));
        let cut = Output { bytes: b"ann@ex".to_vec(), cut: true };
        let shown = ("stdout", Json::from("ann@ex"));
        assert_eq!(cut.member("stdout", "stdout_base64"), (shown, Some(Opaque::Cut)));
    }
}
