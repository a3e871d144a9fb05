"""Runs `kb evolve` on the five published tasks on an H200 and prints a table.

    python benchmarks/gpu.py                    # all five, one after the other
    python benchmarks/gpu.py softmax --minutes 2
    python benchmarks/gpu.py --again FOLDER     # the table of runs whose reports lie in FOLDER

Needs the device. Every speed-up is the median over blocks of interleaved batches in one session, with a
distribution-free interval; float32 throughout, TF32 off for everybody (precision: strict). Beside it
stand the times that were published for the same tasks' hand-made kernels, measured on an H200 before.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from search.runs.report import baseline_seconds

ROOT = Path(__file__).resolve().parent.parent
# Milliseconds of Stanford CRFM's kernels (2025), built for sm_90 and measured on an H200.
PUBLISHED = {
    "conv2d": 0.799, "conv_block": 0.962, "layernorm": 1.066, "matmul": 3.683, "softmax": 1.164,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=list(PUBLISHED), metavar="TASK")
    parser.add_argument("--minutes", type=float, default=3.0, help="of search for each (default 3)")
    parser.add_argument("--reports", type=Path, help="keep each run's report here as TASK.json")
    parser.add_argument("--again", type=Path, metavar="FOLDER", help="read reports, run nothing")
    options = parser.parse_args()
    folder = options.again or options.reports or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    print("| task | eager | torch.compile | published | best | over eager | over torch.compile "
          "| roofline | own | idea |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    for name in options.names:
        report = folder / f"{name}.json"
        if options.again is None:
            run(name, options.minutes, report)
        print(row(name, json.loads(report.read_text())), flush=True)


def run(name: str, minutes: float, report: Path) -> None:
    command = [sys.executable, "-m", "kb.cli", "evolve", f"examples/h200/{name}.yaml",
               "--minutes", str(minutes), "--json"]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name}: kb evolve ended with {done.returncode}")
    report.write_text(done.stdout)


def row(name: str, report: dict) -> str:
    best, base = report["best"], baseline_seconds(report)
    cells = [name, ms(base["eager"]), ms(base.get("compile")), f"{PUBLISHED[name]:.3f} ms"]
    if best is None:
        return "| " + " | ".join([*cells, "none passed", "", "", "", "", ""]) + " |"
    ratios = [best["speedup"].get(key) for key in ("eager", "compile")]
    shown = [f"{r['ratio']:.2f}x ({r['low']:.2f} to {r['high']:.2f})" if r else "" for r in ratios]
    drift = " (clock drifted)" if best["profile"].get("drifted") else ""
    shares = [f"{best['profile'].get('roofline', 0):.0%}", f"{best['own_share'] or 0:.0%}"]
    return (
        "| "
        + " | ".join([*cells, ms(best["seconds"]) + drift, *shown, *shares, best["idea"]])
        + " |"
    )


def ms(seconds: float | None) -> str:
    return "did not run" if seconds is None else f"{seconds * 1e3:.3f} ms"


if __name__ == "__main__":
    main()
