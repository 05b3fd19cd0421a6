"""Heat conduction in the unit ball of ten dimensions, with a wave and a saddle that no rotation leaves alone.

    ∂u/∂t = Δu/10 + x₁x₂     for |x| < 1, 0 < t < 1
    n·∇u = n·∇u*             on the sphere, n = x
    u = u*                   at t = 0

The solution is u* = e^(−t) sin(a·x) + (1 + t) x₁x₂ with a = (1, −1, 1, −1, …).
"""

import jax
import jax.numpy as jnp
import numpy as np

import hardpde as hp

DIM = 10
A = (-1.0) ** np.arange(DIM)


def u(x):
    return jnp.exp(-x[DIM]) * jnp.sin(A @ x[:DIM]) + (1 + x[DIM]) * x[0] * x[1]


def grad_u(x):
    return jax.grad(u)(x)[:DIM]


problem = hp.Problem(
    domain=hp.Ball((0,) * DIM, 1, name="sphere"),
    fields="u",
    gradients={"grad_u": "u"},
    time=(0, 1),
    residual=lambda x, q, dq: hp.dt(dq.u) - hp.div(dq.grad_u) / DIM - x[0] * x[1],
    conditions=[
        hp.neumann("sphere", "u", lambda x: x[:DIM] @ grad_u(x)),
        hp.initial("u", u),
    ],
    # The data agree where they meet, so that nothing is steep.
    hints=hp.Hints(root_time=False, near=0, early=0, scale=lambda x: 1.0),
    exact=lambda x: {"u": u(x), "grad_u": grad_u(x)},
    name="heat-ball-waves",
)

if __name__ == "__main__":
    solution = hp.solve(problem, steps=[0, 300], options={"points": 1024})
    print(f"relative L2 error of u: {solution.errors()['u']['relative_l2']:.1e}")
    solution.picture("u").savefig("heat_ball_waves.png")
