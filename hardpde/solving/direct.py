"""A problem solved directly: its solution, and in a sentence what was found."""

from collections.abc import Callable
from typing import Any

from hardpde.direct.solver import Direct, Grown, directly
from hardpde.formulation.formulation import Formulation
from hardpde.methods import METHODS, make
from hardpde.problem.problem import Problem
from hardpde.solving.solution import Solution
from hardpde.support.checking import is_positive
from hardpde.training import Training

SOLVERS = ("train", "direct")
MOST = 4000  # unknowns: a matrix of half a gigabyte
POINTS = 1024  # of a draw
_OPTIONS = ("points", "gradients", "sampling")  # of the method; the others are of a training, or found


def check_solver(solver: str, tolerance: Any, settings: dict[str, Any], **training: Any) -> None:
    """Whether the solver is one, and suits the settings; training: what only a training takes, None unless stated."""
    if solver not in SOLVERS:
        raise ValueError(f"there is no solver '{solver}'; it is {' or '.join(SOLVERS)}")
    if not is_positive(tolerance):
        raise ValueError(f"the tolerance is {tolerance!r}; it must be a positive number")
    if solver == "direct" and settings["method_name"] != "exact":
        raise ValueError(f"the solver 'direct' is for method exact, not for '{settings['method_name']}'")
    if solver == "direct" and (wrong := [name for name, value in training.items() if value not in (None, False)]):
        raise ValueError(f"a direct solve trains nothing, so '{wrong[0]}' has no meaning; leave it out")


def direct_settings(settings: dict[str, Any], stated: dict[str, Any], tolerance: float) -> dict[str, Any]:
    """The settings of a direct solve, of which the number of features is found; stated: options of the method."""
    if wrong := sorted(set(stated) - set(_OPTIONS)):
        raise ValueError(f"a direct solve has no option '{wrong[0]}'; its options are {', '.join(_OPTIONS)}")
    return {**settings, "method": {"depth": 1, "points": POINTS, **stated}, "stages": [], "solver": "direct",
            "tolerance": tolerance}


def run_directly(problem: Problem, settings: dict[str, Any],
                 report: Callable[[dict], None] = lambda record: None) -> Solution:
    """Solve by features whose last layer is found by least squares, as the settings of a direct solve say."""
    options = settings["method"]
    formulation = make(METHODS["exact"], problem, {**options, "width": 8})
    if formulation.penalties:
        raise ValueError("a direct solve has no rows for penalties (soft periodic conditions, measurements); leave the "
                         "solver to 'train'")
    history: list[dict[str, Any]] = []

    def tell(grown: Grown) -> None:
        history.append(_record(grown, formulation))
        report(history[-1])

    found = directly(formulation, settings["tolerance"], MOST, seed=settings["seed"], report=tell)
    best, model = found.best, found.model()
    options = {**options, "width": best.fitted.features.number}
    ending = {"stage": "direct", "steps": best.unknowns, "why": sentence(problem, found, settings["tolerance"])}
    history = [row for row in history if row["step"] <= best.unknowns]
    seconds = found.tried[-1].seconds
    return Solution(problem, make(METHODS["exact"], problem, options), {**settings, "method": options},
                    Training(model, history, [ending], seconds, history[0]["seconds"]))


def _record(grown: Grown, formulation: Formulation) -> dict[str, Any]:
    """A size that was solved as a row of the history: its unknowns stand for steps, its residuals for losses."""
    fitted, equations = grown.fitted, grown.rows / grown.points
    loss, held = (equations * (fitted.unit * part) ** 2 for part in (fitted.residual, fitted.held_out))
    return {"stage": "direct", "step": grown.unknowns, "steps": MOST, "loss": loss, "held_out": held,
            "seconds": grown.seconds}


def sentence(problem: Problem, found: Direct, tolerance: float) -> str:
    """What was found, and what would help where it is not enough."""
    best = found.best
    kind = "linear" if found.linear else f"not linear, {best.fitted.steps} Newton steps"
    text = (f"{kind}, {problem.schema.point}-D: {best.unknowns} unknowns, {best.rows} rows, held-out residual "
            f"{best.fitted.held_out:.1e} of the data's")
    if best.fitted.held_out <= tolerance:
        return text
    return f"{text}; the tolerance {tolerance:g} was not reached, training (solver 'train') may"
