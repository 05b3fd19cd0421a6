"""An operator with all second derivatives, whose coefficients depend on the place, in a square with a hole.

    Σᵢⱼ aᵢⱼ(x) ∂ᵢ∂ⱼu = f   in (−1, 1)² without a disc,   a = I + ½ x xᵀ + ¼ (e₁e₂ᵀ + e₂e₁ᵀ)
    u = g                  on the hole, left and right
    n·∇u = h               below and above

The solution is u = sin(x + y/2) exp(y/2). hardpde adds ∇u as a field: aᵢⱼ ∂ᵢ∂ⱼu are first derivatives of it, and the
conditions on its normal component hold up to the corners.
"""

import jax
import jax.numpy as jnp

import hardpde as hp


def u(x):
    return jnp.sin(x[0] + x[1] / 2) * jnp.exp(x[1] / 2)


def a(x):
    return jnp.eye(2) + jnp.outer(x, x) / 2 + jnp.array([[0, 0.25], [0.25, 0]])


def slope(x):
    return jnp.sign(x[1]) * jax.grad(u)(x)[1]


problem = hp.Problem(
    domain=hp.Box((-1, -1), (1, 1), sides={"left": "sides", "right": "sides", "bottom": "ends", "top": "ends"})
    - hp.Ball((0.2, 0.1), 0.3, name="hole"),
    fields="u",
    residual=lambda x, q, dq: jnp.sum(a(x) * (hp.hessian(dq.u) - jax.hessian(u)(x))),
    conditions=[hp.dirichlet("sides", "u", u), hp.dirichlet("hole", "u", u), hp.neumann("ends", "u", slope)],
    exact=lambda x: {"u": u(x)},
    name="anisotropic",
)

if __name__ == "__main__":
    solution = hp.solve(problem, tolerance=1e-9)
    print(solution.decision)
    print(f"relative L2 error of u: {solution.errors()['u']['relative_l2']:.1e}")
