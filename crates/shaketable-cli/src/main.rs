//! The program `shaketable`.

fn main() {}
