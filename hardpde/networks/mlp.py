"""Networks, and their jets: the value and its tangents carried through together.

A jet has shape (width, 1 + c, n): the value at n points and its derivatives along c coordinates. A jet of second
order, (width, 2 + c, n), ends with the Laplacian, the sum of the second derivatives along the first `second`
coordinates; a layer carries it along (forward Laplacian), so that no Hessian is ever formed. On a CPU the
points stay last, along memory, which halves the time of a step; on a GPU the products run with points first.
"""

import math
import re
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.support.hardware import here

NARROW = 5  # inputs or outputs of a layer, the constant among them
EVEN = 4  # hidden widths are multiples of it on a GPU
FEW = 1024  # rows that a product has at least, if it is cut into parts
GPU_SLOTS, CPU_SLOTS = -3, -2  # where slots are: before points and widths, or between widths and points
SEVERAL = 6  # slots of a jet that go through tanh one by one
CERTAIN = 30.0  # its tanh is 1 in any precision


class MLP(eqx.Module):
    """tanh layers. A leading axis on every weight makes a stack of networks that run as one batched product."""

    weights: list[Array]
    biases: list[Array]

    def jet(self, inputs: Array, second: int = 0) -> Array:
        """(in, 1 + c, n) → (out, 1 + c, n); a stack of k networks: (k, out, 1 + c, n), with the same inputs for all
        or inputs (k, in, 1 + c, n) of its own for each.

        second: how many coordinates the Laplacian in the last slot sums over; 0: there is none.
        """
        layers = list(zip(self.weights, self.biases))
        if jax.default_backend() == "cpu":
            return _points_last(layers, inputs, second)
        return jnp.moveaxis(_points_first(layers, jnp.moveaxis(inputs, -3, -1), second), -1, -3)

    def dual_jet(self, inputs: Array, dual: Array, second: int = 0) -> Array:
        """The jet of the outputs and that of their derivative along a direction, one after the other: (2 out, …).

        `dual` is the jet of the derivative of the inputs along that direction.
        """
        layers = list(zip(self.weights, self.biases))
        if jax.default_backend() == "cpu":
            return _dual_points_last(layers, inputs, dual, second)
        both = jnp.concatenate([jnp.moveaxis(jet, -3, -1) for jet in (inputs, dual)], axis=-3)
        out = jnp.moveaxis(_points_first(layers, both, second, dual=True), -1, -3)
        return jnp.concatenate(jnp.split(out, 2, axis=-2), axis=-3)


class Windowed(eqx.Module):
    """N(x) = Σ_k w_k(x) N_k((x − c_k)/h): a network for each block of a regular grid (FBPINNs, Moseley et al. 2021).

    The grid cuts the box between `lower` and `upper` into `counts` blocks along the first inputs, numbered with the
    last one fastest; c_k is the centre of a block and h its widths. The window of a block is the product of
    sigmoid((x_j − lo_kj)/σ) sigmoid((hi_kj − x_j)/σ) over these inputs, where a side on the edge of the box, which has
    no neighbour, does not fall off: the windows sum to one. Further inputs are passed on as they are.
    """

    networks: MLP  # a stack, one for each block
    lower: tuple[float, ...] = eqx.field(static=True)
    upper: tuple[float, ...] = eqx.field(static=True)
    counts: tuple[int, ...] = eqx.field(static=True)
    sigma: float = eqx.field(static=True)

    def jet(self, inputs: Array, second: int = 0) -> Array:
        """As `MLP.jet`: (in, 1 + c, n) → (out, 1 + c, n)."""
        out = self._unscaled().jet(inputs, second)
        return multiply(self.windows(inputs, second)[:, None], out, second).sum(0)

    def windows(self, inputs: Array, second: int = 0) -> Array:
        """The jets of all windows, (blocks, 1 + c, n)."""
        factors = []
        for lines, x in zip(self._lines(), inputs):
            lines[[0, -1]] = -np.inf, np.inf
            after, before = _sides(x, jnp.asarray(lines, x.dtype), self.sigma, second)
            factors.append(multiply(after[:-1], before[1:], second))
        windows = factors[0]
        for factor in factors[1:]:
            windows = multiply(windows[:, None], factor, second).reshape(-1, *factor.shape[1:])
        return windows

    def _lines(self) -> list[np.ndarray]:
        """Where the grid cuts each of the first inputs."""
        return [np.linspace(lo, hi, m + 1) for lo, hi, m in zip(self.lower, self.upper, self.counts)]

    def _unscaled(self) -> MLP:
        """The networks as functions of x itself: (x − c)/h moves into the first layer, so all share their inputs."""
        w, b = self.networks.weights[0], self.networks.biases[0]
        lines, d = self._lines(), len(self.counts)
        width = np.array([line[1] - line[0] for line in lines])
        centres = np.stack(np.meshgrid(*[(line[1:] + line[:-1]) / 2 for line in lines], indexing="ij"), -1)
        scaled = w[:, :d] / jnp.asarray(width, w.dtype)[:, None]
        shift = (scaled * jnp.asarray(centres.reshape(-1, d, 1), w.dtype)).sum(1)
        return MLP([jnp.concatenate([scaled, w[:, d:]], axis=1), *self.networks.weights[1:]],
                   [b - shift, *self.networks.biases[1:]])


def multiply(a: Array, b: Array, second: int = 0) -> Array:
    """The product of two jets (…, slots, n), whose leading axes broadcast.

    second: as in `MLP.jet`; then Δ(a b) = Δa b + 2 Σ_k ∂_k a ∂_k b + a Δb takes the last slot.
    """
    value = a[..., :1, :] * b[..., :1, :]
    tangents = a[..., 1:, :] * b[..., :1, :] + a[..., :1, :] * b[..., 1:, :]
    if second:
        space = slice(1, 1 + second)
        mixed = 2 * (a[..., space, :] * b[..., space, :]).sum(-2)
        tangents = tangents.at[..., -1, :].add(mixed)
    return jnp.concatenate([value, tangents], axis=-2)


def _sides(x: Array, lines: Array, sigma: float, second: int) -> tuple[Array, Array]:
    """The jets (lines, slots, n) of sigmoid((x − line)/σ) and of sigmoid((line − x)/σ), from the jet of x."""
    z = (x[0] - lines[:, None]) / sigma
    after, before = jax.nn.sigmoid(z), jax.nn.sigmoid(-z)
    slope = after * before / sigma
    tangents = slope[:, None] * x[1:]
    if second:
        bend = slope * (before - after) / sigma * (x[1 : 1 + second] ** 2).sum(0)
        tangents = tangents.at[:, -1].add(bend)
    return (jnp.concatenate([after[:, None], tangents], axis=1), jnp.concatenate([before[:, None], -tangents], axis=1))


class _Slots(NamedTuple):
    """A jet: its value, the derivatives that a Laplacian sums over, the others, the Laplacian; each has a slot or more.
    """

    value: Array
    space: list[Array]
    rest: list[Array]
    bend: Any = None


def _points_last(layers: list[tuple[Array, Array]], inputs: Array, second: int = 0) -> Array:
    """Layers on jets (width, 1 + c, n)."""
    if layers[0][0].ndim == 3 and inputs.ndim == 3:
        inputs = jnp.broadcast_to(inputs, (layers[0][0].shape[0], *inputs.shape))
    jet = _pieces(inputs, second, CPU_SLOTS)
    for w, b in layers[:-1]:
        jet = _tanh_of(_layer(w, b, jet), CPU_SLOTS)
    return _joined(_layer(*layers[-1], jet), CPU_SLOTS)


def _dual_points_last(layers: list[tuple[Array, Array]], inputs: Array, dual: Array, second: int = 0) -> Array:
    """The same with the jets (width, 1 + c, n) of derivatives along a direction, which come out after the others."""
    jet, slopes = (_pieces(part, second, CPU_SLOTS) for part in (inputs, dual))
    for w, b in layers[:-1]:
        jet, slopes = _dual_of_tanh(_layer(w, b, jet), _layer(w, None, slopes), CPU_SLOTS)
    w, b = layers[-1]
    return jnp.concatenate([_joined(_layer(w, b, jet), CPU_SLOTS), _joined(_layer(w, None, slopes), CPU_SLOTS)],
                           axis=-3)


def _layer(w: Array, b: Array | None, jet: _Slots) -> _Slots:
    """wᵀ v + b: (…, i, o), pieces (…, i, slots, n) → pieces (…, o, slots, n)."""
    value, *tangents = jax.tree.map(partial(_product, w), jet)
    return _Slots(value if b is None else value + b[..., None, None], *tangents)


def _points_first(layers: list[tuple[Array, Array]], inputs: Array, second: int = 0, dual: bool = False) -> Array:
    """Layers on jets (1 + c, n, width), value and tangents in one product.

    dual: the jets of derivatives along a direction follow, (2 (1 + c), n, width), and so they do in what comes out.
    """
    *lead, c, n, _ = inputs.shape
    stack = layers[0][0].ndim == 3
    biases: list[Array | None]
    if stack or any(w.shape[-1] % EVEN for w, _ in layers[:-1]):
        matrices, biases = _with_constant(layers), [None] * len(layers)
        one = jnp.zeros((c, n, 1), inputs.dtype).at[0].set(1.0)
        jet = jnp.concatenate([inputs, jnp.broadcast_to(one, (*lead, c, n, 1))], axis=-1)
    else:
        matrices, biases, jet = [w for w, _ in layers], [b for _, b in layers], inputs
    if stack and not lead:
        jet = jnp.broadcast_to(jet, (matrices[0].shape[0], *jet.shape))
    for k, (w, b) in enumerate(zip(matrices, biases)):
        rows = jet.reshape(*jet.shape[:-3], c * n, jet.shape[-1])
        z = _rows_product(rows, w)
        z = z.reshape(*z.shape[:-2], c, n, w.shape[-1])
        if b is not None:
            z = jnp.concatenate([z[..., :1, :, :] + b, z[..., 1:, :, :]], axis=-3)
        jet = (_tanh_dual if dual else _tanh_jet)(z, second) if k < len(matrices) - 1 else z
    return jet


def _exactly(array: Array) -> Any:
    """How a product keeps full precision: single precision is three numbers of bfloat16, whose products run on tensor
    cores where there are such; the six that count are added up."""
    six = array.dtype == jnp.float32 and _has_bfloat16()
    return jax.lax.DotAlgorithmPreset.BF16_BF16_F32_X6 if six else "highest"


def _has_bfloat16() -> bool:
    """Whether computations run on a GPU of NVIDIA's, from Ampere on."""
    found = re.fullmatch(r"(\d+)\.\d+", getattr(here(), "compute_capability", ""))
    return found is not None and int(found[1]) >= 8


def _with_constant(layers: list[tuple[Array, Array]]) -> list[Array]:
    """The same layers as matrices alone: a constant 1 among the inputs of each has the biases as its weights.

    Hidden layers pass it on by a unit of their own, tanh(CERTAIN) = 1, whose derivatives vanish. So a gradient by the
    biases comes with that by the weights, and is not a sum over all points by itself. More units, which are and stay
    zero, make hidden widths that suit the memory of a GPU.
    """
    matrices = []
    before = layers[0][0].shape[-2]  # the number of the constant among the inputs
    for k, (w, b) in enumerate(layers):
        both = jnp.concatenate([w, b[..., None, :]], axis=-2)
        lead, after = [(0, 0)] * (w.ndim - 2), w.shape[-1]
        if k > 0:
            both = jnp.pad(both, [*lead, (0, EVEN - before % EVEN - 1), (0, 0)])
        if k < len(layers) - 1:
            both = jnp.pad(both, [*lead, (0, 0), (0, EVEN - after % EVEN)])
            unit = np.zeros(both.shape[-2:], both.dtype)
            unit[before, after] = CERTAIN
            both = both + unit
        matrices.append(both)
        before = after
    return matrices


@jax.custom_vjp
def _rows_product(jet: Array, w: Array) -> Array:
    """(…, rows, i) (…, i, o) → (…, rows, o), in full precision. For few inputs it is a sum, which fuses with others."""
    if w.shape[-2] > NARROW:
        return jnp.matmul(jet, w, precision=_exactly(jet))
    z = jet[..., 0, None] * w[..., None, 0, :]
    for i in range(1, w.shape[-2]):
        z = z + jet[..., i, None] * w[..., None, i, :]
    return z


def _rows_forward(jet: Array, w: Array) -> tuple[Array, tuple[Array, Array]]:
    return _rows_product(jet, w), (jet, w)


def _rows_backward(factors: tuple[Array, Array], g: Array) -> tuple[Array, Array]:
    """The gradient by the weights is a sum over all rows. That of a stack is taken in a few parts where there are many
    rows: a small matrix for each network would occupy few cores of a GPU."""
    jet, w = factors
    back = _rows_product(g, jnp.swapaxes(w, -1, -2))
    rows = jet.shape[-2]
    parts = 1 if w.ndim == 2 else next(p for p in (16, 8, 4, 2, 1) if rows % p == 0 and (rows >= p * FEW or p == 1))
    if parts > 1:
        jet, g = (a.reshape(*a.shape[:-2], parts, rows // parts, a.shape[-1]) for a in (jet, g))
    # The narrow factor first, which takes half the time; the barrier keeps the compiler from turning it round.
    if jet.shape[-1] <= g.shape[-1]:
        sums = _summed(jet, g)
    else:
        sums = jnp.swapaxes(jax.lax.optimization_barrier(_summed(g, jet)), -1, -2)
    return back, sums.sum(-3) if parts > 1 else sums


def _summed(a: Array, b: Array) -> Array:
    return jnp.matmul(jnp.swapaxes(a, -1, -2), b, precision="highest")


_rows_product.defvjp(_rows_forward, _rows_backward)


def _pieces(jet: Array, second: int, axis: int, one_by_one: bool = False) -> _Slots:
    """A jet whose slots are along this axis. A few of them always come one by one: one thread of a GPU has them all,
    and a CPU has nothing to sum over. Many come together unless told otherwise."""
    slots = jet.shape[axis]
    single = one_by_one or slots <= SEVERAL
    borders = list(range(1, slots)) if single else [1, *[1 + second, slots - 1] * (second > 0)]
    value, *tangents = jnp.split(jet, borders, axis=axis)
    if not second:
        return _Slots(value, [], tangents)
    space = second if single else 1
    return _Slots(value, tangents[:space], tangents[space:-1], tangents[-1])


def _joined(jet: _Slots | tuple[_Slots, _Slots], axis: int) -> Array:
    return jnp.concatenate(jax.tree.leaves(jet), axis=axis)


def _total(pieces: list[Array], axis: int) -> Any:
    """The sum over all slots of all pieces, as one slot; 0 if there are none."""
    if axis == GPU_SLOTS:
        return sum(piece.sum(axis, keepdims=True) for piece in pieces)
    return sum(part for piece in pieces for part in jnp.split(piece, piece.shape[axis], axis))


def _times(factor: Array, piece: Array, axis: int) -> Array:
    """One slot times each of a piece. On a CPU it is copied for each, so that its gradient adds slots one by one."""
    slots = piece.shape[axis]
    return factor * piece if axis == GPU_SLOTS or slots == 1 else jnp.concatenate([factor] * slots, axis) * piece


def _tanh_of(z: _Slots, axis: int) -> _Slots:
    """The jet of tanh z: h' = 1 − h², h'' = −2 h h'."""
    h = jnp.tanh(z.value)
    s = 1 - h * h
    bend = None if z.bend is None else s * (z.bend - 2 * h * _total([t * t for t in z.space], axis))
    return _Slots(h, [_times(s, t, axis) for t in z.space], [_times(s, t, axis) for t in z.rest], bend)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def _tanh_jet(z: Array, second: int) -> Array:
    """The same for jets (…, slots, n, width) as a whole. Its gradient is written out, to be read and written once."""
    return _joined(_tanh_of(_pieces(z, second, GPU_SLOTS), GPU_SLOTS), GPU_SLOTS)


def _tanh_forward(z: Array, second: int) -> tuple[Array, Array]:
    jet = _tanh_jet(z, second)
    return jet, jet


def _tanh_backward(second: int, jet: Array, g: Array) -> tuple[Array]:
    """With h = tanh z₀ and s = 1 − h² the jet is h, a_k = s z_k, and b = s z_Δ − 2 h s Σ z_k² for the Laplacian; then
    ∂a_k/∂z₀ = −2 h a_k, ∂b/∂z₀ = −2 h b − 2 Σ a_k², ∂b/∂z_k = −4 h a_k: z itself is not needed any more."""
    (h, space, rest, bend), (g_value, g_space, g_rest, g_bend) = (_pieces(part, second, GPU_SLOTS) for part in (jet, g))
    s = 1 - h * h
    g_slope = _total([a * b for a, b in zip((*g_space, *g_rest), (*space, *rest))], GPU_SLOTS)
    back = [s * a for a in g_rest]
    if not second:
        return (_joined(_Slots(s * g_value - 2 * h * g_slope, [], back), GPU_SLOTS),)
    squares = _total([t * t for t in space], GPU_SLOTS)
    g_slope = g_slope + g_bend * bend
    return (_joined(_Slots(s * g_value - 2 * h * g_slope - 2 * squares * g_bend,
                           [s * a - 4 * h * g_bend * t for a, t in zip(g_space, space)], back, s * g_bend), GPU_SLOTS),)


_tanh_jet.defvjp(_tanh_forward, _tanh_backward)


def _dual_of_tanh(z: _Slots, slopes: _Slots, axis: int) -> tuple[_Slots, _Slots]:
    """The jet of tanh z, and that of its derivative (1 − tanh² z) ż along a direction, from the jets of z and ż."""
    h = jnp.tanh(z.value)
    s, change = 1 - h * h, -2 * h  # tanh', and the factor of derivatives of tanh in those of tanh'
    steep = slopes.value
    bent = s * change * steep

    def mixed(tangents: list[Array], bends: list[Array]) -> list[Array]:
        return [_times(bent, t, axis) + _times(s, b, axis) for t, b in zip(tangents, bends)]

    jet = _Slots(h, [_times(s, t, axis) for t in z.space], [_times(s, t, axis) for t in z.rest])
    dual = _Slots(s * steep, mixed(z.space, slopes.space), mixed(z.rest, slopes.rest))
    if z.bend is None:
        return jet, dual
    squares = _total([t * t for t in z.space], axis)
    bend = s * (z.bend + change * squares)
    both = change * _total([t * b for t, b in zip(z.space, slopes.space)], axis)
    last = (change * bend - 2 * s * s * squares) * steep + s * (slopes.bend + 2 * both)
    return jet._replace(bend=bend), dual._replace(bend=last)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def _tanh_dual(z: Array, second: int) -> Array:
    """The same for jets (…, slots, n, width) as a whole, one after the other."""
    return _dual_as_a_whole(z, second)


def _dual_as_a_whole(z: Array, second: int) -> Array:
    plain, slopes = (_pieces(half, second, GPU_SLOTS, one_by_one=True) for half in jnp.split(z, 2, axis=GPU_SLOTS))
    return _joined(_dual_of_tanh(plain, slopes, GPU_SLOTS), GPU_SLOTS)


def _tanh_dual_forward(z: Array, second: int) -> tuple[Array, Array]:
    return _dual_as_a_whole(z, second), z


def _tanh_dual_backward(second: int, z: Array, g: Array) -> tuple[Array]:
    """All that the gradient needs is found again from z: reading it would take longer."""
    return jax.vjp(lambda z: _dual_as_a_whole(z, second), z)[1](g)


_tanh_dual.defvjp(_tanh_dual_forward, _tanh_dual_backward)


def _product(w: Array, values: Array) -> Array:
    """wᵀ v: (…, i, o), (…, i, slots, n) → (…, o, slots, n)."""
    *lead, width, slots, n = values.shape
    product = _from_left(w, values.reshape(*lead, width, slots * n))
    return product.reshape(*lead, w.shape[-1], slots, n)


@jax.custom_jvp
def _from_left(w: Array, v: Array) -> Array:
    """wᵀ v. XLA would hand w as it is to its product, which takes twice as long with such a factor in double precision
    or in a stack: the barrier keeps them apart. Derivatives are plain products: their gradients need w as it is."""
    turned = jnp.swapaxes(w, -1, -2)
    if w.ndim > 2 or w.dtype == jnp.float64:
        turned = jax.lax.optimization_barrier(turned)
    return jnp.matmul(turned, v, precision="highest")


@_from_left.defjvp
def _from_left_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (w, v), (dw, dv) = primals, tangents
    change = (jnp.matmul(jnp.swapaxes(a, -1, -2), b, precision="highest") for a, b in ((w, dv), (dw, v)))
    return _from_left(w, v), sum(change)  # type: ignore[return-value]


def mlp(key: Array, sizes: list[int], dtype=float, stack: int | None = None) -> MLP:
    """Glorot-normal weights and zero biases; `stack` networks at once if given."""
    lead = () if stack is None else (stack,)
    weights, biases = [], []
    for k, (i, o) in zip(jax.random.split(key, len(sizes) - 1), pairwise(sizes)):
        deviation = (2 / (i + o)) ** 0.5
        weights.append(deviation * jax.random.normal(k, (*lead, i, o), dtype))
        biases.append(jnp.zeros((*lead, o), dtype))
    return MLP(weights, biases)


def windowed(key: Array, sizes: list[int], lower: Sequence[float], upper: Sequence[float], counts: Sequence[int],
             sigma: float, dtype=float) -> Windowed:
    """A network of the given sizes for each of `counts` blocks of a box, as `mlp` makes them."""
    if not len(lower) == len(upper) == len(counts):
        raise ValueError(f"the box has corners of {len(lower)} and {len(upper)} numbers and {len(counts)} counts of "
                         f"blocks; give one of each for every dimension")
    if not 1 <= len(counts) <= sizes[0]:
        raise ValueError(f"the blocks divide {len(counts)} inputs and the networks have {sizes[0]}; "
                         f"divide at least one and no more than there are")
    if any(m < 1 for m in counts):
        raise ValueError(f"the counts of blocks are {tuple(counts)}; each must be at least 1")
    if not all(lo < hi for lo, hi in zip(lower, upper)):
        raise ValueError(f"the box from {tuple(lower)} to {tuple(upper)} is empty; give its lower corner first")
    if not sigma > 0:
        raise ValueError(f"sigma is {sigma:g}; the width of the windows' edges must be positive")
    networks = mlp(key, sizes, dtype, stack=math.prod(counts))
    return Windowed(networks, tuple(map(float, lower)), tuple(map(float, upper)), tuple(map(int, counts)), float(sigma))


def randomise(model, key: Array):
    """The same networks with random weights and biases that keep signals of unit size, for certificates."""
    networks, tree = jax.tree.flatten(model, is_leaf=lambda node: isinstance(node, MLP))
    fresh = []
    for network, k in zip(networks, jax.random.split(key, len(networks))):
        keys = iter(jax.random.split(k, 2 * len(network.weights)))
        weights = [jax.random.normal(next(keys), w.shape, w.dtype) / w.shape[-2] ** 0.5 for w in network.weights]
        biases = [jax.random.normal(next(keys), b.shape, b.dtype) for b in network.biases]
        fresh.append(MLP(weights, biases))
    return jax.tree.unflatten(tree, fresh)


def count(model) -> int:
    """How many weights a model has."""
    return sum(leaf.size for leaf in jax.tree.leaves(model))
