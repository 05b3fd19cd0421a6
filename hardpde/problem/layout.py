"""Which conditions hold on which piece of the boundary, and how pieces that touch share a corner.

Everything here depends on the statement of a problem alone: it is worked out once, checked, and used by
every ansatz. Pieces may touch with any rows, as long as some state satisfies all of them at the corner.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.geometry import Kind, Piece, Shape, at_times, gap_matrix, stack, touching_points
from hardpde.geometry.algorithms.gaps import are_whole
from hardpde.geometry.algorithms.sampling import depths
from hardpde.geometry.algorithms.stacking import Group
from hardpde.problem.conditions import INITIAL, Condition
from hardpde.problem.corner_jumps import DataApart
from hardpde.problem.fields import FieldNeeded, Schema
from hardpde.problem.parameters import Parameter, append
from hardpde.support.compiling import jit_simply

Which = tuple[int, ...]  # numbers of conditions, or of pieces
_TOLERANCE = 1e-8
MEANT = 1e-3  # of data at a corner: those that differ by more jump there on purpose, others are digits that are missing
PARAMETER_VALUES = 8  # at which the conditions of a corner are compared
_INSTANTS = np.append(np.arange(7) * 0.6180339887498949 % 1.0, 1.0)  # at which data at corners are compared
_MOMENTS = 2048  # at which data at corners are looked at for those at which they are compared too
_SLOPE = 0.7  # of a collar that shrinks towards a sharp corner: those of its two sides stay apart
WIDE = 0.95  # of the gap: second derivatives of a correction grow like 1/collar², and no collar reaches the next piece


@dataclass(frozen=True)
class Layout:
    """Pieces that carry conditions, with what an ansatz must know about them (n pieces, r rows at most)."""

    pieces: tuple[Piece, ...]
    conditions: tuple[tuple[int, ...], ...]  # for each piece, which conditions hold there
    initial: tuple[int, ...]  # conditions at the start of time
    mask: np.ndarray  # (n, r) rows that exist
    bound: np.ndarray  # (n, r) rows that the initial condition fixes already at t = start
    slopes: np.ndarray  # (n, r) rows that ask for a normal derivative
    touching: np.ndarray  # (n, n) whether two pieces share a corner or an edge
    gap: np.ndarray  # (n,) distance to the nearest piece that does not touch
    collar: np.ndarray  # (n,) δ: beyond it a piece has no influence
    sharp: np.ndarray  # (k, d) corners towards which collars shrink
    shrinks: np.ndarray  # (n, k) which pieces end at them
    size: float  # of the domain: what is small against it is rounding

    def widths(self, numbers: Array, feet: Array) -> Array:
        """The collars (k,) of pieces (k,) at their own points (k, d): they shrink to nothing at sharp corners."""
        collar = jnp.asarray(self.collar)[numbers]
        if not len(self.sharp):
            return collar
        away = jnp.sqrt(((feet[..., None, :] - self.sharp) ** 2).sum(-1) + 1e-300)
        nearest = jnp.where(jnp.asarray(self.shrinks)[numbers], away, jnp.inf).min(-1)
        return collar * jnp.tanh(jnp.minimum(_SLOPE * nearest / collar, 30.0))


def arrange(
    domain: Shape, schema: Schema, conditions: Sequence[Condition], time: tuple[float, float] | None,
    collars: float | dict[str, float] | None, sharp: Sequence[Sequence[float]] = (),
    parameters: Sequence[Parameter] = (), apart: Sequence[np.ndarray] = (),
) -> Layout:
    """Work out and check the layout; every fault is a ValueError of one sentence. apart: corners where data may differ.
    """
    by_name: dict[str, tuple[int, ...]] = {}
    for index, condition in enumerate(conditions):
        by_name[condition.on] = (*by_name.get(condition.on, ()), index)
    pieces = tuple(piece for piece in domain.pieces if piece.name in by_name)
    of_piece = tuple(by_name[piece.name] for piece in pieces)
    start = by_name.get(INITIAL, ())
    probe = _Probe(schema, conditions, time, parameters)

    rows = np.zeros(len(pieces), int)
    fixed: list[np.ndarray] = [np.zeros(0, bool)] * len(pieces)
    steep: list[np.ndarray] = [np.zeros(0, bool)] * len(pieces)
    _check_initial(probe, domain, start)
    for which, name in dict.fromkeys(zip(of_piece, (piece.name for piece in pieces))):
        for group in stack(tuple(piece for piece in pieces if piece.name == name)):
            members = [k for k, piece in enumerate(pieces) if piece.name == name and piece.kind == group.kind]
            x, n = group_samples(group)
            a, g = probe.rows(which, probe.at(x), n)
            _check_rows(a, g, f"on '{name}'", [conditions[c].name for c in which])
            bound = _check_start(probe, start, which, name, x, n)
            slope = _slope_rows(a, schema, name)
            for k in members:
                rows[k], fixed[k], steep[k] = a.shape[1], bound, slope
    width = int(rows.max(initial=1))
    mask = np.arange(width)[None] < rows[:, None]
    bound = np.zeros_like(mask)
    slopes = np.zeros_like(mask)
    for k, flags in enumerate(fixed):
        bound[k, : len(flags)] = flags
        slopes[k, : len(steep[k])] = steep[k]

    gaps = gap_matrix(pieces, domain) if pieces else np.zeros((0, 0))
    touching = (gaps <= 0) & ~np.eye(len(pieces), dtype=bool)
    touching |= touching.T
    for i, j in zip(*np.nonzero(touching)):
        if slopes[i].any():
            raise FieldNeeded(f"'{pieces[i].name}' asks for a normal derivative and touches '{pieces[j].name}'; "
                              f"corners need the gradient as a field: state gradients={{…}}, or keep "
                              f"gradients='fields'")
    _check_corners(probe, of_piece, pieces, touching, bound, domain, start, apart)
    nearest = np.where(touching | np.eye(len(pieces), dtype=bool), np.inf, np.minimum(gaps, gaps.T))
    gap = nearest.min(axis=1, initial=np.inf)
    room = _room(pieces, touching, domain)
    points, shrinks = _sharp(pieces, sharp, domain)
    return Layout(pieces, of_piece, start, mask, bound, slopes, touching, gap,
                  _collars(pieces, (WIDE if slopes.any() else 0.5) * gap, gap, room, domain, collars), points, shrinks,
                  domain.size)


def _slope_rows(a: np.ndarray, schema: Schema, name: str) -> np.ndarray:
    """Which of the rows (k, r, columns) ask for normal derivatives; these must be independent by themselves."""
    slopes = a[:, :, schema.size :]
    some = np.abs(slopes).max(axis=(0, 2), initial=0.0) > 1e-12
    if some.any() and ((np.linalg.norm(slopes[:, some], axis=2) < 1e-12).any()
                       or (_rank(slopes[:, some]) < some.sum()).any()):
        raise FieldNeeded(f"the normal derivatives in the conditions on '{name}' vanish somewhere or are linearly "
                          f"dependent; state gradients={{…}} in the problem, or split the boundary")
    return some


def _sharp(pieces: Sequence[Piece], stated: Sequence[Sequence[float]], domain: Shape) -> tuple[np.ndarray, np.ndarray]:
    """The sharp corners that were stated and which pieces end there."""
    if not len(stated):
        return np.zeros((0, domain.dim)), np.zeros((len(pieces), 0), bool)
    points = np.asarray(stated, float)
    if points.ndim != 2 or points.shape[1] != domain.dim:
        raise ValueError(f"sharp corners are points with {domain.dim} coordinates each, got {stated}")
    off = np.stack([np.linalg.norm(_feet(piece, points) - points, axis=1) for piece in pieces])
    ends = off <= 1e-6 * domain.size
    if (few := ends.sum(0) < 2).any():
        raise ValueError(f"{_point(points[int(few.argmax())])} is stated as a sharp corner, and no two pieces with "
                         f"conditions meet there; give the corner's own coordinates")
    return points, ends


def _room(pieces: tuple[Piece, ...], touching: np.ndarray, domain: Shape) -> np.ndarray:
    """How wide the collars of pieces that are cut may be, (n,).

    Such a piece goes on, as far as closest points are concerned, beyond the domain: there it must keep clear of
    pieces that it does not touch.
    """
    room = np.full(len(pieces), np.inf)
    cut = ~are_whole(pieces, domain)
    points: dict[int, np.ndarray] = {}

    def surviving(i: int) -> np.ndarray:
        if i not in points:
            everywhere = np.asarray(pieces[i].sample(jax.random.key(5), 256))
            depth = np.asarray(depths(domain.home(pieces[i]), everywhere))
            if ((np.abs(depth) if pieces[i].two_sided else -depth) > 1e-6 * domain.size).any():
                raise ValueError(f"boundary '{pieces[i].name}' is cut by another, and the rest of it runs through the "
                                 f"inside of the domain; draw the outline as one Polygon or Spline")
            points[i] = everywhere[depth < 1e-6 * domain.size]
        return points[i]

    for j in map(int, np.flatnonzero(cut)):
        surviving(j)
    for i, j in zip(*np.nonzero(~touching & cut & ~np.eye(len(pieces), dtype=bool))):
        if not len(x := surviving(i)):
            continue
        room[j] = min(room[j], np.linalg.norm(x - _feet(pieces[j], x), axis=1).min())
        if room[j] <= 1e-6 * domain.size:
            raise ValueError(f"boundary '{pieces[j].name}' is cut by another, and the rest of it meets a third; "
                             f"draw the outline as one Polygon or Spline")
    return room


def _feet(piece: Piece, x: np.ndarray) -> np.ndarray:
    """The closest points of a piece (k, d)."""
    return np.asarray(_look(piece.kind, np.array(piece.params), x)[0])


def _normal(piece: Piece, point: np.ndarray) -> np.ndarray:
    """The domain's normal (d,) at a point of a piece."""
    n = np.asarray(_look(piece.kind, np.array(piece.params), point[None])[1])[0]
    return -n if piece.flip else n


@partial(jit_simply, static_argnums=0)
def _look(kind: Kind, p: Array, x: Array) -> tuple[Array, Array]:
    """Closest points and normals as if points (k, d) were on the piece, for any pieces of a kind."""
    return jax.vmap(kind.closest, (None, 0))(p, x), jax.vmap(kind.normal, (None, 0))(p, x)


def _collars(pieces: Sequence[Piece], most: np.ndarray, gap: np.ndarray, room: np.ndarray, domain: Shape,
             stated: float | dict[str, float] | None) -> np.ndarray:
    """The most that is wanted, within the reach of the curve and half the size of the domain; or what was stated."""
    lo, hi = map(np.asarray, domain.bounds)
    widest = 0.5 * float(np.min(hi - lo))
    width = np.array([min(m, 0.9 * p.reach, 0.9 * r, widest) for m, r, p in zip(most, room, pieces)])
    if stated is None:
        return width
    names = {piece.name for piece in pieces}
    if isinstance(stated, dict) and (unknown := set(stated) - names):
        raise ValueError(f"a collar is stated for '{unknown.pop()}', which is not a boundary with conditions; "
                         f"the boundaries are {', '.join(sorted(names))}")
    for k, piece in enumerate(pieces):
        value = stated.get(piece.name) if isinstance(stated, dict) else stated
        if value is None:
            continue
        limit = min(gap[k], piece.reach, room[k])
        if not 0 < value <= limit:
            raise ValueError(f"the collar of '{piece.name}' is {value:g}; it must be positive and at most "
                             f"{limit:g}, the distance to the next boundary or to the centre of curvature")
        width[k] = value
    return width


class _Probe:
    """Evaluates conditions at sample points with NumPy results; one compilation for each set of conditions."""

    def __init__(self, schema: Schema, conditions: Sequence[Condition], time: tuple[float, float] | None,
                 parameters: Sequence[Parameter]) -> None:
        self.schema, self.conditions, self.time, self.parameters = schema, conditions, time, parameters
        self.rng = np.random.default_rng(0)
        self._compiled: dict[Which, Any] = {}

    def at(self, points: np.ndarray, time: float | np.ndarray | None = None) -> np.ndarray:
        """Append a time to spatial points, the one given or random ones, and values of the parameters."""
        if self.time is not None:
            start, end = self.time
            points = at_times(points, self.rng.uniform(start, end, (len(points), 1)) if time is None else time)
        return np.asarray(append(self.parameters, points))

    def rows(self, which: Which, x: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A (k, r, m), g (k, r) of the conditions `which` at points x (k, c) with normals n (k, d)."""
        if which not in self._compiled:
            self._compiled[which] = jit_simply(jax.vmap(
                lambda x, n: stacked_rows([self.conditions[c] for c in which], self.schema, x, n)))
        size = -(-len(x) // 64) * 64  # few sizes, few compilations
        pad = [(0, size - len(x)), (0, 0)]
        a, g = self._compiled[which](np.pad(x, pad, mode="edge"), np.pad(n, pad, mode="edge"))
        return np.asarray(a)[: len(x)], np.asarray(g)[: len(x)]

    def initial_rows(self, which: Which, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        assert self.time is not None
        return self.rows(which, self.at(points, self.time[0]), np.zeros((len(points), self.schema.dim)))


def stacked_rows(conditions: Sequence[Condition], schema: Schema, x: Array, n: Array) -> tuple[Array, Array]:
    """A (r, m) and g (r,) of several conditions at one point."""
    parts = [condition.matrix(schema, x, n) for condition in conditions]
    return jnp.concatenate([a for a, _ in parts]), jnp.concatenate([g for _, g in parts])


def group_samples(group: Group, each: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Points of every piece of a group and the domain's normals there, (k · each, d)."""

    @jit_simply
    def sample(params: Array, sign: Array, keys: Array) -> tuple[Array, Array]:
        def one(p: Array, sign: Array, key: Array) -> tuple[Array, Array]:
            points = group.kind.sample(p, key, each)
            return points, sign * jax.vmap(lambda x: group.kind.normal(p, x))(points)

        return jax.vmap(one)(params, sign, keys)

    points, normals = sample(group.params, group.sign, jax.random.split(jax.random.key(0), len(group.index)))
    return np.concatenate(np.asarray(points)), np.concatenate(np.asarray(normals))


def _unit(a: np.ndarray) -> np.ndarray:
    norm = np.linalg.norm(a, axis=-1, keepdims=True)
    return a / np.where(norm > 0, norm, 1)


def _rank(a: np.ndarray) -> np.ndarray:
    """Ranks of a stack of matrices, (k, r, m) → (k,), rows scaled to unit size."""
    return np.linalg.matrix_rank(_unit(a), tol=1e-6) if a.size else np.zeros(a.shape[:-2], int)


def _check_rows(a: np.ndarray, g: np.ndarray, where: str, names: Sequence[str]) -> None:
    if not np.isfinite(a).all():
        raise ValueError(f"the left side of a condition {where} is not a finite number; check its coefficients")
    if not np.isfinite(g).all():
        raise ValueError(f"the data of a condition {where} is not a finite number (NaN or infinity); check rhs")
    if (np.linalg.norm(a, axis=-1) < 1e-12).any():
        raise ValueError(f"a condition {where} ({', '.join(names)}) has all coefficients zero (a = b = 0), so it "
                         f"says nothing; remove it or give it a coefficient")
    if (_rank(a) < a.shape[1]).any():
        raise ValueError(f"the conditions {where} ({', '.join(names)}) are linearly dependent; "
                         f"keep only rows that say something new")


def _check_initial(probe: _Probe, domain: Shape, start: Which) -> None:
    if not start:
        return
    a, g = probe.initial_rows(start, np.asarray(domain.sample(jax.random.key(1), 64)))
    _check_rows(a, g, "at the start of time", [probe.conditions[c].name for c in start])


def _check_start(probe: _Probe, start: Which, which: Which, name: str, points: np.ndarray,
                 normals: np.ndarray) -> np.ndarray:
    """Which rows on a boundary the initial condition already fixes; their data must agree with it."""
    if not start:
        return np.zeros(0, bool)
    assert probe.time is not None
    x = probe.at(points, probe.time[0])
    a0, g0 = probe.initial_rows(start, points)
    a, g = probe.rows(which, x, normals)
    known = a0.shape[1]
    bound = np.array([
        bool((_rank(np.concatenate([a0, a[:, i : i + 1]], axis=1)) == known).all()) for i in range(a.shape[1])
    ])
    free = np.concatenate([a0, a[:, ~bound]], axis=1)
    if (_rank(free) < free.shape[1]).any():
        raise ValueError(f"the conditions on '{name}' and the initial condition are linearly dependent; "
                         f"state them so that each row adds something")
    expected = np.einsum("krm,kms,ks->kr", a[:, bound], np.linalg.pinv(a0), g0)
    miss = np.abs(expected - g[:, bound]).max(axis=1, initial=0.0)
    worst = int(miss.argmax())
    if miss[worst] > _TOLERANCE * max(1.0, np.abs(g).max()):
        raise ValueError(f"the data on '{name}' and the initial condition disagree by {miss[worst]:.3g} at "
                         f"{_point(x[worst])}; make them equal at the start of time, or use a Robin condition")
    return bound


def _check_corners(probe: _Probe, of_piece: Sequence[Which], pieces: Sequence[Piece], touching: np.ndarray,
                   bound: np.ndarray, domain: Shape, start: Which, apart: Sequence[np.ndarray]) -> None:
    """Where pieces meet, some state must satisfy the conditions of all of them, for every time."""
    done: set[tuple[Any, ...]] = set()
    for i, j in np.argwhere(np.triu(touching)).tolist():
        for point in touching_points(pieces[i], pieces[j], domain):
            near = [k for k in np.flatnonzero(touching[i] | touching[j]).tolist()
                    if np.linalg.norm(_feet(pieces[k], point[None])[0] - point) < 1e-7 * domain.size]
            meeting = tuple(sorted({i, j, *near}))
            where = (meeting, *np.round(point / domain.size, 7))
            if where not in done and not any(np.linalg.norm(at - point) < 1e-7 * domain.size for at in apart):
                done.add(where)
                _check_corner(probe, of_piece, pieces, meeting, bound, point, start)


def _check_corner(probe: _Probe, of_piece: Sequence[Which], pieces: Sequence[Piece], meeting: Which,
                  bound: np.ndarray, point: np.ndarray, start: Which) -> None:
    names = " and ".join(dict.fromkeys(f"'{pieces[k].name}'" for k in meeting))
    times: list[Any] = [None]
    if probe.time is not None:  # the ends, and instants that are no simple fractions
        times = (probe.time[0] + (probe.time[1] - probe.time[0]) * _INSTANTS).tolist()
        times += _eventful(probe, of_piece, pieces, meeting, point)
    repeated = np.repeat(point[None], PARAMETER_VALUES if probe.parameters else 1, axis=0)
    x = np.concatenate([probe.at(repeated, time) for time in times])
    parts = []
    for k in meeting:
        normal = _normal(pieces[k], point)
        parts.append(probe.rows(of_piece[k], x, np.broadcast_to(normal, (len(x), len(normal)))))
    early = np.concatenate([bound[k, : a.shape[1]] for k, (a, _) in zip(meeting, parts)])
    everything = np.concatenate([a for a, _ in parts], axis=1)
    data = np.concatenate([g for _, g in parts], axis=1)
    free = np.eye(everything.shape[2])
    if start:
        a0 = probe.initial_rows(start, point[None])[0][0]
        free = free - np.linalg.pinv(a0) @ a0
    for at, a, g in zip(x, everything, data):
        size = np.linalg.norm(a, axis=1)
        a, g = a / size[:, None], g / size
        # What the corrections of free rows cannot reach must follow from the rows that the start fixes.
        for rows, reach in ((early, np.eye(len(free))), (~early, free)):
            z = _left_null(a[rows] @ reach)
            known = a[early] if rows is not early else a[:0]
            y = z @ a[rows] @ np.linalg.pinv(known) if len(known) else np.zeros((len(z), 0))
            rest = np.abs(z @ a[rows] - (y @ known if len(known) else 0)).max(initial=0.0)
            if rest > 1e-6:
                raise ValueError(f"the conditions on {names} and the initial condition are linearly dependent at their "
                                 f"corner {_point(at)}; state them so that each row adds something")
            miss = np.abs(z @ g[rows] - (y @ g[early] if len(known) else 0)).max(initial=0.0)
            if miss > _TOLERANCE * max(1.0, np.abs(g).max()):
                worst = np.linalg.lstsq(a, g, rcond=1e-8)[0]
                gap = max(miss, float(np.abs((a @ worst - g) * size).max()) * 2)
                said = f"the data on {names} disagree by {gap:.3g} at their corner {_point(at)}; make them equal there"
                meant = probe.time is None and miss > MEANT * max(1.0, np.abs(g).max())
                if meant and not probe.parameters and len(parts) == 2 == len(point) and (
                        (jump := _jump(*((a[0], g[0]) for a, g in parts))) is not None):
                    raise DataApart(said, point, (meeting[0], meeting[1]), jump)
                raise ValueError(said)


def _jump(one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]) -> np.ndarray | None:
    """By how much the state (m,) jumps from one side to the other, where their rows A q = g say the same of it."""
    (a, g), (b, h) = one, other
    first, second = np.linalg.pinv(a), np.linalg.pinv(b)
    if np.abs(first @ a - second @ b).max() > 1e-9:
        return None
    return (second @ h - first @ g)[: a.shape[1]]


def _eventful(probe: _Probe, of_piece: Sequence[Which], pieces: Sequence[Piece], meeting: Which,
              point: np.ndarray) -> list[float]:
    """Instants at which data at a corner are largest or smallest: there those agree least that agree at others."""
    assert probe.time is not None
    times = np.linspace(*probe.time, _MOMENTS)
    x = probe.at(np.repeat(point[None], len(times), axis=0), times[:, None])
    found: set[int] = set()
    for k in meeting:
        normal = _normal(pieces[k], point)
        _, g = probe.rows(of_piece[k], x, np.broadcast_to(normal, (len(x), len(normal))))
        for row in g.T[np.ptp(g, axis=0) > 0]:
            found |= {int(row.argmax()), int(row.argmin())}
    return times[sorted(found)].tolist()


def _left_null(a: np.ndarray) -> np.ndarray:
    """Unit vectors z with z a = 0, (k, rows)."""
    if not a.size:
        return np.zeros((0, len(a)))
    u, s, _ = np.linalg.svd(a)
    rank = int((s > 1e-6).sum())
    return u[:, rank:].T


def _point(x: Sequence[float] | np.ndarray) -> str:
    return "(" + ", ".join(f"{v:.4g}" for v in x) + ")"
