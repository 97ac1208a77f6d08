#!/bin/bash
# Does the published crate `foundationdb` compile, unchanged, against our `foundationdb-sys`?
#
# Checks every API version, with and without tenants, its default features and its own copy of
# FoundationDB's files, in a scratch project under target/. Prints one line per combination; ends
# with 1 if any of them fails.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
scratch=$root/target/conformance/sys-matrix
mkdir -p "$scratch/src"
: >"$scratch/src/lib.rs"
cat >"$scratch/Cargo.toml" <<EOF
[package]
name = "sys-matrix"
version = "0.0.0"
edition = "2024"

[workspace]

[dependencies]
foundationdb = { version = "=0.11.0", default-features = false }

[patch.crates-io]
foundationdb-sys = { path = "$root/sys" }
EOF

failed=0
check() {
    local features
    features=$(printf 'foundationdb/%s,' "$@")
    if output=$(cd "$scratch" && cargo check --quiet --target-dir "$scratch/target" \
        --features "${features%,}" 2>&1); then
        echo "ok      $*"
    else
        echo "failed  $*"
        printf '%s\n' "$output" | sed 's/^/        /'
        failed=1
    fi
}

for version in fdb-5_1 fdb-5_2 fdb-6_0 fdb-6_1 fdb-6_2 fdb-6_3 fdb-7_0; do
    check $version
done
for version in fdb-7_1 fdb-7_3 fdb-7_4; do
    for include in "" embedded-fdb-include; do
        check $version $include
        check $version $include tenant-experimental
        check $version $include tenant-experimental default num-bigint trace
    done
done
exit $failed
