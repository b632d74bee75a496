//! A proposal for `spec` of a manifest, as YAML to paste and as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::requests::RecordedRequests;
use crate::domain::digest::Digest;
use crate::domain::plural::many;
use crate::domain::tier::Tier;
use crate::identity::instructions::InstructionPlace;
use crate::identity::pin::{self, ProposedInstruction, ProposedTool, ProposedTools};

/// The tier of a client tool that no manifest of the runs lists.
const TIER: Tier = Tier::T2;

/// What the manifests of the runs and the configuration say.
#[derive(Debug, Default)]
pub(super) struct Surroundings {
    /// The provider of the models, if it is known and one.
    pub provider: Option<String>,
    /// The names of granted tools; none if no manifest of the runs is stored.
    pub granted: Option<BTreeSet<String>>,
    /// The tiers of client tools that are listed already.
    pub tiers: BTreeMap<String, Tier>,
}

/// A proposal for `spec`.
#[derive(Debug)]
pub(super) struct PinProposal {
    /// The runs, as the command line names them.
    runs: Vec<String>,
    requests: usize,
    left_out: usize,
    models: BTreeSet<String>,
    provider: Option<String>,
    /// Whether a run claimed nothing, as runs of a model face do.
    is_unclaimed: bool,
    instructions: Vec<ProposedInstruction>,
    tools: ProposedTools,
    tiers: BTreeMap<String, Tier>,
    knows_grants: bool,
    /// The pinned texts, by their digests.
    texts: BTreeMap<Digest, String>,
}

impl PinProposal {
    /// Makes the proposal.
    pub fn of(recorded: &RecordedRequests, known: Surroundings) -> Self {
        let shown = || recorded.requests.iter().map(|request| &request.shown);
        let blocks: Vec<_> = shown().map(pin::ShownRequest::blocks).collect();
        let instructions = pin::propose(&blocks);
        let granted: Vec<&str> = known.granted.iter().flatten().map(String::as_str).collect();
        let tools = pin::propose_tools(shown(), &granted);
        let seen =
            blocks.iter().flatten().map(|block| (Digest::of(&[block.text.as_bytes()]), block));
        let seen: BTreeMap<Digest, &str> =
            seen.map(|(digest, block)| (digest, block.text)).collect();
        let text = |one: &ProposedInstruction| {
            let text = one.template.clone();
            text.or_else(|| seen.get(&one.sha256).map(|text| (*text).to_owned()))
        };
        let texts = instructions.iter().filter_map(|one| Some((one.sha256, text(one)?))).collect();
        Self {
            runs: recorded.runs.iter().map(|run| run.run.to_string()).collect(),
            requests: recorded.requests.len(),
            left_out: recorded.left_out.len(),
            models: shown().map(|one| one.model.clone()).collect(),
            provider: known.provider,
            is_unclaimed: recorded.runs.iter().any(|run| run.is_unclaimed),
            instructions,
            tools,
            tiers: known.tiers,
            knows_grants: known.granted.is_some(),
            texts,
        }
    }

    /// The files beside the fragment: templates, which the gate reads, and the texts of blocks, which
    /// people read.
    pub fn files(&self) -> Vec<(String, &str)> {
        let file = |one: &ProposedInstruction| {
            self.texts.get(&one.sha256).map(|text| (file(one), text.as_str()))
        };
        self.instructions.iter().filter_map(file).collect()
    }

    fn loose_bytes(&self) -> u64 {
        self.instructions.iter().fold(0_u64, |sum, one| sum.saturating_add(one.loose_bytes))
    }

    fn tier(&self, tool: &ProposedTool) -> Tier {
        self.tiers.get(&tool.name).copied().unwrap_or(TIER)
    }

    /// The members of `spec`.
    fn spec(&self) -> Value {
        let mut spec = json!({
            "instructions": self.instructions.iter().map(entry).collect::<Vec<_>>(),
            "client_tools": self.tools.client.iter().map(|one| self.tool(one)).collect::<Vec<_>>(),
        });
        if let Value::Object(members) = &mut spec {
            let model = |provider| json!({"provider": provider, "names": self.models});
            members.extend(self.provider.as_ref().map(|one| ("model".to_owned(), model(one))));
            let binding = || ("binding".to_owned(), json!({"minimum": "unclaimed"}));
            members.extend(self.is_unclaimed.then(binding));
        }
        spec
    }

    fn tool(&self, tool: &ProposedTool) -> Value {
        let mut entry = json!({"name": tool.name, "tier": self.tier(tool).as_str()});
        if let (Value::Object(members), Some(definition)) = (&mut entry, tool.definition) {
            members.insert("definition".to_owned(), definition.prefixed().into());
        }
        entry
    }

    /// Everything that is proposed, and what it rests on.
    pub fn facts(&self) -> Value {
        let instructions = self.instructions.iter().map(|one| {
            json!({"sha256": one.sha256.hex(), "bytes": one.bytes, "requests": one.requests,
                "loose_bytes": one.loose_bytes, "file": file(one)})
        });
        let tools = self.tools.client.iter().map(|one| {
            json!({"name": one.name, "requests": one.requests, "definitions": one.definitions})
        });
        json!({
            "runs": self.runs,
            "requests": self.requests,
            "models": self.models,
            "loose_bytes": self.loose_bytes(),
            "instructions": instructions.collect::<Vec<_>>(),
            "client_tools": tools.collect::<Vec<_>>(),
            "governed_tools": self.tools.governed,
            "unlisted_tools": self.tools.unlisted,
            "spec": self.spec(),
        })
    }

    /// The fragment.
    pub fn yaml(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, to: &mut String) -> std::fmt::Result {
        self.write_head(to)?;
        self.write_model(to)?;
        self.write_instructions(to)?;
        self.write_tools(to)
    }

    fn write_head(&self, to: &mut String) -> std::fmt::Result {
        let (requests, runs) = (many(self.requests, "request"), self.runs.join(", "));
        writeln!(to, "  # Proposed by `wicketgate manifest pin` from {requests} of run {runs}.")?;
        if self.left_out > 0 {
            writeln!(to, "  # {} not used.", many(self.left_out, "request"))?;
        }
        writeln!(
            to,
            "  # These members replace those of the same names in `spec`. Read the texts in"
        )?;
        writeln!(
            to,
            "  # `instructions/` and `templates/`, raise `metadata.version`, then sign the manifest."
        )?;
        match (self.loose_bytes(), self.is_templated()) {
            (_, false) => writeln!(to, "  # loose_bytes: 0; every text is pinned as a whole."),
            (loose, true) => {
                writeln!(
                    to,
                    "  # loose_bytes: {loose} bytes stand in holes of templates, which fix no text."
                )
            }
        }
    }

    fn is_templated(&self) -> bool {
        self.instructions.iter().any(|one| one.template.is_some())
    }

    fn write_model(&self, to: &mut String) -> std::fmt::Result {
        let names: Vec<String> = self.models.iter().map(|name| quoted(name)).collect();
        let names = names.join(", ");
        match &self.provider {
            Some(provider) => {
                writeln!(to, "  model: {{provider: {}, names: [{names}]}}", quoted(provider))?;
            }
            None => {
                writeln!(
                    to,
                    "  # The provider is not known: write that of the upstream (`provider` in the configuration)."
                )?;
                writeln!(to, "  # model: {{provider: NAME, names: [{names}]}}")?;
            }
        }
        if self.is_unclaimed {
            writeln!(
                to,
                "  # A run that MCP opens claims nothing: without this line the gate refuses to open it."
            )?;
            writeln!(to, "  # Keep the other members of `binding` that `spec` has.")?;
            writeln!(to, "  binding: {{minimum: unclaimed}}")?;
        }
        Ok(())
    }

    fn write_instructions(&self, to: &mut String) -> std::fmt::Result {
        if self.instructions.is_empty() {
            writeln!(
                to,
                "  # The requests had no instructions. With an empty list nothing is demanded."
            )?;
            return writeln!(to, "  instructions: []");
        }
        writeln!(to, "  instructions:")?;
        for one in &self.instructions {
            let loose = match one.template {
                Some(_) => format!(", of the first text {} loose", one.loose_bytes),
                None => String::new(),
            };
            let (of, bytes) = (many(self.requests, "request"), one.bytes);
            writeln!(to, "    # in {} of {of}, {bytes} bytes{loose}: {}", one.requests, file(one))?;
            let mut members = vec![format!("sha256: \"{}\"", one.sha256.hex())];
            members.push(format!("scope: {}", one.scope));
            if one.place != InstructionPlace::default() {
                members.push(format!("place: {}", one.place.as_str()));
            }
            members.extend(one.required.then(|| "required: true".to_owned()));
            writeln!(to, "    - {{{}}}", members.join(", "))?;
        }
        Ok(())
    }

    fn write_tools(&self, to: &mut String) -> std::fmt::Result {
        if !self.knows_grants {
            writeln!(
                to,
                "  # The manifest of the runs is not stored here (`--artifacts`): remove the tools of the gate below."
            )?;
        }
        for (offered, granted) in &self.tools.governed {
            writeln!(to, "  # {} is the granted tool {granted}.", quoted(offered))?;
        }
        for name in &self.tools.unlisted {
            writeln!(
                to,
                "  # No entry can have the name {}: it is longer than 121 characters, or has others than",
                quoted(name)
            )?;
            writeln!(
                to,
                "  # letters, digits, `_`, `.` and `-`. The gate denies requests that offer it."
            )?;
        }
        if self.tools.client.is_empty() {
            return writeln!(to, "  client_tools: []");
        }
        writeln!(
            to,
            "  # Choose the tier of each tool: {} stands where no manifest of the runs lists it.",
            TIER.as_str()
        )?;
        writeln!(to, "  client_tools:")?;
        for tool in &self.tools.client {
            if tool.definition.is_none() {
                let count = many(tool.definitions, "definition");
                writeln!(to, "    # offered with {count}: none is pinned")?;
            }
            let mut members = vec![format!("name: {}", quoted(&tool.name))];
            members.push(format!("tier: {}", self.tier(tool).as_str()));
            members
                .extend(tool.definition.map(|one| format!("definition: \"{}\"", one.prefixed())));
            writeln!(to, "    - {{{}}}", members.join(", "))?;
        }
        Ok(())
    }
}

/// The file with the text of an entry.
fn file(one: &ProposedInstruction) -> String {
    let dir = if one.template.is_some() { "templates" } else { "instructions" };
    format!("{dir}/{}.txt", one.sha256.hex())
}

fn entry(one: &ProposedInstruction) -> Value {
    let mut entry = json!({"sha256": one.sha256.hex(), "scope": one.scope.to_string()});
    if let Value::Object(members) = &mut entry {
        if one.place != InstructionPlace::default() {
            members.insert("place".to_owned(), one.place.as_str().into());
        }
        members.extend(one.required.then(|| ("required".to_owned(), Value::Bool(true))));
    }
    entry
}

/// A text in double quotes, which YAML reads as JSON does. WHY only ASCII: an agent chose it, and other
/// characters break lines in some readers, or move what a terminal shows.
fn quoted(text: &str) -> String {
    let mut written = String::new();
    for c in Value::from(text).to_string().chars() {
        match u32::from(c) {
            // Without those of two halves: YAML knows no pairs.
            code @ 0x7f..=0xffff => written.push_str(&format!("\\u{code:04x}")),
            _other => written.push(c),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::super::requests::{RecordedRequest, RecordedRun};
    use super::*;
    use crate::domain::dialect::Dialect;
    use crate::domain::id::RunId;
    use crate::domain::json::Json;
    use crate::identity;

    /// One request for each of these instructions, which offers these tools.
    fn recorded(instructions: &[&str], tools: &[&str]) -> RecordedRequests {
        let run = RunId::from_random([1; 16]);
        let tools: Vec<Value> =
            tools.iter().map(|name| json!({"name": name, "input_schema": {}})).collect();
        let requests = instructions.iter().map(|text| {
            let args =
                json!({"model": "odd: \"{id}\"", "system": text, "messages": [], "tools": tools});
            let shown =
                pin::ShownRequest::read(&Json::from(args), Some(Dialect::Messages)).unwrap();
            RecordedRequest { run, call: "c".to_owned(), is_denied: false, shown }
        });
        RecordedRequests {
            runs: vec![RecordedRun { run, manifest: None, is_unclaimed: true }],
            requests: requests.collect(),
            left_out: Vec::new(),
        }
    }

    /// The manifest with this fragment.
    fn read(fragment: &str) -> identity::manifest::Manifest {
        let head = "apiVersion: wicketgate.dev/v1\nkind: AgentManifest\n\
                    metadata: {name: a, version: 1.0.0, owner: o}\nspec:\n  status: active\n  tools: []\n  \
                    validity: {not_before: 2026-01-01T00:00:00Z, not_after: 2036-01-01T00:00:00Z}\n";
        let text = format!("{head}{fragment}");
        identity::read(text.as_bytes(), "agent.yaml").unwrap_or_else(|e| panic!("{e}\n{text}"))
    }

    #[test]
    fn a_fragment_is_read_as_what_was_proposed() {
        let texts = ["Work in /a/b, and nowhere else.", "Work in /c, and nowhere else."];
        let recorded = recorded(&texts, &["Bash", "null", "a b", "gov_fs_read"]);
        let known = Surroundings {
            provider: Some("some: one".to_owned()),
            granted: Some(["fs.read".to_owned()].into()),
            tiers: [("Bash".to_owned(), Tier::T3)].into(),
        };
        let proposal = PinProposal::of(&recorded, known);
        let manifest = read(&proposal.yaml());
        assert_eq!(manifest.model_provider, "some: one");
        assert_eq!(manifest.model_names, ["odd: \"{id}\""]);
        let [entry] = manifest.instructions.as_slice() else { panic!("{manifest:?}") };
        assert!(entry.required);
        let template = "Work in {{path}}, and nowhere else.";
        let name = format!("templates/{}.txt", entry.sha256.hex());
        assert_eq!(proposal.files(), [(name, template)]);
        let tools = manifest.client_tools.iter().map(|tool| (tool.name.as_str(), tool.tier));
        assert_eq!(tools.collect::<Vec<_>>(), [("Bash", Tier::T3), ("null", Tier::T2)]);
        assert!(manifest.client_tools.iter().all(|tool| tool.definition.is_some()));
        let yaml = proposal.yaml();
        assert!(yaml.contains("\"gov_fs_read\" is the granted tool fs.read"), "{yaml}");
        assert!(yaml.contains("No entry can have the name \"a b\""), "{yaml}");
        assert!(yaml.contains("loose_bytes: 4 bytes"), "{yaml}");
        assert_eq!(proposal.facts()["spec"]["binding"], json!({"minimum": "unclaimed"}));
    }

    #[test]
    fn a_name_neither_breaks_a_line_nor_moves_what_a_terminal_shows() {
        let name = "a\u{85}b\u{2028}c\u{9b}31m\u{202e}d\n\u{1f600}";
        let written = quoted(name);
        assert_eq!(written, "\"a\\u0085b\\u2028c\\u009b31m\\u202ed\\n\u{1f600}\"");
        let known = Surroundings { provider: Some("p".to_owned()), ..Surroundings::default() };
        let proposal = PinProposal::of(&recorded(&["x"], &[name]), known);
        assert!(proposal.yaml().contains(&written));
        assert!(read(&proposal.yaml()).client_tools.is_empty());
    }

    #[test]
    fn what_is_not_known_is_said_in_comments() {
        let mut recorded = recorded(&["Be brief."], &[]);
        recorded.requests.iter_mut().for_each(|one| one.shown.instructions.clear());
        let proposal = PinProposal::of(&recorded, Surroundings::default());
        let (yaml, manifest) = (proposal.yaml(), read(&proposal.yaml()));
        assert!(manifest.model_names.is_empty() && manifest.instructions.is_empty());
        assert!(yaml.contains("# model: {provider: NAME, names: [\"odd: "), "{yaml}");
        assert!(yaml.contains("`--artifacts`"), "{yaml}");
        assert_eq!(proposal.files(), []);
    }
}
