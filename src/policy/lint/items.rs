//! The items that the composition library accepts from a layer: `allow`, and items of `deny`,
//! `require_approval` and `obligations`. This lint checks literal items; the library reports one
//! that only an evaluation makes as `malformed`.

use std::collections::BTreeMap;

use regorus::Value;
use regorus::unstable::{AssignOp, Expr, Literal, Ref, Rule, RuleBody, RuleHead, Span};

use super::truth::{name_of, scalar};
use crate::ast;
use crate::bundle::Bundle;
use crate::document::is_word;
use crate::domain::decision::{NotifyTarget, PolicyObligation};
use crate::fault::LoadError;

/// Approvers that one item can ask for.
const APPROVERS_MAX: i64 = 16;

/// Rules of the layers that the library cannot use as they are written.
pub fn malformed(bundle: &Bundle) -> Vec<LoadError> {
    let mut found = Vec::new();
    let modules = bundle.modules();
    for module in modules.iter() {
        let package = ast::package(module);
        let [root, layer] = package.as_slice() else { continue };
        if root != "wicketgate" || !matches!(layer.as_str(), "org" | "team" | "agent") {
            continue;
        }
        for rule in &module.policy {
            let faults = of_rule(layer, rule).into_iter();
            found.extend(faults.map(|(span, message)| LoadError {
                file: ast::file(module).to_owned(),
                line: span.line,
                column: span.col,
                code: "policy.malformed",
                message,
            }));
        }
    }
    found.sort();
    found
}

/// The place and the error.
type Wrong<'a> = (&'a Span, String);

/// The library's requirements for a rule of this name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RuleDemand {
    Allow,
    Deny,
    Approval,
    Obligation,
}

impl RuleDemand {
    fn of(layer: &str, name: &str) -> Option<Self> {
        match name {
            // The org layer only restricts, so its `allow` needs no form.
            "allow" => (layer != "org").then_some(Self::Allow),
            "deny" => Some(Self::Deny),
            "require_approval" => Some(Self::Approval),
            "obligations" => Some(Self::Obligation),
            _ => None,
        }
    }

    const fn example(self) -> &'static str {
        match self {
            Self::Allow => "`allow if …`",
            Self::Deny => "`deny contains \"why\" if …`, or an object of `code` and `message`",
            Self::Approval => {
                "`require_approval contains \"why\" if …`, or an object of `code`, `message`, and where they are \
                 wanted `approvers` and `role`"
            }
            Self::Obligation => {
                "`obligations contains {\"type\": \"redact\", \"kinds\": [\"email\"]}`, or of `cap_bytes` with `bytes`, \
                 `enhanced_audit` with `days`, `rate_limit` with `calls` and `seconds`, `notify` with `to`, or `justify`"
            }
        }
    }
}

/// Checks the values of a rule. A rule of a shape that no set has does not load
/// (`policy.rule_shape`).
fn of_rule<'a>(layer: &str, rule: &'a Rule) -> Vec<Wrong<'a>> {
    let parts = name_of(rule).unwrap_or_default();
    let demand = parts.first().and_then(|name| RuleDemand::of(layer, name));
    match (demand, rule) {
        (Some(demand), Rule::Spec { head: RuleHead::Set { key: Some(key), .. }, bodies, .. }) => {
            of_item(demand, key, bodies)
        }
        (
            Some(RuleDemand::Allow),
            Rule::Spec { head: RuleHead::Compr { assign, .. }, bodies, .. },
        ) => {
            let more = bodies.iter().filter_map(|body| body.assign.as_ref());
            let values = assign.iter().chain(more).map(|assign| &*assign.value);
            values.filter_map(|value| no_flag(value, rule.span())).collect()
        }
        (Some(_) | None, _) => Vec::new(),
    }
}

/// An `allow` with another value than `true` or `false`.
#[expect(clippy::wildcard_enum_match_arm, reason = "the parser's enum, not ours")]
fn no_flag<'a>(value: &Expr, span: &'a Span) -> Option<Wrong<'a>> {
    match value {
        Expr::Bool { .. } => None,
        other => kind(other).map(|what| {
            (
                span,
                format!(
                    "`allow` is {what}, and only `true` allows; write {}",
                    RuleDemand::Allow.example()
                ),
            )
        }),
    }
}

/// The kind of an expression, where the text shows it.
#[expect(clippy::wildcard_enum_match_arm, reason = "the parser's enum, not ours")]
const fn kind(value: &Expr) -> Option<&'static str> {
    match value {
        Expr::String { .. } | Expr::RawString { .. } => Some("a text"),
        Expr::Number { .. } => Some("a number"),
        Expr::Bool { .. } => Some("`true` or `false`"),
        Expr::Null { .. } => Some("null"),
        Expr::Array { .. } | Expr::ArrayCompr { .. } => Some("a list"),
        Expr::Set { .. } | Expr::SetCompr { .. } => Some("a set"),
        Expr::Object { .. } | Expr::ObjectCompr { .. } => Some("an object"),
        _ => None,
    }
}

/// One item, as it is written out in the head, or in a variable that the body sets once.
#[expect(clippy::wildcard_enum_match_arm, reason = "the parser's enum, not ours")]
fn of_item<'a>(demand: RuleDemand, item: &'a Expr, bodies: &'a [RuleBody]) -> Vec<Wrong<'a>> {
    let item = match item {
        Expr::Var { span, .. } => match set_once(span.text(), bodies) {
            Some(value) => value,
            None => return Vec::new(),
        },
        other => other,
    };
    match item {
        Expr::String { .. } | Expr::RawString { .. } if demand != RuleDemand::Obligation => {
            Vec::new()
        }
        Expr::Object { fields, span, .. } => of_object(demand, fields, span),
        other => match kind(other) {
            None => Vec::new(),
            Some(what) => {
                vec![(other.span(), format!("an item is {what}; write {}", demand.example()))]
            }
        },
    }
}

/// What the bodies set a variable to, if exactly one statement does.
#[expect(clippy::wildcard_enum_match_arm, reason = "the parser's enum, not ours")]
fn set_once<'a>(name: &str, bodies: &'a [RuleBody]) -> Option<&'a Expr> {
    let statements = bodies.iter().flat_map(|body| &body.query.stmts);
    let mut values = statements.filter_map(|stmt| match &stmt.literal {
        Literal::Expr { expr, .. } => match &**expr {
            Expr::AssignExpr { op: AssignOp::ColEq | AssignOp::Eq, lhs, rhs, .. } => {
                (lhs.span().text() == name).then_some(&**rhs)
            }
            _other => None,
        },
        _other => None,
    });
    let value = values.next();
    value.filter(|_| values.next().is_none())
}

type Field = (Span, Ref<Expr>, Ref<Expr>);

fn of_object<'a>(demand: RuleDemand, fields: &'a [Field], span: &'a Span) -> Vec<Wrong<'a>> {
    let mut named: BTreeMap<&str, &Expr> = BTreeMap::new();
    for (_, key, value) in fields {
        let Some(key) = ast::literal(key) else {
            // What it is called is not known before it runs.
            return if scalar(key).is_some() {
                vec![(key.span(), "the name of a member is a text".to_owned())]
            } else {
                Vec::new()
            };
        };
        named.insert(key, value);
    }
    let (needed, allowed): (&[&str], &[&str]) = match demand {
        RuleDemand::Allow => return Vec::new(),
        RuleDemand::Deny => (&["code", "message"], &[]),
        RuleDemand::Approval => (&["code", "message"], &["approvers", "role"]),
        RuleDemand::Obligation => match named.get("type").map(|kind| ast::literal(kind)) {
            Some(Some("redact")) => (&["type", "kinds"], &["opaque", "where"]),
            Some(Some("cap_bytes")) => (&["type", "bytes"], &[]),
            Some(Some("enhanced_audit")) => (&["type", "days"], &[]),
            Some(Some("rate_limit")) => (&["type", "calls", "seconds"], &[]),
            Some(Some("notify")) => (&["type", "to"], &[]),
            Some(Some("justify")) => (&["type"], &[]),
            Some(None) if named.get("type").is_some_and(|kind| scalar(kind).is_none()) => {
                return Vec::new();
            }
            Some(_) | None => {
                return vec![(
                    span,
                    format!("no obligation of a known `type`; write {}", demand.example()),
                )];
            }
        },
    };
    let mut faults: Vec<Wrong<'a>> = Vec::new();
    for name in needed.iter().filter(|name| !named.contains_key(*name)) {
        faults.push((span, format!("`{name}` is missing; write {}", demand.example())));
    }
    for (name, value) in &named {
        if !needed.contains(name) && !allowed.contains(name) {
            let known = needed.iter().chain(allowed).copied().collect::<Vec<_>>().join("`, `");
            faults.push((value.span(), format!("`{name}` is not known here; known are `{known}`")));
        } else if let Some(why) = of_member(name, value) {
            faults.push((value.span(), format!("`{name}` {why}")));
        }
    }
    faults
}

/// The error in this member's value, where the text shows it.
#[expect(clippy::wildcard_enum_match_arm, reason = "the parser's enum, not ours")]
fn of_member(name: &str, value: &Expr) -> Option<String> {
    let text = ast::literal(value);
    let other = || kind(value).filter(|_| text.is_none());
    let whole = |least: i64, most: i64| match value {
        Expr::Number { value, .. } => {
            let fits = value.as_i64().is_ok_and(|number| (least..=most).contains(&number));
            (!fits).then(|| format!("is no whole number from {least} to {most}"))
        }
        Expr::UnaryExpr { .. } => Some(format!("is no whole number from {least} to {most}")),
        value => kind(value).map(|what| format!("is {what} and no number")),
    };
    match name {
        "code" => match text {
            Some(name) if !is_word(name) => Some("is not of [a-z0-9_.-]{1,64}".to_owned()),
            Some(_) => None,
            None => other().map(|what| format!("is {what} and no text")),
        },
        "message" | "role" | "type" => other().map(|what| format!("is {what} and no text")),
        "opaque" => match text {
            Some("allow") => None,
            Some(_) => Some("is `allow` or absent".to_owned()),
            None => other().map(|what| format!("is {what} and no text")),
        },
        "approvers" => whole(1, APPROVERS_MAX),
        "bytes" => whole(0, i64::MAX),
        "calls" => whole(1, most(PolicyObligation::CALLS_MAX)),
        "days" => whole(1, most(PolicyObligation::DAYS_MAX)),
        "seconds" => whole(1, most(PolicyObligation::SECONDS_MAX)),
        "to" => match text {
            Some(name) if NotifyTarget::parse(name).is_none() => {
                Some("is `owner` or `webhook`".to_owned())
            }
            Some(_) => None,
            None => other().map(|what| format!("is {what} and no text")),
        },
        "where" => match text {
            Some(part) if !["arguments", "result"].contains(&part) => {
                Some("is `arguments` or `result`".to_owned())
            }
            Some(_) => None,
            None => other().map(|what| format!("is {what} and no text")),
        },
        "kinds" => match value {
            Expr::Array { items, .. } | Expr::Set { items, .. } => {
                let unusual = items.iter().any(|item| match scalar(item) {
                    Some(Value::String(kind)) => !is_word(kind),
                    Some(_) => true,
                    None => false,
                });
                (unusual || items.is_empty())
                    .then(|| "are one or more of [a-z0-9_.-]{1,64}".to_owned())
            }
            value => kind(value).map(|what| format!("are {what} and no list")),
        },
        _ => None,
    }
}

fn most(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
