//! Every call that sets a file mode: none may set a set-id bit.
//!
//! A set-user-id file of the gate's user that outlives a sandbox would let every other user of the
//! host become that user. The bits are therefore refused wherever a mode is an argument, and calls
//! whose mode lies in memory, where a filter cannot read it, are reported as missing (`UNSEEN`).

use seccompiler::{BackendError, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

use super::filter::{FilterRules, all, when};
use super::{SandboxPlan, Scratch};
use crate::catalog::command::Level;

/// Set-user-id and set-group-id.
const SET_ID: u64 = 0o6000;
/// `open` flags with which its mode takes effect: `O_CREAT` and the bit that only `O_TMPFILE` has.
const MAKES: u64 = 0o100 | 0o20_000_000;

/// Since Linux 6.6, under this number on each architecture; `libc` does not know it for all of them.
const SYS_FCHMODAT2: i64 = 452;

/// Calls whose mode or flags lie in memory, and calls that combine several others. They fail as if
/// the kernel did not know them: the C library then uses the older call, which the filter can
/// check.
pub(super) const UNSEEN: &[i64] = &[
    libc::SYS_clone3,
    libc::SYS_openat2,
    SYS_FCHMODAT2,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Calls that create files, each with the argument that holds the mode.
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

/// Calls that open files and may create them, with the arguments for flags and mode.
const OPENERS: &[(i64, u8, u8)] = &[
    (libc::SYS_openat, 2, 3),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
];

/// Calls that change the mode of an existing file.
const CHANGERS: &[(i64, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
];

/// Calls that change owners and times.
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

/// Adds the calls on file modes that this plan allows.
///
/// Modes, owners and times of existing files can be changed only where the program can write
/// anyway: in `S2`, where everything else is mounted read-only, and only if something is writable.
/// Landlock has no right for these calls, so in `S1` they would work on any read-only file of the
/// sandbox's user.
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
        // Without a name and with the current time: the effect that writing has on the times of an
        // open file anyway.
        let null = |at| SeccompCondition::new(at, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0);
        rules.insert(libc::SYS_utimensat, vec![all(vec![null(1)?, null(2)?])?]);
    }
    Ok(())
}

/// The rule that this mode has no set-id bit.
fn plain(at: u8) -> Result<SeccompRule, BackendError> {
    all(vec![when(at, SeccompCmpOp::MaskedEq(SET_ID), 0)?])
}

impl SandboxPlan {
    /// Whether the program may write anything.
    pub(super) fn writes(&self) -> bool {
        !self.write.is_empty() || self.scratch != Scratch::None
    }
}
