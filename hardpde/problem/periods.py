"""Periodic conditions: which faces they join, what they compare, and what must be periodic with them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.geometry import Face, Piece, Shape, gap_matrix
from hardpde.problem.conditions import INITIAL, Condition, Periodic
from hardpde.problem.fields import Schema
from hardpde.problem.layout import Layout
from hardpde.problem.parameters import append

if TYPE_CHECKING:
    from hardpde.problem.problem import Problem


@dataclass(frozen=True)
class Period:
    """A periodic condition worked out: x on the face `condition.on` and x + shift e_axis are the same place."""

    condition: Periodic
    axis: int
    shift: float
    faces: tuple[Piece, Piece]
    values: tuple[int, ...]  # components of the state that are compared
    slopes: tuple[int, ...]  # those whose derivative along the axis is compared too

    @property
    def hard(self) -> bool:
        return self.condition.soft is None

    def pair(self, x: Any) -> tuple[Array, Array]:
        """Points (n, c) moved along the axis onto the two faces."""
        start, x = self.faces[0].params[self.axis], jnp.asarray(x)
        return x.at[:, self.axis].set(start), x.at[:, self.axis].set(start + self.shift)

    def rows(self, x: Array, jet: Array) -> Array:
        """What differs between a pair of points: their jets (2, m, slots) → (r,)."""
        difference = jet[0] - jet[1]
        slopes = [difference[np.array(self.slopes), 1 + self.axis]] if self.slopes else []
        return jnp.concatenate([difference[np.array(self.values), 0], *slopes])

    def joins_ends_of(self, piece: Piece) -> bool:
        """Whether a piece is a face that runs from one periodic face to the other."""
        if not isinstance(piece.kind, Face):
            return False
        d, k = len(piece.params) // 3, self.axis
        return bool(np.isclose(abs(piece.params[d + k] - piece.params[k]), abs(self.shift)))


def work_out(condition: Periodic, domain: Shape, schema: Schema, order: int) -> Period:
    """Check which faces a periodic condition joins, and find what it compares for a problem of that order."""
    faces = _faces(condition, domain)
    axis, shift = _shift(condition, faces, domain)
    names = condition.fields or schema.names
    for name in names:
        if name not in schema.names:
            raise ValueError(f"the condition '{condition.name}' on '{condition.on}': there is no field '{name}'; "
                             f"the fields are {', '.join(schema.names)}")
    gradients = [gradient for gradient, base in schema.gradients if base in names]
    plain = [name for name in names if schema.gradient_of(name) is None and name not in dict(schema.gradients)]
    return Period(condition, axis, shift, faces, _components(schema, (*names, *gradients)),
                  _components(schema, plain) if order == 2 else ())


def _faces(condition: Periodic, domain: Shape) -> tuple[Piece, Piece]:
    whole = dict(zip(domain.pieces, domain.whole))
    faces = []
    for name in (condition.on, condition.to):
        pieces = domain.boundaries[name].pieces
        if len(pieces) != 1 or not isinstance(pieces[0].kind, Face) or not whole[pieces[0]]:
            raise ValueError(f"periodic joins two whole faces of a Box, and '{name}' is not one; name the faces "
                             f"of a Box with sides=")
        faces.append(pieces[0])
    return faces[0], faces[1]


def _shift(condition: Periodic, faces: tuple[Piece, Piece], domain: Shape) -> tuple[int, float]:
    """The axis along which the second face is the first one shifted, and by how much."""
    d = domain.dim
    (a, na), (b, nb) = [(np.array(face.params[: 2 * d]), np.array(face.params[2 * d :])) for face in faces]
    axis = int(np.abs(na).argmax())
    shift = np.zeros(2 * d)
    shift[[axis, d + axis]] = b[axis] - a[axis]
    ends = sorted((float(a[axis]), float(b[axis])))
    bounds = [float(bound[axis]) for bound in domain.bounds]
    if (na + nb).any() or not np.allclose(ends, bounds, rtol=1e-12, atol=0.0):
        raise ValueError(f"'{condition.on}' and '{condition.to}' are not opposite faces of the domain, so they "
                         f"cannot be periodic")
    if not np.allclose(a + shift, b, rtol=0.0, atol=1e-12 * domain.size):
        raise ValueError(f"'{condition.on}' and '{condition.to}' have different extents, so they cannot be "
                         f"periodic; one must be the other, shifted")
    return axis, float(b[axis] - a[axis])


def _components(schema: Schema, names: Sequence[str]) -> tuple[int, ...]:
    """Where in the state these fields stand."""
    parts = [schema.slices[name] for name in dict.fromkeys(names)]
    return tuple(k for part in parts for k in range(part.start, part.stop))


def clear_of_periods(layout: Layout, periods: Sequence[Period], domain: Shape,
                     collar: float | dict[str, float] | None) -> Layout:
    """The layout with collars that reach no periodic face; one that was stated and does is refused."""
    if not periods:
        return layout
    room = _room(layout, periods, domain)
    stated = [collar is not None and (not isinstance(collar, dict) or piece.name in collar)
              for piece in layout.pieces]
    share = np.where(stated, room / layout.collar, np.inf)
    if (share < 1).any():
        k = int(share.argmin())
        raise ValueError(f"the collar of '{layout.pieces[k].name}' is {layout.collar[k]:g} and reaches a periodic "
                         f"boundary; it must be at most {room[k]:g}")
    return replace(layout, collar=np.minimum(layout.collar, room))


def _room(layout: Layout, periods: Sequence[Period], domain: Shape) -> np.ndarray:
    """How wide collars may be without reaching a periodic face; faces that run from one to the other may, (n,)."""
    room = np.full(len(layout.pieces), np.inf)
    for period in periods:
        if not period.hard or not layout.pieces:
            continue
        gaps = gap_matrix((*layout.pieces, *period.faces), domain)
        room = np.where([period.joins_ends_of(piece) for piece in layout.pieces], room,
                        np.minimum(room, np.minimum(gaps, gaps.T)[:-2, -2:].min(axis=1)))
    return room


def check_period(problem: "Problem", period: Period) -> None:
    """The data of other conditions, and extra inputs, must be periodic too."""
    ends = f"between '{period.condition.on}' and '{period.condition.to}'"
    smooth = problem.order == 2 or bool(problem.schema.gradients)
    for condition in problem.pointwise:
        found = _meeting(problem, period, condition)
        if found is None:
            continue
        x, normal = found
        miss = _differs(period, lambda x, c=condition, n=normal: c.matrix(problem.schema, x, n), x, smooth)  # type: ignore[misc]
        if not miss <= 1e-9:
            raise ValueError(f"the data of '{condition.name}' on '{condition.on}' or their slopes differ by "
                             f"{miss:.2g} {ends}; make them periodic, or give periodic soft=WEIGHT")
    if problem.hints.decay:
        raise ValueError(f"the hint decay=True gives inputs that are not periodic {ends}; leave it out")
    if problem.hints.inputs is not None:
        miss = _differs(period, problem.hints.inputs, problem.sample(jax.random.key(3), 16), smooth)
        if not miss <= 1e-9:
            raise ValueError(f"the extra inputs or their slopes differ by {miss:.2g} {ends}; make the hint inputs "
                             f"periodic")


def _meeting(problem: "Problem", period: Period, condition: Condition) -> tuple[Array, Array] | None:
    """Points (n, c) where a condition holds all the way between the periodic faces, and its normal there (d,)."""
    if condition.on == INITIAL:
        x = append(problem.parameters, problem.boundaries[INITIAL].sample(jax.random.key(3), 16))
        return x, jnp.zeros(problem.schema.dim)
    pieces = problem.domain.boundaries[condition.on].pieces
    piece = next((piece for piece in pieces if period.joins_ends_of(piece)), None)
    if piece is None:
        return None
    x = problem.everywhen(piece.sample(jax.random.key(3), 16))
    return x, piece.normal(x[0])


def _differs(period: Period, function: Callable[[Array], Any], x: Array, smooth: bool) -> float:
    """By how much a function, or where it must be smooth its slope, differs between paired points."""

    def sides(x: Array) -> tuple[Any, ...]:
        value, slope = jax.jvp(function, (x,), (jnp.zeros_like(x).at[period.axis].set(1.0),))
        return (value, slope) if smooth else (value,)

    one, two = (jax.jit(jax.vmap(sides))(side) for side in period.pair(x))
    apart = [np.abs(np.asarray(a - b)).max(initial=0.0) / max(1.0, np.abs(np.asarray(a)).max(initial=0.0))
             for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two))]
    return max(apart, default=0.0)
