#!/usr/bin/env bash
# Real Redis clients against three real replicas: each finds the leader in its own way, also when it is killed.
# Usage: tests/clients.sh path/to/highwater [--quick]
# --quick: redis-py and redis-benchmark only, about a minute; .ci/run does that. Else also ioredis, node-redis, go-redis and jedis, as far as node, go and mvn are at hand;
# what is missing is named at the end, and makes the exit code 3. Packages of pinned versions go to a temporary folder.
set -euo pipefail
highwater=$(realpath "${1:?usage: tests/clients.sh path/to/highwater [--quick]}")
quick=${2:-}
cd "$(dirname "$0")"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
command -v redis-benchmark >/dev/null || { echo "redis-benchmark is not at hand: install redis-tools"; exit 3; }
python3 -m venv "$folder/python"
"$folder/python/bin/pip" install --quiet --disable-pip-version-check redis==8.1.0 ||
    { echo "redis-py cannot be fetched, so no client was tested" >&2; exit 3; }
"$folder/python/bin/python" clients/run.py "$highwater" "$folder" $quick
