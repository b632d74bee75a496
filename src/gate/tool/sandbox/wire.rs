//! One message over a socket: a plan, and the descriptors that it needs.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use super::{SandboxPlan, Scratch};

/// Bytes of the longest plan.
const PLAN_BYTES_MAX: u32 = 4 << 20;

/// Descriptors of one message: program, input, holder, and one for each hierarchy of control groups.
const FILES_MAX: usize = 8;

/// The program, its standard input, the holder of its workspace, and the files that put a process
/// into the run's control groups.
#[derive(Debug)]
pub(super) struct Files {
    pub program: OwnedFd,
    pub input: OwnedFd,
    pub workspace: Option<OwnedFd>,
    pub cgroup_files: Vec<OwnedFd>,
}

/// Moves the socket away from standard input, which then reads `/dev/null`.
pub(super) fn control() -> io::Result<UnixStream> {
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(UnixStream::from(socket))
}

pub(super) fn send(
    mut socket: &UnixStream,
    plan: &SandboxPlan,
    files: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let body = serde_json::to_string(plan).map_err(io::Error::other)?.into_bytes();
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    if length > PLAN_BYTES_MAX {
        return Err(io::Error::other("the plan is too long"));
    }
    give(socket, &length.to_le_bytes(), files)?;
    socket.write_all(&body)
}

/// Sends these bytes in one piece, together with these descriptors.
pub(super) fn give(socket: &UnixStream, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::Error::other("too many descriptors"));
    }
    let flags = SendFlags::NOSIGNAL;
    let sent = rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, flags)?;
    if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives what [`give`] sent: the number of bytes, and the descriptors.
pub(super) fn take(socket: &UnixStream, into: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(into)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got = rustix::net::recvmsg(socket, &mut into, &mut ancillary, flags)?;
    let mut files = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            files.extend(fds);
        }
    }
    Ok((got.bytes, files))
}

/// Receives a plan. `shared`: the third descriptor is the holder of a shared workspace.
pub(super) fn receive(mut socket: &UnixStream, shared: bool) -> io::Result<(SandboxPlan, Files)> {
    let mut head = [0_u8; 4];
    let (got, files) = take(socket, &mut head)?;
    if got != head.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let length = u32::from_le_bytes(head);
    if length > PLAN_BYTES_MAX {
        return Err(io::Error::other("the plan is too long"));
    }
    let mut body = vec![0; usize::try_from(length).unwrap_or_default()];
    socket.read_exact(&mut body)?;
    let plan: SandboxPlan = serde_json::from_slice(&body).map_err(io::Error::other)?;
    let mut files = files.into_iter();
    match (files.next(), files.next()) {
        (Some(program), Some(input)) => {
            let holder = if shared && plan.scratch == Scratch::Run { files.next() } else { None };
            Ok((plan, Files { program, input, workspace: holder, cgroup_files: files.collect() }))
        }
        (_, _) => Err(io::Error::other("descriptors are missing")),
    }
}
