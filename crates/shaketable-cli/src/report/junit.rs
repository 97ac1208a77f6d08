//! The report as JUnit XML: a suite for each test file, a case for each cause of failure, or one
//! for the file if there is none.

use super::Summary;
use crate::report::repro::Repro;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

/// The XML.
pub fn report(summary: &Summary, repro: &Repro) -> Result<String, quick_junit::SerializeError> {
    let mut report = Report::new("shaketable");
    for (index, file) in summary.files.iter().enumerate() {
        let name = file.display().to_string();
        let mut suite = TestSuite::new(&name);
        let groups: Vec<_> = summary
            .groups
            .iter()
            .filter(|group| group.file == index)
            .collect();
        let runs = summary.passed[index] + summary.failed[index];
        if groups.is_empty() {
            let mut case = TestCase::new(format!("{runs} seeds"), TestCaseStatus::success());
            case.set_classname(&name);
            suite.add_test_case(case);
        }
        for group in groups {
            let failure = &group.example.failures[0];
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_message(failure.to_string());
            status.set_type(failure.kind.describe());
            status.set_description(format!(
                "{failure}\nin {} of {runs} runs, seeds {:?}\nreproduce: {}",
                group.count,
                group.seeds,
                group.reproduce(repro, file)
            ));
            let mut case = TestCase::new(
                format!("{} ({})", failure.test, failure.kind.describe()),
                status,
            );
            case.set_classname(&name);
            let stack = group.example.stack.join("\n");
            if !group.printed.is_empty() || !stack.is_empty() {
                case.set_system_out(format!("{}{stack}", group.printed));
            }
            suite.add_test_case(case);
        }
        report.add_test_suite(suite);
    }
    report.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::BuildArgs;
    use crate::report::samples;
    use shaketable_host::plan::Settings;

    #[test]
    fn each_cause_of_failure_is_a_case() {
        let repro = Repro {
            program: "shaketable".into(),
            cases: Vec::new(),
            host: crate::args::HostArgs::default(),
            settings: Settings::default(),
            build: BuildArgs::default(),
        };
        let xml = report(&samples::summary(), &repro).unwrap();
        // The library writes the current time and an identifier of its own into the first element.
        let stable: Vec<&str> = xml
            .lines()
            .filter(|line| !line.contains("<testsuites"))
            .collect();
        insta::assert_snapshot!(stable.join("\n"));
    }
}
