//! The one archive form of a set of files: ustar, sorted names, mode 0644, no owner, no time.

use std::collections::BTreeMap;
use std::io::Read as _;

use super::fault::Error;

/// Bytes of a name at most: what the first field of a ustar header holds.
pub const NAME_BYTES_MAX: usize = 100;

/// The archive of these files.
///
/// # Errors
/// A name that no archive can have.
pub fn write(files: &BTreeMap<String, Vec<u8>>) -> Result<Vec<u8>, Error> {
    let error = |e: std::io::Error| Error::Archive(e.to_string());
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        builder.append_data(&mut header, name, bytes.as_slice()).map_err(error)?;
    }
    builder.into_inner().map_err(error)
}

/// The files of an archive that equals, byte for byte, the output of [`write()`].
///
/// # Errors
/// Anything else: another form, an entry that is no file, two entries of one name, a name that leaves the archive.
pub fn read(archive: &[u8]) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    let error = |e: std::io::Error| Error::Archive(e.to_string());
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(archive).entries().map_err(error)? {
        let mut entry = entry.map_err(error)?;
        // WHY first: a sparse entry of a few bytes can claim to hold terabytes of zeros.
        let plain = entry.header().entry_type() == tar::EntryType::Regular;
        if !plain || !usize::try_from(entry.size()).is_ok_and(|size| size <= archive.len()) {
            return Err(Error::Archive("an entry that is no regular file of its size".into()));
        }
        let name = entry.path_bytes().into_owned();
        let name = String::from_utf8(name).map_err(|_| Error::Archive("a name".into()))?;
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(error)?;
        if name.starts_with('/') || name.split('/').any(|part| part == "..") {
            return Err(Error::Archive(format!("`{name}` leaves the archive")));
        }
        if files.contains_key(&name) {
            return Err(Error::Archive(format!("two entries are named `{name}`")));
        }
        files.insert(name, bytes);
    }
    if write(&files)? == archive {
        Ok(files)
    } else {
        Err(Error::Archive("not in the deterministic form".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_reads_back_and_any_other_form_of_it_is_refused() {
        let files: BTreeMap<_, _> =
            [("b/x".to_owned(), b"1".to_vec()), ("a".to_owned(), vec![0; 700])].into();
        let archive = write(&files).unwrap();
        assert_eq!(read(&archive).unwrap(), files);
        let mut late = archive.clone();
        late[136] = b'1'; // mtime
        assert!(read(&late).is_err());
        // GNU sparse: one block of no bytes, eight tebibytes away.
        let mut sparse = tar::Header::new_gnu();
        sparse.set_path("a").unwrap();
        sparse.set_entry_type(tar::EntryType::GNUSparse);
        let gnu = sparse.as_gnu_mut().unwrap();
        gnu.sparse[0].set_offset(8 << 40);
        gnu.sparse[0].set_length(0);
        gnu.set_real_size(8 << 40);
        sparse.set_size(0);
        sparse.set_cksum();
        let mut bomb = tar::Builder::new(Vec::new());
        bomb.append(&sparse, std::io::empty()).unwrap();
        let refused = read(&bomb.into_inner().unwrap()).unwrap_err();
        assert!(refused.to_string().contains("no regular file"), "{refused}");
        let mut long = archive;
        long.extend_from_slice(&[0; 512]);
        assert!(read(&long).is_err());
    }
}
