//! Code on tokio in the embedded simulation: unchanged, in simulated time.
//!
//! Run with `cargo test -p shaketable --features tokio --test tokio`. The first part is much like
//! the chapter on tokio in `docs/guide`.

use foundationdb::FdbBindingError;
use shaketable::{Faults, PhaseResult, SimDatabase, Simulation, WorkloadContext};
use std::time::Duration;
use tokio::sync::mpsc;

/// Greets every customer, until the door is closed.
async fn greet(db: SimDatabase, mut door: mpsc::Receiver<String>) -> Result<u64, FdbBindingError> {
    let mut greeted = 0;
    let mut rounds = tokio::time::interval(Duration::from_secs(10));
    loop {
        tokio::select! {
            _ = rounds.tick() => tracing::info!("all quiet"),
            customer = door.recv() => {
                let Some(customer) = customer else {
                    return Ok(greeted);
                };
                let key = &format!("greeted/{customer}").into_bytes();
                db.run(|trx, _| async move {
                    trx.set(key, b"hello");
                    Ok(())
                })
                .await?;
                greeted += 1;
            }
        }
    }
}

#[shaketable::sim_test(seeds = 0..5)]
async fn every_customer_is_greeted(db: SimDatabase) -> PhaseResult {
    let (door, customers) = mpsc::channel(8);
    let greeter = tokio::spawn(greet(db, customers));
    for number in 0..10 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        door.send(format!("customer {number}")).await?;
    }
    drop(door);
    assert_eq!(greeter.await??, 10);
    Ok(())
}

fn quiet() -> Simulation {
    Simulation::new()
        .seeds(0..3)
        .faults(Faults::none())
        .without_regressions()
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

async fn put(db: &SimDatabase, key: &'static [u8]) -> PhaseResult {
    db.run(|trx, _| async move {
        trx.set(key, b"here");
        Ok(())
    })
    .await?;
    Ok(())
}

#[test]
fn tasks_timers_and_transactions_run_in_simulated_time() {
    quiet().test(
        async |db: SimDatabase, context: WorkloadContext| -> PhaseResult {
            let before = (context.now(), tokio::time::Instant::now());
            let (sender, mut receiver) = mpsc::channel(1);
            let writer = tokio::spawn({
                let db = db.clone();
                async move {
                    tokio::time::sleep(seconds(3600)).await;
                    put(&db, b"key").await.expect("a transaction");
                    sender.send("written").await.expect("a receiver");
                }
            });
            let mut ticks = tokio::time::interval(seconds(60));
            let mut ticked = 0;
            let received = loop {
                tokio::select! {
                    _ = ticks.tick() => ticked += 1,
                    message = receiver.recv() => break message,
                }
            };
            assert_eq!(received, Some("written"));
            assert!((60..=62).contains(&ticked), "{ticked} ticks");
            writer.await?;
            let slow = tokio::time::timeout(seconds(5), std::future::pending::<()>());
            assert!(slow.await.is_err());
            let passed = context.now() - before.0;
            assert!((3605.0..3610.0).contains(&passed), "{passed} s");
            let passed = before.1.elapsed().as_secs_f64();
            assert!((3605.0..3610.0).contains(&passed), "{passed} s");
            Ok(())
        },
    );
}

/// The reason why the first seed of this test fails.
fn failure<R: shaketable::PhaseOutcome>(
    body: impl AsyncFn(SimDatabase, WorkloadContext) -> R + Send + Sync + 'static,
) -> String {
    let failed = quiet().seeds(1).try_test(body).expect_err("it fails");
    failed.reason().to_owned()
}

#[test]
fn several_clients_each_have_their_own_tasks() {
    let simulation = quiet().clients(4);
    simulation.test(
        async |db: SimDatabase, context: WorkloadContext| -> PhaseResult {
            let client = context.client_id();
            let mut tasks = tokio::task::JoinSet::new();
            for number in 0..5_u64 {
                let db = db.clone();
                tasks.spawn(async move {
                    tokio::time::sleep(seconds(number)).await;
                    let current = WorkloadContext::current().map(|context| context.client_id());
                    assert_eq!(current, Some(client));
                    put(&db, b"shared").await.map_err(|error| error.to_string())
                });
            }
            while let Some(done) = tasks.join_next().await {
                done??;
            }
            Ok(())
        },
    );
}

#[test]
fn a_channel_between_clients_wakes_the_other_client() {
    use std::sync::{LazyLock, Mutex};
    type Ends = (
        mpsc::UnboundedSender<i32>,
        Option<mpsc::UnboundedReceiver<i32>>,
    );
    static ENDS: LazyLock<Mutex<Ends>> = LazyLock::new(|| {
        let (sender, receiver) = mpsc::unbounded_channel();
        Mutex::new((sender, Some(receiver)))
    });
    let simulation = quiet().seeds(1).clients(2);
    simulation.test(async |_db, context: WorkloadContext| -> PhaseResult {
        if context.client_id() == 0 {
            let receiver = ENDS.lock().expect("a lock").1.take();
            let mut receiver = receiver.expect("one client 0");
            let received = tokio::spawn(async move { receiver.recv().await }).await?;
            assert_eq!(received, Some(7));
        } else {
            tokio::time::sleep(seconds(10)).await;
            let sender = ENDS.lock().expect("a lock").0.clone();
            tokio::spawn(async move { sender.send(7) }).await??;
        }
        Ok(())
    });
}

#[test]
fn a_seed_decides_the_order_in_which_tasks_run() {
    let run = || {
        let order = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = order.clone();
        let simulation = Simulation::new().seeds(3).clients(3).without_regressions();
        simulation.test(
            async move |db: SimDatabase, context: WorkloadContext| -> PhaseResult {
                let mut tasks = tokio::task::JoinSet::new();
                for number in 0..10 {
                    let (db, seen) = (db.clone(), seen.clone());
                    let pause = Duration::from_millis(u64::from(context.rnd() % 2000));
                    let client = context.client_id();
                    tasks.spawn(async move {
                        tokio::time::sleep(pause).await;
                        put(&db, b"key").await.map_err(|error| error.to_string())?;
                        let now = tokio::time::Instant::now();
                        seen.lock()
                            .expect("a lock")
                            .push((client, number, format!("{now:?}")));
                        Ok::<(), String>(())
                    });
                }
                while let Some(done) = tasks.join_next().await {
                    done??;
                }
                Ok(())
            },
        );
        std::mem::take(&mut *order.lock().expect("a lock"))
    };
    let first = run();
    assert_eq!(first.len(), 30);
    assert_eq!(first, run());
}

#[test]
fn a_panic_in_a_task_fails_the_run_with_its_place() {
    let reason = failure(async |_db, _context| {
        drop(tokio::spawn(async { panic!("out of eggs") }));
        tokio::time::sleep(seconds(1)).await;
    });
    assert!(reason.contains("out of eggs (at "), "{reason}");
    assert!(reason.contains("tests/tokio.rs:"), "{reason}");
}

#[test]
fn a_task_that_waits_for_what_cannot_come_is_a_deadlock() {
    let reason = failure(async |_db, _context| {
        let (_kept, waits) = tokio::sync::oneshot::channel::<()>();
        let _ = tokio::spawn(waits).await;
    });
    assert!(reason.contains("deadlock"), "{reason}");
}

#[test]
fn a_task_that_spins_is_stopped() {
    let reason = failure(async |_db, _context| {
        let spins = async {
            loop {
                tokio::task::yield_now().await;
            }
        };
        let _: Result<(), _> = tokio::spawn(spins).await;
    });
    assert!(reason.contains("tokio's loop went round"), "{reason}");
}

#[test]
fn what_cannot_be_simulated_is_refused_with_the_place() {
    let reason = failure(async |_db, _context| {
        let _ = tokio::net::TcpStream::connect("127.0.0.1:1").await;
    });
    assert!(reason.contains("tokio::io::duplex"), "{reason}");
    assert!(reason.contains("tests/tokio.rs:"), "{reason}");
    let reason = failure(async |_db, _context| {
        let _ = tokio::fs::read("/etc/hostname").await;
    });
    assert!(reason.contains("start a thread"), "{reason}");
    assert!(reason.contains("tests/tokio.rs:"), "{reason}");
}

#[test]
fn a_runtime_of_its_own_cannot_block_the_simulation() {
    let reason = failure(async |_db, _context| {
        let own = tokio::runtime::Builder::new_current_thread().build();
        own.expect("a runtime").block_on(async {});
    });
    assert!(reason.contains("from within a runtime"), "{reason}");
}

#[test]
fn nothing_of_a_run_is_left_for_the_next() {
    for _ in 0..2 {
        quiet().seeds(0..3).test(async |db: SimDatabase, _context| {
            for _ in 0..10 {
                let db = db.clone();
                drop(tokio::spawn(async move {
                    tokio::time::sleep(seconds(1000)).await;
                    drop(db);
                }));
            }
        });
    }
    assert!(tokio::runtime::Handle::try_current().is_err());
}

#[test]
fn a_real_runtime_on_another_thread_keeps_the_machines_time() {
    let real = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let took = real.block_on(async {
        let begin = tokio::time::Instant::now();
        tokio::time::sleep(Duration::from_millis(20)).await;
        begin.elapsed()
    });
    assert!(
        took >= Duration::from_millis(20) && took < seconds(20),
        "{took:?}"
    );
}

#[test]
fn a_task_that_waits_for_the_database_is_found_by_its_line() {
    let simulation = quiet().seeds(1).stalled_after(seconds(120));
    let failed = simulation.try_test(async |db: SimDatabase, _context| {
        let waits = tokio::spawn(async move {
            let trx = db.create_trx().expect("a transaction");
            let changed = trx.watch(b"a key that stays as it is");
            trx.commit().await.expect("it has written nothing");
            changed.await.expect("a watch waits");
        });
        let _ = waits.await;
    });
    let report = failed.expect_err("nothing ever changes").to_string();
    assert!(report.contains("a watch"), "{report}");
    assert!(report.contains("tests/tokio.rs:"), "{report}");
}

/// At which branches `select!` looks first in a run of this seed.
fn branches(seed: u64) -> String {
    let order = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let seen = order.clone();
    let simulation = quiet().seeds([seed]);
    simulation.test(async move |_db, _context| {
        for _ in 0..50 {
            let branch = tokio::select! {
                () = async {} => 'a',
                () = async {} => 'b',
            };
            seen.lock().expect("a lock").push(branch);
            tokio::task::yield_now().await;
        }
    });
    order.lock().expect("a lock").clone()
}

#[test]
fn a_seed_decides_at_which_branch_select_looks_first() {
    let first = branches(1);
    assert_ne!(first, branches(2));
    assert_eq!(first, branches(1));
    // In a process that has run nothing else.
    let alone = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args([
            "--exact",
            "the_branches_of_seed_1",
            "--ignored",
            "--nocapture",
        ])
        .output()
        .expect("it can be started");
    let alone = String::from_utf8_lossy(&alone.stdout);
    assert!(alone.contains(&first), "expected {first}, found {alone}");
}

#[test]
#[ignore = "another test runs it, in a process of its own"]
fn the_branches_of_seed_1() {
    println!("{}", branches(1));
}

#[test]
fn what_a_program_asks_of_its_machine_is_refused_and_told_what_to_do_instead() {
    let refused = [
        (
            failure(async |_db, _context| {
                let _ = tokio::process::Command::new("true").output().await;
            }),
            "other programs are not simulated (at ",
            "put the program behind a trait",
        ),
        (
            failure(async |_db, _context| {
                let _ = tokio::signal::ctrl_c().await;
            }),
            "signals are not simulated (at ",
            "the receiver of a channel",
        ),
        (
            failure(async |_db, _context| {
                let _ = tokio::net::UdpSocket::bind("127.0.0.1:0").await;
            }),
            "sockets and pipes are not simulated (at ",
            "tokio::io::duplex",
        ),
        (
            failure(async |_db, _context| {
                let _ = tokio::net::lookup_host("localhost:80").await;
            }),
            "look-ups of host names start a thread",
            "call the function itself",
        ),
        (
            failure(async |_db, _context| {
                let mut line = Vec::new();
                let mut input = tokio::io::stdin();
                let _ = tokio::io::AsyncReadExt::read_to_end(&mut input, &mut line).await;
            }),
            "start a thread",
            "call the function itself",
        ),
        (
            failure(async |_db, _context| {
                let _ = tokio::task::spawn_blocking(|| ()).await;
            }),
            "spawn_blocking",
            "call the function itself",
        ),
        (
            failure(async |_db, _context| tokio::task::block_in_place(|| ())),
            "a simulation has one thread",
            "can call blocking only",
        ),
    ];
    for (reason, what, instead) in refused {
        assert!(reason.contains(what), "{reason}");
        assert!(reason.contains(instead), "{reason}");
        assert!(reason.contains("tests/tokio.rs:"), "{reason}");
    }
}

#[test]
fn a_runtime_of_its_own_is_refused_with_the_place() {
    #[tokio::main]
    async fn main_of_its_own() {}
    #[tokio::main(flavor = "current_thread")]
    async fn small_main_of_its_own() {}
    let refused = [
        failure(async |_db, _context| {
            let own = tokio::runtime::Runtime::new();
            own.expect("a runtime").block_on(async {});
        }),
        failure(async |_db, _context| {
            let own = tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .build();
            let task = own.map(|own| own.spawn(async { 7 }));
            if let Ok(task) = task {
                let _ = task.await;
            }
        }),
        failure(async |_db, _context| main_of_its_own()),
        failure(async |_db, _context| small_main_of_its_own()),
    ];
    for reason in refused {
        assert!(reason.contains("a runtime of its own"), "{reason}");
        assert!(reason.contains("await the future there"), "{reason}");
        assert!(reason.contains("tests/tokio.rs:"), "{reason}");
    }
}

/// What clients share.
fn shared<T: Send + 'static>(value: T) -> &'static std::sync::Mutex<Option<T>> {
    Box::leak(Box::new(std::sync::Mutex::new(Some(value))))
}

#[test]
fn a_timer_of_one_client_can_be_awaited_by_another() {
    let timer = shared(None::<std::pin::Pin<Box<tokio::time::Sleep>>>);
    quiet()
        .seeds(1)
        .clients(2)
        .test(async move |_db, context: WorkloadContext| -> PhaseResult {
            let begin = context.now();
            if context.client_id() == 0 {
                let sleep = Box::pin(tokio::time::sleep(seconds(30)));
                *timer.lock().expect("a lock") = Some(Some(sleep));
                // The runtime that has the timer must live until it fires.
                tokio::time::sleep(seconds(60)).await;
            } else {
                tokio::time::sleep(seconds(10)).await;
                let sleep = timer.lock().expect("a lock").take().flatten();
                sleep.expect("client 0 was first").await;
                let passed = context.now() - begin;
                assert!((29.0..31.0).contains(&passed), "{passed} s");
            }
            Ok(())
        });
}

#[test]
fn a_timer_whose_client_is_done_says_so() {
    let timer = shared(None::<std::pin::Pin<Box<tokio::time::Sleep>>>);
    let simulation = quiet().seeds(1).clients(2);
    let failed = simulation.try_test(async move |_db, context: WorkloadContext| {
        if context.client_id() == 0 {
            let sleep = Box::pin(tokio::time::sleep(seconds(30)));
            *timer.lock().expect("a lock") = Some(Some(sleep));
        } else {
            tokio::time::sleep(seconds(10)).await;
            let sleep = timer.lock().expect("a lock").take().flatten();
            sleep.expect("client 0 was first").await;
        }
    });
    let failed = failed.expect_err("nothing is left that could fire the timer");
    assert!(failed.reason().contains("shutdown"), "{}", failed.reason());
}

#[test]
fn a_future_that_is_shared_by_clients_and_kinds_of_tasks_wakes_them_all() {
    use futures::FutureExt;
    use futures::future::{BoxFuture, Shared};
    let one = shared(None::<Shared<BoxFuture<'static, u64>>>);
    // Seeds of one process may run side by side, and must not share it.
    quiet()
        .seeds(1)
        .clients(3)
        .test(async move |_db, context: WorkloadContext| -> PhaseResult {
            let future = {
                let mut one = one.lock().expect("a lock");
                let make = || {
                    let wait = async {
                        tokio::time::sleep(seconds(5)).await;
                        7
                    };
                    wait.boxed().shared()
                };
                let one = one.get_or_insert_default();
                one.get_or_insert_with(make).clone()
            };
            let ours = shaketable::spawn(future.clone());
            let tokios = tokio::spawn(future.clone());
            assert_eq!((future.await, ours.await?, tokios.await?), (7, 7, 7));
            // The client that polled first has the timer: it must not be done before the others.
            tokio::time::sleep(seconds(5)).await;
            assert!(context.now() > 5.0);
            Ok(())
        });
}

#[test]
fn the_record_has_the_line_of_a_task_for_each_of_its_operations() {
    let simulation = quiet().seeds(1).named("the lines of tasks");
    let failed = simulation.try_test(async |db: SimDatabase, _context| -> PhaseResult {
        let line = tokio::spawn(async move {
            let trx = db.create_trx().expect("a transaction");
            let (line, value) = (line!(), trx.get(b"key", false).await);
            value.map(|_| line)
        });
        Err(format!("the read is in line {}.", line.await??).into())
    });
    let report = failed.expect_err("as planned").to_string();
    let line = report.split_once("the read is in line ").expect("a line").1;
    let line: u32 = line
        .split('.')
        .next()
        .and_then(|line| line.parse().ok())
        .expect("a line");
    let folder = report
        .lines()
        .find_map(|line| line.strip_prefix("everything about it: "));
    let folder = std::path::PathBuf::from(folder.expect("a folder"));
    let file = std::fs::File::open(folder.join("record.jsonl.gz")).expect("a record");
    let record = shaketable_record::file::read(file).expect("a record");
    let read = record.operations.iter().find(|operation| {
        matches!(&operation.call, shaketable_record::Call::Get { key, .. } if key.kept() == b"key")
    });
    let place = read.and_then(|read| read.place).expect("a place");
    let place = &record.places[place as usize];
    assert!(place.file.ends_with("tests/tokio.rs"), "{place:?}");
    assert_eq!(place.line, line, "{place:?}");
    assert!(
        report.contains(&format!("tests/tokio.rs:{line}")),
        "{report}"
    );
}
