"""A wheelhouse without a network: the index is a folder with what this environment was made of."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

import pytest
from office import RIGHT, WRONG, Office

from kb.errors import ConfigError, StoreError, ToolchainError
from kb.wheelhouse import build as wheelhouse
from kb.wheelhouse.build import Contents, build, check, check_extras, choose_place
from kb.wheelhouse.wheels import Wheel, pack_installed, stub_wheel

pytestmark = pytest.mark.timed

# What torch needs in order to judge, besides itself.
WITH_TORCH = [
    "torch",
    "functorch",
    "torchgen",
    "sympy",
    "mpmath",
    "networkx",
    "jinja2",
    "markupsafe",
    "filelock",
    "fsspec",
    "setuptools",
    "pkg_resources",
    "_distutils_hack",
    "typing_extensions.py",
]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("index")
    pack_installed(metadata.distribution("numpy"), folder)
    return folder


@pytest.fixture
def offline(index, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return index


@pytest.fixture(scope="module")
def house(index, tmp_path_factory):
    """A judge-only wheelhouse for this Python, built once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(index))
        folder = tmp_path_factory.mktemp("house")
        build(folder, Contents(place=choose_place(None, None), judge_only=True), lambda _: None)
    return folder


@pytest.fixture
def copied(house, tmp_path):
    return Path(shutil.copytree(house, tmp_path / "copied"))


@pytest.mark.slow
def test_it_holds_kb_and_what_judging_needs_with_their_hashes(house):
    manifest = check(house)
    stems = [file["name"].split("-")[0] for file in manifest["files"]]
    assert stems == ["kernel_kb", "numpy"]
    assert manifest["bytes"] == sum(path.stat().st_size for path in (house / "wheels").iterdir())
    done = subprocess.run(
        ["sha256sum", "-c", "SHA256SUMS"], cwd=house, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stdout.count(": OK") == 5


@pytest.mark.slow
def test_what_is_there_is_not_fetched_again_and_what_is_spoilt_is(copied, offline):
    contents = Contents(place=choose_place(None, None), judge_only=True)
    (numpy,) = (copied / "wheels").glob("numpy-*.whl")
    before = numpy.stat().st_mtime_ns
    said: list[str] = []
    build(copied, contents, said.append)
    assert numpy.stat().st_mtime_ns == before
    assert "1 of 1 wheels are there already" in said
    numpy.write_bytes(numpy.read_bytes()[:5000])
    (copied / "wheels" / "old-1-py3-none-any.whl").write_bytes(b"")
    with pytest.raises(StoreError, match="differs from its hash"):
        check(copied)
    said.clear()
    build(copied, contents, said.append)
    check(copied)
    assert "removed, no longer needed: old-1-py3-none-any.whl" in said


def test_a_file_that_is_missing_is_said(copied):
    next((copied / "wheels").glob("numpy-*.whl")).unlink()
    with pytest.raises(StoreError, match="is missing"):
        check(copied)
    done = subprocess.run(["sh", "install.sh"], cwd=copied, capture_output=True, text=True)
    assert done.returncode == 2
    assert "copy this folder again" in done.stderr


@pytest.mark.slow
def test_the_other_python_is_asked_for_not_this_one(tmp_path, offline):
    """There is no numpy for Python 3.99 in the index: pip says so, and kb says it in one line."""
    with pytest.raises(ToolchainError, match=r"pip cannot get the wheels: .*numpy") as caught:
        build(
            tmp_path,
            Contents(place=choose_place("3.99", None), judge_only=True),
            lambda _: None,
        )
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_part_that_pip_overlooks_is_asked_for(tmp_path, index, monkeypatch):
    """pip takes markers for the Python that runs it; kb follows them for the other one."""
    local = Path(shutil.copytree(index, tmp_path / "local"))
    stub_wheel(local, "late", "1.0")
    real = wheelhouse.read_wheel

    def read(path):
        found = real(path)
        if found.name != "numpy":
            return found
        from dataclasses import replace

        return replace(
            found, requires=("late; python_version >= '3.0'", "never; python_version < '3'")
        )

    monkeypatch.setattr(wheelhouse, "read_wheel", read)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(local))
    said: list[str] = []
    contents = Contents(place=choose_place(None, None), judge_only=True)
    manifest = build(tmp_path / "house", contents, said.append)
    assert "also needed there: late" in said
    assert "late-1.0-py3-none-any.whl" in [file["name"] for file in manifest["files"]]


def test_what_cannot_be_asked_for_is_said_in_one_line():
    for python, tag in (("2.7", None), ("3.9", None), ("three", None), (None, "win_amd64")):
        with pytest.raises(ConfigError):
            choose_place(python, tag)
    own = Wheel(
        path=Path("kb.whl"), name="kernel-kb", version="1", requires=(), extras=("dev", "more")
    )
    with pytest.raises(ConfigError, match="unknown part 'mor' for --with: known are more"):
        check_extras(own, ["mor"])
    check_extras(own, ["more"])


def test_torch_is_left_out_of_a_whole_wheelhouse_with_all_that_it_brings():
    contents = Contents(place=choose_place("3.12", None))
    own = Wheel(
        path=Path("kernel_kb.whl"),
        name="kernel-kb",
        version="1",
        requires=("torch>=2.11", "numpy>=1.26", "rich", "triton>=3.6; extra == 'triton'"),
    )
    roots = [requirement.name for requirement in wheelhouse._roots(own, contents)]
    assert roots == ["numpy", "rich", "setuptools"]


@pytest.mark.slow
def test_an_environment_with_torch_alone_installs_it_offline_and_judges(house, tmp_path):
    """Nothing of kb's other needs is in sight: a fresh environment, torch, and the wheelhouse."""
    venv, libraries = tmp_path / "venv", tmp_path / "libraries"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    libraries.mkdir()
    site = Path(sysconfig.get_path("purelib"))
    heads = [path.name for path in site.glob("torch-*.dist-info")]
    for name in (*WITH_TORCH, *heads):
        if (site / name).exists():
            (libraries / name).symlink_to(site / name)
    inside = next((venv / "lib").glob("python*")) / "site-packages"
    (inside / "libraries.pth").write_text(f"{libraries}\n")
    env = {"PATH": os.defpath, "HOME": str(tmp_path), "KB_HOME": str(tmp_path / "home")}
    env["PYTHON"] = str(venv / "bin" / "python")
    done = subprocess.run(
        ["sh", str(house / "install.sh")], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    kb = str(venv / "bin" / "kb")
    office = Office(tmp_path)
    judge = subprocess.Popen(
        [kb, "judge", str(office.spool), "--json", "--device", "cpu"],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    office.running.append(judge)
    try:
        spool = office.evaluator()
        assert spool.judge(RIGHT).kind == "passed"
        assert spool.judge(WRONG).kind == "wrong"
        judge.send_signal(signal.SIGTERM)
        output, complaint = judge.communicate(timeout=60)
    finally:
        office.close()
    assert "Traceback" not in complaint, complaint
    assert json.loads(output.splitlines()[-1])["judged"] == 3
    other = subprocess.run([kb, "runs"], env=env, capture_output=True, text=True)
    assert other.returncode == 2
    assert "which every command but `kb judge` needs" in other.stderr
