//! What the processor can do, found out when a library is loaded.
//!
//! Crates that search and compare bytes choose their code by that, the first time they are called.
//! On a virtual machine the question takes as long as several transactions, and the embedded host
//! forks for each seed, after loading: without this every seed would ask again.

#[used]
// SAFETY: the section holds functions of this type and nothing else; the loader calls them once,
// before anything else of the library runs.
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = ask;

extern "C" fn ask() {
    // The standard library detects all features at once, the first time it is asked for one.
    let _ = std::is_x86_feature_detected!("avx2");
}
