//! What the transactions of one database handle share.

use super::Transaction;
use std::rc::Rc;

/// A database handle: FoundationDB's `DatabaseContext`. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Database(Rc<Shared>);

#[derive(Debug)]
struct Shared {}

impl Database {
    /// Sets an option whose code the caller has checked. A bad value is deferred: it becomes the answer of
    /// every later operation of every transaction of this handle.
    pub fn set_option(&self, _code: i32, _value: Option<&[u8]>) {
        unimplemented!()
    }

    /// A transaction with this handle's defaults.
    pub fn create_transaction(&self) -> Transaction {
        unimplemented!()
    }
}
