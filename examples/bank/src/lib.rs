//! Money moves between accounts while the cluster fails; none is made, none is lost.
//!
//! Every client transfers random amounts between random accounts and, now and then, audits the
//! bank: it reads all accounts in one transaction and adds them up. The sum is the same at every
//! moment, because a transaction is seen whole or not at all, and because a transfer moves money:
//! it takes from one what it gives to another, so making it twice after an unknown result (1021)
//! breaks nothing. That this happens at all in a sweep is asserted, too.

use shaketable::foundationdb::tuple::Subspace;
use shaketable::foundationdb::{FdbBindingError, RangeOption, RetryableTransaction};
use shaketable::{
    Metric, Metrics, PhaseResult, SimDatabase, SingleRustWorkload, Workload, WorkloadContext,
    always, register_workload, sometimes,
};

const OPENING_BALANCE: i64 = 100;

struct Bank {
    context: WorkloadContext,
    accounts: u32,
    transfers: u32,
    /// How many transfers found enough money to move.
    moved: u64,
    audits: u64,
}

impl SingleRustWorkload for Bank {
    fn new(_name: String, context: WorkloadContext) -> Self {
        Bank {
            accounts: context.get_option("accounts").unwrap_or(20),
            transfers: context.get_option("transfers").unwrap_or(40),
            context,
            moved: 0,
            audits: 0,
        }
    }
}

impl Workload for Bank {
    async fn setup(&mut self, db: SimDatabase) -> PhaseResult {
        if self.context.client_id() != 0 {
            return Ok(());
        }
        let accounts = self.accounts;
        db.run(|trx, _| async move {
            for account in 0..accounts {
                trx.set(&account_key(account), &OPENING_BALANCE.to_le_bytes());
            }
            Ok(())
        })
        .await?;
        Ok(())
    }

    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        for _ in 0..self.transfers {
            if self.context.rnd().is_multiple_of(4) {
                self.audit(&db).await?;
                self.audits += 1;
                continue;
            }
            let from = self.context.rnd() % self.accounts;
            let to = self.context.rnd() % self.accounts;
            let amount = i64::from(self.context.rnd() % 50);
            let moved = db
                .run(|trx, maybe_committed| async move {
                    sometimes!(
                        bool::from(maybe_committed),
                        "a transfer may have been made already"
                    );
                    transfer(&trx, from, to, amount).await
                })
                .await?;
            self.moved += u64::from(moved);
        }
        Ok(())
    }

    async fn check(&mut self, db: SimDatabase) -> PhaseResult {
        self.audit(&db).await
    }

    fn get_metrics(&self, mut out: Metrics) {
        out.extend([
            Metric::val("moved", self.moved as f64),
            Metric::val("audits", self.audits as f64),
        ]);
    }

    fn get_check_timeout(&self) -> f64 {
        5000.0
    }
}

impl Bank {
    /// Adds all accounts up, as of one moment.
    async fn audit(&self, db: &SimDatabase) -> PhaseResult {
        let balances = db.run(|trx, _| async move { balances(&trx).await }).await?;
        let expected = i64::from(self.accounts) * OPENING_BALANCE;
        let found: i64 = balances.iter().sum();
        if found != expected || balances.len() != self.accounts as usize {
            return Err(format!(
                "expected {} accounts with {expected} in all, found {} with {found}: {balances:?}",
                self.accounts,
                balances.len(),
            )
            .into());
        }
        if let Some(debt) = balances.iter().find(|balance| **balance < 0) {
            return Err(format!("an account was overdrawn: {debt}").into());
        }
        Ok(())
    }
}

/// Moves money if there is enough of it; returns whether there was.
async fn transfer(
    trx: &RetryableTransaction,
    from: u32,
    to: u32,
    amount: i64,
) -> Result<bool, FdbBindingError> {
    let available = balance(trx, from).await?;
    sometimes!(available < amount, "an account has too little");
    if available < amount || from == to {
        return Ok(false);
    }
    let target = balance(trx, to).await?;
    always!(available >= amount, "no account is overdrawn", "Account" => from, "Has" => available);
    trx.set(&account_key(from), &(available - amount).to_le_bytes());
    trx.set(&account_key(to), &(target + amount).to_le_bytes());
    Ok(true)
}

async fn balance(trx: &RetryableTransaction, account: u32) -> Result<i64, FdbBindingError> {
    match trx.get(&account_key(account), false).await? {
        Some(value) => amount(&value),
        None => Ok(0),
    }
}

async fn balances(trx: &RetryableTransaction) -> Result<Vec<i64>, FdbBindingError> {
    let mut balances = Vec::new();
    let mut range = Some(RangeOption::from(&accounts_space()));
    while let Some(option) = range {
        let rows = trx.get_range(&option, 1, false).await?;
        for row in rows.iter() {
            balances.push(amount(row.value())?);
        }
        range = option.next_range(&rows);
    }
    Ok(balances)
}

fn amount(value: &[u8]) -> Result<i64, FdbBindingError> {
    value
        .try_into()
        .map(i64::from_le_bytes)
        .map_err(|error| FdbBindingError::new_custom_error(Box::new(error)))
}

fn accounts_space() -> Subspace {
    Subspace::all().subspace(&"bank")
}

fn account_key(account: u32) -> Vec<u8> {
    accounts_space().pack(&account)
}

register_workload!(Bank);
