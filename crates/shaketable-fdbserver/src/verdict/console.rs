//! What a server printed.

/// The parts of the console that say something about a run.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Console {
    /// Tests that passed.
    pub(super) passed: Option<u32>,
    /// Tests that failed.
    pub(super) failed: Option<u32>,
    /// Clients that failed, of how many, in the last test that had some.
    pub(super) failed_clients: Option<(u32, u32)>,
    pub(super) unseed: Option<u32>,
    pub(super) simulated_seconds: Option<f64>,
    /// `Segmentation fault (signal 11)`.
    pub(super) signal: Option<String>,
    /// Where it crashed.
    pub(super) stack: Vec<String>,
    /// All lines, without the map of the cluster and what is said once for each process.
    pub(super) lines: Vec<String>,
    errors: Vec<String>,
}

/// More lines than this are cut in the middle.
const LINES_MAX: usize = 200;

impl Console {
    pub(super) fn read(stdout: &str, stderr: &str) -> Console {
        let mut console = Console::default();
        for line in stdout.lines().chain(stderr.lines()) {
            console.line(line);
        }
        let is_chatter = |line: &&str| {
            line.trim().is_empty()
                || line.starts_with(' ')
                || CHATTER.iter().any(|chatter| line.starts_with(chatter))
        };
        let mut lines: Vec<String> = stdout
            .lines()
            .filter(|line| !is_chatter(line))
            .map(str::to_owned)
            .collect();
        lines.dedup();
        if lines.len() > LINES_MAX {
            let end = lines.split_off(lines.len() - LINES_MAX / 2);
            lines.truncate(LINES_MAX / 2);
            lines.push("…".to_owned());
            lines.extend(end);
        }
        console.lines = lines;
        console.errors = stderr.lines().map(str::to_owned).collect();
        console
    }

    fn line(&mut self, line: &str) {
        if let Some((passed, failed)) = counts(line, " tests passed; ", " tests failed.") {
            (self.passed, self.failed) = (Some(passed), Some(failed));
        }
        if let Some((passed, failed)) =
            counts(line, " test clients passed; ", " test clients failed")
            && failed > 0
        {
            self.failed_clients = Some((failed, passed + failed));
        }
        if let Some(unseed) = line.strip_prefix("Unseed: ") {
            self.unseed = unseed.parse().ok();
        }
        if let Some(elapsed) = line.strip_prefix("Elapsed: ") {
            let seconds = elapsed.split_once(" simsec").map(|(seconds, _)| seconds);
            self.simulated_seconds = seconds.and_then(|seconds| seconds.parse().ok());
        }
        if let Some(signal) = line.strip_prefix("SIGNAL: ") {
            self.signal = Some(signal.replace('(', "(signal "));
        }
        if let Some(stack) = line.strip_prefix("Trace: ") {
            self.stack = vec![stack.to_owned()];
        }
    }

    /// The last thing that it complained about.
    pub(super) fn last_words(&self) -> String {
        let said = self.errors.iter().rfind(|line| !line.trim().is_empty());
        said.map_or(String::new(), |line| {
            line.trim().chars().take(300).collect()
        })
    }
}

/// Two numbers, one before `middle` and one before `end`.
fn counts(line: &str, middle: &str, end: &str) -> Option<(u32, u32)> {
    let (first, rest) = line.split_once(middle)?;
    let (second, _) = rest.split_once(end)?;
    Some((first.parse().ok()?, second.parse().ok()?))
}

/// What is printed once for each process or machine.
const CHATTER: [&str; 12] = [
    "FDBD joined cluster.",
    "Test received trigger",
    "Process ",
    "HTTP: ",
    "SimHTTPServer",
    "sim http machines",
    "Datacenter ",
    "dcId: ",
    "dataHallId",
    "=====",
    "Simulated Cluster Topology",
    "DeterministicRandom ",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_of_a_server_is_read() {
        let stdout = "Random seed is 7...\nFDBD joined cluster.\nRun test:Walk start\n3 test clients passed; 5 test clients failed\n\n0 tests passed; 1 tests failed.\n\nUnseed: 1979\nElapsed: 127.322324 simsec, 3.139287 real seconds\n8 SevError events logged\n";
        let console = Console::read(
            stdout,
            "SIGNAL: Segmentation fault (11)\nTrace: addr2line 0x1\n",
        );
        assert_eq!((console.passed, console.failed), (Some(0), Some(1)));
        assert_eq!(console.failed_clients, Some((5, 8)));
        assert_eq!(console.unseed, Some(1979));
        assert_eq!(console.simulated_seconds, Some(127.322324));
        assert_eq!(
            console.signal.as_deref(),
            Some("Segmentation fault (signal 11)")
        );
        assert_eq!(console.stack, ["addr2line 0x1"]);
        assert_eq!(
            console.lines[..2],
            ["Random seed is 7...", "Run test:Walk start"]
        );
        assert_eq!(console.last_words(), "Trace: addr2line 0x1");
    }
}
