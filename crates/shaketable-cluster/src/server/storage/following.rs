//! Following the logs: how versions reach a storage server, and how some are undone.
//!
//! The server subscribes to one log of the current generation, which sends it every batch from the
//! version after its newest. When a generation begins, what it has not kept is rolled back first.
//! What is older than the window is on disk, and the logs are told that they need not keep it.

use super::{DISK_NAME, Storage};
use crate::proto::{MutationKind, Version};
use crate::server::messages::{
    LogUpdate, Payload, PopLog, Removed, ServerDbInfo, SubscribeLog, assert_unbroken,
};
use bytes::Bytes;
use shaketable_kernel::{First, first_of};
use std::rc::Rc;

/// How far the window may grow beyond its length before the old end is cut off, in versions.
const WINDOW_SLACK: Version = 5_000_000;

impl Storage {
    /// Follows the generations: rolls back what the last one has not kept, and subscribes to a log
    /// of the new one.
    pub(super) async fn subscribe_for_ever(self: Rc<Self>) {
        let here = self.role.env().process().clone();
        let mut choice = self.tag as usize;
        loop {
            let changed = self.info.on_change();
            let Some(info) = self.info.get() else {
                changed.await;
                continue;
            };
            if info.epoch > self.epoch.get() {
                self.begin_generation(&info);
            }
            let sink = self
                .sink
                .borrow()
                .clone()
                .expect("set before this task starts");
            let log = &info.logs[choice % info.logs.len()];
            let source = log.process;
            let after = self.disk.borrow().version;
            let subscription = here.request(
                &log.subscribe,
                SubscribeLog {
                    tag: self.tag,
                    after,
                    sink,
                },
            );
            let broken = first_of(subscription, self.resubscribe.notified());
            match first_of(changed, broken).await {
                First::Left(()) => {}
                First::Right(First::Left(Ok(Removed))) => return self.retire(),
                First::Right(_) => {
                    // Either the generation is over, or only this log or the connection to it.
                    let changed = self.info.on_change();
                    let _ = first_of(changed, here.sleep(0.1)).await;
                    // As in FoundationDB, a log that is merely silent is asked again; if it is
                    // dead, another one is chosen.
                    choice += usize::from(here.is_failed(source));
                }
            }
        }
    }

    /// Ends this server, which was taken off the list while it was away. A client that still knows
    /// it is refused from now on and looks up its shards again; before, the client would have
    /// waited here for versions that never come.
    fn retire(&self) {
        self.role.env().process().disk().remove(DISK_NAME);
        self.role.stop();
    }

    fn begin_generation(self: &Rc<Self>, info: &ServerDbInfo) {
        let mut disk = self.disk.borrow_mut();
        let beginnings = info.beginnings.iter();
        let missed = beginnings.filter(|beginning| beginning.epoch > disk.epoch);
        let kept = missed.map(|beginning| beginning.recovery_version).min();
        self.epoch.set(info.epoch);
        disk.epoch = info.epoch;
        if let Some(kept) = kept.filter(|kept| *kept < disk.version) {
            assert!(
                kept >= disk.known_committed,
                "a recovery at {kept} undoes {}, which was on all logs",
                disk.known_committed
            );
            disk.rollback(kept);
            drop(disk);
            // A watch may have been compared with a value that is now undone: it asks again.
            let undone = self.watches.take();
            drop(undone);
            self.fetches.borrow_mut().clear();
            self.start_fetches();
        }
    }

    pub(super) fn update(self: &Rc<Self>, update: LogUpdate) {
        if update.epoch != self.epoch.get() {
            return;
        }
        if let Some(first) = update.batches.first() {
            assert_unbroken(first.previous, &update.batches);
        }
        let version = {
            let mut disk = self.disk.borrow_mut();
            let mut watches = self.watches.borrow_mut();
            let mut shards_changed = false;
            for batch in update.batches {
                if batch.version <= disk.version {
                    continue;
                }
                // A new server holds nothing, so it has missed nothing before its first answer.
                let new = disk.version == 0 && update.first;
                if batch.previous > disk.version && !new {
                    // Something was lost on the way.
                    self.resubscribe.notify_all();
                    break;
                }
                for entry in &batch.entries {
                    if !entry.tags.contains(&self.tag) {
                        continue;
                    }
                    match &entry.payload {
                        Payload::Mutation(mutation) => {
                            disk.apply(batch.version, mutation);
                            if !watches.is_empty() {
                                let end = (mutation.kind == MutationKind::ClearRange)
                                    .then_some(&*mutation.param2);
                                watches.written(&mutation.param1, end);
                            }
                        }
                        Payload::Shard(change) => {
                            disk.change_shard(batch.version, change);
                            shards_changed = true;
                        }
                    }
                }
                disk.version = batch.version;
                self.applied_at.set(self.role.env().process().now());
            }
            disk.known_committed = update.known_committed.max(disk.known_committed);
            let version = disk.version;
            if !watches.is_empty() {
                if shards_changed {
                    watches.retain(|key| disk.served_around(key).is_some());
                }
                for watch in watches.fire(|key| disk.rows.latest(key).map(Bytes::copy_from_slice)) {
                    self.tell_change(watch, version);
                }
            }
            drop((disk, watches));
            if shards_changed {
                self.start_fetches();
            }
            version
        };
        let now = self.role.env().process().now();
        let knobs = self.role.env().knobs();
        let (moved, moved_at) = self.window.get();
        // A recovery moves past the whole window at once.
        let jumped = version - moved >= knobs.max_versions_in_flight;
        if jumped || now.since(moved_at) >= knobs.storage_commit_interval {
            self.window.set((version, now));
        }
        self.answer_held();
        self.far_behind_since.set(None);
        self.advanced.notify_all();
        self.answer_waiting(version);
        self.move_window();
    }

    /// Cuts off the old end of the window. Everything before it is on disk, so the logs need not
    /// keep it.
    fn move_window(&self) {
        let life = self.role.env().knobs().max_read_transaction_life_versions;
        let mut disk = self.disk.borrow_mut();
        let oldest = disk.version - life;
        if oldest - disk.rows.oldest() < WINDOW_SLACK {
            return;
        }
        disk.forget_before(oldest);
        assert!(
            disk.rows.oldest() <= disk.known_committed,
            "what is on disk is never undone"
        );
        let Some(info) = self.info.get() else { return };
        for log in info.logs.iter() {
            let pop = PopLog {
                tag: self.tag,
                upto: disk.rows.oldest(),
            };
            self.role.env().process().send(&log.pop, pop);
        }
    }
}
