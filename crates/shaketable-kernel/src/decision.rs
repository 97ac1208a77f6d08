//! Decisions: what chance decides in a run, by name, and what a run is told to do instead.
//!
//! A run takes two sorts of chances. Most only shape it: how long a message takes, which replica is
//! asked first. They belong to [named streams](crate::Stream) and have no names of their own; a
//! stream can be given another seed, from the beginning or [from a moment on](Reseed). The others
//! are *events*: a connection breaks, a machine dies, a buggified place strikes, a knob takes its
//! nasty value. Each of those is a decision, with a name that says what it is about, where, and
//! which time of many:
//!
//! ```text
//! Attrition/kill 3                                     the third kill of that fault workload
//! connection/tester 2→server 0.1 412: closes           at the 412th message from one to the other
//! lost message/server 0.1→tester 2 398                 the 398th message, lost with its connection
//! commit/tester 2 41: its reply is lost                the 41st commit of that client
//! buggify client shortens a range read/tester 2 12     the twelfth visit of the place there
//! knob/default_backoff: 0.42
//! cluster/machines: 5
//! ```
//!
//! That is `GROUP/PLACE NUMBER: OUTCOME`. A name counts *visits*, not strikes, and it counts them
//! by place, because the point of a name is to mean the same thing in a run that differs. If an
//! earlier decision is dropped, the rest of the run takes another course: other messages are sent
//! at other moments. A count over the whole cluster would then point anywhere. The count on one
//! connection still points to about the same conversation.
//!
//! [`Overrides`] say what becomes of decisions. Three promises hold for them:
//!
//! * **Dropping a decision leaves the draws of all others as they were.** The streams are drawn
//!   from as if it had happened; only its effect is left out.
//! * **A forced decision needs no luck.** Once its place has been visited often enough, it happens,
//!   whatever the stream says there, and draws nothing from it. So the decisions that a run needs
//!   can be listed, everything else can be switched off, and the list still means what it says.
//! * **A listed decision that never comes up is reported** by [`Kernel::unmet_overrides`], and so
//!   is another seed for streams that do not exist, or from a moment on that never comes: a list
//!   that no longer fits the code must not look like a run in which all is well.
//!
//! The kernel neither knows what a group means nor how to make its outcome happen. The code that
//! draws asks [`Kernel::decide`], and an outcome arises where it would arise by chance. While there
//! are no overrides and no list is wanted, that question costs one comparison.
//!
//! What becomes of one operation of a client is not for chance to decide by name, because many
//! chances have a part in it. But it can be [forced](Kernel::forced): the operation is visited when
//! it is asked for, and what carries it out says when the outcome [happens](Kernel::happens). The
//! groups of operations are others than those of events.

use crate::kernel::Kernel;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

/// The name of a decision, or of a group of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DecisionName {
    /// What it is about: a fault workload, a buggified place, connections.
    pub group: String,
    /// Where; `None` for the group as a whole.
    pub place: Option<String>,
    /// Which visit of that place, from 1; `None` where there is only one.
    pub number: Option<u64>,
}

impl DecisionName {
    /// Reads `GROUP`, `GROUP/PLACE` or `GROUP/PLACE NUMBER`, each with or without `: OUTCOME`;
    /// returns the name and the outcome.
    pub fn parse(text: &str) -> (DecisionName, Option<String>) {
        let (name, outcome) = match text.split_once(": ") {
            Some((name, outcome)) => (name, Some(outcome.trim().to_owned())),
            None => (text, None),
        };
        let name = name.trim();
        let Some((group, place)) = name.split_once('/') else {
            let group = DecisionName {
                group: name.to_owned(),
                place: None,
                number: None,
            };
            return (group, outcome);
        };
        let counted = place.rsplit_once(' ');
        let counted = counted.and_then(|(place, number)| Some((place, number.parse().ok()?)));
        let (place, number) = match counted {
            Some((place, number)) => (place, Some(number)),
            None => (place, None),
        };
        let name = DecisionName {
            group: group.to_owned(),
            place: Some(place.to_owned()),
            number,
        };
        (name, outcome)
    }
}

impl fmt::Display for DecisionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.group)?;
        if let Some(place) = &self.place {
            write!(f, "/{place}")?;
        }
        if let Some(number) = self.number {
            write!(f, " {number}")?;
        }
        Ok(())
    }
}

/// What a run is told about its decisions. Names are written as in the essay above.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// If set, only these happen. A decision is forced; a group is left to chance.
    pub only: Option<Vec<String>>,
    /// Decisions and groups that do not happen.
    pub drop: Vec<String>,
    /// Decisions that happen whatever chance says.
    pub force: Vec<String>,
    /// Streams that get another seed.
    pub reseed: Vec<Reseed>,
}

impl Overrides {
    /// Whether a run with them is the same as one without.
    pub fn is_empty(&self) -> bool {
        *self == Overrides::default()
    }
}

/// Another seed for some streams.
#[derive(Clone, Debug, PartialEq)]
pub struct Reseed {
    /// The beginning of the streams' names; all streams if it is empty.
    pub streams: String,
    /// The seed.
    pub seed: u64,
    /// From which moment on, in simulated seconds.
    pub from_seconds: f64,
}

/// A decision that was taken: chance or an override said that something should happen.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Its name.
    pub name: DecisionName,
    /// What happened, if there is more than one possibility.
    pub outcome: Option<String>,
    /// When.
    pub time: Time,
    /// Whether it happened: a dropped decision did not.
    pub happened: bool,
    /// Whether chance alone decided it.
    pub by_chance: bool,
}

/// An outcome that an override wants. It has come up when it [happens](Kernel::happens).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forced {
    /// The decision.
    pub name: DecisionName,
    /// What should happen.
    pub outcome: String,
}

/// What an override says about one decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    AsDrawn,
    /// It does not happen.
    Dropped,
    /// It happens, with this outcome if one was given.
    Forced(Option<String>),
}

/// Which events happen, of those that chance says should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    /// All of them.
    AsDrawn,
    /// None of them, and nothing is listed.
    Never,
    /// That depends on their names, or they are listed by them.
    ByName,
}

/// The decisions of one run.
#[derive(Default)]
pub(crate) struct Decisions {
    overrides: Compiled,
    /// Nobody reads what was taken.
    is_unread: bool,
    taken: Vec<Decision>,
    /// How often each place was visited, by group and place.
    visits: BTreeMap<String, BTreeMap<String, u64>>,
    /// What of the overrides has come up.
    met: BTreeSet<DecisionName>,
    /// Other seeds whose moment has not come.
    reseeds_to_come: Vec<Reseed>,
    /// The beginnings of the names of streams that were given another seed.
    reseeded: BTreeSet<String>,
    /// Called where an operation can have its outcome forced, until it returns one.
    watcher: Option<Rc<Watcher>>,
}

/// Returns the outcome to force at a place that is being visited.
type Watcher = dyn Fn(&DecisionName) -> Option<String>;

/// [`Overrides`], for looking up.
#[derive(Default)]
struct Compiled {
    /// Whether what is not listed is dropped.
    only: bool,
    /// Whether a name was listed when the run began: what a watcher forces later does not count.
    names_any: bool,
    /// Groups that are left to chance.
    open: BTreeSet<String>,
    dropped: BTreeSet<DecisionName>,
    forced: BTreeMap<DecisionName, Option<String>>,
    /// The groups with forced decisions, and their numbers: the shortcut for what is drawn with
    /// every message.
    forced_numbers: BTreeMap<String, BTreeSet<Option<u64>>>,
}

impl Compiled {
    fn new(overrides: &Overrides) -> Compiled {
        let mut compiled = Compiled {
            only: overrides.only.is_some(),
            ..Compiled::default()
        };
        let only = overrides.only.iter().flatten();
        for text in only.chain(&overrides.force) {
            let (name, outcome) = DecisionName::parse(text);
            if name.place.is_none() {
                compiled.open.insert(name.group);
                continue;
            }
            compiled.force(name, outcome);
        }
        let dropped = overrides
            .drop
            .iter()
            .map(|text| DecisionName::parse(text).0);
        compiled.dropped = dropped.collect();
        compiled.names_any = !compiled.is_empty();
        compiled
    }

    fn force(&mut self, name: DecisionName, outcome: Option<String>) {
        let numbers = self.forced_numbers.entry(name.group.clone()).or_default();
        numbers.insert(name.number);
        self.forced.insert(name, outcome);
    }

    fn verdict(&self, name: &DecisionName) -> Verdict {
        match self.verdict_by_name(name) {
            Verdict::AsDrawn if self.only && !self.open.contains(&name.group) => Verdict::Dropped,
            verdict => verdict,
        }
    }

    /// What is said about a decision by its name or that of its group.
    fn verdict_by_name(&self, name: &DecisionName) -> Verdict {
        if self.forced.is_empty() && self.dropped.is_empty() {
            return Verdict::AsDrawn;
        }
        if let Some(outcome) = self.forced.get(name) {
            return Verdict::Forced(outcome.clone());
        }
        if self.dropped.contains(name) || self.dropped.contains(&group_name(&name.group)) {
            return Verdict::Dropped;
        }
        Verdict::AsDrawn
    }

    /// The values that are forced in a group, by place.
    fn values_of(&self, group: &str) -> Vec<(String, String)> {
        let of_group = self.forced.iter().filter(|(name, _)| name.group == group);
        let values = of_group.filter(|(name, _)| name.number.is_none());
        values
            .filter_map(|(name, value)| Some((name.place.clone()?, value.clone()?)))
            .collect()
    }

    /// Whether they list no name.
    fn is_empty(&self) -> bool {
        self.open.is_empty() && self.forced.is_empty() && self.dropped.is_empty()
    }

    /// Every name that the overrides list.
    fn listed(&self) -> impl Iterator<Item = DecisionName> {
        let open = self.open.iter().map(|group| group_name(group));
        let single = self.forced.keys().chain(&self.dropped).cloned();
        open.chain(single)
    }
}

/// Reads an outcome of the form `for 1.5 s`.
fn parse_seconds(outcome: &str) -> Option<f64> {
    outcome
        .strip_prefix("for ")?
        .strip_suffix(" s")?
        .parse()
        .ok()
}

fn group_name(group: &str) -> DecisionName {
    DecisionName {
        group: group.to_owned(),
        place: None,
        number: None,
    }
}

impl Decisions {
    /// Counts a visit.
    fn visit(&mut self, group: &str, place: &str) -> u64 {
        if !self.visits.contains_key(group) {
            self.visits.insert(group.to_owned(), BTreeMap::new());
        }
        let places = self.visits.get_mut(group).expect("it is there now");
        match places.get_mut(place) {
            Some(visits) => {
                *visits += 1;
                *visits
            }
            None => {
                places.insert(place.to_owned(), 1);
                1
            }
        }
    }

    /// Counts a visit and names it.
    fn visited(&mut self, group: String, place: String) -> DecisionName {
        let number = Some(self.visit(&group, &place));
        DecisionName {
            group,
            place: Some(place),
            number,
        }
    }

    /// Whether a decision that chance has not taken can be left out without another look.
    pub(crate) fn is_unforced(&self, group: &str, number: Option<u64>) -> bool {
        let forced = self.overrides.forced_numbers.get(group);
        forced.is_none_or(|numbers| !numbers.contains(&number))
    }

    /// What becomes of all decisions of a group, if they need not be counted: none of them has a
    /// name in the overrides, and nobody reads the list.
    fn verdict_on_all(&self, group: &str) -> Option<Verdict> {
        let Compiled {
            only,
            open,
            dropped,
            forced_numbers,
            ..
        } = &self.overrides;
        let is_named = !dropped.is_empty() || forced_numbers.contains_key(group);
        if !self.is_unread || is_named || open.contains(group) {
            return None;
        }
        Some(match only {
            true => Verdict::Dropped,
            false => Verdict::AsDrawn,
        })
    }

    /// What becomes of a decision; `drawn` is the outcome by chance, if it was taken.
    pub(crate) fn judge(
        &mut self,
        name: DecisionName,
        drawn: Option<String>,
        time: Time,
    ) -> Verdict {
        let verdict = self.overrides.verdict(&name);
        self.note(name, drawn, time, verdict)
    }

    /// Notes that a name has come up, if overrides list any: a run that only lists its decisions
    /// meets thousands, and is never asked which.
    fn meet(&mut self, name: impl FnOnce() -> DecisionName) {
        if !self.overrides.is_empty() {
            self.met.insert(name());
        }
    }

    /// Lists a decision with what became of it.
    fn note(
        &mut self,
        name: DecisionName,
        drawn: Option<String>,
        time: Time,
        verdict: Verdict,
    ) -> Verdict {
        self.meet(|| group_name(&name.group));
        let (happened, outcome) = match &verdict {
            Verdict::AsDrawn => (drawn.is_some(), drawn.clone()),
            Verdict::Dropped => (false, drawn.clone()),
            Verdict::Forced(outcome) => (true, outcome.clone().or(drawn.clone())),
        };
        if drawn.is_some() || happened {
            self.meet(|| name.clone());
            self.taken.push(Decision {
                name,
                outcome: outcome.filter(|outcome| !outcome.is_empty()),
                time,
                happened,
                by_chance: happened && drawn.is_some() && verdict == Verdict::AsDrawn,
            });
        }
        verdict
    }
}

impl Kernel {
    /// Lists the decisions of this run from now on; see [`Kernel::decisions`].
    pub fn list_decisions(&self) {
        self.0.deciding.set(true);
        self.note_what_has_names();
    }

    /// Nobody will ask for the decisions of this run: those without a name in the overrides are not
    /// counted, which takes a seventh of the time of a run.
    pub fn leave_decisions_unread(&self) {
        self.0.decisions.borrow_mut().is_unread = true;
        self.note_what_has_names();
    }

    /// Works out for which decisions their names matter, so that others pay one comparison.
    fn note_what_has_names(&self) {
        let decisions = self.0.decisions.borrow();
        let Compiled {
            only, names_any, ..
        } = decisions.overrides;
        self.0.events_happen.set(match () {
            () if !self.is_deciding() => Happening::AsDrawn,
            () if names_any || !decisions.is_unread => Happening::ByName,
            () if only => Happening::Never,
            () => Happening::AsDrawn,
        });
        let naming_operations = names_any || decisions.watcher.is_some();
        self.0.naming_operations.set(naming_operations);
    }

    /// Sets what becomes of decisions. Call it before anything is drawn.
    pub fn set_overrides(&self, overrides: &Overrides) {
        if overrides.is_empty() {
            return;
        }
        self.0.decisions.borrow_mut().overrides = Compiled::new(overrides);
        self.list_decisions();
        for reseed in &overrides.reseed {
            if reseed.from_seconds <= self.now().as_secs() {
                self.reseed_as_told(reseed);
                continue;
            }
            let reseed = reseed.clone();
            let mut decisions = self.0.decisions.borrow_mut();
            decisions.reseeds_to_come.push(reseed.clone());
            drop(decisions);
            self.call_at(Time::from_secs(reseed.from_seconds), move |kernel| {
                kernel.reseed_as_told(&reseed);
            });
        }
    }

    fn reseed_as_told(&self, reseed: &Reseed) {
        self.reseed_streams(&reseed.streams, reseed.seed);
        let mut decisions = self.0.decisions.borrow_mut();
        decisions.reseeds_to_come.retain(|other| other != reseed);
        decisions.reseeded.insert(reseed.streams.clone());
    }

    /// Whether decisions are listed or overridden in this run.
    #[inline]
    pub fn is_deciding(&self) -> bool {
        self.0.deciding.get()
    }

    /// Whether it matters what events are called: they are listed, or some of them overridden.
    #[inline]
    pub fn names_events(&self) -> bool {
        self.events_happen() == Happening::ByName
    }

    #[inline]
    pub(crate) fn events_happen(&self) -> Happening {
        self.0.events_happen.get()
    }

    /// Whether something happens, given what chance says. `name` returns the group and the place;
    /// it is called only if that matters.
    #[inline]
    pub fn decide(&self, drawn: bool, name: impl FnOnce() -> (String, String)) -> bool {
        match self.events_happen() {
            Happening::AsDrawn => drawn,
            Happening::Never => false,
            Happening::ByName => self.decide_slowly(drawn, name),
        }
    }

    #[cold]
    fn decide_slowly(&self, drawn: bool, name: impl FnOnce() -> (String, String)) -> bool {
        let (group, place) = name();
        let mut decisions = self.0.decisions.borrow_mut();
        let verdict = decisions.verdict_on_all(&group).unwrap_or_else(|| {
            let name = decisions.visited(group, place);
            decisions.judge(name, drawn.then(String::new), self.now())
        });
        match verdict {
            Verdict::AsDrawn => drawn,
            Verdict::Dropped => false,
            Verdict::Forced(_) => true,
        }
    }

    /// For how many seconds something lasts, given what chance says. If it is forced where chance
    /// would not have it, it lasts for as long as the override says, or else for `longest`.
    pub fn decide_seconds(
        &self,
        drawn: Option<f64>,
        longest: f64,
        name: impl FnOnce() -> (String, String),
    ) -> Option<f64> {
        match self.events_happen() {
            Happening::AsDrawn => return drawn,
            Happening::Never => return None,
            Happening::ByName => {}
        }
        let (group, place) = name();
        let mut decisions = self.0.decisions.borrow_mut();
        let verdict = decisions.verdict_on_all(&group).unwrap_or_else(|| {
            let name = decisions.visited(group, place);
            let outcome = drawn.map(|seconds| format!("for {seconds} s"));
            decisions.judge(name, outcome, self.now())
        });
        match verdict {
            Verdict::AsDrawn => drawn,
            Verdict::Dropped => None,
            Verdict::Forced(outcome) => {
                let seconds = outcome.as_deref().and_then(parse_seconds);
                Some(seconds.or(drawn).unwrap_or(longest))
            }
        }
    }

    /// What becomes of a value that chance has chosen, where there is only one visit: the value, or
    /// another, or `None` if it is dropped.
    pub fn decide_value(&self, group: &str, place: &str, drawn: String) -> Option<String> {
        if !self.is_deciding() {
            return Some(drawn);
        }
        let name = DecisionName {
            group: group.to_owned(),
            place: Some(place.to_owned()),
            number: None,
        };
        let mut decisions = self.0.decisions.borrow_mut();
        match decisions.judge(name, Some(drawn.clone()), self.now()) {
            Verdict::AsDrawn => Some(drawn),
            Verdict::Dropped => None,
            Verdict::Forced(value) => Some(value.unwrap_or(drawn)),
        }
    }

    /// What becomes of values that chance has chosen, each by the name of its place: those that are
    /// not dropped, and those that are forced where chance has chosen none.
    pub fn decide_values(
        &self,
        group: &str,
        drawn: Vec<(String, String)>,
    ) -> Vec<(String, String)> {
        if !self.is_deciding() {
            return drawn;
        }
        let mut decisions = self.0.decisions.borrow_mut();
        decisions.meet(|| group_name(group));
        let mut forced = decisions.overrides.values_of(group);
        drop(decisions);
        let mut values = Vec::new();
        for (place, value) in drawn {
            forced.retain(|(other, _)| *other != place);
            let value = self.decide_value(group, &place, value);
            values.extend(value.map(|value| (place, value)));
        }
        for (place, value) in forced {
            let name = DecisionName {
                group: group.to_owned(),
                place: Some(place.clone()),
                number: None,
            };
            let mut decisions = self.0.decisions.borrow_mut();
            decisions.judge(name, None, self.now());
            values.push((place, value));
        }
        values
    }

    /// Visits a place where chance takes no decision by name, and returns the outcome that an
    /// override wants there.
    pub fn forced(&self, name: impl FnOnce() -> (String, String)) -> Option<Forced> {
        if !self.0.naming_operations.get() {
            return None;
        }
        let (group, place) = name();
        let mut decisions = self.0.decisions.borrow_mut();
        let name = decisions.visited(group, place);
        let watcher = decisions.watcher.clone();
        if watcher.is_none() && decisions.is_unforced(&name.group, name.number) {
            return None;
        }
        if let Some(outcome) = decisions.overrides.forced.get(&name) {
            let outcome = outcome.clone()?;
            return Some(Forced { name, outcome });
        }
        drop(decisions);
        let outcome = watcher?(&name)?;
        let mut decisions = self.0.decisions.borrow_mut();
        decisions.watcher = None;
        let overrides = &mut decisions.overrides;
        overrides.force(name.clone(), Some(outcome.clone()));
        drop(decisions);
        self.note_what_has_names();
        Some(Forced { name, outcome })
    }

    /// Has `watcher` called when a place of that kind is visited, until it returns an outcome,
    /// which is forced there and then. Decisions must be [listed](Kernel::list_decisions) or
    /// overridden for that.
    pub fn watch_visits(&self, watcher: impl Fn(&DecisionName) -> Option<String> + 'static) {
        self.0.decisions.borrow_mut().watcher = Some(Rc::new(watcher));
        self.note_what_has_names();
    }

    /// A forced outcome happens now.
    pub fn happens(&self, forced: &Forced) {
        let mut decisions = self.0.decisions.borrow_mut();
        decisions.judge(forced.name.clone(), None, self.now());
    }

    /// What becomes of a number that chance has chosen for something that must have one: the
    /// number, another, or the smallest if it is dropped. A list of all that happens says nothing
    /// about it: a run needs a cluster of some shape.
    pub fn decide_number(&self, group: &str, place: &str, drawn: usize, smallest: usize) -> usize {
        if !self.is_deciding() {
            return drawn;
        }
        let name = DecisionName {
            group: group.to_owned(),
            place: Some(place.to_owned()),
            number: None,
        };
        let mut decisions = self.0.decisions.borrow_mut();
        let verdict = decisions.overrides.verdict_by_name(&name);
        match decisions.note(name, Some(drawn.to_string()), self.now(), verdict) {
            Verdict::AsDrawn => drawn,
            Verdict::Dropped => smallest,
            Verdict::Forced(number) => {
                let number = number.and_then(|number| number.parse().ok());
                number.unwrap_or(drawn).max(smallest)
            }
        }
    }

    /// Whether anything of a group can happen in this run. It counts as coming up.
    pub fn can_happen(&self, group: &str) -> bool {
        if !self.is_deciding() {
            return true;
        }
        let mut decisions = self.0.decisions.borrow_mut();
        decisions.meet(|| group_name(group));
        let overrides = &decisions.overrides;
        let forced = overrides.forced_numbers.contains_key(group);
        let closed = overrides.only && !overrides.open.contains(group);
        forced || !closed && !overrides.dropped.contains(&group_name(group))
    }

    /// The decisions taken so far, in their order, if they are listed.
    pub fn decisions(&self) -> Vec<Decision> {
        self.0.decisions.borrow().taken.clone()
    }

    /// What the overrides list and has not come up: names of decisions, and other seeds.
    pub fn unmet_overrides(&self) -> Vec<String> {
        let decisions = self.0.decisions.borrow();
        let listed = decisions.overrides.listed();
        let unmet = listed.filter(|name| !decisions.met.contains(name));
        let unmet = unmet.map(|name| name.to_string());
        let late = decisions.reseeds_to_come.iter();
        let late = late.map(|reseed| format!("reseed from {} s", reseed.from_seconds));
        let drawn = self.streams_drawn_from();
        let of_none = decisions.reseeded.iter().filter(|streams| {
            let mut names = drawn.iter().map(|(name, _)| name);
            !names.any(|name| name.starts_with(&***streams))
        });
        let of_none = of_none.map(|streams| format!("reseed of {streams}"));
        unmet.chain(late).chain(of_none).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overrides(only: Option<&[&str]>, drop: &[&str], force: &[&str]) -> Overrides {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Overrides {
            only: only.map(texts),
            drop: texts(drop),
            force: texts(force),
            reseed: Vec::new(),
        }
    }

    /// Visits two places six times each; chance says yes on every second visit. Returns what
    /// happened at each.
    fn visit(kernel: &Kernel) -> [Vec<u64>; 2] {
        let mut happened = [vec![], vec![]];
        for number in 1..=6 {
            for (index, place) in ["a", "b"].into_iter().enumerate() {
                let drawn = number % 2 == 0;
                if kernel.decide(drawn, || ("site".into(), place.into())) {
                    happened[index].push(number);
                }
            }
        }
        happened
    }

    fn visited_under(overrides: &Overrides) -> [Vec<u64>; 2] {
        let kernel = Kernel::simulation(1);
        kernel.set_overrides(overrides);
        let happened = visit(&kernel);
        assert_eq!(kernel.unmet_overrides(), Vec::<String>::new());
        happened
    }

    #[test]
    fn a_name_survives_being_written_and_read() {
        for (text, outcome) in [
            ("Attrition", None),
            ("Attrition/kill 3", None),
            ("connection/tester 2→server 0.1 412", Some("closes")),
            ("knob/default_backoff", Some("0.42")),
        ] {
            let written = match outcome {
                Some(outcome) => format!("{text}: {outcome}"),
                None => text.to_owned(),
            };
            let (name, read) = DecisionName::parse(&written);
            assert_eq!(
                (name.to_string().as_str(), read.as_deref()),
                (text, outcome)
            );
        }
        let (name, _) = DecisionName::parse("connection/tester 2→server 0.1 412");
        assert_eq!(name.place.as_deref(), Some("tester 2→server 0.1"));
        assert_eq!(name.number, Some(412));
    }

    #[test]
    fn without_overrides_chance_decides_and_nothing_is_listed() {
        let kernel = Kernel::simulation(1);
        assert_eq!(visit(&kernel), [vec![2, 4, 6], vec![2, 4, 6]]);
        assert_eq!(kernel.decisions(), []);
    }

    #[test]
    fn a_list_names_what_chance_decided() {
        let kernel = Kernel::simulation(1);
        kernel.list_decisions();
        visit(&kernel);
        let names: Vec<String> = kernel
            .decisions()
            .iter()
            .map(|decision| decision.name.to_string())
            .collect();
        let expected = [
            "site/a 2", "site/b 2", "site/a 4", "site/b 4", "site/a 6", "site/b 6",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn decisions_and_groups_can_be_dropped_forced_and_singled_out() {
        let all = || vec![2, 4, 6];
        let dropped = visited_under(&overrides(None, &["site/a 4"], &[]));
        assert_eq!(dropped, [vec![2, 6], all()]);
        let none = visited_under(&overrides(None, &["site"], &[]));
        assert_eq!(none, [vec![], vec![]]);
        let forced = visited_under(&overrides(None, &[], &["site/b 3"]));
        assert_eq!(forced, [all(), vec![2, 3, 4, 6]]);
        let only = visited_under(&overrides(Some(&["site/b 3", "site/a 6"]), &[], &[]));
        assert_eq!(only, [vec![6], vec![3]]);
        let group = visited_under(&overrides(Some(&["site"]), &["site/b 6"], &[]));
        assert_eq!(group, [all(), vec![2, 4]]);
    }

    #[test]
    fn what_is_listed_but_never_comes_up_is_reported() {
        let kernel = Kernel::simulation(1);
        let names = ["site/a 7", "site/c 1", "other", "site/a 2"];
        kernel.set_overrides(&overrides(Some(&names), &["site/a 3"], &[]));
        visit(&kernel);
        let unmet = ["other", "site/a 7", "site/c 1", "site/a 3"];
        assert_eq!(kernel.unmet_overrides(), unmet);
    }

    #[test]
    fn an_outcome_is_forced_by_its_number_and_has_come_up_when_it_happens() {
        let kernel = Kernel::simulation(1);
        kernel.set_overrides(&overrides(Some(&["commit/a 2: lost"]), &[], &[]));
        let ask = |place: &str| kernel.forced(|| ("commit".into(), place.into()));
        assert_eq!([ask("a"), ask("b"), ask("b")], [None, None, None]);
        let forced = ask("a").expect("it is the second visit");
        assert_eq!(forced.outcome, "lost");
        assert_eq!(kernel.unmet_overrides(), ["commit/a 2"]);
        kernel.happens(&forced);
        assert_eq!(kernel.unmet_overrides(), Vec::<String>::new());
        let [taken] = &kernel.decisions()[..] else {
            panic!("one decision was taken");
        };
        assert!(taken.happened && !taken.by_chance);
        assert_eq!(taken.outcome.as_deref(), Some("lost"));
    }

    #[test]
    fn decisions_that_nobody_reads_are_the_same() {
        for overrides in [
            overrides(None, &[], &[]),
            overrides(None, &["site/a 4"], &[]),
            overrides(None, &[], &["site/b 3"]),
            overrides(Some(&[]), &[], &[]),
            overrides(Some(&["site/b 3"]), &[], &[]),
            overrides(Some(&["site"]), &[], &[]),
            overrides(Some(&["other/a 1"]), &[], &[]),
        ] {
            let visited = |is_unread: bool| {
                let kernel = Kernel::simulation(1);
                kernel.list_decisions();
                kernel.set_overrides(&overrides);
                if is_unread {
                    kernel.leave_decisions_unread();
                }
                let longest = kernel.decide_seconds(Some(2.5), 9.0, || ("site".into(), "c".into()));
                (visit(&kernel), longest, kernel.unmet_overrides())
            };
            assert_eq!(visited(true), visited(false), "{overrides:?}");
        }
    }

    #[test]
    fn a_watcher_forces_an_outcome_at_the_visit() {
        let kernel = Kernel::simulation(1);
        kernel.list_decisions();
        kernel.watch_visits(|name| (name.number == Some(2)).then(|| "lost".to_owned()));
        let ask = || kernel.forced(|| ("commit".into(), "a".into()));
        assert_eq!(ask(), None);
        let forced = ask().expect("it is the second visit");
        assert_eq!(kernel.unmet_overrides(), ["commit/a 2"]);
        kernel.happens(&forced);
        assert_eq!(kernel.unmet_overrides(), Vec::<String>::new());
        assert_eq!(ask(), None);
    }

    #[test]
    fn a_watcher_has_one_outcome_and_what_the_overrides_list_is_met_afterwards() {
        for (listed, expected) in [(None, None), (Some("commit/a 3: late"), Some("late"))] {
            let kernel = Kernel::simulation(1);
            kernel.set_overrides(&overrides(None, &[], listed.as_slice()));
            kernel.list_decisions();
            kernel.leave_decisions_unread();
            kernel.watch_visits(|_| Some("lost".to_owned()));
            let ask = || kernel.forced(|| ("commit".into(), "a".into()));
            let outcomes = [ask(), ask(), ask()].map(|forced| forced.map(|forced| forced.outcome));
            let expected = [Some("lost"), None, expected];
            assert_eq!(outcomes, expected.map(|outcome| outcome.map(str::to_owned)));
            // Events are as chance has them, named or not.
            assert_eq!(visit(&kernel), [vec![2, 4, 6], vec![2, 4, 6]]);
        }
    }

    #[test]
    fn a_value_can_be_kept_dropped_and_replaced() {
        let value = |only: Option<&[&str]>| {
            let kernel = Kernel::simulation(1);
            kernel.set_overrides(&overrides(only, &[], &[]));
            kernel.decide_value("knob", "patience", "5".into())
        };
        assert_eq!(value(None).as_deref(), Some("5"));
        assert_eq!(value(Some(&[])), None);
        assert_eq!(value(Some(&["knob/patience"])).as_deref(), Some("5"));
        assert_eq!(value(Some(&["knob/patience: 7"])).as_deref(), Some("7"));
        assert_eq!(value(Some(&["knob"])).as_deref(), Some("5"));
    }

    #[test]
    fn a_value_can_be_forced_where_chance_has_chosen_none() {
        let values = |only: Option<&[&str]>| {
            let kernel = Kernel::simulation(1);
            kernel.set_overrides(&overrides(only, &[], &[]));
            let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
            let values = kernel.decide_values("knob", vec![pair("patience", "5")]);
            let texts: Vec<String> = values.iter().map(|(n, v)| format!("{n}={v}")).collect();
            (texts.join(" "), kernel.unmet_overrides())
        };
        let is = |only, text: &str, unmet: &[&str]| {
            let (found, left) = values(only);
            assert_eq!(
                (found.as_str(), left),
                (text, unmet.iter().map(|one| (*one).to_owned()).collect())
            );
        };
        is(None, "patience=5", &[]);
        is(Some(&[]), "", &[]);
        is(Some(&["knob/haste: 3"]), "haste=3", &[]);
        is(Some(&["knob/haste: 3", "knob"]), "patience=5 haste=3", &[]);
        is(Some(&["knob/patience: 7"]), "patience=7", &[]);
        // Without a value there is nothing to force.
        is(Some(&["knob/haste"]), "", &["knob/haste"]);
    }

    #[test]
    fn another_seed_that_changes_nothing_is_reported() {
        let unmet = |streams: &str, from_seconds| {
            let kernel = Kernel::simulation(1);
            kernel.set_overrides(&Overrides {
                reseed: vec![Reseed {
                    streams: streams.to_owned(),
                    seed: 5,
                    from_seconds,
                }],
                ..Overrides::default()
            });
            kernel.stream("network").next_u64();
            kernel.block_on(kernel.sleep(2.0)).expect("time passes");
            kernel.unmet_overrides()
        };
        assert_eq!(unmet("", 0.0), [] as [&str; 0]);
        assert_eq!(unmet("net", 1.0), [] as [&str; 0]);
        assert_eq!(unmet("", 3.0), ["reseed from 3 s"]);
        assert_eq!(unmet("disc", 1.0), ["reseed of disc"]);
    }

    #[test]
    fn a_number_is_kept_replaced_or_as_small_as_can_be() {
        let number = |only: Option<&[&str]>, drop: &[&str]| {
            let kernel = Kernel::simulation(1);
            kernel.set_overrides(&overrides(only, drop, &[]));
            kernel.decide_number("cluster", "machines", 7, 3)
        };
        assert_eq!(number(None, &[]), 7);
        assert_eq!(number(Some(&[]), &[]), 7);
        assert_eq!(number(None, &["cluster"]), 3);
        assert_eq!(number(None, &["cluster/machines"]), 3);
        assert_eq!(number(Some(&["cluster/machines: 5"]), &[]), 5);
        assert_eq!(number(Some(&["cluster/machines: 1"]), &[]), 3);
    }

    #[test]
    fn streams_get_another_seed_from_a_moment_on() {
        let drawn = |reseed: &[(&str, u64, f64)]| {
            let kernel = Kernel::simulation(1);
            let reseed = reseed.iter().map(|(streams, seed, from)| Reseed {
                streams: (*streams).to_owned(),
                seed: *seed,
                from_seconds: *from,
            });
            kernel.set_overrides(&Overrides {
                reseed: reseed.collect(),
                ..Overrides::default()
            });
            let draw = |name: &str| kernel.stream(name).next_u64();
            let before = [draw("network"), draw("disk")];
            kernel.block_on(kernel.sleep(2.0)).expect("time passes");
            (before, [draw("network"), draw("disk"), draw("later")])
        };
        let (before, after) = drawn(&[]);
        assert_eq!(drawn(&[("", 5, 9.0)]), (before, after));
        let (changed_before, changed) = drawn(&[("", 5, 1.0)]);
        assert_eq!(changed_before, before);
        assert!(changed.iter().zip(after).all(|(new, old)| *new != old));
        let (other_before, other) = drawn(&[("network", 5, 0.0)]);
        assert!(other_before[0] != before[0] && other_before[1] == before[1]);
        assert!(other[0] != after[0] && other[1..] == after[1..]);
    }
}
