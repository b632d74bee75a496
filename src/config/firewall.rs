//! `firewall`: what the gate does about secrets, personal data and hidden text that it finds in
//! arguments, prompts and results.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Config, Ledger};
use crate::catalog::form::FilePath;
use crate::crypto::private;
use crate::domain::guarded::GuardAction;
use crate::firewall::{MIB_MS, OwnRules, RuleFile, RuleForm};
use crate::judge::guarding::{ClassActions, FindingMarks, RESULT_BYTES, ToolGuard};
use crate::tool::Guard;

/// `firewall`.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Firewall {
    /// What happens to findings in the arguments of calls.
    pub arguments: ArgumentRules,
    /// What happens to findings in the results of calls.
    pub results: ResultRules,
    /// What happens to findings in requests to models.
    pub prompts: PromptRules,
    /// The most that happens to a finding that may well be something else, such as a documented
    /// example key or a value that is assigned to a name.
    pub low: Masking,
    /// What happens to an answer with an image or a link, in Markdown or HTML, whose address carries private
    /// data that the run has read to another host. Choose `block` where answers are rendered.
    pub rendered: Rendering,
    /// Tools with rules of their own, by name. What such an entry leaves out applies as for all tools.
    #[schemars(extend("maxProperties" = 4096))]
    pub tools: BTreeMap<String, FirewallTool>,
    /// How much is searched.
    pub work: FirewallWork,
    /// Files with shapes of keys of your own, which the gate searches for besides its own shapes.
    #[schemars(with = "Vec<FilePath>", length(max = 16))]
    pub shapes: Vec<PathBuf>,
    /// Files with rules in the form of gitleaks, likewise.
    #[schemars(with = "Vec<FilePath>", length(max = 16))]
    pub gitleaks: Vec<PathBuf>,
    /// Keyed marks of findings: the same value has the same mark, and the mark tells no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marks: Option<FirewallMarks>,
}

/// `firewall.marks`.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FirewallMarks {
    /// File with the key of 32 bytes in base64 or hex, which only the gate may read.
    #[schemars(with = "FilePath")]
    pub key_file: PathBuf,
    /// Whether personal data has marks too. A holder of the key can try numbers until a mark fits.
    #[serde(default)]
    pub personal: bool,
}

impl Default for Firewall {
    fn default() -> Self {
        Self {
            arguments: ArgumentRules::default(),
            results: ResultRules::default(),
            prompts: PromptRules::default(),
            low: Masking::Warn,
            rendered: Rendering::Warn,
            tools: BTreeMap::new(),
            work: FirewallWork::default(),
            shapes: Vec::new(),
            gitleaks: Vec::new(),
            marks: None,
        }
    }
}

/// What happens to a finding that can be masked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Masking {
    /// The gate does not look for it.
    Off,
    /// The gate records it. Arguments and results with a secret are then not stored.
    Warn,
    /// The gate replaces it with `[REDACTED:kind]`. Where that is not exact, it blocks.
    Redact,
    /// The gate refuses the call, or releases nothing of the result.
    Block,
}

/// What happens to a finding that is passed on or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Passing {
    /// The gate does not look for it.
    Off,
    /// The gate records it. Arguments with a secret are then not stored.
    Warn,
    /// The gate refuses the call.
    Block,
}

/// What happens to characters that people do not see.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stripping {
    /// The gate does not look for them.
    Off,
    /// The gate records them.
    Warn,
    /// The gate leaves them out.
    Strip,
    /// The gate releases nothing of the result.
    Block,
}

/// What happens to an answer that carries something away when it is rendered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rendering {
    /// The gate does not look for it.
    Off,
    /// The gate records it.
    Warn,
    /// The gate releases nothing of the result.
    Block,
}

impl From<Rendering> for GuardAction {
    fn from(action: Rendering) -> Self {
        match action {
            Rendering::Off => Self::Off,
            Rendering::Warn => Self::Warn,
            Rendering::Block => Self::Block,
        }
    }
}

impl From<Masking> for GuardAction {
    fn from(action: Masking) -> Self {
        match action {
            Masking::Off => Self::Off,
            Masking::Warn => Self::Warn,
            Masking::Redact => Self::Redact,
            Masking::Block => Self::Block,
        }
    }
}

impl From<Passing> for GuardAction {
    fn from(action: Passing) -> Self {
        match action {
            Passing::Off => Self::Off,
            Passing::Warn => Self::Warn,
            Passing::Block => Self::Block,
        }
    }
}

impl From<Stripping> for GuardAction {
    fn from(action: Stripping) -> Self {
        match action {
            Stripping::Off => Self::Off,
            Stripping::Warn => Self::Warn,
            Stripping::Strip => Self::Strip,
            Stripping::Block => Self::Block,
        }
    }
}

/// Declares the rules of one direction, and the form in which a single tool states some of them.
macro_rules! rules {
    ($(#[$meta:meta])* $name:ident, $(#[$own_meta:meta])* $own:ident {
        $($(#[$doc:meta])* $class:ident: $action:ident = $default:ident,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name { $($(#[$doc])* pub $class: $action,)* }

        impl Default for $name {
            fn default() -> Self {
                Self { $($class: $action::$default,)* }
            }
        }

        $(#[$own_meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        pub struct $own {
            $(
                $(#[$doc])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $class: Option<$action>,
            )*
        }

        impl $name {
            /// The same, with what a single tool states.
            fn with(self, own: $own) -> Self {
                Self { $($class: own.$class.unwrap_or(self.$class),)* }
            }

            fn actions(self) -> ClassActions {
                ClassActions { $($class: self.$class.into(),)* }
            }
        }
    };
}

rules! {
    /// `firewall.arguments`.
    ArgumentRules,
    /// `firewall.tools.*.arguments`.
    OwnArgumentRules {
        /// Keys, tokens and passwords of any vendor.
        secret: Masking = Block,
        /// Data about people: card and account numbers, addresses, numbers of authorities.
        personal: Masking = Warn,
        /// Text that is written to steer a model.
        injection: Passing = Off,
        /// Characters that people do not see, or see as other ones.
        unicode: Passing = Warn,
    }
}

rules! {
    /// `firewall.results`.
    ResultRules,
    /// `firewall.tools.*.results`.
    OwnResultRules {
        /// Keys, tokens and passwords of any vendor.
        secret: Masking = Redact,
        /// Data about people: card and account numbers, addresses, numbers of authorities.
        personal: Masking = Off,
        /// Text that is written to steer a model.
        injection: Masking = Warn,
        /// Characters that people do not see, or see as other ones.
        unicode: Stripping = Strip,
    }
}

rules! {
    /// `firewall.prompts`.
    PromptRules,
    /// `firewall.tools.*.prompts`.
    OwnPromptRules {
        /// Keys, tokens and passwords of any vendor.
        secret: Passing = Block,
        /// Data about people: card and account numbers, addresses, numbers of authorities.
        personal: Passing = Warn,
        /// Text that is written to steer a model.
        injection: Passing = Off,
        /// Characters that people do not see, or see as other ones.
        unicode: Passing = Warn,
    }
}

/// `firewall.tools.*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FirewallTool {
    /// What happens to findings in the arguments of its calls.
    pub arguments: OwnArgumentRules,
    /// What happens to findings in its results.
    pub results: OwnResultRules,
    /// What happens to findings in requests to it, if it is a model.
    pub prompts: OwnPromptRules,
    /// What happens to its answers with an image or a link whose address carries private data away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rendered: Option<Rendering>,
}

/// `firewall.work`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FirewallWork {
    /// Bytes of a result that are searched. The gate releases nothing of a longer one where it masks or
    /// blocks secrets.
    #[schemars(range(min = 65_536, max = 268_435_456))]
    pub results_bytes: u64,
    /// Work for each MiB of text that is searched: milliseconds of a core that looks at 100 MB in a second.
    /// The gate counts the bytes that it looks at, and no time, so that an audit finds the same. What is not
    /// searched then is a finding `unscanned`. A change takes a restart.
    #[schemars(range(min = 25, max = 2500))]
    pub mib_ms: u64,
}

impl Default for FirewallWork {
    fn default() -> Self {
        Self { results_bytes: RESULT_BYTES, mib_ms: MIB_MS }
    }
}

impl Firewall {
    /// The guard of the road, with these marks.
    #[must_use]
    pub fn guard(&self, marks: FindingMarks) -> Guard {
        let tools = self.tools.iter().map(|(name, own)| (name.clone(), self.rules(*own)));
        Guard::new(self.rules(FirewallTool::default()), tools.collect(), marks)
    }

    fn rules(&self, own: FirewallTool) -> ToolGuard {
        ToolGuard {
            arguments: self.arguments.with(own.arguments).actions(),
            results: self.results.with(own.results).actions(),
            prompts: self.prompts.with(own.prompts).actions(),
            low: self.low.into(),
            results_bytes: self.work.results_bytes,
            rendered: own.rendered.unwrap_or(self.rendered).into(),
        }
    }
}

/// Reads files of rules. `mib_ms`: the work for each MiB of text.
///
/// # Errors
/// A file cannot be read, or has an error; it is named.
pub fn own_rules(
    shapes: &[PathBuf],
    gitleaks: &[PathBuf],
    mib_ms: u64,
) -> Result<OwnRules, String> {
    let file = |path: &Path, form| {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| format!("`{}` cannot be read: {error}", path.display()))?;
        // Where it lies belongs to no bundle of evidence.
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        Ok(RuleFile { name: name.unwrap_or_default(), form, text })
    };
    let shapes = shapes.iter().map(|path| file(path, RuleForm::Shapes));
    let gitleaks = gitleaks.iter().map(|path| file(path, RuleForm::Gitleaks));
    let files: Result<Vec<RuleFile>, String> = shapes.chain(gitleaks).collect();
    OwnRules::with_work(&files?, mib_ms).map_err(|error| error.to_string())
}

impl Config {
    /// The rules that the operator adds to ours.
    ///
    /// # Errors
    /// As [`own_rules`].
    pub fn firewall_rules(&self) -> Result<OwnRules, String> {
        let Firewall { shapes, gitleaks, work, .. } = &self.firewall;
        let read = own_rules(shapes, gitleaks, work.mib_ms);
        read.map_err(|why| self.written.error("firewall", why).to_string())
    }

    /// The marks of findings.
    ///
    /// # Errors
    /// The key file cannot be used.
    pub fn finding_marks(&self) -> Result<FindingMarks, String> {
        let Some(marks) = &self.firewall.marks else { return Ok(FindingMarks::default()) };
        let key = private::key(&marks.key_file).map_err(|why| {
            self.written.error("firewall.marks.key_file", why.to_string()).to_string()
        })?;
        let tenant = match &self.ledger {
            Ledger::Postgres(postgres) => postgres.tenant.as_str(),
            Ledger::Sqlite(_) => "default",
        };
        Ok(FindingMarks::new(&key, tenant, marks.personal))
    }

    /// Tools that have rules of their own in `firewall.tools` and that no binding has. `is_bound`: whether
    /// there is a tool of this name.
    pub fn unbound_in_firewall(&self, is_bound: impl Fn(&str) -> bool) -> Vec<String> {
        let unbound = self.firewall.tools.keys().filter(|name| !is_bound(name));
        let why = "no tool has this name: name one of `tools`, `SERVER.TOOL` of a server, or `client.TOOL`";
        unbound
            .map(|name| {
                self.written.error("firewall.tools", format!("`{name}`: {why}")).to_string()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_of_the_configuration_are_those_of_the_road() {
        let guard = Firewall::default().guard(FindingMarks::default());
        assert_eq!(guard.of("any"), ToolGuard::default());
    }

    #[test]
    fn a_tool_states_what_differs_and_keeps_the_rest() {
        let text = r#"{"low":"block","arguments":{"personal":"block"},
            "tools":{"notes":{"arguments":{"secret":"warn"},"results":{"unicode":"warn"}}}}"#;
        let guard = serde_json::from_str::<Firewall>(text).unwrap();
        let guard = guard.guard(FindingMarks::default());
        let (notes, other) = (guard.of("notes"), guard.of("other"));
        assert_eq!(notes.arguments.secret, GuardAction::Warn);
        assert_eq!(notes.arguments.personal, GuardAction::Block);
        assert_eq!(notes.results.unicode, GuardAction::Warn);
        assert_eq!(notes.results.secret, GuardAction::Redact);
        assert_eq!(other.arguments.secret, GuardAction::Block);
        assert_eq!((notes.low, other.low), (GuardAction::Block, GuardAction::Block));
        for wrong in [r#"{"prompts":{"secret":"redact"}}"#, r#"{"shape":[]}"#, r#"{"low":"loud"}"#]
        {
            assert!(serde_json::from_str::<Firewall>(wrong).is_err(), "{wrong}");
        }
    }
}
