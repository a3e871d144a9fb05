from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timed]

ROOT = Path(__file__).parents[1]
SMALL = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * torch.sigmoid(x) + 1


def get_inputs():
    return [torch.randn(64, 333)]
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "-o",
        str(folder),
        str(ROOT),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_carries_the_documents_and_the_templates(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    web = (
        "kb/web/templates/base.html.j2",
        "kb/web/static/kb.css",
        "kb/web/static/htmx-4.0.1.LICENSE.txt",
    )
    shipped = (
        "hardware_docs/targets/",
        "hardware_docs/recipes/prelude.hpp",
        "kb/programs/h200_gated_product/program.py",
        "synth/templates/",
        *web,
    )
    for part in shipped:
        assert any(name.startswith(part) for name in names), part
    documents = list((ROOT / "hardware_docs").rglob("*.md"))
    assert len([name for name in names if name.endswith(".md")]) >= len(documents)
    assert not any(name.startswith(("tests/", "examples/")) for name in names)


@pytest.mark.slow
def test_an_installed_wheel_finds_a_faster_kernel_outside_the_checkout(wheel, tmp_path):
    """In an environment of its own: the libraries are shared, the checkout is not in sight."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    site = next((venv / "lib").glob("python*")) / "site-packages"
    # A path in a .pth file is not searched for further .pth files, so the editable install is out.
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--target",
        str(site),
        str(wheel),
    ]
    subprocess.run(pip, check=True, env={**os.environ, "PIP_NO_INDEX": "1"})
    (tmp_path / "small.py").write_text(SMALL)
    (tmp_path / "small.yaml").write_text(
        "{reference: small.py, final_seconds: 0.3, timing_seconds: 0.2, compiler: false}"
    )
    hidden = ("KB_", "PYTHONPATH")  # the checkout may be there
    env = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    env |= {"KB_HOME": str(tmp_path / "home")}
    python = str(venv / "bin" / "python")
    where = subprocess.run(
        [python, "-c", "import kb, search; print(kb.__file__, search.__file__)"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=env,
    )
    assert str(ROOT) not in where.stdout
    code = "from kb.cli import main; main()"
    done = subprocess.run(
        [python, "-c", code, "evolve", "small.yaml", "--json", "--candidates", "1"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=env,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["author"] == "recipes"
    assert report["best"]["speedup"]["eager"]["ratio"] > 0
    shutil.rmtree(venv)
