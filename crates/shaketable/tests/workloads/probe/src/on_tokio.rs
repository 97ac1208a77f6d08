//! Workloads on tokio, one per behaviour.

use shaketable::foundationdb::FdbError;
use shaketable::{PhaseResult, Severity, SimDatabase, WorkloadContext, details};
use std::collections::HashSet;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep, timeout};

/// A handle that outlives its runtime.
static LEAKED: Mutex<Option<tokio::runtime::Handle>> = Mutex::new(None);

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn note<S: AsRef<str>, T: AsRef<str>>(context: &WorkloadContext, details: &[(S, T)]) {
    context.trace(Severity::Info, "Note", details);
}

/// The phase `start` of the workload of that name.
pub async fn start(name: &str, db: SimDatabase, context: &WorkloadContext) -> PhaseResult {
    match name {
        "TokioCostDelay" => tokio::spawn(crate::delays(context.clone())).await?,
        "TokioCostYield" => {
            let wakes = crate::wakes(context);
            tokio::spawn(async move {
                for _ in 0..wakes {
                    tokio::task::yield_now().await;
                }
            })
            .await?;
        }
        "TokioWalk" => walk(context).await?,
        "TokioMix" => mix(context).await?,
        "TokioChance" => chance(context).await,
        "TokioPanic" => {
            drop(tokio::spawn(async { panic!("a task is broken") }));
            sleep(seconds(1)).await;
            note(context, details!["After" => "panic"]);
        }
        "TokioCaughtPanic" => {
            let caught = tokio::spawn(async {
                std::panic::catch_unwind(|| panic!("this is handled")).is_err()
            });
            note(context, details!["Caught" => caught.await?]);
        }
        "TokioOwnPanic" => {
            tokio::task::spawn_local(async {
                let own = shaketable::spawn(async { panic!("a task of ours") });
                assert!(own.await.is_err());
            })
            .await?;
        }
        "TokioLeftOver" => {
            for _ in 0..3 {
                let db = db.clone();
                drop(tokio::spawn(async move {
                    sleep(seconds(60)).await;
                    drop(db);
                }));
            }
            drop(shaketable::spawn(sleep(seconds(60))));
        }
        "TokioAbort" => {
            let task = tokio::spawn(std::future::pending::<()>());
            task.abort();
            let cancelled = task.await.is_err_and(|error| error.is_cancelled());
            note(context, details!["Cancelled" => cancelled]);
        }
        "TokioYields" => {
            shaketable::set_poll_budget(10_000);
            tokio::spawn(async {
                loop {
                    tokio::task::yield_now().await;
                }
            })
            .await?;
        }
        "TokioWakes" => {
            shaketable::set_poll_budget(10_000);
            let spins = std::future::poll_fn(|context| {
                context.waker().wake_by_ref();
                std::task::Poll::<()>::Pending
            });
            tokio::spawn(spins).await?;
        }
        "TokioPingPong" => {
            shaketable::set_poll_budget(10_000);
            let (to, mut from) = tokio::sync::mpsc::channel(1);
            let (back, mut again) = tokio::sync::mpsc::channel(1);
            to.send(()).await?;
            drop(tokio::spawn(async move {
                while let Some(ball) = from.recv().await {
                    back.send(ball).await.expect("the other side");
                }
            }));
            while let Some(ball) = again.recv().await {
                to.send(ball).await?;
            }
        }
        "TokioDeadlock" => {
            let (kept, waits) = tokio::sync::oneshot::channel::<()>();
            tokio::spawn(waits).await??;
            drop(kept);
        }
        "TokioSpawnBlocking" => tokio::task::spawn_blocking(|| ()).await?,
        "TokioBlockInPlace" => tokio::task::block_in_place(|| ()),
        "TokioRuntime" => {
            let own = tokio::runtime::Builder::new_current_thread().build()?;
            own.block_on(async {});
        }
        "TokioSocket" => {
            let refused = tokio::net::TcpListener::bind("127.0.0.1:0").await;
            note(context, details!["Refused" => refused.is_err()]);
        }
        "TokioSignal" => {
            let refused = tokio::signal::ctrl_c().await;
            note(context, details!["Refused" => refused.is_err()]);
        }
        "TokioProcess" => {
            let refused = tokio::process::Command::new("true").output().await;
            note(context, details!["Refused" => refused.is_err()]);
        }
        "TokioThreads" => {
            let refused = tokio::runtime::Runtime::new();
            note(context, details!["Refused" => refused.is_err()]);
        }
        "TokioFile" => drop(tokio::fs::read("/etc/hostname").await?),
        "TokioLeak" => {
            *LEAKED.lock().expect("a lock") = Some(tokio::runtime::Handle::current());
        }
        _ => {}
    }
    Ok(())
}

/// The phase `check`.
pub async fn check(name: &str, context: &WorkloadContext) -> PhaseResult {
    let leaked = LEAKED.lock().expect("a lock").take();
    if name == "TokioLeak"
        && let Some(handle) = leaked
    {
        let task = handle.spawn(async {});
        let cancelled = task.await.is_err_and(|error| error.is_cancelled());
        note(context, details!["Cancelled" => cancelled]);
    }
    Ok(())
}

/// What tokio offers.
#[expect(
    clippy::disallowed_methods,
    reason = "it is simulated, and that is what is tested"
)]
async fn walk(context: &WorkloadContext) -> PhaseResult {
    let begin = (context.now(), Instant::now(), SystemTime::now());
    sleep(seconds(3600)).await;
    note(
        context,
        details![
            "Slept" => (context.now() - begin.0).round(),
            "Instant" => begin.1.elapsed().as_secs(),
            "Calendar" => begin.2.elapsed()?.as_secs(),
        ],
    );
    let late = timeout(seconds(1), sleep(seconds(5))).await;
    note(context, details!["Late" => late.is_err()]);
    let mut tasks = JoinSet::new();
    for number in 1..=3_u64 {
        tasks.spawn(async move {
            sleep(seconds(4 - number)).await;
            number
        });
    }
    let mut joined = Vec::new();
    while let Some(number) = tasks.join_next().await {
        joined.push(number?);
    }
    note(context, details!["Joined" => format!("{joined:?}")]);
    let not_send = std::rc::Rc::new(7);
    let local = tokio::task::spawn_local(async move { *not_send }).await?;
    note(context, details!["Local" => local]);
    let (mut here, mut there) = tokio::io::duplex(4);
    let echo = tokio::spawn(async move {
        let mut text = String::new();
        there.read_to_string(&mut text).await.map(|_| text)
    });
    here.write_all(b"through a pipe").await?;
    drop(here);
    note(context, details!["Echo" => echo.await??]);
    let mut ticks = interval(seconds(10));
    for _ in 0..3 {
        ticks.tick().await;
    }
    let (sender, mut receiver) = tokio::sync::watch::channel(0);
    drop(tokio::spawn(async move {
        sleep(seconds(5)).await;
        sender.send(1).expect("a receiver");
    }));
    tokio::select! {
        _ = ticks.tick() => note(context, details!["Selected" => "slow"]),
        changed = receiver.changed() => {
            changed?;
            note(context, details!["Selected" => "quick"]);
        }
    }
    Ok(())
}

/// Both worlds in one phase.
async fn mix(context: &WorkloadContext) -> PhaseResult {
    use futures::FutureExt;
    let shared = async {
        shaketable::sleep(seconds(2)).await;
        sleep(seconds(2)).await;
        7
    };
    let shared = shared.boxed_local().shared();
    let ours = shaketable::spawn(shared.clone());
    let tokios = tokio::task::spawn_local(shared.clone());
    let seen = (shared.await, ours.await?, tokios.await?);
    note(context, details!["Shared" => format!("{seen:?}")]);
    let inside = tokio::spawn(async {
        shaketable::sleep(seconds(1)).await;
        let current = WorkloadContext::current().map(|context| context.client_id());
        let delayed = match WorkloadContext::current() {
            Some(context) => context.delay(seconds(1)).await,
            None => Err(FdbError::from_code(1)),
        };
        (current, delayed.is_ok())
    });
    note(
        context,
        details!["Inside" => format!("{:?}", inside.await?)],
    );
    let outside = shaketable::spawn(async {
        let task = tokio::spawn(async { sleep(seconds(1)).await });
        task.await.is_ok()
    });
    note(context, details!["Outside" => outside.await?]);
    Ok(())
}

/// What depends on chance.
async fn chance(context: &WorkloadContext) {
    let mut text = String::new();
    for _ in 0..40 {
        tokio::select! {
            () = async {} => text.push('a'),
            () = async {} => text.push('b'),
            () = async {} => text.push('c'),
        }
    }
    let order: HashSet<u32> = (0..20).collect();
    note(
        context,
        details![
            "Coins" => text,
            "Order" => format!("{order:?}"),
            "At" => format!("{:?}", Instant::now()),
        ],
    );
}
