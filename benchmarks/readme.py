"""Collect figures that commands wrote into results/, and write the tables of the README and of docs/ from them: what
lies between <!-- NAME --> and <!-- /NAME -->.

    python benchmarks/readme.py                                        the tables
    python benchmarks/readme.py RUN/metrics.json results/NAME.json     a run's figures, then the tables
    python benchmarks/readme.py RUN/comparison.json results/compare-NAME.json     a comparison's, then the tables
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

from common import RESULTS, ROOT
from others import table as others_table

from hardpde.evaluation.statistics import UNDEFINED, statistic_text, summarise
from hardpde.studies.reproduction.comparisons import NAMES, SEEDS, STEPS, TABLES, Study
from hardpde.studies.reproduction.published import PUBLISHED
from hardpde.studies.reproduction.reproduce import EXPERIMENTS
from hardpde.support.provenance import plain_command
from hardpde.support.tables import markdown_table

PAPER = {  # Liu et al. 2022, tables 1 to 3, method HC
    "battery-pack": "2.21e-02",
    "airfoil-printed": "2.69e-01 / 4.35e-02 / 2.03e-01",
    "heat-ball": "2.6e-03",
}

HEADLINES = {  # problem: what it is, and whose figure of the paper stands beside it
    "battery-pack": ("heat conduction around 11 cells and 6 pipes, 18 Robin boundaries", "battery-pack"),
    "airfoil": ("Navier–Stokes flow around an airfoil, u₁ / u₂ / p", "airfoil-printed"),
    "heat-ball": ("heat in a ball of ten dimensions", "heat-ball"),
}


def block(head: list[str], rows: list[list[str]]) -> str:
    """A table with lines of its own between two markers."""
    return f"\n{markdown_table(head, rows)}\n"


def headline() -> str:
    """The built-in problems at a glance: the errors of both presets, and what random networks violate."""
    found = {name: [json.loads((RESULTS / file).read_text()) for file in _headline_files(name)] for name in HEADLINES}
    quick, best = (run["device"] for run in found["battery-pack"])
    violations = {row["problem"]: row["exact"] for row in json.loads((RESULTS / "checks.json").read_text())["checks"]}
    rows = []
    for name, (what, printed) in HEADLINES.items():
        cells = [f"[{_error(run)}](results/{file}) in {run['seconds']:.0f} s"
                 for run, file in zip(found[name], _headline_files(name))]
        rows.append([f"`{name}`: {what}", PAPER[printed], *cells, f"{violations[name]:.1e}"])
    return block(["mean absolute error, seconds of training", "the paper", f"`quick`, {quick}", f"`best`, {best}",
                  "violation, untrained"], rows)


def _headline_files(name: str) -> tuple[str, str]:
    return f"{name}-exact-quick-cpu.json", f"{name}-exact-best-h200.json"


def demo() -> str:
    """The seconds of training of `make demo`."""
    return f"{json.loads((RESULTS / 'battery-pack-exact-quick-cpu.json').read_text())['seconds']:.0f} s"


def runs() -> str:
    rows = []
    found = [(path, json.loads(path.read_text())) for path in sorted(RESULTS.glob("*-*-*.json"))]
    for name in ("battery-pack", "airfoil", "airfoil-printed", "heat-ball", "poisson", "schroedinger"):
        for path, run in found:
            if run.get("problem") == name and "errors" in run:
                rows.append([f"`{run['command']}`", _link(path, _error(run)), f"{run['seconds']:.0f} s", run["device"]])
        if name in PAPER:
            rows.append([f"{name}: the paper's own figure", PAPER[name], "", ""])
    return block(["", "error (MAE)", "training", "machine"], rows)


def _error(run: dict) -> str:
    """The mean absolute error of the first field; of a flow, of both velocities and of the pressure."""
    errors = run["errors"]
    if "p" not in errors:
        return f"{run['mae']:.2e}"
    pressure = errors["p"].get("parts", {}).get("r > 0.005", errors["p"])
    return " / ".join(f"{part['mae']:.2e}" for part in (errors["u[0]"], errors["u[1]"], pressure))


def constant() -> str:
    """What the constant flow scores on the airfoil's nodes, as a run of the airfoil measured it."""
    for path in sorted(RESULTS.glob("airfoil-*-*.json")):
        found = json.loads(path.read_text()).get("baselines", {}).get("constant flow")
        if found:
            pressure = found["p"]["parts"]["r > 0.005"]
            return " / ".join(f"{part['mae']:.3f}" for part in (found["u[0]"], found["u[1]"], pressure))
    return "(not measured)"


def undetermined() -> str:
    """By how much two flows that both satisfy the printed problem of the airfoil differ in u₁, on average."""
    found = json.loads((RESULTS / "airfoil-underdetermined.json").read_text())["mae"]
    return f"{max(pair['u1'] for pair in found.values()):.2f}"


def checks() -> str:
    data = json.loads((RESULTS / "checks.json").read_text())
    return block(["", "`exact`", "`hc`"], [
        [row["problem"], f"{row['exact']:.1e}", "–" if row["hc"] is None else f"{row['hc']:.1e}"]
        for row in data["checks"]])


def comparisons() -> str:
    """One row for each method of each comparison: the error of the first component, over the seeds."""
    rows = []
    for path in sorted(RESULTS.glob("compare-*.json")):
        data = json.loads(path.read_text())
        where = {record["method"]: record["provenance"]["device"] for record in data["records"]}
        for method, found in data["summary"].items():
            component = next(iter(found["errors"]))
            error = _link(path, statistic_text(found["errors"][component]["mae"]))
            rows.append([data["problem"], f"`{method}`", error, statistic_text(found["boundary_violation"]),
                         f"{found['parameters']:,}", f"{found['seconds']:.0f} s", where[method]])
    return block(["problem", "method", "error (MAE)", "largest violation", "weights", "training, all seeds", "machine"],
                 rows)


def steps() -> str:
    """One measurement of each method on each machine: `hardpde bench` goes before benchmarks/step.py, and step-X.json
    before step-X-first.json."""
    rows, seen = [], set()
    for path in (*sorted(RESULTS.glob("bench-battery-pack-*.json")), *sorted(RESULTS.glob("step-*.json"),
                                                                             key=lambda path: path.stem)):
        data = json.loads(path.read_text())
        for step in data.get("steps", [data]):
            if (step["method"], data["device"]) in seen:
                continue
            seen.add((step["method"], data["device"]))
            rows.append([f"`{step['method']}`, {step['parameters']:,} weights, {step['dtype']}",
                         _link(path, f"{step['step_ms']:.3g} ms"), data["device"]])
    return block(["", "step", "machine"], rows)


def generality() -> str:
    """Examples solved with the defaults."""
    rows = []
    for path in sorted(RESULTS.glob("generality-*.json")):
        data = json.loads(path.read_text())
        for row in data["problems"]:
            rows.append([f"examples/{row['example']}.py", _link(path, f"{row['relative_l2']:.1e}"),
                         f"{row['seconds']:.0f} s", data["device"]])
    return block(["", "relative L2 error", "all in all", "machine"], rows)


def solved_directly() -> str:
    """What a direct solve reaches against what was asked for, and seconds with an empty cache and with a full one."""
    path = RESULTS / "direct-cpu.json"
    rows = []
    for row in json.loads(path.read_text())["problems"]:
        asked = row["asked"]
        wanted = f"{asked['error']:.0e}, {asked['cold_seconds']} / {asked['seconds']} s"
        if "failed" in row:
            rows.append([f"`{row['problem']}`", wanted, row["failed"], "", "", ""])
            continue
        error = "no reference" if row["relative_l2"] is None else f"{row['relative_l2']:.1e}"
        seconds = " / ".join(f"{row[key]:.0f}" for key in ("cold_seconds", "wall_seconds") if key in row)
        rows.append([f"`{row['problem']}`", wanted, error, f"{seconds} s", f"{row['solver']}, {row['unknowns']}",
                     f"{row['violation']:.0e}"])
    return block(["", "asked", "relative L2 error", "seconds", "solver, unknowns", "violation"], rows)


def bars() -> str:
    """Error bars over errors, of the first field and of the energy norm, at each accuracy."""
    found = json.loads((RESULTS / "error-bars.json").read_text())["rows"]
    rows = [[f"`{one['problem']}`, {one['unknowns']} unknowns", one["word"], *_effectivity(one),
             f"{one['seconds']['bar'] / one['seconds']['solve']:.0%}"] for one in found if "failed" not in one]
    return block(["", "bar", "error, first field", "bar / error", "the same, energy norm", "time, of the solve"], rows)


def _effectivity(found: dict) -> list[str]:
    """The error of the first field, the bar over it, and that of the energy."""
    first, energy = next(iter(found["bars"].values())), found["bars"].get("energy")
    return [f"{first['error']:.1e}", *("–" if one is None or one["effectivity"] is None else f"{one['effectivity']:.3g}"
                                       for one in (first, energy))]


def others() -> str:
    """hardpde beside other libraries."""
    return f"\n{others_table(json.loads((RESULTS / 'others-cpu.json').read_text())['rows'])}\n"


def fem() -> str:
    """The battery pack by finite elements, and by hardpde, from coarse to fine."""
    rows = []
    data = json.loads((RESULTS / "fem-battery-pack-cpu.json").read_text())
    for row in data["rows"]:
        what = f"finite elements of order {row['settings']['order']}, size {row['settings']['maxh']:g}"
        rows.append((row["mae"], what, f"{row['seconds']:.2g} s", "one core", "fem-battery-pack-cpu.json"))
    for name in ("battery-pack-exact-quick-cpu.json", "battery-pack-exact-best-h200.json"):
        run = json.loads((RESULTS / name).read_text())
        rows.append((run["mae"], f"`{run['command']}`", f"{run['seconds']:.0f} s", run["device"], name))
    return block(["", "error (MAE)", "seconds", "machine", "file"], [
        [what, f"{mae:.1e}", seconds, where, _link(RESULTS / name)]
        for mae, what, seconds, where, name in sorted(rows, reverse=True)])


def families() -> str:
    """Trained families against finite elements (benchmarks/family.py)."""
    rows = []
    for path in sorted(RESULTS.glob("family-*.json")):
        data = json.loads(path.read_text())
        pays = data["solves_after_which_it_pays"]
        after = [f"{pays[what]:.0f}" if pays[what] else "never" for what in ("100 places", "fields")]
        rival = data["rival"]
        elements = f"{rival['mae']:.1e} in {rival['seconds']:.2g} s" if rival else "none as accurate"
        where = data["training"]["provenance"]["device"]
        rows.append([f"{data['training']['settings']['preset']}, {data['training_seconds']:.0f} s on {where}",
                     f"{data['mae']:.1e} ({data['worst_mae']:.1e})", f"{1e3 * data['probe_seconds']:.2g} ms",
                     f"{1e3 * data['answer_seconds']:.3g} ms", elements, " / ".join(after), _link(path)])
    return block(["preset, training", "MAE, mean (worst)", "answer at 100 places", "at all nodes", "finite elements",
                  "pays after: 100 places / all nodes", "file"], rows)


def inverse() -> str:
    """What is found from noisy measurements (benchmarks/inverse.py)."""
    data = json.loads((RESULTS / "inverse-cpu.json").read_text())
    rows = [[f"{name} = {data['find_cooling']['true'][name]:g}", f"{100 * row['mean_off']:.2g} %",
             f"{100 * row['worst_off']:.2g} %", f"{100 * row['inside']:.0f} %"]
            for name, row in data["find_cooling"]["summary"].items()]
    errors = data["find_conductivity"]["relative_l2"]["a"]
    mean, worst = 100 * sum(errors) / len(errors), 100 * max(errors)
    rows.append(["conductivity (relative L2)", f"{mean:.2g} %", f"{worst:.2g} %", ""])
    return block(["", "off by, mean", "at worst", "95 % interval holds it"], rows) + (
        "\n[inverse-cpu.json](../results/inverse-cpu.json)\n")


# What docs/reproduction.md says of the rows of tables 5, 7 and 9, the means of five runs.
WHY = {  # of a row in all tables, or in one of them
    "PINN": "points stay for 1000 steps of L-BFGS, on which it overfits: the loss on held-out points rises in it; the "
            "rate follows the plateau rule of the text",
    "PINN-LA": "as PINN; weights stay while L-BFGS runs",
    "PINN-LA-2": "as PINN-LA",
    "FBPINN": "as PINN",
    "xPINN": "the interface terms bind every pair of blocks; in the released code only the last block",
    "PFNN": "u_t is taken for a given source, which is no variational principle; L-BFGS on points that stay drives "
            "such an energy without bound, so that the figure means nothing",
    "PFNN-2": "as PFNN",
    "HC": "they agree",
    "exact": "not in the paper",
    "constant flow": "solves nothing; not in the paper",
    ("table7", "PINN"): "the problem as printed has many solutions, of which one is found; the reference is here that "
                        "of the well-posed flow",
    ("table7", "PINN-LA"): "as PINN",
    ("table7", "PINN-LA-2"): "as PINN",
    ("table7", "xPINN"): "as PINN, and the interface terms bind every pair of blocks",
    ("table7", "HC"): "as PINN",
    ("table7", "exact"): "not in the paper; of the well-posed problem, p over all nodes, singular corners included",
    ("table9", "PINN"): "L-BFGS runs on points that stay, where the released code draws new ones at every step, which "
                        "breaks its line search",
    ("table9", "PINN-LA"): "as PINN",
    ("table9", "PINN-LA-2"): "as PINN",
    ("table9", "HC"): "3000 steps of L-BFGS; the loss on held-out points still falls at the end",
}


def reproduction() -> str:
    """Paper and ours, a line for each row of the tables of five runs, and for table 4 at its ends."""
    rows = []
    for name, what, metric in (("table5", "battery pack, MAE of T", "mae average"), ("table7", "airfoil, MAE", ""),
                               ("table9", "heat ball, MAE of u", "mae average")):
        found = _reproduced(name)
        for row in found.get("rows", {}) or (*PUBLISHED[name], "exact"):
            paper, ours = PUBLISHED[name].get(row, [UNDEFINED]), ["not run yet"]
            if found:
                ours = [statistic_text(cell) for cell in found["rows"][row]["ours"]]
                keep = [k for k, column in enumerate(found["columns"]) if metric in column]
                ours = [ours[k] for k in keep]
            elif (record := _trained(TABLES[name].study, row)) is not None:  # though others of the table are not
                errors = summarise([record])[record["method"]]["errors"]
                ours = [statistic_text(cell(errors)) for kind, label, cell in TABLES[name].columns
                        if metric in f"{kind} {label}"]
            paper = paper[-1:] if metric else paper
            rows.append([f"{name}: {what}, {row}", " / ".join(paper), " / ".join(ours),
                         WHY.get((name, row)) or WHY[row]])
    cells = {(cell["beta_s"], cell["beta_t"]): cell["mae"] for cell in _reproduced("table4").get("cells", [])}
    for (s, t), index in (((1, 1), 0), ((5, 1), 0), ((5, 10), 6), ((10, 10), 6)):
        ours = f"{cells[s, t]:.4f}" if cells else "not run yet"
        paper = PUBLISHED["table4"][f"β_s={s}"][index]
        rows.append([f"table4: battery pack, MAE of T, β_s = {s}, β_t = {t}", paper, ours,
                     "one run from another random start; 3000 steps of L-BFGS"])
    return block(["", "paper", "ours", "why they differ"], rows)


def costs() -> str:
    """What each experiment took, and where its pages are."""
    rows = []
    for name in EXPERIMENTS:
        found = _reproduced(name)
        if found:
            trainings = [*found.get("rows", {}).values(), *found.get("methods", {}).values(),
                         *(made for case in found.get("cases", []) for made in case["made"])]
            trained = [training["seconds"] for training in trainings if training.get("seconds")]
            rows.append([f"[{found['title']}](../results/reproduction/{name}.md)", f"{found['seconds']:.0f} s",
                         f"{sum(trained):.0f} s" if trained else "", found["provenance"]["device"]])
        else:
            rows.append([name, "not run yet", "", ""])
    return block(["", "seconds", "its trainings, added up", "machine"], rows)


def _trained(study: Study, row: str) -> dict | None:
    """The record of one method that was trained in full, if it was."""
    problem, steps = (study.beside, study.exact_steps) if row == "exact" else (study.problem, STEPS)
    folder = RESULTS / "reproduction" / "runs" / f"{problem}-{SEEDS}-{'-'.join(map(str, steps))}"
    path = folder / f"{NAMES.get(row, row)}.json"
    return json.loads(path.read_text()) if path.exists() else None


def _reproduced(name: str) -> dict:
    path = RESULTS / "reproduction" / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _link(path: Path, text: str | None = None) -> str:
    return f"[{text or path.name}](../results/{path.name})"


def collect(source: Path, target: Path) -> None:
    """Copy a run's metrics; the command is kept without the folder it wrote to."""
    run = json.loads(source.read_text())
    if "records" in run:
        target.write_text(json.dumps(run, indent=1) + "\n")
        return
    target.write_text(json.dumps({**run, "command": plain_command(run["command"])}, indent=1) + "\n")


PAGES: dict[str, dict[str, Callable[[], str]]] = {  # what is written between which markers
    "README.md": {"demo": demo, "headline": headline},
    "docs/results.md": {"results": runs, "constant": constant, "undetermined": undetermined, "generality": generality,
                        "direct": solved_directly, "bars": bars, "checks": checks, "steps": steps,
                        "comparisons": comparisons},
    "docs/others.md": {"others": others},
    "docs/limits.md": {"fem": fem},
    "docs/families.md": {"families": families, "inverse": inverse},
    "docs/reproduction.md": {"reproduction": reproduction, "costs": costs},
}


def written(page: str) -> str:
    """The text of a page with what the result files say between its markers."""
    text = (ROOT / page).read_text()
    for name, make in PAGES[page].items():
        made = make()
        text = re.sub(f"(<!-- {name} -->).*?(<!-- /{name} -->)", lambda at, made=made: at[1] + made + at[2], text,
                      flags=re.S)
    return text


def main() -> None:
    if len(sys.argv) == 3:
        collect(Path(sys.argv[1]), Path(sys.argv[2]))
    for page in PAGES:
        (ROOT / page).write_text(written(page))


if __name__ == "__main__":
    main()
