"""Heat conduction in a gasket, read from an SVG drawing.

    −Δu = 2 u*                in the gasket
    u = u*                    on its rim
    u + n·∇u = u* + n·∇u*     round the bolts, n points to their centres

The solution is u* = sin x cos y. The names are the id and the class of the drawing's elements.
"""

from pathlib import Path

import jax
import jax.numpy as jnp

import hardpde as hp


def u(x):
    return jnp.sin(x[0]) * jnp.cos(x[1])


domain = hp.read_outline(Path(__file__).parent / "data" / "gasket.svg")
bolts = domain.boundaries["bolts"]

problem = hp.Problem(
    domain,
    fields="u",
    gradients={"grad_u": "u"},
    residual=lambda x, q, dq: -hp.div(dq.grad_u) - 2 * u(x),
    conditions=[
        hp.dirichlet("rim", "u", u),
        hp.robin("bolts", "u", a=1, b=1, g=lambda x: u(x) + bolts.normal(x) @ jax.grad(u)(x)),
    ],
    exact=lambda x: {"u": u(x), "grad_u": jax.grad(u)(x)},
    name="gasket-svg",
)

if __name__ == "__main__":
    solution = hp.solve(problem)
    print(f"relative L2 error of u: {solution.errors()['u']['relative_l2']:.1e}")
    solution.picture("u").savefig("gasket_svg.png")
