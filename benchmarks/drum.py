"""A square membrane that swings in two modes; u_t = v is a field of its own, so that the equations are of first order.

    u_t = v,   v_t = Δu,   u = v = 0 on the rim,   u = sin πx sin πy + ½ sin 2πx sin πy at rest at the start.

    hardpde solve benchmarks/drum.py --solver march --tolerance 1e-4
"""

import jax.numpy as jnp

import hardpde as hp

PI = jnp.pi
SLOW, FAST = 2**0.5 * PI, 5**0.5 * PI  # of the two modes


def swinging(x):
    one, two = jnp.sin(PI * x[0]) * jnp.sin(PI * x[1]), jnp.sin(2 * PI * x[0]) * jnp.sin(PI * x[1]) / 2
    return {"u": one * jnp.cos(SLOW * x[2]) + two * jnp.cos(FAST * x[2]),
            "v": -SLOW * one * jnp.sin(SLOW * x[2]) - FAST * two * jnp.sin(FAST * x[2])}


problem = hp.Problem(
    domain=hp.Box((0, 0), (1, 1), name="rim"),
    fields=["u", "v"],
    time=(0.0, 2.0),
    residual=lambda x, q, dq: (hp.dt(dq.u) - q.v, hp.dt(dq.v) - hp.laplacian(dq.u)),
    conditions=[hp.dirichlet("rim", "u", 0), hp.dirichlet("rim", "v", 0),
                hp.initial("u", lambda x: swinging(x)["u"]), hp.initial("v", 0)],
    exact=swinging,
    name="drum",
)
