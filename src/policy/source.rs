//! The text of a syntax tree, as in the file.

use regorus::unstable::{AssignOp, LiteralStmt, Module, RuleAssign, RuleHead, Span, WithModifier};

use super::ast;

/// The byte range of a span, including the quotes of texts: regorus excludes those at either end.
pub(super) fn range(span: &Span) -> (usize, usize) {
    let bytes = span.source.contents().as_bytes();
    let place = |at: u32| usize::try_from(at).unwrap_or(usize::MAX);
    let (start, end) = (place(span.start), place(span.end));
    let quote = |at: usize| bytes.get(at).is_some_and(|byte| b"\"`".contains(byte));
    let before = start.checked_sub(1).filter(|at| quote(*at));
    let after = if quote(end) { end.saturating_add(1) } else { end };
    (before.unwrap_or(start), after)
}

/// The text of a span with its quotes.
pub(super) fn text(span: &Span) -> &str {
    let (start, end) = range(span);
    span.source.contents().get(start..end).unwrap_or_default()
}

/// From which byte to which the value of an assignment goes. WHY: the span of an object begins at
/// its last member, so the operator before the value marks its begin.
pub(super) fn assigned(assign: &RuleAssign) -> (usize, usize) {
    let (start, end) = range(&assign.span);
    let operator = match assign.op {
        AssignOp::Eq => "=".len(),
        AssignOp::ColEq => ":=".len(),
    };
    (start.saturating_add(operator), end)
}

/// The byte range of a head's written value: the member of a set, or the text after `:=`. `None`:
/// it has none, and is `true`.
pub(super) fn value_span(head: &RuleHead) -> Option<(usize, usize)> {
    match head {
        RuleHead::Set { span, refr, key } => {
            key.as_ref()?;
            let start = after(refr.span(), "contains")?;
            Some((start, range(span).1))
        }
        RuleHead::Compr { assign, .. } | RuleHead::Func { assign, .. } => {
            assign.as_ref().map(assigned)
        }
    }
}

/// The text of a part of the file that a span is of.
pub(super) fn part(span: &Span, (start, end): (usize, usize)) -> &str {
    span.source.contents().get(start..end).unwrap_or_default().trim()
}

/// The replacement in a `with`.
pub(super) fn replacement(with: &WithModifier) -> &str {
    let start = after(with.refr.span(), "as").unwrap_or(usize::MAX);
    part(&with.span, (start, range(&with.span).1))
}

/// The end of the keyword that follows a span.
fn after(span: &Span, keyword: &str) -> Option<usize> {
    let end = range(span).1;
    let rest = span.source.contents().get(end..)?;
    let keyword = rest.find(keyword)?.saturating_add(keyword.len());
    end.checked_add(keyword)
}

/// The text of a span as one short line.
pub(super) fn shown(span: &Span) -> String {
    let line = text(span).split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > 120 {
        let cut: String = line.chars().take(119).collect();
        return format!("{cut}…");
    }
    line
}

/// `file:line` of a span.
pub(super) fn place(span: &Span) -> String {
    format!("{}:{}", span.source.get_path(), span.line)
}

/// The `with …` of a condition, all of them; empty without one.
pub(super) fn withs(stmt: &LiteralStmt) -> &str {
    let (_, end) = range(&stmt.span);
    let first = stmt.with_mods.first().map(|with| range(&with.span).0);
    first.and_then(|start| stmt.span.source.contents().get(start..end)).unwrap_or_default()
}

/// Package and imports of a module, for a module of our own beside it.
pub(super) fn heading(module: &Module) -> String {
    let mut heading = format!("package {}\n\nimport rego.v1\n", text(module.package.refr.span()));
    for import in &module.imports {
        let root = ast::path(&import.refr).and_then(|path| path.parts.into_iter().next());
        if matches!(root.as_deref(), Some("data" | "input")) {
            heading.push_str(text(&import.span));
            heading.push('\n');
        }
    }
    heading
}
