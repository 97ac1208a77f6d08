//! The ring in the database: how its nodes are written, and whether it is still one ring.

use shaketable_cluster::proto::{Key, KeyValue, Value};

/// A ring of nodes. Node `n` is a key whose value names the next node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ring {
    pub(super) nodes: usize,
    pub(super) prefix: Vec<u8>,
}

/// How a ring is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Torn {
    /// There are more nodes, or fewer.
    NodeCountChanged(usize),
    /// The walk came back to the beginning after this many nodes.
    Shorter(usize),
    /// The walk did not come back after as many steps as there are nodes.
    Longer(usize),
    /// A node's key is not what it was.
    KeyChanged(usize),
    /// A node's value does not name a node.
    InvalidValue(usize),
}

impl Torn {
    /// FoundationDB's text for it.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Torn::NodeCountChanged(_) => "Node count changed",
            Torn::Shorter(_) => "Cycle got shorter",
            Torn::Longer(_) => "Cycle got longer",
            Torn::KeyChanged(_) => "Key changed",
            Torn::InvalidValue(_) => "Invalid value",
        }
    }

    /// How many nodes were found, or where the walk was.
    pub(super) fn found(&self) -> usize {
        match self {
            Torn::NodeCountChanged(found)
            | Torn::Shorter(found)
            | Torn::Longer(found)
            | Torn::KeyChanged(found)
            | Torn::InvalidValue(found) => *found,
        }
    }
}

impl Ring {
    /// The key of a node. Keys lie evenly between those of 0 and 1, and sort as numbers do.
    pub(super) fn key(&self, node: usize) -> Key {
        self.text(node as f64 / self.nodes as f64).into()
    }

    /// The value that names a node.
    pub(super) fn value(&self, node: usize) -> Value {
        self.text(node as f64).into()
    }

    /// Where the ring ends: the key of 1.
    pub(super) fn end(&self) -> Key {
        self.text(1.0).into()
    }

    /// The node that a value names, if it names one.
    pub(super) fn node(&self, value: &[u8]) -> Option<usize> {
        let digits = value.strip_prefix(self.prefix.as_slice())?;
        let digits = std::str::from_utf8(digits).ok()?;
        let number = f64::from_bits(u64::from_str_radix(digits, 16).ok()?);
        let node = number as usize;
        (node as f64 == number && node < self.nodes).then_some(node)
    }

    /// Walks the ring.
    pub(super) fn check(&self, rows: &[KeyValue]) -> Result<(), Torn> {
        if rows.len() != self.nodes {
            return Err(Torn::NodeCountChanged(rows.len()));
        }
        let mut node = 0;
        for step in 0..self.nodes {
            if step > 0 && node == 0 {
                return Err(Torn::Shorter(step));
            }
            if rows[node].key != self.key(node) {
                return Err(Torn::KeyChanged(node));
            }
            let next = self.node(&rows[node].value);
            node = next.ok_or(Torn::InvalidValue(node))?;
        }
        if node == 0 {
            Ok(())
        } else {
            Err(Torn::Longer(node))
        }
    }

    /// FoundationDB's keys for tests: the bits of a double, in hexadecimal.
    fn text(&self, number: f64) -> Vec<u8> {
        let mut text = self.prefix.clone();
        text.extend_from_slice(format!("{:016x}", number.to_bits()).as_bytes());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(next: &[usize]) -> (Ring, Vec<KeyValue>) {
        let ring = Ring {
            nodes: next.len(),
            prefix: b"p".to_vec(),
        };
        let rows = next.iter().enumerate().map(|(node, next)| KeyValue {
            key: ring.key(node),
            value: ring.value(*next),
        });
        let rows = rows.collect();
        (ring, rows)
    }

    #[test]
    fn nodes_are_written_as_foundationdb_writes_them() {
        let (ring, rows) = ring(&[1, 2, 3, 0]);
        assert_eq!(&rows[1].key[..], b"p3fd0000000000000", "a quarter");
        assert_eq!(&rows[1].value[..], b"p4000000000000000", "2");
        assert_eq!(ring.node(b"p4000000000000000"), Some(2));
        assert_eq!(ring.node(b"p4010000000000000"), None, "4 is no node");
        assert_eq!(ring.node(b"4000000000000000"), None, "no prefix");
    }

    #[test]
    fn every_way_to_tear_a_ring_is_noticed() {
        let check = |next: &[usize]| {
            let (ring, rows) = ring(next);
            ring.check(&rows)
        };
        assert_eq!(check(&[1, 2, 3, 0]), Ok(()));
        assert_eq!(check(&[2, 3, 1, 0]), Ok(()), "any order");
        assert_eq!(check(&[1, 0, 3, 2]), Err(Torn::Shorter(2)));
        assert_eq!(check(&[1, 2, 3, 1]), Err(Torn::Longer(1)));
        let (ring, mut rows) = ring(&[1, 2, 3, 0]);
        rows[2].value = b"rubbish".as_slice().into();
        assert_eq!(ring.check(&rows), Err(Torn::InvalidValue(2)));
        rows[1].key = b"p4".as_slice().into();
        assert_eq!(ring.check(&rows), Err(Torn::KeyChanged(1)));
        rows.pop();
        assert_eq!(ring.check(&rows), Err(Torn::NodeCountChanged(3)));
    }
}
