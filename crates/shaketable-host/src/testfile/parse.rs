//! From TOML to a [`TestFile`], collecting everything that is wrong on the way.

use super::known::{self, Kind};
use super::limits;
use super::{Configuration, Finding, Knob, TestFile, TestFileError, TestSpec, WorkloadSpec};
use crate::options::{WorkloadOption, text_of};
use crate::plan::Liveness;
use std::ops::Range;
use std::path::Path;
use toml_edit::{ArrayOfTables, Document, Item, Key, Table, Value};

/// Parses a whole file.
pub(super) fn parse(path: &Path, source: &str) -> Result<TestFile, TestFileError> {
    let document = Document::parse(source).map_err(|error| {
        let finding = Finding::at(
            error.span(),
            format!("not TOML: {}", error.message().trim()),
        );
        TestFileError::new(path, source, vec![finding])
    })?;
    let mut parser = Parser {
        source,
        findings: Vec::new(),
    };
    let file = parser.file(path, document.as_table());
    if parser.findings.is_empty() {
        Ok(file)
    } else {
        Err(TestFileError::new(path, source, parser.findings))
    }
}

struct Parser<'a> {
    source: &'a str,
    findings: Vec<Finding>,
}

impl Parser<'_> {
    fn file(&mut self, path: &Path, root: &Table) -> TestFile {
        let mut file = TestFile {
            path: path.to_owned(),
            configuration: Configuration::default(),
            knobs: Vec::new(),
            tests: Vec::new(),
            case: None,
        };
        for (key, item) in entries(root) {
            match (key.get(), item) {
                ("configuration", Item::Table(table)) => {
                    file.configuration = self.configuration(table);
                }
                ("knobs", Item::ArrayOfTables(tables)) => file.knobs = self.knobs(tables),
                ("test", Item::ArrayOfTables(tables)) => {
                    file.tests = tables.iter().map(|table| self.test(table)).collect();
                }
                ("configuration", _) => self.shape(key, "the table `[configuration]`"),
                ("knobs", _) => self.shape(key, "an array of tables `[[knobs]]`"),
                ("test", _) => self.shape(key, "an array of tables `[[test]]`"),
                (name, Item::Value(_)) if known::ROOT.contains(&name) => {}
                (name, _) => self.unknown_at_root(key, name),
            }
        }
        if file.tests.is_empty() && self.findings.is_empty() {
            self.findings.push(
                Finding::at(None, "expected at least one `[[test]]`, found none").help(
                    "a test file has `[[test]]` tables with `[[test.workload]]` tables inside",
                ),
            );
        }
        file
    }

    fn unknown_at_root(&mut self, key: &Key, name: &str) {
        let finding = Finding::at(
            key.span(),
            format!("unknown key `{name}` at the root of the file"),
        );
        let finding = if known::TEST.contains(&name) {
            finding.help(format!("`{name}` belongs under `[[test]]`"))
        } else if known::CONFIGURATION.iter().any(|(known, _)| *known == name) {
            finding.help(format!("`{name}` belongs under `[configuration]`"))
        } else {
            finding.did_you_mean(name, ["configuration", "knobs", "test"])
        };
        self.findings.push(finding);
    }

    fn configuration(&mut self, table: &Table) -> Configuration {
        let mut configuration = Configuration::default();
        for (key, item) in entries(table) {
            match check_configuration(key, item, "[configuration]") {
                Ok(value) => set(&mut configuration, key.get(), value),
                Err(finding) => self.findings.push(finding),
            }
        }
        if let Err(message) = check_size(&configuration) {
            let span = table.get("machineCount").and_then(Item::span);
            self.findings.push(Finding::at(span, message));
        }
        configuration
    }

    fn knobs(&mut self, tables: &ArrayOfTables) -> Vec<Knob> {
        let mut knobs: Vec<Knob> = Vec::new();
        for (key, item) in tables.iter().flat_map(entries) {
            let written = key.get();
            let name = written.to_lowercase();
            if let Err(nearest) = super::check_knob(&name) {
                let finding = Finding::at(key.span(), format!("unknown knob `{written}`"));
                self.findings.push(finding.did_you_mean(&name, nearest));
            } else if knobs.iter().any(|knob| knob.name == name) {
                self.findings.push(Finding::at(
                    key.span(),
                    format!("the knob `{written}` is set twice"),
                ));
            } else if let Some(value) = self.value(key, item) {
                let text = text_of(value);
                if let Err(bad) = super::check_knob_value(&name, &text) {
                    self.findings
                        .push(Finding::at(value.span(), bad.to_string()));
                }
                knobs.push(Knob { name, value: text });
            }
        }
        knobs
    }

    fn test(&mut self, table: &Table) -> TestSpec {
        let mut test = TestSpec {
            line: self.line(table.span()),
            ..TestSpec::default()
        };
        for (key, item) in entries(table) {
            match (key.get(), item) {
                ("knobs", Item::ArrayOfTables(tables)) => test.knobs = self.knobs(tables),
                ("workload", Item::ArrayOfTables(tables)) => {
                    test.workloads = tables.iter().map(|table| self.workload(table)).collect();
                }
                ("knobs", _) => self.shape(key, "an array of tables `[[test.knobs]]`"),
                ("workload", _) => self.shape(key, "an array of tables `[[test.workload]]`"),
                (name, _) if !known::TEST.contains(&name) => {
                    let finding =
                        Finding::at(key.span(), format!("unknown key `{name}` in `[[test]]`"));
                    let finding = if known::CONFIGURATION.iter().any(|(known, _)| *known == name) {
                        finding.help(format!("`{name}` belongs under `[configuration]`"))
                    } else {
                        finding.did_you_mean(name, known::TEST.iter().copied())
                    };
                    self.findings.push(finding);
                }
                (name, _) => {
                    if let Some(value) = self.value(key, item) {
                        self.test_key(&mut test, name, value);
                    }
                }
            }
        }
        if test.workloads.is_empty() && self.findings.is_empty() {
            self.findings.push(
                Finding::at(
                    table.span(),
                    "expected at least one `[[test.workload]]` in this test",
                )
                .help(
                    "a test runs workloads: add `[[test.workload]]` with `testName = 'External'`",
                ),
            );
        }
        test
    }

    fn test_key(&mut self, test: &mut TestSpec, name: &str, value: &Value) {
        match name {
            "testTitle" => test.title = text_of(value),
            "timeout" => {
                test.timeout_seconds = self.seconds(name, value).unwrap_or(test.timeout_seconds);
                if test.timeout_seconds <= 0.0 {
                    self.findings
                        .push(Finding::at(value.span(), "expected a `timeout` above 0"));
                }
            }
            "useDB" => test.use_db = self.boolean(name, value),
            "runSetup" => test.run_setup = self.boolean(name, value),
            "checkOnly" => test.check_only = self.boolean(name, value),
            "clearAfterTest" => test.clear_after_test = self.boolean(name, value),
            "runFailureWorkloads" => test.run_failure_workloads = self.boolean(name, value),
            "disabledFailureInjectionWorkloads" => {
                test.disabled_failure_workloads = text_of(value)
                    .split(',')
                    .map(|name| name.trim().to_owned())
                    .filter(|name| !name.is_empty())
                    .collect();
            }
            "databasePingDelay" => {
                test.database_ping_delay_seconds = self.seconds(name, value).unwrap_or(0.0);
            }
            "connectionFailuresDisableDuration" => {
                test.connection_failures_disable_seconds = self.seconds(name, value).unwrap_or(0.0);
            }
            // The remaining keys steer checks of FoundationDB's own storage; there is nothing here
            // they could change.
            _ => {}
        }
    }

    fn workload(&mut self, table: &Table) -> WorkloadSpec {
        let mut name = String::new();
        let mut options = Vec::new();
        let mut keys = Vec::new();
        for (key, item) in entries(table) {
            let Some(value) = self.value(key, item) else {
                continue;
            };
            if key.get() == "testName" {
                name = text_of(value);
                self.workload_name(&name, value);
            } else {
                keys.push(key);
                options.push(WorkloadOption {
                    key: key.get().to_owned(),
                    text: text_of(value),
                    line: self.line(key.span()),
                });
            }
        }
        if name.is_empty() && self.findings.is_empty() {
            self.findings.push(
                Finding::at(table.span(), "expected a `testName` in this workload")
                    .help("`testName = 'External'` runs a shared library"),
            );
        }
        if let Some(known) = known::options_of(&name) {
            self.option_values(&name, table, &options);
            for key in keys {
                let written = key.get();
                if !known.iter().any(|known| known == written)
                    && !known::COMMON_OPTIONS.contains(&written)
                    && written != "enableDD"
                {
                    self.findings.push(
                        Finding::at(
                            key.span(),
                            format!("unknown option `{written}` of the workload `{name}`"),
                        )
                        .did_you_mean(written, known.iter().map(String::as_str)),
                    );
                }
            }
        } else if name == known::EXTERNAL {
            self.external(table, &options);
        }
        WorkloadSpec {
            name,
            line: self.line(table.span()),
            options,
        }
    }

    /// Finds an option whose text its workload cannot read.
    fn option_values(&mut self, name: &str, table: &Table, options: &[WorkloadOption]) {
        for option in options {
            if let Err(message) = limits::check_option(&option.key, &option.text) {
                let span = table.get(&option.key).and_then(Item::span);
                self.findings
                    .push(Finding::at(span, format!("{message} (workload `{name}`)")));
            }
        }
        let mut take = |key: &str| {
            let option = options.iter().find(|option| option.key == key)?;
            Some(option.text.clone())
        };
        if let Some(Err(bad)) = known::read_options(name, &mut take) {
            let span = table.get(bad.name).and_then(Item::span);
            self.findings
                .push(Finding::at(span, format!("{bad} (workload `{name}`)")));
        }
    }

    fn workload_name(&mut self, name: &str, value: &Value) {
        if known::available().any(|known| known == name) {
            return;
        }
        let available: Vec<&str> = known::available().collect();
        let finding = if known::workloads().any(|known| known == name) {
            Finding::at(
                value.span(),
                format!("the workload `{name}` of FoundationDB is not implemented here"),
            )
            .help(format!(
                "run this file with fdbserver, or leave the workload out; available: {}",
                available.join(", ")
            ))
        } else {
            Finding::at(value.span(), format!("unknown workload `{name}`"))
                .help(format!("available: {}", available.join(", ")))
                .did_you_mean(name, known::available().chain(known::workloads()))
        };
        self.findings.push(finding);
    }

    fn external(&mut self, table: &Table, options: &[WorkloadOption]) {
        let text = |key: &str| {
            let option = options.iter().find(|option| option.key == key);
            option.map_or("", |option| option.text.as_str())
        };
        if text("libraryName").is_empty() {
            let mut finding = Finding::at(
                table.span(),
                "expected a `libraryName` in this External workload",
            )
            .help("`libraryName = 'atomic'` loads `libatomic.so`");
            for option in options {
                if !known::EXTERNAL_OPTIONS.contains(&option.key.as_str()) {
                    finding = finding.did_you_mean(&option.key, ["libraryName"]);
                }
            }
            self.findings.push(finding);
        }
    }

    fn value<'t>(&mut self, key: &Key, item: &'t Item) -> Option<&'t Value> {
        let value = item.as_value();
        if value.is_none() {
            let message = format!(
                "expected a value for `{}`, found {}",
                key.get(),
                type_name(item)
            );
            self.findings.push(Finding::at(key.span(), message));
        }
        value
    }

    fn boolean(&mut self, name: &str, value: &Value) -> bool {
        match text_of(value).as_str() {
            "true" => true,
            "false" => false,
            other => {
                let message = format!("expected `true` or `false` for `{name}`, found `{other}`");
                self.findings.push(Finding::at(value.span(), message));
                false
            }
        }
    }

    fn number(&mut self, name: &str, value: &Value) -> Option<f64> {
        let number = text_of(value).parse().ok();
        if number.is_none() {
            let message = format!("expected a number for `{name}`, found `{}`", text_of(value));
            self.findings.push(Finding::at(value.span(), message));
        }
        number
    }

    fn seconds(&mut self, name: &str, value: &Value) -> Option<f64> {
        let seconds = self.number(name, value)?;
        if let Err(message) = limits::check_seconds(name, seconds) {
            self.findings.push(Finding::at(value.span(), message));
            return None;
        }
        Some(seconds)
    }

    fn shape(&mut self, key: &Key, expected: &str) {
        let message = format!("expected {expected}, found a key `{}`", key.get());
        self.findings.push(Finding::at(key.span(), message));
    }

    fn line(&self, span: Option<Range<usize>>) -> usize {
        let start = span.map_or(0, |span| span.start);
        1 + self.source[..start].matches('\n').count()
    }
}

/// Checks a key of `[configuration]`, or of a table like it, and its value.
pub(crate) fn check_configuration<'t>(
    key: &Key,
    item: &'t Item,
    table: &str,
) -> Result<&'t Value, Finding> {
    let name = key.get();
    let known = known::CONFIGURATION.iter();
    let Some((_, kind)) = known.clone().find(|(known, _)| *known == name) else {
        let message = format!("unknown key `{name}` in `{table}`");
        let names = known.map(|(known, _)| *known);
        return Err(Finding::at(key.span(), message).did_you_mean(name, names));
    };
    let Some(value) = item.as_value().filter(|value| matches(*kind, value)) else {
        let message = format!(
            "expected {} for `{name}`, found {}",
            kind.name(),
            type_name(item)
        );
        return Err(Finding::at(item.span().or(key.span()), message));
    };
    let count = value.as_integer();
    match count.map(|count| limits::check_count(name, count)) {
        Some(Err(message)) => Err(Finding::at(value.span(), message)),
        _ => Ok(value),
    }
}

/// Checks the size of the whole cluster, if both of its numbers are set.
pub(crate) fn check_size(configuration: &Configuration) -> Result<(), String> {
    let machines = configuration.machine_count;
    match (machines, configuration.processes_per_machine) {
        (Some(machines), Some(each)) => limits::check_cluster(machines, each),
        _ => Ok(()),
    }
}

fn entries(table: &Table) -> impl Iterator<Item = (&Key, &Item)> {
    table
        .iter()
        .filter_map(|(name, _)| table.get_key_value(name))
}

fn matches(kind: Kind, value: &Value) -> bool {
    match kind {
        Kind::Boolean => value.is_bool(),
        Kind::Integer => value.is_integer(),
        Kind::Float => value.is_float(),
        Kind::Text => value.is_str(),
        Kind::Array => value.is_array(),
        Kind::Anything => true,
    }
}

fn type_name(item: &Item) -> &'static str {
    match item {
        Item::Value(Value::Boolean(_)) => "a boolean",
        Item::Value(Value::Integer(_)) => "an integer",
        Item::Value(Value::Float(_)) => "a float",
        Item::Value(Value::String(_)) => "a string",
        Item::Value(Value::Array(_)) => "an array",
        Item::Value(Value::Datetime(_)) => "a date",
        _ => "a table",
    }
}

pub(crate) fn set(configuration: &mut Configuration, name: &str, value: &Value) {
    let c = configuration;
    match name {
        "buggify" => c.buggify = value.as_bool(),
        "swarm" => c.swarm = value.as_bool(),
        "liveness" => {
            let seconds = value.as_integer();
            let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
            c.liveness = seconds.map(Liveness::of_seconds);
        }
        "faultInjection" => c.fault_injection = value.as_bool(),
        "simpleConfig" => c.simple_config = value.as_bool().unwrap_or(false),
        "generateFearless" => c.generate_fearless = value.as_bool(),
        "singleRegion" if value.as_bool() == Some(true) => c.generate_fearless = Some(false),
        "minimumRegions" if value.as_integer() > Some(1) => c.generate_fearless = Some(true),
        "minimumReplication" => c.minimum_replication = value.as_integer(),
        "datacenters" => c.datacenters = value.as_integer(),
        "machineCount" => c.machine_count = value.as_integer(),
        "processesPerMachine" => c.processes_per_machine = value.as_integer(),
        "coordinators" => c.coordinators = value.as_integer(),
        "desiredTLogCount" => c.desired_tlog_count = value.as_integer(),
        "commitProxyCount" => c.commit_proxy_count = value.as_integer(),
        "grvProxyCount" => c.grv_proxy_count = value.as_integer(),
        "resolverCount" => c.resolver_count = value.as_integer(),
        "config" => c.config = value.as_str().map(str::to_owned),
        "longRunningTest" => c.long_running_test = value.as_bool().unwrap_or(false),
        "simulationNormalRunTestsTimeoutSeconds" => c.normal_timeout_seconds = value.as_integer(),
        "simulationBuggifyRunTestsTimeoutSeconds" => c.buggify_timeout_seconds = value.as_integer(),
        // Engines, tenants and their encryption, extra databases, HTTP mocks: nothing a client of
        // the miniature could notice.
        _ => {}
    }
}

#[cfg(test)]
mod tests;
