//! Which operation is which, for decisions about single operations.
//!
//! An operation of the code under test is named by what it is, by its client, and by which one of
//! that client it is: `commit/tester 2 41`. Calls are carried out in the order in which they were
//! made, so the numbers mean the same as long as the client does the same. A record lists
//! operations in that order, so counting there gives the same numbers ([`group`] says what is
//! counted together).

use crate::outstanding::Ask;
use shaketable_cluster::client::{Pending, Transaction};
use shaketable_kernel::Kernel;

/// The group of decisions that an operation belongs to, if anything can be made of it.
fn group(ask: &Ask) -> Option<&'static str> {
    Some(match ask {
        Ask::Commit => "commit",
        Ask::Get(_) | Ask::GetKey(_) => "read",
        Ask::GetRange(..) | Ask::GetMappedRange(..) => "range read",
        Ask::Watch(_) => "watch",
        _ => return None,
    })
}

/// Carries an operation out under what an override makes of it.
pub(crate) fn under<T>(
    kernel: &Kernel,
    transaction: &Transaction,
    ask: &Ask,
    call: impl FnOnce(&Transaction) -> Pending<T>,
) -> Pending<T> {
    let forced = group(ask).and_then(|group| {
        kernel.forced(|| {
            let client = kernel.process(transaction.process()).name.clone();
            (group.to_owned(), client)
        })
    });
    let Some(forced) = forced else {
        return call(transaction);
    };
    transaction.force(forced);
    let pending = call(transaction);
    transaction.end_fate();
    pending
}
