//! What every drawn layout has, whatever the seed, and what a test file can force.

use super::*;
use std::cell::RefCell;

fn as_drawn(_name: &str, drawn: usize, _smallest: usize) -> usize {
    drawn
}

#[test]
fn each_part_of_the_shape_can_be_chosen_and_leaves_the_draws_of_the_others() {
    let draw = |seed: u64, decide: &Decide<'_>| {
        let names = RefCell::new(Vec::new());
        let noting = |name: &str, drawn: usize, smallest: usize| {
            names.borrow_mut().push((name.to_owned(), drawn));
            decide(name, drawn, smallest)
        };
        let stream = Stream::new(seed, "layout");
        let options = LayoutOptions::default();
        let layout = Layout::draw(&stream, &options, true, &noting).unwrap();
        (layout, names.into_inner(), stream.next_u64())
    };
    for seed in 0..200 {
        let (natural, drawn, next) = draw(seed, &as_drawn);
        for (part, number) in &drawn {
            for wanted in [1, number + 1] {
                let chosen = |name: &str, drawn: usize, smallest: usize| {
                    if name == part {
                        wanted.max(smallest)
                    } else {
                        drawn
                    }
                };
                let (layout, others, after) = draw(seed, &chosen);
                assert_eq!(after, next, "seed {seed}, {part}");
                // One region has parts of which two know nothing.
                let same = others.iter().filter(|other| drawn.contains(other)).count();
                assert!(
                    part == "regions" || same == drawn.len(),
                    "{others:?} {drawn:?}"
                );
                let replicas = layout.configuration.storage_replicas;
                assert!(layout.processes.len() >= replicas, "{layout}");
                assert!(layout.boundaries.is_sorted() && !layout.coordinators.is_empty());
            }
        }
        let smallest = |_: &str, _: usize, smallest: usize| smallest;
        let (layout, ..) = draw(seed, &smallest);
        let shape = "1 region, 1 datacenter, 1 machine, 1 process, 1 coordinator, 1 storage server";
        assert!(layout.to_string().starts_with(shape), "{layout}, {natural}");
    }
}

#[test]
fn a_drawn_layout_can_hold_its_replicas() {
    for seed in 0..200 {
        let stream = Stream::new(seed, "layout");
        let layout = Layout::draw(&stream, &LayoutOptions::default(), true, &as_drawn).unwrap();
        let replicas = layout.configuration.storage_replicas;
        let mut zones: Vec<_> = layout
            .storages
            .iter()
            .map(|index| &layout.processes[*index].zone)
            .collect();
        zones.dedup();
        assert!(zones.len() >= replicas + 2, "seed {seed}: {layout}");
        assert!(layout.configuration.logs >= layout.configuration.log_replicas);
    }
}

#[test]
fn system_keys_have_a_shard_of_their_own_except_in_a_single_process() {
    let mut counts = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let stream = Stream::new(seed, "layout");
        let layout = Layout::draw(&stream, &LayoutOptions::default(), true, &as_drawn).unwrap();
        assert_eq!(layout.boundaries.last(), Some(&Key::from_static(b"\xff")));
        assert!(layout.boundaries.is_sorted(), "seed {seed}");
        let shards = layout.boundaries.len() + 1;
        assert!(layout.to_string().ends_with(&format!("{shards} shards")));
        counts.insert(shards);
    }
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), [2, 3, 4, 5]);
    let single = Layout::single_process().to_string();
    assert!(single.ends_with(", 1 shard"), "{single}");
}

#[test]
fn half_of_the_layouts_have_two_regions_with_all_replicas_in_both() {
    let mut fearless = 0;
    for seed in 0..400 {
        let stream = Stream::new(seed, "layout");
        let layout = Layout::draw(&stream, &LayoutOptions::default(), true, &as_drawn).unwrap();
        if layout.regions.is_empty() {
            continue;
        }
        fearless += 1;
        let datacenter = |index: &usize| &layout.processes[*index].datacenter;
        let replicas = layout.configuration.storage_replicas / 2;
        for region in &layout.regions {
            let there = layout.storages.iter();
            let there = there.filter(|index| datacenter(index) == region).count();
            assert!(there >= replicas, "seed {seed}: {layout}");
        }
        let in_a_region = |index: &usize| layout.regions.contains(datacenter(index));
        assert!(layout.storages.iter().all(in_a_region), "seed {seed}");
        assert!([12, 16].contains(&layout.processes.len()), "seed {seed}");
    }
    assert!((160..240).contains(&fearless), "{fearless}");
}

#[test]
fn a_test_file_decides_whether_there_are_regions() {
    for (wanted, regions) in [(Some(true), 2), (Some(false), 0)] {
        for seed in 0..20 {
            let options = LayoutOptions {
                generate_fearless: wanted,
                ..LayoutOptions::default()
            };
            let layout =
                Layout::draw(&Stream::new(seed, "layout"), &options, false, &as_drawn).unwrap();
            assert_eq!(layout.regions.len(), regions, "seed {seed}");
        }
    }
}

#[test]
fn a_test_file_forces_what_it_names() {
    let options = LayoutOptions {
        datacenters: Some(1),
        machine_count: Some(4),
        processes_per_machine: Some(2),
        config: Some("double logs=2 resolvers:=3".replace(":=", "=")),
        ..LayoutOptions::default()
    };
    let layout = Layout::draw(&Stream::new(1, "layout"), &options, false, &as_drawn).unwrap();
    assert_eq!(layout.processes.len(), 8);
    assert_eq!(layout.configuration.storage_replicas, 2);
    assert_eq!(layout.configuration.resolvers, 3);
    let unknown = LayoutOptions {
        config: Some("tripple".into()),
        ..options
    };
    let refused = Layout::draw(&Stream::new(1, "layout"), &unknown, false, &as_drawn);
    assert_eq!(refused.unwrap_err(), "tripple");
}

#[test]
fn a_configuration_survives_the_database() {
    let mut configuration = Configuration::SINGLE;
    configuration
        .configure("triple proxies=5 resolvers=2")
        .unwrap();
    let mut metadata = Metadata::default();
    for mutation in configuration.write() {
        metadata.apply(&mutation);
    }
    assert_eq!(Configuration::read(&metadata), configuration);
}
