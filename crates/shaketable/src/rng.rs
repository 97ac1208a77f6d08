//! The simulation's random generator, in the shape that the crates around `rand` know.

use crate::context::WorkloadContext;
use std::convert::Infallible;

/// Numbers of the simulation's random generator: the same in every run of a seed.
///
/// Made by [`WorkloadContext::rng`]. It implements the traits of `rand_core` 0.10, 0.9 and 0.6,
/// which are those of `rand` 0.10, 0.9 and 0.8, so it can be passed to whatever takes a generator.
/// All handles draw from one stream, that of the client.
///
/// ```
/// # shaketable::Simulation::new().seeds(1).faults(shaketable::Faults::none())
/// #     .test(async |_db, context: shaketable::WorkloadContext| {
/// use rand::RngExt;
///
/// let mut rng = context.rng();
/// let amount: u64 = rng.random_range(1..=100);
/// assert!((1..=100).contains(&amount));
/// # });
/// ```
#[derive(Debug, Clone)]
pub struct Rng(WorkloadContext);

impl Rng {
    pub(crate) fn new(context: WorkloadContext) -> Self {
        Rng(context)
    }

    fn word(&self) -> u32 {
        self.0.rnd()
    }

    fn long_word(&self) -> u64 {
        u64::from(self.word()) | u64::from(self.word()) << 32
    }

    fn fill(&self, target: &mut [u8]) {
        for chunk in target.chunks_mut(4) {
            chunk.copy_from_slice(&self.word().to_le_bytes()[..chunk.len()]);
        }
    }
}

impl rand_core::TryRng for Rng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.word())
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.long_word())
    }

    fn try_fill_bytes(&mut self, target: &mut [u8]) -> Result<(), Infallible> {
        self.fill(target);
        Ok(())
    }
}

impl rand_core_09::RngCore for Rng {
    fn next_u32(&mut self) -> u32 {
        self.word()
    }

    fn next_u64(&mut self) -> u64 {
        self.long_word()
    }

    fn fill_bytes(&mut self, target: &mut [u8]) {
        self.fill(target);
    }
}

impl rand_core_06::RngCore for Rng {
    fn next_u32(&mut self) -> u32 {
        self.word()
    }

    fn next_u64(&mut self) -> u64 {
        self.long_word()
    }

    fn fill_bytes(&mut self, target: &mut [u8]) {
        self.fill(target);
    }

    fn try_fill_bytes(&mut self, target: &mut [u8]) -> Result<(), rand_core_06::Error> {
        self.fill(target);
        Ok(())
    }
}
