//! Finds the rules that fired: a call that notes the rule wraps the value of every rule. The engine
//! evaluates it only once the body holds, so the count is of rules that fired and not of lines that
//! were evaluated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use regorus::unstable::{Module, Ref, Rule, RuleHead};
use regorus::{Engine, Value};

use crate::fault::Error;
use crate::{ast, source};

/// The function that notes; no name in a bundle begins so.
const MARK: &str = "wicketgate_fired__";

/// A rule, or one branch of it, that fired in no test.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Uncovered {
    /// `file:line`.
    pub place: String,
    /// `wicketgate.agent.deny`.
    pub rule: String,
}

/// How many rules fired.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Coverage {
    /// Rules of the layers, each branch of an `else` counted; no defaults.
    pub rules: usize,
    /// Those that fired in at least one test.
    pub fired: usize,
    /// The rules that never fired, by place.
    pub uncovered: Vec<Uncovered>,
}

impl Coverage {
    /// Percentage of the rules that fired, rounded down; 100 without rules.
    pub fn percent(&self) -> usize {
        self.fired.saturating_mul(100).checked_div(self.rules).unwrap_or(100)
    }
}

/// Every rule of a bundle, its insertion point, and whether it fired.
#[derive(Debug, Default)]
pub(super) struct Marks {
    rules: Vec<Uncovered>,
    /// By file: the insertions with their byte offsets.
    edits: BTreeMap<String, Vec<(usize, String)>>,
    fired: Arc<Mutex<BTreeSet<usize>>>,
}

impl Marks {
    /// The rules of these modules but the library's.
    pub fn of(modules: &[Ref<Module>]) -> Self {
        let mut marks = Self::default();
        for module in modules.iter().filter(|module| !ast::file(module).starts_with("lib/")) {
            for rule in &module.policy {
                marks.rule(module, rule);
            }
        }
        marks
    }

    fn rule(&mut self, module: &Module, rule: &Rule) {
        let Rule::Spec { span, head, bodies } = rule else { return };
        let (file, rule) = (ast::file(module).to_owned(), ast::whole(module, rule).join("."));
        let note = |place: String| Uncovered { place, rule: rule.clone() };
        let place = note(source::place(span));
        match (head, source::value_span(head)) {
            (_, Some(value)) => self.wrap(&file, value, place),
            (RuleHead::Set { .. }, None) => {}
            (RuleHead::Compr { span: head, .. } | RuleHead::Func { span: head, .. }, None) => {
                self.insert(&file, source::range(head).1, place);
            }
        }
        for body in bodies.iter().filter(|body| body.is_else) {
            let place = note(source::place(&body.span));
            match &body.assign {
                Some(assign) => self.wrap(&file, source::assigned(assign), place),
                None => {
                    let after = source::range(&body.span).0.saturating_add("else".len());
                    self.insert(&file, after, place);
                }
            }
        }
    }

    fn edit(&mut self, file: &str, at: usize, text: String) {
        self.edits.entry(file.to_owned()).or_default().push((at, text));
    }

    /// `x` becomes `mark(3, x)`.
    fn wrap(&mut self, file: &str, (start, end): (usize, usize), rule: Uncovered) {
        let id = self.rules.len();
        self.rules.push(rule);
        self.edit(file, start, format!(" {MARK}({id}, "));
        self.edit(file, end, ")".to_owned());
    }

    /// Nothing becomes ` := mark(3, true)`.
    fn insert(&mut self, file: &str, at: usize, rule: Uncovered) {
        let id = self.rules.len();
        self.rules.push(rule);
        self.edit(file, at, format!(" := {MARK}({id}, true)"));
    }

    /// The text of a file with its rules marked; lines stay what they are. `None`: nothing to mark,
    /// or the parser rejects the marked text (a line too long), and then its rules count as not
    /// fired.
    pub fn marked(&self, file: &str, text: &str) -> Option<String> {
        let mut edits = self.edits.get(file)?.clone();
        edits.sort_by_key(|(at, _)| *at);
        let (mut out, mut from) = (String::new(), 0);
        for (at, edit) in edits {
            out.push_str(text.get(from..at)?);
            out.push_str(&edit);
            from = at;
        }
        out.push_str(text.get(from..)?);
        let read = Engine::new().add_policy(file.to_owned(), out.clone());
        read.ok().map(|_| out)
    }

    /// Puts the function that notes into an engine.
    pub fn install(&self, engine: &mut Engine) -> Result<(), Error> {
        let fired = Arc::clone(&self.fired);
        let note = move |args: Vec<Value>| {
            let mut args = args.into_iter();
            let id = args.next().and_then(|id| id.as_u64().ok());
            fired.lock().extend(id.and_then(|id| usize::try_from(id).ok()));
            Ok(args.next().unwrap_or(Value::Undefined))
        };
        engine
            .add_extension(MARK.to_owned(), 2, Box::new(note))
            .map_err(|e| Error::Engine(e.to_string()))
    }

    /// What fired so far.
    pub fn report(&self) -> Coverage {
        let fired = self.fired.lock();
        let silent = self.rules.iter().enumerate().filter(|(id, _)| !fired.contains(id));
        let mut uncovered: Vec<Uncovered> = silent.map(|(_, rule)| rule.clone()).collect();
        uncovered.sort();
        let rules = self.rules.len();
        Coverage { rules, fired: rules.saturating_sub(uncovered.len()), uncovered }
    }
}
