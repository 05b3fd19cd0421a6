"""Burgers' equation in a square with a hole: a front that moves along the diagonal.

    ∂u/∂t + u (∂u/∂x + ∂u/∂y) = Δu/20     in (0, 1)² without the disc, 0 < t < 1
    u = u*                                on the sides
    n·∇u = n·∇u*                          on the hole, n points to its centre
    u = u*                                at t = 0

The solution is u* = 1/(1 + e^(10 (x + y − t))).
"""

import jax
import jax.numpy as jnp

import hardpde as hp

CENTRE = (0.5, 0.5)


def u(x):
    return jax.nn.sigmoid(-10 * (x[0] + x[1] - x[2]))


def gradient(x):
    return jax.grad(u)(x)[:2]


def flux(x):
    towards = jnp.array(CENTRE) - x[:2]
    return towards / jnp.linalg.norm(towards) @ gradient(x)


problem = hp.Problem(
    domain=hp.Box((0, 0), (1, 1), name="sides") - hp.Ball(CENTRE, 0.2, name="hole"),
    fields="u",
    gradients={"grad_u": "u"},
    time=(0, 1),
    residual=lambda x, q, dq: hp.dt(dq.u) + q.u * q.grad_u.sum() - hp.div(dq.grad_u) / 20,
    conditions=[hp.dirichlet("sides", "u", u), hp.neumann("hole", "u", flux), hp.initial("u", u)],
    exact=lambda x: {"u": u(x), "grad_u": gradient(x)},
    name="burgers",
)

if __name__ == "__main__":
    solution = hp.solve(problem)
    print(f"relative L2 error of u: {solution.errors()['u']['relative_l2']:.1e}")
    solution.picture("u").savefig("burgers.png")
