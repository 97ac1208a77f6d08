#!/usr/bin/env bash
# Proves that explanations are right, on bugs whose causes are known:
#
#   * for the first SEEDS_PER_BUG failing seeds of every bug in examples/bugs, and of the two of a
#     service on tokio in examples/service, the first finding of `shaketable explain` is the bug's
#     true cause, with the line of the author's code;
#   * the fixed forms and the good examples have no finding and no hazard (`shaketable lint`).
#
# The seeds are fixed (SEED is the first), so the answer is the same on every machine. Exit code 1
# on any surprise.
set -euo pipefail
cd "$(dirname "$0")/.."

SEED=${SEED:-1}
BUG_SEEDS=${BUG_SEEDS:-60}
SEEDS_PER_BUG=${SEEDS_PER_BUG:-2}
LINT_SEEDS=${LINT_SEEDS:-10}

if [ -z "${NO_BUILD:-}" ]; then
    conformance/build --release
fi
program=target/release/shaketable
surprises=0
passed=0

causes='
abandoned_job     died-half-way
assumed_order     order-before-commit
blind_renewal     wrote-after-losing-lock
blind_watch       watch-counted
cancelled_commit  repeated-after-dropped-commit
claimed_twice     stale-rule
cleared_receipt   receipt-gone
clock_lease       wrote-after-losing-lock
double_append     retry-after-unknown-result
double_increment  retry-after-unknown-result
drawn_apart       split-write-and-read
dropped_commit    repeated-after-dropped-commit
early_effect      effect-before-commit
false_failure     unknown-result-taken-for-failure
flushed_twice     repeated-after-unknown-result
forgotten_doubt   doubt-forgotten
hash_order        order-of-the-process
ignored_more      range-not-continued
kept_state        state-kept-across-attempts
late_renewal      wrote-after-losing-lock
late_watch        watch-too-late
long_scan         scan-across-transactions
lost_pop          lost-after-unknown-result
maybe_done        unknown-result-taken-for-done
neighbour         range-clear-too-wide
new_id            repeated-after-unknown-result
offset_pages      scan-across-transactions
orphan_record     died-half-way
oversold          stale-rule
own_entry         own-entry-not-recognised
phantom           phantom
reused_cursor     state-kept-across-attempts
same_stamp        same-versionstamp
snapshot_id       lost-update
snapshot_index    lost-update
split_index       split-transaction
split_update      split-read-and-write
stale_cache       split-read-and-write
stale_version     old-read-version
stolen_release    lock-released-by-past-holder
swallowed_error   error-swallowed
timed_out         repeated-after-timeout
uncommitted_watch watch-not-committed
unique_outside    split-read-and-write
unreturned_lease  died-half-way
version_id        same-commit-version
write_skew        write-skew
'

surprise() {
    printf 'SURPRISE %s\n' "$*"
    surprises=$((surprises + 1))
}

cause_of() { # cause_of BUG
    awk -v bug="$1" '$1 == bug { print $2 }' <<<"$causes"
}

failing_seeds() { # failing_seeds FILE
    { "$program" run "$1" --no-build --seed "$SEED" --seeds "$BUG_SEEDS" \
        --message-format json || true; } |
        sed -n 's/^{"type":"run".*"seed":\([0-9]*\),"passed":false.*/\1/p' |
        sort -n | head -n "$SEEDS_PER_BUG"
}

for fixed in examples/{bugs,service}/*-fixed.toml; do
    file=${fixed%-fixed.toml}.toml
    bug=$(basename "$file" .toml)
    expected=$(cause_of "$bug")
    seeds=$(failing_seeds "$file")
    [ -n "$seeds" ] || surprise "$bug: no failing seed among $BUG_SEEDS"
    for seed in $seeds; do
        explanation=$("$program" explain "$file" --no-build --seed "$seed" --message-format json || true)
        found=$(sed -n 's/.*"findings":\[{"name":"\([a-z-]*\)".*/\1/p' <<<"$explanation")
        if [ "$found" = "$expected" ] && grep -q "$(dirname "$file")/src/" <<<"$explanation"; then
            passed=$((passed + 1))
        else
            surprise "$bug seed $seed: expected $expected, found ${found:-nothing}"
        fi
    done
done

for file in examples/{bugs,service}/*-fixed.toml \
    examples/{atomic,bank,cache,cycle,election,index,queue}/*.toml examples/service/service.toml; do
    case $file in */Cargo.toml) continue ;; esac
    if "$program" explain "$file" --no-build --seed "$SEED" --message-format json |
        grep -q '"findings":\[\]'; then
        passed=$((passed + 1))
    else
        surprise "$file: has a finding, or failed"
    fi
    if hazards=$("$program" lint "$file" --no-build --seed "$SEED" --seeds "$LINT_SEEDS"); then
        passed=$((passed + 1))
    else
        surprise "$file: $hazards"
    fi
done

echo "$passed passed, $surprises failed"
[ "$surprises" = 0 ]
