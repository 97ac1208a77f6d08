//! A workload library with one workload per behaviour, for the tests of `shaketable`.
//!
//! The hosts in `tests/hosts` load it and drive it through the ABI, and check what comes out. The
//! name of a workload says what it does; `Probe::start` is the list of them.

#[cfg(feature = "tokio")]
mod on_tokio;
mod random;

use futures::FutureExt;
use shaketable::{
    Metric, Metrics, PhaseResult, RustWorkloadFactory, Severity, SimDatabase, Workload,
    WorkloadContext, WrappedWorkload, always, buggify, details, register_factory, set_poll_budget,
    sleep, sometimes, spawn, timeout, yield_now,
};
use std::cell::RefCell;
use std::time::Duration;

struct Probe {
    name: String,
    context: WorkloadContext,
    phases: u32,
    kept: Option<SimDatabase>,
}

thread_local! {
    static KEPT_CONTEXT: RefCell<Option<WorkloadContext>> = const { RefCell::new(None) };
    static KEPT_METRICS: RefCell<Option<Metrics>> = const { RefCell::new(None) };
}

/// An error with a cause.
#[derive(Debug)]
struct Wrapped(std::num::ParseIntError);

impl std::fmt::Display for Wrapped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the balance is no number")
    }
}

impl std::error::Error for Wrapped {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

fn fail() -> PhaseResult {
    "seven".parse::<u32>().map_err(Wrapped)?;
    Ok(())
}

/// Never called: the linker's list of assertions must have it all the same.
#[unsafe(no_mangle)]
extern "C" fn probe_that_nobody_calls() {
    shaketable::reachable!("nobody");
}

fn wakes(context: &WorkloadContext) -> u32 {
    context.get_option("wakes").unwrap_or(0)
}

async fn delays(context: WorkloadContext) {
    for _ in 0..wakes(&context) {
        context.delay(Duration::ZERO).await.expect("a delay");
    }
}

/// How often `Count` counts.
const COUNTED: u8 = 5;

/// Adds one to a counter, and once more if the result of the commit is not known.
async fn count(db: &SimDatabase) -> PhaseResult {
    db.run(|trx, _| async move {
        let value = trx.get(b"counter", false).await?;
        let counted = value.map_or(0, |value| value[0]);
        trx.set(b"counter", &[counted + 1]);
        Ok(())
    })
    .await?;
    Ok(())
}

/// Whether everything was counted once.
async fn check_count(db: &SimDatabase) -> PhaseResult {
    let value = db
        .run(|trx, _| async move { Ok(trx.get(b"counter", false).await?) })
        .await?;
    let counted = value.map_or(0, |value| value[0]);
    match counted == COUNTED {
        true => Ok(()),
        false => Err(format!("counted {counted}, expected {COUNTED}").into()),
    }
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Runs `body` to its end on a thread of its own.
fn on_another_thread<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new()
        .name("stranger".to_owned())
        .spawn(body)
        .expect("a thread")
        .join()
        .expect("no panic")
}

impl Workload for Probe {
    async fn setup(&mut self, db: SimDatabase) -> PhaseResult {
        self.phases += 1;
        match self.name.as_str() {
            "FailSetup" => return fail(),
            "KeepDatabase" => self.kept = Some(db),
            "KeepWeakDatabase" => {
                let weak = std::sync::Arc::downgrade(&db);
                spawn(async move {
                    sleep(seconds(1)).await;
                    assert!(weak.upgrade().is_none(), "a weak handle must not revive");
                })
                .await?;
            }
            "PanicSetup" => panic!("setup is broken"),
            _ => {}
        }
        Ok(())
    }

    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        self.phases += 1;
        match self.name.as_str() {
            #[cfg(feature = "tokio")]
            name if name.starts_with("Tokio") => {
                on_tokio::start(name, db, &self.context).await?;
            }
            // For callgrind: a task that waits for the host, or for its turn, this often.
            "CostDelay" => spawn(delays(self.context.clone())).await?,
            "CostYield" => {
                let wakes = wakes(&self.context);
                spawn(async move {
                    for _ in 0..wakes {
                        yield_now().await;
                    }
                })
                .await?;
            }
            "Walk" => self.walk().await?,
            "Count" => {
                for _ in 0..COUNTED {
                    count(&db).await?;
                }
            }
            "Trace" => self.trace(),
            "Machine" => self.machine().await,
            "Assert" => {
                for number in 0..3 {
                    always!(number < 2, "small", "Number" => number);
                    sometimes!(number == 7, "seven");
                }
                // Active or not, for the whole run.
                let fired = (0..100).filter(|_| buggify!("mischief", 1.0)).count();
                self.note(details!["Decided" => matches!(fired, 0 | 100)]);
            }
            "FailStart" => return fail(),
            "PanicStart" => {
                sleep(seconds(1)).await;
                let empty: Vec<u32> = Vec::new();
                let _ = empty[self.phases as usize];
            }
            "PanicInDetachedTask" => {
                drop(spawn(async {
                    sleep(seconds(1)).await;
                    panic!("nobody is watching");
                }));
                sleep(seconds(1000)).await;
            }
            "PanicInJoinedTask" => {
                let error = spawn(async { panic!("somebody is watching") })
                    .await
                    .map(|never: ()| never)
                    .expect_err("a panic");
                self.note(details!["Join" => error, "Panic" => error.is_panic()]);
            }
            "Spin" => {
                set_poll_budget(1000);
                loop {
                    yield_now().await;
                }
            }
            "Stuck" => std::future::pending().await,
            "DeadLock" => {
                let (sender, receiver) = futures::channel::oneshot::channel::<()>();
                let both = futures::future::join(receiver, async {
                    std::future::pending::<()>().await;
                    drop(sender);
                });
                both.map(drop).await;
            }
            "WatchInVain" => {
                let trx = db.create_trx().expect("a transaction");
                let changed = trx.watch(b"\x02probe\x00\x15\x07");
                trx.commit().await.expect("it has written nothing");
                changed.await.expect("a watch waits");
            }
            "LeaveTask" => {
                let db = db.clone();
                drop(spawn(async move {
                    let _db = db;
                    sleep(seconds(1000)).await;
                }));
            }
            "ForeignWake" => {
                let (sender, receiver) = futures::channel::oneshot::channel();
                // Polled in this order: the receiver waits before the thread exists.
                let (number, ()) = futures::join!(receiver, async {
                    on_another_thread(move || sender.send(7)).expect("a receiver");
                    sleep(seconds(1)).await;
                });
                self.note(details!["Answer" => number?]);
            }
            "ContextElsewhere" => {
                let context = self.context.clone();
                let (random, clients) =
                    on_another_thread(move || (context.rnd(), context.client_count()));
                self.note(details!["Random" => random, "Clients" => clients]);
                let context = self.context.clone();
                let nowhere = on_another_thread(move || context.get_process_id());
                self.context.set_process_id(nowhere);
            }
            "Random" => random::start(&self.context).await,
            "Delay" => {
                let outcome = self.context.delay(seconds(1)).await;
                self.note(details!["Outcome" => format!("{:?}", outcome.map_err(|e| e.code()))]);
            }
            "Sleep" => sleep(seconds(1)).await,
            // Never reached, because the database was kept in setup.
            "KeepDatabase" => drop(self.kept.as_ref().map(|db| db.create_trx())),
            _ => {}
        }
        Ok(())
    }

    async fn check(&mut self, db: SimDatabase) -> PhaseResult {
        self.phases += 1;
        match self.name.as_str() {
            "Count" => check_count(&db).await?,
            #[cfg(feature = "tokio")]
            name if name.starts_with("Tokio") => on_tokio::check(name, &self.context).await?,
            "FailCheck" => return fail(),
            "SlowCheck" => sleep(seconds(1)).await,
            _ => {}
        }
        Ok(())
    }

    fn get_metrics(&self, mut out: Metrics) {
        match self.name.as_str() {
            "BadMetrics" => {
                let named = |key, fmt| Metric {
                    fmt,
                    ..Metric::val(key, 1)
                };
                out.extend([named("", None), named("a\0b", None)]);
                out.push(named("string", Some("%s")));
                out.push(named("two", Some("%f %f")));
                out.push(named("good", Some("%.1f ms")));
                out.push(named("wide", Some("%999999999f")));
                out.reserve(usize::MAX);
            }
            "Random" => random::metrics(&self.context, &mut out),
            "KeepMetrics" => KEPT_METRICS.set(Some(out)),
            "PanicMetrics" => panic!("no numbers today"),
            _ => out.extend([
                Metric::val("phases", self.phases),
                Metric::avg("client", self.context.client_id()),
            ]),
        }
    }

    fn get_check_timeout(&self) -> f64 {
        match self.name.as_str() {
            "BadCheckTimeout" => f64::NAN,
            _ => 600.0 + f64::from(self.phases),
        }
    }
}

impl Probe {
    fn note<S: AsRef<str>, T: AsRef<str>>(&self, details: &[(S, T)]) {
        self.context.trace(Severity::Info, "Note", details);
    }

    /// What code asks the machine for that knows nothing of simulations.
    #[expect(clippy::disallowed_methods, reason = "that is what is tested")]
    async fn machine(&self) {
        let (began, since) = (std::time::Instant::now(), std::time::SystemTime::now());
        sleep(seconds(3600)).await;
        self.note(details![
            "Instant" => began.elapsed().as_secs_f64(),
            "Calendar" => since.elapsed().unwrap_or_default().as_secs_f64(),
        ]);
        let order: std::collections::HashSet<u32> = (0..20).collect();
        self.note(details!["Order" => format!("{order:?}"), "Pid" => std::process::id()]);
        let joined = std::thread::spawn(|| 7).join();
        let bound = std::net::UdpSocket::bind("127.0.0.1:0");
        self.note(details!["Joined" => joined.is_ok(), "Bound" => bound.is_ok()]);
    }

    /// Everything a context offers, and the tools of the executor.
    async fn walk(&mut self) -> PhaseResult {
        let context = self.context.clone();
        let process = context.get_process_id();
        context.set_process_id(process);
        self.note(details![
            "Client" => context.client_id(),
            "Clients" => context.client_count(),
            "Shared" => context.shared_random_number(),
            "Process" => context.get_process_id() == process,
            "Version" => context.get_workload_api_version(),
            "Random" => context.rnd() != context.rnd(),
        ]);
        let begin = context.now();
        sleep(seconds(2)).await;
        self.note(details!["Slept" => context.now() - begin]);
        let late = timeout(seconds(1), sleep(seconds(5))).await;
        self.note(details!["Late" => late.is_err(), "At" => context.now() - begin]);
        let early = timeout(seconds(5), async { 6 * 7 }).await?;
        self.note(details!["Early" => early]);
        let tasks = (1..=3u64).map(|n| {
            spawn(async move {
                sleep(seconds(4 - n)).await;
                n
            })
        });
        let results = futures::future::try_join_all(tasks).await?;
        self.note(details!["Joined" => format!("{results:?}")]);
        futures::select! {
            () = sleep(seconds(3)).fuse() => self.note(details!["Selected" => "slow"]),
            () = sleep(seconds(1)).fuse() => self.note(details!["Selected" => "quick"]),
        }
        yield_now().await;
        let current = WorkloadContext::current().map(|context| context.client_id());
        self.note(details!["Current" => format!("{current:?}")]);
        Ok(())
    }

    /// Events that would break a run if they reached the server as they are.
    fn trace(&self) {
        let long = "y".repeat(100_000);
        let context = &self.context;
        context.trace(Severity::Info, "", details!["key" => "value"]);
        context.trace(
            Severity::Info,
            "Nul\0Name",
            details!["nul\0key" => "nul\0value"],
        );
        context.trace(Severity::Info, "Empty", details!["" => "x", "y" => ""]);
        context.trace(
            Severity::Info,
            long.as_str(),
            &[(long.as_str(), long.as_str())],
        );
        let many: Vec<(String, &str)> =
            (0..100).map(|i| (format!("Key{i}"), &long[..90])).collect();
        context.trace(Severity::WarnAlways, "Many", &many);
        context.trace(Severity::Debug, "NoDetails", details![]);
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.context
            .trace(Severity::Info, "Dropped", details!["Phases" => self.phases]);
        if self.name == "PanicDrop" {
            panic!("a bad end");
        }
    }
}

struct Factory;

impl RustWorkloadFactory for Factory {
    fn create(name: String, context: WorkloadContext) -> WrappedWorkload {
        match name.as_str() {
            "Unknown" => return WrappedWorkload::unknown(&name),
            "PanicFactory" => panic!("no such workload: {name}"),
            "Options" => read_options(&context),
            "Random" => random::read_seed(&context),
            #[cfg(feature = "tokio")]
            "TokioFactory" => drop(tokio::spawn(async {})),
            _ => {}
        }
        if name == "KeepContext" {
            KEPT_CONTEXT.set(Some(context.clone()));
        }
        WrappedWorkload::new(Probe {
            name,
            context,
            phases: 0,
            kept: None,
        })
    }
}

/// The host calls this after it has freed every workload.
#[unsafe(no_mangle)]
extern "C" fn probe_after_free() {
    if let Some(mut metrics) = KEPT_METRICS.take() {
        metrics.push(Metric::val("late", 1));
    }
    let Some(context) = KEPT_CONTEXT.take() else {
        return;
    };
    context.trace(Severity::Error, "Late", details!["Never" => "seen"]);
    context.set_process_id(context.get_process_id());
    let delayed = context.delay(seconds(1)).now_or_never();
    println!(
        "after free: alive {}, client {} of {}, now {}, rnd {}, process {:?}, option {:?}, delay {:?}",
        context.is_alive(),
        context.client_id(),
        context.client_count(),
        context.now(),
        context.rnd(),
        context.get_process_id(),
        context.get_option::<String>("text"),
        delayed.map(|result| result.map_err(|error| error.code())),
    );
}

fn read_options(context: &WorkloadContext) {
    let number: Option<u32> = context.get_option("number");
    let absent: Option<u32> = context.get_option("absent");
    let invalid: Option<u32> = context.get_option("invalid");
    let again: Option<String> = context.get_option("number");
    let error = context.try_get_option::<u32>("tried").err();
    context.trace(
        Severity::Info,
        "Options",
        details![
            "Number" => format!("{number:?}"),
            "Absent" => format!("{absent:?}"),
            "Invalid" => format!("{invalid:?}"),
            "Again" => format!("{again:?}"),
            "Text" => format!("{:?}", context.get_option::<String>("text")),
            "Tried" => error.map(|error| error.to_string()).unwrap_or_default(),
        ],
    );
}

register_factory!(Factory);
