//! The coordinators as another process sees them, and how a cluster gets others.
//!
//! A move has three steps. The state is installed on all new coordinators, where it does not count
//! yet: one that missed this could not be told later from one that has lost its disk. Then the old
//! ones write where it went: once a majority of them has, it counts there. Then the old ones
//! retire, which means that they send whoever asks them to their successors, and tell these.
//! Whoever reads the old ones after the second step finds it, and does the third: the one who began
//! may have died.
//!
//! A process remembers on its own disk which coordinators it heard of last, as in a cluster file.

use super::{
    Answer, Coordinate, CoreState, Entry, HasLeaderFailed, Quorum, ReadState, ReadStateReply,
    WriteState, coordinate_endpoint,
};
use crate::process::Process;
use shaketable_kernel::{AsyncVar, Disconnected, Endpoint, ProcessId, Request};
use std::rc::Rc;

/// The pause before another coordinator is asked, in seconds.
const ASK_AGAIN: f64 = 0.5;
/// Where a process remembers who coordinates.
pub(super) const CLUSTER_FILE: &str = "cluster file";

/// The coordinators, as far as one process knows.
#[derive(Clone)]
pub struct Coordinators {
    here: Process,
    known: AsyncVar<Rc<Quorum>>,
}

/// A higher ballot was seen, or a majority could not be reached.
#[derive(Debug)]
pub struct Outvoted;

impl Coordinators {
    /// Those that the process heard of last, or the first ones.
    pub fn new(here: &Process, first: &Rc<Quorum>) -> Coordinators {
        let remembered = here.disk().get::<Rc<Quorum>>(CLUSTER_FILE);
        let known = remembered.map_or_else(|| first.clone(), |quorum| (*quorum).clone());
        Coordinators {
            here: here.clone(),
            known: AsyncVar::new(known),
        }
    }

    /// The newest that the process has heard of.
    pub fn known(&self) -> Rc<Quorum> {
        self.known.get()
    }

    /// Remembers a quorum that counts, if it is news.
    pub fn learn(&self, quorum: &Rc<Quorum>) {
        if quorum.number > self.known().number {
            self.here.disk().put(CLUSTER_FILE, quorum.clone());
            self.known.replace(quorum.clone());
        }
    }

    /// Waits until the process is a coordinator, as far as it knows.
    pub async fn include_here(&self) {
        let here = self.here.id();
        self.known
            .wait_for(|quorum| quorum.processes.contains(&here))
            .await;
    }

    /// Takes as long as a freshly booted process needs to learn from a coordinator which process
    /// leads.
    pub async fn find_leader(&self) {
        for index in 0.. {
            let quorum = self.known();
            let coordinator = quorum.processes[index % quorum.processes.len()];
            match self.opinion(&quorum, coordinator).await {
                Ok(Answer::Serving(_)) => return,
                Ok(Answer::Retired(successor)) => self.learn(&successor),
                Err(_) => self.here.sleep(ASK_AGAIN).await,
            }
        }
    }

    fn opinion(
        &self,
        quorum: &Quorum,
        coordinator: ProcessId,
    ) -> impl Future<Output = Result<Answer<bool>, Disconnected>> + use<> {
        let endpoint = self
            .here
            .well_known_endpoint(coordinator, "coordinator opinion");
        let quorum = quorum.number;
        self.here.request(&endpoint, HasLeaderFailed { quorum })
    }

    /// Whether a majority has lost sight of the controller.
    pub async fn have_lost_leader(&self) -> bool {
        let quorum = self.known();
        let asked = quorum.processes.iter();
        let asked: Vec<_> = asked.map(|one| self.opinion(&quorum, *one)).collect();
        let mut votes = 0;
        for one in asked {
            match one.await {
                Ok(Answer::Serving(has_failed)) => votes += usize::from(has_failed),
                Ok(Answer::Retired(successor)) => self.learn(&successor),
                Err(_) => {}
            }
        }
        votes >= quorum.majority()
    }

    /// Asks all coordinators of a quorum, and returns what those say that serve.
    async fn ask<Q, T>(
        &self,
        quorum: &Quorum,
        name: &'static str,
        question: impl Fn() -> Q,
    ) -> Vec<T>
    where
        Q: Request<Reply = Answer<T>>,
        T: 'static,
    {
        let asked = quorum.processes.iter().map(|process| {
            let endpoint: Endpoint<Q> = self.here.well_known_endpoint(*process, name);
            self.here.request(&endpoint, question())
        });
        let asked: Vec<_> = asked.collect();
        let mut said = Vec::new();
        for one in asked {
            match one.await {
                Ok(Answer::Serving(answer)) => said.push(answer),
                Ok(Answer::Retired(successor)) => self.learn(&successor),
                Err(_) => {}
            }
        }
        said
    }

    /// Takes the right to write; returns the ballot and the newest state.
    pub async fn read(&self, at_least: u64) -> Result<(u64, Option<Rc<CoreState>>), Outvoted> {
        let mut ballot = at_least;
        loop {
            let quorum = self.known();
            let number = quorum.number;
            let question = || ReadState {
                quorum: number,
                ballot,
            };
            let replies: Vec<ReadStateReply> =
                self.ask(&quorum, "coordinator read", question).await;
            if self.known().number != number {
                continue;
            }
            if replies.len() < quorum.majority() {
                return Err(Outvoted);
            }
            if replies.iter().any(|reply| !reply.granted) {
                let highest = replies.iter().map(|reply| reply.promised).max();
                ballot = highest.unwrap_or(ballot) + 1;
                continue;
            }
            for reply in &replies {
                assert!(
                    reply.promised == ballot && reply.written < ballot,
                    "a granted ballot is the highest"
                );
            }
            // A state and where it went were written with the same ballot, and in this order.
            let newest = replies.into_iter().max_by_key(|reply| {
                let entry = reply.entry.as_ref();
                let has_moved = entry.is_some_and(|entry| entry.moved_to.is_some());
                (reply.written, has_moved)
            });
            let entry = newest.and_then(|reply| reply.entry);
            let Some(entry) = entry else {
                return Ok((ballot, None));
            };
            let Some(successor) = entry.moved_to else {
                return Ok((ballot, Some(entry.state)));
            };
            self.retire(&quorum, ballot, entry.state, &successor)
                .await?;
        }
    }

    /// Writes the state with a ballot that [`Coordinators::read`] returned.
    pub async fn write(&self, ballot: u64, state: Rc<CoreState>) -> Result<(), Outvoted> {
        state.assert_written_with(ballot);
        let entry = Entry {
            state,
            moved_to: None,
        };
        self.write_to(&self.known(), ballot, entry).await
    }

    async fn write_to(&self, quorum: &Quorum, ballot: u64, entry: Entry) -> Result<(), Outvoted> {
        let question = || WriteState {
            quorum: quorum.number,
            ballot,
            entry: entry.clone(),
        };
        let said = self.ask(quorum, "coordinator write", question).await;
        match said.into_iter().filter(|written| *written).count() {
            written if written >= quorum.majority() => Ok(()),
            _ => Err(Outvoted),
        }
    }

    /// Moves the state, which was last written with this ballot, to other coordinators. If this
    /// fails, the move may still come to pass: the next one who reads knows.
    pub async fn move_to(
        &self,
        ballot: u64,
        state: Rc<CoreState>,
        successor: &Rc<Quorum>,
    ) -> Result<(), Outvoted> {
        let install = || Coordinate::Install {
            quorum: successor.clone(),
            ballot,
            state: state.clone(),
        };
        let installed = ask_all(&self.here, &successor.processes, install);
        if installed.await < successor.processes.len() {
            return Err(Outvoted);
        }
        self.retire(&self.known(), ballot, state, successor).await
    }

    /// Makes the successor count, and the others retire.
    async fn retire(
        &self,
        quorum: &Quorum,
        ballot: u64,
        state: Rc<CoreState>,
        successor: &Rc<Quorum>,
    ) -> Result<(), Outvoted> {
        let entry = Entry {
            state,
            moved_to: Some(successor.clone()),
        };
        self.write_to(quorum, ballot, entry).await?;
        self.learn(successor);
        let retire = || Coordinate::Retire {
            quorum: quorum.number,
            successor: successor.clone(),
        };
        ask_all(&self.here, &quorum.processes, retire).await;
        Ok(())
    }

    /// Tells servers which quorum counts now; returns how many know.
    pub async fn tell(here: &Process, servers: &[ProcessId], quorum: &Rc<Quorum>) -> usize {
        ask_all(here, servers, || Coordinate::Learn(quorum.clone())).await
    }
}

/// Asks servers for something; returns how many did it.
async fn ask_all(here: &Process, servers: &[ProcessId], request: impl Fn() -> Coordinate) -> usize {
    let asked = servers.iter().map(|server| {
        let endpoint = coordinate_endpoint(here, *server);
        here.request(&endpoint, request())
    });
    let asked: Vec<_> = asked.collect();
    let mut done = 0;
    for one in asked {
        done += usize::from(one.await.is_ok());
    }
    done
}
