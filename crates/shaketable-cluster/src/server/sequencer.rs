//! The sequencer (FoundationDB's master): the one order of commit batches.
//!
//! It gives every batch a version and the version before it, and it knows the newest version that
//! is durable on the logs. Versions follow the clock. A real cluster commits an empty batch every
//! two seconds so that read versions advance while nothing is written. Here an idle cluster does
//! nothing; when a read version is requested, the sequencer makes up the version that the latest
//! empty batch would have had. That is sound when no batch is under way: everything committed has a
//! smaller version, everything to come gets a greater one.

use crate::proto::Version;
use crate::server::messages::{
    CommitVersion, DatabaseState, GetCommitVersion, GetLiveCommitted, LiveCommitted,
    ReportCommitted,
};
use crate::server::role::{Role, WaitFailure};
use shaketable_kernel::{Endpoint, Time};
use std::cell::RefCell;
use std::rc::Rc;

/// The sequencer as other servers see it.
#[derive(Clone, Debug)]
pub struct SequencerInterface {
    /// Versions for batches.
    pub get_commit_version: Endpoint<GetCommitVersion>,
    /// What has become durable.
    pub report_committed: Endpoint<ReportCommitted>,
    /// The newest durable version.
    pub get_live_committed: Endpoint<GetLiveCommitted>,
    /// Breaks when the sequencer ends.
    pub failure: Endpoint<WaitFailure>,
}

struct Sequencer {
    role: Role,
    /// The version of the newest batch: the predecessor of the next one.
    batch: Version,
    /// The newest version assigned, to a batch or to a reader, and when.
    assigned: Version,
    assigned_at: Time,
    committed: Version,
    state: DatabaseState,
}

/// Starts a sequencer that continues after `version`.
pub fn start(role: &Role, version: Version, state: DatabaseState) -> SequencerInterface {
    let assigned_at = role.env().process().now();
    role.env().note_batches(false);
    let sequencer = Rc::new(RefCell::new(Sequencer {
        role: role.clone(),
        batch: version,
        assigned: version,
        assigned_at,
        committed: version,
        state,
    }));
    let [for_commit, for_report, for_live] = [(); 3].map(|()| sequencer.clone());
    SequencerInterface {
        get_commit_version: role.serve(move |GetCommitVersion, reply| {
            reply.send(for_commit.borrow_mut().next_version());
        }),
        report_committed: role.serve(move |report: ReportCommitted, reply| {
            let mut sequencer = for_report.borrow_mut();
            assert!(
                report.version <= sequencer.batch,
                "a batch has its version from here"
            );
            if report.version > sequencer.committed {
                sequencer.committed = report.version;
                sequencer.state = report.state;
                let under_way = sequencer.committed < sequencer.batch;
                sequencer.role.env().note_batches(under_way);
            }
            reply.send(());
        }),
        get_live_committed: role.serve(move |GetLiveCommitted, reply| {
            reply.send(for_live.borrow_mut().live_committed());
        }),
        failure: role.serve_failure(),
    }
}

impl Sequencer {
    fn next_version(&mut self) -> CommitVersion {
        let env = self.role.env();
        let now = env.process().now();
        let passed = now.since(self.assigned_at) * env.knobs().versions_per_second as f64;
        let step = if env.buggify("sequencer advances by one version") {
            1
        } else {
            passed as i64
        };
        self.assigned += step.max(1);
        self.assigned_at = now;
        let previous = std::mem::replace(&mut self.batch, self.assigned);
        assert!(previous < self.batch, "versions grow");
        env.note_batches(true);
        CommitVersion {
            previous,
            version: self.assigned,
        }
    }

    fn live_committed(&mut self) -> LiveCommitted {
        let knobs = self.role.env().knobs();
        let now = self.role.env().process().now();
        let idle = now.since(self.assigned_at);
        let interval = knobs.empty_batch_interval();
        let mut ahead_of_logs = false;
        if self.committed == self.assigned && idle > interval {
            // As if a batch had been committed every `interval` seconds since the last one.
            let batches = (idle / interval).floor();
            let passed = batches * interval;
            self.committed += (passed * knobs.versions_per_second as f64) as Version;
            self.assigned = self.committed;
            self.assigned_at = self.assigned_at.after(passed);
            ahead_of_logs = true;
        }
        assert!(self.committed <= self.assigned, "what is read was assigned");
        LiveCommitted {
            version: self.committed,
            state: self.state.clone(),
            ahead_of_logs,
        }
    }
}
