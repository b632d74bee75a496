//! An upper bound of a builtin's output and work, checked before it runs.
//!
//! regorus checks its deadline between statements, not inside a builtin, and a builtin may ask for
//! a gigabyte in one call. So these checks run first, and above 1 MiB the call fails: a policy
//! error, which is a denial.

use std::collections::BTreeSet;
use std::sync::Arc;

use regorus::unstable::{BUILTINS, Expr, Ref, Span};
use regorus::{Engine, Source, Value};

use super::alike::text;
use super::ast::Path;
use super::builtins::ADMITTED;
use super::fault::Error;
use super::{alike, ast, formats, portable};

/// Bytes one builtin call may make.
pub(super) const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Bytes one value of a collection is counted as.
const ITEM_BYTES: usize = 16;
/// Bytes compared in the worst case.
const WORK_MAX: usize = 64 << 20;
/// Bytes of a regular expression.
const PATTERN_BYTES_MAX: usize = 16 << 10;
/// Values of a tree that is compared, ordered or searched.
const VALUES_MAX: usize = 1 << 20;
/// Digits of a number in a text.
const DIGITS_MAX: usize = 400;

/// Gives the reason to refuse a call with these arguments. Wrong types are left to the builtin
/// itself.
pub(super) type Check = fn(&[Value]) -> Result<(), &'static str>;

const TOO_MUCH: &str = "the result would exceed 1 MiB";
const TOO_LONG: &str = "the arguments are too large for this builtin";

/// Puts the bounded form of every builtin that needs one in the place of the engine's own, as far
/// as the engine's rules call it. Rules that are added later find the engine's own.
///
/// WHY not all of them: each decision clones the engine, with the name of every builtin in it.
pub(super) fn install(engine: &mut Engine) -> Result<(), Error> {
    let called = called(engine);
    let refused = |e: anyhow::Error| Error::Engine(e.to_string());
    let source = Source::from_contents("builtin".to_owned(), "-".to_owned()).map_err(refused)?;
    let span = Span { source, line: 1, col: 1, start: 0, end: 1 };
    for builtin in ADMITTED {
        let Some(check) = builtin.check.filter(|_| called.contains(builtin.name)) else { continue };
        let missing = || Error::Engine(format!("no builtin `{}`", builtin.name));
        let (original, arity) = *BUILTINS.get(builtin.name).ok_or_else(missing)?;
        let span = span.clone();
        let param = || Ref::new(Expr::Null { span: span.clone(), value: Value::Null, eidx: 0 });
        let params: Arc<[Ref<Expr>]> = (0..arity).map(|_| param()).collect();
        let name = builtin.name;
        let span = span.clone();
        let call = move |mut args: Vec<Value>| {
            let refused = |why: &str| anyhow::anyhow!("{name}: {why}");
            check(&args).map_err(refused)?;
            mean(name, &mut args).map_err(refused)?;
            let made = original(&span, &params, &args, true)?;
            if let Value::String(json) = &made
                && name == "json.marshal"
            {
                return Ok(Value::from(alike::escaped(json)));
            }
            Ok(made)
        };
        engine.add_extension(name.to_owned(), arity, Box::new(call)).map_err(refused)?;
    }
    Ok(())
}

/// The names that the rules of an engine call, or put in the place of a function with `with`.
fn called(engine: &mut Engine) -> BTreeSet<String> {
    let rules = engine.get_modules().iter().flat_map(|module| module.policy.iter());
    let names = rules.flat_map(|rule| {
        let parts = ast::parts(rule);
        parts.callees().chain(parts.refs.iter().map(Path::dotted)).collect::<Vec<_>>()
    });
    names.collect()
}

/// Replaces arguments that our engine would understand differently by OPA's understanding of them.
fn mean(name: &str, args: &mut Vec<Value>) -> Result<(), &'static str> {
    if let Some((at, over)) = portable::pattern_of(name)
        && let (held, Some(Value::String(pattern))) = (text(args, over), args.get(at))
    {
        let meant = portable::pattern(pattern, held)?;
        if name == "regex.split" {
            alike::splits(&meant, held)?;
        }
        if let Some(pattern) = args.get_mut(at) {
            *pattern = Value::from(meant);
        }
    }
    if name == "sprintf"
        && let Some(Value::Array(values)) = args.get(1)
    {
        let values: Vec<Value> = values.iter().cloned().collect();
        let (format, values) = formats::meant(text(args, 0), &values)?;
        *args = vec![Value::from(format), Value::from(values)];
    }
    Ok(())
}

fn within(bytes: usize) -> Result<(), &'static str> {
    if bytes > OUTPUT_BYTES_MAX { Err(TOO_MUCH) } else { Ok(()) }
}

fn length(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Set(items) => items.len(),
        Value::Object(members) => members.len(),
        Value::String(text) => text.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Undefined => 1,
    }
}

/// The members of a collection, keys included.
fn members(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Set(items) => items.iter().collect(),
        Value::Object(members) => members.iter().flat_map(|(k, v)| [k, v]).collect(),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::Undefined => {
            Vec::new()
        }
    }
}

/// Upper bound of a value written out, or of its paths; stops counting once past the limit.
///
/// A value may share its parts, so its tree can be exponentially larger than its memory.
pub(super) fn weight(value: &Value) -> usize {
    let mut total = 0_usize;
    let mut todo = vec![value];
    while let Some(value) = todo.pop() {
        let own = match value {
            Value::String(text) => text.len().saturating_mul(6).saturating_add(4),
            Value::Number(_) => 32,
            Value::Null
            | Value::Bool(_)
            | Value::Array(_)
            | Value::Set(_)
            | Value::Object(_)
            | Value::Undefined => 8,
        };
        total = total.saturating_add(own);
        if total > OUTPUT_BYTES_MAX {
            return total;
        }
        let inner = members(value);
        if inner.len() > OUTPUT_BYTES_MAX / 8 {
            return usize::MAX;
        }
        todo.extend(inner);
    }
    total
}

pub(super) fn marshal(args: &[Value]) -> Result<(), &'static str> {
    args.iter().try_for_each(formats::plain_numbers)?;
    within(args.iter().map(weight).fold(0, usize::saturating_add))
}

/// Values in these, each once for every place it is in; stops counting once past the limit. A value
/// may share its parts, and a walk meets a part as often as there are ways to it.
fn values(args: &[Value], most: usize) -> usize {
    let mut total = 0_usize;
    let mut todo: Vec<&Value> = args.iter().collect();
    while let Some(value) = todo.pop() {
        total = total.saturating_add(1);
        let inner = members(value);
        if total.saturating_add(inner.len()) > most {
            return usize::MAX;
        }
        todo.extend(inner);
    }
    total
}

/// A builtin that compares, orders or searches whole values walks through all of them.
pub(super) fn tree(args: &[Value]) -> Result<(), &'static str> {
    if values(args, VALUES_MAX) > VALUES_MAX { Err(TOO_LONG) } else { Ok(()) }
}

pub(super) fn subset(args: &[Value]) -> Result<(), &'static str> {
    alike::subset(args)?;
    tree(args)
}

pub(super) fn paths(args: &[Value]) -> Result<(), &'static str> {
    tree(args)?;
    alike::paths(args)
}

/// The result copies the common values completely.
pub(super) fn joined(args: &[Value]) -> Result<(), &'static str> {
    within(values(args, OUTPUT_BYTES_MAX / ITEM_BYTES).saturating_mul(ITEM_BYTES))
}

pub(super) fn items(args: &[Value]) -> Result<(), &'static str> {
    within(args.iter().map(length).fold(0, usize::saturating_add).saturating_mul(ITEM_BYTES))
}

pub(super) fn nested_items(args: &[Value]) -> Result<(), &'static str> {
    tree(args)?;
    let inner = args.iter().flat_map(members).map(length).fold(0, usize::saturating_add);
    within(inner.saturating_mul(ITEM_BYTES))
}

pub(super) fn doubled(args: &[Value]) -> Result<(), &'static str> {
    within(text(args, 0).len().saturating_mul(2))
}

pub(super) fn upper(args: &[Value]) -> Result<(), &'static str> {
    doubled(args)?;
    portable::upper(text(args, 0))
}

pub(super) fn lower(args: &[Value]) -> Result<(), &'static str> {
    doubled(args)?;
    portable::lower(text(args, 0))
}

pub(super) fn concat(args: &[Value]) -> Result<(), &'static str> {
    let pieces = args.get(1).map(members).unwrap_or_default();
    let separators = pieces.len().saturating_mul(text(args, 0).len());
    within(pieces.into_iter().map(length).fold(separators, usize::saturating_add))
}

pub(super) fn replace(args: &[Value]) -> Result<(), &'static str> {
    alike::replaced(args)?;
    within(replaced(text(args, 0).len(), text(args, 0), text(args, 1), text(args, 2)))
}

fn replaced(len: usize, text: &str, old: &str, new: &str) -> usize {
    len.saturating_add(text.matches(old).count().saturating_mul(new.len()))
}

/// regorus replaces pattern by pattern, each in the result of the one before.
pub(super) fn replace_n(args: &[Value]) -> Result<(), &'static str> {
    let Some(Value::Object(patterns)) = args.first() else { return Ok(()) };
    let mut now = text(args, 1).to_owned();
    for (old, new) in patterns.iter_sorted() {
        let (Value::String(old), Value::String(new)) = (old, new) else { return Ok(()) };
        within(replaced(now.len(), &now, old, new))?;
        now = now.replace(&**old, new);
    }
    Ok(())
}

pub(super) fn split(args: &[Value]) -> Result<(), &'static str> {
    let (all, delimiter) = (text(args, 0), text(args, 1));
    let pieces = if delimiter.is_empty() { all.len() } else { all.matches(delimiter).count() };
    within(pieces.saturating_mul(ITEM_BYTES).saturating_add(all.len()))
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the engine's enum, not ours")]
pub(super) fn sprintf(args: &[Value]) -> Result<(), &'static str> {
    let format = text(args, 0);
    let quoted = format.contains(['q', 'x', 'X']);
    let base = format.len().saturating_add(format.matches('%').count().saturating_mul(400));
    let values = args.get(1).map(members).unwrap_or_default();
    within(values.into_iter().fold(base, |sum, value| {
        let own = match value {
            Value::String(text) if !quoted => text.len(),
            other => weight(other).saturating_mul(if quoted { 2 } else { 1 }),
        };
        sum.saturating_add(own)
    }))
}

/// Every position is compared with the whole needle, and each may be a match of its own.
pub(super) fn positions(args: &[Value]) -> Result<(), &'static str> {
    sought(args)?;
    within(text(args, 0).len().saturating_mul(4))
}

/// The builtin may compare every character of the one with every character of the other.
pub(super) fn work(args: &[Value]) -> Result<(), &'static str> {
    let work = text(args, 0).len().saturating_mul(text(args, 1).len());
    if work > WORK_MAX { Err(TOO_LONG) } else { Ok(()) }
}

/// The builtin may compare every text of the one with every text of the other.
pub(super) fn pairs(args: &[Value]) -> Result<(), &'static str> {
    let texts = |index: usize| match args.get(index) {
        Some(Value::String(text)) => (1, text.len()),
        other => {
            let texts = other.map(members).unwrap_or_default();
            (texts.len(), texts.into_iter().map(length).fold(0, usize::saturating_add))
        }
    };
    let ((left, left_bytes), (right, right_bytes)) = (texts(0), texts(1));
    let work = left_bytes.saturating_mul(right).min(right_bytes.saturating_mul(left));
    if work.max(left.saturating_mul(right)) > WORK_MAX { Err(TOO_LONG) } else { Ok(()) }
}

pub(super) fn sought(args: &[Value]) -> Result<(), &'static str> {
    alike::sought(args)?;
    work(args)
}

pub(super) fn counted(args: &[Value]) -> Result<(), &'static str> {
    work(args)?;
    alike::needle(args)
}

pub(super) fn whole_number(args: &[Value]) -> Result<(), &'static str> {
    alike::rounded(args)?;
    number(args)
}

pub(super) fn numeral(args: &[Value]) -> Result<(), &'static str> {
    alike::numeral(args)?;
    number_text(args)
}

pub(super) fn quoted(args: &[Value]) -> Result<(), &'static str> {
    alike::quoted(args)?;
    doubled(args)
}

pub(super) fn number(args: &[Value]) -> Result<(), &'static str> {
    let long = args.iter().any(|v| matches!(v, Value::Number(n) if n.as_f64().is_none()));
    if long { Err(TOO_LONG) } else { Ok(()) }
}

/// Reading a number of a million digits takes seconds.
pub(super) fn number_text(args: &[Value]) -> Result<(), &'static str> {
    let mut run = 0_usize;
    for byte in text(args, 0).bytes() {
        run = if byte.is_ascii_digit() { run.saturating_add(1) } else { 0 };
        if run > DIGITS_MAX {
            return Err(TOO_LONG);
        }
    }
    within(text(args, 0).len())
}

/// Matching takes pattern times text in the worst case.
pub(super) fn regex(args: &[Value]) -> Result<(), &'static str> {
    if text(args, 0).len() > PATTERN_BYTES_MAX { Err(TOO_LONG) } else { work(args) }
}

pub(super) fn glob(args: &[Value]) -> Result<(), &'static str> {
    alike::glob(args)?;
    if text(args, 0).len() > 1 << 10 { Err(TOO_LONG) } else { Ok(()) }
}

/// One match per byte at worst, each a value of its own.
pub(super) fn regex_pieces(args: &[Value]) -> Result<(), &'static str> {
    regex(args)?;
    within(text(args, 1).len().saturating_mul(ITEM_BYTES / 4))
}

/// A match per byte at worst; `$` in the replacement repeats the match. An invalid pattern is an
/// error here: the engine would call it undefined, which a `not` turns into a yes.
pub(super) fn regex_replace(args: &[Value]) -> Result<(), &'static str> {
    let (all, pattern, new) = (text(args, 0), text(args, 1), text(args, 2));
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(TOO_LONG);
    }
    let valid = regex::RegexBuilder::new(pattern).size_limit(1 << 20).build().is_ok();
    if !valid {
        return Err("the pattern is not a valid regular expression");
    }
    let inserted = all.len().saturating_add(1).saturating_mul(new.len());
    let repeated = new.matches('$').count().saturating_mul(all.len());
    within(all.len().saturating_add(inserted).saturating_add(repeated))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An engine with this rule, and the bounds of what it calls.
    fn installed(rule: &str) -> Engine {
        let mut engine = Engine::new();
        let module = format!("package p\nimport rego.v1\n{rule}\n");
        engine.add_policy("p.rego".to_owned(), module).unwrap();
        install(&mut engine).unwrap();
        engine
    }

    /// The engine takes no second form of a builtin.
    fn is_bounded(engine: &mut Engine, name: &str) -> bool {
        let (_, arity) = BUILTINS[name];
        engine.add_extension(name.to_owned(), arity, Box::new(|_| Ok(Value::Null))).is_err()
    }

    #[test]
    fn every_builtin_with_a_bound_has_it_wherever_a_rule_calls_it() {
        let bounded = ADMITTED.iter().filter(|builtin| builtin.check.is_some());
        for builtin in bounded {
            let name = builtin.name;
            let call = format!("{name}({})", vec!["input.a"; builtin.arity].join(", "));
            for rule in [
                format!("x := {call}"),
                format!("x if not {call}"),
                format!("x contains {call} if true"),
                format!("x := [1 | some a in {call}]"),
                format!("x := {{\"k\": {{1: {call}}}}}"),
                format!("x if {{ every a in input.b {{ a == {call} }} }}"),
                format!("f(a) := [{call}, a]"),
                format!("x := 1 if input.a else := {call}"),
                format!("x if y with input.a as {call}\ny if true"),
                format!("x if f(1) with f as {name}\nf(a) := a"),
            ] {
                assert!(is_bounded(&mut installed(&rule), name), "{rule}");
            }
        }
    }

    #[test]
    fn an_engine_carries_no_bound_that_its_rules_cannot_meet() {
        assert!(!is_bounded(&mut installed("x := lower(input.a)"), "upper"));
    }
}
