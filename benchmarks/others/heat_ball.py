"""The data of the problem heat-ball, for every library: `hardpde.problems.heat_ball` in ten dimensions.

    ∂u/∂t = k Δu + f          in the unit ball, for 0 < t < 1
    n·∇u = u*                 on the sphere
    u = u*                    at t = 0

The solution is u* = exp(|x|²/2 + t). `m` is the module that computes: numpy, jax.numpy or torch; x (..., 10), t (...).
"""

DIM = 10
K = 1 / DIM


def solution(x, t, m):
    return m.exp((x**2).sum(-1) / 2 + t)


def source(x, t, m):
    """f = ∂u/∂t − k Δu."""
    return -K * (x**2).sum(-1) * solution(x, t, m)
