"""An unknown conductivity, found everywhere from noisy temperatures.

    −∇·(a ∇u) = f     in the square (0, 1)² without a disc; u = u* on the sides
    n·w = g           on the rim of the disc, with the flux w = a ∇u

The conductivity a is a field without an equation of its own: the temperatures determine it, with a wish for slopes
that change little. u* = x + y + sin(πx) sin(πy)/4 and a* = 1 + x y; 2000 temperatures carry 1 % noise.
"""

import jax
import jax.numpy as jnp
import numpy as np

import hardpde as hp

SMOOTH = 0.03  # how much the change of slopes counts


def u(x):
    return x[0] + x[1] + jnp.sin(jnp.pi * x[0]) * jnp.sin(jnp.pi * x[1]) / 4


def a(x):
    return 1 + x[0] * x[1]


def flux(x):
    return a(x) * jax.grad(u)(x)


domain = hp.Box((0, 0), (1, 1), name="sides") - hp.Ball((0.5, 0.5), 0.15, name="rim")


def measured(n=2000, noise=0.01):
    x = np.asarray(domain.sample(jax.random.key(5), n))
    true = np.asarray(jax.vmap(u)(x))
    return x, true + noise * np.abs(true).max() * np.random.default_rng(0).normal(size=n)


def residual(x, q, dq):
    return hp.div(dq.w) - jnp.trace(jax.jacfwd(flux)(x)), q.w - q.a * hp.grad(dq.u), SMOOTH * hp.grad(dq.grad_a)


problem = hp.Problem(
    domain=domain,
    fields={"u": (), "a": (), "w": (2,)},
    residual=residual,
    gradients={"grad_a": "a"},
    equations=7,
    conditions=[hp.dirichlet("sides", "u", u), hp.Condition(
        "rim", lambda q, x, n: q.w @ n, lambda x: flux(x) @ (0.5 - x) / jnp.linalg.norm(0.5 - x), "flux")],
    measurements=[hp.Measurement("u", *measured())],
    exact=lambda x: {"u": u(x), "a": a(x), "grad_a": jax.grad(a)(x), "w": flux(x)},
    name="find-conductivity",
)

if __name__ == "__main__":
    solution = hp.solve(problem)
    print(f"relative L2 error of a: {solution.errors()['a']['relative_l2']:.1e}")
    solution.picture("a").savefig("find_conductivity.png")
