//! The C ABI of libfdb_c on top of the miniature cluster.
