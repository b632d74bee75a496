//! The engine: regorus's strict interpreter over one immutable bundle.
//!
//! A prepared template is shared without a lock; each decision clones it (reference counts) so that it
//! has its own deadline. Evaluation is on the calling thread and takes up to the deadline: callers on
//! an async runtime decide where that may happen.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use regorus::utils::limits::ExecutionTimerConfig;
use regorus::{Engine, LimitError, Value};

use super::bundle::Bundle;
use super::fault::{Error, read_engine_message};
use super::places::Places;
use super::{Answer, EngineError, PolicyEngine, bounds, document};
use crate::domain::decision::LayerDigest;
use crate::domain::digest::Digest;

/// Engine and version, as entries name it.
pub const ENGINE: &str = "regorus/0.14.1";
/// How long one evaluation may take unless configured otherwise.
pub const DEADLINE: Duration = Duration::from_millis(100);
/// The one document that is read.
const ENTRY_POINT: &str = "data.wicketgate.decision";
/// Steps of the interpreter between two looks at the clock.
const STEPS: NonZeroU32 = match NonZeroU32::new(32) {
    Some(steps) => steps,
    None => NonZeroU32::MIN,
};

/// One bundle, ready to decide.
#[derive(Debug)]
pub struct RegoEngine {
    template: Engine,
    places: Places,
    deadline: Duration,
    digest: Digest,
    layers: Vec<LayerDigest>,
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
            Error::Engine(format!("{file}:{line}:{column}: {message}"))
        };
        let mut template = bundle.template.clone();
        template.set_strict_builtin_errors(true);
        bounds::install(&mut template)?;
        template.set_execution_timer_config(ExecutionTimerConfig {
            limit: deadline,
            check_interval: STEPS,
        });
        let entry: Arc<str> = ENTRY_POINT.into();
        template.compile_with_entrypoint(&entry).map_err(|e| refused(e.to_string()))?;
        let (digest, layers) = (bundle.digest(), bundle.layers().to_vec());
        let engine = Self { template, places: bundle.places.clone(), deadline, digest, layers };
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

    fn evaluate(&self, input: &[u8]) -> Result<Value, EngineError> {
        let text = std::str::from_utf8(input)
            .map_err(|_| EngineError::Evaluation("the input is not UTF-8".to_owned()))?;
        let failed = |e: anyhow::Error| self.failure(&e);
        let mut engine = self.template.clone();
        engine.set_input(Value::from_json_str(text).map_err(failed)?);
        engine.eval_rule(ENTRY_POINT.to_owned()).map_err(failed)
    }

    fn failure(&self, error: &anyhow::Error) -> EngineError {
        let text = error.to_string();
        // A function's error loses its type on the way out, so the text is asked as well.
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
        EngineError::Evaluation(format!("{file}:{line}:{column}: {message}"))
    }
}

impl PolicyEngine for RegoEngine {
    fn decide(&self, input: &[u8]) -> Result<Answer, EngineError> {
        document::read(&self.evaluate(input)?, &self.places)
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
}
