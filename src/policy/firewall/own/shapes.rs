//! Shapes of an operator's own keys, in YAML.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::patterns::WIDTH;
use super::super::shape::{
    ALNUM, Alphabet, BASE32, BASE64, DIGIT, DOTTED, Edge, HEX, HEX_ANY, KeyShape, LOWER, Part,
    Sort, UPPER, URL, Vendor, WORD,
};
use super::{RULES_MAX, no_kind};
use crate::yaml::{self, Document};

/// A file of shapes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShapesFile {
    shapes: Vec<ShapeForm>,
}

/// One shape, as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShapeForm {
    kind: String,
    #[serde(default)]
    about: Option<String>,
    prefixes: Vec<String>,
    alphabet: String,
    min: usize,
    max: usize,
    #[serde(default)]
    distinct_min: Option<usize>,
    #[serde(default)]
    left: EdgeForm,
    #[serde(default)]
    right: EdgeForm,
}

/// What may stand beside a key.
#[derive(Clone, Copy, Default, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum EdgeForm {
    /// Nothing that belongs to a word.
    #[default]
    Word,
    /// Anything.
    Any,
}

/// One shape of an operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct OwnShape {
    /// The kind.
    pub kind: String,
    about: String,
    prefixes: Vec<String>,
    alphabet: Alphabet,
    length: (usize, usize),
    distinct_min: Option<usize>,
    edges: (Edge, Edge),
}

/// Bytes of a prefix, prefixes of a shape, and bytes of a body.
const PREFIX_MAX: usize = 64;
const PREFIXES_MAX: usize = 16;
const BODY_MAX: usize = 4096;
/// Bytes of the shortest key: shorter ones are words.
const KEY_MIN: usize = 12;

/// Alphabets by name.
const ALPHABETS: [(&str, Alphabet); 11] = [
    ("alnum", ALNUM),
    ("base32", BASE32),
    ("base64", BASE64),
    ("digit", DIGIT),
    ("dotted", DOTTED),
    ("hex", HEX),
    ("hex_any", HEX_ANY),
    ("lower", LOWER),
    ("upper", UPPER),
    ("url", URL),
    ("word", WORD),
];

/// Reads a file of shapes.
pub(super) fn read(text: &str, name: &str) -> Result<Vec<OwnShape>, yaml::Error> {
    let file: ShapesFile = yaml::from_str(text, name)?;
    let document = Document::parse(text.as_bytes(), name)?;
    if file.shapes.len() > RULES_MAX {
        return Err(document.error("/shapes", format!("more than {RULES_MAX} shapes")));
    }
    let one = |(at, form): (usize, ShapeForm)| {
        let member = |(member, why)| document.error(&format!("/shapes/{at}/{member}"), why);
        shape(form).map_err(member)
    };
    file.shapes.into_iter().enumerate().map(one).collect()
}

/// A shape, or the member that is wrong and why.
fn shape(form: ShapeForm) -> Result<OwnShape, (&'static str, String)> {
    let wrong = |member, why: &str| Err((member, why.to_owned()));
    if let Some(why) = no_kind(&form.kind) {
        return Err(("kind", format!("`{}` is no name of a kind: {why}", form.kind)));
    }
    let is_prefix = |one: &String| {
        (WIDTH..=PREFIX_MAX).contains(&one.len()) && one.bytes().all(|b| b.is_ascii_graphic())
    };
    if !(1..=PREFIXES_MAX).contains(&form.prefixes.len()) {
        return Err(("prefixes", format!("name 1 to {PREFIXES_MAX} prefixes")));
    }
    if let Some(other) = form.prefixes.iter().find(|one| !is_prefix(one)) {
        let why = format!("a prefix has {WIDTH} to {PREFIX_MAX} printable letters of ASCII");
        return Err(("prefixes", format!("`{other}` is none: {why}")));
    }
    let named = ALPHABETS.iter().find(|(name, _)| *name == form.alphabet);
    let alphabet = match named {
        Some((_, alphabet)) => *alphabet,
        None if form.alphabet.len() < 10
            || !form.alphabet.bytes().all(|b| b.is_ascii_graphic()) =>
        {
            let names: Vec<&str> = ALPHABETS.iter().map(|(name, _)| *name).collect();
            let why =
                format!("name one of {}, or write at least ten letters of ASCII", names.join(", "));
            return Err(("alphabet", format!("`{}` is no alphabet: {why}", form.alphabet)));
        }
        None => Alphabet::of(&form.alphabet),
    };
    if form.min > form.max || form.max > BODY_MAX {
        return Err(("max", format!("from `min` to {BODY_MAX}")));
    }
    let shortest = form.prefixes.iter().map(String::len).min().unwrap_or_default();
    if shortest + form.min < KEY_MIN || form.min < 4 {
        return Err((
            "min",
            format!("prefix and body have at least {KEY_MIN} letters, a body has 4"),
        ));
    }
    let most = form.min.min(usize::try_from(alphabet.size()).unwrap_or_default());
    if form.distinct_min.is_some_and(|least| !(2..=most).contains(&least)) {
        return wrong("distinct_min", "from 2 to what `min` and the alphabet allow");
    }
    let edge = |form| match form {
        EdgeForm::Word => Edge::Word,
        EdgeForm::Any => Edge::Any,
    };
    Ok(OwnShape {
        about: form.about.unwrap_or_else(|| "key of the operator's own".to_owned()),
        kind: form.kind,
        prefixes: form.prefixes,
        alphabet,
        length: (form.min, form.max),
        distinct_min: form.distinct_min,
        edges: (edge(form.left), edge(form.right)),
    })
}

/// The shapes of each kind, for as long as the process runs.
pub(super) fn vendors(shapes: Vec<OwnShape>) -> Vec<Vendor> {
    let mut kinds: BTreeMap<String, (String, Vec<KeyShape>)> = BTreeMap::new();
    for one in shapes {
        let prefixes: Vec<&'static str> = one.prefixes.into_iter().map(kept).collect();
        let (min, max) = one.length;
        let shape = KeyShape {
            prefixes: prefixes.leak(),
            lead: None,
            parts: vec![Part::Run(one.alphabet, min, max)].leak(),
            sort: Sort::Live,
            distinct_min: one.distinct_min,
            edges: one.edges,
        };
        kinds.entry(one.kind).or_insert_with(|| (one.about, Vec::new())).1.push(shape);
    }
    let vendor = |(kind, (about, shapes)): (String, (String, Vec<KeyShape>))| Vendor {
        kind: kept(kind),
        about: kept(about),
        shapes: shapes.leak(),
    };
    kinds.into_iter().map(vendor).collect()
}

/// WHY leaked: the tables of our own shapes are constants, and a process reads these ones once.
fn kept(text: String) -> &'static str {
    text.leak()
}
