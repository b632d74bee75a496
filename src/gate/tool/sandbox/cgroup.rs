//! Control groups: what all processes of one run may use together, where this system lets us say so.
//!
//! Everything of ours lies below the group this process is in itself, so whatever holds for the gate holds
//! for its commands too, and the gate is in none of it. A gate has one directory in each hierarchy, held by a
//! lock that ends with the process; each run has a leaf in it. A directory that nobody holds is what a
//! killed gate left behind, and is removed by whoever comes next.

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

/// Gates at once below one group.
const GATES_MAX: u32 = 256;
/// What a gate's directory is called, before its number.
const OURS: &str = "wicketgate-";
/// Where a gate goes that is in the way of its own groups (version 2).
const ASIDE: &str = "wicketgate";
/// How often, and how far apart, the removal of a leaf is tried whose processes are still ending.
const REMOVALS: u32 = 200;
const BETWEEN: Duration = Duration::from_millis(20);

/// One hierarchy, and our place in it.
#[derive(Debug)]
struct Tree {
    version: CgroupVersion,
    controllers: Vec<Controller>,
    /// Where the leaves are.
    dir: PathBuf,
    /// Held for as long as this gate is there.
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

/// The groups of one run. Dropped, what is still in them is killed and they are removed.
#[derive(Debug)]
pub struct Leaf {
    cgroups: Arc<Cgroups>,
    dirs: Vec<(CgroupVersion, PathBuf)>,
}

impl Cgroups {
    /// Those of this process: every hierarchy it may make groups in.
    ///
    /// # Errors
    /// There is none that limits both memory and processes, and why.
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
                // Of several reasons the last is the most telling: the first holds where there is no other.
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

    /// What they limit, as the command line says it.
    #[must_use]
    pub fn held(&self) -> String {
        let held = Controller::ALL.into_iter().filter(|one| self.limits(*one));
        held.map(Controller::as_str).collect::<Vec<_>>().join(", ")
    }

    /// Groups for one run of this plan, with its limits. Blocks for a moment.
    ///
    /// # Errors
    /// What the system says.
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
    /// What puts a process into it when its number is written there.
    ///
    /// # Errors
    /// What the system says.
    pub fn doors(&self) -> io::Result<Vec<OwnedFd>> {
        let open = |(_, dir): &(CgroupVersion, PathBuf)| {
            File::options().write(true).open(dir.join("cgroup.procs")).map(OwnedFd::from)
        };
        self.dirs.iter().map(open).collect()
    }

    /// Whether a process in it was killed because all of them together used too much memory.
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
        // What was killed just now takes a moment to be gone, and whoever waits here may be serving others.
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
        // Without a thread they are removed by the next gate.
        let _ = std::thread::Builder::new().name("cgroup".into()).spawn(waiting);
    }
}

/// Our place in a hierarchy; what nobody holds there is removed on the way.
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

/// Whether a leaf may be given a share of the processors: where the gate itself has less than one, or the kernel
/// does not divide them, it may not.
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

/// Passes on to groups below what of ours the group of version 2 has. A group with processes of its own may
/// not: this one goes aside then, and comes back if others are still there.
fn enabled(own: &Path) -> io::Result<Vec<Controller>> {
    let has = fs::read_to_string(own.join("cgroup.controllers"))?;
    let all = Controller::ALL.into_iter();
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

/// A directory of our own, and what holds it.
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

/// The lock of this directory, if it is nobody's and the directory still the one of that name.
fn held(dir: &Path) -> Option<File> {
    let file = File::open(dir).ok()?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    let same = fs::metadata(dir).ok()?.ino() == file.metadata().ok()?.ino();
    same.then_some(file)
}

/// Removes what gates left behind that are no more.
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

/// Kills whatever is in this leaf.
fn end(version: CgroupVersion, dir: &Path) {
    if version == CgroupVersion::Two && fs::write(dir.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    let inside = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    for pid in inside.lines().filter_map(|pid| pid.parse().ok()).filter_map(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Removes this group; whether it is gone.
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
