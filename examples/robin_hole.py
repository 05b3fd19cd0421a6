"""Heat conduction in a square plate with a cooled hole.

    −Δu = 2π² u*              in the square (−1, 1)² without the disc |x| < 0.4
    n·∇u = 0                  on the sides
    u + n·∇u = u* + n·∇u*     on the rim of the hole, n = −x/|x|

The solution is u* = cos πx cos πy.
"""

import jax
import jax.numpy as jnp

import hardpde as hp


def u(x):
    return jnp.cos(jnp.pi * x[0]) * jnp.cos(jnp.pi * x[1])


def rim(x):
    n = -x / jnp.linalg.norm(x)
    return u(x) + n @ jax.grad(u)(x)


problem = hp.Problem(
    domain=hp.Box((-1, -1), (1, 1), name="sides") - hp.Ball((0, 0), 0.4, name="hole"),
    fields="u",
    gradients={"grad_u": "u"},
    residual=lambda x, q, dq: -hp.div(dq.grad_u) - 2 * jnp.pi**2 * u(x),
    conditions=[
        hp.neumann("sides", "u", 0),
        hp.robin("hole", "u", a=1, b=1, g=rim),
    ],
    exact=lambda x: {"u": u(x), "grad_u": jax.grad(u)(x)},
    name="robin-hole",
)

if __name__ == "__main__":
    solution = hp.solve(problem)
    print(f"relative L2 error of u: {solution.errors()['u']['relative_l2']:.1e}")
    solution.picture("u").savefig("robin_hole.png")
