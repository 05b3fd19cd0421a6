"""How well is a hot plate cooled, and how strongly heated? Two numbers found from noisy temperatures.

    −Δu = s                      in the square (−1, 1)² without a disc; u = u* on the sides
    h u + n·∇u = h u* + n·∇u*    on the rim of the disc, n = −x/|x|: cooling with an unknown coefficient h

One network solves the problem for every h and s, its conditions exact for each; the pair that agrees best with
400 temperatures is then found in a moment. These are of h = 1.7 and s = 3, with 1 % noise. The solution is known for
every pair: u* = s (1 − |x|²)/4 + x y/(1 + h).
"""

import jax
import jax.numpy as jnp
import numpy as np

import hardpde as hp

h, s = hp.parameters(h=(0.5, 3.0), s=(1.0, 5.0))
TRUE = {"h": 1.7, "s": 3.0}


def u(x):
    return s(x) / 4 * (1 - x[0] ** 2 - x[1] ** 2) + x[0] * x[1] / (1 + h(x))


def gradient(x):
    return jax.grad(u)(x)[:2]


def rim(x):
    return h(x) * u(x) - gradient(x) @ x[:2] / jnp.linalg.norm(x[:2])


problem = hp.Problem(
    domain=hp.Box((-1, -1), (1, 1), name="sides") - hp.Ball((0, 0), 0.4, name="disc"),
    fields="u",
    gradients={"grad_u": "u"},
    parameters=(h, s),
    residual=lambda x, q, dq: -hp.div(dq.grad_u) - s(x),
    conditions=[hp.dirichlet("sides", "u", u), hp.robin("disc", "u", a=h, b=1, g=rim)],
    exact=lambda x: {"u": u(x), "grad_u": gradient(x)},
    name="find-cooling",
)


def measured(n=400, noise=0.01):
    """Points and temperatures with noise."""
    x = np.asarray(problem.domain.sample(jax.random.key(5), n))
    true = np.asarray(jax.vmap(problem.at(**TRUE).exact)(x)["u"])
    return x, true + noise * np.abs(true).max() * np.random.default_rng(0).normal(size=n)


if __name__ == "__main__":
    solution = hp.solve(problem, steps=[200, 1500])
    print(hp.infer(solution, "u", *measured()))
    print(f"relative L2 error of u in the middle of the ranges: {solution.errors()['u']['relative_l2']:.1e}")
    solution.picture("u").savefig("find_cooling.png")
