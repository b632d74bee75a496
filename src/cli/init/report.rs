//! The report of `init` at its end.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::error::{Error, UngovernedServer};
use super::furnish::Plan;
use super::probe::Governed;
use super::shape::ClientFile;
use super::snippet::{self, ServerLocation, TOKEN_VARIABLE};
use crate::cli::{note, say};
use crate::domain::plural::many;

/// Everything that was done.
pub struct InitReport {
    dir: PathBuf,
    file: PathBuf,
    until: String,
    governed: Vec<Governed>,
    left_out: Vec<UngovernedServer>,
    snippet: String,
    token: bool,
    /// Where the client's file as it was is kept, if it was changed.
    kept: Option<PathBuf>,
}

impl InitReport {
    /// What was written.
    pub fn new(
        plan: &Plan,
        dir: PathBuf,
        source: &ClientFile,
        way: &ServerLocation,
        governed: Vec<Governed>,
        left_out: Vec<UngovernedServer>,
    ) -> Self {
        let snippet = snippet::file(way, source, &pairs(&governed));
        let until = plan.until().to_string();
        let (file, token) = (source.file.clone(), plan.http.is_some());
        Self { dir, file, until, governed, left_out, snippet, token, kept: None }
    }

    /// Changes the client's file.
    pub fn rewrite(&mut self, source: &ClientFile, way: &ServerLocation) -> Result<(), Error> {
        let withheld: Vec<&str> = self
            .governed
            .iter()
            .flat_map(|one| &one.draft.withheld)
            .map(|text| text.as_str())
            .collect();
        let text = snippet::rewritten(way, source, &pairs(&self.governed));
        let kept = text.and_then(|text| Ok(snippet::replace(source, &text, &withheld)?));
        let kept = kept.map_err(|error| Error::NotRewritten {
            error: Box::new(error),
            dir: self.dir.clone(),
            entries: self.snippet.clone(),
        });
        self.kept = Some(kept?);
        Ok(())
    }

    /// Says it.
    pub fn print(&self, json: bool) {
        for one in &self.governed {
            for remark in one.draft.notes.iter().chain(&one.left_out) {
                note(format!("{}: note: {remark}", one.draft.client_name));
            }
        }
        for one in &self.left_out {
            note(format!("{}: left out: {}", one.client_name, one.why));
        }
        if json {
            say(self.value().to_string());
        } else {
            self.tell();
        }
    }

    fn tell(&self) {
        let dir = self.dir.display();
        let secrets: usize = self.governed.iter().map(|one| one.draft.secrets.len()).sum();
        say(format!("{dir}/"));
        let until = self.until.split('T').next().unwrap_or_default();
        for (name, what) in [
            ("wicketgate.yaml", many(self.governed.len(), "server")),
            ("agent.yaml", "what the agent may use, signed".to_owned()),
            ("tools.lock", "what the servers showed, signed".to_owned()),
            ("policy/org", "enforced: protected files, metadata addresses".to_owned()),
            ("policy/agent", format!("observes until {until}, then denies tools without a review")),
            (
                "keys/",
                "manifest, policy, lock, evidence, fleet: keep them from the agent".to_owned(),
            ),
            ("credentials/", format!("{secrets} moved out of the client's file")),
        ] {
            say(format!("  {name:<17}{what}"));
        }
        say("");
        for one in &self.governed {
            let (kind, tools) = (one.draft.reach.0, one.locked.tools.len());
            let reads = one.reads().count();
            let renamed = if one.draft.name == one.draft.client_name {
                String::new()
            } else {
                format!(" (here `{}`)", one.draft.name)
            };
            let more = one.locked.methods.len();
            let more =
                if more > 0 { format!(", {}", many(more, "other method")) } else { String::new() };
            say(format!(
                "{}{renamed}: {kind}, {}{more}; {reads} read-only by its own description",
                one.draft.client_name,
                many(tools, "tool")
            ));
            if kind == "stdio" {
                say(format!("  {}", one.draft.confined.description()));
            }
        }
        say("");
        match &self.kept {
            Some(kept) => say(format!(
                "{} now uses the gate; the original without credentials: {}",
                self.file.display(),
                kept.display()
            )),
            None => {
                say(format!("Put this into {} (--write does it):", self.file.display()));
                say(&self.snippet);
            }
        }
        if self.token {
            say(format!(
                "\nClients need {TOKEN_VARIABLE}=$(cat {dir}/credentials/agent.token) and a running gate:"
            ));
            say(format!("  wicketgate serve --config {dir}/wicketgate.yaml"));
        }
        say(format!(
            "\nWhat would have been denied: wicketgate policy observed --config {dir}/wicketgate.yaml"
        ));
    }

    fn value(&self) -> Value {
        let server = |one: &Governed| {
            json!({"client_name": one.draft.client_name, "name": one.draft.name,
                "transport": one.draft.reach.0, "notes": one.draft.notes,
                "tools": one.locked.tools.keys().collect::<Vec<_>>(),
                "methods": one.locked.methods, "read_only_claimed": one.reads().collect::<Vec<_>>(),
                "tools_left_out": one.left_out, "sandbox": sandbox(one),
                "credentials": one.draft.secrets.iter().map(|(file, _)| file).collect::<Vec<_>>()})
        };
        let left = |one: &UngovernedServer| json!({"client_name": one.client_name, "why": one.why.to_string()});
        let snippet: Value = self.snippet.parse().unwrap_or(Value::Null);
        json!({"dir": self.dir, "config": self.dir.join("wicketgate.yaml"), "client_file": self.file,
            "client_file_before": self.kept, "observe_until": self.until, "client_entries": snippet,
            "servers": self.governed.iter().map(server).collect::<Vec<_>>(),
            "left_out": self.left_out.iter().map(left).collect::<Vec<_>>()})
    }
}

/// A server's sandbox, and a person's options for it; empty for one behind a URL.
fn sandbox(one: &Governed) -> Value {
    if one.draft.reach.0 != "stdio" {
        return Value::Null;
    }
    let mut sandbox = one.draft.confined.config();
    if let Value::Object(members) = &mut sandbox {
        members.insert("why".to_owned(), json!(one.draft.confined.why));
    }
    sandbox
}

fn pairs(governed: &[Governed]) -> Vec<(String, String)> {
    let pair = |one: &Governed| (one.draft.client_name.clone(), one.draft.name.clone());
    governed.iter().map(pair).collect()
}
