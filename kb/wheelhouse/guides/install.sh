#!/bin/sh
# Installs kb from this folder, with no network. Usage: ./install.sh [FOLDER-OF-A-NEW-ENVIRONMENT]
# PYTHON names the Python to use (default python3); it must be @PYTHON@.
set -euf
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
fail() { echo "install: $1" >&2; exit 2; }

(cd "$here" && sha256sum --quiet -c SHA256SUMS) || fail "a file differs from SHA256SUMS: copy this folder again"
found=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || fail "$python does not run: set PYTHON"
[ "$found" = "@PYTHON@" ] || fail "expected Python @PYTHON@, $python is $found: set PYTHON, or build this folder with --python $found"
if [ $# -gt 0 ]; then
    # The system's packages stay in sight, so that a torch that is there already is used.
    [ -x "$1/bin/python" ] || "$python" -m venv --system-site-packages "$1" || fail "cannot make an environment in $1: install python3-venv"
    python=$1/bin/python
fi
if [ -n "@TORCH@" ]; then
    "$python" -c 'import torch' 2>/dev/null || fail "$python cannot import torch, and this folder does not bring it: use the Python that has it, or build with --with-torch"
fi
first="@FIRST@"
quiet="--quiet --disable-pip-version-check --no-index --find-links"
# A package that the machine has stays as it is; only what is missing is taken from here.
for one in $first; do
    name=${one%%==*}
    "$python" -c 'import sys; from importlib.metadata import version; version(sys.argv[1])' "$name" 2>/dev/null ||
        "$python" -m pip install $quiet "$here/wheels" --no-deps "$one"
done
"$python" -m pip install $quiet "$here/wheels" @KB@
echo "installed; try: $(dirname "$("$python" -c 'import sys; print(sys.executable)')")/@TRY@"
