//! Questions about the cluster, and commands to it.
//!
//! An embedded cluster is never unhealthy in the eyes of its client, its protocol never changes, it
//! has one region and no snapshots, so that most answers are always the same. They still come
//! through the kernel, like all others: a program must not learn to rely on a future that is ready
//! at once.

use crate::database::FDBDatabase;
use crate::future::FDBFuture;
use crate::operation::finish;
use crate::value::Value;
use bytes::Bytes;
use shaketable_cluster::error::Error;
use std::sync::Arc;

/// FoundationDB 7.4's.
const PROTOCOL_VERSION: u64 = 0x0FDB_00B0_7400_0000;

/// With the keys of FoundationDB's report.
const CLIENT_STATUS: &str = concat!(
    r#"{"Healthy":true,"ClusterID":"00000000000000000000000000000000","#,
    r#""Coordinators":["127.0.0.1:4500"],"CurrentCoordinator":"127.0.0.1:4500","#,
    r#""GrvProxies":["127.0.0.1:4500"],"CommitProxies":["127.0.0.1:4500"],"#,
    r#""StorageServers":[],"#,
    r#""Connections":[{"Address":"127.0.0.1:4500","Status":"connected","Compatible":true}],"#,
    r#""NumConnectionsFailed":0}"#
);

/// The status report of the client. Of a database that cannot work it is nothing but the reason.
pub(crate) fn client_status(database: &Arc<FDBDatabase>) -> Arc<FDBFuture> {
    let future = FDBFuture::pending(database.universe.clone());
    let (promise, handle) = (future.clone(), database.clone());
    database.universe.post(move |_| {
        let error = handle.object().and_then(|database| database.error());
        let status = match error {
            Some(error) => Bytes::from(format!(r#"{{"InitializationError":{}}}"#, error.0)),
            None => Bytes::from_static(CLIENT_STATUS.as_bytes()),
        };
        finish(&promise, Ok(Value::Key(status)));
    });
    future
}

/// The protocol of the cluster. It never changes, so waiting for another one never ends.
pub(crate) fn server_protocol(database: &FDBDatabase, expected: u64) -> Arc<FDBFuture> {
    if expected == PROTOCOL_VERSION {
        return FDBFuture::pending(database.universe.clone());
    }
    answer(database, Ok(Value::Uint64(PROTOCOL_VERSION)))
}

/// Would recover in another region. FoundationDB reports success where there is none.
pub(crate) fn force_recovery_with_data_loss(database: &FDBDatabase) -> Arc<FDBFuture> {
    answer(database, Ok(Value::Void))
}

/// Would run a command that takes a snapshot of the disks. A server runs only commands that it was
/// configured to allow, and here there are none.
pub(crate) fn create_snapshot(database: &FDBDatabase, uid: &[u8]) -> Arc<FDBFuture> {
    let is_uid = uid.len() == 32 && uid.iter().all(u8::is_ascii_hexdigit);
    let refusal = if is_uid {
        SNAP_PATH_NOT_WHITELISTED
    } else {
        SNAP_INVALID_UID_STRING
    };
    answer(database, Err(refusal))
}

const SNAP_PATH_NOT_WHITELISTED: Error = Error(2505);
const SNAP_INVALID_UID_STRING: Error = Error(2509);

/// Reboots the process at an address: the result is 1, or 0 if there is none. The processes of a
/// simulation are rebooted by its faults, not by its clients.
pub(crate) fn reboot_worker(database: &FDBDatabase, address: Bytes) -> Arc<FDBFuture> {
    let Some(name) = database.cluster.clone() else {
        return answer(database, Err(Error::UNSUPPORTED_OPERATION));
    };
    let future = FDBFuture::pending(database.universe.clone());
    let (promise, universe) = (future.clone(), database.universe.clone());
    database.universe.post(move |_| {
        let cluster = universe.objects(|objects| objects.clusters.get(&name).cloned());
        if let Some(cluster) = cluster.flatten() {
            cluster.reboot(address, move |rebooted| {
                finish(&promise, Ok(Value::Int64(i64::from(rebooted))));
            });
        }
    });
    future
}

/// A future with an answer that is known already.
pub(crate) fn answer(database: &FDBDatabase, outcome: Result<Value, Error>) -> Arc<FDBFuture> {
    let future = FDBFuture::pending(database.universe.clone());
    let promise = future.clone();
    database.universe.post(move |_| finish(&promise, outcome));
    future
}
