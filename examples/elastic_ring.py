"""An elastic ring that is widened from inside (plane strain, Lamé's constants λ = μ = 1).

    ∇·σ = 0     for 1 < |x| < 2, with σ = μ (∇u + ∇uᵀ) + λ (∇·u) I
    u = x       on the inner circle
    σ n = 0     on the outer circle

The solution is u = (1 + 8/|x|²) x / 9.
"""

import jax
import jax.numpy as jnp

import hardpde as hp


def u(x):
    return (1 + 8 / (x @ x)) * x / 9


def balance(x, q, dq):
    """∇·σ: Δu + ∇·(∇uᵀ) + ∇(∇·u), with the second derivatives dd[i, j, k] = ∂ₖ∂ⱼuᵢ."""
    dd = hp.grad(dq.grad_u)
    return hp.div(dq.grad_u) + jnp.einsum("jij->i", dd) + jnp.einsum("jji->i", dd)


problem = hp.Problem(
    domain=hp.Ball((0, 0), 2, name="outer") - hp.Ball((0, 0), 1, name="inner"),
    fields={"u": 2},
    gradients={"grad_u": "u"},
    residual=balance,
    conditions=[
        hp.dirichlet("inner", "u", lambda x: x),
        hp.traction("outer", "u", viscosity=1, bulk=1),
    ],
    exact=lambda x: {"u": u(x), "grad_u": jax.jacfwd(u)(x)},
    name="elastic-ring",
)

if __name__ == "__main__":
    solution = hp.solve(problem)
    print(f"relative L2 error of u[0]: {solution.errors()['u[0]']['relative_l2']:.1e}")
    solution.picture("u[0]").savefig("elastic_ring.png")
