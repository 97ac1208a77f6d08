//! The names of directories, from the rows that the directory layer itself keeps.
//!
//! The layer stores a tree: under `\xfe`, for each directory, a row for each child with the name of
//! the child in the key and the prefix of its contents in the value. A partition has a tree of its
//! own, under its prefix and `\xfe`. Whoever wrote these rows or read them, their form is the same
//! in every language.

use shaketable_record::{Answer, Bytes, Call, Committed, Mutation, Operation};
use std::collections::BTreeMap;

/// Where a tree of directories begins, behind the prefix of its partition.
const NODES: u8 = 0xfe;
/// The element of a node's key that stands before the names of its children: the number 0.
const CHILDREN: u8 = 0x14;

/// A row of the layer: a directory, the name of a child, and where the child's contents are.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Child {
    /// The prefix of the partition that the tree belongs to.
    partition: Vec<u8>,
    parent: Vec<u8>,
    name: String,
    prefix: Vec<u8>,
}

/// The prefixes and paths of all directories that were written or read.
pub(super) fn find(committed: &[Committed], operations: &[Operation]) -> Vec<(Bytes, Vec<String>)> {
    let mut children = Vec::new();
    let mut look = |key: &Bytes, value: &Bytes| {
        if key.is_whole() && value.is_whole() && key.kept().contains(&NODES) {
            children.extend(Child::read(key.kept(), value.kept()));
        }
    };
    for mutation in committed.iter().flat_map(|one| &one.mutations) {
        if let Mutation::Set { key, value } = mutation {
            look(key, value);
        }
    }
    for operation in operations {
        match (&operation.call, &operation.answer) {
            (Call::Get { key, .. }, Answer::Value(Some(value))) => look(key, value),
            (_, Answer::Rows { rows, .. }) => rows.iter().for_each(|(key, value)| look(key, value)),
            _ => {}
        }
    }
    children.sort();
    children.dedup();
    paths(&children)
}

fn paths(children: &[Child]) -> Vec<(Bytes, Vec<String>)> {
    // The root of a tree is the node that has the tree's own place as its prefix.
    let mut known: BTreeMap<Vec<u8>, Vec<String>> = BTreeMap::from([(vec![NODES], Vec::new())]);
    loop {
        let mut found = false;
        for child in children {
            let Some(path) = known.get(&child.parent) else {
                continue;
            };
            let path: Vec<String> = path.iter().chain([&child.name]).cloned().collect();
            if known.contains_key(&child.prefix) {
                continue;
            }
            known.insert([&child.prefix[..], &[NODES]].concat(), path.clone());
            known.insert(child.prefix.clone(), path);
            found = true;
        }
        if !found {
            break;
        }
    }
    let is_tree = |prefix: &[u8]| prefix.last() == Some(&NODES);
    known
        .into_iter()
        .filter(|(prefix, path)| !path.is_empty() && !is_tree(prefix))
        .map(|(prefix, path)| (Bytes::whole(&prefix), path))
        .collect()
}

impl Child {
    /// Reads a row, if it is one of the layer's.
    fn read(key: &[u8], value: &[u8]) -> Vec<Child> {
        let starts = (0..key.len()).filter(|index| key[*index] == NODES);
        let read = starts.filter_map(|start| {
            let (partition, rest) = (&key[..start], &key[start + 1..]);
            let (parent, rest) = string(rest, 0x01)?;
            let rest = rest.strip_prefix(&[CHILDREN])?;
            let (name, rest) = string(rest, 0x02)?;
            if !rest.is_empty() || value.is_empty() {
                return None;
            }
            // A node knows its prefix; the root of a tree knows the place of the tree.
            Some(Child {
                partition: partition.to_vec(),
                parent,
                name: String::from_utf8(name).ok()?,
                prefix: value.to_vec(),
            })
        });
        read.collect()
    }
}

/// A string of the tuple encoding with this code, and what follows it.
fn string(text: &[u8], code: u8) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(&[code])?;
    let mut content = Vec::new();
    loop {
        match rest {
            [0, 0xff, after @ ..] => {
                content.push(0);
                rest = after;
            }
            [0, after @ ..] => return Some((content, after)),
            [byte, after @ ..] => {
                content.push(*byte);
                rest = after;
            }
            [] => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tree: &[u8], parent: &[u8], name: &str, prefix: &[u8]) -> Vec<Child> {
        let key = [
            tree,
            b"\xfe\x01",
            parent,
            b"\x00\x14\x02",
            name.as_bytes(),
            b"\x00",
        ]
        .concat();
        Child::read(&key, prefix)
    }

    #[test]
    fn nested_directories_and_partitions_have_their_paths() {
        let mut rows = row(b"", b"\xfe", "app", b"\x15\x01");
        rows.extend(row(b"", b"\x15\x01", "users", b"\x15\x02"));
        rows.extend(row(b"", b"\xfe", "part", b"\x15\x03"));
        rows.extend(row(
            b"\x15\x03",
            b"\x15\x03\xfe",
            "inner",
            b"\x15\x03\x15\x04",
        ));
        let found = paths(&rows);
        let found: Vec<(&[u8], String)> = found
            .iter()
            .map(|(prefix, path)| (prefix.kept(), path.join("/")))
            .collect();
        let expected: Vec<(&[u8], String)> = vec![
            (b"\x15\x01", "app".to_owned()),
            (b"\x15\x02", "app/users".to_owned()),
            (b"\x15\x03", "part".to_owned()),
            (b"\x15\x03\x15\x04", "part/inner".to_owned()),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn other_rows_are_no_directories() {
        assert_eq!(
            Child::read(b"\xfe\x01\xfe\x00\x02layer\x00", b"partition"),
            []
        );
        assert_eq!(Child::read(b"plain", b"value"), []);
    }
}
