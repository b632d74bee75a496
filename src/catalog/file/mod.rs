//! The kinds `file.read`, `file.list` and `file.write`: files and directories beneath a root.

mod check;
pub mod config;

use std::path::PathBuf;

use super::Reach;
use crate::domain::effect::ToolKind;
use crate::domain::json::Json;

/// A directory that files are read, listed or written beneath.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Root {
    /// What policies and entries call it.
    pub name: String,
    /// The directory: absolute, without symbolic links when it was checked.
    pub path: PathBuf,
    /// More names of files that no agent gets.
    pub protect: Vec<String>,
    /// Exact paths that the tool serves although a name in them is protected.
    pub allow: Vec<String>,
    /// Names that the tool serves anywhere below although they begin with a dot or steer tools.
    pub allow_names: Vec<String>,
    /// The gate's own files, absolute: the tool never serves them, whatever is allowed.
    pub own: Vec<PathBuf>,
}

/// How a directory beneath a root is listed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listing {
    /// Where.
    pub root: Root,
    /// Entries of one answer.
    pub entries_max: u64,
    /// The depth of directories that a call may list.
    pub depth_max: u64,
}

/// How a file beneath a root is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Writing {
    /// Where.
    pub root: Root,
    /// A new file may bring the directories it lies in.
    pub create_parents: bool,
    /// An agent may give only the part of a file that changes.
    pub edits: bool,
}

impl Root {
    /// Its part of a definition; one without `allow_names` keeps its hash.
    fn members(&self) -> Vec<(&'static str, Json)> {
        let path = Json::from(self.path.to_string_lossy().as_ref());
        let mut members = vec![("root", Json::from(self.name.as_str())), ("path", path)];
        for (member, names) in
            [("protect", &self.protect), ("allow", &self.allow), ("allow_names", &self.allow_names)]
        {
            if !names.is_empty() {
                members.push((member, Json::of(names)));
            }
        }
        members
    }
}

impl Reach for Root {
    fn kind(&self) -> ToolKind {
        ToolKind::FileRead
    }

    fn definition(&self) -> Json {
        Json::object(self.members())
    }
}

impl Reach for Listing {
    fn kind(&self) -> ToolKind {
        ToolKind::FileList
    }

    fn definition(&self) -> Json {
        let mut members = self.root.members();
        members.push(("entries_max", Json::from(self.entries_max)));
        members.push(("depth_max", Json::from(self.depth_max)));
        Json::object(members)
    }
}

impl Reach for Writing {
    fn kind(&self) -> ToolKind {
        ToolKind::FileWrite
    }

    fn definition(&self) -> Json {
        let mut members = self.root.members();
        members.push(("create_parents", Json::from(self.create_parents)));
        if self.edits {
            members.push(("edits", Json::from(true)));
        }
        Json::object(members)
    }
}
