#!/usr/bin/env bash
# ThreadSanitizer and AddressSanitizer over the store and whole replicas, on the stable toolchain.
#
#   tests/sanitizers.sh [short] [thread|address]       both, at full length, if nothing is said
#
# ThreadSanitizer must see std's mutexes, so std is built with it, from the rust-src component. Reports stay in
# target/sanitizers; exit code 1 if there is one, or if a test fails. docs/testing.md says what this covers.
set -euo pipefail
cd "$(dirname "$0")/.."
short=
if [ "${1:-}" = short ]; then short=1 && shift; fi
host=$(rustc -vV | sed -n 's/^host: //p')
reports=${CARGO_TARGET_DIR:-target}/sanitizers
mkdir -p "$reports"
export RUSTC_BOOTSTRAP=1 RUST_BACKTRACE=0
# A sanitizer makes a replica some ten times slower: its timeouts must not take that for death.
export STRESS_SECONDS=${STRESS_SECONDS:-$([ "$short" ] && echo 3 || echo 30)} SLOWNESS=10
export TSAN_OPTIONS="history_size=4 second_deadlock_stack=1"
export ASAN_OPTIONS="detect_stack_use_after_return=1"
failed=0

# The tests' binaries of a sanitizer, built.
binaries() {
    local flags=$1 out=$2 && shift 2
    RUSTFLAGS="$flags" cargo test --target "$host" --target-dir "$out" --no-run "$@" 2>&1 | tee "$reports/build.log" >&2
    sed -n 's/.*Executable.*(\(.*\))/\1/p' "$reports/build.log"
}

# Runs them, one after another, each into a file of its own.
run() {
    local sanitizer=$1 binary report && shift
    for binary in "$@"; do
        report=$reports/$sanitizer-$(basename "$binary").log
        if "$binary" --test-threads 2 >"$report" 2>&1; then
            echo "$sanitizer $(basename "$binary"): $(grep -h '^test result' "$report" | tail -1)"
        else
            echo "$sanitizer $(basename "$binary"): FAILED, see $report"
            grep -h '^SUMMARY\|panicked' "$report" | sort | uniq -c | sort -rn | head -20 || true
            failed=1
        fi
    done
}

store=(-p highwater-store --test threads --test snapshots)
if [ ! "$short" ]; then store+=(--test undo --test model); fi
if [ "${1:-thread}" = thread ]; then
    rustup component add rust-src >/dev/null 2>&1 || true
    flags="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer"
    built=$(binaries "$flags" "${CARGO_TARGET_DIR:-target}/tsan" -Zbuild-std "${store[@]}")
    built+=" $(binaries "$flags" "${CARGO_TARGET_DIR:-target}/tsan" -Zbuild-std -p highwater-sim --test threads)"
    run thread $built
fi
if [ "${1:-address}" = address ]; then
    flags="-Zsanitizer=address"
    built=$(binaries "$flags" "${CARGO_TARGET_DIR:-target}/asan" "${store[@]}")
    built+=" $(binaries "$flags" "${CARGO_TARGET_DIR:-target}/asan" -p highwater-sim --test threads)"
    run address $built
fi
exit $failed
