//! Replays what a real FoundationDB answered, through the C functions of this crate.
//!
//! `conformance/golden/recorded` holds scenarios with the answers of FoundationDB 7.4. Each test
//! here stands for one kind of scenario at one API version, and passes when every answer is the
//! same.
//!
//! A process can select its API version once, and its scenarios share one database. So the tests
//! play nothing themselves: each starts this program again, several times at once, with some of the
//! files to play in each.
//!
//! Scenarios with timeouts and watches say what must have happened after some milliseconds, and are
//! played on a virtual clock. All others only wait for answers: they are played on a network thread
//! and the machine's clock, where an answer may be late but not wrong.

mod library;
mod player;

use library::Library;
use libtest_mimic::{Arguments, Failed, Trial};
use player::{Player, Step};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

/// Set in the environment of a child: the API version to select. Its arguments are the files to
/// play.
const PLAY_AT_API_VERSION: &str = "SHAKETABLE_GOLDEN_API_VERSION";
/// Scenarios whose answers depend on how much time has passed.
const TIMED: [&str; 2] = ["defaults", "watches"];
/// How many differences of one file are shown.
const DIFFERENCES_SHOWN: usize = 3;

fn main() -> ExitCode {
    if let Ok(api_version) = std::env::var(PLAY_AT_API_VERSION) {
        let api_version = api_version.parse().expect("an API version");
        return play(api_version, std::env::args_os().skip(1).map(PathBuf::from));
    }
    let trials = groups()
        .into_iter()
        .map(|((kind, api_version), files)| {
            let name = format!("{kind}_at_api_version_{api_version}_answer_as_foundationdb_does");
            Trial::test(name, move || compare(&kind, api_version, &files))
        })
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// The recorded files by kind and API version. Their names are `kind-seed` or `kind@version-seed`.
fn groups() -> BTreeMap<(String, i32), Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/golden/recorded");
    let mut groups: BTreeMap<_, Vec<PathBuf>> = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("the recorded files are part of the repository") {
        let path = entry.expect("a readable folder").path();
        let name = path.file_stem().expect("a file").to_string_lossy();
        let (kind, _seed) = name.rsplit_once('-').expect("a name that ends in its seed");
        let (kind, api_version) = match kind.split_once('@') {
            Some((kind, version)) => (kind, version.parse().expect("an API version")),
            None => (kind, 740),
        };
        groups
            .entry((kind.to_string(), api_version))
            .or_default()
            .push(path.clone());
    }
    for files in groups.values_mut() {
        files.sort();
    }
    groups
}

/// Plays the files of one group in children, and fails with what they say.
fn compare(kind: &str, api_version: i32, files: &[PathBuf]) -> Result<(), Failed> {
    let files_per_child = match kind {
        // These wait for what must not come.
        "stamps" => 1,
        "misuse" => 5,
        _ => 20,
    };
    let start = |files: &[PathBuf]| -> Child {
        Command::new(std::env::current_exe().expect("a path to this program"))
            .env(PLAY_AT_API_VERSION, api_version.to_string())
            .args(files)
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started again")
    };
    let children: Vec<Child> = files.chunks(files_per_child).map(start).collect();
    let mut report = String::new();
    for child in children {
        let output = child.wait_with_output().expect("a child that ends");
        report += &String::from_utf8_lossy(&output.stdout);
        if !output.status.success() && output.stdout.is_empty() {
            report += &format!("a player ended with {}\n", output.status);
        }
    }
    if report.is_empty() {
        Ok(())
    } else {
        Err(report.into())
    }
}

/// Plays files in this process and prints the differences.
fn play(api_version: i32, files: impl Iterator<Item = PathBuf>) -> ExitCode {
    library::select_api_version(api_version);
    let network = OnceCell::new();
    let mut exit_code = ExitCode::SUCCESS;
    for file in files {
        let name = file.file_name().expect("a file").to_string_lossy();
        let text = fs::read_to_string(&file).expect("a recorded file");
        let differing = if TIMED.iter().any(|kind| name.starts_with(kind)) {
            differences(&Library::on_a_virtual_clock(api_version), &text)
        } else {
            differences(network.get_or_init(Library::on_the_machines_clock), &text)
        };
        if !differing.is_empty() {
            exit_code = ExitCode::FAILURE;
            println!(
                "{name}: {} of {} steps differ",
                differing.len(),
                text.lines().count()
            );
            let shown = differing.iter().take(DIFFERENCES_SHOWN);
            shown.for_each(|difference| print!("{difference}"));
        }
    }
    exit_code
}

/// Plays one file and returns where the answers differ.
fn differences(library: &Library, recorded: &str) -> Vec<String> {
    let mut player = Player::new(library);
    let mut differences = Vec::new();
    for (index, line) in recorded.lines().enumerate() {
        let step = Step(serde_json::from_str(line).expect("one JSON object per line"));
        let answer = player.play(&step);
        if answer != *step.answer() {
            differences.push(format!("  step {index}: {line}\n    here: {answer}\n"));
        }
    }
    differences
}
