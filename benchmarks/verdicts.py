"""Are verdicts right? Small problems with known solutions, solved well and badly; no verdict sees the solution.

    python benchmarks/verdicts.py [--only NAME,…] [--out results/verdicts.json]

Bad is an L2 error above 5 % of what the field varies by. No bad answer may be called good, and at most a tenth of the
good ones may be anything else. What is refused is not called good either.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import hardpde as hp
from hardpde.direct import in_windows
from hardpde.evaluation.errors import checked_reference, measure_errors
from hardpde.solving import direct

BAD = 0.05
PI = np.pi
LINE = hp.Interval(0, 1, left="a", right="b")
SQUARE = hp.Box((0, 0), (1, 1), name="wall")


class Case(NamedTuple):
    problem: Callable[[], hp.Problem]
    exact: Callable[[Any], dict[str, Any]]
    most: tuple[int, ...] = (30, 90, 1600)  # unknowns of the direct solves
    steps: tuple[int, ...] = ()  # of trainings


def poisson(domain, u, k=1.0):
    """∇·k∇u = f for a known u, with Dirichlet data."""

    def source(x):
        return k * jnp.trace(jax.hessian(u)(x))

    return hp.Problem(domain=domain, fields="u", gradients={"p": "u"}, conditions=[hp.dirichlet("wall", "u", u)],
                      residual=lambda x, q, dq: k * hp.div(dq.p) - source(x))


def known(u):
    return lambda x: {"u": u(x)}


def waves(n):
    return lambda x: jnp.prod(jnp.cos(n * PI * x))


def scales(x):
    return jnp.sin(PI * x[0]) + 0.2 * jnp.sin(40 * PI * x[0])


def si(x):
    return 293.0 + 40 * jnp.sin(20 * x[0]) * jnp.cos(30 * x[1])


def corner(x):
    angle = jnp.arctan2(x[1], x[0]) - PI / 2
    return (x @ x + 1e-300) ** (1 / 3) * jnp.sin(2 / 3 * jnp.where(angle < -1e-9, angle + 2 * PI, angle))


def ell():
    """Held at zero on both sides of the corner, where data with infinite slopes could not be continued."""
    points = ((0, 0), (0, 1), (-1, 1), (-1, -1), (1, -1), (1, 0))
    return hp.Problem(domain=hp.Polygon(points, names=("held", *["wall"] * 4, "held")), fields="u",
                      gradients={"p": "u"}, residual=lambda x, q, dq: hp.div(dq.p),
                      conditions=[hp.dirichlet("held", "u"), hp.dirichlet("wall", "u", corner)])


def layer(e):
    return lambda x: x[0] - (jnp.exp((x[0] - 1) / e) - np.exp(-1 / e)) / (1 - np.exp(-1 / e))


def convected(e):
    return lambda: hp.Problem(domain=LINE, fields="u", gradients={"p": "u"},
                              conditions=[hp.dirichlet("a", "u"), hp.dirichlet("b", "u")],
                              residual=lambda x, q, dq: q.p[0] - e * hp.div(dq.p) - 1)


def moving(x):
    return jnp.sin(PI * x[0]) * jnp.cos(2 * PI * x[1]) + 0.5 * jnp.sin(4 * PI * x[0]) * jnp.cos(8 * PI * x[1])


def wave(end):
    return lambda: hp.Problem(
        domain=LINE, fields=["u", "v"], gradients={"p": "u"}, time=(0, end),
        residual=lambda x, q, dq: (hp.dt(dq.u) - q.v, hp.dt(dq.v) - 4 * hp.div(dq.p)),
        conditions=[hp.dirichlet("a", "u"), hp.dirichlet("b", "u"), hp.initial("v"),
                    hp.initial("u", lambda x: moving(x.at[1].set(0.0)))])


def heat(u, end):
    def source(x):
        return jax.grad(u)(x)[1] - jax.hessian(u)(x)[0, 0]

    return lambda: hp.Problem(
        domain=LINE, fields="u", gradients={"p": "u"}, time=(0, end),
        residual=lambda x, q, dq: hp.dt(dq.u) - hp.div(dq.p) - source(x),
        conditions=[hp.dirichlet("a", "u", u), hp.dirichlet("b", "u", u), hp.initial("u", u)])


def transported(x):
    return jnp.exp(-((x[0] - 0.3 - 0.5 * x[1]) ** 2) / 0.005)


def transport():
    return hp.Problem(domain=LINE, fields="u", time=(0, 1), free=["b"],
                      residual=lambda x, q, dq: hp.dt(dq.u) + 0.5 * dq.u.space[0],
                      conditions=[hp.dirichlet("a", "u", transported), hp.initial("u", transported)])


def front(e):
    return lambda x: -jnp.tanh((x[0] - 0.5) / (2 * e))


def burgers(e):
    u = front(e)
    return lambda: hp.Problem(domain=LINE, fields="u", gradients={"p": "u"},
                              residual=lambda x, q, dq: q.u * q.p[0] - e * hp.div(dq.p),
                              conditions=[hp.dirichlet("a", "u", u), hp.dirichlet("b", "u", u)])


def k_jump(x):
    return jnp.where(x[0] < 0.4, 1.0, 10.0)


def bent(x):
    """−(k u′)′ = 1 with k = 1 left of 0.4 and 10 right of it."""
    c = (0.08 + 0.042) / (0.4 + 0.06)
    left = c * x[0] - x[0] ** 2 / 2
    right = (c * (x[0] - 1) - (x[0] ** 2 - 1) / 2) / 10
    return jnp.where(x[0] < 0.4, left, right)


def with_flux():
    return hp.Problem(domain=LINE, fields={"u": 1, "s": (1,)},
                      conditions=[hp.dirichlet("a", "u"), hp.dirichlet("b", "u")],
                      residual=lambda x, q, dq: (hp.div(dq.s) + 1, q.s - k_jump(x) * hp.grad(dq.u)))


def product_rule():
    return hp.Problem(domain=LINE, fields="u", gradients={"p": "u"},
                      conditions=[hp.dirichlet("a", "u"), hp.dirichlet("b", "u")],
                      residual=lambda x, q, dq: k_jump(x) * hp.div(dq.p) + jax.grad(k_jump)(x) @ q.p + 1)


def stepped():
    return hp.Problem(domain=LINE, fields="u", gradients={"p": "u"}, time=(0, 0.1),
                      residual=lambda x, q, dq: hp.dt(dq.u) - hp.div(dq.p),
                      conditions=[hp.dirichlet("a", "u", 1), hp.dirichlet("b", "u"),
                                  hp.initial("u", lambda x: jnp.where(x[0] < 0.5, 1.0, 0.0))])


def plane(k):
    return lambda x: jnp.sin(k * (0.8 * x[0] + 0.6 * x[1]))


def helmholtz(k):
    u = plane(k)
    return lambda: hp.Problem(domain=SQUARE, fields="u", gradients={"p": "u"},
                              conditions=[hp.dirichlet("wall", "u", u)],
                              residual=lambda x, q, dq: hp.div(dq.p) + k**2 * q.u)


def past(x):
    """The potential of a flow past two cylinders, from the middle of the first."""
    y = x - jnp.array([0.6, 0.45])
    return 0.3 * x[0] + 0.3 * 0.02 * y[0] / (y @ y)


CHANNEL = (hp.Box((0, 0), (2, 1), name="wall") - hp.Ball((0.6, 0.45), 0.1414, name="one")
           - hp.Ball((1.4, 0.6), 0.15, name="two"))


def channel():
    def flux(x, n):
        return jax.grad(past)(x) @ n

    return hp.Problem(domain=CHANNEL, fields="u", gradients={"p": "u"}, residual=lambda x, q, dq: hp.div(dq.p),
                      conditions=[hp.dirichlet("wall", "u", past), hp.dirichlet("two", "u", past),
                                  hp.Condition("one", lambda q, x, n: q.p @ n - 0.0,
                                               lambda x: jax.grad(past)(x) @ _normal(x, (0.6, 0.45)))])


def _normal(x, centre):
    y = jnp.asarray(centre) - x
    return y / jnp.sqrt(y @ y)


def ring(x):
    return jnp.log(x @ x) / 2


def cooled():
    return hp.Problem(domain=hp.Ball((0, 0), 1, name="rim") - hp.Ball((0, 0), 0.2, name="hole"), fields="u",
                      residual=lambda x, q, dq: hp.laplacian(dq.u),
                      conditions=[hp.dirichlet("rim", "u"), hp.robin("hole", "u", 1.0, 1.0, np.log(0.2) - 5.0)])


def cubic(x):
    return jnp.sin(2 * PI * x[0]) * jnp.exp(x[1])


def reacting():
    def source(x):
        return jnp.trace(jax.hessian(cubic)(x)) - cubic(x) ** 3

    return hp.Problem(domain=SQUARE, fields="u", gradients={"p": "u"}, conditions=[hp.dirichlet("wall", "u", cubic)],
                      residual=lambda x, q, dq: hp.div(dq.p) - q.u**3 - source(x))


def slow(x):
    return jnp.sin(PI * x[0]) * jnp.cos(1.5 * x[1])


def warm(x):
    return x[0] * (1 - x[0]) * jnp.exp(-x[1])


CASES: dict[str, Case] = {
    "smooth": Case(lambda: poisson(SQUARE, waves(2)), known(waves(2)), steps=(5, 600)),
    "oscillating": Case(lambda: poisson(SQUARE, waves(5)), known(waves(5))),
    "si units": Case(lambda: poisson(hp.Box((0, 0), (0.1, 0.1), name="wall"), si, k=200.0), known(si), (12, 30, 1600)),
    "corner": Case(ell, known(corner), (24, 60, 800)),
    "layer 0.05": Case(convected(0.05), known(layer(0.05)), (12, 30, 800)),
    "layer 0.002": Case(convected(0.002), known(layer(0.002)), (30, 100, 800), (100,)),
    "wave": Case(wave(1.0), known(moving), (60, 300, 3000)),
    "long": Case(heat(slow, 40.0), known(slow), (60, 200, 2400)),
    "warming": Case(heat(warm, 1.0), known(warm), (16, 40, 800), (5, 400)),
    "transport": Case(transport, known(transported), (40, 120, 1600)),
    "front 0.05": Case(burgers(0.05), known(front(0.05)), (12, 40, 800)),
    "front 0.01": Case(burgers(0.01), known(front(0.01)), (12, 40, 800)),
    "jumping, flux": Case(with_flux, known(bent), (16, 40, 1600)),
    "jumping, product rule": Case(product_rule, known(bent), (100,)),
    "stepped start": Case(stepped, known(lambda x: x[0]), (100,)),
    "many scales": Case(lambda: hp.Problem(
        domain=LINE, fields="u", gradients={"p": "u"}, conditions=[hp.dirichlet("a", "u"), hp.dirichlet("b", "u")],
        residual=lambda x, q, dq: hp.div(dq.p) + PI**2 * jnp.sin(PI * x[0])
        + 320 * PI**2 * jnp.sin(40 * PI * x[0])), known(scales), (20, 60, 1200)),
    "helmholtz": Case(helmholtz(15.0), known(plane(15.0)), (60, 150, 2400)),
    "channel": Case(channel, known(past), (24, 60, 1600)),
    "ring": Case(cooled, known(ring), (8, 20, 400)),
    "reacting": Case(reacting, known(cubic), (24, 60, 1200)),
}


def judged(case: Case, most: int | None, steps: int | None) -> dict[str, Any]:
    """One solve: the verdict, which does not know the solution, and the error against it."""
    try:
        problem = case.problem()
        if steps is not None:
            solution = hp.solve(problem, preset="quick", steps=[min(steps, 100), max(1, steps)],
                                options={"width": 16, "points": 512})
        else:
            direct.MOST, in_windows.MOST, in_windows.MOST_DENSE = most, 0, 0  # no more features than that
            solution = hp.solve(problem, solver="direct", tolerance=1e-4, seconds=60)
    except ValueError as error:
        return {"verdict": "refused", "because": str(error), "error": None}
    began = time.perf_counter()
    verdict = solution.verdict()
    took = time.perf_counter() - began
    reference = checked_reference(replace(problem, exact=case.exact))
    found, size = measure_errors(solution, reference)["u"], reference.values["u"]
    error = found["relative_l2"] * float(np.linalg.norm(size) / max(np.linalg.norm(size - size.mean()), 1e-300))
    return {"verdict": verdict.verdict, "because": verdict.because, "figures": verdict.figures, "error": error,
            "decision": solution.decision, "seconds": took}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", type=lambda text: text.split(","))
    parser.add_argument("--out", default="results/verdicts.json")
    arguments = parser.parse_args()
    path = Path(arguments.out)
    rows: dict[str, Any] = json.loads(path.read_text())["rows"] if path.exists() and arguments.only else {}
    for name, case in CASES.items():
        if arguments.only and name not in arguments.only:
            continue
        runs = [(f"{name}, {most} unknowns", most, None) for most in case.most]
        runs += [(f"{name}, {steps} steps", None, steps) for steps in case.steps]
        for label, most, steps in runs:
            rows[label] = judged(case, most, steps)
            error = rows[label]["error"]
            print(f"{label:34} error {'—' if error is None else f'{error:.1e}':8} {rows[label]['verdict']:9} "
                  f"{rows[label]['because'][:150]}", flush=True)
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps({"summary": summary(rows), "rows": rows}, indent=1) + "\n")
    print(json.dumps(summary(rows), indent=1))


def summary(rows: dict[str, Any]) -> dict[str, Any]:
    solved = {name: row for name, row in rows.items() if row["error"] is not None}
    bad = {name for name, row in solved.items() if not row["error"] <= BAD}
    good = set(solved) - bad
    clearly = {name for name in good if solved[name]["error"] <= BAD / 5}
    return {"solved": len(solved), "refused": len(rows) - len(solved), "bad": len(bad), "good": len(good),
            "bad called good": sorted(name for name in bad if solved[name]["verdict"] == "good"),
            "good not called good": sorted(name for name in good if solved[name]["verdict"] != "good"),
            "below a fifth of that": len(clearly),
            "of these not called good": sorted(name for name in clearly if solved[name]["verdict"] != "good"),
            "good called failed": sorted(name for name in good if solved[name]["verdict"] == "failed")}


if __name__ == "__main__":
    main()
