//! Command lines of ours: those in blocks of code parse as they stand, those in sentences name what exists.

use clap::Command;
use regex::Regex;

use crate::document::{Document, documents};

/// The program of this name.
fn program(name: &str) -> Command {
    let mut programs = wicketgate::cli::programs();
    programs.iter_mut().for_each(Command::build);
    let found = programs.into_iter().find(|program| program.get_name() == name);
    found.unwrap_or_else(|| panic!("no program `{name}`"))
}

/// Stands for what only the shell knows: `$RUN`, `$(…)`.
const VALUE: &str = "$";

/// The commands of a shell's line, each as words. Redirections, comments and variables set for one command are left out.
fn split(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut within = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = line.chars().peekable();
    while let Some(c) = letters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('"'), '\\') | (None, '\\') => {
                word.get_or_insert_default().extend(letters.next());
            }
            (Some('"') | None, '$') if letters.peek() == Some(&'(') => {
                letters.next();
                within.extend(split(&parenthesised(&mut letters)));
                word.get_or_insert_default().push_str(VALUE);
            }
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                word.get_or_insert_default();
                quote = Some(c);
            }
            (None, '#') if word.is_none() => break,
            (None, '|' | ';' | '&' | '(' | ')') => {
                commands.last_mut().unwrap().extend(word.take());
                commands.push(Vec::new());
            }
            (None, c) if c.is_whitespace() => commands.last_mut().unwrap().extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    commands.last_mut().unwrap().extend(word.take());
    commands.extend(within);
    commands.into_iter().map(bare).filter(|words| !words.is_empty()).collect()
}

/// The text up to the parenthesis that closes the one that was read.
fn parenthesised(letters: &mut impl Iterator<Item = char>) -> String {
    let mut depth = 1;
    let until_closed = letters.take_while(|c| {
        depth += i32::from(*c == '(') - i32::from(*c == ')');
        depth > 0
    });
    until_closed.collect()
}

/// A command without what the shell does for it.
fn bare(words: Vec<String>) -> Vec<String> {
    let redirection = Regex::new(r"^[0-9]*(<|>|>>)").unwrap();
    let setting = Regex::new(r"^[A-Z_][A-Z0-9_]*=").unwrap();
    let mut bare: Vec<String> = Vec::new();
    let mut skip = false;
    for word in words {
        if std::mem::take(&mut skip) || (bare.is_empty() && setting.is_match(&word)) {
            continue;
        }
        if redirection.is_match(&word) {
            skip = word.ends_with(['<', '>']);
        } else if !(bare.is_empty()
            && ["until", "while", "if", "do", "then", "!", "exec"].contains(&&*word))
        {
            bare.push(word);
        }
    }
    bare
}

/// Of a shell's line, the commands of ours: the program and its arguments.
fn ours(line: &str) -> Vec<(&'static str, Vec<String>)> {
    let mut found = Vec::new();
    for words in split(line) {
        match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["wicketgate-verify", ..] => found.push(("wicketgate-verify", words[1..].to_vec())),
            ["wicketgate", ..] => found.push(("wicketgate", words[1..].to_vec())),
            ["cargo", "run", "--", ..] => found.push(("wicketgate", words[3..].to_vec())),
            _ => {}
        }
    }
    found
}

/// Lines of a document's blocks in which commands stand: all of a shell's, and in what was printed those after `$ `.
fn lines(document: &Document) -> Vec<String> {
    let mut lines = Vec::new();
    for block in document.blocks() {
        let whole = block.text.replace("\\\n", " ");
        let shell = ["sh", "console", ""].contains(&block.language.as_str());
        for line in whole.lines() {
            match line.trim_start().strip_prefix("$ ") {
                Some(command) => lines.push(command.to_owned()),
                None if shell => lines.push(line.to_owned()),
                None => {}
            }
        }
    }
    lines
}

/// Values that stand for one that is not written out.
const STANDING: [&str; 2] = [
    "00000000-0000-0000-0000-000000000000",
    "sha256:0000000000000000000000000000000000000000000000000000000000000000",
];

/// Why the program does not take these arguments.
fn refused(name: &str, args: &[String]) -> Option<String> {
    if args.iter().any(|word| word == "…") {
        // It is cut short.
        return unknown(name, args).into_iter().next();
    }
    let open = Regex::new(r"\$|…|^(sha256:)?(RUN|DIGEST)$").unwrap();
    let mut why = None;
    for value in STANDING {
        // A list of the shell stands for any number of words.
        let args = args.iter().filter(|word| !word.ends_with("[@]}"));
        let args = args.map(|word| if open.is_match(word) { value } else { word });
        let words = std::iter::once(name).chain(args);
        let parsed = program(name).try_get_matches_from(words);
        match parsed.err().filter(clap::Error::use_stderr) {
            None => return None,
            Some(error) => why = error.to_string().lines().next().map(str::to_owned),
        }
    }
    why
}

/// What a command in a sentence has that the program does not know. It may be cut short.
fn unknown(name: &str, args: &[String]) -> Vec<String> {
    let mut command = program(name);
    let mut wrong = Vec::new();
    // What follows `--` is another program's.
    for (n, word) in args.iter().take_while(|word| *word != "--").enumerate() {
        let flag = word.split('=').next().unwrap();
        if let Some(next) = command.find_subcommand(word).cloned() {
            command = next;
        } else if n == 0 && !word.starts_with('-') && command.has_subcommands() {
            wrong.push(format!("`{word}` is no command"));
            break;
        } else if flag.starts_with('-') && !knows(&command, flag) {
            wrong.push(format!("`{}` has no `{flag}`", command.get_name()));
        }
    }
    wrong
}

fn knows(command: &Command, flag: &str) -> bool {
    command.get_arguments().any(|arg| match flag.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => arg.get_short() == flag.chars().nth(1),
    })
}

#[test]
fn every_command_in_a_block_parses() {
    let (mut count, mut wrong) = (0, Vec::new());
    for document in documents() {
        for line in lines(&document) {
            for (name, args) in ours(&line) {
                count += 1;
                let why = refused(name, &args);
                wrong.extend(why.map(|why| format!("{}: {line}: {why}", document.path)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 150, "{count} commands were found");
}

#[test]
fn every_command_in_a_sentence_is_one_the_program_knows() {
    let span = Regex::new(r"`((?:wicketgate|wicketgate-verify|cargo run --) [^`]+)`").unwrap();
    let (mut count, mut wrong) = (0, Vec::new());
    for document in documents().iter().filter(|document| document.path != "CHANGELOG.md") {
        for found in span.captures_iter(&document.prose()) {
            for (name, args) in ours(&found[1]) {
                count += 1;
                let why = unknown(name, &args).into_iter();
                wrong.extend(why.map(|why| format!("{}: {}: {why}", document.path, &found[1])));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 50, "{count} commands were found");
}

#[test]
fn every_example_of_the_help_parses() {
    let (mut count, mut wrong) = (0, Vec::new());
    let mut open = vec![program("wicketgate"), program("wicketgate-verify")];
    while let Some(command) = open.pop() {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let help = help.replace("\\\n", " ");
        for line in help.lines().filter(|line| line.starts_with("  ")) {
            for (name, args) in ours(line) {
                count += 1;
                wrong.extend(refused(name, &args).map(|why| format!("{line}: {why}")));
            }
        }
        open.extend(command.get_subcommands().cloned());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 40, "{count} examples were found");
}

#[test]
fn a_command_that_is_wrong_is_found() {
    let words = |line: &str| ours(line).pop().unwrap();
    let strict = |line: &str| refused(words(line).0, &words(line).1);
    assert_eq!(strict("wicketgate policy check policy # a comment"), None);
    assert_eq!(strict("A=b wicketgate evidence guide > VERIFY.md"), None);
    assert_eq!(strict("wicketgate approval show $RUN $(cat call) --token-file x"), None);
    assert_eq!(words("A=$(wicketgate policy check b)").1, ["policy", "check", "b"]);
    assert!(strict("wicketgate policy check").unwrap().contains("required arguments"));
    assert!(strict("ls && wicketgate serve --no-such-flag x").is_some());
    let loose = |line: &str| unknown(words(line).0, &words(line).1);
    assert_eq!(loose("wicketgate policy sign --key"), Vec::<String>::new());
    assert_eq!(loose("cargo run -- quickstart --no-such-flag").len(), 1);
    assert_eq!(loose("wicketgate no-such-command").len(), 1);
    assert_eq!(loose("wicketgate serve mcp wrap -- node --of-another"), Vec::<String>::new());
    assert_eq!(
        split("a 'b c' \"d\\\"e\" | f > g; h"),
        [
            vec!["a".to_owned(), "b c".to_owned(), "d\"e".to_owned()],
            vec!["f".to_owned()],
            vec!["h".to_owned()],
        ]
    );
}
