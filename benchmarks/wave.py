"""A string with two modes of frequencies that differ by four, as benchmarks of networks for waves have it.

    u_tt = 4 u_xx             for 0 < x < 1, 0 < t ≤ 1
    u = 0                     at the ends
    u = sin πx + ½ sin 4πx    at the start, at rest

The solution is u = sin πx cos 2πt + ½ sin 4πx cos 8πt.
"""

import jax.numpy as jnp

import hardpde as hp


def u(x):
    return (jnp.sin(jnp.pi * x[0]) * jnp.cos(2 * jnp.pi * x[1])
            + jnp.sin(4 * jnp.pi * x[0]) * jnp.cos(8 * jnp.pi * x[1]) / 2)


def v(x):
    return -2 * jnp.pi * (jnp.sin(jnp.pi * x[0]) * jnp.sin(2 * jnp.pi * x[1])
                          + 2 * jnp.sin(4 * jnp.pi * x[0]) * jnp.sin(8 * jnp.pi * x[1]))


problem = hp.Problem(
    domain=hp.Box((0,), (1,), name="ends"),
    time=(0, 1),
    fields=("u", "v"),
    residual=lambda x, q, dq: [hp.dt(dq.u) - q.v, hp.dt(dq.v) - 4 * hp.laplacian(dq.u)],
    conditions=[
        hp.dirichlet("ends", "u", 0),
        hp.dirichlet("ends", "v", 0),
        hp.initial("u", lambda x: jnp.sin(jnp.pi * x[0]) + jnp.sin(4 * jnp.pi * x[0]) / 2),
        hp.initial("v", 0),
    ],
    exact=lambda x: {"u": u(x), "v": v(x)},
    name="wave",
)
