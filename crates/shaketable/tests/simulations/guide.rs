//! What the guide and the README show, tried in more seeds and in more ways than there.
//!
//! `docs/walk.py` compiles and runs the pages themselves, word for word, outside of the repository.

mod tickets {
    use foundationdb::options::MutationType;
    use foundationdb::{Database, FdbBindingError};

    /// Sells a ticket to a buyer, if one is left.
    pub async fn sell(db: &Database, buyer: &str) -> Result<bool, FdbBindingError> {
        db.run(|trx, _maybe_committed| async move {
            let left = number(trx.get(b"left", false).await?.as_deref());
            if left == 0 {
                return Ok(false);
            }
            trx.set(b"left", &(left - 1).to_le_bytes());
            trx.atomic_op(&bought(buyer), &1_u64.to_le_bytes(), MutationType::Add);
            Ok(true)
        })
        .await
    }

    /// How many tickets a buyer has.
    pub async fn tickets(db: &Database, buyer: &str) -> Result<u64, FdbBindingError> {
        db.run(|trx, _| async move { Ok(number(trx.get(&bought(buyer), false).await?.as_deref())) })
            .await
    }

    fn bought(buyer: &str) -> Vec<u8> {
        format!("bought/{buyer}").into_bytes()
    }

    fn number(value: Option<&[u8]>) -> u64 {
        value.map_or(0, |value| u64::from_le_bytes(value.try_into().unwrap()))
    }

    /// Sells a ticket once for each `order`, however often it is asked.
    pub async fn sell_once(
        db: &Database,
        buyer: &str,
        order: u64,
    ) -> Result<bool, FdbBindingError> {
        let receipt = format!("receipt/{buyer}/{order}").into_bytes();
        let receipt = &receipt;
        db.run(|trx, _maybe_committed| async move {
            if trx.get(receipt, false).await?.is_some() {
                shaketable::reachable!("a sale had happened after all");
                return Ok(true);
            }
            let left = number(trx.get(b"left", false).await?.as_deref());
            if left == 0 {
                return Ok(false);
            }
            trx.set(receipt, b"");
            trx.set(b"left", &(left - 1).to_le_bytes());
            trx.atomic_op(&bought(buyer), &1_u64.to_le_bytes(), MutationType::Add);
            Ok(true)
        })
        .await
    }
}

mod workload {
    use super::tickets::{sell, tickets};
    use shaketable::{
        Metric, Metrics, PhaseResult, SimDatabase, SingleRustWorkload, Workload, WorkloadContext,
    };
    use std::time::Duration;

    pub struct Sales {
        buyer: String,
        context: WorkloadContext,
        bought: u64,
    }

    impl SingleRustWorkload for Sales {
        fn new(_name: String, context: WorkloadContext) -> Self {
            let buyer = format!("buyer {}", context.client_id());
            Sales {
                buyer,
                context,
                bought: 0,
            }
        }
    }

    impl Workload for Sales {
        async fn setup(&mut self, db: SimDatabase) -> PhaseResult {
            if self.context.client_id() == 0 {
                db.run(|trx, _| async move {
                    trx.set(b"left", &1000_u64.to_le_bytes());
                    Ok(())
                })
                .await?;
            }
            Ok(())
        }

        async fn start(&mut self, db: SimDatabase) -> PhaseResult {
            for _ in 0..30 {
                if sell(&db, &self.buyer).await? {
                    self.bought += 1;
                }
                shaketable::sleep(Duration::from_millis(500)).await;
            }
            Ok(())
        }

        async fn check(&mut self, db: SimDatabase) -> PhaseResult {
            let found = tickets(&db, &self.buyer).await?;
            if found != self.bought {
                return Err(format!("bought {}, found {found}", self.bought).into());
            }
            Ok(())
        }

        fn get_metrics(&self, mut out: Metrics) {
            out.push(Metric::val("bought", self.bought as f64));
        }
    }
}

mod first {
    use super::workload::Sales;
    use shaketable::{Faults, PhaseResult, SimDatabase, Simulation};

    #[test]
    fn sales_add_up() {
        Simulation::new()
            .seeds(0..5)
            .faults(Faults::none())
            .run::<Sales>();
    }

    #[shaketable::sim_test(seeds = 0..5)]
    async fn nobody_has_tickets_at_first(db: SimDatabase) -> PhaseResult {
        assert_eq!(super::tickets::tickets(&db, "ada").await?, 0);
        Ok(())
    }
}

mod bug {
    use super::workload::Sales;
    use shaketable::Simulation;

    fn sales_add_up_while_the_cluster_fails() {
        Simulation::new()
            .seeds(0..100)
            .without_regressions()
            .run::<Sales>();
    }

    #[test]
    fn in_some_seed_a_ticket_is_sold_twice() {
        let text = super::failure_of(sales_add_up_while_the_cluster_fails);
        let [bought, found] = super::numbers_after(&text, ["bought", "found"]);
        assert!(bought == 30 && found > bought, "{text}");
        assert!(text.contains("commit_unknown_result"), "{text}");
    }
}

mod fixed {
    use super::tickets::{sell_once, tickets};
    use shaketable::{Faults, PhaseResult, Simulation, WorkloadContext};
    use std::time::Duration;

    #[test]
    fn an_order_is_filled_once_while_the_cluster_fails() {
        Simulation::new()
            .seeds(0..40)
            .clients(4)
            .faults(Faults::default().seconds(15.0))
            .require("a sale had happened after all")
            .test(async |db, context: WorkloadContext| -> PhaseResult {
                let buyer = format!("buyer {}", context.client_id());
                db.run(|trx, _| async move {
                    trx.set(b"left", &1000_u64.to_le_bytes());
                    Ok(())
                })
                .await?;
                for order in 0..30 {
                    assert!(sell_once(&db, &buyer, order).await?);
                    shaketable::sleep(Duration::from_millis(500)).await;
                }
                assert_eq!(tickets(&db, &buyer).await?, 30);
                Ok(())
            });
    }
}

mod faults {
    use shaketable::Faults;

    #[test]
    fn faults_are_chosen() {
        let everything = Faults::default().configuration_changes(true).buggify(true);
        let only_the_network = Faults::none().clogging(true).seconds(10.0);
        let as_fdbserver_would = Faults::drawn();
        assert_ne!(everything, only_the_network);
        assert_ne!(only_the_network, as_fdbserver_would);
    }
}

mod deaths {
    use foundationdb::FdbBindingError;
    use shaketable::{
        Faults, PhaseResult, SimDatabase, Simulation, SingleRustWorkload, Workload, WorkloadContext,
    };
    use std::time::Duration;

    const ORDERS: u8 = 10;

    /// A shop whose orders are paid in one transaction and shipped in another one.
    struct Shop {
        paid: Vec<u8>,
        shipped: Vec<u8>,
    }

    impl SingleRustWorkload for Shop {
        fn new(_name: String, context: WorkloadContext) -> Self {
            let client = context.client_id();
            Shop {
                paid: format!("paid/{client}").into_bytes(),
                shipped: format!("shipped/{client}").into_bytes(),
            }
        }
    }

    impl Shop {
        /// Takes the money for the next order, if there is one.
        async fn pay(&self, db: &SimDatabase) -> Result<bool, FdbBindingError> {
            db.run(|trx, _| async move {
                let paid = trx.get(&self.paid, false).await?.map_or(0, |paid| paid[0]);
                if paid < ORDERS {
                    trx.set(&self.paid, &[paid + 1]);
                }
                Ok(paid < ORDERS)
            })
            .await
        }

        /// Ships what is paid.
        async fn ship(&self, db: &SimDatabase) -> Result<(), FdbBindingError> {
            db.run(|trx, _| async move {
                if let Some(paid) = trx.get(&self.paid, false).await? {
                    trx.set(&self.shipped, &paid);
                }
                Ok(())
            })
            .await
        }
    }

    impl Workload for Shop {
        async fn start(&mut self, db: SimDatabase) -> PhaseResult {
            while self.pay(&db).await? {
                shaketable::sleep(Duration::from_secs(1)).await;
                self.ship(&db).await?;
            }
            Ok(())
        }

        async fn recover(&mut self, db: SimDatabase) -> PhaseResult {
            shaketable::reachable!("a shop opened again");
            self.start(db.clone()).await?;
            self.ship(&db).await?;
            Ok(())
        }

        async fn check(&mut self, db: SimDatabase) -> PhaseResult {
            let key = &self.shipped;
            let shipped = db
                .run(|trx, _| async move { Ok(trx.get(key, false).await?) })
                .await?;
            assert_eq!(shipped.as_deref(), Some(&[ORDERS][..]));
            Ok(())
        }
    }

    #[test]
    fn what_is_paid_is_shipped_after_a_death() {
        Simulation::new()
            .seeds(0..20)
            .faults(Faults::default().crashes(2))
            .require("a shop opened again")
            .run::<Shop>();
    }
}

mod determinism {
    use rand::RngExt;
    use shaketable::{Clock, Faults, SimDatabase, WorkloadContext};
    use std::time::Duration;

    /// A layer that takes its time from outside.
    struct Lease {
        clock: Clock,
        until: Duration,
    }

    impl Lease {
        fn new(clock: Clock, length: Duration) -> Lease {
            let until = clock.elapsed() + length;
            Lease { clock, until }
        }

        fn is_over(&self) -> bool {
            self.clock.elapsed() >= self.until
        }
    }

    #[shaketable::sim_test(seeds = 0..5, faults = Faults::none())]
    async fn a_lease_ends(_db: SimDatabase, context: WorkloadContext) {
        let seconds = context.rng().random_range(1..1000);
        let lease = Lease::new(context.clock(), Duration::from_secs(seconds));
        assert!(!lease.is_over());
        shaketable::sleep(Duration::from_secs(1001)).await;
        assert!(lease.is_over());
    }

    #[test]
    fn a_lease_in_production_takes_the_other_clock() {
        let lease = Lease::new(Clock::machine(), Duration::from_secs(3600));
        assert!(!lease.is_over());
    }
}

mod assertions {
    use shaketable::{Faults, Simulation, always, buggify, sometimes};

    /// Splits a list into batches.
    fn batches(items: &[u32]) -> Vec<&[u32]> {
        let size = if buggify!("tiny batches") { 1 } else { 100 };
        let batches: Vec<&[u32]> = items.chunks(size).collect();
        sometimes!(batches.len() > 1, "more than one batch");
        for batch in &batches {
            always!(batch.len() <= 100, "no batch is too large", "Length" => batch.len());
        }
        batches
    }

    #[test]
    fn batches_are_tested_near_their_edges() {
        let passed = Simulation::new()
            .seeds(0..20)
            .faults(Faults::none().buggify(true))
            .test(async |_db, _context| {
                for _ in 0..10 {
                    assert_eq!(batches(&[1, 2, 3]).concat(), [1, 2, 3]);
                }
            });
        let (held, did_not) = passed.assertion("more than one batch").unwrap();
        assert!(held > 0 && did_not > 0);
    }
}

mod readme {
    use shaketable::foundationdb::options::MutationType;
    use shaketable::{
        Faults, PhaseResult, SimDatabase, SingleRustWorkload, Workload, WorkloadContext,
    };

    /// The test below fails on purpose, and its seed is not worth keeping.
    struct Simulation;

    impl Simulation {
        #[expect(
            clippy::new_ret_no_self,
            reason = "stands for shaketable's own, whose words the README has"
        )]
        fn new() -> shaketable::Simulation {
            shaketable::Simulation::new().without_regressions()
        }
    }

    /// As in the README, where its examples are compiled but not run.
    struct Counter {
        context: WorkloadContext,
        increments: u32,
    }

    impl SingleRustWorkload for Counter {
        fn new(_name: String, context: WorkloadContext) -> Self {
            Counter {
                increments: context.get_option("increments").unwrap_or(50),
                context,
            }
        }
    }

    impl Workload for Counter {
        async fn start(&mut self, db: SimDatabase) -> PhaseResult {
            for _ in 0..self.increments {
                db.run(|trx, _maybe_committed| async move {
                    trx.atomic_op(b"counter", &1u64.to_le_bytes(), MutationType::Add);
                    Ok(())
                })
                .await?;
            }
            Ok(())
        }

        async fn check(&mut self, db: SimDatabase) -> PhaseResult {
            let value = db
                .run(|trx, _| async move { Ok(trx.get(b"counter", false).await?) })
                .await?;
            let expected = u64::from(self.increments) * self.context.client_count() as u64;
            let found = value.map_or(0, |v| u64::from_le_bytes(v[..].try_into().unwrap()));
            if found == expected {
                Ok(())
            } else {
                Err(format!("expected {expected}, found {found}").into())
            }
        }
    }

    #[ignore = "fails on purpose, for the next test"]
    #[test]
    fn every_increment_counts_once() {
        Simulation::new()
            .seeds(0..200)
            .clients(5)
            .faults(Faults::default())
            .run::<Counter>();
    }

    #[test]
    fn in_some_seed_an_increment_counts_twice() {
        let text = super::failure_of(every_increment_counts_once);
        let [expected, found] = super::numbers_after(&text, ["expected", "found"]);
        assert!(expected == 250 && found > expected, "{text}");
        assert!(text.contains("commit_unknown_result"), "{text}");
    }
}

mod reference {
    use shaketable::{
        Faults, PhaseResult, SimDatabase, Simulation, SingleRustWorkload, Workload, WorkloadContext,
    };
    use std::time::Duration;

    struct Mine;

    impl Workload for Mine {
        async fn start(&mut self, db: SimDatabase) -> PhaseResult {
            db.create_trx()?.commit().await?;
            Ok(())
        }
    }

    /// Moves nothing.
    struct Transfers(Mine);

    impl SingleRustWorkload for Transfers {
        fn new(_name: String, context: WorkloadContext) -> Self {
            assert_eq!(context.get_option("transfers"), Some(30));
            Transfers(Mine)
        }
    }

    impl Workload for Transfers {
        async fn start(&mut self, db: SimDatabase) -> PhaseResult {
            self.0.start(db).await
        }
    }

    #[test]
    fn a_note_survives_commits_of_unknown_fate() {
        let passed = Simulation::new()
            .seeds(0..20)
            .clients(3)
            .count_outcomes()
            .test(async |db, _context| -> PhaseResult {
                for number in 0..20_u8 {
                    db.run(|trx, _| async move {
                        trx.set(b"note", &[number]);
                        Ok(())
                    })
                    .await?;
                    shaketable::sleep(Duration::from_millis(500)).await;
                }
                Ok(())
            });
        assert!(passed.errors(1021) > 0); // clients were told commit_unknown_result
        assert!(passed.outcomes("1021 landed") > 0); // and some of those commits had happened
        assert!(passed.faults("RebootingProcess") > 0);
    }

    #[test]
    fn no_transfer_loses_money() {
        Simulation::new()
            .seeds(0..20)
            .clients(5)
            .faults(Faults::default())
            .option("transfers", 30)
            .run::<Transfers>();
    }

    /// Without a workload: one client, one async fn.
    #[shaketable::sim_test(seeds = 0..5)]
    async fn what_was_written_is_read(db: SimDatabase) -> PhaseResult {
        db.run(|trx, _| async move {
            trx.set(b"hello", b"world");
            Ok(())
        })
        .await?;
        let value = db
            .run(|trx, _| async move { Ok(trx.get(b"hello", false).await?) })
            .await?;
        assert_eq!(value.as_deref(), Some(&b"world"[..]));
        Ok(())
    }
}

/// The message of a test that fails.
fn failure_of(test: fn()) -> String {
    let failure = std::panic::catch_unwind(test).expect_err("some seed fails");
    *failure.downcast().expect("a panic with a text")
}

/// The number that follows each word.
fn numbers_after<const N: usize>(text: &str, words: [&str; N]) -> [u64; N] {
    words.map(|word| {
        let (_, rest) = text.split_once(&format!("{word} ")).expect(word);
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
        digits.and_then(|digits| digits.parse().ok()).expect(word)
    })
}
