//! Turns the command line into its reference page, `docs/cli.md`.

use std::fmt::Write;

use clap::{Arg, ArgAction, Command, CommandFactory};

const INTRODUCTION: &str = "\
# Command line

`kross` is one program: the controller, and the commands below. Linked or copied as `kubectl-kross` into a folder of `PATH`, it is
also a plugin of kubectl: `kubectl kross why shop/web`.

Commands that read clusters do so with the caller's own rights and accept kubectl's [connection flags](#connection-flags).
Objects in remote clusters are read with the kubeconfig Secret of the cluster, if the caller may read it; if not, the command
says so and shows what the hub knows. No command prints a credential.

Exit codes: 0 for yes or done, 1 for no (not ready, invalid, differs), 2 if that could not be found out. Data goes to standard
output, everything else to standard error. Output is coloured and wrapped only on a terminal; `NO_COLOR` turns colours off.
";

/// The heading of the flags that all commands with a cluster share.
const CONNECTION: &str = "Connection";

/// The page.
pub(crate) fn reference_markdown() -> String {
    let mut command = super::Arguments::command();
    command.build();
    let mut page = INTRODUCTION.to_owned();
    let commands = || command.get_subcommands().filter(|command| command.get_name() != "help");
    // Writing to a string cannot fail.
    page.push_str("\n| command | |\n|---|---|\n");
    for command in commands() {
        let name = command.get_name();
        let _ = writeln!(page, "| [`kross {name}`](#kross-{name}) | {} |", about(command));
    }
    let mut shared = None;
    for command in commands() {
        section(command, "kross", &mut page);
        shared = shared.or_else(|| {
            let flags: Vec<&Arg> = command.get_arguments().filter(|flag| is_connection(flag)).collect();
            (!flags.is_empty()).then_some(flags)
        });
    }
    if let Some(flags) = shared {
        page.push_str("\n## Connection flags\n\nThose of kubectl, with the same meaning.\n");
        table("flag", flags.into_iter(), &mut page);
    }
    page
}

/// The section of a command of this parent, and after it those of its subcommands.
fn section(command: &Command, parent: &str, page: &mut String) {
    let name = format!("{parent} {}", command.get_name());
    let _ = writeln!(page, "\n## {name}\n\n{}.", about(command));
    if let Some(examples) = command.get_after_help() {
        let examples = examples.to_string();
        let lines = examples.trim_start_matches("Examples:\n").lines();
        let lines: Vec<&str> = lines.map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
        let _ = writeln!(page, "\n```sh\n{}\n```", lines.join("\n"));
    }
    let own = || command.get_arguments().filter(|flag| !is_connection(flag) && flag.get_id() != "help");
    table("argument", own().filter(|argument| argument.is_positional()), page);
    table("flag", own().filter(|argument| !argument.is_positional() && !argument.is_hide_set()), page);
    if command.get_arguments().any(is_connection) {
        page.push_str("\nAccepts the [connection flags](#connection-flags).\n");
    }
    for subcommand in command.get_subcommands().filter(|subcommand| subcommand.get_name() != "help") {
        section(subcommand, &name, page);
    }
}

fn table<'a>(title: &str, arguments: impl Iterator<Item = &'a Arg>, page: &mut String) {
    for (number, argument) in arguments.enumerate() {
        if number == 0 {
            let _ = writeln!(page, "\n| {title} | |\n|---|---|");
        }
        let _ = writeln!(page, "| {} | {} |", spelling(argument), described(argument));
    }
}

/// `-n`, `--namespace NAME`.
fn spelling(argument: &Arg) -> String {
    let values = argument.get_value_names().unwrap_or_default();
    let value = values.first().map(ToString::to_string).unwrap_or_default();
    if argument.is_positional() {
        return format!("`{value}`");
    }
    let takes_value = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    let value = if takes_value && !value.is_empty() { format!(" {value}") } else { String::new() };
    let short = argument.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    format!("{short}`--{}{value}`", argument.get_long().unwrap_or_default())
}

fn described(argument: &Arg) -> String {
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default().replace('|', "\\|");
    let values = argument.get_possible_values();
    let values: Vec<String> = values
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    let is_choice = argument.get_action().takes_values() && !values.is_empty();
    let choice = if is_choice { format!(": {}", values.join(", ")) } else { String::new() };
    let defaults: Vec<String> =
        argument.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    let default = match defaults.is_empty() || !argument.get_action().takes_values() {
        true => String::new(),
        false => format!(" (default {})", defaults.join(", ")),
    };
    format!("{help}{choice}{default}")
}

fn is_connection(argument: &Arg) -> bool {
    argument.get_help_heading() == Some(CONNECTION)
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default().replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_command_and_the_connection_flags_once() {
        let page = reference_markdown();
        for command in super::super::Arguments::command().get_subcommands() {
            assert!(page.contains(&format!("\n## kross {}\n", command.get_name())), "{}", command.get_name());
        }
        assert_eq!(page.matches("`--as-group GROUP`").count(), 1);
    }
}
