//! The same uses of the same crates in a test program.
//!
//! Each prints how it went, so that `run` can compare what two processes print.

#[path = "../src/uses.rs"]
mod uses;

use shaketable::{PhaseResult, SimDatabase, Simulation, WorkloadContext};

fn works(name: &'static str) {
    let simulation = Simulation::new()
        .seeds(0..5)
        .clients(3)
        .without_regressions();
    simulation.test(
        async move |db: SimDatabase, context: WorkloadContext| -> PhaseResult {
            let story = uses::run(name, db, &context).await?;
            println!("{name}, client {}: {story}", context.client_id());
            Ok(())
        },
    );
}

#[test]
fn backon() {
    works("backon");
}

#[test]
fn moka() {
    works("moka");
}

#[test]
fn tonic() {
    works("tonic");
}

#[test]
fn tower() {
    works("tower");
}
