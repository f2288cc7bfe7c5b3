#!/usr/bin/env bash
# Talks to three real replicas with redis-cli. Usage: tests/redis_cli.sh path/to/highwater
# Needs redis-cli on the PATH. Cleans up its processes and files.
set -euo pipefail
highwater=$(realpath "${1:?usage: tests/redis_cli.sh path/to/highwater}")
dir=$(mktemp -d)
pids=()
cleanup() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
    rm -rf "$dir"
}
trap cleanup EXIT

mapfile -t ports < <(python3 "$(dirname "$0")/ports.py" 9)
nodes=""
for n in 0 1 2; do
    nodes+="{ id = $n, peer = \"127.0.0.1:${ports[$((3 * n))]}\", resp = \"127.0.0.1:${ports[$((3 * n + 1))]}\", "
    nodes+="admin = \"127.0.0.1:${ports[$((3 * n + 2))]}\" },"
done
for n in 0 1 2; do
    printf 'node = %s\n[cluster]\nid = "redis-cli"\nworkers = 2\ndurability = "memory"\nnodes = [%s]\n' "$n" "$nodes" >"$dir/$n.toml"
    "$highwater" serve --config "$dir/$n.toml" 2>"$dir/$n.log" &
    pids+=($!)
done

# Who leads? Ask until somebody does; bounded by time.
leader=""
deadline=$((SECONDS + 30))
while [ -z "$leader" ] && [ $SECONDS -lt $deadline ]; do
    for n in 0 1 2; do
        port=${ports[$((3 * n + 1))]}
        [ "$(redis-cli -p "$port" SET probe 1 2>/dev/null || true)" = OK ] && leader=$n
    done
done
[ -n "$leader" ] || { echo "no leader within 30 s"; cat "$dir"/*.log; exit 1; }
leader_port=${ports[$((3 * leader + 1))]}
follower_port=${ports[$((3 * ((leader + 1) % 3) + 1))]}

passed=0 failed=0
expect() { # expected output, then the arguments of redis-cli
    local expected=$1 got
    shift
    got=$(redis-cli -p "$leader_port" "$@" 2>&1 || true)
    if [ "$got" = "$expected" ]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        printf 'redis-cli %s\n  expected %q\n  got      %q\n' "$*" "$expected" "$got"
    fi
}
expect PONG PING
expect hello ECHO hello
expect OK SET greeting hello
expect hello GET greeting
expect 11 APPEND greeting " world"
expect 11 STRLEN greeting
expect 1 INCR counter
expect 42 INCRBY counter 41
expect OK MSET a 1 b 2
expect $'1\n2' MGET a b missing
expect 2 EXISTS a b missing
expect 2 DEL a b
expect "" GET a
expect "ERR value is not an integer or out of range" INCR greeting
got=$(printf 'MULTI\nINCR counter\nGET greeting\nEXEC\n' | redis-cli -p "$leader_port")
if [ "$got" = $'OK\nQUEUED\nQUEUED\n43\nhello world' ]; then passed=$((passed + 1)); else
    failed=$((failed + 1)); printf 'MULTI got %q\n' "$got"
fi
refusal=$(redis-cli -p "$follower_port" GET counter 2>&1 || true)
case "$refusal" in
    *127.0.0.1:"$leader_port"*) passed=$((passed + 1)) ;;
    *) failed=$((failed + 1)); printf 'a follower should name the leader, said %q\n' "$refusal" ;;
esac

# READONLY: a follower reads its own snapshot. It shows what the leader acknowledged within a few polls, each on a new snapshot.
on_follower() { printf '%s\n' READONLY "$@" | redis-cli -p "$follower_port" 2>&1 || true; }
check() { # what, expected, got
    if [ "$2" = "$3" ]; then passed=$((passed + 1)); else
        failed=$((failed + 1)); printf '%s\n  expected %q\n  got      %q\n' "$1" "$2" "$3"
    fi
}
expect OK MSET left 50 right 50
got=""
for _ in $(seq 100); do
    got=$(on_follower "MGET left right")
    [ "$got" != $'OK\n50\n50' ] || break
done
check "READONLY MGET on a follower" $'OK\n50\n50' "$got"
check "READONLY MULTI on a follower" $'OK\nOK\nQUEUED\nQUEUED\nQUEUED\nhello world\n11\n1' \
    "$(on_follower MULTI "GET greeting" "STRLEN greeting" "EXISTS greeting" EXEC)"
got=$(on_follower "SET left 0" READWRITE "GET left")
case "$got" in
    OK$'\n'*MOVED*"$leader_port"*OK*MOVED*) passed=$((passed + 1)) ;;
    *) failed=$((failed + 1)); printf 'READONLY takes no writes, READWRITE no reads; got %q\n' "$got" ;;
esac
# Money moves between two keys all the time; a follower's snapshot never shows a part of it.
(for _ in $(seq 200); do printf 'MULTI\nDECRBY left 1\nINCRBY right 1\nEXEC\n'; done) |
    redis-cli -p "$leader_port" >/dev/null &
mover=$!
torn=0
for sum in $( (echo READONLY; yes "MGET left right" | head -n 400) | redis-cli -p "$follower_port" |
    tail -n +2 | paste -d' ' - - | awk '{ print $1 + $2 }'); do
    [ "$sum" = 100 ] || torn=$((torn + 1))
done
wait "$mover"
check "sums that a follower showed torn" 0 "$torn"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
