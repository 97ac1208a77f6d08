//! Questions about the cluster to which there is only one answer here.
//!
//! An embedded cluster is never unhealthy in the eyes of its client, and its protocol never
//! changes. The answers still come through the kernel, like all others: a program must not learn to
//! rely on a future that is ready at once.

use crate::database::FDBDatabase;
use crate::future::FDBFuture;
use crate::operation::finish;
use crate::value::Value;
use bytes::Bytes;
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

/// The status report of the client.
pub(crate) fn client_status(database: &FDBDatabase) -> Arc<FDBFuture> {
    answer(
        database,
        Value::Key(Bytes::from_static(CLIENT_STATUS.as_bytes())),
    )
}

/// The protocol of the cluster. It never changes, so waiting for another one never ends.
pub(crate) fn server_protocol(database: &FDBDatabase, expected: u64) -> Arc<FDBFuture> {
    if expected == PROTOCOL_VERSION {
        return FDBFuture::pending(database.universe.clone());
    }
    answer(database, Value::Uint64(PROTOCOL_VERSION))
}

fn answer(database: &FDBDatabase, value: Value) -> Arc<FDBFuture> {
    let future = FDBFuture::pending(database.universe.clone());
    let promise = future.clone();
    database.universe.post(move |_| finish(&promise, Ok(value)));
    future
}
