//! Bundles as zip files: the same bytes every time, read by others, and no archive that means two things.

use wicketgate::evidence::bundle::*;
use wicketgate::evidence::verify::{verify, verify_files};
use wicketgate::evidence::{written, zip};

use crate::bundle::*;
use crate::forged::run_id;

fn small() -> Files {
    let mut files = Files::default();
    files.put("a.txt", "one");
    files.put("b/c.json", "two".repeat(400));
    files
}

fn refused(archive: &[u8], because: &str) {
    let damage = zip::read(archive).expect_err(because);
    assert_eq!(damage.check, "B2");
    assert!(damage.why.contains(because), "expected `{because}`: {}", damage.why);
}

/// Where the directory entry of the nth file begins.
fn central(archive: &[u8], nth: usize) -> usize {
    let starts: Vec<usize> = (0..archive.len() - 4)
        .filter(|at| archive[*at..*at + 4] == 0x0201_4b50_u32.to_le_bytes())
        .collect();
    starts[nth]
}

/// The archive with these bytes of the nth directory entry, counted from its start, replaced.
fn patched(nth: usize, at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut archive = zip::write(&small()).unwrap();
    let place = central(&archive, nth) + at;
    archive[place..place + bytes.len()].copy_from_slice(bytes);
    archive
}

/// The same text everywhere in the archive replaced by one of the same length.
fn renamed(from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut archive = zip::write(&small()).unwrap();
    for at in 0..archive.len() - from.len() {
        if archive[at..at + from.len()] == *from.as_bytes() {
            archive[at..at + to.len()].copy_from_slice(to.as_bytes());
        }
    }
    archive
}

#[test]
fn a_bundle_in_a_zip_verifies_as_the_directory_does_and_is_the_same_bytes_every_time() {
    let files = export_of(&two_runs(), run_id(1), &[]);
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("x.evidence.zip"), dir.path().join("y.zip"));
    written::write(&files, &one).unwrap();
    written::write(&files, &two).unwrap();
    assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&two).unwrap());
    let report = verify(&one, &trust());
    assert_eq!(report, verify_files(&files, &trust()));
    assert_eq!(report.exit_code(), 0, "{}", report.to_text());
    assert!(written::write(&files, &one).is_err(), "what is there is not replaced");
    assert!(std::fs::read_dir(dir.path()).unwrap().count() == 2, "something is left over");
}

#[test]
fn others_read_what_we_write_and_we_read_what_others_write() {
    let dir = tempfile::tempdir().unwrap();
    let ours = dir.path().join("ours.zip");
    written::write(&small(), &ours).unwrap();
    let script = "\
import sys, zipfile
ours = zipfile.ZipFile('ours.zip'); assert ours.testzip() is None
assert [i.filename for i in ours.infolist()] == ['a.txt', 'b/c.json']
assert all(i.date_time == (1980, 1, 1, 0, 0, 0) for i in ours.infolist())
theirs = zipfile.ZipFile('theirs.zip', 'w', zipfile.ZIP_DEFLATED)
theirs.writestr('b/', '')
for i in ours.infolist(): theirs.writestr(i.filename, ours.read(i))
theirs.close()
class Pipe:
    def __init__(self, f): self.f = f
    def write(self, b): return self.f.write(b)
    def flush(self): self.f.flush()
with open('piped.zip', 'wb') as f, zipfile.ZipFile(Pipe(f), 'w', zipfile.ZIP_DEFLATED) as piped:
    for i in ours.infolist(): piped.writestr(i.filename, ours.read(i))
";
    let mut python = std::process::Command::new("python3");
    let ran = python.args(["-c", script]).current_dir(dir.path()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    // The second was written to a pipe: its sizes follow the data.
    for name in ["theirs.zip", "piped.zip"] {
        let archive = std::fs::read(dir.path().join(name)).unwrap();
        assert_eq!(zip::read(&archive).unwrap(), small(), "{name}");
    }
}

#[test]
fn names_that_leave_the_bundle_or_are_there_twice_are_refused() {
    refused(&renamed("b/c.json", "../json1"), "not a plain file name");
    refused(&renamed("a.txt", "/.txt"), "not a plain file name");
    refused(&renamed("a.txt", "a\\txt"), "not a plain file name");
    refused(&renamed("a.txt", "a\u{0}txt"), "not a plain file name");
    let mut twice = Files::default();
    twice.put("Same", "1");
    twice.put("same", "2");
    refused(&zip::write(&twice).unwrap(), "in the archive twice");
    let mut folder = Files::default();
    folder.put("a", "1");
    folder.put("a/b", "2");
    refused(&zip::write(&folder).unwrap(), "a file and a folder");
    // One entry listed twice.
    let archive = zip::write(&small()).unwrap();
    let (first, second) = (central(&archive, 0), central(&archive, 1));
    let mut doubled = archive.clone();
    doubled.splice(second..second, archive[first..second].iter().copied());
    let end = doubled.len() - 22;
    doubled[end + 8..end + 12].copy_from_slice(&[3, 0, 3, 0]);
    let size = u32::try_from(end - first).unwrap();
    doubled[end + 12..end + 16].copy_from_slice(&size.to_le_bytes());
    refused(&doubled, "in the archive twice");
}

#[test]
fn links_and_devices_are_refused() {
    for mode in [0o120_777_u32, 0o060_600, 0o010_600, 0o040_755] {
        refused(&patched(0, 38, &(mode << 16).to_le_bytes()), "not a plain file");
    }
    // Without a Unix mode there is no link.
    assert_eq!(zip::read(&patched(0, 38, &[0; 4])).unwrap(), small());
}

#[test]
fn headers_that_contradict_each_other_are_refused() {
    refused(&patched(0, 8, &[1, 0]), "encrypted");
    refused(&patched(0, 8, &[0, 0x20]), "encrypted");
    refused(&patched(0, 10, &[8, 0]), "contradict");
    refused(&patched(0, 10, &[12, 0]), "contradict");
    refused(&patched(0, 16, &[1, 2, 3, 4]), "contradict");
    refused(&patched(0, 20, &[9, 0, 0, 0]), "contradict");
    refused(&patched(0, 24, &[9, 0, 0, 0]), "contradict");
    refused(&patched(0, 20, &[255; 4]), "zip64");
    refused(&patched(0, 42, &[255; 4]), "zip64");
    refused(&patched(0, 34, &[1, 0]), "another volume");
    refused(&patched(0, 46, b"z"), "contradict");
}

#[test]
fn overlapping_entries_and_bytes_that_belong_to_nothing_are_refused() {
    // Two entries of the directory that share one place in the archive.
    refused(&patched(1, 42, &[0; 4]), "runs into what follows it");
    let good = zip::write(&small()).unwrap();
    let mut prefixed = b"MZ".to_vec();
    prefixed.extend_from_slice(&good);
    refused(&prefixed, "not where its end says");
    let mut trailing = good.clone();
    trailing.push(0);
    refused(&trailing, "does not end with");
    let mut comment = good.clone();
    let at = comment.len() - 2;
    comment[at] = 1;
    comment.push(b'x');
    refused(&comment, "does not end with");
    // Bytes between the last entry and the directory.
    let start = central(&good, 0);
    let mut hidden = good.clone();
    hidden.splice(start..start, *b"hidden");
    let end = hidden.len() - 22;
    let moved = u32::try_from(start + 6).unwrap();
    hidden[end + 16..end + 20].copy_from_slice(&moved.to_le_bytes());
    refused(&hidden, "belong to no file");
    refused(&good[..good.len() - 1], "does not end with");
    refused(b"", "too short");
}

#[test]
fn a_zip_that_inflates_beyond_its_declared_size_or_the_limit_is_refused() {
    // A bomb: a megabyte and more from a few bytes, with honest headers.
    let zeros = vec![0_u8; 64 << 20];
    let packed = miniz_oxide::deflate::compress_to_vec(&zeros, 9);
    assert!(packed.len() < 70_000);
    let archive = archive_of(&packed, u32::try_from(zeros.len()).unwrap());
    refused(&archive, "would inflate to");
    // One that says less than it becomes, and one that says more.
    let packed = miniz_oxide::deflate::compress_to_vec(&[7; 5000], 6);
    refused(&archive_of(&packed, 4999), "exactly 4999");
    refused(&archive_of(&packed, 5001), "exactly 5001");
    // Bytes after the end of the deflated data.
    let mut longer = packed;
    longer.push(0);
    refused(&archive_of(&longer, 5000), "exactly 5000");
    // Many files, each of a size that is allowed.
    let mut end = vec![0x50, 0x4b, 5, 6, 0, 0, 0, 0, 255, 255, 255, 255];
    end.extend_from_slice(&[0; 10]);
    refused(&end, "65535 files or more");
}

/// One deflated entry `x` of this packed form that says it has this size; its checksum is wrong.
fn archive_of(packed: &[u8], size: u32) -> Vec<u8> {
    let mut common = vec![20, 0, 0, 0, 8, 0, 0, 0, 0x21, 0, 0, 0, 0, 0];
    common.extend_from_slice(&u32::try_from(packed.len()).unwrap().to_le_bytes());
    common.extend_from_slice(&size.to_le_bytes());
    common.extend_from_slice(&[1, 0, 0, 0]);
    let mut out = vec![0x50, 0x4b, 3, 4];
    out.extend_from_slice(&common);
    out.push(b'x');
    out.extend_from_slice(packed);
    let start = u32::try_from(out.len()).unwrap();
    out.extend_from_slice(&[0x50, 0x4b, 1, 2, 20, 3]);
    out.extend_from_slice(&common);
    out.extend_from_slice(&[0; 14]);
    out.push(b'x');
    let size = u32::try_from(out.len()).unwrap() - start;
    out.extend_from_slice(&[0x50, 0x4b, 5, 6, 0, 0, 0, 0, 1, 0, 1, 0]);
    out.extend_from_slice(&size.to_le_bytes());
    out.extend_from_slice(&start.to_le_bytes());
    out.extend_from_slice(&[0, 0]);
    out
}

#[test]
fn no_byte_of_an_archive_changes_what_is_read_unnoticed() {
    let good = zip::write(&small()).unwrap();
    let mut unnoticed = Vec::new();
    for at in 0..good.len() {
        let mut archive = good.clone();
        archive[at] ^= 0x41;
        match zip::read(&archive) {
            Err(_) => {}
            Ok(files) if files == small() => unnoticed.push(at),
            Ok(files) => panic!("byte {at} makes other files: {:?}", files.0.keys()),
        }
    }
    // Only versions, times and attributes that carry nothing, of two entries in two places each.
    assert!(unnoticed.len() <= 2 * (8 + 6 + 12), "{unnoticed:?}");
}
