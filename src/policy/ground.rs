//! Finds the rule behind an allow: the composition library sees only that a layer allows, not by
//! which rule.

use regorus::unstable::{Module, Ref, Rule};
use regorus::{Engine, Value};

use super::{ast, source};

/// Layers whose `allow` counts; the org layer can only restrict.
const LAYERS: [&str; 2] = ["agent", "team"];

/// One `allow` of a layer.
#[derive(Clone, Debug)]
struct Ground {
    layer: &'static str,
    /// `wicketgate.agent.allow agent/main.rego:7`.
    name: String,
    module: Ref<Module>,
    rule: Ref<Rule>,
}

/// Every rule that can allow a call, in the order of the files. A default allows nothing: it is
/// `false`.
#[derive(Clone, Debug, Default)]
pub(super) struct Grounds(Vec<Ground>);

impl Grounds {
    /// Notes the allowing rules of the modules that an engine evaluates.
    pub(super) fn of(modules: &[Ref<Module>]) -> Self {
        let rules = modules
            .iter()
            .flat_map(|module| module.policy.iter().filter_map(|rule| Ground::of(module, rule)));
        Self(rules.collect())
    }

    /// The first that is true of the engine's input. Asked only about a call that is allowed: the only one that
    /// there is must be true.
    pub(super) fn first(&self, engine: &mut Engine) -> Option<&str> {
        let ground = match self.0.as_slice() {
            [only] => Some(only),
            several => several.iter().find(|ground| ground.holds(engine)),
        };
        ground.map(|ground| ground.name.as_str())
    }
}

impl Ground {
    fn of(module: &Ref<Module>, rule: &Ref<Rule>) -> Option<Self> {
        let package = ast::package(module);
        let layer = LAYERS.into_iter().find(|layer| package == ["wicketgate", *layer])?;
        let Rule::Spec { span, .. } = rule.as_ref() else { return None };
        if ast::path(ast::head(rule))?.parts != ["allow"] {
            return None;
        }
        let name = format!("wicketgate.{layer}.allow {}", source::place(span));
        Some(Self { layer, name, module: module.clone(), rule: rule.clone() })
    }

    /// Whether this one rule alone gives `true`. WHY: an error here only means that this rule did
    /// not allow; all rules together made the decision before.
    fn holds(&self, engine: &mut Engine) -> bool {
        let Ok(data) = engine.eval_rule_in_module(&self.module, &self.rule, false) else {
            return false;
        };
        let member = |value: &Value, name: &str| {
            value.as_object().ok().and_then(|object| object.get(&Value::from(name)).cloned())
        };
        ["wicketgate", self.layer, "allow"]
            .into_iter()
            .try_fold(data, |value, name| member(&value, name))
            == Some(Value::from(true))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::PolicyEngine as _;
    use crate::bundle::Bundle;
    use crate::domain::decision::Verdict;
    use crate::rego::RegoEngine;

    /// The rule that allows this input, under these rules of the agent's layer and the team's.
    fn allowed(agent: &str, team: &str, input: &str) -> Option<String> {
        let package =
            |layer, rules| format!("package wicketgate.{layer}\nimport rego.v1\n{rules}\n");
        let files = [
            ("bundle.json".to_owned(), r#"{"name":"t","version":"1.0.0"}"#.into()),
            ("agent/a.rego".to_owned(), package("agent", agent).into()),
            ("team/t.rego".to_owned(), package("team", team).into()),
        ];
        let bundle = Bundle::of_files(files.into()).unwrap();
        let engine = RegoEngine::new(&bundle, Duration::from_secs(9)).unwrap();
        let input = format!(r#"{{"tool":{{"tier":"T1"}},"x":{input}}}"#);
        let (answer, rule) = engine.decide_naming(input.as_bytes()).unwrap();
        assert_eq!(answer.verdict, Verdict::Allow, "{input}");
        assert_eq!(engine.decide(input.as_bytes()).unwrap(), answer);
        rule
    }

    #[test]
    fn the_only_rule_is_named_of_whichever_layer_it_is() {
        let (none, default) = ("deny contains \"no\" if input.x == 9", "default allow := false");
        let only = format!("{default}\nallow if input.x == 5 else := true if input.x == 6");
        for input in ["5", "6"] {
            let named = allowed(&only, none, input);
            assert_eq!(named.as_deref(), Some("wicketgate.agent.allow agent/a.rego:4"), "{input}");
        }
        let named = allowed(none, "allow if input.x == 5", "5");
        assert_eq!(named.as_deref(), Some("wicketgate.team.allow team/t.rego:3"));
    }

    #[test]
    fn of_several_rules_the_first_that_is_true_is_named() {
        let agent = "allow if input.x == 1\nallow if input.x in {1, 2}\n\
            allow if input.x == 5 else := true if input.x == 6\nhelper if input.x == 4\nallow if helper";
        let team = "allow if input.x == 3\nallow if not input.x == 1";
        for (input, rule) in [
            ("1", "wicketgate.agent.allow agent/a.rego:3"),
            ("2", "wicketgate.agent.allow agent/a.rego:4"),
            ("3", "wicketgate.team.allow team/t.rego:3"),
            ("4", "wicketgate.agent.allow agent/a.rego:7"),
            ("6", "wicketgate.agent.allow agent/a.rego:5"),
            ("7", "wicketgate.team.allow team/t.rego:4"),
        ] {
            assert_eq!(allowed(agent, team, input).as_deref(), Some(rule), "{input}");
        }
    }
}
