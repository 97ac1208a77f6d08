//! The server's side: a cluster, and a guest for every connection.
//!
//! A guest is a process of the server's kernel on which the requests of one program are made, as if
//! its client ran there. When the connection ends the process dies, and with it everything the
//! guest was waiting for; what it had committed stays.

use crate::connection::{Closed, Connection};
use crate::durable::{self, Store, StoreError, StoreKeeper};
use crate::embedded;
use crate::faults::{BadVariable, Faults};
use crate::messages::{
    Envelope, Location, PROTOCOL, Place as ProcessPlace, Plain, Proxies, Question, Reboot,
    Returned, Server as StorageServer, greeting, read_greeting,
};
use crate::place::{Place, Refused};
use crate::poller::{Poller, Source};
use crate::wire::{Input, Malformed, Wire};
use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_cluster::error::Error;
use shaketable_cluster::proto::{
    ClientDbInfo, Commit, CommitProxyInterface, GetKey, GetKeyLocations, GetKeyValues,
    GetMappedKeyValues, GetReadVersion, GetSplitPoints, GetStorageMetrics, GetValue,
    GrvProxyInterface, OpenDatabase, ShardLocation, StorageInterface, WatchValue,
};
use shaketable_kernel::{Endpoint, First, Inbox, Kernel, KillKind, Priority, ProcessId, first_of};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens.
    pub place: Place,
    /// The cluster file that it writes.
    pub cluster_file: PathBuf,
    /// The folder that keeps the database over restarts.
    pub durable: Option<PathBuf>,
    /// What goes wrong in it.
    pub faults: Faults,
}

/// Why a server does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A stranger could reach its socket.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Another server listens there.
    #[error("another `shaketable serve` listens at {}", .0.display())]
    Taken(PathBuf),
    /// The cluster file names something else.
    #[error(
        "{} exists and was not written by `shaketable serve`; name another file with --cluster-file",
        .0.display()
    )]
    ForeignFile(PathBuf),
    /// The database on disk cannot be used, or could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The environment asks for faults that are unknown.
    #[error(transparent)]
    Variable(#[from] BadVariable),
    /// Faults may undo what is on disk.
    #[error(
        "--durable and SHAKETABLE_FAULTS exclude each other: a recovery undoes commits in memory alone"
    )]
    DurableFaults,
    /// The operating system says no.
    #[error("{}", path.display())]
    Io {
        /// What it is about.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Ends a server, from any thread.
#[derive(Clone, Debug)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    inbox: Inbox,
}

impl Default for Stop {
    fn default() -> Self {
        Stop {
            flag: Arc::default(),
            inbox: Inbox::new(),
        }
    }
}

impl Stop {
    /// Ends the server that [`run`] was given this for.
    pub fn stop(&self) {
        self.flag.store(true, Ordering::Release);
        // Ends the wait of a loop that has nothing to do.
        self.inbox.post(|_| {});
    }
}

/// Runs a server on the calling thread until it is stopped. Calls `ready` when programs can
/// connect.
pub fn run(settings: &Settings, stop: &Stop, ready: impl FnOnce()) -> Result<(), ServeError> {
    let Settings {
        place,
        cluster_file,
        durable,
        faults,
    } = settings;
    check_cluster_file(cluster_file)?;
    if durable.is_some() && faults.are_on() {
        return Err(ServeError::DurableFaults);
    }
    let store = durable.as_ref().map(|folder| Store::open(folder));
    let store = store.transpose()?;
    let (listener, _lock) = listen(place)?;
    let kernel = Kernel::real_at_speed(faults.seed, stop.inbox.clone(), faults.speed);
    let failure = Arc::new(Mutex::new(None));
    let poller = Poller::install(&kernel).map_err(at(place.socket()))?;
    let server = Rc::new(Server {
        cluster: match store {
            Some(store) => restore(&kernel, store, stop, &failure)?,
            None => embedded::start(&kernel, faults),
        },
        is_durable: durable.is_some(),
        kernel: kernel.clone(),
        poller: poller.clone(),
        place: place.clone(),
        guests: RefCell::default(),
        vacant: RefCell::default(),
    });
    let socket = listener.try_clone().map_err(at(place.socket()))?;
    let door = Rc::new(Door {
        server: server.clone(),
        listener,
    });
    poller.add(Rc::new(OwnedFd::from(socket)), &door);
    write_cluster_file(place, cluster_file)?;
    ready();
    kernel.run_real(&stop.flag);
    // Programs see the connection close, and wait for the next server.
    let _ = fs::remove_file(place.socket());
    server.guests.take();
    kernel.shutdown();
    let failure = failure
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    failure.map_or(Ok(()), |error: StoreError| Err(error.into()))
}

/// Starts a cluster with what a store holds, which keeps all changes from then on.
fn restore(
    kernel: &Kernel,
    store: Store,
    stop: &Stop,
    failure: &Arc<Mutex<Option<StoreError>>>,
) -> Result<Cluster, ServeError> {
    let (version, pieces) = durable::read(&store)?;
    let (failure, stop) = (failure.clone(), stop.clone());
    let inbox = stop.inbox.clone();
    let keeper = StoreKeeper::start(store, inbox, move |error| {
        failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replace(error);
        stop.stop();
    });
    let config = ClusterConfig {
        keeper: Some(keeper.clone()),
        begins_after: version,
        ..ClusterConfig::single_process(true)
    };
    let cluster = Cluster::start(kernel, config);
    let client = embedded::add_client(kernel, "restore".to_owned());
    let restored = kernel.block_on(keeper.restore(&cluster, client, pieces));
    restored.expect("a kernel on the machine's clock does not deadlock");
    embedded::attend(&cluster, &Faults::default());
    Ok(cluster)
}

fn at(path: &Path) -> impl Fn(io::Error) -> ServeError + '_ {
    |source| ServeError::Io {
        path: path.to_owned(),
        source,
    }
}

/// Listens at a place that is safe and free. The file is locked while the server lives.
fn listen(place: &Place) -> Result<(UnixListener, File), ServeError> {
    place.prepare_folder()?;
    let socket = place.socket();
    let lock_path = socket.with_extension("lock");
    let lock = File::create(&lock_path).map_err(at(&lock_path))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(ServeError::Taken(socket.to_owned())),
        Err(TryLockError::Error(error)) => return Err(at(&lock_path)(error)),
    }
    if place.check()? {
        // Left behind by a server that was killed: the lock is ours.
        fs::remove_file(socket).map_err(at(socket))?;
    }
    let listener = UnixListener::bind(socket).map_err(at(socket))?;
    let private = Permissions::from_mode(0o600);
    fs::set_permissions(socket, private).map_err(at(socket))?;
    listener.set_nonblocking(true).map_err(at(socket))?;
    Ok((listener, lock))
}

/// Refuses to overwrite a file that leads to another database.
fn check_cluster_file(file: &Path) -> Result<(), ServeError> {
    let is_ours = !file.exists() || Place::of_existing_file(file).is_some();
    match is_ours {
        true => Ok(()),
        false => Err(ServeError::ForeignFile(file.to_owned())),
    }
}

/// Writes the cluster file in one step: a program that reads it finds all of it or nothing.
fn write_cluster_file(place: &Place, file: &Path) -> Result<(), ServeError> {
    let text = format!(
        "# Written by `shaketable serve`. The socket is {place}\n{}\n",
        place.connection_string()
    );
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let draft = file.with_file_name(name);
    fs::write(&draft, text).map_err(at(&draft))?;
    fs::rename(&draft, file).map_err(at(file))
}

struct Server {
    kernel: Kernel,
    poller: Poller,
    cluster: Cluster,
    /// Then a recovery would undo in memory what is on disk already.
    is_durable: bool,
    place: Place,
    guests: RefCell<Vec<Rc<Guest>>>,
    /// Processes of guests that have gone, for those to come.
    vacant: RefCell<Vec<ProcessId>>,
}

/// Where programs connect.
struct Door {
    server: Rc<Server>,
    listener: UnixListener,
}

impl Source for Door {
    fn flush(&self) -> bool {
        false
    }

    fn receive(&self) -> bool {
        let mut any = false;
        while let Ok((socket, _)) = self.listener.accept() {
            any = true;
            // A stranger cannot get here; should one, there is nothing to tell them.
            if self.server.place.check_peer(&socket).is_ok() {
                self.server.admit(socket);
            }
        }
        any
    }
}

impl Server {
    fn admit(self: &Rc<Self>, socket: UnixStream) {
        let Ok(mut connection) = Connection::new(socket) else {
            return;
        };
        connection.push_raw(&greeting(PROTOCOL));
        let socket = connection.socket();
        let vacant = self.vacant.borrow_mut().pop();
        let process = vacant.unwrap_or_else(|| {
            let number = self.guests.borrow().len();
            embedded::add_client(&self.kernel, format!("guest {number}"))
        });
        self.kernel.boot(process);
        let guest = Rc::new(Guest {
            server: self.clone(),
            process,
            connection: RefCell::new(connection),
            is_greeted: Cell::new(false),
            exports: RefCell::default(),
        });
        self.poller.add(socket, &guest);
        self.guests.borrow_mut().push(guest);
    }

    /// Forgets a guest and everything it was waiting for.
    fn dismiss(&self, guest: &Guest) {
        let gone = {
            let mut guests = self.guests.borrow_mut();
            let position = guests
                .iter()
                .position(|other| std::ptr::eq(&**other, guest));
            position.map(|position| guests.swap_remove(position))
        };
        if gone.is_some() {
            self.kernel.kill(guest.process, KillKind::RebootProcess);
            self.vacant.borrow_mut().push(guest.process);
        }
    }
}

/// A program that is connected.
struct Guest {
    server: Rc<Server>,
    process: ProcessId,
    connection: RefCell<Connection>,
    is_greeted: Cell<bool>,
    exports: RefCell<Exports>,
}

/// The endpoints that a guest knows, by their numbers.
#[derive(Default)]
struct Exports {
    next: u32,
    /// The proxies of the newest generation that it was told of.
    generation: u64,
    grv_proxies: BTreeMap<u32, GrvProxyInterface>,
    commit_proxies: BTreeMap<u32, CommitProxyInterface>,
    storages: BTreeMap<u32, StorageInterface>,
}

impl Exports {
    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }
}

impl Source for Guest {
    fn flush(&self) -> bool {
        let flushed = self.connection.borrow_mut().flush();
        if flushed.is_err() {
            self.server.dismiss(self);
        }
        self.connection.borrow().wants_to_send()
    }

    fn receive(&self) -> bool {
        let guest = {
            let guests = self.server.guests.borrow();
            let mut guests = guests.iter();
            guests.find(|guest| std::ptr::eq(&***guest, self)).cloned()
        };
        guest.is_some_and(|guest| {
            guest.take_in().unwrap_or_else(|_| {
                guest.server.dismiss(&guest);
                true
            })
        })
    }
}

impl Guest {
    /// Takes in everything that has arrived. Returns whether anything had.
    fn take_in(self: &Rc<Self>) -> Result<bool, Closed> {
        let any = self.connection.borrow_mut().receive()?;
        if any && !self.is_greeted.get() {
            let greeting = self.connection.borrow_mut().greeting();
            let Some(greeting) = greeting else {
                return Ok(any);
            };
            if read_greeting(&greeting)? != PROTOCOL {
                // It has been told our version, and says what to do about it.
                let _ = self.connection.borrow_mut().flush();
                return Err(Malformed("the client speaks another version of the protocol").into());
            }
            self.is_greeted.set(true);
        }
        loop {
            let message = self.connection.borrow_mut().next_message()?;
            let Some(message) = message else {
                return Ok(any);
            };
            let mut input = Input::new(&message);
            self.hear(&mut input)?;
            input.end()?;
        }
    }

    /// Makes the request that a message asks for.
    fn hear(self: &Rc<Self>, input: &mut Input<'_>) -> Result<(), Malformed> {
        let Envelope { id, kind, endpoint } = Wire::take(input)?;
        match kind {
            OpenDatabase::KIND => self.open_database(id, Wire::take(input)?),
            Reboot::KIND => self.reboot(id, Wire::take(input)?),
            GetReadVersion::KIND => {
                let to = |exports: &Exports| {
                    let proxy = exports.grv_proxies.get(&endpoint)?;
                    Some(proxy.get_read_version.clone())
                };
                self.ask::<GetReadVersion>(id, to, input)?;
            }
            Commit::KIND => {
                let to =
                    |exports: &Exports| Some(exports.commit_proxies.get(&endpoint)?.commit.clone());
                self.ask::<Commit>(id, to, input)?;
            }
            GetKeyLocations::KIND => {
                let to = |exports: &Exports| {
                    let proxy = exports.commit_proxies.get(&endpoint)?;
                    Some(proxy.get_key_locations.clone())
                };
                self.ask::<GetKeyLocations>(id, to, input)?;
            }
            GetValue::KIND => self.ask_storage(id, endpoint, |s| &s.get_value, input)?,
            GetKey::KIND => self.ask_storage(id, endpoint, |s| &s.get_key, input)?,
            GetKeyValues::KIND => self.ask_storage(id, endpoint, |s| &s.get_key_values, input)?,
            GetMappedKeyValues::KIND => {
                self.ask_storage(id, endpoint, |s| &s.get_mapped_key_values, input)?;
            }
            WatchValue::KIND => self.ask_storage(id, endpoint, |s| &s.watch_value, input)?,
            GetStorageMetrics::KIND => self.ask_storage(id, endpoint, |s| &s.get_metrics, input)?,
            GetSplitPoints::KIND => {
                self.ask_storage(id, endpoint, |s| &s.get_split_points, input)?;
            }
            _ => return Err(Malformed("a question is unknown")),
        }
        Ok(())
    }

    fn ask_storage<Q: Answered>(
        self: &Rc<Self>,
        id: u32,
        number: u32,
        endpoint: impl Fn(&StorageInterface) -> &Endpoint<Q>,
        input: &mut Input<'_>,
    ) -> Result<(), Malformed> {
        let to = |exports: &Exports| Some(endpoint(exports.storages.get(&number)?).clone());
        self.ask(id, to, input)
    }

    /// Makes a request of the guest's, and sends the answer back.
    fn ask<Q: Answered>(
        self: &Rc<Self>,
        id: u32,
        to: impl FnOnce(&Exports) -> Option<Endpoint<Q>>,
        input: &mut Input<'_>,
    ) -> Result<(), Malformed> {
        let question = Q::take(input)?;
        let endpoint = to(&self.exports.borrow());
        let Some(endpoint) = endpoint else {
            self.send_nothing(id);
            return Ok(());
        };
        let reply = endpoint.request(self.process, question);
        let guest = self.clone();
        self.spawn(async move {
            match reply.await {
                Ok(reply) => guest.send::<Q>(id, reply),
                Err(_disconnected) => guest.send_nothing(id),
            }
        });
        Ok(())
    }

    /// Asks the cluster controller, whichever process that is, for proxies that the guest does not
    /// know.
    fn open_database(self: &Rc<Self>, id: u32, OpenDatabase { known_generation }: OpenDatabase) {
        let (guest, leader) = (self.clone(), self.server.cluster.leader());
        self.spawn(async move {
            loop {
                let changed = leader.on_change();
                let Some(controller) = leader.get() else {
                    changed.await;
                    continue;
                };
                let reply = controller.request(guest.process, OpenDatabase { known_generation });
                match first_of(reply, changed).await {
                    First::Left(Ok(info)) => return guest.send::<OpenDatabase>(id, info),
                    First::Left(Err(_disconnected)) => {
                        guest.server.kernel.sleep(OUTAGE_SECONDS).await;
                    }
                    First::Right(()) => {}
                }
            }
        });
    }

    fn reboot(self: &Rc<Self>, id: u32, Reboot { address }: Reboot) {
        if self.server.is_durable {
            return self.send::<Reboot>(id, false);
        }
        let guest = self.clone();
        embedded::reboot(&self.server.cluster, self.process, &address, move |done| {
            guest.send::<Reboot>(id, done);
        });
    }

    fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        let kernel = &self.server.kernel;
        kernel
            .spawn(self.process, Priority::DefaultEndpoint, future)
            .detach();
    }

    fn send<Q: Answered>(&self, id: u32, reply: Q::Reply) {
        let answer = Q::answer(reply, self);
        let returned = Returned { id, answered: true };
        let mut connection = self.connection.borrow_mut();
        connection.push(|out| {
            returned.put(out);
            answer.put(out);
        });
    }

    fn send_nothing(&self, id: u32) {
        let answered = false;
        let mut connection = self.connection.borrow_mut();
        connection.push(|out| Returned { id, answered }.put(out));
    }

    fn place_of(&self, process: ProcessId) -> ProcessPlace {
        let spec = self.server.kernel.process(process);
        ProcessPlace {
            name: spec.name.clone(),
            address: spec.address,
            machine: spec.machine.clone(),
            zone: spec.zone.clone(),
            datacenter: spec.datacenter.clone(),
            class: spec.class.clone(),
        }
    }
}

/// How long to wait for a controller that does not answer, in seconds.
const OUTAGE_SECONDS: f64 = 0.05;

/// A request as a guest makes it: how its reply travels.
trait Answered: Question {
    fn answer(reply: Self::Reply, guest: &Guest) -> Self::Answer;
}

impl<Q: Plain> Answered for Q {
    fn answer(reply: Q::Reply, _: &Guest) -> Q::Answer {
        reply
    }
}

impl Answered for OpenDatabase {
    fn answer(info: ClientDbInfo, guest: &Guest) -> Proxies {
        let mut exports = guest.exports.borrow_mut();
        if exports.generation != info.generation {
            exports.generation = info.generation;
            exports.grv_proxies.clear();
            exports.commit_proxies.clear();
            for proxy in info.grv_proxies.iter() {
                let number = exports.number();
                exports.grv_proxies.insert(number, proxy.clone());
            }
            for proxy in info.commit_proxies.iter() {
                let number = exports.number();
                exports.commit_proxies.insert(number, proxy.clone());
            }
        }
        let roles = info.roles.iter();
        let configuration = info.configuration.iter();
        Proxies {
            generation: info.generation,
            grv_proxies: exports.grv_proxies.keys().copied().collect(),
            commit_proxies: exports.commit_proxies.keys().copied().collect(),
            roles: roles
                .map(|(role, process)| ((*role).to_owned(), guest.place_of(*process)))
                .collect(),
            configuration: configuration
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect(),
        }
    }
}

impl Answered for GetKeyLocations {
    fn answer(reply: Self::Reply, guest: &Guest) -> Result<Vec<Location>, Error> {
        let mut exports = guest.exports.borrow_mut();
        let mut server = |server: &StorageInterface| {
            let mut known = exports.storages.iter();
            let known = known.find(|(_, known)| known.get_value == server.get_value);
            let number = known.map(|(number, _)| *number).unwrap_or_else(|| {
                let number = exports.number();
                exports.storages.insert(number, server.clone());
                number
            });
            StorageServer {
                number,
                id: server.id,
                address: server.address,
            }
        };
        reply.map(|shards| {
            let shards = shards.into_iter();
            let shards = shards.map(|ShardLocation { range, servers }| Location {
                range,
                servers: servers.iter().map(&mut server).collect(),
            });
            shards.collect()
        })
    }
}
