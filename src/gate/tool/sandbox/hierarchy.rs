//! Hierarchies of control groups: which ones exist, what they can limit, and how each version is
//! configured.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{SandboxPlan, Scratch};

/// Bytes that a directory in memory may hold; they count as memory of the run.
const SCRATCH_BYTES: u64 = 64 << 20;
/// The kernel's default period in microseconds, in which a run gets the time of one processor.
const CPU_PERIOD: u32 = 100_000;

crate::domain::closed::texts! {
    /// The resources that can be limited.
    pub(super) enum Controller {
        Memory = "memory",
        Pids = "pids",
        Cpu = "cpu",
    }
}

impl Controller {
    /// The controllers that are required; a run is held on one processor without control groups
    /// too.
    pub(super) const NEEDED: [Self; 2] = [Self::Memory, Self::Pids];
}

/// The version of control groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CgroupVersion {
    One,
    Two,
}

/// A mounted hierarchy, and the group of this process in it.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct CgroupMount {
    pub(super) version: CgroupVersion,
    /// The supported controllers; for version 2 the group itself lists them.
    pub(super) controllers: Vec<Controller>,
    pub(super) own: PathBuf,
}

/// Every usable hierarchy: mounts as in `/proc/self/mountinfo`, groups as in `/proc/self/cgroup`.
pub(super) fn places(mounts: &str, groups: &str) -> Vec<CgroupMount> {
    let mut found: Vec<CgroupMount> = Vec::new();
    for line in mounts.lines() {
        let Some((mount, filesystem)) = line.split_once(" - ") else { continue };
        let mount: Vec<&str> = mount.split(' ').collect();
        let filesystem: Vec<&str> = filesystem.split(' ').collect();
        let (Some(root), Some(point)) = (mount.get(3), mount.get(4)) else { continue };
        let options = filesystem.get(2).copied().unwrap_or_default();
        let (version, controllers) = match filesystem.first() {
            Some(&"cgroup2") => (CgroupVersion::Two, Vec::new()),
            Some(&"cgroup") => {
                let known = Controller::parse;
                (CgroupVersion::One, options.split(',').filter_map(known).collect())
            }
            Some(_) | None => continue,
        };
        if version == CgroupVersion::One && controllers.is_empty() {
            continue;
        }
        let group = groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (names, path) = (fields.next()?, fields.next()?);
            let ours = controllers.iter().all(|one| names.split(',').any(|n| n == one.as_str()));
            (ours && (version == CgroupVersion::One) != names.is_empty()).then_some(path)
        });
        let Some(below) = group.and_then(|path| Path::new(path).strip_prefix(root).ok()) else {
            continue;
        };
        let place = CgroupMount { version, controllers, own: Path::new(point).join(below) };
        if !found.contains(&place) {
            found.push(place);
        }
    }
    found
}

/// The text that enables these controllers for child groups.
pub(super) fn enabling(controllers: &[Controller]) -> String {
    controllers.iter().map(|one| format!("+{}", one.as_str())).collect::<Vec<_>>().join(" ")
}

/// Writes this plan's limits to a leaf.
pub(super) fn limit(
    version: CgroupVersion,
    controller: Controller,
    dir: &Path,
    plan: &SandboxPlan,
) -> io::Result<()> {
    let set = |name: &str, most: u64| fs::write(dir.join(name), most.to_string());
    let scratch = match plan.scratch {
        Scratch::None => 0,
        Scratch::Tmp => 1,
        Scratch::Call | Scratch::Run => 2,
    };
    let memory = plan.limits.memory_bytes.saturating_add(SCRATCH_BYTES.saturating_mul(scratch));
    // The swap file exists only if the system accounts for swap.
    let swaps = |name: &str| dir.join(name).exists();
    match (controller, version) {
        (Controller::Pids, _) => set("pids.max", plan.limits.pids),
        (Controller::Cpu, _) => one_cpu(version, dir),
        (Controller::Memory, CgroupVersion::One) => {
            const WITH_SWAP: &str = "memory.memsw.limit_in_bytes";
            set("memory.limit_in_bytes", memory)?;
            if swaps(WITH_SWAP) { set(WITH_SWAP, memory) } else { Ok(()) }
        }
        (Controller::Memory, CgroupVersion::Two) => {
            set("memory.max", memory)?;
            if swaps("memory.swap.max") { set("memory.swap.max", 0) } else { Ok(()) }
        }
    }
}

/// Limits a leaf to the time of one processor.
pub(super) fn one_cpu(version: CgroupVersion, dir: &Path) -> io::Result<()> {
    let period = CPU_PERIOD.to_string();
    match version {
        CgroupVersion::One => {
            fs::write(dir.join("cpu.cfs_period_us"), &period)?;
            fs::write(dir.join("cpu.cfs_quota_us"), &period)
        }
        CgroupVersion::Two => fs::write(dir.join("cpu.max"), format!("{period} {period}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
        31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
        32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
        33 31 0:30 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

    #[test]
    fn the_group_of_this_process_is_found_below_what_is_mounted() {
        let rest = "34 31 0:31 / /sys/fs/cgroup/pids rw shared:9 - cgroup cgroup rw,pids\n\
            35 31 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let groups = "9:name=systemd:/s\n8:pids:/a/b\n4:memory:/docker/x/y\n1:cpu:/\n0::/u\n";
        let found = places(&format!("{MOUNTS}{rest}"), groups);
        let place = |version, controllers: &[Controller], own: &str| CgroupMount {
            version,
            controllers: controllers.to_vec(),
            own: own.into(),
        };
        let expected = [
            place(CgroupVersion::One, &[Controller::Cpu], "/sys/fs/cgroup/cpu"),
            place(CgroupVersion::One, &[Controller::Memory], "/sys/fs/cgroup/memory/y"),
            place(CgroupVersion::One, &[Controller::Pids], "/sys/fs/cgroup/pids/a/b"),
            place(CgroupVersion::Two, &[], "/sys/fs/cgroup/unified/u"),
        ];
        assert_eq!(found, expected);
        // A group outside the mounted part cannot be reached.
        assert!(places(MOUNTS, "4:memory:/elsewhere\n").is_empty());
    }

    #[test]
    fn both_cgroup_versions_get_the_limits_in_their_own_files() {
        let plan = |scratch| SandboxPlan {
            level: crate::catalog::command::Level::S2,
            argv: Vec::new(),
            env: Vec::new(),
            interpreter: None,
            read: Vec::new(),
            write: Vec::new(),
            children: Vec::new(),
            scratch,
            cwd: "/".into(),
            network: super::super::Network::None,
            serves: false,
            uid: crate::tool::sandbox::NOBODY,
            cpu: 0,
            limits: crate::catalog::command::CommandLimits {
                memory_bytes: 1 << 20,
                cpu_seconds: 1,
                pids: 7,
                together: true,
            },
        };
        let dir = tempfile::tempdir().unwrap();
        let content = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        fs::write(dir.path().join("memory.swap.max"), "max").unwrap();
        for version in [CgroupVersion::One, CgroupVersion::Two] {
            for controller in Controller::ALL.iter().copied() {
                limit(version, controller, dir.path(), &plan(Scratch::Call)).unwrap();
            }
        }
        let most = ((1_u64 << 20) + (128 << 20)).to_string();
        assert_eq!((content("memory.limit_in_bytes"), content("memory.max")), (most.clone(), most));
        assert_eq!((content("pids.max"), content("memory.swap.max")), ("7".into(), "0".into()));
        assert_eq!(content("cpu.cfs_quota_us"), content("cpu.cfs_period_us"));
        assert_eq!(content("cpu.max"), "100000 100000");
        assert!(!dir.path().join("memory.memsw.limit_in_bytes").exists());
    }
}
