"""The exact ansatz: every condition holds for any weights of the network."""

from collections.abc import Callable
from copy import copy
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from hardpde.ansatz.base import jets
from hardpde.ansatz.pieces import TINY, Pieces
from hardpde.ansatz.start import Start
from hardpde.geometry.algorithms.stacking import safe_root
from hardpde.problem.corner_jumps import corner_lift
from hardpde.problem.problem import Problem
from hardpde.support.matrices import right_inverse, times

_ROUNDING = 1e-28  # squared size of what rounding leaves of a row that others imply


def _ranks(values: Array) -> Array:
    """Which place each of a few values takes when they are sorted; faster, for many points, than sorting them."""
    place = jnp.arange(values.size)
    before = (values < values[:, None]) | ((values == values[:, None]) & (place < place[:, None]))
    return before.sum(1)


class Exact:
    """q(x) = q₀(x) + Σ_i D_i(x) [g_i − A_i q₀](x̄_i(x)), with q₀ the network after the initial condition.

    The mismatch r_i of piece i is taken at its closest point x̄_i. The corrections c = Σ_i D_i r_i at x are the
    minimum of |c|² + Σ_i ω_i/(1 − ω_i) |A_i c − r_i|², rows of A_i made orthonormal, where the weight ω_i falls
    from 1 on the piece to 0 at the end of its collar. On γ_i the i-th term weighs infinitely much, so that
    A_i q = g_i for any weights of the network, whatever the other pieces ask for; at corners all of them hold
    together, their rows independent or not. Far from others D_i is ω_i A_i⁺.
    """

    def __init__(self, problem: Problem, inputs: Callable[[Array], Array], marched: bool = False, fades: float = 0.0):
        """marched: the network itself is zero at the start of time, so no ramp makes it so. fades: the time in which
        the initial state fades out of the ansatz then; 0: never."""
        self.schema = problem.schema
        self.layout = problem.layout
        self.pieces = Pieces(self.layout, self.schema, problem.pointwise, problem.domain.bounds)
        self.start = Start(self.schema, problem.pointwise, self.layout, problem.time)
        self.look, self.views = inputs, problem.views
        self.ramp, self.marched, self.fades = problem.hints.ramp, marched, fades
        self.share: Array | None = None
        self.outputs = problem.hints.outputs
        self.jumps = problem.jumps
        self.guess = problem.guess if problem.hints.guess is not None else None
        self._mask = jnp.asarray(self.layout.mask, float)
        self._bound = jnp.asarray(self.layout.bound, float)
        self._any_bound = bool(self.layout.bound.any())
        self._slopes = jnp.asarray(self.layout.slopes, float)
        self.sloping = bool(self.layout.slopes.any())
        self._traced: dict[tuple[bool, bool, int], Callable[..., Any]] = {}

    def jets_of(self, corrected: bool, differentiate: bool, second: int) -> Callable[..., Any]:
        """The jets of the corrections, or of the main term, at a point: traced once for batches of all sizes."""
        key = corrected, differentiate, second
        if key not in self._traced:
            function = jax.jit(self.corrections if corrected else self.main)

            def at_point(x: Array, *more: Array) -> Any:
                return jets(lambda x: function(x, *more), x, differentiate, second, self.schema.coordinates)

            self._traced[key] = jax.jit(at_point)
        return self._traced[key]

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

    def base(self, x: Array, piece: Array | None = None) -> tuple[Array, Array]:
        """c (m,) and L (v, m, o) of q₀ = c + Σ_v L_v N_v at a point, one of a piece if that is stated."""
        if self.marched:
            c, lift = self.kept_share(x) * self.start.kept(x), jnp.eye(self.schema.size)
        elif not self.start.conditions:
            c, lift = self.start.blend(x, jnp.array(1.0))
        else:
            tau = self.start.fraction(x)
            c, lift = self.start.blend(x, safe_root(tau) if self.ramp == "root" else tau)
        if self.guess is not None and not self.marched:
            c = c + times(lift, self.guess(x))
        if self.jumps:
            c = c + corner_lift(self.jumps, self.schema, x, piece)
        lifts = []
        for view, signs in self.views:
            seen = lift * (signs / len(self.views))
            lifts.append(seen if self.outputs is None else times(seen, jnp.asarray(self.outputs(view(x)))))
        return c, jnp.stack(lifts)

    def with_share(self, share: Array) -> "Exact":
        """The same with such a share of the initial state, at all times."""
        other = copy(self)
        other.share, other._traced = share, {}  # what was traced is for another share
        return other

    def kept_share(self, x: Array) -> Array | float:
        """The share of the initial state that is in the ansatz at a point: 1 at the start of time."""
        if self.share is not None:
            return self.share
        if not self.fades:
            return 1.0
        assert self.start.time is not None
        s = jnp.clip((x[self.schema.dim] - self.start.time[0]) / self.fades, 0.0, 1.0)
        return 1 - s * s * (3 - 2 * s)

    def main(self, x: Array) -> tuple[Array, Array, Array]:
        """c (m,), M (v, m, o) and network inputs (v, f) of q₀ at x."""
        return (*self.base(x), self.inputs(x))

    def corrections(self, x: Array, ids: Array) -> tuple[Array, Array, Array, Array | None]:
        """c (m,), M (k, v, m, o), network inputs (k, v, f) that the k pieces `ids` (−1: none) add at x, and None.

        With conditions on normal derivatives M is (k, v, m, 2 o) and the last is the derivative of the inputs along
        the normals (k, v, f).
        """
        slots = jax.vmap(self._slot, (None, 0))(x, ids)
        c_foot, lift_foot = jax.vmap(self.base)(slots["foot"], ids)
        c, matrices = jnp.zeros(self.schema.size), []
        for k, d in enumerate(self._right_inverses(x, slots)):
            c = c + times(d, slots["g"][k] - times(slots["a"][k], c_foot[k]))
            matrices.append(-times(times(d, slots["a"][k]), lift_foot[k]))
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
        after = jnp.eye(self.schema.size) - times(values, a)  # q₁ = after q₀ + values g
        gain = -slot["weight"] * slot["height"] * right_inverse(b, jnp.eye(self.schema.size), slot["slopes"])
        known = g - times(a, times(after, c) + times(values, g * others)) - times(b, dc)
        matrix = jnp.concatenate([times(a, times(after, lift)) + times(b, dlift), times(b, lift)], axis=-1)
        return times(gain, known), -times(gain, matrix), jax.jvp(self.inputs, (foot,), (normal,))[1]

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
        s = squared / (width**2 + TINY)
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
                    f = times(factor.T, units[i])
                    size = (f * f).sum()
                    f = jnp.where(size > _ROUNDING, f, 0.0)  # a row that others imply adds nothing
                    total = weight * jnp.where(size > _ROUNDING, size, 0.0) + fade
                    gain = weight / total * times(factor, f)
                    gains = gains - gain[:, None] * times(gains.T, units[i])
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
            along = (row * times(metric, earlier)).sum()
            row, mix = row - along * earlier, mix - along * other
        size = jnp.sqrt(jnp.where(present[i] > 0, (row * times(metric, row)).sum(), 1.0))
        rows.append(row / size)
        mixes.append(mix / size)
    return jnp.stack(rows), jnp.stack(mixes)
