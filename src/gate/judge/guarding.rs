//! The guard of one call: what the configuration says about findings, and what was found in the call.

use std::sync::{Arc, LazyLock};

use zeroize::Zeroizing;

use crate::domain::call::ToolCall;
use crate::domain::commitment::derived;
use crate::domain::decision::LayerReason;
use crate::domain::digest::Digest;
use crate::domain::facts::Finding;
use crate::domain::guarded::{GuardAction, GuardFinding, SignedException, Withheld};
use crate::domain::json::Json;
use crate::firewall::{self, Class, Confidence, Hit};
use crate::judge::exceptions::{CallExceptions, FindingException};
use crate::record::call::MaskedKinds;
use crate::record::debug_by;

/// Bytes of a result that are searched, unless the configuration says otherwise.
pub const RESULT_BYTES: u64 = 8 << 20;

/// What happens to findings of each class in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassActions {
    /// Keys, tokens and passwords.
    pub secret: GuardAction,
    /// Data about people.
    pub personal: GuardAction,
    /// Text that is written to steer a model.
    pub injection: GuardAction,
    /// Characters that people do not see as what they are.
    pub unicode: GuardAction,
}

impl ClassActions {
    /// Whether nothing is looked for.
    #[must_use]
    pub fn is_off(&self) -> bool {
        let Self { secret, personal, injection, unicode } = *self;
        [secret, personal, injection, unicode].iter().all(|action| *action == GuardAction::Off)
    }

    /// Whether anything is masked.
    #[must_use]
    pub fn masks(&self) -> bool {
        let Self { secret, personal, injection, unicode } = *self;
        [secret, personal, injection, unicode].contains(&GuardAction::Redact)
    }

    const fn of(&self, class: Class, confidence: Confidence) -> GuardAction {
        match (class, confidence) {
            (Class::Secret, _) => self.secret,
            (Class::Personal, _) => self.personal,
            (Class::Injection, _) => self.injection,
            (Class::Unicode, _) => self.unicode,
            // What was not searched to its end may hold anything: it passes nowhere where secrets do
            // not.
            (Class::Unscanned, Confidence::High) => match self.secret {
                GuardAction::Off => GuardAction::Off,
                GuardAction::Warn | GuardAction::Strip => GuardAction::Warn,
                GuardAction::Redact | GuardAction::Block => GuardAction::Block,
            },
            (Class::Unscanned, Confidence::Low) => match self.secret {
                GuardAction::Off => GuardAction::Off,
                GuardAction::Warn
                | GuardAction::Strip
                | GuardAction::Redact
                | GuardAction::Block => GuardAction::Warn,
            },
        }
    }
}

/// What the configuration says about one tool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ToolGuard {
    /// Arguments of its calls.
    pub arguments: ClassActions,
    /// Its answers.
    pub results: ClassActions,
    /// Requests to a model, which are arguments of such a tool.
    pub prompts: ClassActions,
    /// The most that happens to a finding that may well be something else.
    pub low: GuardAction,
    /// Bytes of an answer that are searched.
    pub results_bytes: u64,
    /// What happens to an answer with an image or a link whose address holds private data of the run.
    pub rendered: GuardAction,
}

/// A direction in which something passes the gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// To a tool.
    Arguments,
    /// From a tool.
    Results,
    /// To a model.
    Prompts,
}

impl Direction {
    /// Its name in the configuration and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Arguments => "arguments",
            Self::Results => "results",
            Self::Prompts => "prompts",
        }
    }
}

impl Default for ToolGuard {
    fn default() -> Self {
        use GuardAction::{Block, Off, Redact, Strip, Warn};
        let arguments =
            ClassActions { secret: Block, personal: Warn, injection: Off, unicode: Warn };
        let results =
            ClassActions { secret: Redact, personal: Off, injection: Warn, unicode: Strip };
        let (prompts, low) = (arguments, Warn);
        Self { arguments, results, prompts, low, results_bytes: RESULT_BYTES, rendered: Warn }
    }
}

impl ToolGuard {
    /// The actions in this direction.
    #[must_use]
    pub const fn actions(&self, direction: Direction) -> &ClassActions {
        match direction {
            Direction::Arguments => &self.arguments,
            Direction::Results => &self.results,
            Direction::Prompts => &self.prompts,
        }
    }

    /// What happens to this finding.
    #[must_use]
    pub fn action(&self, direction: Direction, hit: &Hit) -> GuardAction {
        let action = self.actions(direction).of(hit.class, hit.confidence);
        match hit.confidence {
            Confidence::High => action,
            Confidence::Low => action.min(self.low),
        }
    }
}

/// The key of the marks of findings. A mark tells that a value came again, and not which one.
#[derive(Clone, Default)]
pub struct FindingMarks {
    key: Option<Arc<Zeroizing<[u8; 32]>>>,
    personal: bool,
}

debug_by!(FindingMarks: personal);

impl FindingMarks {
    /// Marks by this key, of personal data too if `personal`. Each tenant has marks of its own.
    #[must_use]
    pub fn new(key: &[u8; 32], tenant: &str, personal: bool) -> Self {
        let of_tenant = derived(key, &[b"wicketgate/finding-marks/1\0", tenant.as_bytes()]);
        Self { key: Some(Arc::new(Zeroizing::new(of_tenant))), personal }
    }

    /// The mark of a finding in a document; `None` if it has none.
    #[must_use]
    pub fn of(&self, hit: &Hit, document: &Json) -> Option<[u8; 16]> {
        if !self.is_keyed() || !self.marks(hit.class) {
            return None;
        }
        let value = Zeroizing::new(hit.value(document)?);
        self.of_value(hit.class, &value)
    }

    /// The mark of a value of this class; `None` if it has none.
    #[must_use]
    pub fn of_value(&self, class: Class, value: &str) -> Option<[u8; 16]> {
        let key = self.key.as_ref().filter(|_| self.marks(class))?;
        derived(key, &[value.as_bytes()]).first_chunk().copied()
    }

    /// Whether there is a key, so that findings have marks.
    #[must_use]
    pub const fn is_keyed(&self) -> bool {
        self.key.is_some()
    }

    const fn marks(&self, class: Class) -> bool {
        match class {
            Class::Secret | Class::Injection => true,
            Class::Personal => self.personal,
            Class::Unicode | Class::Unscanned => false,
        }
    }
}

/// The private data that a run had read when a call of it was judged.
pub trait ReadBefore: std::fmt::Debug + Send + Sync {
    /// Whether a text holds a passage of it.
    fn is_copied_in(&self, text: &str) -> bool;

    /// Whether some of that is not known any more.
    fn is_unknown(&self) -> bool;
}

/// What the firewall found in one call, and what follows from it.
#[derive(Clone, Debug, Default)]
pub struct Screening {
    /// What the configuration says about its tool.
    pub guard: ToolGuard,
    /// The marks of findings.
    pub marks: FindingMarks,
    /// The signed orders about its tool that were in force when the call was searched.
    pub exceptions: CallExceptions,
    /// Those of them by which something in its arguments passes.
    pub used: Vec<Arc<FindingException>>,
    /// The findings, as far as the configuration looks for them.
    pub findings: Vec<GuardFinding>,
    /// Why the arguments are committed to and not stored.
    pub withheld: Option<Withheld>,
    /// Why the call is refused before any policy is asked.
    pub refusal: Option<LayerReason>,
    /// What a policy is shown in place of the arguments.
    pub views: Option<MaskedViews>,
    /// Whether the arguments of the call are masked.
    pub masked: bool,
    /// The kinds of which every finding is masked.
    pub masks: Option<MaskedKinds>,
    /// The kinds that the policy wants masked in the arguments.
    pub demanded: Vec<String>,
    /// The call as the agent made it, if it is masked.
    pub unmasked: Option<Arc<ToolCall>>,
    /// Everything that was found in the arguments of the call, whatever the configuration looks for; `None`: they were
    /// not searched as they are now.
    pub seen: Option<Vec<Finding>>,
    /// The private data that the run had read; `None` if it had read none.
    pub read: Option<Arc<dyn ReadBefore>>,
}

impl Screening {
    /// The orders by which something in the arguments passes, as entries name them.
    #[must_use]
    pub fn signed(&self) -> Vec<SignedException> {
        self.used.iter().map(|order| order.signed.clone()).collect()
    }
}

/// The arguments without their secrets, canonical.
#[derive(Clone, Debug)]
pub struct MaskedViews {
    /// Without the messages that were judged before.
    pub shown: Vec<u8>,
    /// All of them.
    pub all: Vec<u8>,
}

/// The digest of the rules that this process searches with.
#[must_use]
pub fn rules() -> Digest {
    static RULES: LazyLock<Digest> = LazyLock::new(firewall::rules_digest);
    *RULES
}

/// The kinds of secrets, as masks name them.
pub fn secret_kinds() -> &'static [String] {
    static KINDS: LazyLock<Vec<String>> =
        LazyLock::new(|| kinds_of(|class| class == Class::Secret));
    &KINDS
}

fn kinds_of(is_one: impl Fn(Class) -> bool) -> Vec<String> {
    let rows = firewall::kinds().filter(|row| is_one(row.class));
    rows.map(|row| row.name.to_owned()).collect()
}

/// A text of the gate's own about a call, with every secret in it masked.
#[must_use]
pub fn without_secrets(text: &str) -> String {
    let masked = firewall::redact_text(text, secret_kinds());
    masked.map_or_else(|| "[REDACTED]".to_owned(), |masked| masked.value)
}
