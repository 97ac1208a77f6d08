//! Several fault workloads at once, for callers without a test file.

use super::{Context, FaultWorkload, Options};
use crate::client::Database;
use crate::saboteur::Saboteur;
use shaketable_kernel::{Priority, Task};

/// Starts the named fault workloads concurrently on the process of a database handle, which must
/// not be one of the servers. Each takes the options it knows from the same set. The task ends with
/// the slowest of them; dropping it ends them all.
///
/// # Panics
///
/// If there is no workload with one of the names, or if it cannot read an option: both are mistakes
/// of the caller.
pub fn start_together(
    saboteur: &Saboteur,
    database: &Database,
    names: &[&str],
    options: &[(&str, &str)],
) -> Task<()> {
    let here = database.process();
    let mut take = |key: &str| {
        let option = options.iter().find(|(name, _)| *name == key);
        option.map(|(_, text)| (*text).to_owned())
    };
    let mut tasks = Vec::new();
    for name in names {
        let random = here.stream(name);
        let workload = FaultWorkload::read(name, &mut Options(&mut take), &random)
            .unwrap_or_else(|| panic!("there is no fault workload {name}"))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let context = Context {
            saboteur: saboteur.clone(),
            name: (*name).to_owned(),
            database: database.clone(),
            random,
        };
        let body = async move { workload.start(&context).await };
        tasks.push(here.spawn(Priority::DefaultEndpoint, body));
    }
    here.spawn(Priority::DefaultEndpoint, async move {
        for task in tasks {
            task.await;
        }
    })
}
