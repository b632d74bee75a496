//! The template of an argument list, and how values fill it.

use crate::domain::canonical;
use crate::domain::json::{Json, json};

/// Bytes of the longest single item: the kernel's limit.
const ITEM_BYTES_MAX: usize = 64 * 1024;
/// Bytes of all items together.
const ALL_BYTES_MAX: usize = 256 * 1024;
/// Items of the longest list.
const ITEMS_MAX: usize = 1024;
/// The argument by which an agent gives the list itself.
pub const AGENT_LIST: &str = "argv";

/// One place of the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Element {
    /// This text.
    Literal(String),
    /// The value of an argument; a list fills as many items as it has values.
    Value(ValueSlot),
    /// This text where the argument is `true`, and no item where it is `false` or absent.
    Flag {
        /// The text.
        text: String,
        /// The argument.
        when: String,
    },
}

/// A place for a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValueSlot {
    /// Name of the argument.
    pub arg: String,
    /// Stands before the value in the same item: `--max-count=`.
    pub prefix: String,
    /// Whether it is a path below where the command runs.
    pub path: bool,
    /// Whether its value may begin with `-` where that could be taken for an option.
    pub may_start_with_dash: bool,
}

/// What is wrong with a place as it is written; follows its key in a sentence.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// Neither a text nor one of the two objects.
    #[error("is a text, `{{arg: NAME}}` or `{{flag: TEXT, when: NAME}}`")]
    Form,
    /// A member that is not text.
    #[error("has a `{0}` that is not a text")]
    NoText(&'static str),
    /// A member that such a place has not.
    #[error("has an unknown member `{0}`")]
    Unknown(String),
    /// Another `as`.
    #[error("has `as: {0}`, which is neither `text` nor `path`")]
    As(String),
    /// Another `may_start_with_dash`.
    #[error("has a `may_start_with_dash` that is not a boolean")]
    Dash,
    /// A literal that the kernel cannot pass to a program.
    #[error("holds a zero byte or more than {ITEM_BYTES_MAX} bytes")]
    Literal,
}

/// Why arguments do not fill a template. Names the argument and never quotes its value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ArgumentMismatch {
    /// A flag's argument.
    #[error("`{0}` is neither true nor false")]
    Truth(String),
    /// An object, an array in an array, or a truth value.
    #[error("`{0}` is neither a text nor a number")]
    Kind(String),
    /// A control character other than tab and line feed.
    #[error("`{0}` holds a control character")]
    Control(String),
    /// One item that is too long.
    #[error("`{0}` has more than {ITEM_BYTES_MAX} bytes")]
    Long(String),
    /// A value that the program would take for an option.
    #[error("`{0}` begins with `-` where it could be an option")]
    Option(String),
    /// An empty item.
    #[error("`{0}` is empty")]
    Empty(String),
    /// A path, and its error.
    #[error("`{0}` {1}")]
    Path(String, &'static str),
    /// The agent's own list is not a list.
    #[error("`{AGENT_LIST}` is missing, or is not a list of texts")]
    List,
    /// The agent's own list has none of the forms; with the forms.
    #[error("`{AGENT_LIST}` is not one of: {0}")]
    Form(String),
    /// The whole list.
    #[error("the argument list has more than {ITEMS_MAX} items and {ALL_BYTES_MAX} bytes")]
    Many,
}

impl Element {
    /// The argument it needs, if any.
    pub fn argument(&self) -> Option<&str> {
        match self {
            Self::Literal(_) => None,
            Self::Value(value) => Some(&value.arg),
            Self::Flag { when, .. } => Some(when),
        }
    }

    pub(super) fn to_json(&self) -> Json {
        match self {
            Self::Literal(text) => Json::from(text.as_str()),
            Self::Value(value) => json!({
                "arg": value.arg,
                "prefix": value.prefix,
                "as": if value.path { "path" } else { "text" },
                "may_start_with_dash": value.may_start_with_dash,
            }),
            Self::Flag { text, when } => json!({"flag": text, "when": when}),
        }
    }
}

/// Reads one place as it is written in a configuration.
///
/// # Errors
/// See [`Error`].
pub fn parse(written: &serde_json::Value) -> Result<Element, Error> {
    if let Some(text) = written.as_str() {
        return literal(text).map(Element::Literal);
    }
    let members = written.as_object().ok_or(Error::Form)?;
    let text = |name: &'static str| match members.get(name) {
        None => Ok(None),
        Some(value) => value.as_str().map(Some).ok_or(Error::NoText(name)),
    };
    let known = |names: &[&str]| match members.keys().find(|key| !names.contains(&key.as_str())) {
        Some(key) => Err(Error::Unknown(key.clone())),
        None => Ok(()),
    };
    if let (Some(flag), Some(when)) = (text("flag")?, text("when")?) {
        known(&["flag", "when"])?;
        return Ok(Element::Flag { text: literal(flag)?, when: when.to_owned() });
    }
    let arg = text("arg")?.ok_or(Error::Form)?;
    known(&["arg", "prefix", "as", "may_start_with_dash"])?;
    let path = match text("as")? {
        None | Some("text") => false,
        Some("path") => true,
        Some(other) => {
            return Err(Error::As(other.to_owned()));
        }
    };
    let dash = match members.get("may_start_with_dash") {
        None => false,
        Some(value) => value.as_bool().ok_or(Error::Dash)?,
    };
    let prefix = literal(text("prefix")?.unwrap_or_default())?;
    Ok(Element::Value(ValueSlot { arg: arg.to_owned(), prefix, path, may_start_with_dash: dash }))
}

fn literal(text: &str) -> Result<String, Error> {
    if text.contains('\0') || text.len() > ITEM_BYTES_MAX {
        return Err(Error::Literal);
    }
    Ok(text.to_owned())
}

/// The argument list from this template and these arguments.
///
/// # Errors
/// The argument that does not fit its place, and why. The error never quotes its value.
pub fn fill(template: &[Element], args: &Json) -> Result<Vec<String>, ArgumentMismatch> {
    let mut argv: Vec<String> = Vec::new();
    // After a literal `--`, no item counts as an option.
    let mut operands = false;
    for element in template {
        match element {
            Element::Literal(text) => {
                operands |= text == "--";
                argv.push(text.clone());
            }
            Element::Flag { text, when } => match args.get(when) {
                None | Some(Json::Null | Json::Bool(false)) => {}
                Some(Json::Bool(true)) => argv.push(text.clone()),
                Some(_) => return Err(ArgumentMismatch::Truth(when.clone())),
            },
            Element::Value(value) => match args.get(&value.arg) {
                None | Some(Json::Null) => {}
                Some(Json::Array(items)) => {
                    for item in items {
                        argv.push(one(value, item, operands)?);
                    }
                }
                Some(item) => argv.push(one(value, item, operands)?),
            },
        }
    }
    bounded(argv)
}

/// The agent's own list, if it has one of these forms: as many items, each the form's text or a
/// value that its place allows.
///
/// # Errors
/// The value that its place refuses in a form that otherwise fits, or else all forms.
pub fn choose(forms: &[Vec<Element>], args: &Json) -> Result<Vec<String>, ArgumentMismatch> {
    let Some(Json::Array(items)) = args.get(AGENT_LIST) else {
        return Err(ArgumentMismatch::List);
    };
    let mut refused = None;
    for form in forms.iter().filter(|form| form.len() == items.len()) {
        match fitted(form, items) {
            Ok(argv) => return bounded(argv),
            Err(why) => refused = why.or(refused),
        }
    }
    Err(refused.unwrap_or_else(|| ArgumentMismatch::Form(shown(forms))))
}

/// These items, if they have this form; why a value is refused, if only a value is wrong.
fn fitted(form: &[Element], items: &[Json]) -> Result<Vec<String>, Option<ArgumentMismatch>> {
    let (mut argv, mut refused, mut operands) = (Vec::new(), None, false);
    for (element, item) in form.iter().zip(items) {
        let text = item.as_str().ok_or(None)?;
        match element {
            Element::Literal(literal) if literal == text => {
                operands |= literal == "--";
                argv.push(text.to_owned());
            }
            Element::Literal(_) | Element::Flag { .. } => return Err(None),
            Element::Value(slot) => {
                let value = text.strip_prefix(&*slot.prefix).ok_or(None)?;
                match one(slot, &Json::from(value), operands) {
                    Ok(item) => argv.push(item),
                    Err(why) => refused = Some(why),
                }
            }
        }
    }
    refused.map_or(Ok(argv), |why| Err(Some(why)))
}

/// The forms as an agent reads them: a place for a value has the name of its argument.
pub fn shown(forms: &[Vec<Element>]) -> String {
    let item = |element: &Element| match element {
        Element::Literal(text) => Json::from(text.as_str()),
        Element::Value(slot) => Json::from(format!("{}<{}>", slot.prefix, slot.arg)),
        Element::Flag { text, .. } => Json::from(text.as_str()),
    };
    let form = |form: &Vec<Element>| canonical::text(&form.iter().map(item).collect::<Json>());
    forms.iter().map(form).collect::<Vec<_>>().join(", ")
}

fn bounded(argv: Vec<String>) -> Result<Vec<String>, ArgumentMismatch> {
    let bytes: usize = argv.iter().map(|item| item.len().saturating_add(1)).sum();
    if argv.len() > ITEMS_MAX || bytes > ALL_BYTES_MAX {
        return Err(ArgumentMismatch::Many);
    }
    Ok(argv)
}

fn one(slot: &ValueSlot, value: &Json, operands: bool) -> Result<String, ArgumentMismatch> {
    let name = || slot.arg.clone();
    let text = match value {
        Json::String(text) => text.clone(),
        Json::Int(_) | Json::Float(_) => canonical::text(value),
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => {
            return Err(ArgumentMismatch::Kind(name()));
        }
    };
    if text.chars().any(|c| c.is_control() && c != '\t' && c != '\n') {
        return Err(ArgumentMismatch::Control(name()));
    }
    if text.len() > ITEM_BYTES_MAX {
        return Err(ArgumentMismatch::Long(name()));
    }
    let free = operands || slot.may_start_with_dash || !slot.prefix.is_empty();
    if text.starts_with('-') && !free {
        return Err(ArgumentMismatch::Option(name()));
    }
    if text.is_empty() && slot.prefix.is_empty() && !operands {
        return Err(ArgumentMismatch::Empty(name()));
    }
    if slot.path {
        path(&text).map_err(|why| ArgumentMismatch::Path(name(), why))?;
    }
    Ok(format!("{}{text}", slot.prefix))
}

/// Below where the command runs, as it is written.
fn path(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        return Err("is an empty path");
    }
    if text.starts_with('/') || text.starts_with('~') {
        return Err("is not a path below the command's directory");
    }
    if text.starts_with('@') {
        return Err("begins with `@`, which some programs read arguments from");
    }
    if text.split('/').any(|part| part == "..") {
        return Err("leaves the command's directory");
    }
    if text.contains(['\n', '\t']) {
        return Err("holds a control character");
    }
    Ok(())
}
