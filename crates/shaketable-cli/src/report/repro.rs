//! The one line to paste that runs a seed again.

use crate::args::{BuildArgs, HostArgs, HostName, OnOff};
use shaketable_host::plan::{Liveness, Settings, StalledAfter};
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// How this program was called, and with what.
#[derive(Debug, Clone)]
pub struct Repro {
    /// The command that calls the program.
    pub program: String,
    /// What is the same for every seed.
    pub settings: Settings,
    /// How the library is built.
    pub build: BuildArgs,
    /// The files that are cases, with their own seeds.
    pub cases: Vec<PathBuf>,
    /// Where seeds are run.
    pub host: HostArgs,
}

impl Repro {
    /// The line that replays a case, which says itself what is the same for every seed.
    pub fn line_of_case(&self, case: &Path) -> String {
        let said = Repro {
            settings: Settings {
                stalled_after: self.settings.stalled_after,
                ..Settings::default()
            },
            cases: vec![case.to_owned()],
            ..self.clone()
        };
        said.line(case, 0)
    }

    /// The line that replays a seed.
    pub fn line(&self, file: &Path, seed: impl Display) -> String {
        let mut words = vec![
            self.program.clone(),
            "replay".to_owned(),
            quoted(&file.display().to_string()),
        ];
        if !self.cases.iter().any(|case| case == file) {
            words.push(format!("--seed {seed}"));
        }
        if self.host.host == Some(HostName::Fdbserver) {
            words.push("--host fdbserver".to_owned());
        }
        if let Some(path) = &self.host.fdbserver {
            words.push(format!(
                "--fdbserver {}",
                quoted(&path.display().to_string())
            ));
        }
        if let Some(path) = &self.host.fdb_library {
            words.push(format!(
                "--fdb-library {}",
                quoted(&path.display().to_string())
            ));
        }
        words.extend(self.setting_words());
        let build = &self.build;
        if let Some(package) = &build.package {
            words.push(format!("-p {}", quoted(package)));
        }
        if let Some(example) = &build.example {
            words.push(format!("--example {}", quoted(example)));
        }
        for features in &build.features {
            words.push(format!("--features {}", quoted(features)));
        }
        if !build.profile.is_empty() && build.profile != "release" {
            words.push(format!("--profile {}", quoted(&build.profile)));
        }
        if let Some(manifest) = &build.manifest_path {
            words.push(format!(
                "--manifest-path {}",
                quoted(&manifest.display().to_string())
            ));
        }
        if build.no_build {
            words.push("--no-build".to_owned());
        }
        words.join(" ")
    }

    /// The options that set what is the same for every seed.
    pub fn setting_words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let settings = &self.settings;
        if let Some(on) = settings.swarm {
            words.push(format!("--swarm {}", OnOff::text(on)));
        }
        if let Some(on) = settings.buggify {
            words.push(format!("--buggify {}", OnOff::text(on)));
        }
        if let Some(on) = settings.fault_injection {
            words.push(format!("--fault-injection {}", OnOff::text(on)));
        }
        match settings.stress {
            Some(true) => words.push("--stress".to_owned()),
            Some(false) => words.push("--stress=off".to_owned()),
            None => {}
        }
        for (name, value) in &settings.knobs {
            words.push(format!("--knob {}", quoted(&format!("{name}={value}"))));
        }
        if let Some(clients) = settings.clients {
            words.push(format!("--clients {clients}"));
        }
        match settings.stalled_after {
            usual if usual == StalledAfter::default() => {}
            StalledAfter::Seconds(seconds) => words.push(format!("--stalled-after {seconds}s")),
            StalledAfter::Never => words.push("--stalled-after off".to_owned()),
        }
        match settings.liveness {
            None => {}
            Some(Liveness::Off) => words.push("--liveness=off".to_owned()),
            Some(Liveness::Seconds(Liveness::SECONDS_USUAL)) => words.push("--liveness".to_owned()),
            Some(Liveness::Seconds(seconds)) => words.push(format!("--liveness={seconds}s")),
        }
        words
    }
}

/// The command with which the user called this program.
pub fn program_words() -> String {
    let name = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&name)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    if name.starts_with("cargo-") {
        "cargo shaketable".to_owned()
    } else if std::env::var_os("CARGO_PKG_NAME").is_some() {
        // `cargo run` sets this for the program it runs.
        let release = if cfg!(debug_assertions) {
            ""
        } else {
            "--release "
        };
        format!("cargo run {release}--")
    } else {
        "shaketable".to_owned()
    }
}

/// A word as a shell reads it back.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=+,:@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_repeats_everything_that_decides_about_a_run() {
        let repro = Repro {
            program: "cargo shaketable".into(),
            cases: Vec::new(),
            host: HostArgs::default(),
            settings: Settings {
                swarm: Some(false),
                buggify: Some(true),
                fault_injection: Some(false),
                stress: Some(true),
                knobs: vec![("default_backoff".into(), "0.5".into())],
                clients: Some(3),
                coverage: false,
                measure: false,
                moments: false,
                stalled_after: StalledAfter::Never,
                liveness: Some(Liveness::Seconds(60)),
            },
            build: BuildArgs {
                package: Some("my-workloads".into()),
                profile: "dev".into(),
                ..BuildArgs::default()
            },
        };
        assert_eq!(
            repro.line(Path::new("my tests/a.toml"), 7),
            "cargo shaketable replay 'my tests/a.toml' --seed 7 --swarm off --buggify on --fault-injection off --stress \
             --knob default_backoff=0.5 --clients 3 --stalled-after off --liveness=60s -p my-workloads --profile dev"
        );
    }
}
