//! An edit of a file: the part that changes, and what takes its place.

use super::reason;
use super::write::TARGET_BYTES_MAX;
use crate::domain::decision::LayerReason;
use crate::domain::json::Json;

/// A text to replace, and the text that takes its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edit<'a> {
    old: &'a str,
    new: &'a str,
    /// Wherever it is, and not only where it is once.
    all: bool,
}

impl<'a> Edit<'a> {
    /// The edit of these arguments.
    pub fn of(args: &'a Json) -> Result<Self, LayerReason> {
        let wrong = |why: &str| reason("file.edit", why);
        let text = |name: &str| args.get(name).and_then(Json::as_str);
        let (Some(old), Some(new)) = (text("old"), text("new")) else {
            return Err(wrong("an edit needs `old` and `new`"));
        };
        if old.is_empty() || old == new {
            return Err(wrong("`old` is empty or the same as `new`"));
        }
        let all = match args.get("all") {
            None | Some(Json::Null | Json::Bool(false)) => false,
            Some(Json::Bool(true)) => true,
            Some(_) => return Err(wrong("`all` is neither true nor false")),
        };
        Ok(Self { old, new, all })
    }

    /// The content that this edit makes of `bytes`.
    pub fn applied(&self, bytes: &[u8]) -> Result<Vec<u8>, LayerReason> {
        let wrong = |why: String| reason("file.edit", why);
        let text = std::str::from_utf8(bytes).map_err(|_| wrong("the file is not text".into()))?;
        let count = text.matches(self.old).count();
        match count {
            0 => return Err(wrong("`old` is not in the file: read it again".into())),
            1 => {}
            _ if self.all => {}
            _ => {
                let why = "give more of the text around it, or set `all`";
                return Err(wrong(format!("`old` is in the file {count} times: {why}")));
            }
        }
        // WHY before it is made: a short `old` that is everywhere makes a file of any size.
        let most = usize::try_from(TARGET_BYTES_MAX).unwrap_or(usize::MAX);
        let more = count.saturating_mul(self.new.len().saturating_sub(self.old.len()));
        if bytes.len().saturating_add(more) > most {
            return Err(wrong(format!("the file would have more than {most} bytes")));
        }
        Ok(text.replace(self.old, self.new).into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(text: &str, old: &str, new: &str, all: bool) -> Result<String, String> {
        let args = Json::object([
            ("old", Json::from(old)),
            ("new", Json::from(new)),
            ("all", Json::from(all)),
        ]);
        let edit = Edit::of(&args).map_err(|reason| reason.message)?;
        let bytes = edit.applied(text.as_bytes()).map_err(|reason| reason.message)?;
        Ok(String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn a_text_that_is_there_once_is_replaced() {
        assert_eq!(edited("a - b\n", "-", "+", false).unwrap(), "a + b\n");
        assert_eq!(edited("a - b - c", "- b", "", false).unwrap(), "a  - c");
        assert_eq!(edited("ä\r\nö", "\r\n", "\n", false).unwrap(), "ä\nö");
    }

    #[test]
    fn a_text_that_is_there_more_often_is_replaced_only_by_demand() {
        assert!(edited("a - b - c", "-", "+", false).unwrap_err().contains("2 times"));
        assert_eq!(edited("a - b - c", "-", "+", true).unwrap(), "a + b + c");
    }

    #[test]
    fn an_edit_that_means_nothing_is_refused() {
        assert!(edited("abc", "x", "y", true).unwrap_err().contains("not in the file"));
        assert!(edited("abc", "", "y", false).unwrap_err().contains("empty"));
        assert!(edited("abc", "a", "a", false).unwrap_err().contains("the same"));
        let args = Json::object([("old", Json::from("a")), ("new", Json::from("b"))]);
        let binary = Edit::of(&args).unwrap().applied(b"a\xff").unwrap_err();
        assert!(binary.message.contains("not text"));
    }

    #[test]
    fn an_edit_makes_no_file_over_the_limit() {
        let (text, new) = ("a".repeat(5000), "b".repeat(1000));
        assert!(edited(&text, "a", &new, true).unwrap_err().contains("more than"));
        assert!(edited(&text, "a", "bb", true).is_ok());
    }
}
