//! The engine: regorus's strict interpreter over one immutable bundle.
//!
//! A prepared template is shared without a lock; each decision clones it (reference counts) so that it
//! has its own deadline. Evaluation is on the calling thread and takes up to the deadline: callers on
//! an async runtime decide where that may happen.

use std::num::NonZeroU32;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use regorus::utils::limits::ExecutionTimerConfig;
use regorus::{Engine, LimitError, Value};

use super::bundle::Bundle;
use super::enforcement::Enforcement;
use super::fault::{Error, read_engine_message};
use super::ground::Grounds;
use super::places::SpeakingRules;
use super::stock::Moved;
use super::{Answer, EngineError, PolicyEngine, bounds, document};
use crate::domain::decision::{LayerDigest, Verdict};
use crate::domain::digest::Digest;
use crate::domain::time::Timestamp;

/// Engine and version, as entries name it. What follows `+` is how its rules are written before it reads them
/// (`policy::stock`): another answer to the same input needs another number.
pub const ENGINE: &str = "regorus/0.14.1+stock.1";
/// How long one evaluation may take unless configured otherwise.
pub const DEADLINE: Duration = Duration::from_millis(100);
/// How long one evaluation may take where no call waits for it: in tests, lints and explanations.
/// Their findings must not depend on how busy a build server is.
pub const UNHURRIED: Duration = Duration::from_secs(5);
/// The document that is read.
pub(super) const DECISION: &str = "data.wicketgate.decision";
/// What of it holds while layers observe.
const BINDING: &str = "data.wicketgate.binding";
/// Steps of the interpreter between two looks at the clock.
const STEPS: NonZeroU32 = match NonZeroU32::new(32) {
    Some(steps) => steps,
    None => NonZeroU32::MIN,
};

/// One bundle, ready to decide.
#[derive(Debug)]
pub struct RegoEngine {
    template: Engine,
    moved: Moved,
    places: SpeakingRules,
    grounds: Grounds,
    deadline: Duration,
    digest: Digest,
    layers: Vec<LayerDigest>,
    enforcement: Enforcement,
    valid_until: Option<Timestamp>,
    by_hand: Vec<&'static str>,
}

// WHY: the port is shared between all calls; this fails to compile should the engine ever need a lock.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<RegoEngine>();
};

impl RegoEngine {
    /// Prepares a bundle; each of its decisions takes at most `deadline`.
    ///
    /// # Errors
    /// The engine finds a variable or a function that is nowhere defined.
    pub fn new(bundle: &Bundle, deadline: Duration) -> Result<Self, Error> {
        let refused = |text: String| {
            let (file, line, column, message) = read_engine_message(&text);
            let (line, column) = bundle.moved.place(&file, line, column);
            Error::Engine(format!("{file}:{line}:{column}: {message}"))
        };
        let mut template = engine(bundle.template.clone(), deadline)?;
        let entry: Arc<str> = DECISION.into();
        template.compile_with_entrypoint(&entry).map_err(|e| refused(e.to_string()))?;
        let grounds = Grounds::of(template.get_modules());
        let (digest, layers) = (bundle.digest(), bundle.layers().to_vec());
        let (speaking_rules, enforcement) =
            (bundle.places.clone(), bundle.meta().enforcement.clone());
        let (by_hand, moved) = (bundle.by_hand.clone(), bundle.moved.clone());
        let engine = Self {
            template,
            moved,
            places: speaking_rules,
            grounds,
            deadline,
            digest,
            layers,
            enforcement,
            valid_until: bundle.meta().not_after,
            by_hand,
        };
        engine.assert_strict()?;
        Ok(engine)
    }

    /// In lax mode a failing builtin under `not` is a yes; no bundle is served by such an engine.
    fn assert_strict(&self) -> Result<(), Error> {
        let mut probe = Engine::new();
        bounds::install(&mut probe)?;
        let rule = "package probe\nimport rego.v1\nyes if not startswith(input.x, \"a\")";
        let refused = |e: anyhow::Error| Error::Engine(e.to_string());
        probe.add_policy("probe.rego".to_owned(), rule.to_owned()).map_err(refused)?;
        probe.set_strict_builtin_errors(true);
        probe.set_input_json(r#"{"x": 1}"#).map_err(refused)?;
        if probe.eval_rule("data.probe.yes".to_owned()).is_ok() {
            return Err(Error::Engine("builtin errors are not strict".to_owned()));
        }
        Ok(())
    }

    fn read(&self, input: &[u8]) -> Result<Value, EngineError> {
        let text = std::str::from_utf8(input)
            .map_err(|_| EngineError::Evaluation("the input is not UTF-8".to_owned()))?;
        Value::from_json_str(text).map_err(|e| self.failure(&e))
    }

    /// An engine of its own for this input.
    fn engine_for(&self, input: &Value) -> Engine {
        let mut engine = self.template.clone();
        engine.set_input(input.clone());
        engine
    }

    fn evaluate(&self, document: &str, engine: &mut Engine) -> Result<Answer, EngineError> {
        let value = engine.eval_rule(document.to_owned()).map_err(|e| self.failure(&e))?;
        document::read(&value, &self.places)
    }

    /// The decision about this input, made by an engine that has it.
    fn decided(&self, input: &Value, engine: &mut Engine) -> Result<Answer, EngineError> {
        let decided = self.evaluate(DECISION, engine)?;
        if decided.verdict == Verdict::Allow || !observed(input) {
            return Ok(decided);
        }
        // WHY: the library leaves out layers in observe mode, in Rego, so that a third party can
        // compute the same from the recorded input and bundle.
        let binding = self.evaluate(BINDING, &mut self.engine_for(input))?;
        if binding.verdict == Verdict::Allow {
            return Ok(Answer { obligations: binding.obligations, enforced: false, ..decided });
        }
        Ok(binding)
    }

    fn failure(&self, error: &anyhow::Error) -> EngineError {
        let text = error.to_string();
        // WHY: an error inside a function loses its type, so check the text as well.
        let timed_out = matches!(
            error.downcast_ref::<LimitError>(),
            Some(LimitError::TimeLimitExceeded { .. })
        );
        if timed_out || text.contains("execution exceeded time limit") {
            return EngineError::Deadline(self.deadline);
        }
        let (file, line, column, message) = read_engine_message(&text);
        if line == 0 {
            return EngineError::Evaluation(message);
        }
        let (line, column) = self.moved.place(&file, line, column);
        EngineError::Evaluation(format!("{file}:{line}:{column}: {message}"))
    }
}

impl PolicyEngine for RegoEngine {
    fn decide(&self, input: &[u8]) -> Result<Answer, EngineError> {
        let input = self.read(input)?;
        self.decided(&input, &mut self.engine_for(&input))
    }

    fn decide_naming(&self, input: &[u8]) -> Result<(Answer, Option<String>), EngineError> {
        let input = self.read(input)?;
        let mut engine = self.engine_for(&input);
        let answer = self.decided(&input, &mut engine)?;
        // WHY apart: an allow stands, whatever happens to the search for its rule.
        let naming = AssertUnwindSafe(|| self.grounds.first(&mut engine).map(str::to_owned));
        let rule = (answer.verdict == Verdict::Allow)
            .then(|| std::panic::catch_unwind(naming).unwrap_or_default())
            .flatten();
        Ok((answer, rule))
    }

    fn digest(&self) -> Digest {
        self.digest
    }

    fn layers(&self) -> &[LayerDigest] {
        &self.layers
    }

    fn engine(&self) -> &str {
        ENGINE
    }

    fn observing(&self, now: Timestamp) -> Vec<(&'static str, Timestamp)> {
        self.enforcement.observing(now)
    }

    fn valid_until(&self) -> Option<Timestamp> {
        self.valid_until
    }

    fn by_hand(&self) -> &[&'static str] {
        &self.by_hand
    }
}

/// An engine as calls are judged by it: strict, its builtins bounded, each evaluation of at most `deadline`.
pub(super) fn engine(mut template: Engine, deadline: Duration) -> Result<Engine, Error> {
    template.set_strict_builtin_errors(true);
    bounds::install(&mut template)?;
    template.set_execution_timer_config(ExecutionTimerConfig {
        limit: deadline,
        check_interval: STEPS,
    });
    Ok(template)
}

/// Whether the input names a layer in observe mode.
fn observed(input: &Value) -> bool {
    let layers = input.as_object().ok().and_then(|input| input.get(&Value::from("observe")));
    layers.and_then(|layers| layers.as_array().ok()).is_some_and(|layers| !layers.is_empty())
}
