//! Transactions of every kind on few keys: what [`RandomClient`] does. It has no check of its own;
//! the checkers cover everything.

use crate::harness::{API_VERSION, Client, Workload};
use shaketable_cluster::checker::RandomClient;
use shaketable_kernel::{Stream, Time};

pub struct Anything {
    keys: u64,
}

impl Anything {
    async fn work_once(&self, client: &Client) {
        let (database, random) = (client.database.clone(), client.random.clone());
        RandomClient::new(database, API_VERSION, random, &client.notebook, self.keys)
            .transact()
            .await;
    }
}

impl Workload for Anything {
    const NAME: &str = "anything";

    fn new(random: &Stream, _: usize) -> Anything {
        let keys = *random.pick(&[4, 10, 30]);
        Anything { keys }
    }

    async fn set_up(&self, _: &Client) {}

    async fn work(&self, client: &Client, end: Time) {
        client
            .until(end, async || self.work_once(client).await)
            .await;
    }

    async fn check(&self, _: &Client) {}
}
