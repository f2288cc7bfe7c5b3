#!/usr/bin/env bash
# Runs the fuzz targets under libFuzzer and AddressSanitizer, on the stable toolchain: fuzz/run.sh SECONDS [TARGET..]
# Inputs that libFuzzer finds stay in target/fuzz/corpus, those that fail in target/fuzz/failures; SANITIZER=none is faster.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:-60}
shift || true
host=$(rustc -vV | sed -n 's/^host: //p')
all=$(sed -n 's/^name = "\([a-z]*\)"$/\1/p' Cargo.toml)

# What cargo-fuzz passes. The flags are unstable: RUSTC_BOOTSTRAP lets the stable compiler take them.
flags="--cfg fuzzing -Cdebug-assertions -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
flags+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
flags+=" -Cllvm-args=-sanitizer-coverage-trace-compares"
if [ "${SANITIZER:-address}" != none ]; then flags+=" -Zsanitizer=${SANITIZER:-address}"; fi
out=${CARGO_TARGET_DIR:-../target}/fuzz
RUSTC_BOOTSTRAP=1 RUSTFLAGS="$flags" cargo build --release --target "$host" --target-dir "$out" --bins

for target in ${*:-$all}; do
    mkdir -p "$out/corpus/$target" "$out/failures"
    echo "== $target"
    # A thread keeps its machine for scripts, and 48 bytes that this holds are taken for a leak, however many scripts it runs.
    leaks=1
    case $target in lua | scripts) leaks=0 ;; esac
    "$out/$host/release/$target" -max_total_time="$seconds" -detect_leaks=$leaks -max_len=4096 -rss_limit_mb=2048 -malloc_limit_mb=64 \
        -print_final_stats=1 -artifact_prefix="$out/failures/$target-" \
        "$out/corpus/$target" "../crates/fuzz/corpus/$target" 2>&1 | grep -E "^(stat::|==|SUMMARY|artifact)|panicked|INITED|DONE" -A1
done
