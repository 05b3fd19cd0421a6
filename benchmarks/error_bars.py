"""Error bars against errors: their ratio, the effectivity, for every problem with a known solution at three accuracies.

    python benchmarks/error_bars.py [--only robin_hole,poisson] [--sizes 48,120,300] [--out results/error-bars.json]

Each problem is solved directly with few features, so that there is an error to bound. What is in the file already is
kept and not done again. A guaranteed bar must not be below the error. Errors and bars are of L2 norms over the domain,
and over time; `energy` and `combined` are those of the error bar, true ones without their part on the boundary.
"""

import importlib
import json
import math
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from common import example, options, write_result

import hardpde as hp
from hardpde.bounds.error_bar import ErrorBar
from hardpde.bounds.quadrature import points_drawn, volume
from hardpde.bounds.recognise import Unrecognised, recognised
from hardpde.problems import PROBLEMS
from hardpde.solving import direct
from hardpde.solving.settings import make_settings

EXAMPLES = ("robin_hole", "mixed_corners", "heat_rod", "balls_3d", "reaction_3d", "gasket_svg", "bracket_stl",
            "airfoil_from_file", "elastic_ring", "plate_with_hole", "interface", "kovasznay", "burgers", "find_cooling",
            "thousand_holes", "heat_ball_waves")
BUILT_IN = {"poisson": {}, "poisson-alone": {"extra": False}, "heat-ball": {"dim": 3}}
SIZES = (48, 120, 300)  # unknowns
POINTS = 16_384  # at which errors are measured


def stated(name: str) -> hp.Problem:
    """A problem by its name."""
    if name == "wave":
        return importlib.import_module("wave").problem
    if name in BUILT_IN:
        return PROBLEMS[name.removesuffix("-alone")](**BUILT_IN[name])
    problem = example(name).problem
    return problem if isinstance(problem, hp.Problem) else problem()


def solved(problem: hp.Problem, unknowns: int) -> hp.Solution:
    """A direct solve that ends with its first system, of so many unknowns."""
    settings = make_settings(problem, "exact", "quick", 0)
    return direct.run_directly(problem, direct.direct_settings(settings, {}, math.inf, None), most=unknowns)[0]


def errors(solution: hp.Solution) -> dict[str, float]:
    """True L2 norms of the error of every field, and those called energy and combined."""
    problem, inner = solution.problem, solution.formulation.problem
    d = problem.schema.dim
    sample = points_drawn(problem, POINTS, 5)
    space = math.sqrt(volume(problem.domain).high)

    def norm(squares: Any) -> float:
        return space * float(np.sqrt((sample.weights * np.asarray(squares)).mean()))

    known = problem.known_everywhere(jnp.asarray(sample.x))
    found = solution.anywhere(sample.x[:, : problem.schema.coordinates], **at(problem, sample.x))
    result = {}
    for name in known:
        there = problem.lives(name, sample.x[:, :d])
        off = (found[name] - np.asarray(known[name])).reshape(len(sample.x), -1)
        result[name] = norm(np.where(there, (off**2).sum(1), 0.0))
    try:
        equations = recognised(inner)
    except Unrecognised:
        return result
    jets = solution.formulation.jet(solution.training.model, sample.x)
    energy = combined = 0.0
    for equation in equations:
        name = next(n for n, where in inner.schema.slices.items() if where.start == equation.value)
        if name not in known or inner.schema.shapes[name]:
            return result
        terms = equation.coefficients(sample.x)
        slope = np.asarray(jax.vmap(jax.grad(lambda x, n=name: problem.exact(x)[n]))(jnp.asarray(sample.x)))[:, :d]
        e = jets[:, equation.value, 0] - np.asarray(known[name])
        steep = jets[:, equation.value, 1 : 1 + d] - slope
        flux = steep if equation.flux is None else jets[:, list(equation.flux), 0] - slope
        squares = [np.einsum("ni,nij,nj->n", v, terms.a, v) for v in (steep, flux)]
        squares[0] = squares[0] + np.maximum(terms.c, 0.0) * e**2
        energy, combined = energy + squares[0], combined + squares[0] + squares[1]
    return {**result, "energy": norm(energy), "combined": norm(combined)}


def at(problem: hp.Problem, x: np.ndarray) -> dict[str, np.ndarray]:
    """The values of the parameters at points."""
    return {p.name: x[:, k] for k, p in enumerate(problem.parameters, problem.schema.coordinates)}


def row(name: str, unknowns: int) -> dict[str, Any]:
    """One problem at one accuracy."""
    problem = stated(name)
    began = time.perf_counter()
    solution = solved(problem, unknowns)
    solve = time.perf_counter() - began
    solution.verdict()  # is told by every run before its bar
    began = time.perf_counter()
    bar = solution.error_bar()
    took = time.perf_counter() - began
    return {"problem": name, "unknowns": unknowns, "word": bar.word, "kind": bar.kind, "constant": bar.constant,
            "why": bar.why, "seconds": {"solve": solve, "bar": took}, "bars": compared(bar, errors(solution))}


def compared(bar: ErrorBar, true: dict[str, float]) -> dict[str, Any]:
    """Every bar with the error that it bounds."""
    bars = {name: field.l2 for name, field in bar.fields.items()}
    bars |= {"energy": bar.energy, "combined": bar.combined[1] if bar.combined else None}
    words = {name: field.word for name, field in bar.fields.items()}
    return {name: {"word": words.get(name, bar.word), "bar": value, "error": true[name],
                   "effectivity": value / true[name] if true[name] else None}
            for name, value in bars.items() if value is not None and name in true}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--only", default="", help="names with commas between them")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="unknowns, with commas between them")
    arguments = parser.parse_args()
    names = arguments.only.split(",") if arguments.only else [*BUILT_IN, *EXAMPLES, "wave"]
    sizes = [int(size) for size in arguments.sizes.split(",")]
    known = arguments.out is not None and arguments.out.exists()
    rows = json.loads(arguments.out.read_text())["rows"] if known else []
    done = {(one["problem"], one["unknowns"]) for one in rows}
    for name in names:
        for size in sizes:
            if (name, size) in done:
                continue
            try:
                rows.append(row(name, size))
            except ValueError as error:
                rows.append({"problem": name, "unknowns": size, "failed": str(error)})
            print(said(rows[-1]), flush=True)
            write_result(arguments.out, {"rows": rows, "below": below(rows)})
    print(f"guaranteed bars below the error: {below(rows)}")


def below(rows: list[dict[str, Any]]) -> int:
    """How many guaranteed bars are below the error."""
    return sum(one["effectivity"] is not None and one["effectivity"] < 1 for found in rows
               if found.get("word") == "guaranteed" for one in found["bars"].values()
               if one.get("word", "guaranteed") == "guaranteed")


def said(found: dict[str, Any]) -> str:
    """A row as a line."""
    head = f"{found['problem']:18} {found['unknowns']:4} "
    if "failed" in found:
        return head + found["failed"]
    bars = ", ".join(f"{name} {one['effectivity']:.2f} (error {one['error']:.1e})"
                     for name, one in found["bars"].items() if one["effectivity"] is not None)
    seconds = found["seconds"]
    what = found["why"] or found["kind"]
    return f"{head}{found['word']:10} {bars}; {seconds['bar']:.1f} s of {seconds['solve']:.1f} ({what})"


if __name__ == "__main__":
    main()
