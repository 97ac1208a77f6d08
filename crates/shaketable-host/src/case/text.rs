//! The TOML form of a case.

use super::{Case, DecisionName, ReseedStreams};
use crate::options::text_of;
use crate::plan::Liveness;
use crate::testfile::{
    Finding, TestFile, TestFileError, check_configuration, check_knob, check_knob_value, check_size,
};
use shaketable_cluster::client::is_an_outcome;
use shaketable_cluster::faults::FaultWorkload;
use shaketable_record::Seed;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use toml_edit::{Array, ArrayOfTables, Document, DocumentMut, Item, Key, Table, Value, value};

/// Whether a text is that of a case.
pub fn is_case(source: &str) -> bool {
    source.lines().any(|line| {
        let inner = line.trim().strip_prefix('[');
        let inner = inner.and_then(|rest| rest.split(']').next());
        inner.is_some_and(|name| name.trim() == "case")
    })
}

/// Reads a case; returns the test file that it names, changed as it says.
pub(crate) fn parse(path: &Path, source: &str) -> Result<TestFile, TestFileError> {
    let refuse = |findings| TestFileError::new(path, source, findings);
    let case = read(path, source)?;
    if let Some(test) = &case.cargo_test {
        let message = format!("this case belongs to `{test}`, a test of `cargo test`");
        let finding = Finding::at(None, message).help(format!("run it with {}", case.line(path)));
        return Err(refuse(vec![finding]));
    }
    if case.test.as_os_str().is_empty() {
        let finding = Finding::at(None, "expected `test`, the path of a test file");
        return Err(refuse(vec![finding]));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let test = plain(&folder.join(&case.test));
    // Before it is read as a test file: a case might name itself.
    if std::fs::read_to_string(&test).is_ok_and(|source| is_case(&source)) {
        let finding = Finding::at(None, format!("`test` names a case, {}", test.display()))
            .help("name a test file, as that case does");
        return Err(refuse(vec![finding]));
    }
    let mut file = TestFile::read(&test)?;
    case.apply(&mut file);
    if let Err(message) = check_size(&file.configuration) {
        return Err(refuse(vec![Finding::at(None, message)]));
    }
    Ok(file)
}

/// Reads a case by itself.
pub(super) fn read(path: &Path, source: &str) -> Result<Case, TestFileError> {
    let refuse = |findings| TestFileError::new(path, source, findings);
    let document = Document::parse(source).map_err(|error| {
        let message = format!("not TOML: {}", error.message().trim());
        refuse(vec![Finding::at(error.span(), message)])
    })?;
    let mut reader = Reader::default();
    let case = reader.root(document.as_table());
    if reader.findings.is_empty() {
        Ok(case)
    } else {
        Err(refuse(reader.findings))
    }
}

/// The path without the steps into folders and out of them again.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        let last = plain.components().next_back();
        match (component, last) {
            (Component::ParentDir, Some(Component::Normal(_))) => {
                plain.pop();
            }
            (Component::CurDir, _) => {}
            _ => plain.push(component),
        }
    }
    plain
}

const KEYS: &[&str] = &[
    "test",
    "package",
    "cargoTest",
    "simulation",
    "seed",
    "note",
    "fails",
    "finding",
    "firstSeen",
    "lastSeen",
    "swarm",
    "clients",
    "buggify",
    "faultInjection",
    "stress",
    "faults",
    "liveness",
    "knobs",
    "options",
    "configuration",
    "only",
    "drop",
    "force",
    "reseed",
];

/// What a seed is.
const SEED: &str = "a whole number that is not negative, in quotes if it has more than 53 bits,";

/// How many clients there can be, as for `--clients`.
const CLIENTS_MAX: u32 = 250;

#[derive(Default)]
struct Reader {
    findings: Vec<Finding>,
}

impl Reader {
    fn root(&mut self, root: &Table) -> Case {
        let mut case = None;
        for (key, item) in entries(root) {
            match (key.get(), item.as_table()) {
                ("case", Some(table)) => case = Some(self.case(table)),
                (name, _) => self.findings.push(
                    Finding::at(key.span(), format!("unknown key `{name}` in a case"))
                        .help("everything stands in the table `[case]`"),
                ),
            }
        }
        case.unwrap_or_default()
    }

    fn case(&mut self, table: &Table) -> Case {
        let mut case = Case::default();
        for (key, item) in entries(table) {
            match key.get() {
                "test" => case.test = self.text(key, item).unwrap_or_default().into(),
                "package" => case.package = self.text(key, item),
                "cargoTest" => case.cargo_test = self.text(key, item),
                "simulation" => case.simulation = self.text(key, item),
                "seed" => case.seed = self.seed(key, item),
                "note" => case.note = self.text(key, item),
                "fails" => case.fails = self.text(key, item),
                "finding" => case.finding = self.text(key, item),
                "firstSeen" => case.first_seen = self.text(key, item),
                "lastSeen" => case.last_seen = self.text(key, item),
                "swarm" => case.swarm = self.switch(key, item),
                "clients" => case.clients = self.clients(key, item),
                "buggify" => case.buggify = self.switch(key, item),
                "faultInjection" => case.fault_injection = self.switch(key, item),
                "stress" => case.stress = self.switch(key, item),
                "faults" => {
                    let what = "names of fault workloads";
                    case.faults = Some(self.names(key, item, what, check_fault));
                }
                "liveness" => case.liveness = self.liveness(key, item),
                "knobs" => {
                    case.knobs = self.texts_by_name(key, item, text_of);
                    self.known_knobs(item);
                }
                "options" => case.options = self.texts_by_name(key, item, text_of),
                "configuration" => {
                    case.configuration = self.texts_by_name(key, item, written);
                    self.known_configuration(item);
                }
                "only" => case.only = Some(self.decisions(key, item, check_decision)),
                "drop" => case.drop = self.decisions(key, item, check_name),
                "force" => case.force = self.decisions(key, item, check_decision),
                "reseed" => case.reseed = self.reseed(key, item),
                name => self.findings.push(
                    Finding::at(key.span(), format!("unknown key `{name}` in `[case]`"))
                        .did_you_mean(name, KEYS.iter().copied()),
                ),
            }
        }
        // Not besides a misspelt one.
        if !table.contains_key("seed") && self.findings.is_empty() {
            let finding = Finding::at(table.span(), "expected a `seed` in `[case]`");
            self.findings.push(finding);
        }
        case
    }

    fn expected(&mut self, key: &Key, what: &str) {
        let message = format!("expected {what} for `{}`", key.get());
        self.findings.push(Finding::at(key.span(), message));
    }

    fn text(&mut self, key: &Key, item: &Item) -> Option<String> {
        let text = item.as_str().map(str::to_owned);
        if text.is_none() {
            self.expected(key, "a text");
        }
        text
    }

    fn whole<T: TryFrom<i64>>(&mut self, key: &Key, item: &Item) -> Option<T> {
        let number = item.as_integer().and_then(|number| number.try_into().ok());
        if number.is_none() {
            self.expected(key, "a whole number that is not negative");
        }
        number
    }

    /// A number, or the text of one that TOML has no number for.
    fn seed(&mut self, key: &Key, item: &Item) -> u64 {
        let number = item.as_integer().and_then(|number| number.try_into().ok());
        let text = item.as_str().and_then(|text| text.parse().ok());
        match number.map(Seed).or(text) {
            Some(seed) => seed.0,
            None => {
                self.expected(key, SEED);
                0
            }
        }
    }

    fn switch(&mut self, key: &Key, item: &Item) -> Option<bool> {
        let switch = item.as_bool();
        if switch.is_none() {
            self.expected(key, "true or false");
        }
        switch
    }

    fn clients(&mut self, key: &Key, item: &Item) -> Option<u32> {
        let clients = self.whole(key, item)?;
        if (1..=CLIENTS_MAX).contains(&clients) {
            return Some(clients);
        }
        let message = format!("expected `clients` between 1 and {CLIENTS_MAX}, found {clients}");
        self.findings.push(Finding::at(item.span(), message));
        None
    }

    /// As in the `[configuration]` of a test file.
    fn liveness(&mut self, key: &Key, item: &Item) -> Option<Liveness> {
        match check_configuration(key, item, "[case]") {
            Ok(value) => {
                let seconds = u64::try_from(value.as_integer()?).ok()?;
                Some(Liveness::of_seconds(seconds))
            }
            Err(finding) => {
                self.findings.push(finding);
                None
            }
        }
    }

    fn decisions(&mut self, key: &Key, item: &Item, check: Check) -> Vec<String> {
        self.names(key, item, "names of decisions", check)
    }

    fn names(&mut self, key: &Key, item: &Item, what: &str, check: Check) -> Vec<String> {
        let items = item.as_array().into_iter().flatten();
        let mut names = Vec::new();
        for item in items {
            let Some(name) = item.as_str() else {
                continue;
            };
            if let Err(message) = check(name) {
                self.findings.push(Finding::at(item.span(), message));
            }
            names.push(name.to_owned());
        }
        if item.as_array().map(Array::len) != Some(names.len()) {
            self.expected(key, &format!("a list of {what}"));
        }
        names
    }

    fn texts_by_name(
        &mut self,
        key: &Key,
        item: &Item,
        text: fn(&Value) -> String,
    ) -> BTreeMap<String, String> {
        let Some(table) = item.as_table_like() else {
            self.expected(key, "a table");
            return BTreeMap::new();
        };
        let values = table.iter();
        let values = values.filter_map(|(name, item)| Some((name, item.as_value()?)));
        values
            .map(|(name, value)| (name.to_owned(), text(value)))
            .collect()
    }

    fn known_configuration(&mut self, item: &Item) {
        let table = item.as_table_like();
        let keys = table.into_iter().flat_map(|table| table.iter());
        for (name, item) in keys {
            let Some(key) = table.and_then(|table| table.key(name)) else {
                continue;
            };
            let checked = check_configuration(key, item, "[case.configuration]");
            self.findings.extend(checked.err());
        }
    }

    fn known_knobs(&mut self, item: &Item) {
        let keys = item.as_table_like();
        let keys = keys.into_iter().flat_map(|table| table.iter());
        for (name, item) in keys {
            if let Err(nearest) = check_knob(name) {
                let finding = Finding::at(item.span(), format!("unknown knob `{name}`"));
                self.findings.push(finding.did_you_mean(name, nearest));
            } else if let Some(value) = item.as_value()
                && let Err(bad) = check_knob_value(&name.to_lowercase(), &text_of(value))
            {
                self.findings
                    .push(Finding::at(item.span(), bad.to_string()));
            }
        }
    }

    fn reseed(&mut self, key: &Key, item: &Item) -> Vec<ReseedStreams> {
        let Some(tables) = item.as_array_of_tables() else {
            self.expected(key, "an array of tables `[[case.reseed]]`");
            return Vec::new();
        };
        let mut all = Vec::new();
        for table in tables {
            if !table.contains_key("seed") && self.findings.is_empty() {
                let message = "expected a `seed` in `[[case.reseed]]`";
                self.findings.push(Finding::at(table.span(), message));
            }
            let mut one = ReseedStreams {
                streams: String::new(),
                seed: 0,
                from: 0.0,
            };
            for (key, item) in entries(table) {
                match key.get() {
                    "streams" => one.streams = self.text(key, item).unwrap_or_default(),
                    "seed" => one.seed = self.seed(key, item),
                    "from" => {
                        let whole = item.as_integer().map(|number| number as f64);
                        let seconds = item.as_float().or(whole);
                        match seconds.filter(|seconds| is_time(*seconds)) {
                            Some(seconds) => one.from = seconds,
                            None => self.expected(key, "simulated seconds, not below 0,"),
                        }
                    }
                    name => self.findings.push(
                        Finding::at(key.span(), format!("unknown key `{name}`"))
                            .did_you_mean(name, ["streams", "seed", "from"]),
                    ),
                }
            }
            all.push(one);
        }
        all
    }
}

/// Says what is wrong with a name.
type Check = fn(&str) -> Result<(), String>;

fn is_time(seconds: f64) -> bool {
    seconds.is_finite() && seconds >= 0.0
}

/// The name of a fault workload as its decisions have it: `Attrition #2`.
fn check_fault(name: &str) -> Result<(), String> {
    let kind = name.split(' ').next().unwrap_or_default();
    match FaultWorkload::NAMES.contains(&kind) {
        true => Ok(()),
        false => Err(format!(
            "unknown fault workload `{name}`: there are {}",
            FaultWorkload::NAMES.join(", ")
        )),
    }
}

/// The name of a decision or a group, whatever its outcome.
fn check_name(text: &str) -> Result<(), String> {
    let (name, _) = DecisionName::parse(text);
    let empty = name.group.is_empty() || name.place.is_some_and(|place| place.is_empty());
    match empty {
        true => Err(format!("`{text}` names no decision")),
        false => Ok(()),
    }
}

/// The name of a decision that is to happen, and its outcome. Which places there are is known to
/// the run alone; what can happen there is known here, and an outcome that cannot must not be
/// taken for the usual one.
fn check_decision(text: &str) -> Result<(), String> {
    check_name(text)?;
    let (name, outcome) = DecisionName::parse(text);
    let Some(place) = &name.place else {
        return match outcome {
            None => Ok(()),
            Some(_) => Err(format!("`{text}`: a group has no outcome")),
        };
    };
    let outcome = outcome.as_deref();
    let lasts = |outcome: &str, before: &str| {
        let seconds = outcome.strip_prefix(before)?.strip_suffix(" s")?;
        seconds.parse().ok().filter(|seconds| is_time(*seconds))
    };
    let expected = match (name.group.as_str(), outcome) {
        ("commit" | "read" | "range read" | "watch", None) => "an outcome from docs/explore.md",
        ("commit" | "read" | "range read" | "watch", Some(outcome)) if !is_an_outcome(outcome) => {
            "an outcome from docs/explore.md"
        }
        ("connection", Some(outcome))
            if outcome != "closes" && lasts(outcome, "falls silent for ").is_none() =>
        {
            "`closes`, or `falls silent for … s`"
        }
        ("knob", _) => return check_forced_knob(place, outcome),
        ("cluster", Some(outcome)) if outcome.parse::<usize>().is_err() => "a number",
        ("commit" | "read" | "range read" | "watch" | "connection" | "cluster", _) => return Ok(()),
        (_, Some(outcome)) if lasts(outcome, "for ").is_none() => {
            "no outcome, or how long it lasts: `for … s`"
        }
        _ => return Ok(()),
    };
    match outcome {
        Some(outcome) => Err(format!(
            "expected {expected} for `{name}`, found `{outcome}`"
        )),
        None => Err(format!("expected {expected} for `{name}`: `{name}: …`")),
    }
}

fn check_forced_knob(name: &str, value: Option<&str>) -> Result<(), String> {
    if let Err(nearest) = check_knob(name) {
        let nearest = nearest.map(|nearest| format!(": did you mean `{nearest}`?"));
        return Err(format!(
            "unknown knob `{name}`{}",
            nearest.unwrap_or_default()
        ));
    }
    let Some(value) = value else { return Ok(()) };
    check_knob_value(name, value).map_err(|bad| bad.to_string())
}

/// A value as it is written in TOML.
fn written(value: &Value) -> String {
    value.clone().decorated("", "").to_string()
}

fn entries(table: &Table) -> impl Iterator<Item = (&Key, &Item)> {
    let pairs = table.iter();
    pairs.filter_map(|(name, item)| Some((table.key(name)?, item)))
}

impl Case {
    /// The TOML text.
    pub fn to_toml(&self) -> String {
        let mut case = Table::new();
        if !self.test.as_os_str().is_empty() {
            case.insert("test", value(self.test.display().to_string()));
        }
        for (key, text) in [
            ("package", &self.package),
            ("cargoTest", &self.cargo_test),
            ("simulation", &self.simulation),
        ] {
            if let Some(text) = text {
                case.insert(key, value(text));
            }
        }
        case.insert("seed", seed_value(self.seed));
        for (key, text) in [
            ("note", &self.note),
            ("fails", &self.fails),
            ("finding", &self.finding),
            ("firstSeen", &self.first_seen),
            ("lastSeen", &self.last_seen),
        ] {
            if let Some(text) = text {
                case.insert(key, value(text));
            }
        }
        if let Some(clients) = self.clients {
            case.insert("clients", value(i64::from(clients)));
        }
        for (key, switch) in [
            ("buggify", self.buggify),
            ("faultInjection", self.fault_injection),
            ("stress", self.stress),
            ("swarm", self.swarm),
        ] {
            if let Some(switch) = switch {
                case.insert(key, value(switch));
            }
        }
        if let Some(liveness) = self.liveness {
            case.insert("liveness", value(liveness.seconds() as i64));
        }
        let (drop, force) = (Some(&self.drop), Some(&self.force));
        let filled = |names: Option<&'_ Vec<String>>| names.is_some_and(|names| !names.is_empty());
        for (key, names, shown) in [
            ("faults", self.faults.as_ref(), self.faults.is_some()),
            ("only", self.only.as_ref(), self.only.is_some()),
            ("drop", drop, filled(drop)),
            ("force", force, filled(force)),
        ] {
            if let Some(names) = names.filter(|_| shown) {
                case.insert(key, value(list(names)));
            }
        }
        let texts = |texts: &BTreeMap<String, String>, read: fn(&str) -> Value| {
            let mut table = Table::new();
            for (name, text) in texts {
                table.insert(name, value(read(text)));
            }
            Item::Table(table)
        };
        for (key, table, read) in [
            ("options", &self.options, simplest as fn(&str) -> Value),
            ("knobs", &self.knobs, simplest),
            ("configuration", &self.configuration, as_written),
        ] {
            if !table.is_empty() {
                case.insert(key, texts(table, read));
            }
        }
        if !self.reseed.is_empty() {
            let mut tables = ArrayOfTables::new();
            for reseed in &self.reseed {
                let mut table = Table::new();
                table.insert("streams", value(&reseed.streams));
                table.insert("seed", seed_value(reseed.seed));
                table.insert("from", value(reseed.from));
                tables.push(table);
            }
            case.insert("reseed", Item::ArrayOfTables(tables));
        }
        let mut document = DocumentMut::new();
        document.insert("case", Item::Table(case));
        document.to_string()
    }
}

/// A seed as everywhere: a number that every reader keeps, or a text.
fn seed_value(seed: u64) -> Item {
    match i64::try_from(seed) {
        Ok(number) if !Seed(seed).is_text() => value(number),
        _ => value(seed.to_string()),
    }
}

/// The names, each on a line of its own.
fn list(names: &[String]) -> Array {
    let mut array: Array = names.iter().collect();
    if !names.is_empty() {
        for name in array.iter_mut() {
            name.decor_mut().set_prefix("\n    ");
        }
        array.set_trailing("\n");
        array.set_trailing_comma(true);
    }
    array
}

/// A number, a truth value, or a text.
fn simplest(text: &str) -> Value {
    match text.parse::<Value>() {
        Ok(value) if text_of(&value) == text && !value.is_array() && !value.is_inline_table() => {
            value
        }
        _ => Value::from(text),
    }
}

fn as_written(text: &str) -> Value {
    text.parse().unwrap_or_else(|_| Value::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_has_the_same_keys() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/case.json");
        let text = std::fs::read_to_string(path).expect("the schema of cases");
        let schema: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let keys = schema["properties"]["case"]["properties"].as_object();
        let mut keys: Vec<&str> = keys.expect("keys").keys().map(String::as_str).collect();
        let mut own = KEYS.to_vec();
        keys.sort_unstable();
        own.sort_unstable();
        assert_eq!(keys, own);
    }

    fn example() -> Case {
        let texts = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter();
            let pairs = pairs.map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
            pairs.collect::<BTreeMap<_, _>>()
        };
        Case {
            test: "../double_increment.toml".into(),
            seed: 42,
            note: Some("a \"reply\" is lost".into()),
            first_seen: Some("0123abc".into()),
            clients: Some(2),
            buggify: Some(true),
            faults: Some(vec!["Attrition #2".into()]),
            options: texts(&[("rounds", "3"), ("name", "x y")]),
            configuration: texts(&[("simpleConfig", "true"), ("machineCount", "4")]),
            only: Some(vec![
                "a reply is lost/tester 1 3".into(),
                "connection/tester 2→server 0.1 412: closes".into(),
            ]),
            reseed: vec![ReseedStreams {
                streams: "network".into(),
                seed: 7,
                from: 12.5,
            }],
            ..Case::default()
        }
    }

    fn read_all(source: &str) -> (Case, Vec<Finding>) {
        let document = Document::parse(source).unwrap();
        let mut reader = Reader::default();
        let case = reader.root(document.as_table());
        (case, reader.findings)
    }

    #[test]
    fn a_case_is_written_for_people() {
        insta::assert_snapshot!(example().to_toml());
    }

    #[test]
    fn a_case_survives_being_written_and_read() {
        for case in [
            example(),
            Case {
                package: Some("bank".into()),
                cargo_test: Some("tests::no_transfer_loses_money".into()),
                simulation: Some("a quiet morning".into()),
                ..Case::default()
            },
            Case {
                test: "a.toml".into(),
                only: Some(Vec::new()),
                drop: vec!["Attrition".into()],
                stress: Some(true),
                swarm: Some(false),
                liveness: Some(Liveness::Seconds(60)),
                ..Case::default()
            },
            Case {
                seed: u64::MAX,
                reseed: vec![ReseedStreams {
                    streams: String::new(),
                    seed: 1 << 63,
                    from: 1.0,
                }],
                ..Case::default()
            },
        ] {
            let source = case.to_toml();
            assert!(is_case(&source));
            assert_eq!(read_all(&source), (case, vec![]), "{source}");
        }
    }

    #[test]
    fn a_seed_is_a_number_or_the_text_of_one() {
        let read = |text: &str| read_all(&format!("[case]\nseed = {text}\n"));
        for (text, seed) in [
            ("42", 42),
            ("0x1_0000_0000", 1 << 32),
            ("9223372036854775807", i64::MAX as u64),
            ("\"18446744073709551615\"", u64::MAX),
            ("\"0xff\"", 255),
        ] {
            let (case, findings) = read(text);
            assert_eq!((case.seed, findings), (seed, vec![]), "{text}");
        }
        for text in ["-1", "1.5", "\"seven\"", "\"18446744073709551616\"", "true"] {
            assert_eq!(read(text).1.len(), 1, "{text}");
        }
        let written = |seed| {
            Case {
                seed,
                ..Case::default()
            }
            .to_toml()
        };
        assert_eq!(
            written(9_007_199_254_740_991),
            "[case]\nseed = 9007199254740991\n"
        );
        assert_eq!(
            written(9_007_199_254_740_992),
            "[case]\nseed = \"9007199254740992\"\n"
        );
    }

    #[test]
    fn a_path_takes_no_detours() {
        for (path, expected) in [
            ("target/failures/../../examples/a.toml", "examples/a.toml"),
            ("../../a/./b.toml", "../../a/b.toml"),
            ("/x/../y.toml", "/y.toml"),
        ] {
            assert_eq!(plain(Path::new(path)), Path::new(expected));
        }
    }

    #[test]
    fn mistakes_are_named() {
        let source = "[case]\ntest = 3\nseed = -1\nclient = 2\nonly = [1]\n[case.configuration]\nmachinecount = 4\n";
        let (_, findings) = read_all(source);
        let messages: Vec<&str> = findings
            .iter()
            .map(|finding| finding.message.as_str())
            .collect();
        let expected = [
            "expected a text for `test`",
            "expected a whole number that is not negative, in quotes if it has more than 53 bits, for `seed`",
            "unknown key `client` in `[case]`",
            "expected a list of names of decisions for `only`",
            "unknown key `machinecount` in `[case.configuration]`",
        ];
        assert_eq!(messages, expected);
    }

    #[test]
    fn what_cannot_happen_is_refused() {
        for (line, expected) in [
            (
                "clients = 0",
                "expected `clients` between 1 and 250, found 0",
            ),
            (
                "clients = 251",
                "expected `clients` between 1 and 250, found 251",
            ),
            ("only = ['']", "`` names no decision"),
            ("drop = ['Attrition/']", "`Attrition/` names no decision"),
            (
                "force = ['Attrition: kill']",
                "`Attrition: kill`: a group has no outcome",
            ),
            (
                "only = ['commit/tester 0 1: it rains']",
                "expected an outcome from docs/explore.md for `commit/tester 0 1`, found `it rains`",
            ),
            (
                "force = ['read/tester 0 1']",
                "expected an outcome from docs/explore.md for `read/tester 0 1`: `read/tester 0 1: …`",
            ),
            (
                "only = ['connection/tester 0→server 0.0 4: explodes']",
                "expected `closes`, or `falls silent for … s` for \
                 `connection/tester 0→server 0.0 4`, found `explodes`",
            ),
            (
                "only = ['cluster/machines: many']",
                "expected a number for `cluster/machines`, found `many`",
            ),
            (
                "only = ['stress watch is told late/server 0.0 1: for -5 s']",
                "expected no outcome, or how long it lasts: `for … s` for \
                 `stress watch is told late/server 0.0 1`, found `for -5 s`",
            ),
            (
                "only = ['knob/default_backof: 3']",
                "unknown knob `default_backof`: did you mean `default_backoff`?",
            ),
            (
                "knobs = { default_backof = 3 }",
                "unknown knob `default_backof`",
            ),
            (
                "[[case.reseed]]\nseed = 1\nfrom = -1",
                "expected simulated seconds, not below 0, for `from`",
            ),
            (
                "[[case.reseed]]\nseed = 1\nfrom = nan",
                "expected simulated seconds, not below 0, for `from`",
            ),
            (
                "[[case.reseed]]\nfrom = 1",
                "expected a `seed` in `[[case.reseed]]`",
            ),
            (
                "liveness = -1",
                "expected a `liveness` between 0 and 100000000, found -1",
            ),
            (
                "[case.configuration]\nmachineCount = -5",
                "expected a `machineCount` between 1 and 250, found -5",
            ),
            (
                "[case.configuration]\nmachineCount = 'many'",
                "expected an integer for `machineCount`, found a string",
            ),
        ] {
            let (_, findings) = read_all(&format!("[case]\nseed = 1\n{line}\n"));
            let messages: Vec<&str> = findings.iter().map(|one| one.message.as_str()).collect();
            assert_eq!(messages, [expected], "{line}");
        }
        let (_, findings) = read_all("[case]\nseed = 1\nfaults = ['Atrition']\n");
        assert!(
            findings[0]
                .message
                .starts_with("unknown fault workload `Atrition`: there are ")
        );
        let (_, findings) = read_all("[case]\ntest = 'a.toml'\n");
        assert_eq!(findings[0].message, "expected a `seed` in `[case]`");
    }

    #[test]
    fn a_case_is_known_by_its_table() {
        for (source, expected) in [
            ("[case]\n", true),
            ("  [ case ] # as TOML has it\n", true),
            ("[case.knobs]\n", false),
            ("[cases]\n", false),
            ("# [case]\n", false),
        ] {
            assert_eq!(is_case(source), expected, "{source}");
        }
    }
}
