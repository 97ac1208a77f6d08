//! The deaths of clients, as pieces of a case.
//!
//! Where a test file says `shaketableCrashes`, clients die at awaits that the seed draws. The
//! option `shaketableCrashAt` lists deaths instead, whatever else the test file says, and a list
//! can be made smaller. That a drawn death and the same death in a list make the same run is the
//! promise of the crate `shaketable`.

use crate::case::Case;
use crate::verdict;
use std::fmt;

/// The option of a workload that lists deaths.
pub const AT: &str = "shaketableCrashAt";
/// A list without a death.
const NONE: &str = "none";

/// A death that a case asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Death {
    /// The client.
    pub client: u32,
    /// At which of its awaits.
    pub at: u64,
    /// Whether it dies when the await would go on, rather than when it begins.
    pub is_late: bool,
}

impl Death {
    fn parse(text: &str) -> Option<Death> {
        let (client, at) = text.trim().split_once(':')?;
        let number = at.trim_end_matches('+');
        Some(Death {
            client: client.parse().ok()?,
            at: number.parse().ok()?,
            is_late: number.len() < at.len(),
        })
    }

    /// The death as a clause: *client 0 dies at its await 29*.
    pub fn clause(&self) -> String {
        let Death { client, at, .. } = self;
        match self.is_late {
            true => format!("client {client} dies when its await {at} would go on"),
            false => format!("client {client} dies at its await {at}"),
        }
    }
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let late = if self.is_late { "+" } else { "" };
        write!(f, "{}:{}{late}", self.client, self.at)
    }
}

/// The deaths that a case asks for.
pub fn of(case: &Case) -> Vec<Death> {
    let list = case.options.get(AT).map_or("", String::as_str);
    list.split(',').filter_map(Death::parse).collect()
}

/// The case with these deaths and no others.
pub fn with(case: &Case, deaths: &[Death]) -> Case {
    let list: Vec<String> = deaths.iter().map(Death::to_string).collect();
    let list = match list.is_empty() {
        true => NONE.to_owned(),
        false => list.join(", "),
    };
    let mut case = case.clone();
    case.options.insert(AT.to_owned(), list);
    case
}

/// The deaths that happened in a run.
pub(super) fn happened(deaths: &[verdict::Death]) -> Vec<Death> {
    let parse = |death: &verdict::Death| Death::parse(&death.moment);
    deaths.iter().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_lists_its_deaths_or_says_that_there_are_none() {
        let list: Vec<Death> = ["2:40", "0:3+"]
            .iter()
            .filter_map(|text| Death::parse(text))
            .collect();
        let listed = with(&Case::default(), &list);
        assert_eq!(listed.options[AT], "2:40, 0:3+");
        assert_eq!(of(&listed), list);
        assert_eq!(
            list[1].clause(),
            "client 0 dies when its await 3 would go on"
        );
        let none = with(&listed, &[]);
        assert_eq!(none.options[AT], "none");
        assert_eq!(of(&none), []);
    }
}
