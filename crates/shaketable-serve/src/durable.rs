//! The database of a server on disk: `--durable`.
//!
//! A thread owns a redb file and writes to it what the log of the cluster gives it: all changes
//! that have come in while it was syncing become one transaction of the store. The log answers its
//! clients when that transaction is on disk. A server that is started again commits all rows to its
//! new cluster before it listens.
//!
//! Kept are the keys of users and those below `\xff\x02`, among them the idempotency ids by which a
//! client finds out what became of its commit; of the rest, the lock of the database and the
//! metadata version. How data is spread over servers is the business of each cluster.

use bytes::Bytes;
use redb::{Database, ReadableDatabase, ReadableTable, Table, TableDefinition};
use shaketable_cluster::cluster::Cluster;
use shaketable_cluster::keeper::{Keeper, Kept, value_after};
use shaketable_cluster::proto::{
    Commit, CommitOutcome, CommitTransaction, KeyRange, Mutation, MutationKind, OpenDatabase,
    Version,
};
use shaketable_kernel::{Completion, Inbox, ProcessId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};

const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");
const NUMBERS: TableDefinition<'_, &str, i64> = TableDefinition::new("numbers");
const VERSION: &str = "version";
/// The layout of the tables above.
const LAYOUT: &str = "layout";
const LAYOUT_NOW: i64 = 1;
/// How many bytes of rows one transaction restores.
const RESTORED_BYTES: usize = 1 << 20;
/// How soon a restore that was not answered is tried again, in seconds.
const RESTORE_RETRY_SECONDS: f64 = 0.01;

/// Why a folder cannot hold the database.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file cannot be read or written, or another server has it.
    #[error("the database {}", .0.display())]
    Store(PathBuf, #[source] Box<redb::Error>),
    /// The folder cannot be made.
    #[error("the folder {}", .0.display())]
    Folder(PathBuf, #[source] io::Error),
    /// Another release wrote it.
    #[error(
        "the database {} has layout {found}, and this release reads layout {LAYOUT_NOW}",
        file.display()
    )]
    OtherLayout {
        /// The file.
        file: PathBuf,
        /// Its layout.
        found: i64,
    },
}

/// A database on disk.
pub struct Store {
    file: PathBuf,
    database: Database,
}

impl Store {
    /// Opens the database in a folder, which is made if it does not exist.
    pub fn open(folder: &Path) -> Result<Store, StoreError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| StoreError::Folder(folder.to_owned(), error))?;
        let file = folder.join("database.redb");
        let wrong = |error: redb::Error| StoreError::Store(file.clone(), Box::new(error));
        let database = Database::create(&file).map_err(|error| wrong(error.into()))?;
        let found = prepare(&database).map_err(wrong)?;
        // The name of a file that was just made must be on disk too.
        let synced = fs::File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| StoreError::Folder(folder.to_owned(), error))?;
        match found {
            LAYOUT_NOW => Ok(Store { file, database }),
            found => Err(StoreError::OtherLayout { file, found }),
        }
    }

    /// The newest version that it holds.
    pub fn version(&self) -> Result<Version, StoreError> {
        self.read(|transaction| {
            let version = transaction.open_table(NUMBERS)?.get(VERSION)?;
            Ok(version.map_or(0, |version| version.value()))
        })
    }

    /// All rows, in pieces that one transaction can commit.
    fn pieces(&self) -> Result<Vec<Vec<Mutation>>, StoreError> {
        self.read(|transaction| {
            let mut pieces = vec![Vec::new()];
            let mut bytes = 0;
            for row in transaction.open_table(ROWS)?.iter()? {
                let (key, value) = row?;
                let set = Mutation {
                    kind: MutationKind::SetValue,
                    param1: Bytes::copy_from_slice(key.value()),
                    param2: Bytes::copy_from_slice(value.value()),
                };
                bytes += set.param1.len() + set.param2.len();
                if bytes > RESTORED_BYTES {
                    bytes = 0;
                    pieces.push(Vec::new());
                }
                if let Some(piece) = pieces.last_mut() {
                    piece.push(set);
                }
            }
            Ok(pieces)
        })
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&redb::ReadTransaction) -> Result<T, redb::Error>,
    ) -> Result<T, StoreError> {
        let transaction = self.database.begin_read().map_err(redb::Error::from);
        let result = transaction.and_then(|transaction| read(&transaction));
        result.map_err(|error| StoreError::Store(self.file.clone(), Box::new(error)))
    }
}

/// Makes the tables if they do not exist; returns their layout.
fn prepare(database: &Database) -> Result<i64, redb::Error> {
    let transaction = database.begin_write()?;
    let layout = {
        transaction.open_table(ROWS)?;
        let mut numbers = transaction.open_table(NUMBERS)?;
        let found = numbers.get(LAYOUT)?.map(|layout| layout.value());
        if found.is_none() {
            numbers.insert(LAYOUT, LAYOUT_NOW)?;
        }
        found.unwrap_or(LAYOUT_NOW)
    };
    transaction.commit()?;
    Ok(layout)
}

/// Changes up to a version, and the number of the wait for them.
struct Job {
    wait: u64,
    version: Version,
    changes: Vec<Mutation>,
}

/// Gives the changes of a cluster to the thread that writes them.
pub struct StoreKeeper {
    jobs: Sender<Job>,
    waits: Rc<Waits>,
    next: Cell<u64>,
    /// While rows are restored, they are on disk already.
    is_restoring: Cell<bool>,
}

/// The log's waits, by number; the writer ends them through the kernel's inbox.
#[derive(Default)]
struct Waits(RefCell<BTreeMap<u64, Rc<Completion<()>>>>);

thread_local! {
    /// The waits of the kernel on this thread: what is posted to it can carry no more than a
    /// number.
    static WAITS: RefCell<Option<Rc<Waits>>> = const { RefCell::new(None) };
}

impl fmt::Debug for StoreKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreKeeper").finish_non_exhaustive()
    }
}

impl StoreKeeper {
    /// Starts the thread that writes, for the kernel of the calling thread. It ends with the
    /// keeper. `failed` is called there if the disk fails: nothing can be promised any more.
    #[expect(
        clippy::disallowed_methods,
        reason = "a disk makes its thread wait, and the server's must not"
    )]
    pub fn start(
        store: Store,
        inbox: Inbox,
        failed: impl FnOnce(StoreError) + Send + 'static,
    ) -> Rc<StoreKeeper> {
        let (jobs, todo) = channel();
        let waits = Rc::new(Waits::default());
        WAITS.set(Some(waits.clone()));
        std::thread::spawn(move || {
            if let Err(error) = write_all(&store.database, &todo, &inbox) {
                failed(StoreError::Store(store.file, Box::new(error)));
            }
        });
        Rc::new(StoreKeeper {
            jobs,
            waits,
            next: Cell::new(0),
            is_restoring: Cell::new(true),
        })
    }

    /// Commits all pieces to a new cluster; from then on changes are kept.
    pub async fn restore(&self, cluster: &Cluster, client: ProcessId, pieces: Vec<Vec<Mutation>>) {
        for mutations in pieces.into_iter().filter(|piece| !piece.is_empty()) {
            let write_conflict_ranges = mutations.iter().map(|set| KeyRange {
                begin: set.param1.clone(),
                end: [&set.param1[..], b"\0"].concat().into(),
            });
            let transaction = CommitTransaction {
                write_conflict_ranges: write_conflict_ranges.collect(),
                mutations,
                lock_aware: true,
                ..CommitTransaction::default()
            };
            commit(cluster, client, transaction).await;
        }
        self.is_restoring.set(false);
    }
}

/// Reads what a store holds, for [`StoreKeeper::restore`].
pub fn read(store: &Store) -> Result<(Version, Vec<Vec<Mutation>>), StoreError> {
    Ok((store.version()?, store.pieces()?))
}

/// Commits a transaction, however long it takes. It may be committed twice.
async fn commit(cluster: &Cluster, client: ProcessId, transaction: CommitTransaction) {
    let known_generation = 0;
    loop {
        if let Some(controller) = cluster.leader().get()
            && let Ok(info) = controller
                .request(client, OpenDatabase { known_generation })
                .await
            && let Some(proxy) = info.commit_proxies.first()
        {
            let commit = Commit {
                transaction: transaction.clone(),
                first_in_batch: false,
                idempotency_id: None,
            };
            if let Ok(Ok(CommitOutcome::Committed { .. })) =
                proxy.commit.request(client, commit).await
            {
                return;
            }
        }
        cluster.kernel().sleep(RESTORE_RETRY_SECONDS).await;
    }
}

impl Keeper for StoreKeeper {
    fn keep(&self, version: Version, changes: Vec<Mutation>) -> Kept {
        if self.is_restoring.get() {
            return Box::pin(async {});
        }
        let wait = self.next.replace(self.next.get() + 1);
        let done = Rc::new(Completion::new());
        self.waits.0.borrow_mut().insert(wait, done.clone());
        let job = Job {
            wait,
            version,
            changes,
        };
        // If the thread is gone the disk has failed, and nothing is answered any more.
        let _ = self.jobs.send(job);
        Box::pin(std::future::poll_fn(move |context| done.poll(context)))
    }
}

/// Writes what comes in, as much at once as there is, until the keeper is gone.
fn write_all(database: &Database, todo: &Receiver<Job>, inbox: &Inbox) -> Result<(), redb::Error> {
    while let Ok(first) = todo.recv() {
        let jobs: Vec<Job> = std::iter::once(first).chain(todo.try_iter()).collect();
        let transaction = database.begin_write()?;
        {
            let mut rows = transaction.open_table(ROWS)?;
            let mut numbers = transaction.open_table(NUMBERS)?;
            for job in &jobs {
                for change in &job.changes {
                    write(&mut rows, change)?;
                }
                numbers.insert(VERSION, job.version)?;
            }
        }
        transaction.commit()?;
        let done: Vec<u64> = jobs.iter().map(|job| job.wait).collect();
        inbox.post(move |_| {
            let waits = WAITS.with_borrow(Clone::clone);
            for wait in done {
                let waited = waits.as_ref().and_then(|w| w.0.borrow_mut().remove(&wait));
                if let Some(waited) = waited {
                    waited.complete(());
                }
            }
        });
    }
    Ok(())
}

fn write(rows: &mut Table<'_, &[u8], &[u8]>, change: &Mutation) -> Result<(), redb::Error> {
    let Mutation {
        kind,
        param1,
        param2,
    } = change;
    if *kind == MutationKind::ClearRange {
        // Two pieces of the key space are kept, and single keys between them.
        rows.retain_in(&param1[..]..&param2[..], |_, _| false)?;
        return Ok(());
    }
    if !is_kept(param1) {
        return Ok(());
    }
    let after = match kind {
        MutationKind::SetValue => Some(param2.clone()),
        kind => {
            let before = rows.get(&param1[..])?;
            let before = before.as_ref().map(|value| value.value());
            value_after(*kind, before, param2)
        }
    };
    match after {
        Some(value) => rows.insert(&param1[..], &value[..])?,
        None => rows.remove(&param1[..])?,
    };
    Ok(())
}

/// Whether a key belongs to the database rather than to the cluster that serves it.
fn is_kept(key: &[u8]) -> bool {
    !key.starts_with(b"\xff")
        || key.starts_with(b"\xff\x02")
        || [&b"\xff/dbLocked"[..], b"\xff/metadataVersion"].contains(&key)
}
