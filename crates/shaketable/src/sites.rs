//! Places in the code under test that are counted: assertions, marks and buggified places.
//!
//! A place is a `static` beside the code, found without any context. What happens there is counted
//! for the simulation's thread, and written to the trace when a phase ends and when the workload is
//! freed, so that the counts reach the report on either host. On a thread without a simulation
//! nothing is counted.
//!
//! A mark (`sometimes_each!`, `closest!`) also writes each value to the trace that is new in this
//! process, at once: a search wants to return to that moment. To a host that searches, assertions
//! tell the moment at which they hold for the first time.
//!
//! On Linux all places of a program stand in one section of it, so that those that are never
//! reached are known, too.

use crate::context::{Severity, WorkloadContext};
use crate::executor::queue::is_attached;
use crate::{details, draw};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

/// What a place is for.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The condition must hold each time.
    Always,
    /// The condition must hold once.
    Sometimes,
    /// A value is worth knowing each time it is new.
    SometimesEach,
    /// A distance is worth knowing each time it is the smallest so far.
    Closest,
    /// The place must be reached.
    Reachable,
    /// The place must not be reached.
    Unreachable,
    /// Something legal but rare may happen here.
    Buggify,
    /// Nothing; so that there is a list of places in every program.
    Nothing,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Always => "always",
            Kind::Sometimes => "sometimes",
            Kind::SometimesEach => "sometimes_each",
            Kind::Closest => "closest",
            Kind::Reachable => "reachable",
            Kind::Unreachable => "unreachable",
            Kind::Buggify => "buggify",
            Kind::Nothing => "",
        }
    }
}

/// One place.
#[doc(hidden)]
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    file: &'static str,
    line: u32,
    column: u32,
    kind: Kind,
    message: &'static str,
}

impl Site {
    #[doc(hidden)]
    pub const fn new(
        kind: Kind,
        message: &'static str,
        file: &'static str,
        line: u32,
        column: u32,
    ) -> Self {
        Site {
            file,
            line,
            column,
            kind,
            message,
        }
    }

    /// Counts, and returns whether this is the first violation, which is reported with its details.
    #[doc(hidden)]
    pub fn count(&'static self, held: bool) -> bool {
        if !is_attached() {
            return false;
        }
        let count = self.add(held);
        if held && count.held == 1 && matches!(self.kind, Kind::Sometimes | Kind::Reachable) {
            self.tell_first_time();
        }
        let must_hold = matches!(self.kind, Kind::Always | Kind::Unreachable);
        must_hold && !held && count.violations() == 1
    }

    /// Notes a value, and writes it to the trace if it is new.
    #[doc(hidden)]
    pub fn value(&'static self, value: &dyn std::fmt::Debug) {
        if !is_attached() {
            return;
        }
        self.add(true);
        let value = match format!("{value:?}") {
            long if long.len() > VALUE_BYTES_MAX => {
                long.chars().take(VALUE_BYTES_MAX / 4).collect()
            }
            value => value,
        };
        let is_new = MARKS.with_borrow_mut(|marks| {
            let values = &mut marks.entry(self.address()).or_default().values;
            values.len() < VALUES_MAX && values.insert(value.clone())
        });
        if is_new {
            self.mark(&value);
        }
    }

    /// Notes a distance, and writes it to the trace if it is the smallest so far.
    #[doc(hidden)]
    pub fn distance(&'static self, distance: impl Distance) {
        if !is_attached() {
            return;
        }
        self.add(true);
        let distance = distance.to_number();
        let is_closer = MARKS.with_borrow_mut(|marks| {
            let closest = &mut marks.entry(self.address()).or_default().closest;
            let is_closer = closest.map_or(!distance.is_nan(), |closest| distance < closest);
            if is_closer {
                *closest = Some(distance);
            }
            is_closer
        });
        if is_closer {
            self.mark(&distance.to_string());
        }
    }

    #[cold]
    fn mark(&'static self, value: &str) {
        if let Some(context) = WorkloadContext::current() {
            let details = details![
                "Kind" => self.kind.name(),
                "Message" => self.message,
                "Site" => self.place(),
                "Value" => value,
            ];
            context.trace(Severity::Info, "WorkloadMark", details);
        }
    }

    #[cold]
    fn tell_first_time(&'static self) {
        if let Some(context) = WorkloadContext::current() {
            context.tell_moment(&format!("{}: {}", self.place(), self.message));
        }
    }

    /// Reports the first violation.
    #[doc(hidden)]
    #[cold]
    pub fn fail<K: AsRef<str>, V: AsRef<str>>(&'static self, details: &[(K, V)]) {
        let Some(context) = WorkloadContext::current() else {
            return;
        };
        let place = self.place();
        let mut all = vec![
            ("Kind", self.kind.name()),
            ("Message", self.message),
            ("Site", &*place),
        ];
        all.extend(
            details
                .iter()
                .map(|(key, value)| (key.as_ref(), value.as_ref())),
        );
        context.trace(Severity::Error, "WorkloadAssertionFailed", &all);
    }

    /// Whether the buggified place fires this time.
    #[doc(hidden)]
    pub fn fires(&'static self, probability: f64) -> bool {
        if !is_attached() {
            return false;
        }
        let Some(context) = WorkloadContext::current() else {
            return false;
        };
        let drawn = self.draw(&context, probability);
        let fires = if context.asks_about_decisions() {
            context.decide(&self.name(), drawn == Some(true))
        } else {
            drawn == Some(true)
        };
        if drawn.is_some() || fires {
            self.add(fires);
        }
        fires
    }

    /// What chance says, if the place is active.
    fn draw(&'static self, context: &WorkloadContext, probability: f64) -> Option<bool> {
        if !context.is_buggified() {
            return None;
        }
        let shared = context.shared_random_number();
        let identity = self.identity();
        if !draw::chance(ACTIVE_PROBABILITY, draw::number(shared, &identity, &[])) {
            return None;
        }
        let before = COUNTS.with_borrow(|counts| {
            let known = counts.get(&self.address());
            known.map_or(0, |(_, count)| count.evaluations)
        });
        let words = [context.client_id() as u64, before];
        let number = draw::number(shared, &identity, &words);
        Some(draw::chance(probability, number))
    }

    /// Its name in that of a decision, which has a meaning for slashes and colons.
    fn name(&self) -> String {
        match self.message {
            "" => {
                let file = self.file.rsplit('/').next().unwrap_or_default();
                format!("{file}:{}:{}", self.line, self.column)
            }
            name => name.replace('/', "-").replace(": ", ":"),
        }
    }

    fn add(&'static self, held: bool) -> Count {
        COUNTS.with_borrow_mut(|counts| {
            let (_, count) = counts
                .entry(self.address())
                .or_insert((self, Count::default()));
            count.evaluations += 1;
            count.held += u64::from(held);
            *count
        })
    }

    fn address(&'static self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }

    /// What decides whether the place is active: its name, or where it is.
    fn identity(&self) -> String {
        match self.message {
            "" => format!("{}:{}:{}", self.file, self.line, self.column),
            name => name.to_owned(),
        }
    }
}

/// A number that can be a distance.
#[doc(hidden)]
pub trait Distance {
    fn to_number(self) -> f64;
}

macro_rules! distances {
    ($($number:ty),*) => {
        $(impl Distance for $number {
            fn to_number(self) -> f64 {
                self as f64
            }
        })*
    };
}

distances!(
    u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64
);

/// How many values of a mark are told apart.
const VALUES_MAX: usize = 10_000;
/// A longer value is cut.
const VALUE_BYTES_MAX: usize = 400;

/// What a mark has seen.
#[derive(Debug, Default)]
struct Marked {
    values: BTreeSet<String>,
    closest: Option<f64>,
}

/// FoundationDB's rule: in each run a quarter of the places is active.
const ACTIVE_PROBABILITY: f64 = 0.25;

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    evaluations: u64,
    held: u64,
    /// What was written to the trace before.
    told_evaluations: u64,
    told_held: u64,
}

impl Count {
    fn violations(&self) -> u64 {
        self.evaluations - self.held
    }
}

thread_local! {
    /// By address, because that is quick; they are sorted by place when they are written.
    static COUNTS: RefCell<BTreeMap<usize, (&'static Site, Count)>> =
        const { RefCell::new(BTreeMap::new()) };
    static MARKS: RefCell<BTreeMap<usize, Marked>> = const { RefCell::new(BTreeMap::new()) };
    static LISTED: Cell<bool> = const { Cell::new(false) };
}

/// Writes what was counted since the last call to the trace; the first time with all places that
/// were not reached yet.
pub(crate) fn tell(context: &WorkloadContext) {
    let mut news: Vec<(&'static Site, u64, u64)> = COUNTS.with_borrow_mut(|counts| {
        let changed = counts.values_mut().filter_map(|(site, count)| {
            let evaluations = count.evaluations - count.told_evaluations;
            let held = count.held - count.told_held;
            (count.told_evaluations, count.told_held) = (count.evaluations, count.held);
            (evaluations > 0).then_some((*site, evaluations, held))
        });
        changed.collect()
    });
    if !LISTED.replace(true) {
        let is_news = |site: &Site| news.iter().any(|(known, ..)| std::ptr::eq(*known, site));
        let unreached: Vec<_> = catalogue::all()
            .iter()
            .filter(|site| !matches!(site.kind, Kind::Nothing | Kind::Buggify) && !is_news(site))
            .map(|site| (*site, 0, 0))
            .collect();
        news.extend(unreached);
    }
    news.sort_unstable();
    for (site, evaluations, held) in news {
        if site.kind == Kind::Buggify {
            let details = details![
                "Name" => site.identity(),
                "Site" => site.place(),
                "Evaluated" => evaluations,
                "Fired" => held,
            ];
            context.trace(Severity::Info, "WorkloadBuggify", details);
        } else {
            let details = details![
                "Kind" => site.kind.name(),
                "Message" => site.message,
                "Site" => site.place(),
                "Held" => held,
                "Broken" => evaluations - held,
            ];
            context.trace(Severity::Info, "WorkloadAssertion", details);
        }
    }
}

#[cfg(target_os = "linux")]
mod catalogue {
    //! The places of this program, or of this library, as the linker put them side by side.

    use super::{Kind, Site};

    #[used]
    // SAFETY: the section is this crate's own, and holds nothing but references to places.
    #[unsafe(link_section = "shaketable_sites_v1")]
    static NOTHING: &Site = &Site::new(Kind::Nothing, "", "", 0, 0);

    unsafe extern "C" {
        /// Where the section begins, by the linker's word.
        #[link_name = "__start_shaketable_sites_v1"]
        static START: [usize; 0];
        /// Where it ends.
        #[link_name = "__stop_shaketable_sites_v1"]
        static STOP: [usize; 0];
    }

    pub(super) fn all() -> &'static [&'static Site] {
        // Without a reference the linker could leave the section out, and its ends with it.
        std::hint::black_box(&NOTHING);
        // SAFETY: the linker defines both for a section whose name is an identifier; between them
        // stand references to `static`s and nothing else, because `__site!` alone writes there, in
        // this version of the crate.
        unsafe {
            let start = (&raw const START).cast::<&'static Site>();
            let stop = (&raw const STOP).cast::<&'static Site>();
            std::slice::from_raw_parts(start, stop.offset_from_unsigned(start))
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod catalogue {
    //! Without a list of all places, only those that were reached are known.

    use super::Site;

    pub(super) fn all() -> &'static [&'static Site] {
        &[]
    }
}

#[doc(hidden)]
#[macro_export]
macro_rules! __site {
    ($kind:ident, $message:expr) => {{
        static SITE: $crate::internals::Site = $crate::internals::Site::new(
            $crate::internals::Kind::$kind,
            $message,
            ::core::file!(),
            ::core::line!(),
            ::core::column!(),
        );
        #[cfg(target_os = "linux")]
        #[used]
        // SAFETY: the section holds references to places and nothing else.
        #[unsafe(link_section = "shaketable_sites_v1")]
        static LISTED: &$crate::internals::Site = &SITE;
        &SITE
    }};
}
