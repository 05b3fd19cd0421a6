"""Heat conduction in a bracket with a drilled hole, read from an STL file.

    −Δu = f                   in the bracket
    u + n·∇u = u* + n·∇u*     in the hole
    −∂u/∂y = −∂u*/∂y          on its foot, y = 0
    u = u*                    on the rest

The solution is u* = sin(x + y) exp(z), and f = u* belongs to it.
"""

from pathlib import Path

import jax
import jax.numpy as jnp

import hardpde as hp


def u(x):
    return jnp.sin(x[0] + x[1]) * jnp.exp(x[2])


def name(x, n):
    """STL knows no names: every triangle gets one by its centre and its normal."""
    if abs(n[2]) < 0.5 and (x[0] - 1.4) ** 2 + (x[1] - 0.4) ** 2 < 0.25**2:
        return "hole"
    return "foot" if n[1] < -0.9 else "rest"


domain = hp.read_surface(Path(__file__).parent / "data" / "bracket.stl", names=name)
hole = domain.boundaries["hole"]

problem = hp.Problem(
    domain,
    fields="u",
    gradients={"grad_u": "u"},
    residual=lambda x, q, dq: -hp.div(dq.grad_u) - u(x),
    conditions=[
        hp.robin("hole", "u", a=1, b=1, g=lambda x: u(x) + hole.normal(x) @ jax.grad(u)(x)),
        hp.neumann("foot", "u", lambda x: -jax.grad(u)(x)[1]),
        hp.dirichlet("rest", "u", u),
    ],
    exact=lambda x: {"u": u(x), "grad_u": jax.grad(u)(x)},
    name="bracket-stl",
)

if __name__ == "__main__":
    solution = hp.solve(problem)
    print(f"relative L2 error of u: {solution.errors()['u']['relative_l2']:.1e}")
    solution.picture("u").savefig("bracket_stl.png")
