//! ChangeConfig: the configuration of the database changes while it is in use, and so may its
//! coordinators. Its presence keeps the automatic fault workloads away.
//!
//! Other coordinators are asked for as an administrator would ask: by a transaction that sets
//! `\xff/coordinators`. `auto` leaves the old ones where they are if they are enough for the
//! redundancy of the data and all answer.

use super::{BadOption, Context, Options};
use crate::client::Transaction;
use crate::error::Error;
use crate::server::coordinator::{Coordinate, connection_string, coordinate_endpoint};
use crate::server::layout::Configuration;
use crate::server::metadata::{COORDINATORS_KEY, Metadata};
use bytes::Bytes;
use shaketable_kernel::{ProcessId, Stream};
use std::collections::BTreeSet;

/// The pause between two changes of the coordinators, in seconds.
const COORDINATOR_PAUSE: f64 = 20.0;
/// How long old coordinators have to answer, and new ones, in seconds.
const OLD_ANSWER_WITHIN: f64 = 1.5;
const NEW_ANSWER_WITHIN: f64 = 5.0;
/// How often and after which pause machines are looked for again if there were not enough of them.
const TOO_FEW_RETRIES: usize = 1;
const TOO_FEW_PAUSE: f64 = 1.0;
/// Lets the addresses of a cluster be chosen by itself.
const AUTO: &str = "auto";

/// The options of ChangeConfig.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeConfig {
    /// The shortest delay before the change, in seconds.
    pub min_delay_before_change: f64,
    /// The longest delay before the change, in seconds.
    pub max_delay_before_change: f64,
    /// What to change, as a `configure` command.
    pub config_mode: String,
    /// `auto`, or addresses.
    pub coordinators: String,
    /// How often the coordinators change.
    pub coordinator_changes: usize,
}

impl ChangeConfig {
    pub(super) fn read(options: &mut Options<'_>, _: &Stream) -> Result<Self, BadOption> {
        let config_mode = options.text("configMode", "");
        let mut check = Configuration::SINGLE;
        check.configure(&config_mode).map_err(|word| BadOption {
            name: "configMode",
            expected: "words of a configure command",
            text: word,
        })?;
        let coordinators = options.text("coordinators", "");
        let coordinator_changes = options.count("coordinatorChanges", 1)?;
        Ok(ChangeConfig {
            min_delay_before_change: options.number("minDelayBeforeChange", 0.0)?.trunc(),
            max_delay_before_change: options.number("maxDelayBeforeChange", 0.0)?.trunc(),
            config_mode,
            coordinator_changes: match coordinators == AUTO {
                true => coordinator_changes,
                false => 1,
            },
            coordinators,
        })
    }

    pub(super) async fn start(&self, context: &Context) {
        let (min, max) = (self.min_delay_before_change, self.max_delay_before_change);
        context
            .sleep(min + context.random.uniform() * (max - min).max(0.0))
            .await;
        if !self.config_mode.is_empty() && context.acts("configure") {
            self.configure(context).await;
        }
        if !self.coordinators.is_empty() {
            for change in 0..self.coordinator_changes {
                if change > 0 {
                    context.sleep(COORDINATOR_PAUSE).await;
                }
                self.change_coordinators(context).await;
            }
        }
    }

    async fn configure(&self, context: &Context) {
        let changed = context
            .system_transaction(async |transaction| {
                let mut configuration = configuration(transaction).await?;
                let known = configuration.configure(&self.config_mode);
                known.expect("checked when the options were read");
                for mutation in context.saboteur.fitting(configuration).write() {
                    transaction.set(mutation.param1, mutation.param2);
                }
                Ok(())
            })
            .await;
        if changed.is_ok() {
            context.trigger_recovery();
        }
    }

    /// Asks for other coordinators until they are there, or cannot be had.
    async fn change_coordinators(&self, context: &Context) {
        let chosen = match self.coordinators == AUTO {
            true => choose(context).await,
            false => addressed(context, &self.coordinators),
        };
        let Some(chosen) = chosen else {
            return;
        };
        if !context.acts("change the coordinators") {
            return;
        }
        let address = |process: &ProcessId| context.saboteur.describe(*process).address.to_string();
        let addresses: Vec<String> = chosen.iter().map(address).collect();
        let string = connection_string(context.random.next_u64(), &addresses);
        let string = Bytes::from(string);
        let wanted: BTreeSet<ProcessId> = chosen.iter().copied().collect();
        // Whether the transaction committed cannot be known, and need not be: it asks again.
        let _ = context
            .system_transaction(async |transaction| {
                let current = current(context, transaction).await?;
                if current.into_iter().collect::<BTreeSet<_>>() == wanted {
                    return Ok(());
                }
                context.saboteur.protect_coordinators(&chosen);
                if all_answer(context, &chosen, NEW_ANSWER_WITHIN).await {
                    transaction.set(Bytes::from_static(COORDINATORS_KEY), string.clone());
                }
                Ok(())
            })
            .await;
    }
}

/// The configuration that the database has now.
async fn configuration(transaction: &Transaction) -> Result<Configuration, Error> {
    let mut metadata = Metadata::default();
    for mutation in Configuration::SINGLE.write() {
        let key = mutation.param1.clone();
        if let Some(value) = transaction.get(key, false).await? {
            metadata.apply(&crate::proto::Mutation {
                param2: value,
                ..mutation
            });
        }
    }
    Ok(Configuration::read(&metadata))
}

/// The coordinators that the database has now.
async fn current(context: &Context, transaction: &Transaction) -> Result<Vec<ProcessId>, Error> {
    let key = Bytes::from_static(COORDINATORS_KEY);
    let noted = transaction.get(key, false).await?.unwrap_or_default();
    let noted = String::from_utf8_lossy(&noted);
    let (_, addresses) = noted.split_once('@').unwrap_or_default();
    Ok(addressed(context, addresses).unwrap_or_default())
}

/// The servers with these addresses; `None` if there is no such server.
fn addressed(context: &Context, addresses: &str) -> Option<Vec<ProcessId>> {
    let saboteur = &context.saboteur;
    let server = |address: &str| {
        let mut servers = saboteur.servers().iter().copied();
        servers.find(|server| saboteur.describe(*server).address.to_string() == address.trim())
    };
    addresses.split(',').map(server).collect()
}

/// Whether each of these servers answers in time.
async fn all_answer(context: &Context, servers: &[ProcessId], seconds: f64) -> bool {
    let here = context.here();
    let asked = servers.iter().map(|server| {
        let endpoint = coordinate_endpoint(here, *server);
        here.request_reliably(&endpoint, Coordinate::Ping)
    });
    let asked: Vec<_> = asked.collect();
    let answers = async {
        for one in asked {
            if one.await.is_err() {
                return false;
            }
        }
        true
    };
    here.timeout(seconds, answers).await == Some(true)
}

/// Chooses coordinators: as many as the redundancy of the data asks for, in zones of their own and
/// spread over the datacenters. `None` if the old ones will do, or if there are too few machines.
async fn choose(context: &Context) -> Option<Vec<ProcessId>> {
    for attempt in 0..=TOO_FEW_RETRIES {
        if attempt > 0 {
            context.sleep(TOO_FEW_PAUSE).await;
        }
        let read = context.database.create_transaction();
        let (old, needed) = loop {
            context.steer(&read);
            let answer = async {
                let configuration = configuration(&read).await?;
                Ok((current(context, &read).await?, configuration))
            };
            match answer.await {
                Ok((old, configuration)) => {
                    let copies = configuration
                        .storage_replicas
                        .min(configuration.log_replicas);
                    break (old, 2 * copies - 1);
                }
                Err(error) => read.on_error(error).await.ok()?,
            }
        };
        if will_do(context, &old, needed).await {
            return None;
        }
        let mut chosen = spread(context, needed);
        if chosen.len() >= needed {
            return Some(chosen);
        }
        if !chosen.is_empty() && chosen.len() >= old.len() {
            chosen.truncate((chosen.len() - 1) | 1);
            return Some(chosen);
        }
    }
    None
}

/// Whether these coordinators are enough, and all of them are there.
async fn will_do(context: &Context, coordinators: &[ProcessId], needed: usize) -> bool {
    let workers = context.saboteur.workers();
    let zones: BTreeSet<String> = coordinators
        .iter()
        .map(|process| context.saboteur.describe(*process).zone.clone())
        .collect();
    coordinators.len() >= needed
        && coordinators.len() % 2 == 1
        && zones.len() == coordinators.len()
        && coordinators.iter().all(|one| workers.contains(one))
        && all_answer(context, coordinators, OLD_ANSWER_WITHIN).await
}

/// At most this many servers, chosen at random, no two in one zone and as many in one datacenter as
/// in another where that can be.
fn spread(context: &Context, count: usize) -> Vec<ProcessId> {
    let saboteur = &context.saboteur;
    let mut left = saboteur.workers();
    context.random.shuffle(&mut left);
    let mut chosen: Vec<ProcessId> = Vec::new();
    while chosen.len() < count {
        let beside = |server: &ProcessId| {
            let datacenter = &saboteur.describe(*server).datacenter;
            let is_beside = |one: &&ProcessId| saboteur.describe(**one).datacenter == *datacenter;
            chosen.iter().filter(is_beside).count()
        };
        let Some(next) = left.iter().copied().min_by_key(beside) else {
            break;
        };
        let zone = saboteur.describe(next).zone.clone();
        left.retain(|server| saboteur.describe(*server).zone != zone);
        chosen.push(next);
    }
    chosen
}
