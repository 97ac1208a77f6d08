//! The figures that have a target, each beside it:
//! `cargo bench -p shaketable-bench --bench targets [-- PART…]`.
//!
//! Each part runs in a process of its own, so that memory is measured on a clean slate. Rates are
//! per second of CPU time, best of several runs, unless the line says `wall`; instructions are
//! counted by callgrind, where valgrind is installed.

use shaketable_bench::copies::Copies;
use shaketable_bench::gauge::Target::{AtLeast, AtMost, None as NoTarget};
use shaketable_bench::gauge::{self, best_cpu_seconds, line};
use shaketable_bench::transactions::{Place, World};
use shaketable_bench::{executor, kernel, programs, scale, storage};
use shaketable_host::isolation::CopyCost;
use std::process::{Command, ExitCode};

/// The allocator that the program has.
#[global_allocator]
static HEAP: shaketable_host::heap::Heap = shaketable_host::heap::Heap;

const PARTS: [(&str, &str, fn()); 10] = [
    (
        "executor",
        "against the published executor, in instructions",
        executor_part,
    ),
    (
        "kernel",
        "events, and timers among few and many others",
        kernel_part,
    ),
    (
        "transactions",
        "through the SDK and the C ABI, in a simulation without faults",
        transactions_part,
    ),
    ("storage", "a million keys", storage_part),
    (
        "seed",
        "whole seeds of the examples atomic, cycle and bank; a few minutes",
        seed_part,
    ),
    (
        "sweep",
        "one worker and two; 1, 10 and 100 clients",
        sweep_part,
    ),
    (
        "scale",
        "an event with many machines, clients, keys and seconds; a minute",
        scale_part,
    ),
    (
        "fork",
        "copies of a running simulation, as `when` and `explore` make them",
        fork_part,
    ),
    ("program", "libfdb_c.so in a Python program", program_part),
    (
        "instructions",
        "of events and transactions, by callgrind",
        instructions_part,
    ),
];

fn main() -> ExitCode {
    // Cargo adds `--bench`.
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|text| text != "--bench")
        .collect();
    match &arguments[..] {
        [only, name] if only == "part" => match PARTS.iter().find(|part| part.0 == name) {
            Some((_, _, part)) => part(),
            None => return usage(),
        },
        [only, name, operations] if only == "count" => {
            count(name, operations.parse().expect("a number of operations"));
        }
        // A build from nothing takes minutes on all cores, so it only runs when it is asked for.
        [only] if only == "builds" => builds_part(),
        parts
            if parts
                .iter()
                .all(|name| PARTS.iter().any(|part| part.0 == name)) =>
        {
            for (name, what, _) in PARTS {
                if parts.is_empty() || parts.iter().any(|part| part == name) {
                    println!("\n{name}: {what}");
                    run_part(name);
                }
            }
        }
        _ => return usage(),
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    println!("parts; without any, all but the last:");
    for (name, what, _) in PARTS {
        println!("  {name:14} {what}");
    }
    println!(
        "  {:14} the program and a user's crate from nothing, a workload and a test again after a change",
        "builds"
    );
    ExitCode::FAILURE
}

fn run_part(name: &str) {
    // Here and not there: a process keeps the peak memory of its largest child, and the compiler is
    // large.
    if ["seed", "sweep", "program"].contains(&name) {
        programs::build();
    }
    let program = std::env::current_exe().expect("this program has a path");
    let status = Command::new(program).args(["part", name]).status();
    let status = status.expect("this program runs again");
    assert!(status.success(), "the part `{name}` failed");
}

fn executor_part() {
    let Some([spawn, wake]) = programs::executor_cost() else {
        println!("needs valgrind");
        return;
    };
    line("spawn to ready", spawn.0, "instructions", AtMost(spawn.1));
    line("wake-up to poll", wake.0, "instructions", AtMost(wake.1));
    let channel = best_cpu_seconds(20, || {
        executor::through_a_channel(1000);
    });
    line(
        "1,000 tasks through a channel",
        1000.0 / channel,
        "tasks/s",
        NoTarget,
    );
}

fn kernel_part() {
    let rate = |body: &dyn Fn() -> u64| {
        let mut events = 0;
        let seconds = best_cpu_seconds(5, || events = body());
        events as f64 / seconds
    };
    line(
        "ping-pong of messages",
        rate(&|| kernel::ping_pong(200_000)),
        "events/s",
        AtLeast(2e6),
    );
    type Build = fn(u64) -> kernel::Timers;
    for (what, build) in [
        (
            "a sleeper among distant timers",
            kernel::Timers::distant as Build,
        ),
        ("timers that set the next", kernel::Timers::busy),
        ("tasks that sleep", kernel::Timers::sleepers),
    ] {
        let [few, many] = [1000, 1_000_000].map(|pending| {
            let timers = build(pending);
            timers.events(1_000_000);
            rate(&|| timers.events(1_000_000))
        });
        line(format!("{what}, 1,000 of them"), few, "events/s", NoTarget);
        line(
            format!("{what}, 1,000,000 of them"),
            many,
            "events/s",
            NoTarget,
        );
        line(
            format!("{what}: cost of an event, 1,000,000 to 1,000"),
            few / many,
            "times",
            AtMost(1.5),
        );
    }
    line(
        "timeouts that are cancelled",
        rate(&|| kernel::cancelled_timeouts(500_000)),
        "events/s",
        NoTarget,
    );
    line(
        "closures through the inbox",
        rate(&|| kernel::posts(500_000)),
        "events/s",
        NoTarget,
    );
}

fn transactions_part() {
    for place in [Place::OneProcess, Place::Machines] {
        for clients in [1, 10, 100] {
            let world = World::new(place);
            let each = 20_000 / clients;
            let seconds = best_cpu_seconds(5, || world.get_set_commit(clients, each));
            let target = match place {
                Place::OneProcess => AtLeast(100_000.0),
                Place::Machines => NoTarget,
            };
            let what = format!("get + set + commit, {place:?}, {clients} at a time");
            line(
                what,
                (each * clients) as f64 / seconds,
                "transactions/s",
                target,
            );
        }
    }
    let world = World::new(Place::OneProcess);
    world.fill();
    let micros =
        |body: &dyn Fn()| 1e6 * best_cpu_seconds(5, || (0..200).for_each(|_| body())) / 200.0;
    line("get", micros(&|| world.get()), "µs", NoTarget);
    line(
        "set + commit",
        micros(&|| world.set_commit()),
        "µs",
        NoTarget,
    );
    line(
        "a range of 100 keys",
        micros(&|| world.range()),
        "µs",
        NoTarget,
    );
    line(
        "a conflict, and the retry",
        micros(&|| world.conflict()),
        "µs",
        NoTarget,
    );
    let large = best_cpu_seconds(5, || world.large(10_000));
    line(
        "10,000 writes in one transaction",
        large * 1e6,
        "µs",
        NoTarget,
    );
}

fn storage_part() {
    let before = gauge::resident_mib();
    let (load, map) = gauge::cpu_seconds(storage::load);
    line(
        "1,000,000 keys of 16 + 32 bytes",
        gauge::resident_mib() - before,
        "MiB",
        AtMost(300.0),
    );
    let nanos = |seconds: f64| seconds * 1e9 / storage::ROWS as f64;
    line("load", nanos(load), "ns/key", NoTarget);
    let (model, keys) = (storage::load_model(), storage::keys());
    let ours = best_cpu_seconds(3, || storage::read_points(&map, &keys));
    let theirs = best_cpu_seconds(3, || storage::read_points_of_model(&model, &keys));
    line("a point read", nanos(ours), "ns", NoTarget);
    line("a look-up in a BTreeMap", nanos(theirs), "ns", NoTarget);
    line(
        "a point read to a look-up",
        ours / theirs,
        "times",
        AtMost(8.0),
    );
    let scan = best_cpu_seconds(3, || {
        storage::scan(&map);
    });
    line("scan", nanos(scan), "ns/key", NoTarget);
    let (clear, _) = gauge::cpu_seconds(|| storage::clear(map));
    line("clear", nanos(clear), "ns/key", NoTarget);
}

fn seed_part() {
    const SEEDS: u64 = 1000;
    let cargos = programs::program();
    let mut examples = vec![("atomic", SEEDS, &["--buggify", "on"][..], &cargos)];
    let packed = programs::packed();
    if let Some(packed) = &packed {
        examples.push(("atomic", SEEDS, &["--buggify", "on"], packed));
    }
    examples.extend([
        ("atomic", 100, &["--buggify", "off"][..], &cargos),
        ("cycle", 100, &[], &cargos),
        ("bank", 100, &[], &cargos),
    ]);
    for (example, seeds, more, program) in examples {
        let one = programs::sweep_with(program, example, 1, 1, more);
        let all = programs::sweep_with(program, example, 1 + seeds, 1, more);
        let cpu = all.usage.cpu - one.usage.cpu;
        let simulated = all.simulated - one.simulated;
        let is_target = seeds == SEEDS;
        let target = |target| if is_target { target } else { NoTarget };
        let packed = if *program == cargos { "" } else { ", packed" };
        let what = format!("{example} {}{packed}", more.join(" "));
        line(
            format!("{what}: a seed"),
            cpu / seeds as f64 * 1000.0,
            "ms",
            target(AtMost(3.5)),
        );
        line(
            format!("{what}: simulated time to CPU time"),
            simulated / cpu,
            "times",
            target(AtLeast(15_000.0)),
        );
        line(
            format!("{what}: memory, so far"),
            all.usage.largest_mib,
            "MiB",
            target(AtMost(40.0)),
        );
    }
}

fn sweep_part() {
    const SEEDS: u64 = 200;
    // The start of the program is no part of a sweep's speed; turn by turn, so that a busy machine
    // hurts both.
    let (mut best, mut cpu) = ([f64::INFINITY; 2], [f64::INFINITY; 2]);
    for _ in 0..3 {
        for index in 0..2 {
            let jobs = index as u64 + 1;
            let one = programs::sweep("atomic", jobs, jobs, &[]).usage;
            let all = programs::sweep("atomic", jobs + SEEDS, jobs, &[]).usage;
            best[index] = best[index].min(all.wall - one.wall);
            cpu[index] = cpu[index].min(all.cpu - one.cpu);
        }
    }
    let rate = |seconds: f64| SEEDS as f64 / seconds;
    line(
        "atomic, 1 worker (wall)",
        rate(best[0]),
        "seeds/s",
        NoTarget,
    );
    line(
        "atomic, 2 workers (wall)",
        rate(best[1]),
        "seeds/s",
        NoTarget,
    );
    line(
        "atomic, 2 workers to 1 (wall)",
        best[0] / best[1],
        "times",
        AtLeast(1.8),
    );
    line(
        "atomic, CPU time of a seed, 2 workers to 1",
        cpu[1] / cpu[0],
        "times",
        NoTarget,
    );
    for clients in ["1", "10", "100"] {
        let more = ["--clients", clients];
        let one = programs::sweep("atomic", 1, 1, &more);
        let all = programs::sweep("atomic", 1 + SEEDS / 4, 1, &more);
        let cpu = all.usage.cpu - one.usage.cpu;
        let what = format!("atomic, {clients} clients, 1 worker");
        line(what, (SEEDS / 4) as f64 / cpu, "seeds/s", NoTarget);
    }
}

fn scale_part() {
    let small = scale::Size {
        machines: 5,
        clients: 5,
        keys: 1000,
        seconds: 100.0,
        transactions: 20_000,
    };
    let sizes = [
        ("5 machines, 5 clients, 1,000 keys, 100 s", small),
        (
            "100 machines",
            scale::Size {
                machines: 100,
                ..small
            },
        ),
        (
            "200 clients",
            scale::Size {
                clients: 200,
                ..small
            },
        ),
        (
            "1,000,000 keys",
            scale::Size {
                keys: 1_000_000,
                ..small
            },
        ),
        (
            "10,000 simulated seconds",
            scale::Size {
                seconds: 10_000.0,
                ..small
            },
        ),
        (
            "all of these",
            scale::Size {
                machines: 100,
                clients: 200,
                keys: 1_000_000,
                seconds: 10_000.0,
                transactions: 100_000,
            },
        ),
    ];
    let mut first = None;
    for (what, size) in sizes {
        let runs = (0..3).map(|_| scale::run(size));
        let cost = runs.min_by(|a, b| a.cpu.total_cmp(&b.cpu));
        let cost = cost.expect("there were three");
        let nanos = cost.cpu * 1e9 / cost.events as f64;
        let small = *first.get_or_insert(nanos);
        let per_transaction = cost.events as f64 / cost.transactions as f64;
        line(
            format!("{what}: events of a transaction"),
            per_transaction,
            "events",
            NoTarget,
        );
        line(format!("{what}: an event"), nanos, "ns", NoTarget);
        line(
            format!("{what}: an event, to one of the first row"),
            nanos / small,
            "times",
            AtMost(1.3),
        );
    }
}

fn fork_part() {
    let millis = |costs: &[CopyCost], of: fn(&CopyCost) -> f64, quantile: f64| {
        let mut all: Vec<f64> = costs.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        1000.0 * all[((all.len() - 1) as f64 * quantile) as usize]
    };
    let copies = Copies::prepare();
    for (what, moment) in [("after 20 s", 20.0), ("after 60 s", 60.0)] {
        let costs = copies.measure(moment, 500);
        assert!(!costs.is_empty(), "the simulation cannot be copied");
        let median = |of| millis(&costs, of, 0.5);
        line(
            format!("a copy {what}, CPU of the process that is copied"),
            median(|cost| cost.copying),
            "ms",
            AtMost(0.5),
        );
        line(
            format!("a copy {what}, until its first event, CPU of both processes"),
            median(|cost| cost.copying + cost.starting),
            "ms",
            AtMost(1.0),
        );
        line(
            format!("a copy {what}, until its first event (wall), median"),
            median(|cost| cost.started_after),
            "ms",
            AtMost(1.0),
        );
        line(
            format!("a copy {what}, until its first event (wall), the fastest"),
            millis(&costs, |cost| cost.started_after, 0.0),
            "ms",
            NoTarget,
        );
        line(
            format!("a copy {what}, until its first event (wall), 99 of 100"),
            millis(&costs, |cost| cost.started_after, 0.99),
            "ms",
            NoTarget,
        );
    }
}

fn program_part() {
    let runs: Vec<_> = (0..3).map(|_| programs::sequential(20_000)).collect();
    let best = |rate: fn(&programs::Sequential) -> f64| runs.iter().map(rate).fold(0.0, f64::max);
    let wall = best(|run| run.wall_rate);
    line(
        "get + set + commit from Python, one thread (wall)",
        wall,
        "transactions/s",
        AtLeast(60_000.0),
    );
    let cpu = best(|run| run.cpu_rate);
    line(
        "get + set + commit from Python, CPU of both threads",
        cpu,
        "transactions/s",
        NoTarget,
    );
    let tests = best(|run| run.tests_rate);
    line(
        "unit tests of four transactions from Python (wall)",
        tests,
        "tests/s",
        NoTarget,
    );
    let waiting = runs.iter().map(|run| run.waiting);
    line(
        "unit tests from Python: the part of their time in which they wait",
        waiting.fold(f64::INFINITY, f64::min),
        "%",
        NoTarget,
    );
    let runs: Vec<_> = (0..3).map(|_| programs::ordinary(20_000)).collect();
    let least = |of: fn(&programs::Ordinary) -> f64| runs.iter().map(of).fold(f64::MAX, f64::min);
    let most = |of: fn(&programs::Ordinary) -> f64| runs.iter().map(of).fold(0.0, f64::max);
    line(
        "get + set + commit from 64 Python threads (wall)",
        most(|run| run.threads_wall_rate),
        "transactions/s",
        AtLeast(10_000.0),
    );
    line(
        "get + set + commit from 64 Python threads, CPU of all threads",
        most(|run| run.threads_cpu_rate),
        "transactions/s",
        NoTarget,
    );
    line(
        "from loading the library to the first commit (wall)",
        least(|run| run.first_wall),
        "ms",
        AtMost(5.0),
    );
    line(
        "from loading the library to the first commit, CPU",
        least(|run| run.first_cpu),
        "ms",
        AtMost(5.0),
    );
    line(
        "what an empty database adds to a program",
        most(|run| run.memory),
        "MiB",
        AtMost(20.0),
    );
}

/// What callgrind counts.
struct Counted {
    what: &'static str,
    body: fn(u64),
    /// How many operations, in the run that is subtracted and in the other.
    operations: [u64; 2],
}

const COUNTED: [Counted; 8] = [
    Counted {
        what: "ping-pong of messages, a round of two",
        body: |rounds| {
            kernel::ping_pong(rounds);
        },
        operations: [1000, 11_000],
    },
    Counted {
        what: "a sleep among 1,000 distant timers",
        body: |rounds| {
            kernel::Timers::distant(1000).events(rounds * 2);
        },
        operations: [1000, 11_000],
    },
    Counted {
        what: "a sleep among 1,000,000 distant timers",
        body: |rounds| {
            kernel::Timers::distant(1_000_000).events(rounds * 2);
        },
        operations: [1000, 11_000],
    },
    Counted {
        what: "a timer that sets the next, among 1,000",
        body: |rounds| {
            kernel::Timers::busy(1000).events(rounds);
        },
        operations: [1000, 11_000],
    },
    Counted {
        what: "a timer that sets the next, among 1,000,000",
        body: |rounds| {
            kernel::Timers::busy(1_000_000).events(rounds);
        },
        operations: [1000, 101_000],
    },
    Counted {
        what: "get + set + commit, OneProcess, 1 at a time",
        body: |rounds| World::new(Place::OneProcess).get_set_commit(1, rounds),
        operations: [200, 1200],
    },
    Counted {
        what: "get + set + commit, OneProcess, 100 at a time",
        body: |rounds| World::new(Place::OneProcess).get_set_commit(100, rounds / 100),
        operations: [1000, 3000],
    },
    Counted {
        what: "get + set + commit, Machines, 100 at a time",
        body: |rounds| World::new(Place::Machines).get_set_commit(100, rounds / 100),
        operations: [1000, 3000],
    },
];

fn count(what: &str, operations: u64) {
    let counted = COUNTED.iter().find(|counted| counted.what == what);
    let body = counted.expect("a line of the part `instructions`").body;
    body(operations);
}

fn instructions_part() {
    for Counted {
        what,
        operations: [few, many],
        ..
    } in COUNTED
    {
        let Some(instructions) = gauge::instructions(&["count", what], few, many) else {
            println!("needs valgrind");
            return;
        };
        line(what, instructions, "instructions", NoTarget);
    }
}

fn builds_part() {
    let [program, again] = programs::builds();
    line(
        "the program from nothing (wall)",
        program.wall,
        "s",
        AtMost(180.0),
    );
    line(
        "the program from nothing, CPU on two cores at best",
        program.cpu / 2.0,
        "s",
        AtMost(180.0),
    );
    line(
        "a workload crate after a change (wall)",
        again.wall,
        "s",
        AtMost(5.0),
    );
    line(
        "a workload crate after a change, CPU",
        again.cpu,
        "s",
        AtMost(5.0),
    );
    let [first, again] = programs::user_builds();
    line(
        "a user's crate with a simulation, from nothing (wall)",
        first.wall,
        "s",
        AtMost(90.0),
    );
    line(
        "a user's crate with a simulation, CPU on two cores at best",
        first.cpu / 2.0,
        "s",
        AtMost(90.0),
    );
    line(
        "its test after a change (wall)",
        again.wall,
        "s",
        AtMost(3.0),
    );
    line("its test after a change, CPU", again.cpu, "s", AtMost(3.0));
}
