from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from kb.cli.web import browse_hint

KEPT = Path(__file__).parents[3] / "examples" / "runs" / "causal-attention-1.run.gz"


@pytest.fixture
def kept(bare_shell):
    assert bare_shell("import", KEPT).returncode == 0
    return bare_shell


@pytest.fixture
def serving(kept):
    """Start `kb serve` with options; give its address and what else it said."""
    started = []

    def start(*options: object) -> tuple[str, subprocess.Popen[str]]:
        process = kept.start("serve", "--port", "0", *options)
        started.append(process)
        line = process.stderr.readline()
        found = re.search(r"http://[^/\s]+:(\d+)/", line)
        assert found, line + process.stderr.read()
        return f"http://127.0.0.1:{found.group(1)}", process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def get(url: str, **headers: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=20
        ) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.slow
def test_serve_shows_the_runs_of_the_home_until_it_is_interrupted(serving):
    base, process = serving()
    status, page = get(f"{base}/")
    assert status == 200
    assert "causal-attention-1" in page
    assert get(f"{base}/", Host="evil.example")[0] == 421
    process.send_signal(signal.SIGINT)
    assert process.wait(20) in (0, 130)


@pytest.mark.slow
def test_serve_on_another_address_asks_for_the_token_that_it_prints(serving):
    base, process = serving("--host", "0.0.0.0")
    token = process.stderr.readline().split()[-1]
    assert len(token) > 20
    assert get(f"{base}/index.json")[0] == 401
    assert get(f"{base}/index.json", Authorization=f"Bearer {token}")[0] == 200


@pytest.mark.slow
def test_serve_without_a_token_says_what_that_risks(serving):
    base, process = serving("--host", "0.0.0.0", "--without-token")
    assert "whoever reaches this address" in process.stderr.readline()
    assert get(f"{base}/index.json")[0] == 200


@pytest.mark.slow
def test_site_writes_pages_as_files(kept, tmp_path):
    done = kept("site", tmp_path / "out", "causal-attention-1", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["pages"] == len(list((tmp_path / "out").rglob("*.html")))
    done = kept("site", tmp_path / "out", "nobody")
    assert done.returncode == 2
    assert "no run 'nobody'" in done.stderr


@pytest.mark.slow
def test_serve_without_its_packages_says_what_to_install(kept, tmp_path):
    (tmp_path / "uvicorn.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'uvicorn'\", name='uvicorn')"
    )
    kept.env["PYTHONPATH"] = f"{tmp_path}:{kept.env.get('PYTHONPATH', '')}"
    done = subprocess.run(
        [sys.executable, "-m", "kb.cli", "serve"],
        env=kept.env,
        cwd=kept.folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "kernel-kb[web]" in done.stderr


@pytest.mark.slow
def test_a_run_is_named_with_the_address_that_shows_it():
    assert browse_hint("conv2d-1").endswith("http://127.0.0.1:8321/runs/conv2d-1")
