//! Range reads on a whole cluster, over parts that are known, written and unknown in every mixture.
//!
//! How many rows one call returns depends on what was read before, on shards, and on system rows
//! after the user's keys. Which rows it returns does not: they are a prefix of what an ordered map
//! holds between the two selectors, all of it unless the call says that there is more, and a reader
//! that continues from the last row gets everything. `client::range_read` proves the same of the
//! overlay alone.

use bytes::Bytes;
use shaketable_cluster::client::{RangeLimits, Transaction};
use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_cluster::proto::{KeySelector, KeyValue};
use shaketable_cluster::server::layout::LayoutOptions;
use shaketable_kernel::{Address, Kernel, ProcessSpec, Stream};
use std::collections::BTreeMap;

type Model = BTreeMap<Bytes, Bytes>;

const SEEDS: u64 = 300;
const TRANSACTIONS_PER_SEED: usize = 4;
const STEPS_PER_TRANSACTION: usize = 25;
const KEYS: u32 = 30;

#[test]
fn rows_are_a_prefix_of_the_range_and_all_of_it_unless_there_is_more() {
    let seeds = std::env::var("SHAKETABLE_SEEDS").ok();
    let seeds = seeds.map_or(SEEDS, |text| text.parse().expect("a number of seeds"));
    let mut seen = Seen::default();
    for seed in 0..seeds {
        run(seed, &mut seen);
    }
    println!("{seen:?}");
    // A hunt that never stops early, or never runs off an end, tests nothing.
    assert!(seen.stopped_early * 10 > seen.reads, "{seen:?}");
    assert!(seen.complete * 10 > seen.reads, "{seen:?}");
    assert!(seen.off_the_end * 20 > seen.reads, "{seen:?}");
}

/// What the reads encountered.
#[derive(Debug, Default)]
struct Seen {
    reads: usize,
    stopped_early: usize,
    complete: usize,
    off_the_end: usize,
}

fn run(seed: u64, seen: &mut Seen) {
    let kernel = Kernel::simulation(seed);
    let random = kernel.stream("ranges");
    let config = if random.chance(0.7) {
        ClusterConfig::single_process(random.chance(0.5))
    } else {
        ClusterConfig::simulation(&kernel, &LayoutOptions::default(), false).expect("a layout")
    };
    let is_one_shard = config.layout.boundaries.is_empty();
    let cluster = Cluster::start(&kernel, config);
    let client = kernel.add_process(ProcessSpec {
        name: "client".into(),
        address: Address::v4(10, 0, 0, 1, 4500),
        ..ProcessSpec::default()
    });
    kernel.boot(client);
    let database = cluster.open_database(client, 740);
    let everything = async {
        let mut committed = Model::new();
        for _ in 0..TRANSACTIONS_PER_SEED {
            let transaction = database.create_transaction();
            let mut model = committed.clone();
            for step in 0..STEPS_PER_TRANSACTION {
                write(&random, &transaction, &mut model);
                let read = Read::draw(&random, is_one_shard);
                let context = format!("seed {seed}, step {step}: {read:?}");
                seen.count(&read, &model);
                read.check(&transaction, &model, seen, &context).await;
            }
            transaction
                .commit()
                .await
                .expect("there is no one to conflict with");
            committed = model;
        }
    };
    kernel
        .block_on(everything)
        .expect("the run comes to an end");
}

fn draw_key(random: &Stream) -> Bytes {
    let mut key = format!("k{:02}", random.range(0, KEYS)).into_bytes();
    if random.chance(0.1) {
        key.push(0);
    }
    key.into()
}

/// Makes a write of the transaction's own, one time in three.
fn write(random: &Stream, transaction: &Transaction, model: &mut Model) {
    match random.range(0, 12) {
        0..=2 => {
            let (key, value) = (draw_key(random), Bytes::from(vec![7; random.range(0, 20)]));
            transaction.set(key.clone(), value.clone());
            model.insert(key, value);
        }
        3 => {
            let (one, other) = (draw_key(random), draw_key(random));
            let (begin, end) = (one.clone().min(other.clone()), one.max(other));
            model.retain(|key, _| *key < begin || *key >= end);
            transaction.clear_range(begin, end);
        }
        _ => {}
    }
}

#[derive(Clone, Debug)]
struct Read {
    begin: KeySelector,
    end: KeySelector,
    limits: RangeLimits,
    snapshot: bool,
    reverse: bool,
}

impl Read {
    fn draw(random: &Stream, is_one_shard: bool) -> Read {
        let reverse = random.chance(0.5);
        // A reverse range whose begin lies before the empty key ends at the first shard it leaves,
        // as in FoundationDB: where there are several shards, begin stays among the keys.
        let begin_offset_min = if reverse && !is_one_shard { 1 } else { -7 };
        let selector = |offset_min: i32| KeySelector {
            key: draw_key(random),
            or_equal: random.chance(0.5),
            offset: *random.pick(&[offset_min, -2, 0, 1, 1, 1, 2, 5, 40]),
        };
        let mut begin = selector(begin_offset_min);
        begin.offset = begin.offset.max(begin_offset_min);
        let rows = *random.pick(&[0, 0, 1, 2, 5, 100]);
        let target_bytes = *random.pick(&[0, 0, 1, 60, 200]);
        let mode = *random.pick(&[-2, -1, 1, 1, 2, 3, 4]);
        Read {
            begin,
            end: selector(-7),
            limits: RangeLimits::from_parameters(rows, target_bytes, mode, 1).expect("good limits"),
            snapshot: random.chance(0.3),
            reverse,
        }
    }

    /// Continues reading until there is no more, and compares.
    async fn check(
        mut self,
        transaction: &Transaction,
        model: &Model,
        seen: &mut Seen,
        context: &str,
    ) {
        let mut wanted = rows_between(model, &self.begin, &self.end);
        if self.reverse {
            wanted.reverse();
        }
        let mut left = &wanted[..];
        let mut is_first = true;
        loop {
            let (begin, end) = (self.begin.clone(), self.end.clone());
            let found = transaction
                .get_range(begin, end, self.limits, self.snapshot, self.reverse)
                .await
                .unwrap_or_else(|error| panic!("{context}: {error}"));
            assert!(
                left.starts_with(&found.rows),
                "{context}: {:?} instead of {left:?}",
                found.rows
            );
            left = &left[found.rows.len()..];
            if is_first && found.more && !left.is_empty() {
                seen.stopped_early += 1;
            }
            if !found.more {
                seen.complete += usize::from(is_first);
                assert!(left.is_empty(), "{context}: {left:?} is missing");
                return;
            }
            is_first = false;
            let last = found.rows.last().expect("a read that stops early has rows");
            let key = last.key.clone();
            if self.reverse {
                self.end = KeySelector::first_greater_or_equal(key);
            } else {
                self.begin = KeySelector {
                    key,
                    or_equal: true,
                    offset: 1,
                };
            }
        }
    }
}

impl Seen {
    fn count(&mut self, read: &Read, model: &Model) {
        let off = [&read.begin, &read.end].map(|selector| {
            let index = index_of(model, selector);
            index < 0 || index > model.len() as i64
        });
        self.reads += 1;
        self.off_the_end += usize::from(off.contains(&true));
    }
}

/// The index of the row that a selector stands for; outside of the rows if it runs off an end.
fn index_of(model: &Model, selector: &KeySelector) -> i64 {
    let before =
        |key: &&Bytes| **key < selector.key || (selector.or_equal && **key == selector.key);
    model.keys().filter(before).count() as i64 + i64::from(selector.offset) - 1
}

fn rows_between(model: &Model, begin: &KeySelector, end: &KeySelector) -> Vec<KeyValue> {
    let index = |selector| index_of(model, selector).clamp(0, model.len() as i64) as usize;
    let (from, to) = (index(begin), index(end));
    let rows = model.iter().skip(from).take(to.saturating_sub(from));
    rows.map(|(key, value)| KeyValue {
        key: key.clone(),
        value: value.clone(),
    })
    .collect()
}
