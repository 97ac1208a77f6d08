//! The kernel alone: messages between two processes, timers, closures through the inbox. Each body
//! returns how many events it made.

use shaketable_kernel::{
    Address, Inbox, Kernel, NetworkConfig, Priority, ProcessId, ProcessSpec, Request, Stream, Time,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

struct Ping(u64);
impl Request for Ping {
    type Reply = u64;
}

/// One request after another over a simulated network; each is two messages: sent, delivered,
/// taken, twice.
pub fn ping_pong(rounds: u64) -> u64 {
    let kernel = Kernel::simulation(1);
    kernel.set_budget(u64::MAX);
    kernel.set_network_config(NetworkConfig::simulation());
    let [client, server] = [1, 2].map(|number| process(&kernel, number));
    let (endpoint, mut requests) = kernel.listen::<Ping>(server);
    let pong = kernel.spawn(server, Priority::DefaultEndpoint, async move {
        loop {
            let (Ping(number), reply) = requests.recv().await;
            reply.send(number + 1);
        }
    });
    let ping = kernel.spawn(client, Priority::DefaultEndpoint, async move {
        let mut number = 0;
        while number < rounds {
            let reply = endpoint.request(client, Ping(number)).await;
            number = reply.expect("the server lives");
        }
    });
    kernel.block_on(ping).expect("the rounds end");
    drop(pong);
    kernel.events()
}

/// A kernel with many timers, and a body that makes events among them.
pub struct Timers {
    kernel: Kernel,
    again: bool,
}

impl Timers {
    /// Timers that lie far away, for a task that sleeps again and again.
    pub fn distant(pending: u64) -> Timers {
        let kernel = Kernel::simulation(1);
        let stream = kernel.stream("bench");
        for _ in 0..pending {
            kernel.call_at(Time::from_secs(stream.range(1e7, 2e7)), |_| ());
        }
        Timers {
            kernel,
            again: false,
        }
    }

    /// Timers each of which sets the next, somewhere in the second that follows.
    pub fn busy(pending: u64) -> Timers {
        fn again(kernel: &Kernel, stream: Stream) {
            let time = kernel.now() + stream.range(0.0, 1.0);
            kernel.call_at(time, move |kernel| again(kernel, stream));
        }
        let kernel = Kernel::simulation(1);
        for _ in 0..pending {
            again(&kernel, kernel.stream("bench"));
        }
        Timers {
            kernel,
            again: true,
        }
    }

    /// Tasks that sleep, each again and again.
    pub fn sleepers(pending: u64) -> Timers {
        let kernel = Kernel::simulation(1);
        let process = process(&kernel, 1);
        for _ in 0..pending {
            let (own, stream) = (kernel.clone(), kernel.stream("bench"));
            let sleeper = async move {
                loop {
                    own.sleep(stream.range(0.0, 1.0)).await;
                }
            };
            kernel
                .spawn(process, Priority::DefaultDelay, sleeper)
                .detach();
        }
        kernel.run_ready().expect("all sleep");
        Timers {
            kernel,
            again: true,
        }
    }

    /// Makes this many events.
    pub fn events(&self, events: u64) -> u64 {
        let before = self.kernel.events();
        if self.again {
            while self.kernel.events() - before < events {
                self.kernel.run_ready().expect("time moves");
                self.kernel.advance();
            }
        } else {
            let sleeper = async {
                for _ in 0..events / 2 {
                    self.kernel.sleep(0.001).await;
                }
            };
            self.kernel.block_on(sleeper).expect("it wakes up");
        }
        self.kernel.events() - before
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        self.kernel.shutdown();
    }
}

/// Long timeouts around short waits, so that nearly every timer is cancelled.
pub fn cancelled_timeouts(rounds: u64) -> u64 {
    let kernel = Kernel::simulation(1);
    let waits = async {
        for _ in 0..rounds {
            kernel.timeout(600.0, kernel.sleep(0.001)).await;
        }
    };
    kernel.block_on(waits).expect("the waits end");
    kernel.events()
}

/// Closures through the inbox, four at a time, as a binding posts them.
pub fn posts(rounds: u64) -> u64 {
    let kernel = Kernel::simulation(1);
    let inbox = kernel.inbox();
    for _ in 0..rounds {
        for _ in 0..4 {
            inbox.post(|kernel| {
                std::hint::black_box(kernel.now());
            });
        }
        kernel.run_ready().expect("time moves");
        kernel
            .run_until(kernel.now() + 1e-6)
            .expect("nothing spins");
    }
    kernel.events()
}

/// A network thread of the machine's own time, to which another thread posts and waits for the
/// answer.
pub struct NetworkThread {
    inbox: Inbox,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl NetworkThread {
    /// Starts it.
    pub fn start() -> NetworkThread {
        let (inbox, stop) = (Inbox::new(), Arc::new(AtomicBool::new(false)));
        let (theirs, flag) = (inbox.clone(), stop.clone());
        let thread = std::thread::Builder::new()
            .spawn(move || Kernel::real_with(1, theirs).run_real(&flag))
            .expect("a thread");
        NetworkThread {
            inbox,
            stop,
            thread: Some(thread),
        }
    }

    /// There and back, `rounds` times.
    pub fn round_trips(&self, rounds: u64) {
        let (sender, receiver) = std::sync::mpsc::channel();
        for number in 0..rounds {
            let sender = sender.clone();
            self.inbox
                .post(move |_| sender.send(number).expect("the other end waits"));
            receiver.recv().expect("the network thread runs");
        }
    }
}

impl Drop for NetworkThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.inbox.post(|_| ());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it ends");
        }
    }
}

fn process(kernel: &Kernel, number: u8) -> ProcessId {
    kernel.add_process(ProcessSpec {
        address: Address::v4(10, 0, 0, number, 4500),
        ..ProcessSpec::default()
    })
}
