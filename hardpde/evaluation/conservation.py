"""What flows in, out and is made: every equation with a divergence, integrated over the domain and over parts of it.

An equation ∇·F + s = 0, with F linear in the state, says of every part of the domain that what flows out through its
surface is what its sources make. Integrals see what hides between the points of a training.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.evaluation.base import Solved
from hardpde.evaluation.errors import typical_solution
from hardpde.formulation.formulation import Formulation, Model
from hardpde.formulation.points import EARLIEST
from hardpde.geometry import at_times
from hardpde.geometry.algorithms.sampling import check_survival, depths, unit_points
from hardpde.geometry.algorithms.stacking import concrete, place
from hardpde.problem.completed import symbols
from hardpde.problem.fields import Schema
from hardpde.problem.problem import Problem
from hardpde.support.compiling import jit_simply

STATIONS = 7  # cuts across each axis
BOUNDARY, VOLUME, CUT = {1: 2, 2: 1000, 3: 4000}, {1: 512, 2: 2048, 3: 4096}, {1: 1, 2: 200, 3: 900}
INSTANTS = (0.3, 1.0)  # of the time span
_PROBES = 6
ASIDE = 1e-9
SINGULAR = 1.5


class Form(NamedTuple):
    """An equation as ∇·(C q + L ∇q) + rest: C (d, m), L (m,); which one it is, and what it is called."""

    number: int
    c: np.ndarray
    laplacian: np.ndarray
    name: str


@dataclass(frozen=True)
class Places:
    """Points where something is integrated: in space, their weights, and normals times these (n, d) on surfaces."""

    x: np.ndarray
    weight: np.ndarray
    normal: np.ndarray


def conservation(solution: Solved) -> list[dict[str, Any]]:
    """What flows out through each boundary, what the sources make and what is missing, of each equation with a
    divergence: [{"equation", "time", "through": {boundary: flux}, "source", "sum", "imbalance", "where"}].

    imbalance: the most that is missing in a part of the domain between two cuts, in units of all that flows or is made,
    less what the integrals are uncertain by. In the middle of a family; [] above three dimensions, and where fields
    live in regions or the domain is mapped.
    """
    solution = typical_solution(solution)
    formulation, model = solution.formulation, solution.training.model
    problem = formulation.problem
    if problem.schema.dim > 3 or problem.regions or problem.mapping is not None or solution.problem.mapping is not None:
        return []
    forms = divergences(problem)
    if not forms:
        return []
    volume, walls, cuts = _volume(problem), _walls(problem), _cuts(problem)
    times: list[float | None] = [None]
    if problem.time is not None:
        start, end = problem.time
        times = [start + max(part, EARLIEST) * (end - start) for part in INSTANTS]
    inside = _jets(formulation, model, volume.x, times)
    surfaces = [*walls.values(), *(cut for _, _, cut in cuts)]
    on = np.concatenate([one.x for one in surfaces])
    steep = any(form.laplacian.any() for form in forms)
    outside = _jets(formulation, model, on, times) if steep else [
        q[:, :, None] for q in np.split(formulation.predict(model, _at(on, times)), len(times))]
    borders = np.cumsum([len(one.x) for one in surfaces])[:-1]
    if not all(np.isfinite(jet).all() for jet in (*inside, *outside)):
        return [{"equation": form.name, "time": None, "through": {}, "source": math.nan, "sum": math.nan,
                 "imbalance": math.inf, "where": "at places where the answer is not a finite number"} for form in forms]
    rows = []
    for time, jet, surface in zip(times, inside, outside):
        values = _values(problem, _at(volume.x, [time]), jet)
        states = np.split(surface, borders)
        for form in forms:
            rest = values[:, form.number] - _divergence(form, jet)
            flows = [np.einsum("nd,nd->n", _flux(form, state), one.normal) for state, one in zip(states, surfaces)]
            rows.append({"equation": form.name, "time": time, **_account(
                volume, rest, walls, flows[: len(walls)], cuts, flows[len(walls) :])})
    return rows


def _at(x: np.ndarray, times: list[float | None]) -> np.ndarray:
    """Points (n, d) at some instants, one after the other."""
    return np.concatenate([x if time is None else at_times(x, time) for time in times])


def _jets(formulation: Formulation, model: Model, x: np.ndarray, times: list[float | None]) -> list[np.ndarray]:
    return np.split(formulation.jet(model, _at(x, times)), len(times))


def _values(problem: Problem, x: np.ndarray, jet: np.ndarray) -> np.ndarray:
    """The stated equations (n, e) at points with their jets (n, m, slots)."""
    schema = problem.schema
    return np.asarray(jit_simply(jax.vmap(lambda x, jet: problem.stated_equations(
        x, schema.state(jet[:, 0]), schema.derivatives(jet[:, 1:].T))))(x, jet))


def divergences(problem: Problem) -> list[Form]:
    """The equations in which derivatives in space have coefficients that do not change: those of a divergence."""
    schema, rng = problem.schema, np.random.default_rng(7)
    d, m = schema.dim, schema.size
    x = np.asarray(problem.sample(jax.random.key(31), _PROBES))
    q, dq = rng.standard_normal((_PROBES, m)), rng.standard_normal((_PROBES, problem.derivatives, m))

    def slopes(x: Array, q: Array, dq: Array) -> tuple[Array, Array]:
        return jax.jacfwd(lambda dq, q: problem.stated_equations(x, schema.state(q), schema.derivatives(dq)),
                          (0, 1))(dq, q)

    found, by_state = map(np.asarray, jit_simply(jax.vmap(slopes))(x, q, dq))  # (probes, e, slots, m), (probes, e, m)
    added, forms = symbols(problem), []
    labels = [added.get(label.split("[")[0], label) for label in schema.labels()]
    for e in range(found.shape[1]):
        part = found[:, e]
        space = np.concatenate([part[:, :d], part[:, -1:] if problem.order == 2 else 0 * part[:, :1]], axis=1)
        size = np.abs(space).max()
        same = np.abs(space - space[:1]).max(axis=0) <= 1e-9 * max(size, 1e-300)
        constant = np.where(same, space[0], 0.0)
        # A divergence: more than one direction, or one where there is no other, or a Laplacian.
        directions = (constant[:d] != 0).any(axis=1)
        if size > 0 and (directions.all() or (constant[d] != 0).any()):
            names = dict.fromkeys(labels[k] for k in np.flatnonzero((constant != 0).any(axis=0)))
            forms.append(Form(e, constant[:d] + _convected(schema, by_state[:, e]), constant[d],
                              f"equation {e + 1} ({', '.join(names)})"))
    return forms


def _convected(schema: Schema, by_state: np.ndarray) -> np.ndarray:
    """What is to be added to C (d, m) for b·p with p = ∇u and b constant: it is ∇·(b u), and the surface says it better
    than points inside, which may miss a layer in which p is large. by_state: an equation's slopes (probes, m)."""
    more = np.zeros((schema.dim, schema.size))
    same = np.ptp(by_state, axis=0) <= 1e-9 * max(np.abs(by_state).max(), 1e-300)
    for gradient, base in schema.gradients:
        b = np.where(same, by_state[0], 0.0)[schema.slices[gradient]].reshape(-1, schema.dim)
        more[:, schema.slices[base]] += b.T
    return more


def _flux(form: Form, jet: np.ndarray) -> np.ndarray:
    """F (n, d) of jets (n, m, slots), which hold the values alone where no gradient is needed."""
    d = len(form.c)
    flux = jet[:, :, 0] @ form.c.T
    return flux + np.einsum("nmd,m->nd", jet[:, :, 1 : 1 + d], form.laplacian) if form.laplacian.any() else flux


def _divergence(form: Form, jet: np.ndarray) -> np.ndarray:
    """∇·F (n,) of jets (n, m, slots)."""
    found = np.einsum("dm,nmd->n", form.c, jet[:, :, 1 : 1 + len(form.c)])
    return found + jet[:, :, -1] @ form.laplacian if form.laplacian.any() else found


def _volume(problem: Problem) -> Places:
    domain = problem.domain
    lo, hi = (np.asarray(end, float) for end in domain.bounds)
    x, share = unit_points(VOLUME[domain.dim], domain.dim), np.ones(VOLUME[domain.dim])
    if domain.dim == 1:  # layers at the ends are seen
        places, share = _to_the_ends(len(x))
        x = places[:, None]
    x = lo + (hi - lo) * x
    inside = np.asarray(depths(domain, jnp.asarray(x))) < 0
    weight = domain.measure * share[inside] / share[inside].sum()
    return Places(x[inside], weight, np.zeros((len(weight), 0)))


def _walls(problem: Problem) -> dict[str, Places]:
    """The boundaries by name, those between two parts of the domain left out."""
    shape = problem.domain
    total = sum(piece.measure for piece in shape.pieces)
    found = {}
    for name, boundary in shape.boundaries.items():
        pieces = tuple(piece for piece in boundary.pieces if not piece.two_sided)
        if not pieces:
            continue
        if shape.dim == 1:
            steps = [np.array([[0.25], [0.75]])] * len(pieces)
        else:
            counts = [max(24, int(BOUNDARY[shape.dim] * piece.measure / total)) for piece in pieces]
            steps = [np.repeat((np.arange(n)[:, None] + 0.5) / n, 2, axis=1) if shape.dim == 2 else
                     unit_points(n, shape.dim) for n in counts]
        which = np.repeat(np.arange(len(pieces)), list(map(len, steps)))

        @jit_simply
        def placed(u: Array, pieces: tuple = pieces, which: np.ndarray = which) -> tuple[Array, Array, Array]:
            x, n = place(pieces, jnp.asarray(which), u)
            body = jnp.asarray(np.array([piece.body for piece in pieces])[which])
            return x, n, check_survival(shape, x, n, body)

        x, n, kept = concrete(placed, np.concatenate(steps))
        weight = np.concatenate([np.full(len(u), piece.measure / len(u)) for u, piece in zip(steps, pieces)])
        if shape.dim == 1:
            _, kept = np.unique(x[:, 0], return_index=True)
            weight = np.ones(len(weight))
        found[name] = Places(x[kept], weight[kept], n[kept] * weight[kept][:, None])
    return found


def _to_the_ends(n: int) -> tuple[np.ndarray, np.ndarray]:
    """n places from 0 to 1 and their weights, whose mean is 1: dense at both ends, as t³ at 0."""
    t = (np.arange(n) + 0.5) / n
    return t**3 * (10 - 15 * t + 6 * t**2), 30 * (t * (1 - t)) ** 2


def _cuts(problem: Problem) -> list[tuple[int, float, Places]]:
    """Cuts across each axis: which axis, where, and the points of the domain on them."""
    domain = problem.domain
    lo, hi = (np.asarray(end, float) for end in domain.bounds)
    found = []
    for axis in range(domain.dim):
        others = [k for k in range(domain.dim) if k != axis]
        each = max(1, round(CUT[domain.dim] ** (1 / max(1, len(others)))))
        grids = np.meshgrid(*[lo[k] + (hi[k] - lo[k]) * (np.arange(each) + 0.5) / each for k in others], indexing="ij")
        area = float(np.prod([(hi[k] - lo[k]) / each for k in others]))
        for s in lo[axis] + (hi[axis] - lo[axis]) * np.arange(1, STATIONS + 1) / (STATIONS + 1):
            x = np.empty((max(1, each ** len(others)), domain.dim))
            x[:, axis] = s
            for k, grid in zip(others, grids):
                x[:, k] = grid.ravel()
            x = x[np.asarray(depths(domain, jnp.asarray(x))) < -ASIDE * domain.size]
            found.append((axis, float(s), Places(x, np.full(len(x), area), np.tile(area * np.eye(domain.dim)[axis],
                                                                                   (len(x), 1)))))
    return found


def _account(volume: Places, rest: np.ndarray, walls: dict[str, Places], out: list[np.ndarray],
             cuts: list[tuple[int, float, Places]], through: list[np.ndarray]) -> dict[str, Any]:
    """The table of one equation, and where most is missing."""
    made = rest * volume.weight
    flows = {name: float(values.sum()) for name, values in zip(walls, out)}
    whole = sum(flows.values()) + float(made.sum())
    size = max(sum(float(np.abs(values).sum()) for values in out) / 2, float(np.abs(made).sum()),
               *(float(np.abs(values).sum()) for values in through), 1e-300)
    worst, place = abs(whole) - _doubt(made, *out), "in the whole domain"
    for axis in range(volume.x.shape[1]):
        before, at, aside = 0.0, "the start", ASIDE * float(np.ptp(volume.x[:, axis]))
        last = _doubt(made)
        for (k, s, _), values in zip(cuts, through):
            if k != axis:
                continue
            # A wall in the plane of a cut belongs to the side on which the domain is.
            below = [part[one.x[:, axis] - aside * one.normal[:, axis] / one.weight < s]
                     for part, one in zip(out, walls.values())]
            inside = made[volume.x[:, axis] < s]
            missing = float(values.sum() + inside.sum() + sum(part.sum() for part in below))
            doubt = _doubt(inside, values, *below)
            name = f"{'xyz'[axis]} = {s:.4g}"
            if abs(missing - before) - doubt - last > worst:
                worst, place = abs(missing - before) - doubt - last, f"between {at} and {name}"
            before, at, last = missing, name, doubt
            if abs(missing) - doubt > worst:
                worst, place = abs(missing) - doubt, f"between the start and {name}"
    return {"through": flows, "source": -float(made.sum()), "sum": whole, "imbalance": float(max(worst, 0.0) / size),
            "where": place}


def _doubt(*parts: np.ndarray) -> float:
    """What integrals may be off by: how far two halves of their points differ, and half as much again, for fluxes that
    grow like r^(−2/3) towards a corner that points inwards."""
    return SINGULAR * float(sum(abs(part[::2].sum() - part[1::2].sum()) for part in parts if len(part) > 8))
