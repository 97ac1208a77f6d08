//! The special key space over a transaction that consists of a few fields.

use super::*;
use crate::proto::{KeyValue, MutationKind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

struct Fake {
    state: RefCell<State>,
    api_version: i32,
    relaxed: bool,
    writable: bool,
    size: i64,
    conflicts: Vec<KeyRange>,
    locked: Option<Value>,
    written: RefCell<Vec<Mutation>>,
}

impl Default for Fake {
    fn default() -> Fake {
        Fake {
            state: RefCell::new(State::new(|| 0xabc)),
            api_version: 740,
            relaxed: false,
            writable: false,
            size: 0,
            conflicts: Vec::new(),
            locked: None,
            written: RefCell::default(),
        }
    }
}

impl Host for Fake {
    fn special(&self) -> &RefCell<State> {
        &self.state
    }
    fn api_version(&self) -> i32 {
        self.api_version
    }
    fn is_relaxed(&self) -> bool {
        self.relaxed
    }
    fn is_writable(&self) -> bool {
        self.writable
    }
    fn is_read_your_writes(&self) -> bool {
        true
    }
    fn approximate_size(&self) -> i64 {
        self.size
    }
    fn read_conflict_ranges(&self) -> Vec<KeyRange> {
        self.conflicts.clone()
    }
    fn write_conflict_ranges(&self) -> Vec<KeyRange> {
        self.conflicts.clone()
    }
    fn conflicting_keys(&self) -> Vec<KeyRange> {
        self.conflicts.clone()
    }
    fn cluster(&self) -> ClusterDescription {
        ClusterDescription {
            connection_string: "test:id@1.2.3.4:4500,1.2.3.5:4500".into(),
            cluster_file_path: "fdb.cluster".into(),
            cluster_id: 0x1234,
            generation: Some(GenerationDescription {
                number: 5,
                configuration: vec![("storage_replicas", 2), ("logs", 3)],
                processes: vec![ProcessDescription {
                    address: "1.2.3.4:4500".into(),
                    class: "storage".into(),
                    machine: "m".into(),
                    zone: "z".into(),
                    datacenter: "d".into(),
                    roles: vec!["sequencer", "storage"],
                }],
            }),
            now: 7.0,
        }
    }
    async fn connected(&self) {}
    fn random_u64(&self) -> u64 {
        77
    }
    async fn pending_reads(&self) -> Result<(), Error> {
        Ok(())
    }
    async fn read_system_key(&self, _key: Key) -> Result<Option<Value>, Error> {
        Ok(self.locked.clone())
    }
    fn write_system_key(&self, mutation: Mutation, _conflict: Option<KeyRange>) {
        self.written.borrow_mut().push(mutation);
    }
}

/// The result of a future that waits for nothing.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("nothing to wait for"),
    }
}

fn key(name: &str) -> Key {
    [BEGIN, b"/", name.as_bytes()].concat().into()
}

fn read(fake: &Fake, name: &str) -> Result<Option<String>, Error> {
    let value = now(get(fake, key(name)))?;
    Ok(value.map(|value| String::from_utf8(value.to_vec()).unwrap()))
}

fn names(rows: Vec<KeyValue>) -> Vec<String> {
    rows.into_iter()
        .map(|row| String::from_utf8_lossy(&row.key[3..]).into_owned())
        .collect()
}

fn range(
    fake: &Fake,
    (begin, begin_offset): (&str, i32),
    (end, end_offset): (&str, i32),
    limit: i32,
    reverse: bool,
) -> Result<(Vec<String>, bool), Error> {
    let begin = KeySelector {
        key: key(begin),
        or_equal: false,
        offset: begin_offset,
    };
    let end = KeySelector {
        key: key(end),
        or_equal: false,
        offset: end_offset,
    };
    let result = now(get_range(
        fake,
        begin,
        end,
        RangeLimits::rows(limit),
        reverse,
    ))?;
    Ok((names(result.rows), result.more))
}

fn conflicts(ranges: &[(&'static str, &'static str)]) -> Vec<KeyRange> {
    ranges
        .iter()
        .map(|(begin, end)| KeyRange {
            begin: (*begin).into(),
            end: (*end).into(),
        })
        .collect()
}

#[test]
fn a_read_must_lie_in_one_module() {
    let fake = Fake::default();
    let code = |begin, end| range(&fake, (begin, 1), (end, 1), 100, false).err();
    assert_eq!(code("tracing/a", "tracing/z"), None);
    assert_eq!(
        code("nothing/a", "nothing/z"),
        Some(Error::SPECIAL_KEYS_NO_MODULE_FOUND)
    );
    assert_eq!(
        code("nothing/here", "status/json"),
        Some(Error::SPECIAL_KEYS_NO_MODULE_FOUND)
    );
    assert_eq!(
        code("nothing/here", "tracing/token"),
        Some(Error::SPECIAL_KEYS_CROSS_MODULE_READ)
    );
    assert_eq!(
        code("management/", "nothing/here"),
        Some(Error::SPECIAL_KEYS_CROSS_MODULE_READ)
    );
    assert_eq!(
        code("tracing/token", "status/json"),
        None,
        "an inverted range is empty before it is illegal"
    );
}

#[test]
fn a_relaxed_read_may_cross_modules() {
    let fake = Fake {
        relaxed: true,
        ..Fake::default()
    };
    let (rows, more) = range(
        &fake,
        ("cluster_file_path", 1),
        ("connection_string0", 1),
        100,
        false,
    )
    .unwrap();
    let expected = [
        "cluster_file_path",
        "cluster_id",
        "configuration/coordinators/cluster_description",
        "configuration/coordinators/processes",
        "connection_string",
    ];
    assert_eq!((rows, more), (expected.map(String::from).to_vec(), false));
    let everything = range(&fake, ("a", 1), ("z", 1), 100, false);
    assert_eq!(
        everything,
        Err(Error::SPECIAL_KEYS_API_FAILURE),
        "actor_lineage can only be read by process"
    );
    assert!(
        read(&fake, "error_message")
            .unwrap()
            .unwrap()
            .contains("actor_lineage")
    );
}

#[test]
fn limits_and_directions_are_kept() {
    let fake = Fake::default();
    let tracing =
        |limit, reverse| range(&fake, ("tracing/", 1), ("tracing0", 1), limit, reverse).unwrap();
    let (token, id) = (
        "tracing/token".to_string(),
        "tracing/transaction_id".to_string(),
    );
    assert_eq!(
        tracing(100, false),
        (vec![token.clone(), id.clone()], false)
    );
    assert_eq!(tracing(1, false), (vec![token.clone()], true));
    assert_eq!(tracing(1, true), (vec![id.clone()], true));
    assert_eq!(tracing(2, true), (vec![id, token], true));
}

#[test]
fn selectors_walk_over_rows_and_stop_at_the_module() {
    let fake = Fake::default();
    let rows = |begin, end| range(&fake, begin, end, 100, false).unwrap().0;
    assert_eq!(
        rows(("tracing/", 2), ("tracing0", 1)),
        ["tracing/transaction_id"]
    );
    assert_eq!(
        rows(("tracing/z", 0), ("tracing0", 1)),
        ["tracing/transaction_id"]
    );
    assert_eq!(rows(("tracing/z", -1), ("tracing0", 0)), ["tracing/token"]);
    assert_eq!(rows(("tracing/z", -9), ("tracing0", 1)).len(), 2);
    assert_eq!(rows(("tracing/", 1), ("tracing/", 9)).len(), 2);
    assert_eq!(rows(("tracing/", 9), ("tracing0", 10)).len(), 0);
}

#[test]
fn conflict_ranges_read_as_boundaries() {
    let fake = Fake {
        conflicts: conflicts(&[("a", "b"), ("b", "c"), ("x", "y")]),
        ..Fake::default()
    };
    for name in [
        "conflicting_keys",
        "read_conflict_range",
        "write_conflict_range",
    ] {
        let prefix = key(&format!("transaction/{name}/"));
        let begin = first_greater_or_equal(prefix.clone());
        let end = first_greater_or_equal([&prefix[..], b"\xff\xff"].concat().into());
        let result = now(get_range(&fake, begin, end, RangeLimits::rows(100), false)).unwrap();
        let rows: Vec<(&[u8], &[u8])> = result
            .rows
            .iter()
            .map(|row| (&row.key[prefix.len()..], &row.value[..]))
            .collect();
        assert_eq!(
            rows,
            [
                (&b"a"[..], &b"1"[..]),
                (b"c", b"0"),
                (b"x", b"1"),
                (b"y", b"0")
            ],
            "{name}"
        );
    }
}

#[test]
fn what_the_client_knows_of_the_cluster_can_be_read() {
    let fake = Fake::default();
    assert_eq!(
        read(&fake, "connection_string").unwrap().unwrap(),
        "test:id@1.2.3.4:4500,1.2.3.5:4500"
    );
    assert_eq!(
        read(&fake, "cluster_id").unwrap().unwrap(),
        "00000000000000000000000000001234"
    );
    assert_eq!(
        read(&fake, "configuration/coordinators/processes")
            .unwrap()
            .unwrap(),
        "1.2.3.4:4500,1.2.3.5:4500"
    );
    let status: serde_json::Value =
        serde_json::from_str(&read(&fake, "status/json").unwrap().unwrap()).unwrap();
    assert_eq!(status["client"]["database_status"]["available"], true);
    let cluster = &status["cluster"];
    assert_eq!(cluster["generation"], 5);
    assert_eq!(cluster["configuration"]["redundancy_mode"], "double");
    assert_eq!(cluster["configuration"]["coordinators_count"], 2);
    let process = &cluster["processes"]["00000000000000000000000000001235"];
    assert_eq!(process["address"], "1.2.3.4:4500");
    let roles: Vec<_> = process["roles"].as_array().unwrap().iter().collect();
    let names: Vec<_> = roles.iter().map(|role| role["role"].as_str()).collect();
    let expected = [Some("coordinator"), Some("master"), Some("storage")];
    assert_eq!(names, expected);
    assert_eq!(cluster["machines"]["m"]["address"], "1.2.3.4");
    assert_eq!(read(&fake, "error_message"), Ok(None));
    assert_eq!(read(&fake, "worker_interfaces/x"), Ok(None));
    assert_eq!(
        read(&fake, "nothing/here"),
        Err(Error::SPECIAL_KEYS_NO_MODULE_FOUND)
    );
}

#[test]
fn writes_need_the_option_and_a_range_that_takes_them() {
    let fake = Fake::default();
    assert_eq!(
        set(&fake, key("tracing/token"), "true".into()),
        Err(Error::SPECIAL_KEYS_WRITE_DISABLED)
    );
    let fake = Fake {
        writable: true,
        ..Fake::default()
    };
    assert_eq!(
        set(&fake, key("status/json"), "v".into()),
        Err(Error::SPECIAL_KEYS_NO_WRITE_MODULE_FOUND)
    );
    assert_eq!(
        clear(&fake, key("nothing")),
        Err(Error::SPECIAL_KEYS_NO_WRITE_MODULE_FOUND)
    );
    let cleared = |begin, end| {
        clear_range(
            &fake,
            KeyRange {
                begin: key(begin),
                end: key(end),
            },
        )
    };
    assert_eq!(
        cleared("a", "z"),
        Err(Error::SPECIAL_KEYS_NO_WRITE_MODULE_FOUND)
    );
    assert_eq!(
        cleared("a", "tracing/x"),
        Err(Error::SPECIAL_KEYS_CROSS_MODULE_CLEAR)
    );
    assert_eq!(
        cleared("management/excluded/a", "management/failed/a"),
        Err(Error::SPECIAL_KEYS_CROSS_MODULE_CLEAR)
    );
    assert_eq!(
        cleared("management/excluded/a", "management/excluded/b"),
        Ok(())
    );
    assert_eq!(cleared("x", "a"), Ok(()), "an empty range is nobody's");
}

#[test]
fn tracing_must_be_configured_first_and_with_good_values() {
    let fake = Fake {
        writable: true,
        ..Fake::default()
    };
    assert_eq!(set(&fake, key("tracing/token"), "false".into()), Ok(()));
    assert_eq!(read(&fake, "tracing/token").unwrap().unwrap(), "0");
    assert_eq!(set(&fake, key("tracing/token"), "true".into()), Ok(()));
    assert_eq!(read(&fake, "tracing/token").unwrap().unwrap(), "77");
    let id = "00000000000000ab00000000000000cd";
    assert_eq!(set(&fake, key("tracing/transaction_id"), id.into()), Ok(()));
    assert_eq!(read(&fake, "tracing/transaction_id").unwrap().unwrap(), id);
    assert_eq!(
        set(&fake, key("tracing/token"), "v".into()),
        Err(Error::SPECIAL_KEYS_API_FAILURE)
    );
    assert!(
        read(&fake, "error_message")
            .unwrap()
            .unwrap()
            .contains("true or false")
    );
    assert_eq!(
        clear(&fake, key("tracing/token")),
        Err(Error::SPECIAL_KEYS_API_FAILURE)
    );

    let late = Fake {
        writable: true,
        size: 1,
        ..Fake::default()
    };
    assert_eq!(
        set(&late, key("tracing/token"), "true".into()),
        Ok(()),
        "refused by the commit, not here"
    );
    assert_eq!(
        read(&late, "tracing/token").unwrap().unwrap(),
        late.special().borrow().trace_token.to_string(),
        "and not seen"
    );
    assert_eq!(now(commit(&late)), Err(Error::SPECIAL_KEYS_API_FAILURE));
}

#[test]
fn what_an_embedded_cluster_cannot_do_fails_the_commit_with_a_reason() {
    let fake = Fake {
        writable: true,
        ..Fake::default()
    };
    set(&fake, key("management/excluded/1.2.3.4:4500"), "".into()).unwrap();
    assert_eq!(
        read(&fake, "management/excluded/1.2.3.4:4500")
            .unwrap()
            .unwrap(),
        "",
        "own writes can be read"
    );
    assert_eq!(now(commit(&fake)), Err(Error::SPECIAL_KEYS_API_FAILURE));
    let message: serde_json::Value =
        serde_json::from_str(&read(&fake, "error_message").unwrap().unwrap()).unwrap();
    assert_eq!(message["command"], "exclude");
    assert_eq!(message["retriable"], false);
}

#[test]
fn options_of_management_commands_are_remembered_and_unknown_ones_ignored() {
    let fake = Fake {
        writable: true,
        ..Fake::default()
    };
    set(&fake, key("management/options/excluded/force"), "".into()).unwrap();
    set(&fake, key("management/options/no/such"), "".into()).unwrap();
    let options = || {
        range(
            &fake,
            ("management/options/", 1),
            ("management/options0", 1),
            100,
            false,
        )
        .unwrap()
        .0
    };
    assert_eq!(options(), ["management/options/excluded/force"]);
    assert_eq!(now(commit(&fake)), Ok(()));
    clear(&fake, key("management/options/excluded/force")).unwrap();
    assert_eq!(options(), [] as [&str; 0]);
}

#[test]
fn the_database_is_locked_by_a_commit() {
    let id = "00000000000000ab00000000000000cd";
    let locking = || {
        let fake = Fake {
            writable: true,
            ..Fake::default()
        };
        set(&fake, key("management/db_locked"), id.into()).unwrap();
        fake
    };
    let fake = locking();
    assert_eq!(now(commit(&fake)), Ok(()));
    let written = fake.written.into_inner();
    assert_eq!(written[0].kind, MutationKind::SetVersionstampedValue);
    let stored = written[0].param2.slice(..26);

    let same = Fake {
        locked: Some(stored.clone()),
        ..locking()
    };
    assert_eq!(now(commit(&same)), Ok(()));
    let other = Fake {
        locked: Some(vec![9; 26].into()),
        ..locking()
    };
    assert_eq!(now(commit(&other)), Err(Error::DATABASE_LOCKED));

    let unlocking = Fake {
        writable: true,
        locked: Some(stored),
        ..Fake::default()
    };
    assert_eq!(
        read(&unlocking, "management/db_locked").unwrap().unwrap(),
        id
    );
    clear(&unlocking, key("management/db_locked")).unwrap();
    assert_eq!(read(&unlocking, "management/db_locked"), Ok(None));
    assert_eq!(now(commit(&unlocking)), Ok(()));
    assert_eq!(
        unlocking.written.into_inner()[0].kind,
        MutationKind::ClearRange
    );
}

#[test]
fn old_api_versions_see_little() {
    assert!(answers_get(520, b"\xff\xff/status/json"));
    assert!(!answers_get(520, b"\xff\xff/tracing/token"));
    assert!(!answers_write(630, b"\xff\xff/tracing/token"));
    assert!(answers_write(700, b"\xff\xff/tracing/token"));
    let old = Fake {
        api_version: 520,
        ..Fake::default()
    };
    assert!(read(&old, "connection_string").unwrap().is_some());
    let middle = Fake {
        api_version: 630,
        ..Fake::default()
    };
    assert_eq!(
        read(&middle, "tracing/token"),
        Ok(None),
        "the module exists, its rows do not yet"
    );
}
