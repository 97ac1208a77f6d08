//! A record in a file: gzip, one JSON object a line.
//!
//! The first line says what the file is and which version of the format it has; the last one says
//! that nothing is missing. Between them each line is one part of the record, named by its kind:
//!
//! ```json
//! {"shaketable_record":1,"header":{"program":"shaketable 0.1.0","file":"queue.toml","seed":7}}
//! {"place":{"file":"src/queue.rs","line":88,"function":"queue::claim"}}
//! {"attempt":{"client":0,"transaction":0,"number":1,"begun":1.5,"end":"committed"}}
//! {"operation":{"attempt":0,"asked":1.5,"call":{"get":{"key":"jobs","snapshot":false}},"answer":{"value":null}}}
//! {"end":{"lines":3}}
//! ```
//!
//! Parts of one kind are in the order of their list, so that the n-th `attempt` line is attempt n.
//! Kinds may be mixed. `zcat FILE | grep '"attempt"'` is a fine way to look into one.

use crate::types::{Attempt, Committed, Decision, Event, Header, Operation, Phase, Place, Record};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

/// The version of the format. It changes when a reader of the version before would misunderstand.
pub const VERSION: u32 = 1;

/// Why a record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read at all.
    #[error("cannot read the record: {0}")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("this is not a record: records are written by `shaketable replay`, as record.jsonl.gz")]
    NotARecord,
    /// Another version of the program wrote it.
    #[error(
        "the record has version {found} of the format, and this program reads version {VERSION}: run the seed again with this program"
    )]
    Version {
        /// The version it has.
        found: u32,
    },
    /// The end is missing.
    #[error("the record is cut off after {lines} lines: run the seed again")]
    CutOff {
        /// How many lines could be read.
        lines: u64,
    },
    /// A line is not what it should be.
    #[error("line {line} of the record cannot be read: {reason}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
}

#[derive(Serialize, Deserialize)]
struct First {
    shaketable_record: u32,
    header: Header,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Place(Place),
    Phase(Phase),
    Attempt(Box<Attempt>),
    Operation(Box<Operation>),
    Committed(Committed),
    Event(Event),
    Decision(Decision),
    End { lines: u64 },
}

/// The same, for writing what is borrowed.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum LineRef<'a> {
    Place(&'a Place),
    Phase(&'a Phase),
    Attempt(&'a Attempt),
    Operation(&'a Operation),
    Committed(&'a Committed),
    Event(&'a Event),
    Decision(&'a Decision),
    End { lines: u64 },
}

/// How much is compressed at once. The encoder clears 32 KiB each time it is called.
const CHUNK_BYTES: usize = 256 << 10;

/// Writes a record.
pub fn write(record: &Record, to: impl Write) -> io::Result<()> {
    let encoder = GzEncoder::new(to, Compression::fast());
    let mut out = BufWriter::with_capacity(CHUNK_BYTES, encoder);
    let Record {
        header,
        places,
        phases,
        attempts,
        operations,
        committed,
        events,
        decisions,
    } = record;
    let first = First {
        shaketable_record: VERSION,
        header: header.clone(),
    };
    put(&mut out, &first)?;
    let lines = places
        .iter()
        .map(LineRef::Place)
        .chain(phases.iter().map(LineRef::Phase))
        .chain(attempts.iter().map(LineRef::Attempt))
        .chain(operations.iter().map(LineRef::Operation))
        .chain(committed.iter().map(LineRef::Committed))
        .chain(events.iter().map(LineRef::Event))
        .chain(decisions.iter().map(LineRef::Decision));
    let mut written = 0;
    for line in lines {
        put(&mut out, &line)?;
        written += 1;
    }
    put(&mut out, &LineRef::End { lines: written })?;
    let encoder = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    encoder.finish()?.flush()
}

fn put(out: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

/// Reads a record.
pub fn read(from: impl Read) -> Result<Record, ReadError> {
    let mut input = BufReader::new(GzDecoder::new(from));
    let mut text = String::new();
    match input.read_line(&mut text) {
        Ok(_) => {}
        Err(error) if is_foreign(&error) => return Err(ReadError::NotARecord),
        Err(error) => return Err(error.into()),
    }
    let version = serde_json::from_str::<serde_json::Value>(&text)
        .ok()
        .and_then(|first| first.get("shaketable_record")?.as_u64())
        .ok_or(ReadError::NotARecord)?;
    if version != u64::from(VERSION) {
        return Err(ReadError::Version {
            found: u32::try_from(version).unwrap_or(u32::MAX),
        });
    }
    let wrong = |line: u64, error: serde_json::Error| ReadError::Line {
        line,
        reason: error.to_string(),
    };
    let first: First = serde_json::from_str(&text).map_err(|error| wrong(1, error))?;
    let mut record = Record {
        header: first.header,
        ..Record::default()
    };
    let mut lines = 0;
    loop {
        text.clear();
        match input.read_line(&mut text) {
            Ok(0) => return Err(ReadError::CutOff { lines: lines + 1 }),
            Ok(_) if !text.ends_with('\n') => return Err(ReadError::CutOff { lines: lines + 1 }),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(ReadError::CutOff { lines: lines + 1 });
            }
            Err(error) => return Err(error.into()),
        }
        match serde_json::from_str(&text).map_err(|error| wrong(lines + 2, error))? {
            Line::Place(place) => record.places.push(place),
            Line::Phase(phase) => record.phases.push(phase),
            Line::Attempt(attempt) => record.attempts.push(*attempt),
            Line::Operation(operation) => record.operations.push(*operation),
            Line::Committed(committed) => record.committed.push(committed),
            Line::Event(event) => record.events.push(event),
            Line::Decision(decision) => record.decisions.push(decision),
            Line::End { lines: written } if written == lines => break,
            Line::End { .. } => return Err(ReadError::CutOff { lines: lines + 1 }),
        }
        lines += 1;
    }
    // The checksum stands behind the last line.
    match io::copy(&mut input, &mut io::sink()) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(ReadError::CutOff { lines: lines + 2 });
        }
        end => end?,
    };
    check(&record)?;
    Ok(record)
}

/// What a decoder says of bytes that are not gzip, and a reader of bytes that are not text.
fn is_foreign(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
    )
}

/// Whether every part that is referred to is there, so that no reader needs to look.
fn check(record: &Record) -> Result<(), ReadError> {
    let within = |index: u32, list: usize| (index as usize) < list;
    let attempts = record.attempts.iter().all(|attempt| {
        let retries = attempt
            .retries
            .is_none_or(|r| within(r.attempt, record.attempts.len()));
        let commit = attempt.commit.as_ref().is_none_or(|commit| {
            let landed = match commit.fate {
                crate::Fate::Landed(id) => within(id, record.committed.len()),
                _ => true,
            };
            let winner = commit
                .conflict
                .as_ref()
                .and_then(|conflict| conflict.winner);
            landed
                && winner.is_none_or(|id| within(id, record.committed.len()))
                && within(commit.operation, record.operations.len())
        });
        let phase = attempt
            .phase
            .is_none_or(|phase| within(phase, record.phases.len()));
        retries && commit && phase
    });
    let operations = record.operations.iter().all(|operation| {
        within(operation.attempt, record.attempts.len())
            && operation
                .place
                .is_none_or(|place| within(place, record.places.len()))
    });
    let committed = record.committed.iter().all(|committed| {
        committed
            .attempt
            .is_none_or(|attempt| within(attempt, record.attempts.len()))
    });
    if attempts && operations && committed {
        return Ok(());
    }
    Err(ReadError::Line {
        line: 0,
        reason: "a part refers to another one that is not in the record".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bytes;
    use crate::types::{Answer, Call, End};

    fn example() -> Record {
        Record {
            header: Header {
                program: "shaketable 0.1.0".into(),
                seed: 7,
                ..Header::default()
            },
            places: vec![Place {
                file: "src/queue.rs".into(),
                line: 88,
                function: "queue::claim".into(),
            }],
            attempts: vec![Attempt {
                client: Some(0),
                phase: None,
                transaction: 0,
                number: 1,
                retries: None,
                begun: 1.5,
                ended: None,
                read_version: Some(12),
                commit: None,
                end: End::Retried(1020),
            }],
            operations: vec![Operation {
                attempt: 0,
                asked: 1.5,
                answered: Some(1.6),
                place: Some(0),
                call: Call::Get {
                    key: Bytes::whole(b"jobs"),
                    snapshot: false,
                },
                answer: Answer::Value(None),
            }],
            ..Record::default()
        }
    }

    fn written(record: &Record) -> Vec<u8> {
        let mut file = Vec::new();
        write(record, &mut file).unwrap();
        file
    }

    #[test]
    fn a_record_comes_back_as_it_was() {
        let record = example();
        assert_eq!(read(&written(&record)[..]).unwrap(), record);
    }

    #[test]
    fn a_file_that_was_cut_off_says_so() {
        let file = written(&example());
        for length in 20..file.len() {
            let error = read(&file[..length]).expect_err("a part is no record");
            assert!(
                matches!(error, ReadError::CutOff { .. } | ReadError::NotARecord),
                "{length}: {error}"
            );
        }
        assert!(matches!(
            read(&file[..file.len() - 4]),
            Err(ReadError::CutOff { .. })
        ));
    }

    #[test]
    fn another_file_and_another_version_are_told_apart() {
        assert!(matches!(read(&b"hello"[..]), Err(ReadError::NotARecord)));
        let compressed = |text: &str| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(text.as_bytes()).unwrap();
            encoder.finish().unwrap()
        };
        let other = compressed("{\"a\":1}\n");
        assert!(matches!(read(&other[..]), Err(ReadError::NotARecord)));
        let newer = compressed("{\"shaketable_record\":9}\n");
        let error = read(&newer[..]).unwrap_err();
        assert!(error.to_string().contains("version 9"), "{error}");
    }

    #[test]
    fn a_reference_to_what_is_not_there_is_an_error() {
        let mut record = example();
        record.operations[0].place = Some(5);
        assert!(matches!(
            read(&written(&record)[..]),
            Err(ReadError::Line { .. })
        ));
    }
}
