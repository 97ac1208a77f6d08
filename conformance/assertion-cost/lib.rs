//! A function as its author wrote it, and the same with every macro of `shaketable` in it.

/// Sums the batches of a list.
#[unsafe(no_mangle)]
pub extern "C" fn plain(items: *const u32, length: usize, size: usize) -> u64 {
    // SAFETY: never called.
    let items = unsafe { std::slice::from_raw_parts(items, length) };
    let mut sum = 0;
    for batch in items.chunks(size.max(1)) {
        match batch {
            [] => {}
            [first, ..] => sum += u64::from(*first) + batch.len() as u64,
        }
    }
    sum
}

/// Sums the batches of a list.
#[unsafe(no_mangle)]
pub extern "C" fn asserted(items: *const u32, length: usize, size: usize) -> u64 {
    // SAFETY: never called.
    let items = unsafe { std::slice::from_raw_parts(items, length) };
    let size = if shaketable::buggify!("tiny batches") { 1 } else { size };
    let size = if shaketable::buggify!("smaller batches", 0.01) { size / 2 } else { size };
    let mut sum = 0;
    for batch in items.chunks(size.max(1)) {
        shaketable::always!(batch.len() <= size, "no batch is too large", "Length" => batch.len(), "Sum" => sum);
        shaketable::sometimes!(batch.len() < size, "a batch is not full");
        match batch {
            [] => shaketable::never_reached!("an empty batch", "Sum" => sum),
            [first, ..] => sum += u64::from(*first) + batch.len() as u64,
        }
    }
    shaketable::reachable!("a list was summed");
    sum
}
