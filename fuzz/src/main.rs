//! The program `shaketable-fuzz`: runs each target for a while, with seeds that are new every
//! time.

use arbtest::arbtest;
use clap::Parser;
use shaketable_fuzz::{TARGETS, Target};
use shaketable_kernel::Stream;
use std::hash::{BuildHasher, RandomState};
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Runs fuzz targets with fresh random inputs, or one of them again with a given seed.
#[derive(Parser)]
struct Arguments {
    /// Which targets to run; all of them without a name.
    targets: Vec<String>,
    /// For how long, all targets together.
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    minutes: f64,
    /// The seed of a failure: runs that one input again.
    #[arg(long, value_name = "SEED", value_parser = hexadecimal)]
    seed: Option<u64>,
    /// With a seed: looks for a shorter input that fails too.
    #[arg(long, requires = "seed")]
    minimize: bool,
}

fn hexadecimal(text: &str) -> Result<u64, std::num::ParseIntError> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let chosen: Vec<&Target> = TARGETS
        .iter()
        .filter(|target| {
            arguments.targets.is_empty() || arguments.targets.iter().any(|name| name == target.name)
        })
        .collect();
    if chosen.is_empty() || chosen.len() < arguments.targets.len() {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("error: expected targets among {}", names.join(", "));
        return ExitCode::from(2);
    }
    let each = Duration::from_secs_f64(arguments.minutes * 60.0 / chosen.len() as f64);
    for target in chosen {
        match arguments.seed {
            Some(seed) if arguments.minimize => {
                arbtest(target.run).seed(seed).minimize().budget(each).run();
            }
            Some(seed) => arbtest(target.run).seed(seed).run(),
            None => {
                if !search(target, each) {
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    ExitCode::SUCCESS
}

/// Tries inputs for a while; whether all of them kept the promises.
#[expect(
    clippy::disallowed_methods,
    reason = "how long to search is a question of the machine's time; what is found is not"
)]
fn search(target: &Target, duration: Duration) -> bool {
    let first = RandomState::new().hash_one(target.name);
    let (name, start) = (target.name, Instant::now());
    println!("{name}: inputs from {first:#018x}");
    let stream = Stream::new(first, name);
    let mut count = 0_u64;
    while start.elapsed() < duration {
        // The upper half of arbtest's seeds is random, the lower half is a length in bytes.
        let random = stream.next_u64();
        let length = 1 + (random & 0xffff_ffff) % u64::from(target.bytes_max);
        let seed = (random & !0xffff_ffff) | length;
        if catch_unwind(|| arbtest(target.run).seed(seed).run()).is_err() {
            println!(
                "{name}: failed after {count} inputs; again: fuzz/run {name} --seed {seed:#x}"
            );
            println!("shorter, if possible: fuzz/run {name} --seed {seed:#x} --minimize");
            return false;
        }
        count += 1;
    }
    println!(
        "{name}: {count} inputs in {:.0} s",
        start.elapsed().as_secs_f64()
    );
    true
}
