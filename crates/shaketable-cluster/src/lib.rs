//! FoundationDB in miniature: its client and its server roles over a simulated network.
