//! Every call that gives a file a mode: none may carry a set-id bit.
//!
//! A set-user-id file of the gate's user that outlives a sandbox is a way for every other user of the host to
//! become that user. So the bits are refused wherever a mode is an argument of a call, and a call whose mode lies
//! in memory, where no filter sees it, does not exist in there (`UNSEEN`).

use seccompiler::{BackendError, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

use super::filter::{FilterRules, all, when};
use super::{SandboxPlan, Scratch};
use crate::catalog::command::Level;

/// Set-user-id and set-group-id.
const SET_ID: u64 = 0o6000;
/// Flags of `open` with which its mode counts: `O_CREAT` and the bit that only `O_TMPFILE` has.
const MAKES: u64 = 0o100 | 0o20_000_000;

/// Calls whose mode or flags lie in memory, and calls that take more than one of them at once. They fail as if this
/// kernel did not know them: the C library then takes the older call, which the filter can judge.
pub(super) const UNSEEN: &[i64] = &[
    libc::SYS_clone3,
    libc::SYS_openat2,
    libc::SYS_fchmodat2,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Calls that make files, each with the argument that holds the mode.
const MAKERS: &[(i64, u8)] = &[
    (libc::SYS_mkdirat, 2),
    (libc::SYS_mknodat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mkdir, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
];

/// Calls that open files and make them if their flags say so: flags and mode.
const OPENERS: &[(i64, u8, u8)] = &[
    (libc::SYS_openat, 2, 3),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
];

/// Calls that change the mode of what is there.
const CHANGERS: &[(i64, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
];

/// Owners and times.
const OWNERS_AND_TIMES: &[i64] = &[
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// Adds what this plan may do to the modes of files.
///
/// Modes, owners and times of what is there are changed only where nothing but what the program may write can be
/// changed: in `S2`, where everything else is mounted read-only, and only with something to write. Landlock has no
/// right for these calls, so in `S1` they would work on any file of the sandbox's user that it may only read.
pub(super) fn add(rules: &mut FilterRules, plan: &SandboxPlan) -> Result<(), BackendError> {
    rules.extend(UNSEEN.iter().map(|call| (*call, Vec::new())));
    for (call, mode) in MAKERS {
        rules.insert(*call, vec![plain(*mode)?]);
    }
    for (call, flags, mode) in OPENERS {
        let opens = all(vec![when(*flags, SeccompCmpOp::MaskedEq(MAKES), 0)?])?;
        rules.insert(*call, vec![opens, plain(*mode)?]);
    }
    if plan.level >= Level::S2 && plan.writes() {
        for (call, mode) in CHANGERS {
            rules.insert(*call, vec![plain(*mode)?]);
        }
        rules.extend(OWNERS_AND_TIMES.iter().map(|call| (*call, Vec::new())));
    } else if plan.writes() {
        // Without a name, and now: what writing does to the times of what is open anyway.
        let null = |at| SeccompCondition::new(at, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0);
        rules.insert(libc::SYS_utimensat, vec![all(vec![null(1)?, null(2)?])?]);
    }
    Ok(())
}

/// This mode has no set-id bit.
fn plain(at: u8) -> Result<SeccompRule, BackendError> {
    all(vec![when(at, SeccompCmpOp::MaskedEq(SET_ID), 0)?])
}

impl SandboxPlan {
    /// Whether there is anything that the program may write.
    pub(super) fn writes(&self) -> bool {
        !self.write.is_empty() || self.scratch != Scratch::None
    }
}
