//! The same uses of the same crates in a test program.
//!
//! Each prints in the end how it went, so that `run` can compare what two processes print. What a
//! seed that passes prints itself is not shown.

#[path = "../src/uses.rs"]
mod uses;

use shaketable::{PhaseResult, SimDatabase, Simulation, WorkloadContext};
use std::sync::{Arc, Mutex};

fn works(name: &'static str) {
    let stories = Arc::new(Mutex::new(Vec::new()));
    let told = stories.clone();
    let simulation = Simulation::new()
        .seeds(0..5)
        .clients(3)
        .without_regressions();
    simulation.test(
        async move |db: SimDatabase, context: WorkloadContext| -> PhaseResult {
            let story = uses::run(name, db, &context).await?;
            let story = format!("{name}, client {}: {story}", context.client_id());
            told.lock().unwrap().push(story);
            Ok(())
        },
    );
    for story in stories.lock().unwrap().iter() {
        println!("{story}");
    }
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
