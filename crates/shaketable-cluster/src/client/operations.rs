//! The operations of a transaction on one key.
//!
//! They form a stack. A stack whose first operation does not need the value in the database is
//! *independent*; otherwise it is *dependent* and is folded over that value when it is read.
//! Operations that can be merged without knowing the value are merged at once; those that cannot
//! (different kinds, or operands of different lengths) are stacked. On an unreadable key everything
//! is stacked, because only the commit knows the result.

use crate::data::atomic;
use crate::error::Error;
use crate::proto::{MutationKind, Value};
use bytes::Bytes;

/// One operation. A set without a value is the result of an atomic operation on a cleared key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) kind: MutationKind,
    pub(crate) value: Option<Value>,
}

/// The operations on one key, oldest first. Empty where the key is only the edge of a range.
#[derive(Clone, Debug, Default)]
pub(crate) struct OperationStack {
    first: Option<Operation>,
    rest: Vec<Operation>,
}

impl OperationStack {
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Operation> {
        self.first.iter().chain(&self.rest)
    }

    pub(super) fn is_dependent(&self) -> bool {
        self.first
            .as_ref()
            .is_some_and(|first| first.kind != MutationKind::SetValue && !is_stamped(first.kind))
    }

    pub(super) fn push(&mut self, operation: Operation) {
        match self.first {
            None => self.first = Some(operation),
            Some(_) => self.rest.push(operation),
        }
    }

    fn top(&mut self) -> Option<&mut Operation> {
        self.rest.last_mut().or(self.first.as_mut())
    }

    /// Merges an operation into the newest one if that loses nothing, otherwise stacks it.
    pub(super) fn fold_in(&mut self, new: Operation) {
        let Some(top) = self.top() else {
            return self.push(new);
        };
        let length = |operation: &Operation| operation.value.as_ref().map(Bytes::len);
        let mergeable = if top.kind == new.kind && new.kind != MutationKind::CompareAndClear {
            !needs_equal_lengths(top.kind) || top.value.is_none() || length(top) == length(&new)
        } else {
            top.kind == MutationKind::SetValue || new.kind == MutationKind::SetValue
        };
        match merge(top, &new) {
            Ok(merged) if mergeable => *top = merged,
            _ => self.push(new),
        }
    }

    /// Returns the value after all operations, given the value before them. An unreadable stack may
    /// refuse with 1000.
    pub(crate) fn fold_over(&self, value: Option<&Value>) -> Result<Option<Value>, Error> {
        if let (Some(first), true) = (&self.first, self.rest.is_empty() && !self.is_dependent()) {
            return Ok(first.value.clone());
        }
        let mut current = Operation {
            kind: MutationKind::SetValue,
            value: value.cloned(),
        };
        for operation in self.iter() {
            current = merge(&current, operation)?;
        }
        Ok(current.value)
    }
}

pub(super) fn is_stamped(kind: MutationKind) -> bool {
    matches!(
        kind,
        MutationKind::SetVersionstampedKey | MutationKind::SetVersionstampedValue
    )
}

/// Whether two operations of this kind can be merged only if their operands have equal lengths.
fn needs_equal_lengths(kind: MutationKind) -> bool {
    use MutationKind::*;
    matches!(kind, Add | Or | Xor | Max | Min | MinV2 | CompareAndClear) || is_stamped(kind)
}

/// Merges two operations into one that has the effect of both. Only operations of one kind, or
/// anything after a set, can be merged.
fn merge(old: &Operation, new: &Operation) -> Result<Operation, Error> {
    match (old.kind, new.kind) {
        (_, MutationKind::SetValue | MutationKind::SetVersionstampedValue) => Ok(new.clone()),
        (_, MutationKind::SetVersionstampedKey | MutationKind::ClearRange) => {
            Err(Error::OPERATION_FAILED)
        }
        (kind, other) if kind == MutationKind::SetValue || kind == other => {
            let operand = new.value.as_ref().ok_or(Error::OPERATION_FAILED)?;
            Ok(Operation {
                kind,
                value: atomic::apply(other, old.value.as_ref(), operand),
            })
        }
        _ => Err(Error::OPERATION_FAILED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(kind: MutationKind, value: &'static str) -> Operation {
        Operation {
            kind,
            value: Some(Bytes::from_static(value.as_bytes())),
        }
    }

    fn stack(operations: &[(MutationKind, &'static str)]) -> OperationStack {
        let mut stack = OperationStack::default();
        for (kind, value) in operations {
            stack.fold_in(operation(*kind, value));
        }
        stack
    }

    #[test]
    fn operations_of_one_kind_merge_only_if_that_loses_nothing() {
        use MutationKind::{Add, AppendIfFits, CompareAndClear, Max, SetValue};
        assert_eq!(
            stack(&[(Add, "\x01\x01"), (Add, "\x02\x02")])
                .iter()
                .count(),
            1
        );
        assert_eq!(stack(&[(Add, "\x01\x01"), (Add, "\x02")]).iter().count(), 2);
        assert_eq!(
            stack(&[(AppendIfFits, "a"), (AppendIfFits, "bc")])
                .iter()
                .count(),
            1
        );
        assert_eq!(stack(&[(Add, "\x01"), (Max, "\x01")]).iter().count(), 2);
        assert_eq!(
            stack(&[(SetValue, "\x01"), (Max, "\x02")]).iter().count(),
            1
        );
        let compared = stack(&[(CompareAndClear, "a"), (CompareAndClear, "a")]);
        assert_eq!(compared.iter().count(), 2);
    }

    #[test]
    fn a_stack_gives_what_its_operations_give_one_after_the_other() {
        use MutationKind::{Add, CompareAndClear, Max, SetValue};
        let value = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
        let sum = stack(&[(Add, "\x01\x01"), (Add, "\x02"), (Max, "\x04")]);
        assert!(sum.is_dependent());
        assert_eq!(sum.fold_over(value("\x05\x05").as_ref()), Ok(value("\x08")));
        assert_eq!(sum.fold_over(None), Ok(value("\x04")));
        let cleared = stack(&[(SetValue, "a"), (CompareAndClear, "a")]);
        assert!(!cleared.is_dependent());
        assert_eq!(cleared.fold_over(value("database").as_ref()), Ok(None));
    }

    #[test]
    fn nothing_can_be_said_of_what_follows_a_stamped_value() {
        let mut stamped = OperationStack::default();
        stamped.push(operation(
            MutationKind::SetVersionstampedValue,
            "0123456789\0\0\0\0",
        ));
        assert!(stamped.fold_over(None).is_ok());
        stamped.push(operation(MutationKind::Add, "\x01"));
        assert_eq!(stamped.fold_over(None), Err(Error::OPERATION_FAILED));
    }
}
