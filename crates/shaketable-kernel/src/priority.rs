//! How urgent a task is.
//!
//! FoundationDB's loop runs what is ready by priority, and some of what a client sees depends on
//! that order. So the kernel has the same priorities, by name and number. The queue needs only
//! their rank: their position among the existing priorities, counted from the lowest.

/// How urgent a task is: among ready tasks the highest priority runs first, equals run in the order
/// they became ready. The names and numbers are FoundationDB's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Priority {
    Min = 1000,
    Low = 2000,
    FetchKeys = 2500,
    UpdateStorage = 3000,
    DataDistribution = 3502,
    DefaultEndpoint = 5000,
    DefaultYield = 7000,
    DefaultDelay = 7010,
    DefaultOnMainThread = 7500,
    DefaultPromiseEndpoint = 8000,
    GetConsistentReadVersion = 8500,
    ProxyCommit = 8545,
    TLogCommit = 8570,
    ClusterController = 8650,
    FailureMonitor = 8700,
    Coordination = 8800,
    ReadSocket = 9000,
    DiskIoComplete = 9150,
    Max = 1_000_000,
}

impl Priority {
    /// How many priorities there are.
    pub(crate) const LEVELS: usize = 19;

    /// The rank among all priorities, lowest first.
    pub(crate) const fn level(self) -> u8 {
        match self {
            Priority::Min => 0,
            Priority::Low => 1,
            Priority::FetchKeys => 2,
            Priority::UpdateStorage => 3,
            Priority::DataDistribution => 4,
            Priority::DefaultEndpoint => 5,
            Priority::DefaultYield => 6,
            Priority::DefaultDelay => 7,
            Priority::DefaultOnMainThread => 8,
            Priority::DefaultPromiseEndpoint => 9,
            Priority::GetConsistentReadVersion => 10,
            Priority::ProxyCommit => 11,
            Priority::TLogCommit => 12,
            Priority::ClusterController => 13,
            Priority::FailureMonitor => 14,
            Priority::Coordination => 15,
            Priority::ReadSocket => 16,
            Priority::DiskIoComplete => 17,
            Priority::Max => 18,
        }
    }
}
