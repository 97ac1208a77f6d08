//! How long each path takes: `cargo bench -p shaketable-bench --bench paths [-- FILTER]`.
//!
//! A table of times on the wall, fastest, slowest, median and mean, by divan; where a row does many
//! operations at once, their rate stands below it. Look at the fastest column when the machine is
//! busy.

use divan::Bencher;
use divan::counter::ItemsCount;
use shaketable_bench::transactions::{Place, World};
use shaketable_bench::{executor, kernel, storage};

// The allocator of the program, under which all of this runs.
#[global_allocator]
static HEAP: shaketable_host::heap::Heap = shaketable_host::heap::Heap;

fn main() {
    divan::main();
}

mod the_executor {
    use super::*;

    #[divan::bench]
    fn spawn_to_ready() {
        executor::spawn_to_ready();
    }

    #[divan::bench]
    fn wake_to_poll(bencher: Bencher<'_, '_>) {
        let sleeper = executor::Sleeper::spawn();
        bencher.bench_local(|| sleeper.wake_to_poll());
    }

    #[divan::bench(args = [1000])]
    fn tasks_through_a_channel(bencher: Bencher<'_, '_>, tasks: usize) {
        bencher
            .counter(ItemsCount::new(tasks))
            .bench_local(|| executor::through_a_channel(tasks));
    }
}

mod the_kernel {
    use super::*;

    #[divan::bench(sample_count = 10)]
    fn ping_pong_events(bencher: Bencher<'_, '_>) {
        let events = kernel::ping_pong(10_000);
        bencher
            .counter(ItemsCount::new(events))
            .bench_local(|| kernel::ping_pong(10_000));
    }

    #[divan::bench(args = [1000, 1_000_000], sample_count = 10, sample_size = 1)]
    fn events_among_distant_timers(bencher: Bencher<'_, '_>, pending: u64) {
        let timers = kernel::Timers::distant(pending);
        bencher
            .counter(ItemsCount::new(100_000_u64))
            .bench_local(|| timers.events(100_000));
    }

    #[divan::bench(args = [1000, 1_000_000], sample_count = 10, sample_size = 1)]
    fn timers_that_set_the_next(bencher: Bencher<'_, '_>, pending: u64) {
        let timers = kernel::Timers::busy(pending);
        bencher
            .counter(ItemsCount::new(100_000_u64))
            .bench_local(|| timers.events(100_000));
    }

    #[divan::bench(args = [1000, 1_000_000], sample_count = 10, sample_size = 1)]
    fn tasks_that_sleep(bencher: Bencher<'_, '_>, pending: u64) {
        let timers = kernel::Timers::sleepers(pending);
        bencher
            .counter(ItemsCount::new(100_000_u64))
            .bench_local(|| timers.events(100_000));
    }

    #[divan::bench(sample_count = 10)]
    fn timeouts_that_are_cancelled(bencher: Bencher<'_, '_>) {
        bencher
            .counter(ItemsCount::new(10_000_u64))
            .bench_local(|| kernel::cancelled_timeouts(10_000));
    }

    #[divan::bench(sample_count = 10)]
    fn closures_through_the_inbox(bencher: Bencher<'_, '_>) {
        bencher
            .counter(ItemsCount::new(40_000_u64))
            .bench_local(|| kernel::posts(10_000));
    }

    #[divan::bench]
    fn round_trip_between_threads(bencher: Bencher<'_, '_>) {
        let network = kernel::NetworkThread::start();
        bencher.bench_local(|| network.round_trips(1));
    }
}

/// Through the SDK and the C ABI.
mod a_transaction {
    use super::*;

    const PLACES: [Place; 2] = [Place::OneProcess, Place::Machines];

    fn filled(place: Place) -> World {
        let world = World::new(place);
        world.fill();
        world
    }

    #[divan::bench(args = PLACES)]
    fn get(bencher: Bencher<'_, '_>, place: Place) {
        let world = filled(place);
        bencher.bench_local(|| world.get());
    }

    #[divan::bench(args = PLACES)]
    fn set_commit(bencher: Bencher<'_, '_>, place: Place) {
        let world = filled(place);
        bencher.bench_local(|| world.set_commit());
    }

    #[divan::bench(args = PLACES)]
    fn get_set_commit(bencher: Bencher<'_, '_>, place: Place) {
        let world = filled(place);
        bencher.bench_local(|| world.get_set_commit(1, 1));
    }

    #[divan::bench(args = PLACES, sample_count = 20)]
    fn get_set_commit_by_100_clients(bencher: Bencher<'_, '_>, place: Place) {
        let world = filled(place);
        bencher
            .counter(ItemsCount::new(1000_u64))
            .bench_local(|| world.get_set_commit(100, 10));
    }

    #[divan::bench(args = PLACES)]
    fn range_of_100_keys(bencher: Bencher<'_, '_>, place: Place) {
        let world = filled(place);
        bencher.bench_local(|| world.range());
    }

    #[divan::bench(args = PLACES)]
    fn conflict_and_retry(bencher: Bencher<'_, '_>, place: Place) {
        let world = filled(place);
        bencher.bench_local(|| world.conflict());
    }

    #[divan::bench(args = PLACES, sample_count = 20, sample_size = 1)]
    fn of_10_000_writes(bencher: Bencher<'_, '_>, place: Place) {
        let world = filled(place);
        bencher
            .counter(ItemsCount::new(10_000_u64))
            .bench_local(|| world.large(10_000));
    }
}

/// A million rows in a storage server's map.
mod storage_of_a_million_keys {
    use super::*;

    #[divan::bench(sample_count = 3, sample_size = 1)]
    fn load(bencher: Bencher<'_, '_>) {
        bencher
            .counter(ItemsCount::new(storage::ROWS))
            .bench_local(storage::load);
    }

    #[divan::bench(sample_count = 3, sample_size = 1)]
    fn read_each_key(bencher: Bencher<'_, '_>) {
        let (map, keys) = (storage::load(), storage::keys());
        bencher
            .counter(ItemsCount::new(storage::ROWS))
            .bench_local(|| storage::read_points(&map, &keys));
    }

    #[divan::bench(sample_count = 3, sample_size = 1)]
    fn look_each_key_up_in_a_btree_map(bencher: Bencher<'_, '_>) {
        let (model, keys) = (storage::load_model(), storage::keys());
        bencher
            .counter(ItemsCount::new(storage::ROWS))
            .bench_local(|| storage::read_points_of_model(&model, &keys));
    }

    #[divan::bench(sample_count = 3, sample_size = 1)]
    fn scan(bencher: Bencher<'_, '_>) {
        let map = storage::load();
        bencher
            .counter(ItemsCount::new(storage::ROWS))
            .bench_local(|| storage::scan(&map));
    }

    #[divan::bench(sample_count = 3, sample_size = 1)]
    fn clear(bencher: Bencher<'_, '_>) {
        bencher
            .counter(ItemsCount::new(storage::ROWS))
            .with_inputs(storage::load)
            .bench_local_values(storage::clear);
    }
}
