#!/usr/bin/env bash
# Knocks at the doors of a real node with redis-cli: TLS, certificates, passwords, rights; and compares what scripts may do with a real Redis.
# Usage: tests/locks.sh path/to/highwater
# Needs redis-cli with TLS on the PATH, and redis-server 7.0 for the comparison. Takes a few seconds. Cleans up its processes and files.
set -euo pipefail
highwater=$(realpath "${1:?usage: tests/locks.sh path/to/highwater}")
dir=$(mktemp -d)
pids=()
cleanup() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
    rm -rf "$dir"
}
trap cleanup EXIT
mapfile -t ports < <(python3 "$(dirname "$0")/ports.py" 7)

certs=$dir/certs
"$highwater" cert ca --dir "$certs" >/dev/null
"$highwater" cert node --dir "$certs" --id 0 >/dev/null
"$highwater" cert client --dir "$certs" --name alice >/dev/null
"$highwater" cert client --dir "$certs" --name late --days=-2 >/dev/null
"$highwater" cert ca --dir "$dir/others" >/dev/null
"$highwater" cert client --dir "$dir/others" --name mallory >/dev/null

serve() { # name, first of its three ports, more words
    local name=$1 at=$2
    shift 2
    local nodes="cluster.nodes=[{id=0,peer=\"127.0.0.1:${ports[$at]}\",resp=\"127.0.0.1:${ports[$((at + 1))]}\",admin=\"127.0.0.1:${ports[$((at + 2))]}\"}]"
    "$highwater" serve --set "$nodes" --set cluster.durability=memory --set cluster.workers=1 --set "storage.dir=$dir/$name" \
        --set limits.memory_mb=512 --set auth.password=secret "$@" 2>"$dir/$name.log" &
    pids+=($!)
}
serve locked 0 --set tls.resp=true --set tls.client_auth=required --set "tls.ca=$certs/ca.crt" \
    --set "tls.certificate=$certs/node-0.crt" --set "tls.key=$certs/node-0.key"
serve plain 3
locked=${ports[1]} plain=${ports[4]} redis=${ports[6]}

passed=0 failed=0
# What is said has to fit something: the extended regular expression, then the arguments of redis-cli.
says() {
    local pattern=$1 got
    shift
    got=$(timeout 20 redis-cli "$@" 2>&1 </dev/null || true)
    if grep -qE -- "$pattern" <<<"$got"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        printf 'redis-cli %s\n  expected .. %q ..\n  got         %q\n' "$*" "$pattern" "$got"
    fi
}
logged() { # log, pattern
    for _ in $(seq 100); do
        if grep -q "$2" "$dir/$1.log"; then passed=$((passed + 1)); return; fi
        sleep 0.05
    done
    failed=$((failed + 1))
    printf 'the log of %s does not say %q\n' "$1" "$2"
}
tls=(-p "$locked" --tls --cacert "$certs/ca.crt")
alice=("${tls[@]}" --cert "$certs/alice.crt" --key "$certs/alice.key")
ready() {
    for _ in $(seq 300); do
        [ "$(redis-cli "$@" -a secret --no-auth-warning SET probe 1 2>/dev/null || true)" = OK ] && return
        sleep 0.05
    done
    echo "nobody serves"; cat "$dir"/*.log; exit 1
}
ready "${alice[@]}"
ready -p "$plain"

# TLS: with the right certificates, and with all kinds of wrong ones.
says PONG "${alice[@]}" -a secret --no-auth-warning PING
# With TLS 1.3 a client learns what became of its certificate with the first answer, as an alert or as the end.
ended="Error: (Server closed the connection|.*alert|Connection reset by peer|Broken pipe)"
says "$ended" "${tls[@]}" PING
logged locked "at the RESP port failed: it shows no certificate"
says "certificate verify failed" -p "$locked" --tls --cacert "$dir/others/ca.crt" --cert "$certs/alice.crt" --key "$certs/alice.key" PING
says "$ended" "${tls[@]}" --cert "$dir/others/mallory.crt" --key "$dir/others/mallory.key" PING
says "$ended" "${tls[@]}" --cert "$certs/late.crt" --key "$certs/late.key" PING
says "Error: (Server closed the connection|Protocol error, got .* as reply type byte)" -p "$locked" PING
says "Could not connect to Redis at .*SSL_connect" -p "$plain" --tls --cacert "$certs/ca.crt" PING
logged plain "speaks TLS at the RESP port, which does not"

# Who one is, and what one may do.
for at in "-p $plain" "${alice[*]}"; do
    read -ra at <<<"$at"
    root=("${at[@]}" -a secret --no-auth-warning)
    says "NOAUTH Authentication required." "${at[@]}" GET a
    says "WRONGPASS invalid username-password pair or user is disabled." "${at[@]}" AUTH wrong
    says "WRONGPASS" "${at[@]}" AUTH nobody secret
    says OK "${root[@]}" ACL SETUSER bob on '>pw' '~a*' '+@all' -flushall
    bob=("${at[@]}" --user bob --pass pw --no-auth-warning)
    says OK "${bob[@]}" SET a1 x
    says "NOPERM this user has no permissions to access one of the keys used as arguments" "${bob[@]}" GET b
    says "NOPERM this user has no permissions to run the 'flushall' command" "${bob[@]}" FLUSHALL
    says "ERR The user executing the script can't access at least one of the keys" "${bob[@]}" EVAL "return redis.call('get','b')" 0
    says OK "${root[@]}" ACL SETUSER bob off
    says "WRONGPASS" "${at[@]}" AUTH bob pw
done

# What scripts may do for whom, and in which words: as a Redis of 7.0 has it.
if ! redis-server --version 2>/dev/null | grep -q 'v=7\.0\.'; then
    echo "no redis-server 7.0: nothing to compare scripts with"
else
    redis-server --port "$redis" --bind 127.0.0.1 --save '' --dir "$dir" --requirepass secret >"$dir/redis.log" &
    pids+=($!)
    ready -p "$redis"
    compared=0
    same() { # the words of a command, to be asked of both
        local word
        for word in "$@"; do printf '"%s" ' "$word"; done >>"$dir/asked"
        printf '\n' >>"$dir/asked"
        compared=$((compared + 1))
    }
    # Asks both everything, as a user.
    ask() {
        for port in "$plain" "$redis"; do
            timeout 60 redis-cli -p "$port" --user "$user" --pass pw --no-auth-warning <"$dir/asked" >"$dir/$port.told" 2>&1 || true
        done
        # Every reply is a line at least.
        if diff "$dir/$redis.told" "$dir/$plain.told" >"$dir/differs" && [ "$(wc -l <"$dir/$plain.told")" -ge "$(wc -l <"$dir/asked")" ]; then passed=$((passed + 1)); else
            failed=$((failed + 1))
            printf 'as %s: < Redis, > Highwater\n' "$user"
            head -40 "$dir/differs"
        fi
        rm "$dir/asked"
    }
    library=$'#!lua name=l\nredis.register_function("f", function(k, a) return redis.call(a[1], a[2], a[3]) end)
redis.register_function{function_name="r", callback=function(k, a) return redis.call("get", a[1]) end, flags={"no-writes"}}'
    for port in "$plain" "$redis"; do
        root=(-p "$port" -a secret --no-auth-warning)
        says l "${root[@]}" FUNCTION LOAD REPLACE "$library"
        says OK "${root[@]}" ACL SETUSER keys on '>pw' '~a*' '%R~r*' '%W~w*' '+@all' -set -config '+config|get' -echo
        says OK "${root[@]}" ACL SETUSER reads on '>pw' '~*' +@read +eval +fcall +evalsha
        says OK "${root[@]}" ACL SETUSER runs on '>pw' '~*' +eval +fcall +eval_ro +fcall_ro
        says OK "${root[@]}" ACL SETUSER two on '>pw' '~a*' +@scripting '+get' '(~b* +set)' '(%R~c* +get +copy)'
        says OK "${root[@]}" ACL SETUSER none on '>pw' '~a*' +get
        redis-cli "${root[@]}" FLUSHALL >/dev/null
        says OK "${root[@]}" MSET a 1 b 2 c 3 r 4 w 5
    done
    for user in keys reads runs two none; do
        for call in "'set','a','1'" "'get','a'" "'get','b'" "'get','w'" "'get','r'" "'del','r'" "'append','w','x'" "'set','b','1'" \
            "'mset','a','1','b','2'" "'mset','b','1','bb','2'" "'copy','a','w','replace'" "'copy','r','a'" "'set','w','1','get'" "'echo','x'" "'ping'" \
            "'exists','b'" "'strlen','b'" "'type','zz'" "'dbsize'" "'config','get','x'" "'acl','whoami'" "'blpop','b',0" "'nope'" "'set'" \
            "'zunionstore','a','1','b'" "'eval','return 1',0" "'object','encoding','b'" "'sort','a'" "'incr','a'" "'flushall','nope'"; do
            case $call in *sort*) continue ;; esac # there is no SORT here
            for way in "return redis.call($call)" "return redis.pcall($call)" "local r = redis.pcall($call) return type(r) == 'table' and r.err or 'x'" \
                "local ok, r = pcall(redis.call, $call) return {tostring(ok), type(r)}"; do
                same EVAL "$way" 0
            done
            same EVAL_RO "return redis.call($call)" 0
            case $call in *config* | *acl* | "'sort"*) continue ;; esac
            same EVAL "return redis.acl_check_cmd($call) and 1 or 0" 0
        done
        same EVAL "redis.call('incr','a') return redis.call('get','b')" 0
        same GET a
        same EVAL "return redis.acl_check_cmd('config','nope')" 0
        same EVAL "return redis.acl_check_cmd('nope')" 0
        same EVAL "return redis.acl_check_cmd()" 0
        same EVAL "return redis.acl_check_cmd({})" 0
        same EVAL "return {KEYS[1]}" 1 a
        same EVAL "return {KEYS[1]}" 1 b
        same EVAL "return {KEYS[1]}" 1 r
        same EVAL_RO "return {KEYS[1]}" 1 r
        same FCALL f 0 get a
        same FCALL f 0 get b
        same FCALL f 0 set a 1
        same FCALL f 1 b get a
        same FCALL_RO r 0 b
        same FCALL r 0 r
        ask
    done
    echo "$compared calls compared with Redis"
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
