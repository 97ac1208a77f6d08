#!/bin/bash
# Runs the executor's tests, and the workload library's tests in their C and C++ hosts, under valgrind: no leak, no bad access.
#
# The unit tests run in one process; the hosts are each started under valgrind by the test (SHAKETABLE_VALGRIND).
set -eu
cd "$(dirname "$0")/.."
flags=(--quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite)

cargo test --quiet --package shaketable --lib --no-run
tests=$(cargo test --package shaketable --lib --no-run --message-format=json 2>/dev/null |
    python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable") and message["target"]["name"] == "shaketable":
        print(message["executable"])')
valgrind "${flags[@]}" "$tests" --test-threads=1 --quiet
SHAKETABLE_VALGRIND=1 cargo test --quiet --package shaketable --test hosts
