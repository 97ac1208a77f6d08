//! The shape of a program that uses the crate `foundationdb` and brings no engine.
//! `tests/linking.rs` looks at what the linker wrote into it, and runs it to see the stub refuse.

fn main() {
    println!("{}", foundationdb::api::get_max_api_version());
}
