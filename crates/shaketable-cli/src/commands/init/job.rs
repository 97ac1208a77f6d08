//! A job for GitHub Actions.

use crate::commands::new::files::Plan;
use crate::commands::new::source::{Source, relative};
use std::path::Path;

/// Where it is written, from the root of the workspace.
pub(super) const PATH: &str = ".github/workflows/simulation.yml";

/// The job for a crate: its tests, and as many seeds as ten minutes allow, other ones for every
/// commit.
pub(super) fn text(plan: &Plan, root: &Path) -> String {
    let install = match &plan.source {
        Source::Address(address) => {
            format!("      - run: cargo install --locked --git {address} shaketable-cli\n")
        }
        Source::Clone(clone) => {
            include_str!("clone.yml.template").replace("{{clone}}", &relative(root, clone))
        }
    };
    let test_file = plan.folder.join(format!("tests/{}.toml", plan.library()));
    include_str!("job.yml.template")
        .replace("{{install}}\n", &install)
        .replace("{{name}}", &plan.name)
        .replace("{{test-file}}", &relative(root, &test_file))
}
