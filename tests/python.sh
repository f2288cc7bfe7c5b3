#!/usr/bin/env bash
# The Python package: its wheel is built and installed, checked by mypy, and tested on real processes. BINARY: the highwater command.
set -euo pipefail
[ $# -eq 1 ] && [ -x "$1" ] || { echo "usage: tests/python.sh BINARY (the highwater command, built)" >&2; exit 2; }
HIGHWATER=$(realpath "$1")
export HIGHWATER PYTHONDONTWRITEBYTECODE=1
root=$(realpath "$(dirname "$0")/..")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp -r "$root/clients/python" "$folder/package"
cd "$folder/package"
python3 -m venv "$folder/venv"
python="$folder/venv/bin/python"
"$python" -m pip install --quiet --disable-pip-version-check build==1.6.1 hatchling==1.33.0 mypy==2.4.1 pytest==9.2.0 redis==8.1.0 ||
    { echo "the Python packages cannot be fetched, so the Python client was not tested" >&2; exit 3; }
# The package's own tools are there already: nothing is fetched twice.
"$python" -m build --wheel --no-isolation --outdir "$folder/dist" . >/dev/null
"$python" -m pip install --quiet --disable-pip-version-check --no-deps "$folder"/dist/*.whl
"$folder/venv/bin/mypy"
# The tests are of what is installed.
rm -r src
"$python" -m pytest -q -p no:cacheprovider
