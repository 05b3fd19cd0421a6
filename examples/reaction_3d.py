"""Diffusion with a cubic reaction in a ball with a cubic cavity.

    −Δu + u³ = f              in the ball |x| < 1 without the cube |xᵢ| < 0.3
    u + n·∇u = u* + x·∇u*     on the sphere
    u = u*                    on the cavity

The solution is u* = sin(x + 2y) cos z, and f belongs to it.
"""

import jax
import jax.numpy as jnp

import hardpde as hp


def u(x):
    return jnp.sin(x[0] + 2 * x[1]) * jnp.cos(x[2])


def reaction(x, q, dq):
    return -hp.div(dq.grad_u) + q.u**3 - (6 * u(x) + u(x) ** 3)


problem = hp.Problem(
    domain=hp.Ball((0, 0, 0), 1, name="sphere") - hp.Box((-0.3, -0.3, -0.3), (0.3, 0.3, 0.3), name="cavity"),
    fields="u",
    gradients={"grad_u": "u"},
    residual=reaction,
    conditions=[
        hp.robin("sphere", "u", a=1, b=1, g=lambda x: u(x) + x @ jax.grad(u)(x)),
        hp.dirichlet("cavity", "u", u),
    ],
    exact=lambda x: {"u": u(x), "grad_u": jax.grad(u)(x)},
    name="reaction-3d",
)

if __name__ == "__main__":
    solution = hp.solve(problem)
    print(f"relative L2 error of u: {solution.errors()['u']['relative_l2']:.1e}")
    solution.picture("u").savefig("reaction_3d.png")
