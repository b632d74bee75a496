//! Parses a text into a statement whose every part is known, or refuses it.
//!
//! A real parser reads the text, and renders it again from its syntax tree: this removes comments,
//! odd quoting and everything else two readers could read differently, and the new text must parse
//! to the very same statement.

use std::ops::ControlFlow;

use sqlparser::ast::{self, SetExpr, VisitMut as _};
use sqlparser::dialect::{Dialect, PostgreSqlDialect, SQLiteDialect};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Tokenizer, Whitespace};

use super::named::NamedStatement;
use super::names;
use super::walk::Walk;
use super::{Allowed, Engine, Statement};

/// Bytes of one statement.
pub const SQL_BYTES_MAX: usize = 64 * 1024;
/// Parameters of one statement.
pub(super) const PARAMS_MAX: usize = 100;
/// Words, signs and literals of one statement: a chain nests one level per operator.
const TOKENS_MAX: usize = 4_000;
/// Bytes of a name that PostgreSQL keeps.
const NAME_BYTES_MAX: usize = 63;
/// Nested parentheses and subqueries.
const DEPTH_MAX: usize = 64;
/// Stack of the thread that reads: deep statements must end it no earlier than `TOKENS_MAX` does.
const STACK_BYTES: usize = 128 << 20;

/// Why a statement is not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatementRefusal {
    /// `sql.parse`, `sql.multi_statement`, `sql.not_select`, `sql.attach`, `sql.relation`,
    /// `sql.column`, `sql.function`, `sql.syntax`, `sql.params` or `sql.too_large`.
    pub detail: &'static str,
    /// What is wrong, for the author of the statement.
    pub message: String,
}

impl StatementRefusal {
    pub(super) fn new(detail: &'static str, message: impl Into<String>) -> Self {
        Self { detail, message: message.into() }
    }
}

/// Reads an agent's own statement: one SELECT, over allowed tables, with allowed calls.
///
/// # Errors
/// The first construct that is not allowed or not understood.
pub fn free_form(
    engine: Engine,
    allowed: &Allowed,
    text: &str,
) -> Result<Statement, StatementRefusal> {
    aside(|| {
        let tokens = tokens(engine, text)?;
        begins_as_select(&tokens)?;
        let mut statement = parse(engine, text)?;
        if !matches!(statement, ast::Statement::Query(_)) {
            return Err(StatementRefusal::new("sql.not_select", "only SELECT is allowed"));
        }
        let mut walk = Walk::new(engine, allowed);
        if let ControlFlow::Break(refused) = statement.visit(&mut walk) {
            return Err(*refused);
        }
        let fields = match engine {
            Engine::Postgres => names::resolve(&statement),
            // SQLite has no calls without parentheses.
            Engine::Sqlite => ControlFlow::Continue(Vec::new()),
        };
        let fields = match fields {
            ControlFlow::Continue(fields) => fields,
            ControlFlow::Break(refused) => return Err(*refused),
        };
        let text = statement.to_string();
        let again = parse(engine, &text).ok().filter(|again| *again == statement);
        if again.is_none() {
            let message = "the statement cannot be written unambiguously: give texts with quotes or \
                           backslashes as parameters, or write it more plainly";
            return Err(StatementRefusal::new("sql.syntax", message));
        }
        Ok(Statement { fields, ..walk.into_statement(text) })
    })
}

/// Reads a statement of the operator, who may write more than an agent; the gate sends it
/// unchanged.
///
/// # Errors
/// The statement is not understood, or neither reads nor writes rows.
pub(super) fn named(engine: Engine, home: &str, text: &str) -> Result<Statement, StatementRefusal> {
    aside(|| {
        tokens(engine, text)?;
        let mut statement = parse(engine, text)?;
        let kind = if let ast::Statement::Query(query) = &statement {
            match query.body.as_ref() {
                SetExpr::Insert(_) => Some("insert"),
                SetExpr::Update(_) => Some("update"),
                SetExpr::Delete(_) => Some("delete"),
                SetExpr::Merge(_) => Some("merge"),
                SetExpr::Select(_)
                | SetExpr::Query(_)
                | SetExpr::SetOperation { .. }
                | SetExpr::Values(_)
                | SetExpr::Table(_) => Some("select"),
            }
        } else {
            NamedStatement::kind(&statement)
        };
        let kind = kind.ok_or_else(|| {
            let message = "a named query is one SELECT, INSERT, UPDATE, DELETE or MERGE";
            StatementRefusal::new("sql.not_select", message)
        })?;
        let mut seen = NamedStatement::new(engine, home);
        if let ControlFlow::Break(refused) = statement.visit(&mut seen) {
            return Err(*refused);
        }
        let text = text.trim_end().trim_end_matches(';').to_owned();
        Ok(seen.into_statement(text, kind))
    })
}

/// Parses on a thread with a stack of its own, so that no statement can end the process; every
/// failure there is a refusal.
fn aside(
    work: impl FnOnce() -> Result<Statement, StatementRefusal> + Send,
) -> Result<Statement, StatementRefusal> {
    let lost = || StatementRefusal::new("sql.parse", "the statement cannot be read");
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
        thread.map_err(|_| lost())?.join().unwrap_or_else(|_| Err(lost()))
    })
}

fn dialect(engine: Engine) -> &'static dyn Dialect {
    match engine {
        Engine::Postgres => &PostgreSqlDialect {},
        Engine::Sqlite => &SQLiteDialect {},
    }
}

fn parse(engine: Engine, text: &str) -> Result<ast::Statement, StatementRefusal> {
    let unreadable = |error: sqlparser::parser::ParserError| {
        StatementRefusal::new("sql.parse", format!("the statement is not understood: {error}"))
    };
    let parser = Parser::new(dialect(engine)).with_recursion_limit(DEPTH_MAX);
    let mut parser = parser.try_with_sql(text).map_err(unreadable)?;
    let mut all = parser.parse_statements().map_err(unreadable)?;
    match (all.pop(), all.is_empty()) {
        (Some(statement), true) => Ok(statement),
        (Some(_), false) => {
            Err(StatementRefusal::new("sql.multi_statement", "only one statement is allowed"))
        }
        (None, _) => Err(StatementRefusal::new("sql.parse", "there is no statement")),
    }
}

/// The parts of a text that may be one statement. Text behind its end is refused, comments too: no
/// statement needs it, and readers disagree about what it is.
fn tokens(engine: Engine, text: &str) -> Result<Vec<Token>, StatementRefusal> {
    if text.len() > SQL_BYTES_MAX {
        let message = format!("a statement has at most {SQL_BYTES_MAX} bytes");
        return Err(StatementRefusal::new("sql.too_large", message));
    }
    if text.contains('\0') {
        return Err(StatementRefusal::new("sql.parse", "a statement holds no NUL"));
    }
    let tokens = Tokenizer::new(dialect(engine), text).tokenize();
    let tokens = tokens.map_err(|error| StatementRefusal::new("sql.parse", error.to_string()))?;
    let blank = |token: &Token| {
        matches!(
            token,
            Token::Whitespace(Whitespace::Space | Whitespace::Newline | Whitespace::Tab)
        )
    };
    let mut rest = tokens.iter().skip_while(|token| **token != Token::SemiColon).skip(1);
    if rest.any(|token| !blank(token)) {
        return Err(StatementRefusal::new("sql.multi_statement", "only one statement is allowed"));
    }
    let unsupported = |token: &Token| {
        matches!(token, Token::Word(word) if word.quote_style.is_some()
            && word.value.contains(['"', '`', '[', ']', '\\']))
    };
    if tokens.iter().any(unsupported) {
        return Err(StatementRefusal::new(
            "sql.syntax",
            "a name in quotes holds no quotes and no backslash",
        ));
    }
    // WHY: the server cuts longer names, and two that differ behind the cut are one to it.
    let long =
        |token: &Token| matches!(token, Token::Word(word) if word.value.len() > NAME_BYTES_MAX);
    if engine == Engine::Postgres && tokens.iter().any(long) {
        let message = format!("a name has at most {NAME_BYTES_MAX} bytes");
        return Err(StatementRefusal::new("sql.syntax", message));
    }
    let tokens: Vec<Token> =
        tokens.into_iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    if tokens.len() > TOKENS_MAX {
        let message = format!("a statement has at most {TOKENS_MAX} words, signs and literals");
        return Err(StatementRefusal::new("sql.too_large", message));
    }
    Ok(tokens)
}

/// Checks that the statement begins as a SELECT can; the error names the fault.
fn begins_as_select(tokens: &[Token]) -> Result<(), StatementRefusal> {
    let first = tokens.iter().find(|token| **token != Token::LParen);
    let keyword = match first {
        Some(Token::Word(keyword)) if keyword.quote_style.is_none() => {
            keyword.value.to_ascii_uppercase()
        }
        Some(_) => {
            return Err(StatementRefusal::new(
                "sql.parse",
                "the statement does not begin with a word",
            ));
        }
        None => return Err(StatementRefusal::new("sql.parse", "there is no statement")),
    };
    match keyword.as_str() {
        "SELECT" | "WITH" | "VALUES" => Ok(()),
        "ATTACH" | "DETACH" => {
            Err(StatementRefusal::new("sql.attach", "no other database is reached"))
        }
        _ => Err(StatementRefusal::new("sql.not_select", "only SELECT is allowed")),
    }
}
