#!/usr/bin/env python3
"""Writes `include/foundationdb/`, the C headers of our libfdb_c, and checks them.

Everything in them is in this repository already: functions and structs are declared in `sys/`,
option codes stand in `facts/options.csv`. Writing the headers from there means that they cannot
disagree.

    headers.py            writes the headers
    headers.py --check    fails if they are not what would be written; then lets compilers judge them

FoundationDB 8.0 differs in three options and one function, and has no blob granules: a program of
API version 800 gets those declarations.

The judgement: C and C++, at API versions from 23 to the newest, accept them without a warning;
every struct has the size and the offsets that `sys/` asserts; every function of FoundationDB 7.4 in
`facts/symbols.csv` is declared. Then the same with FoundationDB's own headers beside ours, which
the published crate `foundationdb-sys` carries: C refuses a function that is declared twice with
different types, and a layout that differs.
"""

import argparse
import csv
import re
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "include" / "foundationdb"
SCRATCH = ROOT / "target" / "conformance" / "headers"
SYS = ROOT / "sys" / "src"
API_VERSION = 740
API_VERSION_8_0 = 800
# Before this one, functions of the same names had other parameters.
API_VERSION_MIN = 23
JUDGED = [23, 300, 510, 600, 610, 620, 630, 710, 740]
BEFORE_8_0 = f"!defined(FDB_API_VERSION) || FDB_API_VERSION < {API_VERSION_8_0}"
SINCE_8_0 = f"defined(FDB_API_VERSION) && FDB_API_VERSION >= {API_VERSION_8_0}"
GENERATED = "/* Written by conformance/headers.py; do not edit. */\n"
# Declared by FoundationDB in a header for itself.
INTERNAL = {
    "fdb_database_create_shared_state",
    "fdb_database_set_shared_state",
    "fdb_future_get_shared_state",
    "fdb_use_future_protocol_version",
    "fdb_transaction_read_blob_granules_start",
    "fdb_transaction_read_blob_granules_finish",
}

SECTIONS = {
    "network": "Errors, the API version, the network",
    "future": "Futures",
    "database": "Databases",
    "tenant": "Tenants",
    "transaction": "Transactions",
    "blob": "Blob granules. Our library answers all of them with 2108",
    "legacy": "Removed from later API versions",
}
SCOPES = [
    ("NetworkOption", "FDB_NET_OPTION_", "Options of the network"),
    ("DatabaseOption", "FDB_DB_OPTION_", "Options of a database"),
    ("TransactionOption", "FDB_TR_OPTION_", "Options of a transaction"),
    ("StreamingMode", "FDB_STREAMING_MODE_", "How much of a range one read brings"),
    ("MutationType", "FDB_MUTATION_TYPE_", "Atomic operations"),
    ("ConflictRangeType", "FDB_CONFLICT_RANGE_TYPE_", "Kinds of conflict ranges"),
    ("ErrorPredicate", "FDB_ERROR_PREDICATE_", "Questions about an error code"),
]
PARAMETERS = {"Int": "a number of 8 bytes, little-endian", "String": "a string", "Bytes": "bytes"}
TYPES = {
    "c_int": "int",
    "c_char": "char",
    "c_void": "void",
    "i64": "int64_t",
    "u64": "uint64_t",
    "u32": "uint32_t",
    "u8": "uint8_t",
    "f64": "double",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; judge what is there")
    arguments = parser.parse_args()
    headers = {
        "fdb_c.h": functions_header(),
        "fdb_c_types.h": types_header(),
        "fdb_c_options.g.h": options_header(),
        "fdb_c_apiversion.g.h": version_header(),
    }
    if not arguments.check:
        TARGET.mkdir(parents=True, exist_ok=True)
        for name, text in headers.items():
            (TARGET / name).write_text(text)
        return
    for name, text in headers.items():
        if not (TARGET / name).is_file() or (TARGET / name).read_text() != text:
            sys.exit(f"headers: {name} is not what conformance/headers.py writes; run it")
    judge()


# What is written.


def functions_header():
    text = GENERATED + GUIDE.replace("VERSION_MIN", str(API_VERSION_MIN)).replace("VERSION_MAX", str(API_VERSION_8_0))
    for file, title in SECTIONS.items():
        text += f"\n/* {title}. */\n"
        condition = ""
        for function in functions(file):
            if function["condition"] != condition:
                text += "#endif\n" if condition else ""
                text += f"#if {function['condition']}\n" if function["condition"] else ""
                condition = function["condition"]
            text += comment(function["comment"]) + wrap(f"DLLEXPORT {function['declaration']};")
        text += "#endif\n" if condition else ""
    return text + "\n#ifdef __cplusplus\n}\n#endif\n#endif\n"


GUIDE = """/* The C API of FoundationDB, as our libfdb_c has it.
 *
 * A program says first which version of the API it was written for:
 *
 *     #define FDB_API_VERSION 740
 *     #include <foundationdb/fdb_c.h>
 *
 * then calls fdb_select_api_version, sets the network up, lends it a thread that runs it, opens a database, and stops the
 * network at its end. Whatever is handed to a function is copied before it returns. A function that returns a future
 * returns before anything has happened; what a future's getters hand out lives as long as the future. */
#ifndef FDB_C_H
#define FDB_C_H

#include "fdb_c_apiversion.g.h"

#ifdef FDB_USE_LATEST_API_VERSION
#define FDB_API_VERSION FDB_LATEST_API_VERSION
#elif defined(FDB_USE_LATEST_BINDINGS_API_VERSION)
#define FDB_API_VERSION FDB_LATEST_BINDINGS_API_VERSION
#endif
#ifndef FDB_API_VERSION
#error "define FDB_API_VERSION before this header is included"
#elif FDB_API_VERSION < VERSION_MIN
#error "this header has no declarations for an FDB_API_VERSION before VERSION_MIN"
#elif FDB_API_VERSION > VERSION_MAX
#error "this header is older than the FDB_API_VERSION that is asked of it"
#endif

#include "fdb_c_options.g.h"
#include "fdb_c_types.h"

/* The four common key selectors, as the arguments of a read: bytes, length, whether the key itself counts, offset. */
#define FDB_KEYSEL_LAST_LESS_THAN(key, length) key, length, 0, 0
#define FDB_KEYSEL_LAST_LESS_OR_EQUAL(key, length) key, length, 1, 0
#define FDB_KEYSEL_FIRST_GREATER_THAN(key, length) key, length, 1, 1
#define FDB_KEYSEL_FIRST_GREATER_OR_EQUAL(key, length) key, length, 0, 1

/* Selects how the library behaves, once and before anything else. The second form is content with a library that is older
 * than this header. */
#define fdb_select_api_version(version) fdb_select_api_version_impl(version, FDB_API_VERSION)
#define fdb_select_api_version_capped(version)                                                                         \\
    fdb_select_api_version_impl(                                                                                       \\
        version, FDB_API_VERSION < fdb_get_max_api_version() ? FDB_API_VERSION : fdb_get_max_api_version())

#ifdef __cplusplus
extern "C" {
#endif
"""


def types_header():
    text = GENERATED + TYPES_GUIDE
    for handle in handles():
        text += comment(handle["comment"]) + f"typedef struct {handle['tag']} {handle['name']};\n"
    text += "\n/* Called when a future is ready, on the network's thread or inside fdb_future_set_callback. */\n"
    text += "typedef void (*FDBCallback)(FDBFuture *future, void *parameter);\n"
    text += "\n/* A row's pointers; headers before 630 left open what they point to. */\n"
    text += "#if defined(FDB_API_VERSION) && FDB_API_VERSION < 630\ntypedef void fdb_row_byte_t;\n"
    text += "#else\ntypedef uint8_t fdb_row_byte_t;\n#endif\n"
    for struct in structs():
        text += "\n" + comment(struct["comment"])
        text += "#pragma pack(push, 4)\n" if struct["packed"] else ""
        text += f"typedef struct {struct['tag']} {{\n"
        text += "".join(
            comment(line, "    ") + f"    {field};\n" for line, field in struct["fields"]
        )
        text += f"}} {struct['name']};\n"
        text += "#pragma pack(pop)\n" if struct["packed"] else ""
    text += "\n/* What a mutation inside a granule does. */\n"
    text += "typedef enum {\n    FDB_BG_MUTATION_TYPE_SET_VALUE = 0,\n    FDB_BG_MUTATION_TYPE_CLEAR_RANGE = 1\n"
    text += "} FDBBGMutationType;\n"
    return text + "\n#ifdef __cplusplus\n}\n#endif\n#endif\n"


TYPES_GUIDE = """/* Handles, which only the library can look into, and the structs that it hands out.
 *
 * Rows come in arrays whose elements are packed to four bytes: the next one begins where the last one ends. */
#ifndef FDB_C_TYPES_H
#define FDB_C_TYPES_H

#include <stdint.h>

#ifndef DLLEXPORT
#define DLLEXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* An error code; 0 is success. */
typedef int fdb_error_t;
/* A truth value. */
typedef int fdb_bool_t;
"""


def options_header():
    text = GENERATED + OPTIONS_GUIDE
    for scope, prefix, title in SCOPES:
        text += f"\n/* {title}. */\ntypedef enum {{\n"
        rows = [row for row in options() if row["scope"] == scope]
        for index, row in enumerate(rows):
            condition = release_of(row)
            text += f"#if {condition}\n" if condition else ""
            if row["param"] in PARAMETERS:
                text += f"    /* Takes {PARAMETERS[row['param']]}. */\n"
            comma = "," if index + 1 < len(rows) else ""
            text += f"    {prefix}{row['name'].upper()} = {row['code']}{comma}\n"
            text += "#endif\n" if condition else ""
        text += f"}} FDB{scope};\n"
    text += "\n/* Options of a cluster, of which there never were any. */\n"
    text += "typedef enum {\n    FDB_CLUSTER_OPTION_DUMMY_DO_NOT_USE = -1\n} FDBClusterOption;\n"
    return text + "\n#endif\n"


OPTIONS_GUIDE = """/* The numbers of options, atomic operations, streaming modes, conflict ranges and error predicates.
 *
 * An option without a remark takes no value. FoundationDB's documentation says what each of them does. */
#ifndef FDB_C_OPTIONS_G_H
#define FDB_C_OPTIONS_G_H
"""


def version_header():
    text = GENERATED + "#ifndef FDB_C_APIVERSION_G_H\n#define FDB_C_APIVERSION_G_H\n\n"
    text += "/* The newest API version, of the library and for bindings; and those that brought something. */\n"
    text += f"#define FDB_LATEST_API_VERSION {API_VERSION}\n#define FDB_LATEST_BINDINGS_API_VERSION {API_VERSION}\n"
    for name, version in re.findall(
        r"pub const (FDB_API_VERSION_\w+): u32 = (\d+);", (SYS / "versions.rs").read_text()
    ):
        text += f"#define {name} {version}\n"
    return text + "\n#endif\n"


def wrap(declaration):
    """Breaks a long declaration between its parameters."""
    begin, space, parameters = declaration.partition("(")
    parameters = ", ".join(each.replace(" ", "\0") for each in parameters.split(", "))
    lines = textwrap.wrap(
        begin.replace(" ", "\0") + space + parameters, 118, subsequent_indent="    "
    )
    return "\n".join(lines).replace("\0", " ") + "\n"


def comment(text, indent=""):
    lines = textwrap.wrap(text, 114)
    return "" if not text else indent + "/* " + f"\n{indent} * ".join(lines) + " */\n"


# Where it comes from.


def functions(file):
    """The functions that one file of `sys/` declares, in the headers of 7.4 and 8.0."""
    condition = f"FDB_API_VERSION < {API_VERSION_8_0}" if file == "blob" else ""
    text = (SYS / "functions" / f"{file}.rs").read_text()
    text = text[text.index("unsafe extern") :]
    pattern = (
        r"((?:    ///[^\n]*\n)*)((?:    #\[[^\n]*\n)*)    pub fn (\w+)\((.*?)\)(?:\s*-> ([^;]+))?;"
    )
    for lines, attributes, name, parameters, result in re.findall(pattern, text, re.DOTALL):
        removed = re.search(r"cfg\(not\(since_(\d+)\)\)", attributes)
        if "not(since_" in attributes and not removed:
            continue  # one version had it, and it is not this one
        parameters = [
            declare(kind, parameter)
            for parameter, kind in re.findall(
                r"(\w+): (Option<.*?>|[^,]+?)(?:,|$)", parameters.strip()
            )
        ]
        yield {
            "name": name,
            "comment": sentence(lines),
            "condition": f"FDB_API_VERSION < {removed[1]}" if removed else condition,
            "declaration": declare(
                result or "c_void", f"{name}({', '.join(parameters) or 'void'})"
            ),
        }
    if file == "transaction":
        yield {
            "name": "fdb_transaction_get_range_split_points_with_limit",
            "comment": "Cuts a range into chunks of about a size, and returns at most so many of the keys between them.",
            "condition": f"FDB_API_VERSION >= {API_VERSION_8_0}",
            "declaration": "FDBFuture *fdb_transaction_get_range_split_points_with_limit(FDBTransaction *transaction, "
            "const uint8_t *begin_key_name, int begin_key_name_length, const uint8_t *end_key_name, "
            "int end_key_name_length, int64_t chunk_size, int limit)",
        }


def handles():
    text = (SYS / "types.rs").read_text()
    block = text[text.index("\nhandles! {") :]
    for lines, tag, name in re.findall(
        r"((?:    ///[^\n]*\n)+)(?:    #[^\n]*\n)*    (\w+) = (\w+);", block
    ):
        yield {"comment": sentence(lines), "tag": tag, "name": name}


def structs():
    """The structs of `sys/`, in an order in which each uses only those before it."""
    found = {}
    for file in ("types.rs", "granules.rs"):
        text = (SYS / file).read_text()
        pattern = r"((?:///[^\n]*\n)+)((?:#\[[^\n]*\n)+)pub struct (FDB\w+) \{\n(.*?)\n\}"
        for lines, attributes, name, body in re.findall(pattern, text, re.DOTALL):
            fields = re.findall(
                r"((?:    ///[^\n]*\n)+)    pub (\w+): (.*?),(?=\n    ///|$)",
                body + "\n",
                re.DOTALL,
            )
            tag = re.search(rf"pub type (\w+) = {name};", text)[1]
            found[name] = {
                "name": name,
                "tag": tag,
                "comment": sentence(lines),
                "packed": "packed(4)" in attributes,
                "fields": [
                    (sentence(remark), declare(kind.strip(), field.rstrip("_")))
                    for remark, field, kind in fields
                ],
            }
    done = []
    while found:
        ready = next(
            name
            for name, struct in found.items()
            if not any(
                re.search(rf"\b{other}\b", field)
                for other in found
                if other != name
                for _, field in struct["fields"]
            )
        )
        done.append(found.pop(ready))
    return done


def layouts():
    """What `sys/` asserts of each struct: name, size, offsets."""
    text = (SYS / "types.rs").read_text() + (SYS / "granules.rs").read_text()
    for name, size, rest in re.findall(
        r"assert_layout!\(\s*(FDB\w+), size (\d+), align \d+,(.*?)\);", text, re.DOTALL
    ):
        yield (
            name,
            size,
            [(field.rstrip("_"), offset) for field, offset in re.findall(r"(\w+) @ (\d+)", rest)],
        )


def options():
    with open(ROOT / "conformance" / "facts" / "options.csv") as file:
        return [row for row in csv.DictReader(file) if "1" in (row["in_7.4"], row["in_main"])]


def release_of(option):
    """The condition under which an option exists, if only one release has it."""
    return {("1", "0"): BEFORE_8_0, ("0", "1"): SINCE_8_0}.get((option["in_7.4"], option["in_main"]))


def sentence(lines):
    return " ".join(line.strip().removeprefix("///").strip() for line in lines.splitlines())


def declare(kind, name):
    """A C declaration of something that Rust calls `kind`."""
    kind = " ".join(kind.split())
    pointer = re.fullmatch(r'Option< ?unsafe extern "C" fn\((.*?),? ?\)(?: -> (.*?))?,? ?>', kind)
    if pointer:
        parameters = [
            declare(each, each_name)
            for each_name, each in re.findall(r"(\w+): ([^,]+)", pointer[1])
        ]
        return declare(pointer[2] or "c_void", f"(*{name})({', '.join(parameters)})")
    array = re.fullmatch(r"\[(\w+); (\d+)\]", kind)
    if array:
        return f"{'unsigned char' if array[1] == 'u8' else TYPES[array[1]]} {name}[{array[2]}]"
    stars = ""
    while kind.startswith("*"):
        constness, kind = kind[1:].split(" ", 1)
        if constness == "const":
            assert not kind.startswith("*"), f"a pointer to a constant pointer: {name}"
            kind, stars = kind.strip(), "*" + stars
            return f"const {scalar(kind)} {stars}{name}"
        stars = "*" + stars
    return f"{scalar(kind)} {stars}{name}"


def scalar(kind):
    return {"RowByte": "fdb_row_byte_t"}.get(kind, TYPES.get(kind, kind))


# The judgement.


def judge():
    SCRATCH.mkdir(parents=True, exist_ok=True)
    layout = "".join(
        f'ASSERT(sizeof({name}) == {size}, "{name}");\n'
        + "".join(
            f'ASSERT(offsetof({name}, {field}) == {offset}, "{name}.{field}");\n'
            for field, offset in fields
        )
        for name, size, fields in layouts()
    )
    use = f"#include <foundationdb/fdb_c.h>\n#include <stddef.h>\n{layout}"
    ours = ["-I", str(ROOT / "include")]
    for version in [*JUDGED, API_VERSION_8_0]:
        compile_(
            f"#define ASSERT _Static_assert\n#define FDB_API_VERSION {version}\n{use}", "c", ours
        )
        compile_(
            f"#define ASSERT static_assert\n#define FDB_API_VERSION {version}\n{use}", "cc", ours
        )
        print(f"ok      C and C++ at {version}", flush=True)
    refused = compile_(
        f"#define FDB_API_VERSION {API_VERSION_MIN - 1}\n{use}", "c", ours, must=False
    )
    if not refused:
        sys.exit(f"headers: an API version before {API_VERSION_MIN} was accepted")

    declared = {function["name"] for file in SECTIONS for function in functions(file)}
    with open(ROOT / "conformance" / "facts" / "symbols.csv") as file:
        # Those that were removed at 14 and 23 have no declaration in any header that we serve.
        wanted = {
            row["symbol"]
            for row in csv.DictReader(file)
            if row["7.4"] == "1" and row["stub_removed_at"] not in ("14", "23")
        }
    missing = wanted - declared - INTERNAL
    if missing:
        sys.exit(f"headers: not declared: {sorted(missing)}")
    print(f"ok      {len(declared)} functions", flush=True)

    theirs = published()
    again = "".join(
        f"{'#if ' + function['condition'] if function['condition'] else ''}\n{function['declaration']};\n"
        f"{'#endif' if function['condition'] else ''}\n"
        for file in SECTIONS
        for function in functions(file)
    )
    for version in JUDGED:
        source = f"#define ASSERT _Static_assert\n#define FDB_API_VERSION {version}\n#include <fdb_c.h>\n#include <stddef.h>\n"
        compile_(source + layout + again, "c", ["-I", str(theirs)])
    numbers = "".join(
        f'ASSERT({prefix}{row["name"].upper()} == {row["code"]}, "{row["name"]}");\n'
        for scope, prefix, _ in SCOPES
        for row in options()
        if row["scope"] == scope and row["hidden"] != "1" and row["in_7.4"] == "1"
    )
    source = f"#define ASSERT _Static_assert\n#define FDB_API_VERSION {API_VERSION}\n#include <fdb_c.h>\n"
    compile_(source + numbers, "c", ["-I", str(theirs)])
    print("ok      the same types, layouts and numbers as FoundationDB's headers", flush=True)


def compile_(source, language, flags, must=True):
    """Compiles without a warning, or ends the check. Returns the errors."""
    file = SCRATCH / f"judge.{language}"
    file.write_text(source)
    compiler = ["gcc", "-std=c11"] if language == "c" else ["g++", "-std=c++17"]
    command = [
        *compiler,
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pedantic",
        "-fsyntax-only",
        *flags,
        str(file),
    ]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if done.returncode and must:
        sys.exit(f"{done.stderr}headers: expected `{' '.join(command)}` to succeed")
    return done.stderr


def published():
    """FoundationDB's headers of 7.4, where cargo keeps the sources of the crate that carries
    them."""
    import published

    copy = published.sources("foundationdb-sys", "0.11.0", SCRATCH / "theirs")
    (header,) = copy.glob(f"include/{API_VERSION}/fdb_c.h")
    return header.parent


if __name__ == "__main__":
    main()
