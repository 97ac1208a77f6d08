//! What a real fdbserver 7.4.7 did with the workloads of the library `probe`, and with wrong files,
//! is played again by a stand-in and must be read as what it was.
//!
//! Each folder of `recorded/` holds one run: what it printed, its exit status, and of its trace the
//! events that are read here, at most a few of each type. The stand-in is a script that is started
//! just like a server: it prints, writes a trace, and ends in the same way.

use shaketable_fdbserver::{Find, Keep, Request, Server, test_file::Prepared};
use shaketable_host::plan::Settings;
use shaketable_host::trace::Format;
use shaketable_host::verdict::Outcome;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// A folder with a program that is taken for fdbserver.
struct StandIn {
    folder: TempDir,
    server: Server,
}

impl StandIn {
    /// A stand-in that does this when it is asked to simulate.
    fn new(simulate: &str) -> StandIn {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("fdbserver");
        let script = format!(
            "#!/bin/sh\n\
             if [ \"$1\" = --version ]; then\n\
             echo 'FoundationDB 7.4 (v7.4.7)'; echo 'source version abcdef12'; exit\n\
             fi\n\
             {simulate}\n"
        );
        install(&script, &program);
        std::fs::write(folder.path().join("libfdb_c.so"), "abcdef12").unwrap();
        let find = Find {
            program: Some(program),
            client_library: None,
        };
        let server = Server::find(&find).unwrap();
        StandIn { folder, server }
    }

    fn run(&self, keep: Keep, limit: Duration) -> Outcome {
        self.run_prepared(&prepared(), keep, limit)
    }

    fn run_prepared(&self, prepared: &Prepared, keep: Keep, limit: Duration) -> Outcome {
        let request = Request {
            prepared,
            settings: &Settings::default(),
            seed: 7,
            limit,
            keep,
            format: Format::Json,
        };
        self.server.run(&request, &|| false).unwrap().0
    }
}

/// Writes a program. Another process does it: a test that starts a process meanwhile would inherit
/// the open file, and what is open for writing cannot be started.
fn install(script: &str, program: &Path) {
    let text = program.with_extension("sh");
    std::fs::write(&text, script).unwrap();
    let installed = Command::new("install")
        .args(["-m", "755"])
        .arg(&text)
        .arg(program)
        .status();
    assert!(installed.unwrap().success());
}

fn prepared() -> Prepared {
    Prepared {
        text: "[[test]]\n".to_owned(),
        libraries: BTreeMap::new(),
        buggify: None,
        fault_injection: None,
        workload: "Probe".to_owned(),
    }
}

const LONG: Duration = Duration::from_secs(60);

fn recordings() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders
}

/// A stand-in that plays a recording.
fn player(recording: &Path) -> StandIn {
    let status = std::fs::read_to_string(recording.join("status")).unwrap();
    let end = match status.trim() {
        // What `timeout` reports of a server that hangs.
        "124" => "exec sleep 600".to_owned(),
        "139" => "kill -SEGV $$".to_owned(),
        status => format!("exit {status}"),
    };
    let recording = recording.display();
    StandIn::new(&format!(
        "cp '{recording}/trace.json' traces/trace.0.0.0.0.1.1.abcdef.0.1.json\n\
         [ -f '{recording}/stdout' ] && cat '{recording}/stdout'\n\
         [ -f '{recording}/stderr' ] && cat '{recording}/stderr' >&2\n\
         {end}"
    ))
}

#[test]
fn every_recorded_run_is_read_as_what_it_was() {
    let mut told = String::new();
    for recording in recordings() {
        let name = recording.file_name().unwrap().to_string_lossy();
        let limit = match &*name {
            "BadToml" => Duration::from_secs(1),
            _ => LONG,
        };
        let outcome = player(&recording).run(Keep::Nothing, limit);
        let Outcome {
            tests_passed,
            tests_failed,
            error_events,
            unseed,
            ..
        } = outcome;
        writeln!(
            told,
            "{name}: {tests_passed} passed, {tests_failed} failed, {error_events} errors, unseed {unseed}, {:.3} s",
            outcome.simulated_seconds
        )
        .unwrap();
        // The same on every client.
        let mut seen = std::collections::BTreeSet::new();
        for failure in &outcome.failures {
            if seen.insert(failure.signature()) {
                writeln!(told, "  {failure}").unwrap();
            }
        }
        for line in &outcome.stack {
            writeln!(told, "  at {}", line.chars().take(60).collect::<String>()).unwrap();
        }
    }
    // The stand-in lies in another folder each time.
    let told = told
        .lines()
        .map(|line| match line.split_once("addr2line -e ") {
            Some((before, _)) => format!("{before}addr2line -e …"),
            None => line.to_owned(),
        });
    insta::assert_snapshot!(told.collect::<Vec<String>>().join("\n"));
}

#[test]
fn assertions_faults_and_metrics_are_read() {
    let walk = recordings().into_iter().find(|path| path.ends_with("Walk"));
    let outcome = player(&walk.unwrap()).run(Keep::Nothing, LONG);
    assert!(outcome.passed());
    insta::assert_debug_snapshot!((
        outcome.drawn.clients,
        &outcome.assertions,
        &outcome.faults,
        &outcome.metrics
    ));
}

#[test]
fn a_trace_is_kept_when_it_is_wanted() {
    let stand_in = StandIn::new(
        "echo '{  \"Type\": \"One\" }' > traces/trace.0.0.0.0.1.1.abcdef.0.1.json\n\
         echo '{  \"Type\": \"Two\" }' > traces/trace.0.0.0.0.1.1.abcdef.0.2.json\n\
         printf '{  \"Type\": \"cut o' >> traces/trace.0.0.0.0.1.1.abcdef.0.2.json\n\
         echo '1 tests passed; 0 tests failed.'",
    );
    let path = stand_in.folder.path().join("kept/trace.json");
    assert!(stand_in.run(Keep::IfFailed(path.clone()), LONG).passed());
    assert!(!path.exists());
    let outcome = stand_in.run(Keep::Always(path.clone()), LONG);
    assert_eq!(outcome.trace, Some(path.display().to_string()));
    let kept = std::fs::read_to_string(&path).unwrap();
    assert_eq!(
        kept.lines().collect::<Vec<&str>>(),
        [
            "{  \"Type\": \"One\" }",
            "{  \"Type\": \"Two\" }",
            "{  \"Type\": \"cut o"
        ]
    );
}

/// A server that writes XML, rolls its trace once, and is killed in the middle of a line.
const ROLLED_XML: &str = r#"
[ "$(echo "$*" | grep -c -- '--trace-format xml')" = 1 ] || exit 3
first=traces/trace.0.0.0.0.1.1.abcdef.0.9.xml
second=traces/trace.0.0.0.0.1.1.abcdef.1.10.xml
line() { echo "$2" >> $1; }
for file in $first $second; do printf '<?xml version="1.0"?>\r\n<Trace>\r\n' > $file; done
line $first '<Event Severity="10" Time="1.0" Type="TestRunning" Machine="0.0.0.0:0" TesterCount="4"/>'
printf '</Trace>\r\n' >> $first
line $second '<Event Severity="40" Time="5.0" Type="WorkloadPhaseFailed" Machine="3.4.3.1:1" Phase="check" Client="1" Error="3 &lt; 4" Roles="TS"/>'
printf '<Event Severity="40" Time="6.0" Type="WorkloadPhaseFailed" Machine="3.4' >> $second
echo '0 tests passed; 1 tests failed.'
exit 1
"#;

#[test]
fn a_rolled_trace_of_xml_is_read_and_kept_as_one_that_can_be_read() {
    let stand_in = StandIn::new(ROLLED_XML);
    let path = stand_in.folder.path().join("trace.xml");
    let prepared = prepared();
    let request = Request {
        prepared: &prepared,
        settings: &Settings::default(),
        seed: 7,
        limit: LONG,
        keep: Keep::IfFailed(path.clone()),
        format: Format::Xml,
    };
    let outcome = stand_in.server.run(&request, &|| false).unwrap().0;
    assert_eq!(outcome.drawn.clients, 4);
    let failures: Vec<String> = outcome.failures.iter().map(ToString::to_string).collect();
    assert_eq!(
        failures,
        ["check failed in check of Probe, client 1, at 5.000 s: 3 < 4"]
    );
    let kept = std::fs::read_to_string(&path).unwrap();
    assert_eq!(kept.matches("<Event ").count(), 2);
    assert_eq!(kept.matches("<Trace>").count(), 1);
    let mut reader = quick_xml::Reader::from_str(&kept);
    while reader.read_event().unwrap() != quick_xml::events::Event::Eof {}
}

#[test]
fn every_end_has_a_reason() {
    let told = |simulate: &str, limit| {
        let outcome = StandIn::new(simulate).run(Keep::Nothing, limit);
        let failures: Vec<String> = outcome.failures.iter().map(ToString::to_string).collect();
        failures.join("\n")
    };
    insta::assert_snapshot!(told("kill -KILL $$", LONG), @"simulator fault in boot, at 0.000 s: fdbserver was killed from outside (signal 9), most likely by the kernel for want of memory: a run needs up to 600 MB, so try fewer --jobs");
    insta::assert_snapshot!(told("exec sleep 600", Duration::from_secs(1)), @"hung in boot, at 0.000 s: fdbserver did not end within 1 s of real time and was killed at 0.0 simulated seconds; --hang-limit sets the limit");
    insta::assert_snapshot!(told("echo 'ERROR: unknown option' >&2; exit 1", LONG), @"simulator fault in boot, at 0.000 s: fdbserver ended with status 1 and without a result: ERROR: unknown option");
    insta::assert_snapshot!(told("exit 0", LONG), @"simulator fault in boot, at 0.000 s: fdbserver ended with status 0 and without a result");
    insta::assert_snapshot!(told("echo '2 test clients passed; 1 test clients failed'; echo '0 tests passed; 1 tests failed.'", LONG), @"check failed in check of Probe, at 0.000 s: the workload answered false on 1 of 3 clients");
}

#[test]
fn a_server_without_room_on_the_disk_is_not_waited_for() {
    // What fdbserver does for ever when it cannot write its trace.
    let complaint = "Unexpected error [28] when flushing trace log.";
    let simulate = format!("while true; do echo '{complaint}' >&2; sleep 0.1; done");
    let outcome = StandIn::new(&simulate).run(Keep::Nothing, LONG);
    let told = outcome.failures.first().unwrap().to_string();
    let folder = std::env::temp_dir().display().to_string();
    insta::assert_snapshot!(told.replace(&folder, "DIR"), @"simulator fault in boot, at 0.000 s: fdbserver found no room on the disk of DIR: make room, name another folder with TMPDIR, or try fewer --jobs");
}

#[test]
fn the_loaders_own_reason_is_told() {
    let stand_in = StandIn::new(
        "echo '{  \"Severity\": \"40\", \"Type\": \"ExternalWorkloadLoadError\", \"Roles\": \"TS\" }' > traces/trace.0.0.0.0.1.1.abcdef.0.1.json\n\
         exit 1",
    );
    let library = stand_in.folder.path().join("libnone.so");
    std::fs::write(&library, "not a library").unwrap();
    let prepared = Prepared {
        libraries: BTreeMap::from([("none".to_owned(), library)]),
        ..prepared()
    };
    let outcome = stand_in.run_prepared(&prepared, Keep::Nothing, LONG);
    let failure = outcome.failures.first().unwrap().to_string();
    assert!(failure.contains("cannot be loaded: "), "{failure}");
}

#[test]
fn nothing_of_a_run_is_left() {
    let stand_in = StandIn::new("pwd > \"$(dirname \"$0\")/where\"; sleep 600 & exec sleep 600");
    stand_in.run(Keep::Nothing, Duration::from_millis(500));
    let folder = std::fs::read_to_string(stand_in.folder.path().join("where")).unwrap();
    assert!(!Path::new(folder.trim()).exists());
}
