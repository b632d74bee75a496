//! Writes the file: canonical lines, and a last line with their digest.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::ExportedRecording;
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::json::Json;

/// The file, with the count and digest for its last line.
pub(super) struct RecordingWriter {
    file: BufWriter<File>,
    hashed: Sha256,
    pub steps: u64,
    bytes: u64,
}

impl RecordingWriter {
    pub fn create(path: &Path) -> std::io::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let options = File::options().write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Self { file: BufWriter::new(options), hashed: Sha256::new(), steps: 0, bytes: 0 })
    }

    pub fn line(&mut self, members: Vec<(&'static str, Json)>) -> std::io::Result<()> {
        let mut line = canonical::bytes(&Json::object(members));
        line.push(b'\n');
        self.hashed.update(&line);
        self.bytes = self.bytes.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
        self.file.write_all(&line)
    }

    pub fn end(mut self) -> std::io::Result<ExportedRecording> {
        let found = Digest::from_bytes(self.hashed.clone().finalize().into());
        self.line(vec![
            ("t", Json::from("end")),
            ("steps", Json::from(self.steps)),
            ("sha256", Json::from(found.prefixed())),
        ])?;
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        let digest = Digest::from_bytes(self.hashed.finalize().into());
        Ok(ExportedRecording { steps: self.steps, bytes: self.bytes, digest })
    }
}
