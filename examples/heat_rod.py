"""Heat in a rod that is cooled at one end and insulated at the other.

    ∂u/∂t = ∂²u/∂x²     for 0 < x < 1, 0 < t < 1
    u = 0               at x = 0
    ∂u/∂x = 0           at x = 1
    u = sin(πx/2)       at t = 0

The solution is u = e^(−π²t/4) sin(πx/2).
"""

import jax.numpy as jnp

import hardpde as hp


def mode(x):
    return jnp.sin(jnp.pi * x[0] / 2)


def exact(x):
    decay = jnp.exp(-(jnp.pi**2) * x[1] / 4)
    return {"u": decay * mode(x), "grad_u": decay * jnp.pi / 2 * jnp.cos(jnp.pi * x[:1] / 2)}


problem = hp.Problem(
    domain=hp.Interval(0, 1, left="cooled", right="insulated"),
    fields="u",
    gradients={"grad_u": "u"},
    time=(0, 1),
    residual=lambda x, q, dq: hp.dt(dq.u) - hp.div(dq.grad_u),
    conditions=[
        hp.dirichlet("cooled", "u", 0),
        hp.neumann("insulated", "u", 0),
        hp.initial("u", mode),
    ],
    exact=exact,
    name="heat-rod",
)

if __name__ == "__main__":
    solution = hp.solve(problem)
    print(f"relative L2 error of u: {solution.errors()['u']['relative_l2']:.1e}")
    solution.picture("u").savefig("heat_rod.png")
