//! Hand-written declarations of `fdb_c.h`.
