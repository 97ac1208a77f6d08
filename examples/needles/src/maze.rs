//! A maze: seven right turns in a row, of six possible each time.
//!
//! Every client walks by itself. The right door leads to the next room, every other one back to the
//! first. Behind the last room is the bug.

use crate::{key, number};
use shaketable::{PhaseResult, SimDatabase, Workload, WorkloadContext, closest};

const ROOMS: i64 = 7;
const DOORS: u32 = 6;
const STEPS: u32 = 25;

pub struct Maze {
    context: WorkloadContext,
}

impl Maze {
    pub fn new(context: WorkloadContext) -> Maze {
        Maze { context }
    }
}

impl Workload for Maze {
    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        let client = self.context.client_id();
        for _ in 0..STEPS {
            let door = self.context.rnd() % DOORS;
            let room = db
                .run(|trx, _| async move {
                    let here = number(&trx, &key(&("room", client))).await?;
                    let right = (here as u32 * 5 + 2) % DOORS;
                    let next = if door == right { here + 1 } else { 0 };
                    trx.set(&key(&("room", client)), &next.to_le_bytes());
                    Ok(next)
                })
                .await?;
            closest!(ROOMS - room, "the end of the maze");
            if room == ROOMS {
                return Err("the walls of the last room are not finished".into());
            }
        }
        Ok(())
    }
}
