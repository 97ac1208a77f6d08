//! Several fault workloads at once, for callers without a test file.

use super::{Context, FaultWorkload, Options};
use crate::cluster::Cluster;
use shaketable_kernel::{Priority, ProcessId, Task};

/// The API version of the database handle that the workloads share.
const API_VERSION: i32 = 740;

/// Starts the named fault workloads concurrently on a process, which must not be one of the
/// servers. Each takes the options it knows from the same set. The task ends with the slowest of
/// them; dropping it ends them all.
///
/// # Panics
///
/// If there is no workload with one of the names, or if it cannot read an option: both are mistakes
/// of the caller.
pub fn start_together(
    cluster: &Cluster,
    process: ProcessId,
    names: &[&str],
    options: &[(&str, &str)],
) -> Task<()> {
    let kernel = cluster.kernel();
    let database = cluster.open_database(process, API_VERSION);
    let mut take = |key: &str| {
        let option = options.iter().find(|(name, _)| *name == key);
        option.map(|(_, text)| (*text).to_owned())
    };
    let mut tasks = Vec::new();
    for name in names {
        let random = kernel.stream(name);
        let workload = FaultWorkload::read(name, &mut Options(&mut take), &random)
            .unwrap_or_else(|| panic!("there is no fault workload {name}"))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let context = Context {
            cluster: cluster.clone(),
            database: database.clone(),
            random,
        };
        let body = async move { workload.start(&context).await };
        tasks.push(kernel.spawn(process, Priority::DefaultEndpoint, body));
    }
    kernel.spawn(process, Priority::DefaultEndpoint, async move {
        for task in tasks {
            task.await;
        }
    })
}
