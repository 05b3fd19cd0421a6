"""Collect figures that commands wrote into results/, and write the README's tables from them.

    python benchmarks/readme.py                                        the tables
    python benchmarks/readme.py RUN/metrics.json results/NAME.json     a run's figures, then the tables
"""

import json
import re
import sys
from pathlib import Path

from hardpde.provenance import plain_command

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"


def runs() -> list[str]:
    rows = []
    for path in sorted(RESULTS.glob("battery-pack-*-*.json")):
        run = json.loads(path.read_text())
        cells = f"`{run['command']}`", f"{run['mae']:.2e}", f"{run['seconds']:.0f} s", run["device"], _link(path)
        rows.append(f"| {' | '.join(cells)} |")
    paper = "| the paper's own figure (Liu et al. 2022, table 1) | 2.21e-02 | | | |"
    return ["| | error (MAE) | training | machine | file |", "|---|---|---|---|---|", *rows, paper]


def checks() -> list[str]:
    rows = []
    for path in sorted(RESULTS.glob("check-*.json")):
        check = json.loads(path.read_text())
        rows.append(f"| `--method {check['method']}` | {check['max_violation']:.1e} | {_link(path)} |")
    return ["| | max of abs(A q − g) | file |", "|---|---|---|", *rows]


def steps() -> list[str]:
    rows = []
    for path in sorted(RESULTS.glob("step-*.json")):
        data = json.loads(path.read_text())
        for step in data["steps"]:
            rows.append(f"| `{step['method']}`, {step['parameters']:,} weights, {step['dtype']} | "
                        f"{step['step_ms']:.3g} ms | {data['device']} | {_link(path)} |")
    return ["| | step | machine | file |", "|---|---|---|---|", *rows]


def _link(path: Path) -> str:
    return f"[{path.name}](results/{path.name})"


def collect(source: Path, target: Path) -> None:
    """Copy a run's metrics; the command is kept without the folder it wrote to."""
    run = json.loads(source.read_text())
    target.write_text(json.dumps({**run, "command": plain_command(run["command"])}, indent=1) + "\n")


def main() -> None:
    if len(sys.argv) == 3:
        collect(Path(sys.argv[1]), Path(sys.argv[2]))
    readme = ROOT / "README.md"
    text = readme.read_text()
    for name, rows in (("results", runs()), ("checks", checks()), ("steps", steps())):
        block = f"<!-- {name} -->\n" + "\n".join(rows) + f"\n<!-- /{name} -->"
        text = re.sub(f"<!-- {name} -->.*?<!-- /{name} -->", lambda _, block=block: block, text, flags=re.S)
    readme.write_text(text)


if __name__ == "__main__":
    main()
