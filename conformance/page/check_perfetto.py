#!/usr/bin/env python3
"""Holds the Perfetto traces of `shaketable-page` against Perfetto's own schema.

The package `perfetto` brings the schema. Its trace processor is a program that it downloads when it
is first used; where that is possible (`--processor PATH` names one that is there) the trace is
loaded into it too, and what it finds must be what the record holds.
"""

import argparse
import gzip
import json
import sys
from collections import Counter
from pathlib import Path

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

KINDS = schema.TrackEvent.Type


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--processor", type=Path, help="a trace_processor_shell")
    parser.add_argument("folders", nargs="+", type=Path)
    arguments = parser.parse_args()
    checked = 0
    for folder in arguments.folders:
        record = read(folder / "record.jsonl.gz")
        content = (folder / "trace.perfetto").read_bytes()
        check(folder.name, record, content)
        if arguments.processor:
            ask(folder / "trace.perfetto", arguments.processor, record)
        checked += 1
    print(f"perfetto: {checked} passed, 0 failed")


def read(path):
    record = {
        "attempt": [],
        "operation": [],
        "committed": [],
        "event": [],
        "phase": [],
        "place": [],
        "end": [],
    }
    with gzip.open(path, "rt") as lines:
        next(lines)
        for line in lines:
            ((kind, part),) = json.loads(line).items()
            record[kind].append(part)
    return record


def conflicts(record):
    """The attempts that failed because of a commit of the code under test."""
    found = 0
    for attempt in record["attempt"]:
        conflict = (attempt["commit"] or {}).get("conflict")
        winner = conflict["winner"] if conflict else None
        found += winner is not None and record["committed"][winner]["attempt"] is not None
    return found


def check(name, record, content):
    trace = schema.Trace()
    trace.ParseFromString(content)
    expect(trace.IsInitialized(), f"{name}: all required fields are there")
    trace.DiscardUnknownFields()
    expect(
        trace.ByteSize() == len(content),
        f"{name}: nothing is written that the schema does not know",
    )
    tracks = {}
    depth = Counter()
    kinds = Counter()
    begun, ended = [], []
    slices = Counter()
    before = 0
    for packet in trace.packet:
        expect(packet.trusted_packet_sequence_id == 1, f"{name}: one sequence")
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            expect(track.uuid not in tracks, f"{name}: a track is described once")
            expect(
                not track.HasField("parent_uuid") or track.parent_uuid in tracks,
                f"{name}: parents come first",
            )
            tracks[track.uuid] = track
            continue
        event = packet.track_event
        expect(event.track_uuid in tracks, f"{name}: an event is on a track that is described")
        expect(packet.timestamp >= before, f"{name}: packets are in time")
        before = packet.timestamp
        kinds[event.type] += 1
        if event.type == KINDS.TYPE_SLICE_BEGIN:
            depth[event.track_uuid] += 1
            expect(event.name != "", f"{name}: a slice has a name")
            slices[event.categories[0]] += 1
        if event.type == KINDS.TYPE_SLICE_END:
            depth[event.track_uuid] -= 1
            expect(depth[event.track_uuid] >= 0, f"{name}: a slice ends after it began")
        begun += [(flow, packet.timestamp) for flow in event.flow_ids]
        ended += [(flow, packet.timestamp) for flow in event.terminating_flow_ids]
    expect(not any(depth.values()), f"{name}: every slice ends")
    transactions = {(attempt["client"], attempt["transaction"]) for attempt in record["attempt"]}
    expect(slices["transaction"] == len(transactions), f"{name}: every transaction is a slice")
    expect(slices["attempt"] == len(record["attempt"]), f"{name}: every attempt is a slice")
    expect(slices["operation"] == len(record["operation"]), f"{name}: every operation")
    expect(
        len(ended) == conflicts(record), f"{name}: a flow for every conflict with a known winner"
    )
    begins = dict(begun)
    expect(
        len(begins) == len(begun) and set(begins) == {flow for flow, _ in ended},
        f"{name}: flows have two ends",
    )
    print(
        f"  {name}: {len(tracks)} tracks, {kinds[KINDS.TYPE_SLICE_BEGIN]} slices, {len(ended)} flows"
    )


def ask(path, processor, record):
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

    processor = TraceProcessor(
        trace=str(path), config=TraceProcessorConfig(bin_path=str(processor))
    )
    count = lambda query: next(iter(processor.query(query))).n  # noqa: E731
    expect(
        count("select count(*) as n from slice where category = 'attempt'")
        == len(record["attempt"]),
        "attempts",
    )
    expect(count("select count(*) as n from flow") == conflicts(record), "flows")
    expect(
        count("select count(*) as n from stats where severity = 'error' and value > 0") == 0,
        "no import errors",
    )
    processor.close()


def expect(held, what):
    if not held:
        print(f"error: it does not hold that {what}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
