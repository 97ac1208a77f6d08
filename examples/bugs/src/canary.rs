//! What all the layers of this library share: a client with its options, and a few reads.

use shaketable::foundationdb::tuple::Subspace;
use shaketable::foundationdb::{FdbBindingError, RangeOption, RetryableTransaction};
use shaketable::{PhaseResult, SimDatabase, Workload, WorkloadContext};

/// One client of a test.
pub struct Client {
    pub context: WorkloadContext,
    /// Whether the layer does it right.
    pub fixed: bool,
    /// How often the client does what the layer is for.
    pub rounds: u32,
}

impl Client {
    pub fn id(&self) -> i32 {
        self.context.client_id()
    }

    pub fn count(&self) -> i32 {
        self.context.client_count()
    }

    /// A random number below `bound`.
    pub fn below(&self, bound: u32) -> u32 {
        self.context.rnd() % bound
    }
}

/// A layer with a bug and its fix. Phases are those of a workload.
#[allow(async_fn_in_trait)]
pub trait Layer: Default + 'static {
    async fn setup(&mut self, _client: &Client, _db: &SimDatabase) -> PhaseResult {
        Ok(())
    }
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult;
    async fn recover(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        self.start(client, db).await
    }
    async fn check(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult;
}

/// A layer as a workload.
pub struct Canary<L> {
    client: Client,
    layer: L,
}

impl<L: Layer> Canary<L> {
    pub fn new(context: WorkloadContext) -> Self {
        let client = Client {
            fixed: context.get_option("fixed").unwrap_or(false),
            rounds: context.get_option("rounds").unwrap_or(20),
            context,
        };
        Canary {
            client,
            layer: L::default(),
        }
    }
}

impl<L: Layer> Workload for Canary<L> {
    async fn setup(&mut self, db: SimDatabase) -> PhaseResult {
        self.layer.setup(&self.client, &db).await
    }

    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        self.layer.start(&self.client, &db).await
    }

    async fn recover(&mut self, db: SimDatabase) -> PhaseResult {
        self.layer.recover(&self.client, &db).await
    }

    async fn check(&mut self, db: SimDatabase) -> PhaseResult {
        self.layer.check(&self.client, &db).await
    }

    fn get_check_timeout(&self) -> f64 {
        5000.0
    }
}

/// All rows of a subspace, whatever number of batches they come in.
pub async fn read_all(
    trx: &RetryableTransaction,
    space: &Subspace,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>, FdbBindingError> {
    let mut found = Vec::new();
    let mut range = Some(RangeOption::from(space));
    while let Some(option) = range {
        let rows = trx.get_range(&option, 1, false).await?;
        found.extend(
            rows.iter()
                .map(|row| (row.key().into(), row.value().into())),
        );
        range = option.next_range(&rows);
    }
    Ok(found)
}

/// Checks a counter that every client has incremented once per round.
pub async fn check_counter(client: &Client, db: &SimDatabase, key: &[u8]) -> PhaseResult {
    let expected = i64::from(client.rounds) * i64::from(client.count());
    let found = db
        .run(|trx, _| async move { number(&trx, key).await })
        .await?;
    if found != expected {
        return Err(format!("{expected} increments were made, the counter says {found}").into());
    }
    Ok(())
}

/// A number stored as eight little-endian bytes; nothing stored is zero.
pub async fn number(trx: &RetryableTransaction, key: &[u8]) -> Result<i64, FdbBindingError> {
    match trx.get(key, false).await? {
        Some(value) => decode(&value),
        None => Ok(0),
    }
}

pub fn decode(value: &[u8]) -> Result<i64, FdbBindingError> {
    value
        .try_into()
        .map(i64::from_le_bytes)
        .map_err(|error| FdbBindingError::new_custom_error(Box::new(error)))
}
