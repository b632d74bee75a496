//! The changes of a new lock, for the person who is about to sign it.

use std::collections::BTreeSet;

use super::{Lock, LockedServer, printable};
use crate::domain::plural::many;
use crate::drift::{self, Change, Weight};

/// One thing that differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The server.
    pub server: String,
    /// The server's name for the tool; `None` for the server itself.
    pub tool: Option<String>,
    /// The effect on users of the locked tool.
    pub weight: Weight,
    /// What differs, each fit to print.
    pub what: Vec<String>,
}

/// Everything that differs, by server and tool. A new tool does not affect the pinned ones, and is
/// still a difference: the operator has to look at it.
pub fn differences(old: &Lock, new: &Lock) -> Vec<Difference> {
    let names: BTreeSet<&String> = old.servers.keys().chain(new.servers.keys()).collect();
    let mut found = Vec::new();
    for name in names {
        let of_server = |weight, what: String| Difference {
            server: name.clone(),
            tool: None,
            weight,
            what: vec![what],
        };
        match (old.servers.get(name), new.servers.get(name)) {
            (Some(old), Some(new)) => server(old, new, &mut found),
            (None, Some(new)) => {
                let what = format!("new, with {}", many(new.tools.len(), "tool"));
                found.push(of_server(Weight::Compatible, what));
            }
            (Some(_), None) => found.push(of_server(Weight::Breaking, "removed".into())),
            (None, None) => {}
        }
    }
    found
}

fn server(old: &LockedServer, new: &LockedServer, found: &mut Vec<Difference>) {
    let mut whole = |weight, what: String| {
        found.push(Difference { server: new.name.clone(), tool: None, weight, what: vec![what] });
    };
    if old.binding != new.binding {
        whole(Weight::Breaking, "it is reached in another way".into());
    }
    let paths: BTreeSet<&String> = old.files.keys().chain(new.files.keys()).collect();
    for path in paths.into_iter().filter(|path| old.files.get(*path) != new.files.get(*path)) {
        whole(Weight::Breaking, format!("`{}` is another file", printable(path)));
    }
    if old.protocol != new.protocol {
        whole(Weight::Text, format!("speaks {}, was {}", new.protocol, old.protocol));
    }
    if old.server_info != new.server_info {
        whole(Weight::Text, "says something else of itself".into());
    }
    for method in new.methods.iter().filter(|method| !old.methods.contains(method)) {
        whole(Weight::Compatible, format!("method `{method}` is new"));
    }
    for method in old.methods.iter().filter(|method| !new.methods.contains(method)) {
        whole(Weight::Breaking, format!("method `{method}` is gone"));
    }
    let names: BTreeSet<&String> = old.tools.keys().chain(new.tools.keys()).collect();
    for name in names {
        let (weight, what) = match (old.tools.get(name), new.tools.get(name)) {
            (None, _) => (Weight::Compatible, vec!["new".to_owned()]),
            (Some(old), live) => {
                let changes = drift::changes(old, live);
                let Some(weight) = changes.iter().map(|change| change.weight).max() else {
                    continue;
                };
                (weight, changes.iter().map(Change::to_string).collect())
            }
        };
        let tool = Some(printable(name));
        found.push(Difference { server: new.name.clone(), tool, weight, what });
    }
}
