//! Checks the commands in the documentation and in the help: the program accepts each of them.

use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Command, CommandFactory};

use super::Arguments;
use super::controller;

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The pages that people write; generated ones repeat the help.
fn pages() -> Vec<PathBuf> {
    let root = repository();
    let mut pages: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "examples/README.md"].map(|page| root.join(page)).into();
    pages.extend(markdown_of(&root.join("docs")));
    pages.extend(markdown_of(&root.join("docs/scenarios")));
    assert!(pages.len() > 20, "{pages:?}");
    pages
}

fn markdown_of(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// The lines of shell blocks, and the inline code, of a page.
fn code(text: &str) -> Vec<String> {
    let (mut found, mut block) = (Vec::new(), None);
    let mut continued = String::new();
    for line in text.lines() {
        match (line.trim_start().strip_prefix("```"), block) {
            (Some(language), None) => block = Some(language.trim()),
            (Some(_), Some(_)) => block = None,
            (None, Some("sh" | "bash")) => match line.strip_suffix('\\') {
                Some(start) => continued.push_str(start),
                None => found.push(std::mem::take(&mut continued) + line),
            },
            (None, Some(_)) => {}
            (None, None) => found.extend(line.split('`').skip(1).step_by(2).map(str::to_owned)),
        }
    }
    found
}

/// The simple commands of a line, as words. Enough of the shell for documentation: quotes, comments, pipes, substitutions.
fn commands(line: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words) = (Vec::new(), Vec::new());
    let (mut word, mut quote) = (String::new(), None);
    for character in line.chars() {
        match (character, quote) {
            ('\'' | '"', None) => quote = Some(character),
            (end, Some(open)) if end == open => quote = None,
            (other, Some(_)) => word.push(other),
            ('#', None) if word.is_empty() => break,
            (' ', None) => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            ('|' | ';' | '&' | '(' | ')', None) => {
                words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
                commands.push(std::mem::take(&mut words));
            }
            (other, None) => word.push(other),
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    commands.push(words);
    for words in &mut commands {
        if let Some(at) = words.iter().position(|word| word.starts_with('>') || word.starts_with('<')) {
            words.truncate(at);
        }
        // `kubectl kross why` is `kross why`.
        if words.first().is_some_and(|word| word == "kubectl")
            && words.get(1).is_some_and(|word| word == "kross")
        {
            words.remove(0);
        }
    }
    commands.into_iter().filter(|words| words.first().is_some_and(|word| word == "kross")).collect()
}

/// Why the program does not accept a command; none if it does, or if only something is left out.
fn refusal(words: &[String]) -> Option<String> {
    let words: Vec<&str> =
        words.iter().map(String::as_str).filter(|word| *word != "…" && *word != "...").collect();
    if let ["kross", "controller", flags @ ..] = words.as_slice() {
        return controller::check_flags(flags.iter().map(ToString::to_string)).err();
    }
    let error = Arguments::command().try_get_matches_from(&words).err()?;
    let is_fine = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            | ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
    );
    (!is_fine).then(|| error.to_string())
}

#[test]
fn the_program_accepts_every_command_in_the_documentation() {
    let (mut refused, mut count) = (Vec::new(), 0);
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for words in code(&text).iter().flat_map(|line| commands(line)) {
            count += 1;
            refused.extend(refusal(&words).map(|why| format!("{}: {words:?}: {why}", page.display())));
        }
    }
    assert!(count > 60, "only {count} commands were found");
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn the_program_accepts_every_example_in_its_help() {
    fn check(command: &Command, count: &mut usize) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for words in help.lines().flat_map(|line| commands(line.trim())) {
            *count += 1;
            assert_eq!(refusal(&words), None, "{words:?}");
        }
        command.get_subcommands().for_each(|subcommand| check(subcommand, count));
    }
    let mut count = 0;
    check(&Arguments::command(), &mut count);
    assert!(count > 40, "only {count} examples were found");
}

/// Flags of other programs that the documentation names.
const FOREIGN: &[&str] = &[
    "--server-side",
    "--create-namespace",
    "--take-ownership",
    "--force-conflicts",
    "--headless",
    "--dry-run",
    "--cascade",
    "--kubernetes",
    "--bundles",
    "--check",
    "--certificates",
    "--set",
    "--help",
    "--flag",
];

#[test]
fn every_flag_in_the_documentation_exists() {
    fn flags_of(command: &Command, known: &mut Vec<String>) {
        known.extend(command.get_arguments().filter_map(|it| it.get_long()).map(|long| format!("--{long}")));
        command.get_subcommands().for_each(|subcommand| flags_of(subcommand, known));
    }
    let mut known: Vec<String> = FOREIGN.iter().map(ToString::to_string).collect();
    flags_of(&Arguments::command(), &mut known);
    known.extend(controller::flag_names().map(|name| format!("--{name}")));
    let (mut unknown, mut count) = (Vec::new(), 0);
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for flag in code(&text).iter().filter(|code| code.starts_with("--")) {
            let name = flag.split(['=', ' ']).next().unwrap_or_default().trim_end_matches('*');
            count += 1;
            let is_known =
                known.iter().any(|known| known == name || name.ends_with('-') && known.starts_with(name));
            if !is_known {
                unknown.push(format!("{}: {flag}", page.display()));
            }
        }
    }
    assert!(count > 60, "only {count} flags were found");
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
}

/// The sources of the program without tests, as one text.
fn sources() -> String {
    let mut text = String::new();
    let mut folders = vec![repository().join("crates/kross/src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with("controller/flags.rs") && !path.ends_with("documentation.rs") {
                let source = std::fs::read_to_string(path).unwrap();
                text.push_str(source.split("#[cfg(test)]\nmod tests").next().unwrap());
            }
        }
    }
    text
}

/// Whether a field is read: `arguments.name`, or by name in a pattern such as `let Arguments { name, .. } = arguments`.
fn is_read(sources: &str, field: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
    let is_access = |at: usize| {
        let before = sources[..at].trim_end_matches(|it: char| it.is_whitespace());
        let owner =
            before.ends_with("arguments") || before.ends_with("self") || before.ends_with("connection");
        owner && ends(&sources[at + field.len() + 1..])
    };
    let accessed = sources.match_indices(&format!(".{field}")).any(|(at, _)| is_access(at));
    // A pattern is assigned to; the definition of a struct is not.
    let pattern = |text: &str| -> Option<String> {
        let (names, rest) = text.split_once('}')?;
        rest.trim_start_matches([')', ' ']).starts_with('=').then(|| names.to_owned())
    };
    let starts = ["Arguments {", "let Self {"].into_iter();
    let mut patterns = starts.flat_map(|start| sources.split(start).skip(1)).filter_map(pattern);
    accessed
        || patterns.any(|pattern| {
            pattern.split(',').any(|name| {
                name.trim() == field || name.trim().starts_with(&format!("{field}: ")) && !name.ends_with('_')
            })
        })
}

#[test]
fn every_flag_in_the_help_is_read() {
    fn check(command: &Command, sources: &str, unread: &mut Vec<String>, count: &mut usize) {
        for argument in
            command.get_arguments().filter(|it| !["help", "version"].contains(&it.get_id().as_str()))
        {
            *count += 1;
            if !is_read(sources, argument.get_id().as_str()) {
                unread.push(format!("{}: {}", command.get_name(), argument.get_id()));
            }
        }
        command.get_subcommands().for_each(|subcommand| check(subcommand, sources, unread, count));
    }
    let sources = sources();
    let (mut unread, mut count) = (Vec::new(), 0);
    check(&Arguments::command(), &sources, &mut unread, &mut count);
    for (name, help) in controller::flags() {
        count += 1;
        if help.contains("but ignored") {
            continue;
        }
        if !sources.contains(&format!("\"{name}\"")) && !sources.contains(&format!("--{name}")) {
            unread.push(format!("controller: {name}"));
        }
    }
    assert!(count > 150, "only {count} flags were found");
    assert!(unread.is_empty(), "not read: {unread:#?}");
    assert!(!is_read(&sources, "nothing_reads_this"));
}
