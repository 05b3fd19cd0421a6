"""Union, Intersection and Difference of shapes; names survive, and so do the pieces that remain."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import pairwise, product

import jax
import jax.numpy as jnp
import numpy as np

from hardpde.geometry.algorithms.gaps import clear
from hardpde.geometry.algorithms.sampling import check_survival, estimate_measure, rejection_sample, unit_points
from hardpde.geometry.algorithms.stacking import concrete, partition, place, unstack
from hardpde.geometry.base import Bounds, Piece, Shape
from hardpde.geometry.kinds import Face
from hardpde.geometry.shapes import Ball, Box, Primitive

# Relative to the size of the shape: what counts as on the boundary, and the step that tells the sides.
ON, STEP = 1e-9, 1e-6


def leaf_distances(leaves: Sequence[Primitive], x: jax.Array) -> jax.Array:
    """Signed distances (n_leaves,) of one point to all leaves, one `vmap` per family."""
    keys = [(leaf.family, i if leaf.family is None else -1) for i, leaf in enumerate(leaves)]
    groups = partition(keys)
    parts = []
    for index in groups:
        first = leaves[index[0]]
        if len(index) == 1:
            parts.append(first.sdf(x)[None])
            continue
        params = jnp.asarray(np.array([leaves[i].params for i in index]))
        parts.append(jax.vmap(first.formula, (0, None))(params, x))
    return unstack(parts, groups)


def _runs(operands: Sequence[Shape]) -> Iterator[tuple[int, int, Compound | None]]:
    """(start, stop, operand) in leaf numbers; neighbouring leaves come as one run with operand None."""
    start = stop = 0
    for operand in operands:
        if isinstance(operand, Compound):
            if stop > start:
                yield start, stop, None
            yield stop, stop + len(operand.leaves), operand
            start = stop = stop + len(operand.leaves)
        else:
            stop += 1
    if stop > start:
        yield start, stop, None


def _fold(operands: Sequence[Shape], values: jax.Array, reduce: Callable) -> jax.Array:
    """min or max over operands of their signed distances, given those of the leaves."""
    parts = []
    for start, stop, operand in _runs(operands):
        part = values[start:stop]
        parts.append(reduce(part) if operand is None else operand.combine(part))
    return reduce(jnp.stack(parts))


class Compound(Shape):
    """What the three operations share: a tree over leaves (primitives), numbered from left to right."""

    @property
    @abstractmethod
    def operands(self) -> tuple[Shape, ...]:
        """Operands in order."""

    @abstractmethod
    def combine(self, values: jax.Array) -> jax.Array:
        """Signed distance from those of the leaves (n_leaves,)."""

    @cached_property
    def leaves(self) -> tuple[Primitive, ...]:
        """The primitives from left to right; `Piece.body` counts them."""
        return tuple(leaf for op in self.operands for leaf in leaves_of(op))

    @cached_property
    def flips(self) -> tuple[bool, ...]:
        """Whether each leaf is subtracted."""
        out: list[bool] = []
        for i, operand in enumerate(self.operands):
            turn = isinstance(self, Difference) and i > 0
            inner = operand.flips if isinstance(operand, Compound) else (False,)
            out += [f != turn for f in inner]
        return tuple(out)

    @property
    def dim(self) -> int:
        return self.operands[0].dim

    @partial(jax.jit, static_argnums=0)
    def sdf(self, x: jax.Array) -> jax.Array:
        return self.combine(leaf_distances(self.leaves, x))

    def sample(self, key: jax.Array, n: int) -> jax.Array:
        return rejection_sample(self, key, n)

    def survives(self, point: jax.Array, normal: jax.Array, body: jax.Array) -> jax.Array:
        on, step = ON * self.size, STEP * self.size
        offsets = jnp.array([0.0, step, -step])[:, None] * normal
        at, out, back = jax.vmap(lambda x: leaf_distances(self.leaves, x))(point + offsets)
        here = (jnp.abs(self.combine(at)) <= on) & (self.combine(out) > 0) & (self.combine(back) < 0)
        # Where two leaves share a stretch of boundary, it belongs to the first of them.
        sign = jnp.asarray(np.where(self.flips, -1.0, 1.0))
        same = (jnp.abs(at) <= on) & (sign * out > 0.5 * step) & (sign * back < -0.5 * step)
        return here & ~jnp.any(same & (jnp.arange(len(self.leaves)) < body))

    @cached_property
    def _alive(self) -> tuple[tuple[Piece, float, bool], ...]:
        """Surviving pieces with the fraction that survives and whether that is known to be all."""
        raw = [
            replace(piece, body=i, flip=piece.flip != flip)
            for i, (leaf, flip) in enumerate(zip(self.leaves, self.flips))
            for piece in leaf.pieces
        ]
        near = neighbours(self.leaves)
        pieces = trim(self, raw)
        whole = np.array([_uncut(p, [self.leaves[j] for j in near[p.body]]) for p in pieces])
        fractions = np.zeros(len(pieces))
        # A piece that nothing cuts survives as a whole or not at all: one point tells.
        for members, n in ((np.flatnonzero(whole), 1), (np.flatnonzero(~whole), 2**13)):
            fractions[members] = survival_fractions(self, tuple(pieces[i] for i in members), n)
        return tuple((p, float(f), bool(w)) for p, f, w in zip(pieces, fractions, whole) if f > 0)

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        return tuple(piece for piece, _, _ in self._alive)

    @cached_property
    def survival(self) -> tuple[float, ...]:
        return tuple(fraction for _, fraction, _ in self._alive)

    @cached_property
    def whole(self) -> tuple[bool, ...]:
        return tuple(whole for _, _, whole in self._alive)


def neighbours(leaves: Sequence[Primitive]) -> list[list[int]]:
    """For each leaf, the leaves whose boundaries may meet its own, as far as formulas tell."""
    out: list[list[int]] = [[] for _ in leaves]
    for i, j in near_pairs(leaves, margin=1e-9 * float(np.ptp(_all_bounds(leaves)))):
        a, b = leaves[i], leaves[j]
        if not (_apart(a, b, ON) or contained(a, b, strict=True) or contained(b, a, strict=True)):
            out[i].append(int(j))
            out[j].append(int(i))
    return out


def _uncut(piece: Piece, near: Sequence[Primitive]) -> bool:
    """Whether no neighbour cuts the piece; faces were trimmed along boxes already."""
    return not near or (isinstance(piece.kind, Face) and all(isinstance(leaf, Box) for leaf in near))


def leaves_of(shape: Shape) -> tuple[Primitive, ...]:
    """The primitives of a shape from left to right."""
    if isinstance(shape, Compound):
        return shape.leaves
    assert isinstance(shape, Primitive)
    return (shape,)


def survival_fractions(shape: Shape, pieces: tuple[Piece, ...], n: int) -> np.ndarray:
    """Share of n fixed points on each piece that lie on the boundary of the shape."""
    if not pieces:
        return np.zeros(0)
    which = np.repeat(np.arange(len(pieces)), n)
    u = np.tile(unit_points(n, shape.dim), (len(pieces), 1))
    return np.mean(_alive_at(shape, pieces, which, u).reshape(len(pieces), n), axis=1)


def _alive_at(shape: Shape, pieces: tuple[Piece, ...], which: np.ndarray, u: np.ndarray) -> np.ndarray:
    body = np.array([p.body for p in pieces])[which]
    points, normal = concrete(jax.jit(place, static_argnums=0), pieces, which, u)
    return concrete(check_survival, shape, points, normal, body)


def trim(shape: Compound, pieces: list[Piece]) -> tuple[Piece, ...]:
    """Cut faces along the planes of other boxes that meet them and keep the rectangles that survive."""
    boxes = [(i, leaf) for i, leaf in enumerate(shape.leaves) if isinstance(leaf, Box)]
    if len(boxes) < 2:
        return tuple(pieces)
    out: list[list[Piece]] = []
    for piece in pieces:
        others = [box for i, box in boxes if i != piece.body and _meets(piece, box)]
        out.append(_cells(piece, others) if others and isinstance(piece.kind, Face) else [piece])
    cut = [i for i, cells in enumerate(out) if len(cells) > 1]
    flat = tuple(cell for i in cut for cell in out[i])
    alive = iter(_survive(shape, flat) if flat else [])
    for i in cut:
        keep = [cell for cell in out[i] if next(alive)]
        out[i] = [pieces[i]] if len(keep) == len(out[i]) else _merge(keep)
    return tuple(piece for cells in out for piece in cells)


def _rectangle(piece: Piece) -> tuple[np.ndarray, np.ndarray]:
    d = piece.kind.dim
    return np.array(piece.params[:d]), np.array(piece.params[d : 2 * d])


def _meets(piece: Piece, box: Box) -> bool:
    if not isinstance(piece.kind, Face):
        return False
    lo, hi = _rectangle(piece)
    return bool(np.all(lo <= np.array(box.hi)) and np.all(hi >= np.array(box.lo)))


def _cells(piece: Piece, boxes: Sequence[Box]) -> list[Piece]:
    lo, hi = _rectangle(piece)
    axes = []
    for k in range(len(lo)):
        cuts = {lo[k], hi[k]} | {v for box in boxes for v in (box.lo[k], box.hi[k]) if lo[k] < v < hi[k]}
        axes.append(list(pairwise(sorted(cuts))) or [(lo[k], hi[k])])
    return [_resized(piece, [c[0] for c in cell], [c[1] for c in cell]) for cell in product(*axes)]


def _resized(piece: Piece, lo: Sequence[float] | np.ndarray, hi: Sequence[float] | np.ndarray) -> Piece:
    n = piece.params[2 * len(lo) :]
    return replace(piece, params=(*map(float, lo), *map(float, hi), *n))


def _merge(cells: list[Piece]) -> list[Piece]:
    """Join neighbours that differ along one axis only, axis after axis."""
    for k in range(cells[0].kind.dim if cells else 0):
        joined: dict[tuple, Piece] = {}
        for cell in sorted(cells, key=lambda c: c.params[k]):
            lo, hi = _rectangle(cell)
            rest = tuple(np.delete(np.concatenate([lo, hi]), [k, k + len(lo)]))
            before = joined.get((*rest, lo[k]))
            if before is not None:
                del joined[(*rest, lo[k])]
                cell = _resized(cell, _rectangle(before)[0], hi)
            joined[(*rest, hi[k])] = cell
        cells = list(joined.values())
    return cells


def _survive(shape: Compound, cells: tuple[Piece, ...]) -> np.ndarray:
    """Whether each rectangle survives, at least in part: among boxes, which do not cut it, one point tells."""
    if not all(isinstance(leaf, Box) for leaf in shape.leaves):
        return survival_fractions(shape, cells, 2**10) > 0
    # Off-centre by an irrational share, so that no other boundary runs through the test point by symmetry.
    u = np.full((len(cells), shape.dim), 0.5 + 0.01 * np.sqrt(2))
    return _alive_at(shape, cells, np.arange(len(cells)), u)


def _flatten(shapes: Sequence[Shape], kind: type) -> tuple[Shape, ...]:
    out: list[Shape] = []
    for shape in shapes:
        out += shape.operands if isinstance(shape, kind) and isinstance(shape, Compound) else [shape]
    return tuple(out)


def _same_dimension(shapes: Sequence[Shape]) -> None:
    if not shapes:
        raise ValueError("a Union or an Intersection is of at least one shape")
    for shape in shapes:
        if not isinstance(shape, Shape):
            raise ValueError(f"| & - combine shapes with shapes, got {type(shape).__name__}")
        if not isinstance(shape, Compound | Primitive):
            raise ValueError(f"{describe(shape)} is no solid to combine with others; draw inlays in last")
    if len({s.dim for s in shapes}) > 1:
        listed = ", ".join(f"{describe(s)} is {s.dim}-D" for s in shapes[:3])
        raise ValueError(f"| & - need shapes of one dimension: {listed}")


def describe(shape: Shape) -> str:
    """Name and place of a shape, for messages."""
    if isinstance(shape, Ball):
        return f"ball {shape.name!r} at {_short(shape.center)} with radius {shape.radius:.6g}"
    if isinstance(shape, Primitive):
        kind = type(shape).__name__.lower()
        return f"{kind} {shape.name!r} in {_short(shape.bounds[0])}..{_short(shape.bounds[1])}"
    if not isinstance(shape, Compound):
        return f"a {type(shape).__name__}"
    names = list(dict.fromkeys(repr(leaf.name) for leaf in shape.leaves))
    return f"{type(shape).__name__.lower()} of {', '.join(names)}"


def _short(values: Sequence[float]) -> str:
    return "(" + ", ".join(f"{v:.6g}" for v in values) + ")"


@dataclass(frozen=True, init=False)
class Union(Compound):
    """Points in any of the shapes; nested unions become one."""

    shapes: tuple[Shape, ...]

    def __init__(self, *shapes: Shape) -> None:
        _same_dimension(shapes)
        object.__setattr__(self, "shapes", _flatten(shapes, Union))

    @property
    def operands(self) -> tuple[Shape, ...]:
        return self.shapes

    def combine(self, values: jax.Array) -> jax.Array:
        return _fold(self.shapes, values, jnp.min)

    @cached_property
    def bounds(self) -> Bounds:
        lo, hi = _all_bounds(self.shapes)
        return tuple(map(float, lo.min(axis=0))), tuple(map(float, hi.max(axis=0)))

    @cached_property
    def measure(self) -> float:
        if disjoint(self.shapes):
            return sum(s.measure for s in self.shapes)
        return estimate_measure(self)


@dataclass(frozen=True, init=False)
class Intersection(Compound):
    """Points in all of the shapes; nested intersections become one."""

    shapes: tuple[Shape, ...]

    def __init__(self, *shapes: Shape) -> None:
        _same_dimension(shapes)
        object.__setattr__(self, "shapes", _flatten(shapes, Intersection))

    @property
    def operands(self) -> tuple[Shape, ...]:
        return self.shapes

    def combine(self, values: jax.Array) -> jax.Array:
        return _fold(self.shapes, values, jnp.max)

    @cached_property
    def bounds(self) -> Bounds:
        lo, hi = _all_bounds(self.shapes)
        low, high = lo.max(axis=0), hi.min(axis=0)
        if not np.all(low < high):
            listed = " and ".join(describe(s) for s in self.shapes[:3])
            raise ValueError(f"the domain is empty: {listed} do not overlap; move one of them")
        return tuple(map(float, low)), tuple(map(float, high))

    @cached_property
    def measure(self) -> float:
        for i, shape in enumerate(self.shapes):
            if all(contained(shape, other) for other in self.shapes[:i] + self.shapes[i + 1 :]):
                return shape.measure
        return estimate_measure(self)


@dataclass(frozen=True, init=False)
class Difference(Compound):
    """Points of `base` in none of the holes; a - b - c is one Difference with two holes."""

    base: Shape
    holes: tuple[Shape, ...]

    def __init__(self, base: Shape, *holes: Shape) -> None:
        _same_dimension((base, *holes))
        earlier = base.holes if isinstance(base, Difference) else ()
        object.__setattr__(self, "base", base.base if isinstance(base, Difference) else base)
        object.__setattr__(self, "holes", (*earlier, *holes))

    @property
    def operands(self) -> tuple[Shape, ...]:
        return (self.base, *self.holes)

    def combine(self, values: jax.Array) -> jax.Array:
        k = len(leaves_of(self.base))
        outer = self.base.combine(values[:k]) if isinstance(self.base, Compound) else values[0]
        if not self.holes:
            return outer
        return jnp.maximum(outer, -_fold(self.holes, values[k:], jnp.min))

    @property
    def bounds(self) -> Bounds:
        return self.base.bounds

    @cached_property
    def measure(self) -> float:
        if all(contained(hole, self.base) for hole in self.holes) and disjoint(self.holes):
            return self.base.measure - sum(h.measure for h in self.holes)
        return estimate_measure(self)


def _all_bounds(shapes: Sequence[Shape]) -> tuple[np.ndarray, np.ndarray]:
    """lo and hi of all shapes, (n, d) each."""
    bounds = [s.bounds for s in shapes]
    return np.array([b[0] for b in bounds]), np.array([b[1] for b in bounds])


def near_pairs(shapes: Sequence[Shape], margin: float = 0.0) -> np.ndarray:
    """Pairs (k, 2), i < j, not told apart (by more than the margin) by bounds or by the distance of balls."""
    lo, hi = _all_bounds(shapes)
    apart = np.zeros((len(shapes),) * 2, dtype=bool)
    for k in range(lo.shape[1]):
        apart |= lo[:, None, k] >= hi[None, :, k] + margin
    apart |= apart.T
    round_ = [i for i, s in enumerate(shapes) if isinstance(s, Ball)]
    if len(round_) > 1:
        p = np.array([shapes[i].params for i in round_])  # type: ignore[attr-defined]
        square = np.sum((p[:, None, :-1] - p[None, :, :-1]) ** 2, axis=-1)
        apart[np.ix_(round_, round_)] |= square >= (p[:, None, -1] + p[None, :, -1] + margin) ** 2
    return np.argwhere(np.triu(~apart, 1))


def disjoint(shapes: Sequence[Shape]) -> bool:
    """Whether no two shapes overlap, as far as formulas tell; False where they do not tell."""
    return all(_apart(shapes[i], shapes[j]) for i, j in near_pairs(shapes))


def _apart(a: Shape, b: Shape, margin: float = 0.0) -> bool:
    if isinstance(a, Ball) and isinstance(b, Box):
        a, b = b, a
    if isinstance(a, Box) and isinstance(b, Ball):
        c = np.array(b.center)
        return bool(np.linalg.norm(c - np.clip(c, a.lo, a.hi)) >= b.radius * (1 + margin))
    return _traced(a, b) and clear(a, b) and not _holds(a, b) and not _holds(b, a)


def contained(hole: Shape, base: Shape, strict: bool = False) -> bool:
    """Whether `hole` lies in `base`, as far as formulas tell; False where they do not tell.

    strict: the boundaries do not touch either.
    """
    lo, hi = (np.array(b) for b in hole.bounds)
    margin = ON * float(np.max(hi - lo)) if strict else 0.0
    if isinstance(base, Box):
        return bool(np.all(lo >= np.array(base.lo) + margin) and np.all(hi <= np.array(base.hi) - margin))
    if isinstance(base, Ball):
        if isinstance(hole, Ball):
            far = float(np.linalg.norm(np.subtract(hole.center, base.center))) + hole.radius
        else:
            far = float(np.linalg.norm(np.maximum(np.abs(lo - base.center), np.abs(hi - base.center))))
        return far <= base.radius - margin
    return _traced(hole, base) and clear(hole, base) and _holds(base, hole) and not _holds(hole, base)


def _traced(one: Shape, two: Shape) -> bool:
    """Whether both are primitives and one of them an outline or a surface, so that gaps must be measured."""
    plain = isinstance(one, Box | Ball) and isinstance(two, Box | Ball)
    return isinstance(one, Primitive) and isinstance(two, Primitive) and not plain


@lru_cache(maxsize=4096)
def _holds(outer: Shape, inner: Shape) -> bool:
    """Whether a point of the boundary of one solid lies in another; their boundaries are known to keep apart."""
    point = concrete(partial(jax.jit(place, static_argnums=0), inner.pieces[:1]), np.zeros(1, int),
                     np.full((1, inner.dim), 0.3))[0][0]
    return bool(concrete(jax.jit(outer.sdf), point) < 0)
