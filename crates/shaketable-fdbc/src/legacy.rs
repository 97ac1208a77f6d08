//! The cluster object of the API before version 610.
//!
//! A cluster was a step on the way to a database: it holds nothing but the name of the cluster
//! file. The functions are in `abi::legacy`.

use crate::network::ClusterName;

/// What `FDBCluster*` points to.
pub struct FDBCluster {
    pub(crate) name: ClusterName,
}
