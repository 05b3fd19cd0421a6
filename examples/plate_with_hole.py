"""Kirsch's plate: a square with a round hole, pulled along x (plane strain, Lamé's constants λ = μ = 1).

    ∇·σ = 0     in (−4, 4)² without the unit disc, with σ = μ (∇u + ∇uᵀ) + λ (∇·u) I
    σ n = 0     on the hole
    σ n = σ* n  on the right and the top
    u = u*      on the left and the bottom

The solution u*, σ* is that of an infinite plate with σ → diag(1, 0) far away; on the hole the stress reaches 3.
"""

import jax
import jax.numpy as jnp
import numpy as np

import hardpde as hp

KAPPA = 2.0  # 3 − 4ν, with ν = 1/4


def u(x):
    r = jnp.linalg.norm(x)
    c, s = x / r
    c3, s3 = 4 * c**3 - 3 * c, 3 * s - 4 * s**3  # cos 3θ, sin 3θ
    return jnp.stack([(KAPPA + 1) * r * c + 2 / r * ((1 + KAPPA) * c + c3) - 2 / r**3 * c3,
                      (KAPPA - 3) * r * s + 2 / r * ((1 - KAPPA) * s + s3) - 2 / r**3 * s3]) / 8


def stress(grad_u):
    return grad_u + grad_u.T + jnp.trace(grad_u) * jnp.eye(2)


def balance(x, q, dq):
    """∇·σ: Δu + ∇·(∇uᵀ) + ∇(∇·u), with the second derivatives dd[i, j, k] = ∂ₖ∂ⱼuᵢ."""
    dd = hp.grad(dq.grad_u)
    return hp.div(dq.grad_u) + jnp.einsum("jij->i", dd) + jnp.einsum("jji->i", dd)


problem = hp.Problem(
    domain=hp.Box((-4, -4), (4, 4), sides={side: side for side in ("left", "right", "bottom", "top")})
    - hp.Ball((0, 0), 1, name="hole"),
    fields={"u": 2},
    gradients={"grad_u": "u"},
    residual=balance,
    conditions=[
        hp.traction("hole", "u", viscosity=1, bulk=1),
        hp.traction("right", "u", lambda x: stress(jax.jacfwd(u)(x))[0], viscosity=1, bulk=1),
        hp.traction("top", "u", lambda x: stress(jax.jacfwd(u)(x))[1], viscosity=1, bulk=1),
        hp.dirichlet("left", "u", u),
        hp.dirichlet("bottom", "u", u),
    ],
    exact=lambda x: {"u": u(x), "grad_u": jax.jacfwd(u)(x)},
    name="plate-with-hole",
)

if __name__ == "__main__":
    solution = hp.solve(problem)
    print(f"stress at the top of the hole: {stress(solution(np.array([[0, 1]]))['grad_u'][0])[0, 0]:.4f} (Kirsch: 3)")
    solution.picture("u[0]").savefig("plate_with_hole.png")
