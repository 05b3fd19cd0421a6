"""Networks for the blocks of a grid, joined by smooth windows."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike

from hardpde.networks.grid import Grid
from hardpde.networks.jets import Jet, multiply
from hardpde.networks.mlp import MLP, mlp


class Windowed(eqx.Module):
    """N(x) = Σ_k w_k(x) N_k((x − c_k)/h): a network for each block of a regular grid (FBPINNs, Moseley et al. 2021).

    The grid cuts a box of the first inputs into blocks; c_k is the centre of a block and h its widths. The window of a
    block is the product of sigmoid((x_j − lo_kj)/σ) sigmoid((hi_kj − x_j)/σ) over these inputs, where a side on the
    edge of the box, which has no neighbour, does not fall off: the windows sum to one. Further inputs are passed on as
    they are.
    """

    networks: MLP  # a stack, one for each block
    grid: Grid = eqx.field(static=True)
    sigma: float = eqx.field(static=True)

    def jet(self, inputs: Jet, second: int = 0) -> Jet:
        """As `MLP.jet`: (in, 1 + c, n) → (out, 1 + c, n)."""
        out = self._unscaled().jet(inputs, second)
        return multiply(self.windows(inputs, second)[:, None], out, second).sum(0)

    def windows(self, inputs: Jet, second: int = 0) -> Jet:
        """The jets of all windows, one for each block."""
        factors = []
        for line, x in zip(self.grid.lines, inputs):
            lines = jnp.asarray([-np.inf, *line[1:-1], np.inf], x.dtype)
            after, before = _sides(x, lines, self.sigma, second)
            factors.append(multiply(after[:-1], before[1:], second))
        windows = factors[0]
        for factor in factors[1:]:
            windows = multiply(windows[:, None], factor, second).reshape(-1, *factor.shape[1:])
        return windows

    def _unscaled(self) -> MLP:
        """The networks as functions of x itself: (x − c)/h moves into the first layer, so all share their inputs."""
        w, b = self.networks.weights[0], self.networks.biases[0]
        d = self.grid.dim
        width = np.array([line[1] - line[0] for line in self.grid.lines])
        scaled = w[:, :d] / jnp.asarray(width, w.dtype)[:, None]
        shift = (scaled * jnp.asarray(self.grid.centres[..., None], w.dtype)).sum(1)
        return MLP([jnp.concatenate([scaled, w[:, d:]], axis=1), *self.networks.weights[1:]],
                   [b - shift, *self.networks.biases[1:]])


def _sides(x: Array, lines: Array, sigma: float, second: int) -> tuple[Jet, Jet]:
    """The jets, for each line, of sigmoid((x − line)/σ) and of sigmoid((line − x)/σ), from the jet of x."""
    z = (x[0] - lines[:, None]) / sigma
    after, before = jax.nn.sigmoid(z), jax.nn.sigmoid(-z)
    slope = after * before / sigma
    tangents = slope[:, None] * x[1:]
    if second:
        laplacian = slope * (before - after) / sigma * (x[1 : 1 + second] ** 2).sum(0)
        tangents = tangents.at[:, -1].add(laplacian)
    return (jnp.concatenate([after[:, None], tangents], axis=1), jnp.concatenate([before[:, None], -tangents], axis=1))


def windowed(key: Array, sizes: Sequence[int], grid: Grid, sigma: float, dtype: DTypeLike = float) -> Windowed:
    """A network of the given sizes for each block of a grid, as `mlp` makes them."""
    if grid.dim > sizes[0]:
        raise ValueError(f"the blocks divide {grid.dim} inputs and the networks have {sizes[0]}; divide no more than "
                         f"there are")
    if not sigma > 0:
        raise ValueError(f"sigma is {sigma:g}; the width of the windows' edges must be positive")
    return Windowed(mlp(key, sizes, dtype, stack=grid.number), grid, float(sigma))
