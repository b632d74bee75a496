//! What was checked, as one list: sections with a line for each check, its outcome and what to do.

use serde_json::{Value, json};

use crate::cli::{Exit, note, say};
use crate::domain::closed::texts;
use crate::domain::plural::many;

texts! {
    /// How one check ended; a worse outcome is greater.
    pub(super) enum CheckOutcome {
        /// It was not made, and the line says why.
        Skipped = "skipped",
        /// All is well.
        Passed = "passed",
        /// The gate works, and an operator should look at this.
        Warned = "warned",
        /// It could not be determined.
        Unknown = "unknown",
        /// Something does not work.
        Failed = "failed",
    }
}

impl CheckOutcome {
    const fn tick(self) -> &'static str {
        match self {
            Self::Skipped => "-",
            Self::Passed => "√",
            Self::Warned => "‼",
            Self::Unknown => "?",
            Self::Failed => "×",
        }
    }
}

/// One check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CheckLine {
    outcome: CheckOutcome,
    text: String,
    /// What to do next.
    hint: Option<String>,
}

/// The checks of one subject, in their order.
pub(in crate::cli) struct CheckSection {
    name: &'static str,
    lines: Vec<CheckLine>,
}

impl CheckSection {
    pub const fn new(name: &'static str) -> Self {
        Self { name, lines: Vec::new() }
    }

    fn add(&mut self, outcome: CheckOutcome, text: String, hint: Option<String>) {
        self.lines.push(CheckLine { outcome, text, hint });
    }

    pub fn passed(&mut self, text: impl Into<String>) {
        self.add(CheckOutcome::Passed, text.into(), None);
    }

    pub fn skipped(&mut self, text: impl Into<String>) {
        self.add(CheckOutcome::Skipped, text.into(), None);
    }

    pub fn warned(&mut self, text: impl Into<String>) {
        self.add(CheckOutcome::Warned, text.into(), None);
    }

    pub fn unknown(&mut self, text: impl Into<String>, hint: &str) {
        self.add(CheckOutcome::Unknown, text.into(), Some(hint.to_owned()));
    }

    pub fn failed(&mut self, text: impl Into<String>, hint: impl Into<Option<String>>) {
        self.add(CheckOutcome::Failed, text.into(), hint.into());
    }

    /// The same in other words. A line that `skipped` has a text for was not checked.
    pub fn told(
        mut self,
        words: &dyn Fn(&str) -> String,
        skipped: &dyn Fn(&str) -> Option<String>,
    ) -> Self {
        for line in &mut self.lines {
            line.text = words(&line.text);
            line.hint = line.hint.as_deref().map(words);
            let instead = skipped(&line.text).filter(|_| line.outcome == CheckOutcome::Failed);
            if let Some(text) = instead {
                *line = CheckLine { outcome: CheckOutcome::Skipped, text, hint: None };
            }
        }
        self
    }

    /// Whether it has no line.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn any(&self, outcome: CheckOutcome) -> bool {
        self.lines.iter().any(|line| line.outcome == outcome)
    }

    /// Whether something in it does not work.
    pub fn has_failed(&self) -> bool {
        self.any(CheckOutcome::Failed)
    }
}

/// All of it.
#[derive(Default)]
pub(in crate::cli) struct CheckList {
    sections: Vec<CheckSection>,
}

impl CheckList {
    /// Adds a section. With `--json` nothing is printed before the end.
    pub fn add(&mut self, section: CheckSection, json: bool) {
        if !json {
            print(&section);
        }
        self.sections.push(section);
    }

    /// Prints how it ended. `config`: the sections whose failure means a wrong configuration.
    pub fn end(&self, config: &[&str], json: bool) -> Exit {
        let exit = self.exit(config);
        match json {
            true => say(self.value(exit).to_string()),
            false => say(self.sum()),
        }
        exit
    }

    fn exit(&self, config: &[&str]) -> Exit {
        let any = |outcome| self.sections.iter().any(|section| section.any(outcome));
        let of_config = |section: &&CheckSection| config.contains(&section.name);
        if self.sections.iter().filter(of_config).any(CheckSection::has_failed) {
            Exit::Config
        } else if any(CheckOutcome::Failed) {
            Exit::Invalid
        } else if any(CheckOutcome::Unknown) {
            Exit::Unverifiable
        } else {
            Exit::Ok
        }
    }

    fn sum(&self) -> String {
        let count = |outcome| {
            let lines = self.sections.iter().flat_map(|section| &section.lines);
            lines.filter(|line| line.outcome == outcome).count()
        };
        let others = [
            (CheckOutcome::Failed, "failed"),
            (CheckOutcome::Unknown, "unknown"),
            (CheckOutcome::Warned, "with a warning"),
            (CheckOutcome::Skipped, "skipped"),
        ];
        let others = others.map(|(outcome, what)| (count(outcome), what));
        let others = others.into_iter().filter(|(n, _)| *n > 0);
        let others = others.map(|(n, what)| format!(", {n} {what}")).collect::<String>();
        format!("{} passed{others}", many(count(CheckOutcome::Passed), "check"))
    }

    fn value(&self, exit: Exit) -> Value {
        let line = |line: &CheckLine| json!({"outcome": line.outcome.as_str(), "text": line.text, "hint": line.hint});
        let sections = self.sections.iter().map(|section| {
            let checks: Vec<Value> = section.lines.iter().map(line).collect();
            json!({"section": section.name, "checks": checks})
        });
        let sections: Vec<Value> = sections.collect();
        json!({"ok": exit == Exit::Ok, "exit": exit.code(), "sections": sections})
    }
}

fn print(section: &CheckSection) {
    say(section.name);
    for CheckLine { outcome, text, hint } in &section.lines {
        say(format!("  {} {text}", outcome.tick()));
        hint.iter().for_each(|hint| say(format!("      do: {hint}")));
    }
    say("");
}

/// What a check waits for, on standard error.
pub(super) fn waiting(what: &str, json: bool) {
    if !json {
        note(format!("checking {what} …"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(name: &'static str, outcome: CheckOutcome) -> CheckSection {
        let mut section = CheckSection::new(name);
        section.passed("fine");
        section.add(outcome, "so".into(), None);
        section
    }

    #[test]
    fn the_exit_code_says_the_worst_and_a_wrong_configuration_first() {
        let exit = |sections: Vec<CheckSection>| CheckList { sections }.exit(&["policy"]);
        let of = |outcome| section("gate", outcome);
        assert_eq!(exit(vec![of(CheckOutcome::Passed), of(CheckOutcome::Skipped)]), Exit::Ok);
        assert_eq!(exit(vec![of(CheckOutcome::Warned)]), Exit::Ok);
        assert_eq!(
            exit(vec![of(CheckOutcome::Unknown), of(CheckOutcome::Warned)]),
            Exit::Unverifiable
        );
        assert_eq!(exit(vec![of(CheckOutcome::Unknown), of(CheckOutcome::Failed)]), Exit::Invalid);
        let config = section("policy", CheckOutcome::Failed);
        assert_eq!(exit(vec![of(CheckOutcome::Failed), config]), Exit::Config);
        let unknown = section("policy", CheckOutcome::Unknown);
        assert_eq!(exit(vec![unknown]), Exit::Unverifiable);
    }
}
