"""Measures every idea with a recipe on all NVIDIA GPUs of a machine, and packs what came of it.

    python benchmarks/measure_ideas.py OUT --minutes 8.3
    python benchmarks/measure_ideas.py OUT --minutes 8.3 --jobs 3    # processes a GPU

Needs the devices, torch and Triton; no network and no installation. Several processes share a GPU: one
prepares a task (most of that is torch.compile, on processors) while another times; no two time at
once. OUT gets ideas.tar.gz (the records that changed, to be unpacked in hardware_docs/ideas),
measured.json (all measurements) and measure.log. The same command over the same OUT goes on where it
was stopped.
"""

import argparse
import json
import os
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

KEPT_EVERY = 20.0  # seconds
ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=8.3, help="for all of it (default 8.3)")
    parser.add_argument("--jobs", type=int, default=3, help="processes for each GPU (default 3)")
    parser.add_argument("--shapes", type=int, default=5)
    parser.add_argument("ideas", nargs="*", help="without: all that fit the device")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    records = Path(os.environ.get("KB_HOME", "/tmp/kb-measure")) / "ideas"
    records.mkdir(parents=True, exist_ok=True)
    unpack(options.out, records)
    count = gpus()
    jobs = [start(options, records, job, count) for job in range(count * options.jobs)]
    reports = watch(jobs, options.out / "measure.log", lambda: pack(options.out, records))
    (options.out / "measured.json").write_text(json.dumps(reports, indent=1))
    pack(options.out, records)
    print(summary(reports))


def gpus() -> int:
    code = "import torch; print(torch.cuda.device_count())"
    found = int(subprocess.check_output([sys.executable, "-c", code], text=True))
    if not found:
        sys.exit("no NVIDIA device that torch can use")
    return found


def start(options, records: Path, job: int, count: int) -> subprocess.Popen:
    listed = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(count)))).split(",")
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": listed[job % count],
        "KB_HOME": str(records.parent),
        "PYTHONPATH": path,
        "PYTHONUNBUFFERED": "1",
    }
    command = [sys.executable, "-m", "kb.cli", "measure", *options.ideas,
               "--shapes", str(options.shapes), "--minutes", str(options.minutes),
               "--shard", f"{job + 1}/{count * options.jobs}",
               "--output", str(records), "--json"]  # fmt: skip
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )  # fmt: skip


def watch(jobs: list[subprocess.Popen], log: Path, keep) -> list[dict]:
    """Follow the processes to their ends; what they say goes to the log and here.

    `keep` is called now and then, so that little is lost where all of this is killed.
    """
    began, lock = time.monotonic(), threading.Lock()
    texts = ["" for _ in jobs]

    def follow(number: int, job: subprocess.Popen) -> None:
        for line in job.stderr:
            told = f"{time.monotonic() - began:6.1f} s  {number + 1}: {line.rstrip()}"
            with lock:
                print(told, flush=True)
                with log.open("a") as file:
                    file.write(f"{told}\n")

    def read(number: int, job: subprocess.Popen) -> None:
        texts[number] = job.stdout.read()

    threads = [
        threading.Thread(target=target, args=(number, job))
        for number, job in enumerate(jobs)
        for target in (follow, read)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(KEPT_EVERY)
            keep()
    return [json.loads(text) for text in texts if text.strip()]


def unpack(out: Path, records: Path) -> None:
    """Take up the records of a run before this one."""
    packed = out / "ideas.tar.gz"
    if packed.exists():
        with tarfile.open(packed) as file:
            file.extractall(records, filter="data")


def pack(out: Path, records: Path) -> None:
    part = out / "ideas.part"
    with tarfile.open(part, "w:gz") as file:
        for path in sorted(records.glob("*.md")):
            file.add(path, path.name)
    part.replace(out / "ideas.tar.gz")


def summary(reports: list[dict]) -> str:
    made = [one for report in reports for one in report["measurements"]]
    fates = {fate: sum(one["outcome"] == fate for one in made)
             for fate in ("won", "even", "lost", "failed")}  # fmt: skip
    told = ", ".join(f"{count} {fate}" for fate, count in fates.items())
    left = sum(report["left"] for report in reports)
    missed = [one for report in reports for one in report["not_measured"]]
    lines = [f"{len(made)} measurements ({told}), {left} left, {len(missed)} not measured"]
    lines += [f"not measured: {one['idea']}, {one['task']}: {one['reason']}" for one in missed]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
