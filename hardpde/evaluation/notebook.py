"""How notebooks show a problem and a solution: a few lines of HTML with a picture; None leaves it to the plain text.

Pictures are left out where matplotlib is missing.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from html import escape
from typing import Any

from hardpde.evaluation.base import UNTRAINED, Solved, last_losses
from hardpde.problem.problem import Problem
from hardpde.support.tables import html_table

KINDS = ("dirichlet", "neumann", "robin", "slip", "traction", "initial", "interface", "periodic")


def _or_nothing(function: Callable[[Any], str]) -> Callable[[Any], str | None]:
    """A display never raises: what cannot be shown is left to the plain text."""

    @wraps(function)
    def quiet(thing: Any) -> str | None:
        try:
            return function(thing)
        except Exception:
            return None

    return quiet


@_or_nothing
def problem_html(problem: Problem) -> str:
    """Name, domain, fields, conditions, time and the drawing of the domain."""
    schema, gradients = problem.schema, dict(problem.schema.gradients)
    low, high = problem.domain.bounds
    extent = " × ".join(f"[{a:.4g}, {b:.4g}]" for a, b in list(zip(low, high))[:3]) + " × …" * (len(low) > 3)
    facts = [("domain", f"{schema.dim}-D, within {extent}; boundaries {', '.join(problem.domain.boundaries)}")]
    if problem.time is not None:
        facts.append(("time", f"{problem.time[0]:g} to {problem.time[1]:g}"))
    if problem.parameters:
        facts.append(("parameters", ", ".join(map(str, problem.parameters))))
    facts.append(("known solution", "a formula" if problem.exact else "a reference" if problem.reference else "none"))
    fields = [(name, "×".join(map(str, shape)) or "number",
               f"gradient of {gradients[name]}" if name in gradients else "") for name, shape in schema.fields]
    conditions = [(c.name, _kind(c.name), f"{c.on} = {c.to}" if hasattr(c, "to") else c.on) for c in problem.conditions]
    conditions += [("none", "free", name) for name in problem.free]
    return _block(f"Problem {problem.name}", _lines(facts), _table(("field", "shape", ""), fields),
                  _table(("condition", "kind", "boundary"), conditions),
                  _picture(lambda draw: draw.draw_domain(problem)))


@_or_nothing
def solution_html(solution: Solved) -> str:
    """Losses, errors where they can be known, why each stage ended and a picture of the first field."""
    settings, training = solution.settings, solution.training
    solver = settings.get("solver", "train")
    how = f"solver {solver}" if solver in UNTRAINED else f"preset {settings['preset']}"
    facts = [("method", f"{settings['method_name']}, {how}, seed {settings['seed']}"),
             ("weights", f"{solution.parameters:,}")]
    if training.history:
        facts += [(name, f"{value:.3e}") for name, value in last_losses(training.history).items()]
        facts += [("solving" if solver in UNTRAINED else "training", f"{training.seconds:.1f} s")]
    endings = [(row["stage"], f"{row['steps']:,}", row["why"]) for row in training.endings]
    errors = [(name, *(_number(found.get(key)) for key in ("mae", "relative_l2", "max")))
              for name, found in _errors(solution).items()]
    first = next(label for label in solution.problem.schema.labels())
    return _block(f"Solution of {solution.problem.name}", _lines(facts),
                  _table(("error of", "MAE", "relative L²", "max"), errors),
                  _table(("stage", "steps", "why it ended"), endings), _picture(lambda draw: solution.picture(first)))


def _errors(solution: Solved) -> dict[str, dict[str, Any]]:
    try:
        return solution.errors()
    except (ImportError, ValueError):
        return {}


def _picture(draw: Callable[[Any], Any]) -> str:
    """A figure inside the text; nothing where pictures cannot be drawn."""
    try:
        from hardpde.evaluation.figures import pictures
        from hardpde.evaluation.figures.base import data_uri

        source = data_uri(draw(pictures), "png", 75)
    except Exception:
        return ""
    return f"<img alt='' style='max-width:100%;background:#fff' src='{source}'>"


def _kind(name: str) -> str:
    return name.split()[0] if name.split() and name.split()[0] in KINDS else "linear"


def _number(value: Any) -> str:
    return "–" if value is None else f"{value:.3g}"


def _block(title: str, *parts: str) -> str:
    return f"<div><h4 style='margin:0.3em 0'>{escape(title)}</h4>{''.join(parts)}</div>"


def _lines(facts: Iterable[tuple[str, str]]) -> str:
    return "<p>" + "<br>".join(f"{escape(name)}: <b>{escape(text)}</b>" for name, text in facts) + "</p>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return html_table(head, rows, cell=" style='text-align:left'") if rows else ""
