//! The command line as a whole: it is consistent, and its help is as reviewed.

use super::*;
use clap::CommandFactory;

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn help_shows_examples_for_every_subcommand() {
    for subcommand in Cli::command().get_subcommands_mut() {
        if !subcommand.is_hide_set() {
            let help = subcommand.render_long_help().to_string();
            assert!(help.contains("Examples:\n"), "{}", subcommand.get_name());
        }
    }
}

#[test]
fn the_help_is_as_reviewed() {
    let mut cli = Cli::command().term_width(100);
    let mut help = cli.render_long_help().to_string();
    for subcommand in cli.get_subcommands_mut() {
        if !subcommand.is_hide_set() {
            let text = subcommand.clone().term_width(100).render_help();
            help.push_str(&format!("\n==== {} ====\n{text}", subcommand.get_name()));
        }
    }
    insta::assert_snapshot!(help);
}
