from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from search.sandbox import landlock

CODE = (
    "import json, sys; told = json.loads(sys.argv[1]); sys.path[:] = told['path']\n"
    "from search.profilers.profiler_sandbox import enclose; enclose(told)"
)


def walls_stand() -> bool:
    try:
        return landlock.version() > 0
    except OSError:
        return False


@pytest.mark.skipif(not walls_stand(), reason="needs a kernel with Landlock")
def test_a_command_behind_the_walls_writes_to_its_folder_alone(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "secret").write_text("secret")
    script = (
        f"echo kept > {inner}/kept; cat {tmp_path}/secret; echo lost > {tmp_path}/lost; "
        "cat /proc/self/comm; echo HOME is $HOME; echo key is $KB_API_KEY"
    )
    told = {
        "path": sys.path,
        "command": ["/bin/sh", "-c", script],
        "folder": str(inner),
        "readable": [],
        "seconds": 5,
    }
    done = subprocess.run(
        [sys.executable, "-I", "-c", CODE, json.dumps(told)],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "KB_API_KEY": "secret"},
    )
    assert (inner / "kept").read_text() == "kept\n"
    assert not (tmp_path / "lost").exists()
    assert "secret" not in done.stdout
    assert f"HOME is {inner}" in done.stdout
    assert done.stderr.count("Permission denied") == 2


@pytest.mark.skipif(not walls_stand(), reason="needs a kernel with Landlock")
def test_there_is_no_network_behind_the_walls(tmp_path: Path) -> None:
    told = {
        "path": sys.path,
        "command": ["/bin/sh", "-c", "cat /proc/net/dev"],
        "folder": str(tmp_path),
        "readable": [],
        "seconds": 5,
    }
    done = subprocess.run(
        [sys.executable, "-I", "-c", CODE, json.dumps(told)],
        capture_output=True,
        text=True,
        check=False,
    )
    devices = [line.split(":")[0].strip() for line in done.stdout.splitlines()[2:]]
    assert devices == ["lo"]
