"""Tables 1–3 and 5–10, and figure 7: the methods side by side on the paper's three problems.

Several tables show the same trainings. These are kept, method by method, and are not repeated while their settings
stay the same.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np

from hardpde.evaluation.errors import checked_reference, measure_baselines
from hardpde.evaluation.report.comparison_tables import in_short
from hardpde.evaluation.statistics import UNDEFINED, statistic, statistic_text, summarise
from hardpde.methods import METHODS, known_options
from hardpde.problem.problem import Problem
from hardpde.problem.reference import Reference
from hardpde.problems import PROBLEMS
from hardpde.runs.records import read_record
from hardpde.studies.compare import compare, comparison_settings
from hardpde.studies.reproduction.base import Outcome, Work
from hardpde.studies.reproduction.figures.curves import loss_curves
from hardpde.studies.reproduction.published import PUBLISHED
from hardpde.support.files import write_json
from hardpde.support.progress import total_steps
from hardpde.support.provenance import provenance
from hardpde.support.tables import markdown_table

NAMES = {"PINN": "pinn", "PINN-LA": "pinn-la", "PINN-LA-2": "pinn-la2", "FBPINN": "fbpinn", "xPINN": "xpinn",
         "PFNN": "pfnn", "PFNN-2": "pfnn2", "HC": "hc"}
SEEDS, QUICK_SEEDS = 5, 1
STEPS = [5000, 3000]  # of Adam and of L-BFGS
QUICK = {"points": 96, "boundary": 64, "initial": 32, "layers": [8, 8], "main": [8, 8], "sub": [8], "width": 8,
         "depth": 2}
QUICK_STEPS = [4, 0]


class Study(NamedTuple):
    """Trainings that tables show: a problem, the problem and the steps of each stage of `exact` beside it, and the
    rows of a quick run, which stand for their kind."""

    problem: str
    beside: str
    exact_steps: list[int]
    quick: tuple[str, ...] = ("PINN", "HC", "exact")


PACK = Study("battery-pack", "battery-pack", [500, 10_000])
FLOW = Study("airfoil-printed", "airfoil", [300, 9000], ("HC", "exact"))
BALL = Study("heat-ball", "heat-ball", [300, 6000])


def _needs(name: str, quick: bool) -> tuple[Study, list[str], int, list[int]]:
    """What a table, or figure 7, shows: the study, the rows, the number of seeds and the steps."""
    if name == "fig7":
        study, rows, seeds, steps = PACK, FIGURE7, 1, FIGURE7_STEPS
    else:
        study, rows, seeds, steps = TABLES[name].study, [*PUBLISHED[name], "exact"], SEEDS, STEPS
    return (study, [row for row in rows if row in study.quick], QUICK_SEEDS, QUICK_STEPS) if quick else (
        study, rows, seeds, steps)


def table_trainings(name: str, quick: bool) -> dict[str, Callable[[Work], Any]]:
    """The trainings of an experiment of this file, which can be made in any order; none of another experiment."""
    if name != "fig7" and name not in TABLES:
        return {}
    study, rows, seeds, steps = _needs(name, quick)
    return {f"{study.problem} by {row}, {seeds} seed{'s' * (seeds > 1)}, {' + '.join(map(str, steps))} steps":
            partial(trainings, study=study, names=[row], seeds=seeds, steps=steps) for row in rows}


def trainings(work: Work, study: Study, names: Sequence[str], seeds: int, steps: list[int]) -> dict[str, dict]:
    """Records by the paper's names of methods, and of "exact"; see `compare`."""
    own = {name: NAMES[name] for name in names if name != "exact"}
    found = _train(work, study.problem, list(own.values()), "paper", seeds, steps) if own else {}
    records = {name: found[method] for name, method in own.items()}
    if "exact" in names:
        steps = QUICK_STEPS if work.quick else study.exact_steps
        records |= _train(work, study.beside, ["exact"], "best", seeds, steps)
    return records


def _train(work: Work, name: str, methods: list[str], preset: str, seeds: int, steps: list[int]) -> dict[str, dict]:
    """The records of these methods by their names; those that exist with the same settings are not trained again."""
    problem = stated(name, work.quick)
    options = small(methods) if work.quick else {}
    plans = comparison_settings(problem, methods, seeds, preset, "fair", options, steps)
    folder = work.folder / "runs" / f"{name}-{seeds}-{'-'.join(map(str, steps))}"
    done = {}
    for method, settings in plans.items():
        path = folder / f"{method}.json"
        if path.exists():
            record = read_record(path)
            if record["settings"] == {key: value for key, value in settings.items() if key != "seed"}:
                work.say(f"{name} by {method} is there already, of commit {record['provenance']['commit']}")
                done[method] = record
    about = provenance()

    def keep(record: dict, solutions: list) -> None:
        record["provenance"] = about
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / f"{record['method']}.json", record)
        work.say(f"{name} by {record['method']}: {in_short(record, gradients)}; {record['seconds']:.0f} s of training")
        if not work.quick:
            jax.clear_caches()  # compiled code of a method is of no use to the next, and there is a limit to it

    gradients = [gradient for gradient, _ in problem.schema.gradients]
    if set(done) == set(plans):
        return done
    records, refused = compare(problem, methods, seeds, preset, options=options, steps=steps, done=done, keep=keep,
                               residuals=False)
    if refused:
        raise ValueError("; ".join(f"{row['method']} does not apply to {name}: {row['why']}" for row in refused))
    return {record["method"]: record for record in records}


@cache
def stated(name: str, quick: bool = False) -> Problem:
    """A built-in problem, which takes seconds to state.

    For a quick look a ball has three dimensions, and a reference about a thousand nodes.
    """
    problem = PROBLEMS[name](**({"dim": 3} if quick and name == "heat-ball" else {}))
    if quick and problem.reference is not None:
        return problem.with_reference(thinned(checked_reference(problem)))
    return problem


def thinned(reference: Reference | None, nodes: int = 1000) -> Reference:
    """About so many of the nodes, without the cells."""
    assert reference is not None
    every = max(1, len(reference.x) // nodes)
    axis = 0 if reference.times is None else 1
    values = {name: np.take(v, np.arange(0, len(reference.x), every), axis) for name, v in reference.values.items()}
    return replace(reference, x=reference.x[::every], values=values, cells=None, weighted=False,
                   masks={name: mask[::every] for name, mask in reference.masks.items()})


def small(methods: Sequence[str]) -> dict[str, Any]:
    """Options for a look at whether it works."""
    known = {option for method in methods for option in known_options(METHODS[method])}
    return {option: value for option, value in QUICK.items() if option in known}


# ---------------------------------------------------------------- tables


Cell = Callable[[Mapping[str, Any]], Any]  # errors of a row, as `summarise` finds them → a statistic, or None


def _at(component: str, metric: str, time: float | None) -> Cell:
    def cell(errors: Mapping[str, Any]) -> Any:
        found = errors.get(component, {})
        if time is not None:
            found = next((row for row in found.get("by_time", []) if abs(row["time"] - time) < 1e-9), {})
        return found.get(metric)

    return cell


def _timed(component: str, *metrics: str) -> list[tuple[str, str, Cell]]:
    """(metric, column, cell) at t = 0, 0.5, 1 and on average."""
    return [(metric, "average" if time is None else f"t = {time:g}", _at(component, metric, time))
            for metric in metrics for time in (0.0, 0.5, 1.0, None)]


def _flow(*metrics: str) -> list[tuple[str, str, Cell]]:
    return [(metric, label, _at(component, metric, None)) for metric in metrics
            for component, label in (("u[0]", "u₁"), ("u[1]", "u₂"), ("p", "p"))]


class PaperTable(NamedTuple):
    """A table of the paper: what it is, the study it shows, its columns; of one run, or of several."""

    title: str
    study: Study
    columns: list[tuple[str, str, Cell]]
    several: bool


TABLES = {
    "table1": PaperTable("Table 1: battery pack, one run", PACK, _timed("T", "mae", "mape"), False),
    "table2": PaperTable("Table 2: airfoil, one run", FLOW, _flow("mae", "wmape"), False),
    "table3": PaperTable("Table 3: heat in a ten-dimensional ball, one run", BALL, _timed("u", "mae", "mape"), False),
    "table5": PaperTable("Table 5: battery pack, MAE of five runs", PACK, _timed("T", "mae"), True),
    "table6": PaperTable("Table 6: battery pack, MAPE of five runs", PACK, _timed("T", "mape"), True),
    "table7": PaperTable("Table 7: airfoil, MAE of five runs", FLOW, _flow("mae"), True),
    "table8": PaperTable("Table 8: airfoil, WMAPE of five runs", FLOW, _flow("wmape"), True),
    "table9": PaperTable("Table 9: heat in a ten-dimensional ball, MAE of five runs", BALL, _timed("u", "mae"), True),
    "table10": PaperTable("Table 10: heat in a ten-dimensional ball, MAPE of five runs", BALL, _timed("u", "mape"),
                          True),
}


def comparison(name: str) -> Callable[[Work], Outcome]:
    """The experiment of one of these tables."""

    def experiment(work: Work) -> Outcome:
        asked = TABLES[name]
        records = trainings(work, *_needs(name, work.quick))
        if not asked.several:
            records = {row: {**record, "runs": record["runs"][:1]} for row, record in records.items()}
        return table_outcome(name, records, _trivial(asked.study, work.quick))

    experiment.__doc__ = TABLES[name].title
    return experiment


def _trivial(study: Study, quick: bool) -> dict[str, dict]:
    """What predictions score that solve nothing: {name: errors}, as `summarise` gives them."""
    problem = stated(study.problem, quick)
    found = measure_baselines(problem, checked_reference(problem))
    rows = [{"method": name, "runs": [{"seed": 0, "errors": errors}]} for name, errors in found.items()]
    return {name: row["errors"] for name, row in summarise(rows).items()}


def table_outcome(name: str, records: Mapping[str, dict], trivial: Mapping[str, dict]) -> Outcome:
    """One table from records by the paper's names: the paper's values in brackets."""
    title, study, columns, several = TABLES[name]
    errors = {row: summarise([record])[record["method"]]["errors"] for row, record in records.items()}
    data: dict[str, Any] = {"columns": [f"{metric} {label}" for metric, label, _ in columns], "rows": {}}
    lines = []
    for row, found in {**errors, **trivial}.items():
        paper = PUBLISHED[name].get(row, [None] * len(columns))
        ours = [cell(found) for _, _, cell in columns]
        data["rows"][row] = {"ours": ours, "paper": paper, **_about(records.get(row))}
        lines.append([_row_name(row, study, trivial), *(
            _text(cell, metric) + (f" ({printed})" if printed else "")
            for cell, printed, (metric, _, _) in zip(ours, paper, columns))])
    head = ["", *(f"{metric.upper()} {label}" for metric, label, _ in columns)]
    if missing := [row for row in PUBLISHED[name] if row not in records]:
        lines += [[row, *(f"({printed})" for printed in PUBLISHED[name][row])] for row in missing]
    runs = len(next(iter(records.values()))["runs"])
    what = f"means of {runs} runs with 95 % intervals" if several else "one run, seed 0"
    text = [f"Ours, and the paper's value in brackets; {what}.", markdown_table(head, lines), _costs(records)]
    return Outcome(title, "\n\n".join(text), data)


def _row_name(row: str, study: Study, trivial: Mapping[str, Any]) -> str:
    if row in trivial:
        return f"*{row}*"
    return f"exact, on {study.beside}" if row == "exact" and study.beside != study.problem else row


def _text(cell: Any, metric: str) -> str:
    if cell is None or cell["mean"] is None:
        return UNDEFINED
    return statistic_text(cell, 100.0) + " %" if metric == "mape" else statistic_text(cell)


def _about(record: Mapping[str, Any] | None) -> dict[str, Any]:
    if record is None:
        return {}
    keys = ("settings", "parameters", "seconds", "seconds_first_step", "step_ms", "provenance")
    return {**{key: record[key] for key in keys}, "endings": [run["endings"] for run in record["runs"]],
            "boundary_violation": statistic([run["boundary_violation"] for run in record["runs"]])}


def _costs(records: Mapping[str, dict]) -> str:
    """What each method took, and how far its conditions are off."""
    rows = [[row, f"{record['parameters']:,}", f"{record['seconds']:.0f}",
             statistic_text(statistic([run["boundary_violation"] for run in record["runs"]]))]
            for row, record in records.items()]
    where = ", ".join(dict.fromkeys(record["provenance"]["device"] for record in records.values()))
    shared = any("--jobs" in record["provenance"]["command"] for record in records.values())
    return (f"All settings are in the JSON file. Seconds are those of all seeds trained at once, with compilation, on "
            f"{where}{', with trainings of other methods beside them' * shared}.\n\n"
            + markdown_table(["", "weights", "seconds", "largest violation of a condition"], rows))


# ---------------------------------------------------------------- figure 7


FIGURE7 = ["PINN", "PINN-LA", "PINN-LA-2", "HC"]
FIGURE7_STEPS = [5000, 15_000]


def figure7(work: Work) -> Outcome:
    """Figure 7: convergence on the battery pack."""
    records = trainings(work, *_needs("fig7", work.quick))
    curves = {name: _curve(record["runs"][0]["history"]) for name, record in records.items()}
    rows = []
    for name, curve in curves.items():
        stages = dict(zip(curve["stage"], curve["loss"]))  # the last loss of each
        rows.append([name, f"{curve['loss'][0]:.2g}", *(f"{stages[s]:.2g}" if s in stages else UNDEFINED
                                                        for s in ("adam", "lbfgs")),
                     str(curve["step"][-1]), f"{records[name]['seconds']:.0f}"])
    title = "Figure 7: convergence on the battery pack"
    text = ["The loss on held-out points, every term with weight 1. The paper has curves and no numbers.",
            markdown_table(["", "first", "after Adam", "at the end", "steps taken", "seconds"], rows)]
    data = {"curves": curves, "methods": {name: _about(record) for name, record in records.items()}}
    return Outcome(title, "\n\n".join(text), data, {"": loss_curves(curves, "HC")})


def _curve(history: list[dict]) -> dict[str, list]:
    """Steps of all stages together, the loss of held-out points, and the stage."""
    columns = {key: [row[key] for row in history] for key in ("step", "stage", "seconds")}
    return {"step": total_steps(columns)[0].tolist(), "loss": [row["held_out"] for row in history],
            "stage": columns["stage"]}
