//! The system calls that a command may make: these, and every other fails with "not permitted".
//!
//! It is an allow list, so that calls of newer kernels are refused. Only connected socket pairs are
//! allowed (and, with a network, Internet sockets); no namespaces, mounts, tracing, keys, BPF,
//! io_uring or memory of other processes. Without `children` there are no new processes, and no
//! second program except the one executed by its descriptor.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::{Error, Network, SandboxPlan, modes};
use crate::catalog::command::Level;

pub(super) type FilterRules = BTreeMap<i64, Vec<SeccompRule>>;

/// Every namespace that `clone` can make.
const CLONE_NEW: u64 = 0x7e02_0000;
/// The flag with which `clone` creates a thread.
const CLONE_THREAD: u64 = 0x0001_0000;
/// `prctl` options that name threads and memory, or only read.
const PRCTL: [u64; 5] = [3, 15, 16, 23, 0x5356_4d41];
/// The type of a socket, without its flags.
const TYPE_MASK: u64 = 0xf;
/// `mmap` flags of shared memory, of memory without a file, and of both.
const MAP_SHARED: u64 = 0x01;
const MAP_ANONYMOUS: u64 = 0x20;
const SHARED_ANONYMOUS: u64 = MAP_SHARED | MAP_ANONYMOUS;
/// `ioctl` requests that only read, or change only how a descriptor of the program itself behaves;
/// every other is refused: TCGETS, TCGETS2, TIOCGPGRP, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX,
/// FIOCLEX, FIOQSIZE, FICLONE, FICLONERANGE.
const IOCTL: [u64; 11] = [
    0x5401,
    0x802c_542a,
    0x540f,
    0x5413,
    0x541b,
    0x5421,
    0x5450,
    0x5451,
    0x5460,
    0x4004_9409,
    0x4020_940d,
];
/// `fcntl` commands with which the kernel signals other processes, including the gate if it has the
/// same user: F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY.
const NO_FCNTL: [u64; 5] = [8, 10, 15, 1024, 1026];

/// Refuses every other call, for good. After this, only `execveat` of this descriptor can start a
/// program.
///
/// # Errors
/// The kernel refuses the filter.
pub(super) fn apply(plan: &SandboxPlan, program: i32) -> Result<(), Error> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let rules = rules(plan, program)?;
    // A filter cannot read arguments in memory: with ENOSYS the C library falls back to the older
    // call. The other filter must allow these calls, or its error would win, and that one does not
    // mean a missing call.
    let unseen: FilterRules = modes::UNSEEN.iter().map(|call| (*call, Vec::new())).collect();
    let (allow, missing) = (SeccompAction::Allow, SeccompAction::Errno(errno(libc::ENOSYS)));
    install(SeccompFilter::new(unseen, allow, missing, arch))?;
    let refuse = SeccompAction::Errno(errno(libc::EPERM));
    install(SeccompFilter::new(rules, refuse, SeccompAction::Allow, arch))
}

fn errno(number: i32) -> u32 {
    u32::try_from(number).unwrap_or_default()
}

fn install(filter: Result<SeccompFilter, seccompiler::BackendError>) -> Result<(), Error> {
    let program = filter.and_then(BpfProgram::try_from)?;
    Ok(seccompiler::apply_filter(&program)?)
}

fn rules(plan: &SandboxPlan, program: i32) -> Result<FilterRules, seccompiler::BackendError> {
    let is = |at: u8, value: u64| when(at, SeccompCmpOp::Eq, value);
    let mut rules: FilterRules = ALWAYS.iter().map(|call| (*call, Vec::new())).collect();
    #[cfg(target_arch = "x86_64")]
    rules.extend(OLD.iter().map(|call| (*call, Vec::new())));
    modes::add(&mut rules, plan)?;
    sockets(&mut rules, plan.network != Network::None)?;
    if plan.serves {
        // Shared memory without a file is charged to no process.
        let kind =
            |value: u64| all(vec![when(3, SeccompCmpOp::MaskedEq(SHARED_ANONYMOUS), value)?]);
        let kinds = [0, MAP_SHARED, MAP_ANONYMOUS].map(kind);
        let kinds = kinds.into_iter().collect::<Result<_, seccompiler::BackendError>>()?;
        rules.insert(libc::SYS_mmap, kinds);
    }
    let prctl = PRCTL.iter().map(|option| all(vec![is(0, *option)?]));
    rules.insert(libc::SYS_prctl, prctl.collect::<Result<_, _>>()?);
    let ioctl = IOCTL.iter().map(|request| all(vec![is(1, *request)?]));
    rules.insert(libc::SYS_ioctl, ioctl.collect::<Result<_, _>>()?);
    let others = NO_FCNTL.iter().map(|request| when(1, SeccompCmpOp::Ne, *request));
    rules.insert(libc::SYS_fcntl, vec![all(others.collect::<Result<_, _>>()?)?]);
    let me = u64::from(std::process::id());
    // 0 means the calling process.
    let own = || Ok(vec![all(vec![is(0, 0)?])?, all(vec![is(0, me)?])?]);
    rules.insert(libc::SYS_prlimit64, own()?);
    let empty_path = u64::try_from(libc::AT_EMPTY_PATH).unwrap_or_default();
    let program = u64::try_from(program).unwrap_or(u64::MAX);
    rules.insert(libc::SYS_execveat, vec![all(vec![is(0, program)?, is(4, empty_path)?])?]);
    let plain = when(0, SeccompCmpOp::MaskedEq(CLONE_NEW), 0)?;
    if plan.children.is_empty() {
        let thread = when(0, SeccompCmpOp::MaskedEq(CLONE_THREAD), CLONE_THREAD)?;
        rules.insert(libc::SYS_clone, vec![all(vec![plain, thread])?]);
    } else {
        rules.insert(libc::SYS_clone, vec![all(vec![plain])?]);
        rules.insert(libc::SYS_execve, Vec::new());
        #[cfg(target_arch = "x86_64")]
        rules.extend([(libc::SYS_fork, Vec::new()), (libc::SYS_vfork, Vec::new())]);
    }
    if plan.level >= Level::S2 {
        // The namespace contains no other process.
        let calls = [libc::SYS_kill, libc::SYS_tkill, libc::SYS_tgkill];
        rules.extend(calls.iter().map(|call| (*call, Vec::new())));
    } else {
        rules.insert(libc::SYS_kill, own()?);
        rules.insert(libc::SYS_tgkill, vec![all(vec![is(0, me)?])?]);
    }
    Ok(rules)
}

/// Stream pairs reach only the other end, whatever address is written; datagrams could be sent to
/// any named socket. With the network, Internet sockets that connect; none may listen.
fn sockets(rules: &mut FilterRules, network: bool) -> Result<(), seccompiler::BackendError> {
    let kind = |at: u8, kind: i32| when(at, SeccompCmpOp::MaskedEq(TYPE_MASK), number(kind));
    let pair =
        all(vec![when(0, SeccompCmpOp::Eq, number(libc::AF_UNIX))?, kind(1, libc::SOCK_STREAM)?])?;
    rules.insert(libc::SYS_socketpair, vec![pair]);
    rules.extend(CONNECTED.iter().map(|call| (*call, Vec::new())));
    if network {
        let mut made = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            for socket in [libc::SOCK_STREAM, libc::SOCK_DGRAM] {
                let family = when(0, SeccompCmpOp::Eq, number(family))?;
                made.push(all(vec![family, kind(1, socket)?])?);
            }
        }
        rules.insert(libc::SYS_socket, made);
        rules.extend([libc::SYS_connect, libc::SYS_sendmmsg].map(|call| (call, Vec::new())));
    }
    Ok(())
}

fn number(value: i32) -> u64 {
    u64::try_from(value).unwrap_or_default()
}

/// Compares numbers of processes, descriptors and options: 32 bits count.
pub(super) fn when(
    at: u8,
    how: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(at, SeccompCmpArgLen::Dword, how, value)
}

pub(super) fn all(
    conditions: Vec<SeccompCondition>,
) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(conditions)
}

/// Calls on existing sockets.
const CONNECTED: &[i64] = &[
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_shutdown,
];

/// Calls that are allowed with any arguments.
const ALWAYS: &[i64] = &[
    // bytes and descriptors
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    libc::SYS_flock,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_truncate,
    libc::SYS_fallocate,
    libc::SYS_fadvise64,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_tee,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    // names in the file system; Landlock decides which
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_chdir,
    libc::SYS_fchdir,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_umask,
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_fgetxattr,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    libc::SYS_flistxattr,
    // memory
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_msync,
    libc::SYS_mincore,
    // threads, signals, time
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_membarrier,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_getcpu,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_getitimer,
    libc::SYS_setitimer,
    libc::SYS_timer_create,
    libc::SYS_timer_settime,
    libc::SYS_timer_gettime,
    libc::SYS_timer_delete,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    libc::SYS_times,
    // the process itself
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_getgroups,
    libc::SYS_getpgid,
    libc::SYS_getsid,
    libc::SYS_getpriority,
    libc::SYS_getrusage,
    libc::SYS_capget,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrandom,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Calls that newer architectures no longer have.
#[cfg(target_arch = "x86_64")]
const OLD: &[i64] = &[
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_pipe,
    libc::SYS_dup2,
    libc::SYS_readlink,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_getdents,
    libc::SYS_getpgrp,
    libc::SYS_getrlimit,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_alarm,
    libc::SYS_pause,
    libc::SYS_time,
    libc::SYS_arch_prctl,
];
