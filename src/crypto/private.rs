//! Files with secrets: whether other users may read or change them.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// The most bytes of a file of secrets.
pub const BYTES_MAX: u64 = 64 * 1024;

/// The uid of root, and so of kubelet.
const ROOT: u32 = 0;

/// Why a file of secrets is refused; continues a sentence after the file's name.
#[derive(Debug, thiserror::Error)]
pub enum Unused {
    /// The system cannot read it.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// Other users may use it; its permission bits.
    #[error("has mode {0:o}: only its owner may read it (chmod 600)")]
    Mode(u32),
    /// The same for a file in a Kubernetes volume.
    #[error(
        "has mode {0:o}: only the pod's own user and group may read it (`defaultMode: 0440`, and `fsGroup`)"
    )]
    Volume(u32),
    /// It exceeds this number of bytes.
    #[error("has more than {0} bytes")]
    Size(u64),
    /// It is no key.
    #[error("has no key: expected 32 bytes in base64 or hex")]
    Key,
    /// It is not UTF-8.
    #[error("is not text")]
    Text,
}

/// A file of secrets that is refused.
#[derive(Debug, thiserror::Error)]
#[error("`{}` {why}", path.display())]
pub struct Error {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    #[source]
    pub why: Unused,
}

/// A process that reads a file of secrets.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Reader {
    uid: u32,
    /// Its own group and its supplementary groups.
    groups: Vec<u32>,
}

/// The facts that decide about a file of secrets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Facts {
    mode: u32,
    uid: u32,
    gid: u32,
    /// Whether kubelet wrote it, in a volume of the pod.
    kubelet: bool,
}

/// The permission bits of a file of secrets, if users other than its owner may use it; `None` if
/// the file is safe.
///
/// | file | its owner | mode |
/// |---|---|---|
/// | any | any | 0600 or less |
/// | with a group of the reader's | root, and the reader is not root | as above, and the group may read |
/// | with a group of the reader's, laid by kubelet | root or the reader | as above, and the group may read |
///
/// So a Secret or projected volume of Kubernetes is accepted as kubelet writes it for a pod with
/// `fsGroup`: the group is the pod's, and an unprivileged process cannot take a file out of that
/// group. Kubelet gives a projected token to the pod's own uid. A file that all users may read, or
/// a group may write, is always refused. That includes kubelet's own default mode for volumes,
/// 0644.
fn exposed(file: Facts, reader: &Reader) -> Option<u32> {
    let mode = file.mode & 0o777;
    let group_reads = mode & 0o037 == 0 && reader.groups.contains(&file.gid);
    let roots = file.uid == 0 && reader.uid != 0;
    let volumes = file.kubelet && (file.uid == 0 || file.uid == reader.uid);
    let is_private = mode & 0o077 == 0 || (group_reads && (roots || volumes));
    (!is_private).then_some(mode)
}

/// Whether this file, with links resolved, is where kubelet puts the files of a volume: in
/// `..<time>`, the target of `..data` beside it, in a directory of this owner.
fn laid(real: &Path, owner: u32) -> bool {
    real.ancestors().skip(1).any(|data| {
        let name = data.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let timed = name
            .strip_prefix("..")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        let Some(volume) = data.parent().filter(|_| timed) else { return false };
        let is_current =
            std::fs::read_link(volume.join("..data")).is_ok_and(|to| to == Path::new(name));
        is_current && volume.symlink_metadata().is_ok_and(|facts| facts.uid() == owner)
    })
}

/// Opens a file through its links, and returns its real path. Kubelet may swap a volume in between;
/// then it tries once more.
fn opened(path: &Path) -> io::Result<(File, PathBuf)> {
    let open = || {
        let real = path.canonicalize()?;
        File::open(&real).map(|file| (file, real))
    };
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => open(),
        other => other,
    }
}

/// Reads a file of secrets and its metadata. The checks use the open file, so they apply to the
/// bytes that are read.
///
/// # Errors
/// [`Unused`]: other users may use it (see the modes in `docs/security/keys.md`), or it has more
/// than `bytes_max` bytes.
pub fn read(path: &Path, bytes_max: u64) -> Result<(Metadata, Zeroizing<Vec<u8>>), Unused> {
    let (file, real) = opened(path)?;
    let facts = file.metadata()?;
    let (mode, uid, gid) = (facts.mode(), facts.uid(), facts.gid());
    let file_facts = Facts { mode, uid, gid, kubelet: laid(&real, ROOT) };
    if let Some(mode) = exposed(file_facts, &reader()) {
        return Err(if file_facts.kubelet { Unused::Volume(mode) } else { Unused::Mode(mode) });
    }
    let mut bytes = Zeroizing::new(Vec::new());
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > bytes_max {
        return Err(Unused::Size(bytes_max));
    }
    Ok((facts, bytes))
}

/// The text of a file of secrets, unchanged.
///
/// # Errors
/// As [`read`], or it is not text; names the file.
pub fn text(path: &Path) -> Result<Zeroizing<String>, Error> {
    let named = |why| Error { path: path.to_owned(), why };
    let (_, bytes) = read(path, BYTES_MAX).map_err(named)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| named(Unused::Text))?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// A key of 32 bytes, in base64 or hex.
///
/// # Errors
/// As [`text`], or it is no such key; names the file.
pub fn key(path: &Path) -> Result<Zeroizing<[u8; 32]>, Error> {
    let line = line(path)?;
    let bytes =
        if line.len() == 64 { hex::decode(&*line).ok() } else { STANDARD.decode(&*line).ok() };
    let key =
        bytes.map(Zeroizing::new).and_then(|bytes| <[u8; 32]>::try_from(bytes.as_slice()).ok());
    key.map(Zeroizing::new).ok_or_else(|| Error { path: path.to_owned(), why: Unused::Key })
}

/// As [`text`], without surrounding space: a URL, a token.
///
/// # Errors
/// As [`text`].
pub fn line(path: &Path) -> Result<Zeroizing<String>, Error> {
    text(path).map(|text| Zeroizing::new(text.trim().to_owned()))
}

fn reader() -> Reader {
    let own = rustix::process::getegid();
    let more = rustix::process::getgroups().unwrap_or_default();
    let groups = std::iter::once(own).chain(more).map(rustix::process::Gid::as_raw).collect();
    Reader { uid: rustix::process::geteuid().as_raw(), groups }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_its_owner_may_use_a_file_of_ones_own() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (mode, accepted) in
            [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o620, false)]
        {
            file.as_file().set_permissions(std::fs::Permissions::from_mode(mode)).unwrap();
            let read = read(file.path(), BYTES_MAX);
            assert_eq!(read.is_ok(), accepted, "{mode:o}: {:?}", read.err());
        }
    }

    /// Which of all 512 modes are safe for a file of this owner and group, for a gate of the chart:
    /// uid 65532, whose groups are 65532 and the pod's `fsGroup` 2000.
    fn accepted_modes(uid: u32, gid: u32, kubelet: bool, root: bool) -> Vec<u32> {
        let reader = Reader { uid: if root { 0 } else { 65532 }, groups: vec![65532, 2000] };
        (0..0o1000)
            .filter(|mode| {
                exposed(Facts { mode: 0o100_000 | mode, uid, gid, kubelet }, &reader).is_none()
            })
            .collect()
    }

    #[test]
    fn a_file_of_secrets_is_taken_as_kubelet_writes_it_and_in_no_other_mode_of_any_owner_and_group()
    {
        let owners_alone: Vec<u32> = (0..0o1000).filter(|mode| mode & 0o077 == 0).collect();
        let group_reads: Vec<u32> =
            (0..0o1000).filter(|mode| matches!(mode & 0o077, 0 | 0o040)).collect();
        let (mine, roots, others, pods, strange) = (65532, 0, 1000, 2000, 3000);
        for (uid, gid, kubelet, root) in [mine, roots, others]
            .into_iter()
            .flat_map(|uid| [pods, 65532, strange].map(|gid| (uid, gid)))
            .flat_map(|(uid, gid)| {
                [(true, true), (true, false), (false, true), (false, false)]
                    .map(|(k, r)| (uid, gid, k, r))
            })
        {
            let group = gid != strange;
            let expected = match (uid, kubelet, root) {
                // A volume: files of root and of the pod's own user.
                (0, true, _) | (65532, true, false) if group => &group_reads,
                // A root-owned file on a host, for a process that cannot own it.
                (0, false, false) if group => &group_reads,
                _ => &owners_alone,
            };
            assert_eq!(
                &accepted_modes(uid, gid, kubelet, root),
                expected,
                "uid {uid} gid {gid} kubelet {kubelet} root {root}"
            );
        }
        // The modes that kubelet writes: fsGroup with `defaultMode` 0440, 0640 and 0400, a
        // projected token, one without fsGroup.
        for (uid, mode) in
            [(roots, 0o440), (roots, 0o640), (roots, 0o400), (mine, 0o640), (mine, 0o600)]
        {
            assert!(accepted_modes(uid, pods, true, false).contains(&mode), "{uid} {mode:o}");
        }
        // Every user of the container can read kubelet's own default mode.
        assert!(!accepted_modes(roots, pods, true, false).contains(&0o644));
    }

    #[test]
    fn a_volume_of_kubelets_is_known_by_its_links_and_by_whose_directory_it_is() {
        use std::os::unix::fs::symlink;

        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().metadata().unwrap().uid();
        let timed = dir.path().join("..2026_11_22_10_00_00.123456789");
        std::fs::create_dir_all(timed.join("nested")).unwrap();
        std::fs::write(timed.join("token"), "t").unwrap();
        std::fs::write(timed.join("nested/token"), "t").unwrap();
        std::fs::write(dir.path().join("beside"), "t").unwrap();
        symlink("..data/token", dir.path().join("token")).unwrap();
        symlink("..data/nested", dir.path().join("nested")).unwrap();
        let real = |name: &str| opened(&dir.path().join(name)).map(|(_, real)| real);
        assert!(real("token").is_err(), "leads nowhere yet");
        symlink(timed.file_name().unwrap(), dir.path().join("..data")).unwrap();
        for (name, inside) in [("token", true), ("nested/token", true), ("beside", false)] {
            assert_eq!(laid(&real(name).unwrap(), own), inside, "{name}");
            assert!(!laid(&real(name).unwrap(), own + 1), "another's directory: {name}");
        }
        // A directory with a similar name, and the previous one, which was swapped out.
        std::fs::create_dir(dir.path().join("..2026_11_22_11_00_00.1")).unwrap();
        std::fs::remove_file(dir.path().join("..data")).unwrap();
        symlink("..2026_11_22_11_00_00.1", dir.path().join("..data")).unwrap();
        assert!(!laid(&timed.join("token"), own));
    }
}
