//! A deterministic, single-threaded kernel: virtual time, tasks, random streams, network, machines.
