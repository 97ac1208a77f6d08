//! The External-workload ABI of FoundationDB's simulator as plain C types.
