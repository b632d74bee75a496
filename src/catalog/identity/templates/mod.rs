//! Templates of instructions: fixed text with holes for what differs between requests.
//!
//! A template is a file `templates/<sha256>.txt` beside the manifest. The signed manifest names the
//! digest of its bytes, so the file needs no signature of its own. The holes are `{{date}}`,
//! `{{path}}`, `{{word}}`, `{{hex:n}}`, `{{line}}` and `{{text:n}}`; everything else is literal,
//! other texts in braces too.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::Error;
use crate::domain::digest::Digest;

mod dates;
pub(super) mod holes;
mod matching;
#[cfg(test)]
mod tests;

pub use holes::{HEX_DIGITS_MAX, Hole, HoleError, TEXT_BYTES_MAX, WORD_BYTES_MAX};

/// Bytes of a template, at most.
pub const TEMPLATE_BYTES_MAX: usize = 256 * 1024;
/// Holes of a template, at most.
pub const HOLES_MAX: usize = 64;
/// The directory of templates, beside the manifest.
const DIR: &str = "templates";

/// The templates of a manifest, by the digest of their bytes.
pub type Templates = BTreeMap<Digest, Arc<InstructionTemplate>>;

/// Why a text is not a template.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TemplateError {
    /// The file has no content, or too much.
    #[error("a template has 1 to {TEMPLATE_BYTES_MAX} bytes, not {0}")]
    Size(usize),
    /// The bytes are not UTF-8.
    #[error("a template is UTF-8 text")]
    Text,
    /// Too many holes.
    #[error(
        "a template has at most {HOLES_MAX} holes, not {0}; fill more of them with one `{{{{text:n}}}}`"
    )]
    Holes(usize),
    /// Any short text would match.
    #[error("a template without fixed text pins nothing; add the text that stays the same")]
    Literal,
    /// A hole is not written as it has to be.
    #[error(transparent)]
    Hole(#[from] HoleError),
}

/// Fixed text with holes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InstructionTemplate {
    /// The literal before the first hole.
    head: String,
    /// Each hole, with the literal behind it.
    parts: Vec<(Hole, String)>,
}

impl InstructionTemplate {
    /// Reads the bytes of a template.
    ///
    /// # Errors
    /// See [`TemplateError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, TemplateError> {
        if bytes.is_empty() || bytes.len() > TEMPLATE_BYTES_MAX {
            return Err(TemplateError::Size(bytes.len()));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| TemplateError::Text)?;
        let mut template = Self { head: String::new(), parts: Vec::new() };
        let mut rest = text;
        while let Some(next) = next_hole(rest)? {
            template.last_literal().push_str(next.before);
            template.parts.push((next.hole, String::new()));
            rest = next.behind;
        }
        template.last_literal().push_str(rest);
        if template.parts.len() > HOLES_MAX {
            return Err(TemplateError::Holes(template.parts.len()));
        }
        if template.literal_bytes() == 0 {
            return Err(TemplateError::Literal);
        }
        Ok(template)
    }

    /// The template of these parts.
    ///
    /// # Errors
    /// See [`TemplateError`]; a literal that would be read as a hole is none.
    pub(super) fn of(head: &str, parts: &[(Hole, String)]) -> Result<String, TemplateError> {
        let text = Self { head: head.to_owned(), parts: parts.to_vec() }.text();
        Self::parse(text.as_bytes()).map(|_| text)
    }

    /// The text of the template: the bytes whose digest names it.
    pub fn text(&self) -> String {
        let parts = self.parts.iter().map(|(hole, literal)| format!("{hole}{literal}"));
        parts.fold(self.head.clone(), |text, part| text + &part)
    }

    /// Whether the text fits, and how many of its bytes the template does not fix: those in holes
    /// other than `{{date}}` and `{{hex:n}}`. A text that fits in several ways is read so that the
    /// last holes are the shortest.
    pub fn loose_bytes(&self, text: &str) -> Option<u64> {
        self.fit(text).0
    }

    /// Bytes of all literals.
    pub fn literal_bytes(&self) -> usize {
        self.parts
            .iter()
            .fold(self.head.len(), |sum, (_, literal)| sum.saturating_add(literal.len()))
    }

    fn last_literal(&mut self) -> &mut String {
        self.parts.last_mut().map_or(&mut self.head, |(_, literal)| literal)
    }
}

/// A hole in a text.
struct WrittenHole<'a> {
    before: &'a str,
    hole: Hole,
    behind: &'a str,
}

/// The first hole of a text.
fn next_hole(text: &str) -> Result<Option<WrittenHole<'_>>, HoleError> {
    let mut from = 0_usize;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find("{{")) {
        let at = from.saturating_add(at);
        // A third brace belongs to the literal.
        from = at.saturating_add(1);
        let (before, opened) = text.split_at_checked(at).unwrap_or((text, ""));
        let Some(opened) = opened.strip_prefix("{{") else { continue };
        let Some((inner, behind)) = opened.split_once("}}") else { continue };
        if let Some(hole) = Hole::parse(inner) {
            return Ok(Some(WrittenHole { before, hole: hole?, behind }));
        }
    }
    Ok(None)
}

/// The bytes of what a template would read as a hole, even as a wrong one, at the start of a text.
pub(super) fn is_hole(text: &str) -> Option<usize> {
    let (inner, _) = text.strip_prefix("{{")?.split_once("}}")?;
    Hole::parse(inner).map(|_| inner.len().saturating_add(4))
}

/// The bytes of each form of a date that the text begins with.
pub(super) fn date_bytes(text: &str) -> impl Iterator<Item = usize> {
    dates::lengths(text)
}

/// The directory with the templates of the manifest at this path.
pub fn directory(manifest: &Path) -> PathBuf {
    manifest.with_file_name(DIR)
}

/// The files there that are named like templates, in order.
pub fn files(manifest: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory(manifest)).into_iter().flatten().flatten();
    let named = |path: &PathBuf| {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        path.extension().is_some_and(|ending| ending == "txt")
            && stem.is_some_and(|stem| Digest::parse(stem).is_some())
    };
    let mut files: Vec<_> = entries.map(|entry| entry.path()).filter(named).collect();
    files.sort();
    files
}

/// The file of a template of the manifest at this path.
pub fn template_path(manifest: &Path, template: &Digest) -> PathBuf {
    directory(manifest).join(format!("{}.txt", template.hex()))
}

/// Reads these templates beside a manifest.
///
/// # Errors
/// The first file that is not there, has other bytes than its name says, or is not a template.
pub(super) fn beside<'a>(
    manifest: &Path,
    named: impl Iterator<Item = &'a Digest>,
) -> Result<Templates, Error> {
    let mut all = Templates::new();
    for digest in named {
        let path = template_path(manifest, digest);
        let refused = |why: String| Error::Template { path: path.display().to_string(), why };
        let unread = |source: std::io::Error| {
            refused(format!(
                "cannot be read: {source}; put the template there, which the manifest names by its SHA-256"
            ))
        };
        let bytes = bounded(&path).map_err(unread)?;
        let actual = Digest::of(&[&bytes]);
        if actual != *digest {
            let why =
                format!("its bytes have the SHA-256 `{}`, not that of its name", actual.hex());
            return Err(refused(why));
        }
        let template =
            InstructionTemplate::parse(&bytes).map_err(|why| refused(why.to_string()))?;
        all.insert(*digest, Arc::new(template));
    }
    Ok(all)
}

/// The bytes of a file, but no more than one more than a template may have.
fn bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    let most = u64::try_from(TEMPLATE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}
