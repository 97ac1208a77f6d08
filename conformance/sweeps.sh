#!/usr/bin/env bash
# Proves that the simulation shakes hard enough, and not too hard:
#
#   * every example passes EXAMPLE_SEEDS seeds;
#   * every bug (a file that has a second one, NAME-fixed.toml, beside it) is found within BUG_SEEDS
#     seeds, and its fix passes FIX_SEEDS;
#   * every example, needle and fix gives the same bytes twice for the same seed.
#
# The seeds are fixed (SEED is the first), so the answer is the same on every machine. Exit code 1
# on any surprise.
set -euo pipefail
cd "$(dirname "$0")/.."

SEED=${SEED:-1}
EXAMPLE_SEEDS=${EXAMPLE_SEEDS:-1000}
BUG_SEEDS=${BUG_SEEDS:-200}
FIX_SEEDS=${FIX_SEEDS:-2000}
DETERMINISM_SEEDS=${DETERMINISM_SEEDS:-20}

conformance/build --release
log=$(mktemp)
trap 'rm -f "$log"' EXIT
surprises=0
passed=0

sweep() { # sweep FILE SEEDS EXPECTED-EXIT-CODE SUB-COMMAND...
    local file=$1 seeds=$2 expected=$3 code=0
    shift 3
    target/release/shaketable "$@" "$file" --no-build --seed "$SEED" --seeds "$seeds" >"$log" 2>&1 || code=$?
    if [ "$code" = "$expected" ]; then
        printf '%-18s %-45s %s\n' "$1" "$file" \
            "$(grep -E '^[0-9]+ (runs|seeds)' "$log" | tail -n 1)"
        passed=$((passed + 1))
    else
        printf '%-18s %-45s expected exit code %s, found %s:\n' "$1" "$file" "$expected" "$code"
        tail -n 40 "$log"
        surprises=$((surprises + 1))
    fi
}

FOUND=100 # the program's exit code for "a seed failed"

for file in examples/*/*.toml; do
    case $file in
        */Cargo.toml) ;;
        # Bugs as well, but such that chance hardly finds them: needles.py does.
        examples/needles/*) sweep "$file" "$DETERMINISM_SEEDS" 0 check-determinism ;;
        *-fixed.toml)
            sweep "$file" "$FIX_SEEDS" 0 run
            sweep "$file" "$DETERMINISM_SEEDS" 0 check-determinism
            ;;
        *)
            if [ -e "${file%.toml}-fixed.toml" ]; then
                sweep "$file" "$BUG_SEEDS" "$FOUND" run --fail-fast
                continue
            fi
            sweep "$file" "$EXAMPLE_SEEDS" 0 run
            sweep "$file" "$EXAMPLE_SEEDS" 0 run --buggify on
            sweep "$file" "$DETERMINISM_SEEDS" 0 check-determinism --buggify on
            ;;
    esac
done

echo "$passed passed, $surprises failed"
[ "$surprises" = 0 ]
