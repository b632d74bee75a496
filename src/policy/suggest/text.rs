//! What texts have in common: an enumeration, the hosts of addresses, the directory of paths, a length.

use std::collections::BTreeSet;

use super::runs::{PROSE, are_prose, begins_as_one, is_run};
use super::shape::{Lines, items, literal, round_up};
use crate::domain::json::Json;

/// Texts of one enumeration that need no words about it.
const WORDS_MAX: usize = 8;
/// Paths of one enumeration, where they have no directory in common.
const PATHS_MAX: usize = 16;
/// Bytes of a text that is compared as a whole; no path can be longer.
const WHOLE_BYTES_MAX: usize = 4096;

impl Lines {
    /// The conditions on texts of the argument `name`. Prose is bounded in length, and stays prose.
    /// A text that is run, resolved or parsed must equal a recorded one, or at most be in a
    /// recorded host or directory.
    pub(super) fn texts(&mut self, at: &str, name: &str, values: &[&Json]) {
        let texts: BTreeSet<&str> = values.iter().filter_map(|value| value.as_str()).collect();
        let all = |holds: &dyn Fn(&str) -> bool| texts.iter().all(|text| holds(text));
        if self.parsed && all(&|text| begins_as_one(text)) {
            self.note(&format!("{name}: any statement with the effect below"));
            return self.add(format!("is_string({at})"));
        }
        let addresses = all(&|text| text.contains("://"));
        let run = is_run(name);
        if !run && all(&|text| is_path(name, text)) {
            return self.paths(at, name, &texts, values);
        }
        if addresses && texts.len() > 1 {
            let origins: Option<BTreeSet<String>> = texts.iter().map(|text| origin(text)).collect();
            if let Some(origins) = origins.filter(|_| all(&is_word)) {
                self.note(&format!("{name}: the hosts of {} addresses", texts.len()));
                self.add(format!("is_string({at})"));
                return self.begins(at, &origins);
            }
        }
        let prose = !run && !self.runs && are_prose(&texts);
        if !prose {
            if texts.len() > WORDS_MAX {
                self.note(&format!("{name}: one of the {} texts that were seen", texts.len()));
            }
            return self.one_of(at, values);
        }
        let longest = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
        let most = round_up(u64::try_from(longest).unwrap_or(u64::MAX));
        self.note(&format!("{name}: words of up to {longest} characters, rounded up"));
        self.add(format!("is_string({at})"));
        self.add(format!("count({at}) <= {most}"));
        self.add(format!("regex.match({}, {at})", literal(&Json::from(PROSE))));
    }

    fn paths(&mut self, at: &str, name: &str, texts: &BTreeSet<&str>, values: &[&Json]) {
        let directory = common_directory(texts);
        let shared = !directory.is_empty() && directory != "/";
        // A path with `..` may leave the directory that its text begins with.
        let upwards = texts.iter().any(|text| goes_up(text));
        if texts.len() == 1 || upwards || (!shared && texts.len() <= PATHS_MAX) {
            return self.one_of(at, values);
        }
        if shared {
            self.note(&format!("{name}: the common directory of {} paths", texts.len()));
            self.add(format!("is_string({at})"));
            let prefix = literal(&Json::from(directory.as_str()));
            if texts.iter().any(|text| !text.starts_with(&directory)) {
                self.add(format!("startswith(concat(\"\", [{at}, \"/\"]), {prefix})"));
            } else {
                self.add(format!("startswith({at}, {prefix})"));
            }
        } else {
            let parents: Option<BTreeSet<String>> = texts.iter().map(|text| parent(text)).collect();
            let Some(parents) = parents else { return self.one_of(at, values) };
            self.note(&format!("{name}: the directories of {} paths", texts.len()));
            self.add(format!("is_string({at})"));
            self.begins(at, &parents);
        }
        if texts.iter().any(|text| text.contains("..")) {
            self.add(format!("not \"..\" in split(replace({at}, \"\\\\\", \"/\"), \"/\")"));
        } else {
            self.add(format!("not contains({at}, \"..\")"));
        }
    }

    fn begins(&mut self, at: &str, prefixes: &BTreeSet<String>) {
        let all: Vec<String> =
            prefixes.iter().map(|prefix| literal(&Json::from(prefix.as_str()))).collect();
        match all.as_slice() {
            [one] => self.add(format!("startswith({at}, {one})")),
            several => {
                self.add(format!("strings.any_prefix_match({at}, {{{}}})", items(several)));
            }
        }
    }
}

fn is_word(text: &str) -> bool {
    text.len() <= WHOLE_BYTES_MAX && !text.contains(char::is_whitespace)
}

/// `https://host:port/` of an address that has a path.
fn origin(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let (authority, _) = rest.split_once('/')?;
    let known = matches!(scheme, "http" | "https");
    let plain = |b: u8| b.is_ascii_alphanumeric() || b".-:[]".contains(&b);
    (known && !authority.is_empty() && authority.bytes().all(plain))
        .then(|| format!("{scheme}://{authority}/"))
}

fn is_path(name: &str, text: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let hinted = ["path", "file", "dir", "folder"].iter().any(|hint| name.contains(hint));
    let no_path = text.contains(char::is_control) || text.contains("://");
    !no_path
        && !text.is_empty()
        && text.len() <= WHOLE_BYTES_MAX
        && (hinted || (text.contains('/') && !text.contains(' ')))
}

/// Whether one of its names is `..`, whatever divides them.
fn goes_up(path: &str) -> bool {
    path.split(['/', '\\']).any(|name| name == "..")
}

/// The directory of a path, with its slash; `None` for a bare name and for a file in `/`.
fn parent(path: &str) -> Option<String> {
    let (directory, _) = path.rsplit_once('/')?;
    (!directory.is_empty()).then(|| format!("{directory}/"))
}

/// The directory that holds all of these, with its slash; empty without one.
fn common_directory(texts: &BTreeSet<&str>) -> String {
    let mut common: Option<Vec<&str>> = None;
    for text in texts {
        let parts: Vec<&str> = text.split('/').collect();
        common = Some(match common {
            None => parts,
            Some(before) => {
                before.into_iter().zip(parts).take_while(|(a, b)| a == b).map(|(a, _)| a).collect()
            }
        });
    }
    let common = common.unwrap_or_default();
    if common.is_empty() { String::new() } else { format!("{}/", common.join("/")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_common_directory_ends_where_a_name_does() {
        let of = |texts: &[&'static str]| common_directory(&texts.iter().copied().collect());
        assert_eq!(of(&["src/a.rs", "src/b/c.rs"]), "src/");
        assert_eq!(of(&["src/ab", "src/abc"]), "src/");
        assert_eq!(of(&["src", "src/a"]), "src/");
        assert_eq!(of(&["a", "b"]), "");
        assert_eq!(of(&["/etc/x", "/var/x"]), "/");
    }

    #[test]
    fn an_address_keeps_its_host_and_no_trick_around_it() {
        assert_eq!(origin("https://a.example/x").as_deref(), Some("https://a.example/"));
        for url in ["https://a.example", "https://a@b/x", "ftp://a/x", "//a/x", "https:///x"] {
            assert_eq!(origin(url), None, "{url}");
        }
    }
}
