//! Calls of every safe function that reaches the host, in an order and with arguments that a seed
//! draws: whatever a workload does, its host must survive it.

use crate::on_another_thread;
use futures::FutureExt;
use shaketable::{
    Metric, Metrics, Severity, WorkloadContext, always, buggify, sleep, sometimes, spawn, timeout,
    yield_now,
};
use std::cell::Cell;
use std::time::Duration;

/// How many calls a client makes.
const STEPS: u32 = 60;

thread_local! {
    static SEED: Cell<u64> = const { Cell::new(0) };
}

/// Reads the seed, in the factory: an option that is not read there is an error.
pub fn read_seed(context: &WorkloadContext) {
    SEED.set(context.get_option("seed").unwrap_or(0));
}

/// Numbers from a seed (splitmix64).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A text that C, printf, JSON or a trace may stumble over.
    fn text(&mut self) -> String {
        match self.below(10) {
            0 => String::new(),
            1 => "plain".to_owned(),
            2 => "a\0b".to_owned(),
            3 => "%s %n %*f".to_owned(),
            4 => "é€ \u{1}\u{7f}\"<&\\".to_owned(),
            5 => "shaketableMeasure".to_owned(),
            6 => "x".repeat(self.below(700) as usize),
            7 => "\u{1}".repeat(self.below(700) as usize),
            // What the server writes into every event itself.
            8 => ["type", "ID", "Time", "Backtrace", "part"][self.below(5) as usize].to_owned(),
            _ => "y".repeat(self.below(20_000) as usize),
        }
    }

    fn duration(&mut self) -> Duration {
        match self.below(5) {
            0 => Duration::ZERO,
            1 => Duration::from_nanos(1),
            2 => Duration::MAX,
            _ => Duration::from_micros(self.below(3_000_000)),
        }
    }

    fn short_duration(&mut self) -> Duration {
        Duration::from_micros(self.below(2_000_000))
    }
}

pub async fn start(context: &WorkloadContext) {
    let mut draw = Draw(SEED.get() * 1000 + context.client_id() as u64);
    for _ in 0..STEPS {
        step(context, &mut draw).await;
    }
}

async fn step(context: &WorkloadContext, draw: &mut Draw) {
    match draw.below(17) {
        0 | 1 => {
            let severities = [Severity::Debug, Severity::Info, Severity::WarnAlways];
            let severity = severities[draw.below(3) as usize];
            let count = draw.below(12);
            let details: Vec<_> = (0..count).map(|_| (draw.text(), draw.text())).collect();
            context.trace(severity, draw.text(), &details);
        }
        2 => drop(context.get_option::<String>(&draw.text())),
        3 => drop(context.try_get_option::<u32>(&draw.text())),
        4 => context.set_process_id(context.get_process_id()),
        5 => {
            let other = context.clone();
            let process = on_another_thread(move || other.get_process_id());
            context.set_process_id(process);
        }
        6 => drop(context.delay(draw.duration()).now_or_never()),
        7 => sleep(draw.short_duration()).await,
        8 => {
            let _ = timeout(draw.short_duration(), sleep(draw.duration())).await;
        }
        9 => {
            let nap = draw.short_duration();
            let _ = spawn(async move { sleep(nap).await }).await;
        }
        10 => {
            let nap = draw.duration();
            let task = spawn(async move { sleep(nap).await });
            yield_now().await;
            task.abort();
        }
        11 => {
            let nap = draw.short_duration();
            drop(spawn(async move { sleep(nap).await }));
        }
        12 => yield_now().await,
        13 => {
            let clock = context.clock();
            always!(clock.elapsed() <= clock.elapsed(), "time passes");
            let _ = (clock.wall(), context.now(), context.rnd());
        }
        14 => drop(context.swarm([draw.text(), draw.text()])),
        15 => {
            sometimes!(draw.below(2) == 0, "a coin");
            if buggify!() {
                yield_now().await;
            }
        }
        _ => {
            let (other, text) = (context.clone(), draw.text());
            on_another_thread(move || {
                other.trace(Severity::Error, text.as_str(), &[(&text, &text)]);
                let _ = (other.rnd(), other.now(), other.get_option::<String>(&text));
            });
        }
    }
}

pub fn metrics(context: &WorkloadContext, out: &mut Metrics) {
    let mut draw = Draw(u64::from(context.rnd()));
    for _ in 0..10 {
        let (key, format) = (draw.text(), draw.text());
        let formats = ["%.3g", "%s", "%999999999f", "%.0f%%", &format];
        out.push(Metric {
            fmt: Some(formats[draw.below(5) as usize]),
            val: [0.0, f64::NAN, f64::INFINITY, -1e308][draw.below(4) as usize],
            ..Metric::val(&key, 1)
        });
    }
    out.reserve(draw.next() as usize);
    let endless = (0..u64::MAX).map(|_| Metric::val("never", 1));
    out.extend(endless.take_while(|_| false));
}
