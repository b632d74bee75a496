//! Control groups: a limit for all processes of one run together, where this system allows it.
//!
//! All groups of a gate lie below the group of its own process, so the gate's limits apply to its
//! commands too, and the gate is in none of them. A gate has one directory in each hierarchy, held
//! by a lock that ends with the process; each run has a leaf in it. A directory without a lock was
//! left by a killed gate, and the next gate removes it.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::FlockOperation;
use rustix::process::{Pid, Signal, kill_process};

use super::hierarchy::{CgroupMount, CgroupVersion, Controller, enabling, limit, one_cpu, places};
use super::{Error, SandboxPlan};

/// Concurrent gates below one group.
const GATES_MAX: u32 = 256;
/// The name of a gate's directory, before its number.
const OURS: &str = "wicketgate-";
/// The group that a gate moves to if its process blocks its own groups (version 2).
const ASIDE: &str = "wicketgate";
/// How often, and at what interval, the removal of a leaf is retried while its processes are
/// ending.
const REMOVALS: u32 = 200;
const BETWEEN: Duration = Duration::from_millis(20);

/// One hierarchy, and the gate's directory in it.
#[derive(Debug)]
struct Tree {
    version: CgroupVersion,
    controllers: Vec<Controller>,
    /// The directory of the leaves.
    dir: PathBuf,
    /// Locked for as long as this gate runs.
    _lock: File,
}

/// The control groups of this gate.
#[derive(Debug)]
pub struct Cgroups {
    trees: Vec<Tree>,
    next: AtomicU64,
    /// Leaves that could not be removed yet.
    left: Mutex<Vec<PathBuf>>,
}

/// The groups of one run. Dropping it kills the remaining processes and removes the groups.
#[derive(Debug)]
pub struct Leaf {
    cgroups: Arc<Cgroups>,
    dirs: Vec<(CgroupVersion, PathBuf)>,
}

impl Cgroups {
    /// Finds every hierarchy in which this process may create groups.
    ///
    /// # Errors
    /// No hierarchy limits memory and processes both; with the reason.
    pub(super) fn find() -> Result<Arc<Self>, Error> {
        let read = |path: &str| fs::read_to_string(path).map_err(Error::path(Path::new(path)));
        let mounts = read("/proc/self/mountinfo")?;
        let places = places(&mounts, &read("/proc/self/cgroup")?);
        Self::of(&places)
    }

    fn of(places: &[CgroupMount]) -> Result<Arc<Self>, Error> {
        let mut trees = Vec::new();
        let mut why = Error::NoHierarchy;
        for place in places {
            match tree(place) {
                Ok(tree) => trees.push(tree),
                // Of several reasons the last is the most specific: the first one holds if there is
                // no other hierarchy.
                Err(error) => why = Error::path(&place.own)(error),
            }
        }
        let cgroups = Self { trees, next: AtomicU64::new(0), left: Mutex::default() };
        if Controller::NEEDED.iter().all(|one| cgroups.limits(*one)) {
            return Ok(Arc::new(cgroups));
        }
        Err(why)
    }

    fn limits(&self, controller: Controller) -> bool {
        self.trees.iter().any(|tree| tree.controllers.contains(&controller))
    }

    /// The limited resources, as the command line names them.
    pub fn held(&self) -> String {
        let held = Controller::ALL.iter().copied().filter(|one| self.limits(*one));
        held.map(Controller::as_str).collect::<Vec<_>>().join(", ")
    }

    /// Creates the groups for one run of this plan, with its limits. Blocks for a moment.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn leaf(self: &Arc<Self>, plan: &SandboxPlan) -> io::Result<Leaf> {
        self.left.lock().retain(|dir| !removed(dir));
        let name = format!("run-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let mut leaf = Leaf { cgroups: Arc::clone(self), dirs: Vec::new() };
        for tree in &self.trees {
            let dir = tree.dir.join(&name);
            fs::create_dir(&dir)?;
            leaf.dirs.push((tree.version, dir.clone()));
            for controller in &tree.controllers {
                limit(tree.version, *controller, &dir, plan)?;
            }
        }
        Ok(leaf)
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        self.left.lock().retain(|dir| !removed(dir));
        for tree in &self.trees {
            let _ = fs::remove_dir(&tree.dir);
        }
    }
}

impl Leaf {
    /// Descriptors that put a process into the groups when its number is written to them.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn proc_files(&self) -> io::Result<Vec<OwnedFd>> {
        let open = |(_, dir): &(CgroupVersion, PathBuf)| {
            File::options().write(true).open(dir.join("cgroup.procs")).map(OwnedFd::from)
        };
        self.dirs.iter().map(open).collect()
    }

    /// Whether a process in the groups was killed because all of them together used too much
    /// memory.
    #[must_use]
    pub fn ran_out_of_memory(&self) -> bool {
        self.dirs.iter().any(|(version, dir)| {
            let name = match version {
                CgroupVersion::One => "memory.oom_control",
                CgroupVersion::Two => "memory.events",
            };
            let text = fs::read_to_string(dir.join(name)).unwrap_or_default();
            let kills = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
            kills.is_some_and(|count| count.trim() != "0")
        })
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        let mut left = std::mem::take(&mut self.dirs);
        let stays = |(version, dir): &(CgroupVersion, PathBuf)| {
            end(*version, dir);
            !removed(dir)
        };
        left.retain(stays);
        if left.is_empty() {
            return;
        }
        // WHY on a thread: killed processes take a moment to disappear, and the calling thread may
        // serve others.
        let cgroups = Arc::clone(&self.cgroups);
        let waiting = move || {
            for _ in 0..REMOVALS {
                std::thread::sleep(BETWEEN);
                left.retain(stays);
                if left.is_empty() {
                    return;
                }
            }
            cgroups.left.lock().extend(left.into_iter().map(|(_, dir)| dir));
        };
        // Without a thread, the next gate removes them.
        let _ = std::thread::Builder::new().name("cgroup".into()).spawn(waiting);
    }
}

/// The gate's directory in a hierarchy; removes abandoned directories on the way.
fn tree(place: &CgroupMount) -> io::Result<Tree> {
    let controllers = match place.version {
        CgroupVersion::One => place.controllers.clone(),
        CgroupVersion::Two => enabled(&place.own)?,
    };
    sweep(place.version, &place.own);
    let (dir, lock) = claim(&place.own)?;
    let mut tree = Tree { version: place.version, controllers, dir, _lock: lock };
    let has = tree.controllers.contains(&Controller::Cpu);
    tree.controllers.retain(|one| Controller::NEEDED.contains(one));
    if tree.version == CgroupVersion::Two && !tree.controllers.is_empty() {
        fs::write(tree.dir.join("cgroup.subtree_control"), enabling(&tree.controllers))?;
    }
    if has && shares(&tree, &place.own).is_ok() {
        tree.controllers.push(Controller::Cpu);
    }
    Ok(tree)
}

/// Checks that a leaf can get a share of the processors. It cannot if the gate itself has less than
/// one, or if the kernel does not divide them.
fn shares(tree: &Tree, own: &Path) -> io::Result<()> {
    if tree.version == CgroupVersion::Two {
        for dir in [own, &tree.dir] {
            fs::write(dir.join("cgroup.subtree_control"), enabling(&[Controller::Cpu]))?;
        }
    }
    let dir = tree.dir.join("try");
    fs::create_dir(&dir)?;
    let shared = one_cpu(tree.version, &dir);
    fs::remove_dir(&dir).and(shared)
}

/// Enables the gate's controllers for child groups (version 2). A group with processes of its own
/// cannot: the gate then moves aside, and returns if other processes remain.
fn enabled(own: &Path) -> io::Result<Vec<Controller>> {
    let has = fs::read_to_string(own.join("cgroup.controllers"))?;
    let all = Controller::ALL.iter().copied();
    let ours = all.filter(|one| has.split_whitespace().any(|name| name == one.as_str()));
    let ours: Vec<Controller> = ours.collect();
    let needed = ours.iter().copied().filter(|one| Controller::NEEDED.contains(one));
    let needed: Vec<Controller> = needed.collect();
    if needed.is_empty() {
        return Ok(needed);
    }
    let enable = || fs::write(own.join("cgroup.subtree_control"), enabling(&needed));
    if enable().is_ok() {
        return Ok(ours);
    }
    let (aside, me) = (own.join(ASIDE), std::process::id().to_string());
    match fs::create_dir(&aside) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Err(_) | Ok(()) => fs::write(aside.join("cgroup.procs"), &me)?,
    }
    enable().map(|()| ours).inspect_err(|_| {
        let _ = fs::write(own.join("cgroup.procs"), &me);
        let _ = fs::remove_dir(&aside);
    })
}

/// A directory of this gate, and its lock.
fn claim(own: &Path) -> io::Result<(PathBuf, File)> {
    for number in 0..GATES_MAX {
        let dir = own.join(format!("{OURS}{number}"));
        match fs::create_dir(&dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Err(_) => continue,
            Ok(()) => {}
        }
        if let Some(lock) = held(&dir) {
            return Ok((dir, lock));
        }
    }
    Err(io::Error::other(format!("{GATES_MAX} gates are there already")))
}

/// Locks this directory, if it is unlocked and still has that name.
fn held(dir: &Path) -> Option<File> {
    let file = File::open(dir).ok()?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    let same = fs::metadata(dir).ok()?.ino() == file.metadata().ok()?.ino();
    same.then_some(file)
}

/// Removes what ended gates left behind.
fn sweep(version: CgroupVersion, own: &Path) {
    let below = |dir: &Path| {
        let listed = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
        listed.filter(|one| one.path().is_dir()).collect::<Vec<_>>()
    };
    for gate in below(own) {
        let name = gate.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(OURS));
        if number.is_none_or(|number| number.parse::<u32>().is_err()) {
            continue;
        }
        let Some(_lock) = held(&gate.path()) else { continue };
        for leaf in below(&gate.path()) {
            end(version, &leaf.path());
            removed(&leaf.path());
        }
        removed(&gate.path());
    }
}

/// Kills every process in this leaf.
fn end(version: CgroupVersion, dir: &Path) {
    if version == CgroupVersion::Two && fs::write(dir.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    let inside = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    for pid in inside.lines().filter_map(|pid| pid.parse().ok()).filter_map(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Removes this group; true if it is gone.
fn removed(dir: &Path) -> bool {
    fs::remove_dir(dir).map_or_else(|e| e.kind() == io::ErrorKind::NotFound, |()| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_gate_left_is_removed_and_what_is_held_stays() {
        let own = tempfile::tempdir().unwrap();
        let (first, lock) = claim(own.path()).unwrap();
        fs::create_dir(first.join("run-0")).unwrap();
        let left = own.path().join("wicketgate-7");
        fs::create_dir_all(left.join("run-3")).unwrap();
        fs::create_dir(own.path().join("wicketgate-x")).unwrap();
        sweep(CgroupVersion::One, own.path());
        assert!(first.join("run-0").exists() && !left.exists());
        assert!(own.path().join("wicketgate-x").exists(), "nobody knows whose it is");
        let (second, _) = claim(own.path()).unwrap();
        assert_ne!(first, second);
        drop(lock);
        sweep(CgroupVersion::One, own.path());
        assert!(!first.exists());
    }
}
