//! Finds the file and line of a deciding rule: the composition library sees values, not lines.

use std::collections::BTreeMap;

use regorus::unstable::{Module, Ref, Rule};

use super::ast;

/// One rule that can speak: `deny contains …` or `require_approval contains …`.
#[derive(Clone, Debug)]
struct SpeakingRule {
    file: String,
    line: u32,
    codes: Vec<String>,
    texts: Vec<String>,
}

/// Every such rule, by `wicketgate.agent.deny`.
#[derive(Clone, Debug, Default)]
pub(super) struct SpeakingRules(BTreeMap<String, Vec<SpeakingRule>>);

impl SpeakingRules {
    /// Notes the speaking rules of one module.
    pub(super) fn note(&mut self, module: &Ref<Module>) {
        let package = ast::package(module).join(".");
        for rule in &module.policy {
            let name = ast::path(ast::head(rule)).map(|path| path.parts).unwrap_or_default();
            if let ([name], Rule::Spec { span, .. }) = (name.as_slice(), rule.as_ref())
                && matches!(name.as_str(), "deny" | "require_approval")
            {
                let parts = ast::parts(rule);
                let codes = parts.members.iter().filter(|(key, _)| *key == "code");
                let speaking = SpeakingRule {
                    file: ast::file(module).to_owned(),
                    line: span.line,
                    codes: codes.map(|(_, code)| (*code).to_owned()).collect(),
                    texts: parts.strings.iter().map(|(text, _)| (*text).to_owned()).collect(),
                };
                self.0.entry(format!("{package}.{name}")).or_default().push(speaking);
            }
        }
    }

    /// `wicketgate.agent.deny agent/main.rego:12`, or the rule alone where several could have spoken.
    pub(super) fn name(&self, rule: &str, code: &str, message: &str) -> String {
        let speaking_rules = self.0.get(rule).map(Vec::as_slice).unwrap_or_default();
        let one = |fits: &dyn Fn(&SpeakingRule) -> bool| {
            let mut fitting = speaking_rules.iter().filter(|speaking| fits(speaking));
            fitting.next().filter(|_| fitting.next().is_none())
        };
        let speaking = one(&|_| true)
            .or_else(|| one(&|speaking| speaking.codes.iter().any(|c| c == code)))
            .or_else(|| one(&|speaking| speaking.texts.iter().any(|text| text == message)))
            .or_else(|| one(&|speaking| speaking.texts.iter().any(|text| begins(message, text))));
        speaking.map_or_else(
            || rule.to_owned(),
            |speaking| format!("{rule} {}:{}", speaking.file, speaking.line),
        )
    }
}

/// Whether the message begins as this format does, up to its first verb.
fn begins(message: &str, format: &str) -> bool {
    format.split_once('%').is_some_and(|(start, _)| start.len() > 3 && message.starts_with(start))
}
