//! Rewrites rules so that the engine answers as stock OPA does.
//!
//! Authors' files stay unchanged: digests, archives, explanations and counts use them. The engine
//! evaluates a copy, in which conditions under `not` and sums are rewritten, each on its own line.
//! This module makes every engine of a bundle, so all of them answer alike.
//!
//! The loader refuses a bundle with conditions that cannot be rewritten (`policy.negation`).

use std::collections::{BTreeMap, BTreeSet};

use regorus::Engine;
use regorus::unstable::{Expr, Literal, Module, Ref, Rule, RuleBody, Span};

use super::ast;
use super::fault::{LoadError, read_engine_message};
use super::source;

mod bound;
mod exact;
mod write;

use write::{CannotRewrite, Writer, copied, only};

/// The prefix of names in rewritten rules; no file of a bundle may contain it.
const OWN: &str = "wicketgate_opa__";
/// The variables among them.
const GIVEN: &str = "wicketgate_opa__given_";
/// The function that replaces `+`, `-`, `*`, `/` and `%`.
const EXACT: &str = "wicketgate_opa__exact";

/// The places of rewritten conditions, so that an engine's message points to the author's text.
#[derive(Clone, Default, Debug)]
pub(super) struct Moved(BTreeMap<(String, u32), Vec<Rewritten>>);

/// The first column of a rewritten condition, and the author's line and column of it.
type Rewritten = (u32, (u32, u32));

impl Moved {
    /// The author's line and column for a place in an engine's message: exact before the first
    /// rewritten condition of a line, from there on the condition's own.
    pub fn place(&self, file: &str, line: u32, column: u32) -> (u32, u32) {
        let moved = self.0.get(&(file.to_owned(), line)).map(Vec::as_slice).unwrap_or_default();
        let before = moved.iter().rev().find(|(from, _)| *from <= column);
        before.map_or((line, column), |(_, place)| *place)
    }
}

/// An engine with these modules, rewritten where necessary; without data.
///
/// # Errors
/// Conditions that are invalid in OPA, or that cannot be rewritten.
pub(super) fn engine(modules: &[Ref<Module>]) -> Result<(Engine, Moved), Vec<LoadError>> {
    let mut errors = bound::check(modules);
    let (mut engine, mut moved) = (Engine::new(), Moved::default());
    for module in modules {
        let written = anew(module, &mut moved).and_then(|text| {
            let file = ast::file(module).to_owned();
            let read = engine.add_policy(file, text);
            read.map(|_| ()).map_err(|e| {
                let (file, line, column, why) = read_engine_message(&e.to_string());
                let (line, column) = moved.place(&file, line, column);
                let message = format!("give this condition a rule of its own: {why}");
                vec![LoadError { file, line, column, code: "policy.negation", message }]
            })
        });
        errors.extend(written.err().into_iter().flatten());
    }
    if errors.is_empty() && exact::install(&mut engine).is_err() {
        errors.push(LoadError::file("policy.negation", ".", "the engine takes no function"));
    }
    if errors.is_empty() { Ok((engine, moved)) } else { Err(errors) }
}

/// The text of one file, of a probe of the gate's own, as the engine must read it; `None`: it does not parse.
pub(super) fn text(file: &str, text: &str) -> Option<String> {
    let mut parsed = Engine::new();
    parsed.add_policy(file.to_owned(), text.to_owned()).ok()?;
    anew(parsed.get_modules().first()?, &mut Moved::default()).ok()
}

/// What is put in the place of a part of a file.
struct TextEdit<'a> {
    /// Its first byte and the one after its last.
    range: (usize, usize),
    span: &'a Span,
    text: Result<String, CannotRewrite>,
}

/// The rewritten text of a module.
fn anew(module: &Module, moved: &mut Moved) -> Result<String, Vec<LoadError>> {
    let file = ast::file(module);
    let authored = module.package.span.source.contents();
    let error = |span: &Span, message: &str| {
        let (line, column, message) = (span.line, span.col, message.to_owned());
        let (file, code) = (file.to_owned(), "policy.negation");
        LoadError { file, line, column, code, message }
    };
    if authored.contains(OWN) {
        let why = format!("names that begin with `{OWN}` are the gate's");
        return Err(vec![error(&module.package.span, &why)]);
    }
    let (mut out, mut from, mut errors) = (String::new(), 0, Vec::new());
    let (mut line, mut longer) = (0, 0_i64);
    for edit in edits(module) {
        let (start, end) = edit.range;
        let parts = authored.get(from..start).zip(authored.get(start..end));
        let (Some((before, old)), Ok(new)) = (parts, &edit.text) else {
            let why = edit.text.err().unwrap_or("its end cannot be found");
            errors.push(error(edit.span, &format!("give this condition a rule of its own: {why}")));
            continue;
        };
        out.push_str(before);
        let at = edit.span;
        let (new, lines) = on_the_same_lines(old, new);
        longer = if at.line == line { longer } else { 0 };
        line = at.line.saturating_add(lines);
        let column = if lines == 0 { i64::from(at.col).saturating_add(longer) } else { 0 };
        longer = longer.saturating_add(length(&new)).saturating_sub(length(old));
        let place = (u32::try_from(column).unwrap_or(0), (at.line, at.col));
        moved.0.entry((file.to_owned(), line)).or_default().push(place);
        out.push_str(&new);
        from = end;
    }
    out.push_str(authored.get(from..).unwrap_or_default());
    if errors.is_empty() { Ok(out) } else { Err(errors) }
}

/// The new text over as many lines as the old one, and how many more than one they are.
fn on_the_same_lines(old: &str, new: &str) -> (String, u32) {
    let lines = old.matches('\n').count();
    let ends = "\n".repeat(lines);
    // Our names never occur within a text, and a line may begin with one anywhere.
    let new = match new.contains(OWN) {
        true => new.replacen(OWN, &format!("{ends}{OWN}"), 1),
        false => format!("{new}{ends}"),
    };
    (new, u32::try_from(lines).unwrap_or(u32::MAX))
}

fn length(text: &str) -> i64 {
    i64::try_from(text.len()).unwrap_or(i64::MAX)
}

/// Where the bodies begin that are one condition without braces: where it becomes several, it needs them.
fn bare(rule: &Rule) -> BTreeSet<u32> {
    let Rule::Spec { bodies, .. } = rule else { return BTreeSet::new() };
    let first = |body: &RuleBody| body.query.stmts.first().map(|stmt| stmt.span.start);
    let alone = |body: &&RuleBody| first(body) == Some(body.query.span.start);
    bodies.iter().filter(alone).filter_map(first).collect()
}

/// The rewritten parts, in the order of the text; they do not overlap.
fn edits(module: &Module) -> Vec<TextEdit<'_>> {
    let (mut writer, mut found) = (Writer::default(), Vec::new());
    for rule in &module.policy {
        let parts = ast::parts(rule);
        let bare = bare(rule);
        for stmt in parts.conditions {
            if matches!(stmt.literal, Literal::NotExpr { .. }) {
                let text = writer.statement(stmt);
                let alone = bare.contains(&stmt.span.start);
                let text = text.map(|text| if alone { format!("{{ {text} }}") } else { text });
                found.push(TextEdit { range: source::range(&stmt.span), span: &stmt.span, text });
            }
            if let Literal::Expr { expr, .. } = &stmt.literal
                && let Expr::AssignExpr { rhs, .. } = expr.as_ref()
                && let Some(name) = copied(expr)
            {
                let (span, text) = (rhs.span(), Ok(only(name)));
                found.push(TextEdit { range: source::range(span), span, text });
            }
        }
        for expr in parts.arithmetic {
            let (range, text) = (source::range(expr.span()), writer.expr(expr));
            found.push(TextEdit { range, span: expr.span(), text });
        }
    }
    found.sort_by_key(|edit| (edit.range.0, std::cmp::Reverse(edit.range.1)));
    let mut end = 0;
    found.retain(|edit| {
        let outermost = edit.range.0 >= end;
        if outermost {
            end = edit.range.1;
        }
        let anew = |text: &String| text.contains(OWN) || text.contains("][0]");
        outermost && edit.text.as_ref().map_or(true, anew)
    });
    found
}
