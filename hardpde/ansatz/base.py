"""Ansätze: how network outputs become a state that satisfies the conditions.

Both ansätze are affine in the network outputs,

    q(x) = c(x) + Σ_s M_s(x) N_s(y_s(x)),

with c, M_s and y_s known functions of the point alone. They are evaluated once for each set of points,
with their derivatives, so that training differentiates networks only (`combine`).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.geometry import Kind, Nearby, Piece, stack
from hardpde.geometry.algorithms.stacking import safe_root
from hardpde.geometry.base import Bounds
from hardpde.networks.tiles import Listed
from hardpde.problem.conditions import Condition
from hardpde.problem.fields import Schema
from hardpde.problem.layout import Layout, stacked_rows
from hardpde.support.messages import first_line

SAMPLES = 400  # points of a piece that stand for all
_TINY = 1e-60
_ROUNDING = 1e-28  # squared size of what rounding leaves of a row that others imply


class Term(NamedTuple):
    """Network evaluations of one kind, as jets: `inputs` (f, 1 + c, n) and `matrix` (m, o, 1 + c, n).

    A stack of k networks has matrices (k, m, o, 1 + c, n). Jets of second order have 2 + c slots. With `dual`,
    derivatives of the inputs along the normal, the matrix acts on the outputs and their normal derivatives (2 o).
    Without a matrix the outputs are the state.
    """

    inputs: Array
    matrix: Any
    dual: Array | None = None


class Batch(NamedTuple):
    """A set of points with all that an ansatz needs there; jets: value, then derivatives by coordinate, then the
    Laplacian where the problem is of second order.

    Points come last in every array but x. The first points have corrections: term s > 0 of the exact ansatz
    belongs to the first points only. `penalised` are the points of each penalty, with `data` that its rows need
    there. `weights` are those of the terms of the loss, the equations' first; None: those that the penalties state.
    """

    x: Array  # (n, c)
    offset: Any  # (m, 1 + c, n)
    terms: tuple[Any, ...]
    scale: Any  # (e, n) factors of the residuals
    penalised: tuple["Batch", ...] = ()
    data: Any = None
    weights: Array | None = None


def laplacian_over(schema: Schema, jet: Array) -> int:
    """How many coordinates the Laplacian at the end of a jet (…, slots, n) sums over; 0 if there is none."""
    return schema.dim if jet.shape[-2] == schema.coordinates + 2 else 0


def unlisted(batch: Batch) -> Batch:
    """The same with all networks at all points, so that every point can be taken by itself."""
    inputs = batch.terms[0].inputs
    return batch._replace(terms=tuple(Term(inputs, term.everywhere()) if isinstance(term, Listed) else term
                                      for term in batch.terms))


def combine(offset: Array, terms: Sequence[Term | Listed], outputs: Sequence[Array], second: int = 0) -> Array:
    """The state and its derivatives, a jet (m, 1 + c, n), from the networks' output jets (o, 1 + c, n).

    second: as in `MLP.jet`; then Δ(M N) = ΔM N + 2 Σ_k ∂_k M ∂_k N + M ΔN takes the last slot.
    """
    state = offset
    for term, out in zip(terms, outputs):
        if isinstance(term, Listed):
            part = term.collected((_acted_on_cpu if _on_cpu() else _acted)(term.matrix, out, second))
        else:
            part = _acted(term.matrix, out, second)
            part = part if part.ndim == state.ndim else part.sum(0)
        points = part.shape[-1]
        state = state + part if points == state.shape[-1] else state.at[..., :points].add(part)
    return state


def _acted(matrix: Array, out: Array, second: int) -> Array:
    """The jets (…, m, slots, n) of M N: sums of products, not batched matrix products, as the matrices are tiny and
    this fuses."""
    out = out[..., None, :, :, :]
    value = _short_sum(matrix[..., :1, :] * out[..., :1, :], -3)
    tangents = _short_sum(matrix[..., 1:, :] * out[..., :1, :] + matrix[..., :1, :] * out[..., 1:, :], -3)
    if second:
        space = slice(1, 1 + second)
        mixed = 2 * _short_sum(matrix[..., space, :] * out[..., space, :], -3).sum(-2)
        tangents = tangents.at[..., -1, :].add(mixed)
    return jnp.concatenate([value, tangents], axis=-2)


_acted_on_cpu = jax.custom_vjp(_acted, nondiff_argnums=(2,))


def _acted_forward(matrix: Array, out: Array, second: int) -> tuple[Array, Array]:
    return _acted(matrix, out, second), matrix


def _acted_backward(second: int, matrix: Array, g: Array) -> tuple[None, Array]:
    """By the outputs alone; the matrices are known. JAX would sum over m, which takes ten times longer on a CPU."""
    g = g[..., None, :, :]
    value = _short_sum(_short_sum(matrix * g, -4), -2)[..., None, :]
    tangents = _short_sum(matrix[..., :1, :] * g[..., 1:, :], -4)
    if second:
        mixed = 2 * _short_sum(matrix[..., 1 : 1 + second, :] * g[..., -1:, :], -4)
        tangents = tangents.at[..., :second, :].add(mixed)
    return None, jnp.concatenate([value, tangents], axis=-2)


_acted_on_cpu.defvjp(_acted_forward, _acted_backward)


def _short_sum(array: Array, axis: int) -> Array:
    """The sum along a short axis; on a CPU one by one, as XLA takes twenty times longer to reduce such an array."""
    if not _on_cpu():
        return array.sum(axis)
    return sum(jnp.split(array, array.shape[axis], axis)).squeeze(axis)  # type: ignore[union-attr]


def _on_cpu() -> bool:
    return jax.default_backend() == "cpu"


# ---------------------------------------------------------------- pieces by number


class Pieces:
    """Closest points and condition rows of piece number i, for a traced i."""

    def __init__(self, layout: Layout, schema: Schema, conditions: Sequence[Condition], bounds: Bounds):
        self.layout, self.schema = layout, schema
        self.nearby = Nearby(layout.pieces, layout.collar, bounds)
        self.groups = stack(layout.pieces)
        self.rows = layout.mask.shape[1]
        n = len(layout.pieces)
        self._group, self._member = np.zeros(n, int), np.zeros(n, int)
        for g, group in enumerate(self.groups):
            self._group[group.index], self._member[group.index] = g, np.arange(len(group.index))
        self._sign = np.array([-1.0 if piece.flip else 1.0 for piece in layout.pieces])
        self._sets = sorted(set(layout.conditions))
        self._set = np.array([self._sets.index(c) for c in layout.conditions], int)
        self._conditions = conditions

    def ratios(self, x: Array) -> tuple[Array, Array]:
        """Numbers (k,) of the pieces near a point, −1 for none, and their squared distances over squared collars."""
        numbers, points = self.nearby.feet(x)
        found = self.squared(points, x) / (self.layout.widths(numbers, points) ** 2 + _TINY)
        return numbers, jnp.where(numbers < 0, jnp.inf, found)

    def squared(self, foot: Array, x: Array) -> Array:
        """Squared distances |foot − x|², 0 where only rounding keeps them apart."""
        squared = ((foot - x[: self.schema.dim]) ** 2).sum(-1)
        return jnp.where(squared < (1e-13 * self.layout.size) ** 2, 0.0, squared)

    def foot(self, i: Array, x: Array) -> tuple[Array, Array]:
        """The closest point of piece i (time kept) and the outward normal there."""
        space = x[: self.schema.dim]

        def branch(group):
            def evaluate(member):
                p = jnp.asarray(group.params)[member]
                foot = group.kind.closest(p, space)
                return foot, group.kind.normal(p, foot)

            return evaluate

        foot, normal = _switch(jnp.asarray(self._group)[i], [branch(g) for g in self.groups],
                               jnp.asarray(self._member)[i])
        return jnp.concatenate([foot, x[self.schema.dim :]]), jnp.asarray(self._sign)[i] * normal

    def equations(self, i: Array, x: Array, n: Array) -> tuple[Array, Array]:
        """A (r, m), g (r,) of piece i at a point, padded with zero rows."""

        def branch(which):
            def evaluate(x):
                a, g = stacked_rows([self._conditions[c] for c in which], self.schema, x, n)
                pad = self.rows - a.shape[0]
                return jnp.pad(a, ((0, pad), (0, 0))), jnp.pad(g, (0, pad))

            return evaluate

        return _switch(jnp.asarray(self._set)[i], [branch(s) for s in self._sets], x)


def _switch(index: Array, branches: list[Callable], operand):
    return branches[0](operand) if len(branches) == 1 else jax.lax.switch(index, branches, operand)


def _times(a: Array, b: Array) -> Array:
    """Product of small matrices (or with a vector) as a sum: it fuses, where a call to a library would not."""
    if b.ndim == 1:
        return (a * b).sum(-1)
    return (a[..., :, :, None] * b[..., None, :, :]).sum(-2)


def _inverse(matrix: Array) -> Array:
    """Inverse of a small symmetric matrix; closed forms where they are exact and fast."""
    size = matrix.shape[0]
    if size == 1:
        return 1 / matrix
    if size == 2:
        (a, b), (c, d) = matrix
        return jnp.array([[d, -b], [-c, a]]) / (a * d - b * c)
    return jnp.linalg.inv(matrix)


def right_inverse(a: Array, projector: Array, present: Array) -> Array:
    """D (m, r) with A D = I on the rows present and D in the range of the projector; absent rows give 0."""
    a = a * present[:, None]
    image = _times(projector, a.T)
    gram = _times(a, image) + jnp.diag(1 - present)
    return _times(image, _inverse(gram))


def _ranks(values: Array) -> Array:
    """Which place each of a few values takes when they are sorted; faster, for many points, than sorting them."""
    place = jnp.arange(values.size)
    before = (values < values[:, None]) | ((values == values[:, None]) & (place < place[:, None]))
    return before.sum(1)


# ---------------------------------------------------------------- the initial condition


class Start:
    """The initial condition A₀ q = g₀ as a base state q₀ = c + L N that satisfies it for any N."""

    def __init__(self, schema: Schema, conditions: Sequence[Condition], layout: Layout,
                 time: tuple[float, float] | None):
        self.schema, self.time = schema, time
        self.conditions = [conditions[i] for i in layout.initial]

    def rows(self, x: Array) -> tuple[Array, Array]:
        """A₀, g₀ at the point's place, at the start of time."""
        assert self.time is not None
        at = x.at[self.schema.dim].set(self.time[0])
        a, g = stacked_rows(self.conditions, self.schema, at, jnp.zeros(self.schema.dim))
        return a[:, : self.schema.size], g

    def projector(self, x: Array) -> Array:
        """Onto the states that the initial condition leaves alone."""
        identity = jnp.eye(self.schema.size)
        if not self.conditions:
            return identity
        a, _ = self.rows(x)
        return identity - _times(right_inverse(a, identity, jnp.ones(len(a))), a)

    def blend(self, x: Array, ramp: Array) -> tuple[Array, Array]:
        """c, L of q₀ = N + (1 − ramp) D₀ (−A₀ N) + D₀ g₀: equal to the data where the ramp is 0."""
        identity = jnp.eye(self.schema.size)
        if not self.conditions:
            return jnp.zeros(self.schema.size), identity
        a, g = self.rows(x)
        d = right_inverse(a, identity, jnp.ones(len(a)))
        return _times(d, g), identity - (1 - ramp) * _times(d, a)

    def fraction(self, x: Array) -> Array:
        """How much of the time has passed, in [0, 1]."""
        assert self.time is not None
        return (x[self.schema.dim] - self.time[0]) / (self.time[1] - self.time[0])


# ---------------------------------------------------------------- the exact ansatz


class Exact:
    """q(x) = q₀(x) + Σ_i D_i(x) [g_i − A_i q₀](x̄_i(x)), with q₀ the network after the initial condition.

    The mismatch r_i of piece i is taken at its closest point x̄_i. The corrections c = Σ_i D_i r_i at x are the
    minimum of |c|² + Σ_i ω_i/(1 − ω_i) |A_i c − r_i|², rows of A_i made orthonormal, where the weight ω_i falls
    from 1 on the piece to 0 at the end of its collar. On γ_i the i-th term weighs infinitely much, so that
    A_i q = g_i for any weights of the network, whatever the other pieces ask for; at corners all of them hold
    together, their rows independent or not. Far from others D_i is ω_i A_i⁺.
    """

    def __init__(self, problem, inputs: Callable[[Array], Array]):
        self.schema: Schema = problem.schema
        self.layout: Layout = problem.layout
        self.pieces = Pieces(self.layout, self.schema, problem.conditions, problem.domain.bounds)
        self.start = Start(self.schema, problem.conditions, self.layout, problem.time)
        self.look, self.views = inputs, problem.views
        self.ramp = problem.hints.ramp
        self.outputs = problem.hints.outputs
        self.guess = problem.guess if problem.hints.guess is not None else None
        self._mask = jnp.asarray(self.layout.mask, float)
        self._bound = jnp.asarray(self.layout.bound, float)
        self._any_bound = bool(self.layout.bound.any())
        self._slopes = jnp.asarray(self.layout.slopes, float)
        self.sloping = bool(self.layout.slopes.any())

    def active(self, x: Array, slots: int) -> tuple[Array, Array]:
        """The pieces whose collar holds x, nearest first, padded with −1 to `slots`; and how many there are."""
        if not self.layout.pieces:
            return jnp.full(slots, -1), jnp.array(0)
        numbers, ratio = self.pieces.ratios(x)
        rank = _ranks(ratio)
        marked = jnp.where(ratio < 1, numbers + 1, 0)
        ids = jnp.where(rank == jnp.arange(slots)[:, None], marked, 0).sum(1) - 1
        return ids, (ratio < 1).sum()

    def inputs(self, x: Array) -> Array:
        """What the network is given for a point, (v, f): with a mirror at two places, v = 2, else one."""
        return jnp.stack([self.look(view(x)) for view, _ in self.views])

    def base(self, x: Array) -> tuple[Array, Array]:
        """c (m,) and L (v, m, o) of q₀ = c + Σ_v L_v N_v at a point."""
        if not self.start.conditions:
            c, lift = self.start.blend(x, jnp.array(1.0))
        else:
            tau = self.start.fraction(x)
            c, lift = self.start.blend(x, safe_root(tau) if self.ramp == "root" else tau)
        if self.guess is not None:
            c = c + _times(lift, self.guess(x))
        lifts = []
        for view, signs in self.views:
            seen = lift * (signs / len(self.views))
            lifts.append(seen if self.outputs is None else _times(seen, jnp.asarray(self.outputs(view(x)))))
        return c, jnp.stack(lifts)

    def main(self, x: Array) -> tuple[Array, Array, Array]:
        """c (m,), M (v, m, o) and network inputs (v, f) of q₀ at x."""
        return (*self.base(x), self.inputs(x))

    def corrections(self, x: Array, ids: Array) -> tuple[Array, Array, Array, Array | None]:
        """c (m,), M (k, v, m, o), network inputs (k, v, f) that the k pieces `ids` (−1: none) add at x, and None.

        With conditions on normal derivatives M is (k, v, m, 2 o) and the last is the derivative of the inputs along
        the normals (k, v, f).
        """
        slots = jax.vmap(self._slot, (None, 0))(x, ids)
        c_foot, lift_foot = jax.vmap(self.base)(slots["foot"])
        c, matrices = jnp.zeros(self.schema.size), []
        for k, d in enumerate(self._right_inverses(x, slots)):
            c = c + _times(d, slots["g"][k] - _times(slots["a"][k], c_foot[k]))
            matrices.append(-_times(_times(d, slots["a"][k]), lift_foot[k]))
        matrix, inputs = jnp.stack(matrices), jax.vmap(self.inputs)(slots["foot"])
        if not self.sloping:
            return c, matrix, inputs, None
        more, steep, dual = jax.vmap(self._slope)(slots)
        return c + more.sum(0), jnp.concatenate([matrix, jnp.zeros_like(matrix)], axis=-1) + steep, inputs, dual

    def _slope(self, slot: dict[str, Array]) -> tuple[Array, Array, Array]:
        """What the rows of one piece on normal derivatives add: c (m,), M (v, m, 2 o), derivatives of the inputs.

        −ω φ B⁺ [g − A q₁ − B ∂ₙq₀](x̄), with q₁ the state after the corrections of the piece's other rows: it
        vanishes on the piece, and its normal derivative there is B⁺[…].
        """
        a, b, g, foot = slot["a"], slot["b"], slot["g"], slot["foot"]
        normal = jnp.concatenate([slot["normal"], jnp.zeros(foot.size - slot["normal"].size)])
        (c, lift), (dc, dlift) = jax.jvp(self.base, (foot,), (normal,))
        others = slot["mask"] * (1 - slot["slopes"])
        values = right_inverse(a, jnp.eye(self.schema.size), others)
        after = jnp.eye(self.schema.size) - _times(values, a)  # q₁ = after q₀ + values g
        gain = -slot["weight"] * slot["height"] * right_inverse(b, jnp.eye(self.schema.size), slot["slopes"])
        known = g - _times(a, _times(after, c) + _times(values, g * others)) - _times(b, dc)
        matrix = jnp.concatenate([_times(a, _times(after, lift)) + _times(b, dlift), _times(b, lift)], axis=-1)
        return _times(gain, known), -_times(gain, matrix), jax.jvp(self.inputs, (foot,), (normal,))[1]

    def coefficients(self, x: Array, ids: Array) -> tuple[Array, Array, Array]:
        """c (m,), M (s, m, o) and network inputs (s, f) of the whole ansatz at x, s = (1 + k) v."""
        c, matrix, inputs = self.main(x)
        more, matrices, foot_inputs, _ = self.corrections(x, ids)
        return (c + more, jnp.concatenate([matrix, *matrices]), jnp.concatenate([inputs, *foot_inputs]))

    def _slot(self, x: Array, i: Array) -> dict[str, Array]:
        """What one active piece contributes: its foot, rows and weight ω, and 1 − ω without cancellation."""
        number = jnp.maximum(i, 0)
        foot, normal = self.pieces.foot(number, x)
        # On the piece the foot is the point itself, to the last digit: the state may be steep there.
        same = self.pieces.squared(foot[: self.schema.dim], x) == 0
        foot = foot + jnp.where(same, jax.lax.stop_gradient(x - foot), 0.0)
        a, g = self.pieces.equations(number, foot, normal)
        space = foot[: self.schema.dim]
        width = self.layout.widths(number, space)
        squared = self.pieces.squared(space, x)
        on = squared == 0
        s = squared / (width**2 + _TINY)
        s = jnp.where((s < 1) & (i >= 0), s, 1.0)
        # Behind the piece, as seen round a sharp end of it or through a thin hole, the weight is zero.
        front = ((space - x[: self.schema.dim]) * normal).sum() / jnp.sqrt(jnp.where(on, 1.0, squared))
        if any(two_sided := [piece.two_sided for piece in self.layout.pieces]):
            front = jnp.where(jnp.asarray(two_sided)[number], jnp.abs(front), front)
        z = jnp.where(on, 0.0, jnp.clip(1 - front, 0.0, 1.0))
        behind, weight = z * z * (3 - 2 * z), (1 - s) ** 3
        return {"foot": foot, "normal": normal, "a": a[:, : self.schema.size], "b": a[:, self.schema.size :], "g": g,
                "weight": weight * (1 - behind), "fade": s * (3 - 3 * s + s**2) + weight * behind,
                "height": ((space - x[: self.schema.dim]) * normal).sum(),
                "mask": self._mask[number], "bound": self._bound[number], "slopes": self._slopes[number]}

    def _right_inverses(self, x: Array, slots: dict[str, Array]) -> list[Array]:
        """D_k (m, r) of every slot, row by row, nearest piece first.

        Recursive least squares: c ← c + K (r − a c) for one row a after another, with the covariance F Fᵀ in
        factored form (Potter), so that what a row has fixed stays fixed to rounding. Rows that the initial
        condition fixes come first and may move everything; the others leave the initial rows alone.
        """
        number, rows = slots["mask"].shape
        mask = slots["mask"] * (1 - slots["slopes"])
        gains = jnp.zeros((self.schema.size, number * rows))
        phases = [(self.start.projector(x), mask * (1 - slots["bound"]))]
        if self._any_bound:
            phases.insert(0, (jnp.eye(self.schema.size), mask * slots["bound"]))
        for metric, present in phases:
            factor = metric
            for k in range(number):
                units, mix = _orthonormal(slots["a"][k], metric, present[k])
                weight, fade = slots["weight"][k], slots["fade"][k] + 1e-30
                for i in range(rows):
                    f = _times(factor.T, units[i])
                    size = (f * f).sum()
                    f = jnp.where(size > _ROUNDING, f, 0.0)  # a row that others imply adds nothing
                    total = weight * jnp.where(size > _ROUNDING, size, 0.0) + fade
                    gain = weight / total * _times(factor, f)
                    gains = gains - gain[:, None] * _times(gains.T, units[i])
                    gains = gains.at[:, k * rows : (k + 1) * rows].add(gain[:, None] * mix[i])
                    if k < number - 1 or i < rows - 1:
                        factor = factor - gain[:, None] * f / (1 + jnp.sqrt(fade / total))
        return [gains[:, k * rows : (k + 1) * rows] for k in range(number)]


def _orthonormal(a: Array, metric: Array, present: Array) -> tuple[Array, Array]:
    """W A and W (r, r) so that the rows present are orthonormal under the metric; absent rows are 0."""
    rows: list[Array] = []
    mixes: list[Array] = []
    identity = jnp.eye(len(a))
    for i in range(len(a)):
        row, mix = a[i] * present[i], identity[i] * present[i]
        for earlier, other in zip(rows, mixes):
            along = (row * _times(metric, earlier)).sum()
            row, mix = row - along * earlier, mix - along * other
        size = jnp.sqrt(jnp.where(present[i] > 0, (row * _times(metric, row)).sum(), 1.0))
        rows.append(row / size)
        mixes.append(mix / size)
    return jnp.stack(rows), jnp.stack(mixes)


def jets(function: Callable, x: Array, differentiate: bool = True, second: int = 0, coordinates: int | None = None):
    """Value and derivatives of a function of one point: every output gets a last axis 1 + c, or 1 for values.

    coordinates: the derivatives are by so many, the first ones; by all unless stated.
    second: so many coordinates, the first ones, make a Laplacian, in one more slot; 0: none.
    """
    if not differentiate:
        return jax.tree.map(lambda v: v[..., None], function(x))

    def along(e):
        return jax.jvp(function, (x,), (e,))

    def twice(e):
        return jax.jvp(lambda y: jax.jvp(function, (y,), (e,))[1], (x,), (e,))[1]

    directions = jnp.eye(coordinates or x.size, x.size)
    value, tangents = jax.vmap(along, out_axes=(None, -1))(directions)
    parts = [jax.tree.map(lambda v: v[..., None], value), tangents]
    if second:
        bends = jax.vmap(twice, out_axes=-1)(directions[:second])
        parts.append(jax.tree.map(lambda b: b.sum(-1, keepdims=True), bends))
    return jax.tree.map(lambda *slots: jnp.concatenate(slots, axis=-1), *parts)


# ---------------------------------------------------------------- the paper's ansatz


def softmin(values: Array, beta: float) -> Array:
    """A smooth minimum: −LogSumExp(−β y)/β (paper, appendix A.8.1)."""
    return -jax.nn.logsumexp(-beta * values) / beta


class Family(NamedTuple):
    """k boundaries alike: faces of the same kinds under the same conditions, so that one `vmap` serves them."""

    kinds: tuple[Kind, ...]  # of the faces of one boundary
    params: tuple[np.ndarray, ...]  # (k, p) for each face
    sign: np.ndarray  # (k, faces) −1 where the solid was subtracted
    conditions: tuple[int, ...]
    rows: int
    name: str

    def distance(self, params, sign, space: Array, beta: float) -> tuple[Array, Array]:
        """l of one boundary, blurred by SoftMin over its faces; and the normal of the nearest face."""
        feet = [kind.closest(p, space) for kind, p in zip(self.kinds, params)]
        normals = jnp.stack([s * kind.normal(p, foot) for s, kind, p, foot in zip(sign, self.kinds, params, feet)])
        signed = jnp.stack([n @ (foot - space) for n, foot in zip(normals, feet)])
        if len(feet) == 1:
            return signed[0], normals[0]
        squared = jnp.stack([((foot - space) ** 2).sum() for foot in feet])
        return softmin(signed, beta), normals[jnp.argmin(squared)]


class Block(NamedTuple):
    """Fields that conditions bind together; the paper builds each block's ansatz separately."""

    components: tuple[int, ...]  # of the state
    families: tuple[Family, ...]


class Paper:
    """q = l NN_main + Σ_i exp(−α_i l_i) (B_i NN_i + A_i⁺ g_i), then u ← u(1 − e^{−β_t t}) + f e^{−β_t t}.

    Equations (10)–(12) and appendices A.2, A.6 of Liu et al., as printed. With basis="low-dimensional" the
    null spaces of A.2 replace B = I − ññᵀ for d = 1, 2. Distances and normals stated in the hints replace
    those of the geometry.
    """

    def __init__(self, problem, beta_s: float, beta_t: float, softmin_beta: float, basis: str):
        if beta_s <= 0 or beta_t <= 0 or softmin_beta <= 0:
            raise ValueError(f"beta_s = {beta_s:g}, beta_t = {beta_t:g} and softmin_beta = {softmin_beta:g} "
                             f"must be positive")
        if basis not in ("projection", "low-dimensional"):
            raise ValueError(f"basis is '{basis}'; it is 'projection' or 'low-dimensional'")
        self.schema: Schema = problem.schema
        self.conditions = problem.conditions
        self.beta_s, self.beta_t, self.softmin_beta, self.basis = beta_s, beta_t, softmin_beta, basis
        self.start = Start(self.schema, problem.conditions, problem.layout, problem.time)
        self.stated_distances, self.stated_normals = problem.hints.distances, problem.hints.normals
        _check_stated(problem)
        self.blocks = _blocks(problem)
        self.gaps = [self._gaps(problem, block) for block in self.blocks]
        self.subnetworks = self._subnetworks()

    def distances(self, family: Family, x: Array) -> tuple[Array, Array]:
        """l (k,) and normals (k, d) of a family's boundaries at one point."""
        space = x[: self.schema.dim]
        distance, normal = self.stated_distances.get(family.name), self.stated_normals.get(family.name)
        if distance and normal:  # then the geometry, which may be costly, is not needed
            return jnp.reshape(distance(x), 1), jnp.reshape(normal(x), (1, -1))
        l, normals = jax.vmap(lambda params, sign: family.distance(params, sign, space, self.softmin_beta))(
            tuple(map(jnp.asarray, family.params)), jnp.asarray(family.sign))
        if distance:
            l = jnp.reshape(distance(x), 1)
        if normal:
            normals = jnp.broadcast_to(jnp.asarray(normal(x)), normals.shape)
        return l, normals

    def _gaps(self, problem, block: Block) -> list[np.ndarray]:
        """The least l_i on the block's other boundaries, so that α_i = β_s / gap (equation 12); ∞ if there are none."""
        families = block.families
        offsets = self._offsets(block)
        owners = np.concatenate([np.arange(len(family.sign)) + offset
                                 for family, offset in zip(families, offsets) for _ in family.kinds])

        @jax.jit
        def nearest(key):
            samples = [jax.vmap(lambda p, kind=kind: kind.sample(p, key, SAMPLES))(jnp.asarray(p))
                       for family in families for kind, p in zip(family.kinds, family.params)]
            x = _timed(problem, jnp.concatenate([s.reshape(-1, self.schema.dim) for s in samples]))

            def least(before, piece):  # a piece at a time: there may be a thousand
                x, owner = piece
                found = []
                for family, offset, known in zip(families, offsets, before):
                    l = jax.vmap(lambda x, family=family: self.distances(family, x)[0])(x).min(0)
                    own = owner == jnp.arange(len(l)) + offset
                    found.append(jnp.where(own, known, jnp.minimum(known, l)))
                return found, None

            start = [jnp.full(len(family.sign), jnp.inf) for family in families]
            return jax.lax.scan(least, start, (x.reshape(-1, SAMPLES, x.shape[-1]), jnp.asarray(owners)))[0]

        gaps = []
        for family, found in zip(families, nearest(jax.random.key(0))):
            least = np.asarray(found)
            if family.name in self.stated_distances and least.min() <= 0:
                raise ValueError(f"the stated distance of '{family.name}' is {least.min():.2g} on another boundary; "
                                 f"it must be positive away from '{family.name}'")
            gaps.append(least)
        return gaps

    @staticmethod
    def _offsets(block: Block) -> np.ndarray:
        return np.cumsum([0, *[len(family.sign) for family in block.families[:-1]]])

    def _subnetworks(self) -> list[tuple[int, list[tuple[int, int]], int]]:
        """Groups of sub-networks: (output size, their (block, family) numbers, how many networks).

        A condition that leaves nothing free needs none.
        """
        groups: dict[int, list[tuple[int, int]]] = {}
        for b, block in enumerate(self.blocks):
            for i, family in enumerate(block.families):
                free = len(block.components)
                if family.rows < free:
                    size = 1 if self._planar(block, family.rows) == 2 else free
                    groups.setdefault(size, []).append((b, i))
        return [(size, members, sum(len(self.blocks[b].families[i].sign) for b, i in members))
                for size, members in groups.items()]

    def _planar(self, block: Block, rows: int) -> int | None:
        """The size of the block if a basis of appendix A.2 applies (one row on 2 or 3 components)."""
        size = len(block.components)
        return size if self.basis == "low-dimensional" and rows == 1 and size in (2, 3) else None

    def coefficients(self, x: Array, betas: Any = None) -> tuple[Array, Array, list[Array]]:
        """c (m,), the main network's matrix (m, m), and for each group of sub-networks (k, m, o).

        betas: β_s and β_t in place of those stated.
        """
        m = self.schema.size
        beta_s, beta_t = (self.beta_s, self.beta_t) if betas is None else betas
        c, main = jnp.zeros(m), jnp.eye(m)
        subs: dict[tuple[int, int], Array] = {}
        for b, block in enumerate(self.blocks):
            index = jnp.asarray(block.components)
            measured = [self.distances(family, x) for family in block.families]
            every = jnp.concatenate([l for l, _ in measured])
            blur = every[0] if len(every) == 1 else softmin(every, self.softmin_beta)
            main = main.at[index, index].set(blur)
            for i, (family, (l, normals)) in enumerate(zip(block.families, measured)):
                weight = jnp.exp(-beta_s / jnp.asarray(self.gaps[b][i]) * l)
                known, basis = jax.vmap(lambda n, f=family, b=block: self._general(f, b, x, n))(normals)
                c = c.at[index].add((weight[:, None] * known).sum(0))
                subs[b, i] = jnp.zeros((len(l), m, basis.shape[-1])).at[:, index].set(weight[:, None, None] * basis)
        c, main, blend = self._start(x, c, main, beta_t)
        groups = [_times(blend, jnp.concatenate([subs[where] for where in members]))
                  for _, members, _ in self.subnetworks]
        return c, main, groups

    def _general(self, family: Family, block: Block, x: Array, normal: Array) -> tuple[Array, Array]:
        """The general solution on one boundary: A⁺ g (block,) and a basis B (block, o) of the null space."""
        a, g = stacked_rows([self.conditions[k] for k in family.conditions], self.schema, x, normal)
        a = a[:, jnp.asarray(block.components)]
        identity = jnp.eye(len(block.components))
        inverse = right_inverse(a, identity, jnp.ones(len(a)))
        planar = self._planar(block, len(a))
        if planar is None:
            return _times(inverse, g), identity - _times(inverse, a)
        n = a[0] / jnp.sqrt((a[0] ** 2).sum())
        if planar == 2:
            return _times(inverse, g), jnp.array([[n[1]], [-n[0]]])
        return _times(inverse, g), jnp.array([[0.0, -n[2], n[1]], [n[2], 0.0, -n[0]], [-n[1], n[0], 0.0]])

    def _start(self, x: Array, c: Array, main: Array, beta_t: float | Array) -> tuple[Array, Array, Array]:
        """The time blend (appendix A.6), applied after the boundaries, as printed."""
        if not self.start.conditions:
            return c, main, jnp.eye(self.schema.size)
        assert self.start.time is not None
        fade = jnp.exp(-beta_t * (x[self.schema.dim] - self.start.time[0]))
        a, g = self.start.rows(x)
        d = right_inverse(a, jnp.eye(self.schema.size), jnp.ones(len(a)))
        blend = jnp.eye(self.schema.size) - fade * _times(d, a)
        return _times(blend, c) + fade * _times(d, g), _times(blend, main), blend


def _blocks(problem) -> list[Block]:
    """Components that share a boundary condition belong together.

    Pieces of a body with the same conditions, whatever their names, are one boundary, and so are all pieces
    of a name whose distance is stated.
    """
    layout: Layout = problem.layout
    stated, own_normals = problem.hints.distances, problem.hints.normals
    alike = _alike(problem)
    parent = list(range(problem.schema.size))

    def root(k: int) -> int:
        while parent[k] != k:
            k = parent[k]
        return k

    columns: dict[int, tuple[set[int], int]] = {}
    for piece, which in zip(layout.pieces, layout.conditions):
        for c in which:
            if c in columns:
                continue
            columns[c] = _columns(problem, piece, problem.conditions[c])
            for k in columns[c][0]:
                parent[root(k)] = root(min(columns[c][0]))
    boundaries: dict[tuple, list[Piece]] = {}
    for piece, which in zip(layout.pieces, layout.conditions):
        by_root: dict[int, tuple[int, ...]] = {}
        for c in which:
            r = root(min(columns[c][0]))
            by_root[r] = (*by_root.get(r, ()), alike[c])
        name = piece.name if piece.name in (*stated, *own_normals) else ""
        for r, group in by_root.items():
            boundaries.setdefault((r, -1 if name in stated else piece.body, group, name), []).append(piece)
    for i, j in zip(*np.nonzero(layout.touching)):
        one, two = layout.pieces[i], layout.pieces[j]
        for r in {r for r, *_ in boundaries}:
            owners = [next((key for key, members in boundaries.items() if key[0] == r and piece in members), None)
                      for piece in (one, two)]
            if None not in owners and owners[0] != owners[1]:
                raise ValueError(f"the paper's ansatz needs boundaries that do not touch, and '{one.name}' touches "
                                 f"'{two.name}'; use --method exact")
    families: dict[int, dict[tuple, list[list[Piece]]]] = {}
    for (r, _, group, name), pieces in boundaries.items():
        key = (group, tuple(piece.kind for piece in pieces), name)
        families.setdefault(r, {}).setdefault(key, []).append(pieces)
    return [Block(tuple(k for k in range(problem.schema.size) if root(k) == r),
                  tuple(Family(kinds, tuple(np.array([b[f].params for b in bodies]) for f in range(len(kinds))),
                               np.array([[-1.0 if piece.flip else 1.0 for piece in b] for b in bodies]), group,
                               sum(columns[c][1] for c in group), bodies[0][0].name)
                        for (group, kinds, _), bodies in members.items()))
            for r, members in families.items()]


def _columns(problem, piece: Piece, condition: Condition) -> tuple[set[int], int]:
    """Which components of the state a condition involves on a piece, and how many rows it has."""
    at = piece.sample(jax.random.key(0), 4)
    normals = jax.vmap(piece.normal)(at)
    at = _timed(problem, at)
    a, _ = jax.vmap(lambda x, n: condition.matrix(problem.schema, x, n))(at, normals)
    used = np.nonzero(np.abs(np.asarray(a)).max(axis=(0, 1)) > 1e-12)[0]
    if (used >= problem.schema.size).any():
        raise ValueError(f"the paper's ansatz needs the gradient as a field for '{condition.name}' on "
                         f"'{condition.on}'; state gradients={{…}} in the problem, or use --method exact")
    return {int(k) for k in used}, a.shape[1]


def _alike(problem) -> dict[int, int]:
    """For each condition on a boundary the first one that says the same, whatever boundary it is on."""
    pieces = problem.layout.pieces
    if not pieces:
        return {}
    points = [piece.sample(jax.random.key(k), 8) for k, piece in enumerate(pieces)]
    normals = jnp.concatenate([jax.vmap(piece.normal)(at) for piece, at in zip(pieces, points)])
    x = _timed(problem, jnp.concatenate(points))
    said: dict[int, list[np.ndarray]] = {}
    alike = {}
    for c in sorted({c for which in problem.layout.conditions for c in which}):
        rows = jax.vmap(lambda x, n, c=problem.conditions[c]: c.matrix(problem.schema, x, n))(x, normals)
        said[c] = [np.asarray(part) for part in rows]
        alike[c] = next(k for k in said if k == c or all(map(np.array_equal, said[k], said[c])))
    return alike


def _timed(problem, points: Array) -> Array:
    """Points of space as points of the problem: at instants all over its time, with all values of its parameters."""
    return problem.everywhen(points)


def _check_stated(problem) -> None:
    """Stated distances are numbers that vanish on their boundary, stated normals its outward unit normals."""
    d, size = problem.schema.dim, problem.domain.size
    for name in (*problem.hints.distances, *problem.hints.normals):
        boundary = problem.boundaries[name]
        points = boundary.sample(jax.random.key(6), 200)
        x, true = _timed(problem, points), jax.jit(jax.vmap(boundary.normal))(points)
        if name in problem.hints.distances:
            l = _sampled(problem.hints.distances[name], x, (), f"the stated distance of '{name}'")
            if not np.abs(l).max() <= 0.05 * size:
                raise ValueError(f"the stated distance of '{name}' is {np.abs(l).max():.2g} on '{name}' itself; "
                                 f"it must vanish there")
        if name in problem.hints.normals:
            n = _sampled(problem.hints.normals[name], x, (d,), f"the stated normal of '{name}'")
            check_unit(n, name)
            if (n * np.asarray(true)).sum(1).mean() < 0:
                raise ValueError(f"the stated normals of '{name}' point into the domain; they must point out of it")


def check_unit(normals: np.ndarray, name: str) -> None:
    """Normals (n, d) sampled on a boundary must have length one."""
    length = np.sqrt((normals**2).sum(1))
    worst = length[np.argmax(np.abs(length - 1))]
    if not abs(worst - 1) <= 1e-6:
        raise ValueError(f"the stated normals of '{name}' have length {worst:.3g} on it; scale them to length one, as "
                         f"extend(…, unit=True) does")


def _sampled(function: Callable, x: Array, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Values (n, *shape) of a user's function of the point; a fault is one sentence."""
    wanted = f"a vector of {shape[0]} numbers" if shape else "one number"
    try:
        values = np.asarray(jax.vmap(lambda x: jnp.asarray(function(x), float))(x))
    except Exception as error:
        raise ValueError(f"{what} cannot be evaluated: {first_line(error)}") from None
    if values.shape[1:] != shape:
        raise ValueError(f"{what} has shape {values.shape[1:]} at a point; it must be {wanted}")
    if not np.isfinite(values).all():
        raise ValueError(f"{what} is not finite on the boundary; check it for NaN")
    return values
