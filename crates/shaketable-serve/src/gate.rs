//! The client's side: endpoints that look like servers and lead to a socket.
//!
//! For every endpoint that the server names there is one on the program's own kernel, on a process
//! with the name and address of the real one, so that a status describes the server's processes.
//! A request that arrives there is written to the socket, and its reply waits under a number until
//! the answer comes. When the connection is lost these endpoints close and the replies are dropped,
//! which is what the death of a server looks like to a client; then the gate connects again, and
//! announces the server as a new cluster controller.

use crate::connection::{Closed, Connection};
use crate::messages::{
    Envelope, GREETING_BYTES, Location, PROTOCOL, Place as ProcessPlace, Plain, Proxies, Question,
    Reboot, Returned, Server, greeting, read_greeting,
};
use crate::place::{Place, Refused};
use crate::poller::{Poller, Source};
use crate::wire::{Input, Malformed, Wire};
use bytes::Bytes;
use shaketable_cluster::error::Error;
use shaketable_cluster::process::exceptions::Announced;
use shaketable_cluster::proto::{
    ClientDbInfo, Commit, CommitProxyInterface, GetKey, GetKeyLocations, GetKeyValues,
    GetMappedKeyValues, GetReadVersion, GetSplitPoints, GetStorageMetrics, GetValue,
    GrvProxyInterface, OpenDatabase, ShardLocation, StorageInterface, WatchValue,
};
use shaketable_kernel::{
    Address, Endpoint, Kernel, Notify, Priority, ProcessId, ProcessSpec, Reply, Serving,
};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::{Rc, Weak};
use std::time::Duration;

/// How long to wait before the next attempt to connect, in seconds.
const RETRY_SECONDS: f64 = 0.1;
/// How long [`probe`] waits for a greeting.
const GREETING_PATIENCE: Duration = Duration::from_secs(5);

/// Why a database cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum NoServer {
    /// The socket could be a stranger's.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The server speaks another protocol.
    #[error(
        "the server at {} speaks version {theirs} of the protocol, this library version {PROTOCOL}: both must be of the same release of Shaketable",
        place.socket().display()
    )]
    OtherVersion {
        /// Where it is.
        place: Place,
        /// Its version.
        theirs: u32,
    },
    /// Something else listens at the socket.
    #[error("what listens at {} is not `shaketable serve`", .0.socket().display())]
    NotOurs(Place),
}

/// Looks for the server at a place, on the calling thread. Returns whether there is one; a program
/// may well be started before its server.
pub fn probe(place: &Place) -> Result<bool, NoServer> {
    let Some(mut socket) = connect(place)? else {
        return Ok(false);
    };
    let theirs = (|| {
        socket.set_read_timeout(Some(GREETING_PATIENCE))?;
        socket.write_all(&greeting(PROTOCOL))?;
        let mut greeting = [0; GREETING_BYTES];
        socket.read_exact(&mut greeting)?;
        io::Result::Ok(greeting)
    })();
    match theirs.map(|greeting| read_greeting(&greeting)) {
        Ok(Ok(PROTOCOL)) => Ok(true),
        Ok(Ok(theirs)) => Err(NoServer::OtherVersion {
            place: place.clone(),
            theirs,
        }),
        _ => Err(NoServer::NotOurs(place.clone())),
    }
}

/// Connects to the server at a place, if there is one.
fn connect(place: &Place) -> Result<Option<UnixStream>, Refused> {
    if !place.check()? {
        return Ok(None);
    }
    // Whatever the reason is, it may pass: the server may be about to listen.
    let Ok(socket) = UnixStream::connect(place.socket()) else {
        return Ok(None);
    };
    place.check_peer(&socket)?;
    Ok(Some(socket))
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub struct Gate(Rc<Inner>);

struct Inner {
    kernel: Kernel,
    poller: Poller,
    place: Place,
    /// The process of the client.
    client: ProcessId,
    /// The process of the gate's own task.
    home: ProcessId,
    leader: Announced<Endpoint<OpenDatabase>>,
    link: RefCell<Option<Rc<Link>>>,
    lost: Notify,
    /// The newest generation that the client has heard of.
    generation: Cell<u64>,
    /// The processes that stand for the server's.
    processes: RefCell<BTreeMap<Address, ProcessId>>,
}

impl Gate {
    /// Begins to connect to the server at a place, and never stops.
    pub fn open(kernel: &Kernel, poller: &Poller, place: Place) -> Gate {
        let process = |name: &str| crate::embedded::add_client(kernel, name.to_owned());
        let gate = Gate(Rc::new(Inner {
            kernel: kernel.clone(),
            poller: poller.clone(),
            place,
            client: process("program"),
            home: process("gate"),
            leader: Announced::default(),
            link: RefCell::default(),
            lost: Notify::new(),
            generation: Cell::new(0),
            processes: RefCell::default(),
        }));
        let keep_connected = gate.0.clone().keep_connected();
        kernel
            .spawn(gate.0.home, Priority::DefaultEndpoint, keep_connected)
            .detach();
        gate
    }

    /// Where the client finds the cluster controller.
    pub fn leader(&self) -> Announced<Endpoint<OpenDatabase>> {
        self.0.leader.clone()
    }

    /// The process on which the client runs.
    pub fn client(&self) -> ProcessId {
        self.0.client
    }

    /// The text of a cluster file that names the server.
    pub fn connection_string(&self) -> String {
        self.0.place.connection_string()
    }

    /// Asks the server to reboot the process at an address. `done` hears whether there was one, if
    /// the server answers.
    pub fn reboot(&self, address: Bytes, done: impl FnOnce(bool) + 'static) {
        let Some(link) = self.0.link.borrow().clone() else {
            return;
        };
        let endpoint = link.listen::<Reboot>(self.0.home, 0, &link.listeners);
        let reply = endpoint.request(self.0.client, Reboot { address });
        let wait = async move {
            if let Ok(rebooted) = reply.await {
                done(rebooted);
            }
        };
        let kernel = &self.0.kernel;
        kernel
            .spawn(self.0.client, Priority::DefaultEndpoint, wait)
            .detach();
    }
}

impl Inner {
    async fn keep_connected(self: Rc<Self>) {
        loop {
            let lost = self.lost.notified();
            if self.connect() {
                lost.await;
            }
            self.kernel.sleep(RETRY_SECONDS).await;
        }
    }

    /// Connects, if there is a server.
    fn connect(self: &Rc<Self>) -> bool {
        let Ok(Some(socket)) = connect(&self.place) else {
            return false;
        };
        let Ok(mut connection) = Connection::new(socket) else {
            return false;
        };
        connection.push_raw(&greeting(PROTOCOL));
        let socket = connection.socket();
        let link = Rc::new(Link {
            gate: Rc::downgrade(self),
            connection: RefCell::new(connection),
            is_greeted: Cell::new(false),
            waiting: RefCell::default(),
            generation_offset: Cell::new(None),
            listeners: RefCell::default(),
            proxies: RefCell::default(),
            storages: RefCell::default(),
            info: RefCell::default(),
        });
        self.poller.add(socket, &link);
        self.link.replace(Some(link));
        true
    }

    /// The process that stands for one of the server's.
    fn process(&self, place: ProcessPlace) -> ProcessId {
        let mut processes = self.processes.borrow_mut();
        *processes.entry(place.address).or_insert_with(|| {
            self.kernel.add_process(ProcessSpec {
                name: place.name,
                address: place.address,
                machine: place.machine,
                zone: place.zone,
                datacenter: place.datacenter,
                class: place.class,
                ..ProcessSpec::default()
            })
        })
    }
}

/// One connection to the server.
struct Link {
    gate: Weak<Inner>,
    connection: RefCell<Connection>,
    is_greeted: Cell<bool>,
    /// What waits for an answer, by the number of the question.
    waiting: RefCell<Slab<Box<dyn Waiting>>>,
    /// What to add to the server's generations: a server that was started again counts from the
    /// beginning, and for the client each one must be newer than the last.
    generation_offset: Cell<Option<u64>>,
    /// The endpoints of the connection, those of the current proxies, and those of storage servers.
    listeners: Listeners,
    proxies: Listeners,
    storages: RefCell<BTreeMap<u32, StorageInterface>>,
    /// What the newest generation looks like to all databases of the program.
    info: RefCell<Option<ClientDbInfo>>,
}

type Listeners = RefCell<Vec<Serving>>;

impl Link {
    /// Opens an endpoint from which requests go to an endpoint of the server, until `listeners` are
    /// dropped.
    fn listen<Q: Asked>(
        self: &Rc<Self>,
        process: ProcessId,
        number: u32,
        listeners: &Listeners,
    ) -> Endpoint<Q> {
        let Some(gate) = self.gate.upgrade() else {
            unreachable!("a link is used by the tasks of its gate's kernel")
        };
        let (endpoint, requests) = gate.kernel.listen::<Q>(process);
        let link = Rc::downgrade(self);
        let serving = requests.serve(Priority::DefaultEndpoint, move |question, reply| {
            if let Some(link) = link.upgrade() {
                link.ask(number, question, reply);
            }
        });
        listeners.borrow_mut().push(serving);
        endpoint
    }

    fn ask<Q: Asked>(&self, endpoint: u32, question: Q, reply: Reply<Q::Reply>) {
        let mut waiting = self.waiting.borrow_mut();
        let id = waiting.insert(Box::new(Awaited::<Q>(reply))) as u32;
        let kind = Q::KIND;
        let envelope = Envelope { id, kind, endpoint };
        let question = question.prepare(self);
        let mut connection = self.connection.borrow_mut();
        connection.push(|out| {
            envelope.put(out);
            question.put(out);
        });
    }

    /// Takes in everything that has arrived. Returns whether anything had.
    fn take_in(self: &Rc<Self>) -> Result<bool, Closed> {
        let any = self.connection.borrow_mut().receive()?;
        if any && !self.is_greeted.get() {
            self.hear_greeting()?;
        }
        if !self.is_greeted.get() {
            return Ok(any);
        }
        loop {
            let message = self.connection.borrow_mut().next_message()?;
            let Some(message) = message else {
                return Ok(any);
            };
            let mut input = Input::new(&message);
            let Returned { id, answered } = Wire::take(&mut input)?;
            let waiting = self.waiting.borrow_mut().try_remove(id as usize);
            let waiting = waiting.ok_or(Malformed("it answers nothing"))?;
            if answered {
                waiting.answer(self, &mut input)?;
            }
            input.end()?;
        }
    }

    fn hear_greeting(self: &Rc<Self>) -> Result<(), Closed> {
        let Some(greeting) = self.connection.borrow_mut().greeting() else {
            return Ok(());
        };
        if read_greeting(&greeting)? != PROTOCOL {
            return Err(Malformed("the server speaks another version of the protocol").into());
        }
        self.is_greeted.set(true);
        if let Some(gate) = self.gate.upgrade() {
            let controller = self.listen::<OpenDatabase>(gate.home, 0, &self.listeners);
            gate.leader.announce(controller);
        }
        Ok(())
    }

    /// The connection is over: endpoints close, requests end, and the gate connects again.
    fn close(&self) {
        let Some(gate) = self.gate.upgrade() else {
            return;
        };
        let listeners = [self.listeners.take(), self.proxies.take()];
        let waiting = self.waiting.take();
        drop((listeners, waiting));
        let link = gate.link.take();
        gate.lost.notify_all();
        drop(link);
    }

    fn storage(self: &Rc<Self>, server: Server) -> StorageInterface {
        if let Some(known) = self.storages.borrow().get(&server.number) {
            return known.clone();
        }
        let name = || server.address.to_string();
        let process = self.gate.upgrade().map(|gate| {
            gate.process(ProcessPlace {
                name: name(),
                address: server.address,
                machine: name(),
                zone: name(),
                datacenter: String::new(),
                class: "unset".into(),
            })
        });
        let Some(process) = process else {
            unreachable!("a link is used by the tasks of its gate's kernel")
        };
        let (number, listeners) = (server.number, &self.listeners);
        let interface = StorageInterface {
            id: server.id,
            address: server.address,
            get_value: self.listen::<GetValue>(process, number, listeners),
            get_key: self.listen::<GetKey>(process, number, listeners),
            get_key_values: self.listen::<GetKeyValues>(process, number, listeners),
            get_mapped_key_values: self.listen::<GetMappedKeyValues>(process, number, listeners),
            watch_value: self.listen::<WatchValue>(process, number, listeners),
            get_metrics: self.listen::<GetStorageMetrics>(process, number, listeners),
            get_split_points: self.listen::<GetSplitPoints>(process, number, listeners),
        };
        let mut storages = self.storages.borrow_mut();
        storages.insert(number, interface.clone());
        interface
    }
}

impl Source for Link {
    fn flush(&self) -> bool {
        let flushed = self.connection.borrow_mut().flush();
        if flushed.is_err() {
            self.close();
        }
        self.connection.borrow().wants_to_send()
    }

    fn receive(&self) -> bool {
        let link = self
            .gate
            .upgrade()
            .and_then(|gate| gate.link.borrow().clone());
        let Some(link) = link.filter(|link| std::ptr::eq(&**link, self)) else {
            return false;
        };
        link.take_in().unwrap_or_else(|_| {
            link.close();
            true
        })
    }
}

/// A request as the gate forwards it: what it says to the server, and what the client makes of the
/// answer.
trait Asked: Question {
    /// Puts the question in the server's terms.
    fn prepare(self, _: &Link) -> Self {
        self
    }
    /// Puts the answer in the client's terms.
    fn reply(answer: Self::Answer, link: &Rc<Link>) -> Result<Self::Reply, Malformed>;
}

impl<Q: Plain> Asked for Q {
    fn reply(answer: Q::Answer, _: &Rc<Link>) -> Result<Q::Reply, Malformed> {
        Ok(answer)
    }
}

impl Asked for OpenDatabase {
    fn prepare(mut self, link: &Link) -> Self {
        let offset = link.generation_offset.get();
        self.known_generation =
            offset.map_or(0, |offset| self.known_generation.saturating_sub(offset));
        self
    }

    fn reply(answer: Proxies, link: &Rc<Link>) -> Result<ClientDbInfo, Malformed> {
        let Some(gate) = link.gate.upgrade() else {
            return Err(Malformed("it comes after the end"));
        };
        let offset = link.generation_offset.get().unwrap_or_else(|| {
            let offset = (gate.generation.get() + 1).saturating_sub(answer.generation);
            link.generation_offset.set(Some(offset));
            offset
        });
        let generation = answer.generation.saturating_add(offset);
        gate.generation.set(generation);
        if let Some(known) = &*link.info.borrow()
            && known.generation == generation
        {
            return Ok(known.clone());
        }
        let roles = answer.roles.into_iter().map(|(role, place)| {
            let process = gate.process(place);
            Ok((known_name(&role)?, process))
        });
        let configuration = answer.configuration.into_iter();
        let configuration = configuration.map(|(name, count)| Ok((known_name(&name)?, count)));
        let before = link.proxies.take();
        let proxies = &link.proxies;
        let grv_proxies = answer
            .grv_proxies
            .into_iter()
            .map(|number| GrvProxyInterface {
                get_read_version: link.listen::<GetReadVersion>(gate.home, number, proxies),
            });
        let commit_proxies = answer.commit_proxies.into_iter();
        let commit_proxies = commit_proxies.map(|number| CommitProxyInterface {
            commit: link.listen::<Commit>(gate.home, number, proxies),
            get_key_locations: link.listen::<GetKeyLocations>(gate.home, number, proxies),
        });
        let info = ClientDbInfo {
            generation,
            grv_proxies: grv_proxies.collect(),
            commit_proxies: commit_proxies.collect(),
            roles: roles.collect::<Result<_, _>>()?,
            configuration: configuration.collect::<Result<_, _>>()?,
            // What a client of a served database connects to is the server, whoever coordinates.
            coordinators: None,
        };
        drop(before);
        link.info.replace(Some(info.clone()));
        Ok(info)
    }
}

impl Asked for GetKeyLocations {
    fn reply(
        answer: Result<Vec<Location>, Error>,
        link: &Rc<Link>,
    ) -> Result<Self::Reply, Malformed> {
        let shard = |Location { range, servers }| ShardLocation {
            range,
            servers: servers
                .into_iter()
                .map(|server| link.storage(server))
                .collect(),
        };
        Ok(answer.map(|shards| shards.into_iter().map(shard).collect()))
    }
}

/// The roles and numbers of a cluster that a status shows.
fn known_name(name: &str) -> Result<&'static str, Malformed> {
    const NAMES: [&str; 13] = [
        "clustercontroller",
        "sequencer",
        "tlog",
        "resolver",
        "commitproxy",
        "grvproxy",
        "storage",
        "storage_replicas",
        "log_replicas",
        "logs",
        "commit_proxies",
        "grv_proxies",
        "resolvers",
    ];
    let known = NAMES.into_iter().find(|known| *known == name);
    known.ok_or(Malformed("a role is unknown"))
}

/// A reply that waits for its answer.
trait Waiting {
    fn answer(self: Box<Self>, link: &Rc<Link>, input: &mut Input<'_>) -> Result<(), Malformed>;
}

struct Awaited<Q: Asked>(Reply<Q::Reply>);

impl<Q: Asked> Waiting for Awaited<Q> {
    fn answer(self: Box<Self>, link: &Rc<Link>, input: &mut Input<'_>) -> Result<(), Malformed> {
        let answer = Q::Answer::take(input)?;
        self.0.send(Q::reply(answer, link)?);
        Ok(())
    }
}
