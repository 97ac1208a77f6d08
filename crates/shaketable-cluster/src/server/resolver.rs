//! The resolver: decides which transactions of a batch conflict.
//!
//! Batches are processed in version order, whatever order they arrive in. Besides verdicts, a
//! resolver passes the transactions that change metadata from proxy to proxy.

use crate::proto::Version;
use crate::server::conflict_set::{ConflictSet, Verdict};
use crate::server::messages::{Resolution, ResolveBatch, ResolvedState};
use crate::server::role::{Role, WaitFailure};
use shaketable_kernel::{Endpoint, Reply};
use std::collections::{BTreeMap, VecDeque};

/// A resolver as other servers see it.
#[derive(Clone, Debug)]
pub struct ResolverInterface {
    /// Verdicts.
    pub resolve: Endpoint<ResolveBatch>,
    /// Breaks when the resolver ends.
    pub failure: Endpoint<WaitFailure>,
}

struct Resolver {
    role: Role,
    version: Version,
    conflicts: ConflictSet,
    /// Batches whose predecessor has not arrived yet, by that predecessor's version.
    waiting: BTreeMap<Version, (ResolveBatch, Reply<Resolution>)>,
    state: VecDeque<StateBatch>,
    /// Up to where each proxy knows the state transactions of the others.
    received: Vec<Version>,
}

struct StateBatch {
    version: Version,
    proxy: usize,
    transactions: Vec<ResolvedState>,
}

/// Starts a resolver whose first batch follows `version`.
pub fn start(role: &Role, version: Version, proxies: usize) -> ResolverInterface {
    let mut resolver = Resolver {
        role: role.clone(),
        version,
        conflicts: ConflictSet::new(version),
        waiting: BTreeMap::new(),
        state: VecDeque::new(),
        received: vec![version; proxies],
    };
    ResolverInterface {
        resolve: role.serve(move |batch: ResolveBatch, reply| {
            if batch.previous != resolver.version {
                assert!(
                    batch.previous > resolver.version,
                    "a batch is resolved once"
                );
                resolver.waiting.insert(batch.previous, (batch, reply));
                return;
            }
            let mut next = Some((batch, reply));
            while let Some((batch, reply)) = next {
                reply.send(resolver.resolve(batch));
                next = resolver.waiting.remove(&resolver.version);
            }
        }),
        failure: role.serve_failure(),
    }
}

impl Resolver {
    fn resolve(&mut self, batch: ResolveBatch) -> Resolution {
        let life = self.role.env().knobs().max_write_transaction_life_versions;
        let ResolveBatch {
            version,
            proxy,
            received,
            transactions,
            state,
            ..
        } = batch;
        assert!(version > self.version, "batches are resolved in order");
        assert_eq!(
            received, self.received[proxy],
            "a proxy asks for one batch after the other"
        );
        self.version = version;
        let verdicts = self
            .conflicts
            .resolve(version, version - life, &transactions);
        assert_eq!(verdicts.len(), transactions.len());
        let news = self
            .state
            .iter()
            .filter(|batch| batch.version > received && batch.proxy != proxy)
            .map(|batch| (batch.version, batch.transactions.clone()))
            .collect();
        if !state.is_empty() {
            let transactions = state
                .into_iter()
                .map(|transaction| ResolvedState {
                    commits: verdicts[transaction.index] == Verdict::Commit,
                    lock_aware: transaction.lock_aware,
                    mutations: transaction.mutations,
                })
                .collect();
            self.state.push_back(StateBatch {
                version,
                proxy,
                transactions,
            });
        }
        self.received[proxy] = version;
        let known = self.received.iter().copied().min().unwrap_or(version);
        while self
            .state
            .front()
            .is_some_and(|batch| batch.version <= known)
        {
            self.state.pop_front();
        }
        Resolution {
            verdicts,
            state: news,
        }
    }
}
