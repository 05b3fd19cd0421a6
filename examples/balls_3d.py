"""Poisson's equation in a cube without two balls.

    −Δu = 3π² u*              in (0, 1)³ without the balls
    n·∇u = 0                  on the cube
    u = u*                    on the ball "warm"
    u + n·∇u = u* + n·∇u*     on the ball "cooled", n points to its centre

The solution is u* = cos πx cos πy cos πz.
"""

import jax
import jax.numpy as jnp

import hardpde as hp

WARM, COOLED = (0.3, 0.3, 0.5), (0.7, 0.7, 0.5)


def u(x):
    return jnp.cos(jnp.pi * x).prod()


def cooling(x):
    towards = jnp.array(COOLED) - x
    return u(x) + towards / jnp.linalg.norm(towards) @ jax.grad(u)(x)


problem = hp.Problem(
    domain=hp.Box((0, 0, 0), (1, 1, 1), name="cube")
    - hp.Ball(WARM, 0.15, name="warm")
    - hp.Ball(COOLED, 0.2, name="cooled"),
    fields="u",
    gradients={"grad_u": "u"},
    residual=lambda x, q, dq: -hp.div(dq.grad_u) - 3 * jnp.pi**2 * u(x),
    conditions=[
        hp.neumann("cube", "u", 0),
        hp.dirichlet("warm", "u", u),
        hp.robin("cooled", "u", a=1, b=1, g=cooling),
    ],
    exact=lambda x: {"u": u(x), "grad_u": jax.grad(u)(x)},
    name="balls-3d",
)

if __name__ == "__main__":
    solution = hp.solve(problem)
    print(f"relative L2 error of u: {solution.errors()['u']['relative_l2']:.1e}")
    solution.picture("u").savefig("balls_3d.png")
