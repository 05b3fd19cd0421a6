"""Dirichlet, Neumann and Robin sides that meet at the corners of a square.

    Δu = (1 − π²/4) u         in (0, 1)²
    u = cos(πy/2)             on the left
    u = 0                     on the top
    n·∇u = 0                  on the bottom
    u + n·∇u = 2e cos(πy/2)   on the right

The solution is u = eˣ cos(πy/2).
"""

import jax
import jax.numpy as jnp

import hardpde as hp


def u(x):
    return jnp.exp(x[0]) * jnp.cos(jnp.pi * x[1] / 2)


sides = {side: side for side in ("left", "right", "bottom", "top")}

problem = hp.Problem(
    domain=hp.Box((0, 0), (1, 1), sides=sides),
    fields="u",
    gradients={"grad_u": "u"},
    residual=lambda x, q, dq: hp.div(dq.grad_u) - (1 - jnp.pi**2 / 4) * q.u,
    conditions=[
        hp.dirichlet("left", "u", lambda x: jnp.cos(jnp.pi * x[1] / 2)),
        hp.dirichlet("top", "u", 0),
        hp.neumann("bottom", "u", 0),
        hp.robin("right", "u", a=1, b=1, g=lambda x: 2 * jnp.e * jnp.cos(jnp.pi * x[1] / 2)),
    ],
    exact=lambda x: {"u": u(x), "grad_u": jax.grad(u)(x)},
    name="mixed-corners",
)

if __name__ == "__main__":
    solution = hp.solve(problem)
    print(f"relative L2 error of u: {solution.errors()['u']['relative_l2']:.1e}")
    solution.picture("u").savefig("mixed_corners.png")
