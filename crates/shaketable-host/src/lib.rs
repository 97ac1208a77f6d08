//! Plays fdbserver's tester: test files, phases, faults, traces, verdicts.
