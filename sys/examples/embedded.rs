//! The shape of a program that uses the crate `foundationdb` and brings the engine along.
//! `tests/linking.rs` looks at what the linker wrote into it, and runs it without any libfdb_c.

use shaketable_fdbc as _;

fn main() {
    println!("{}", foundationdb::api::get_max_api_version());
}
