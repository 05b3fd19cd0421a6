"""How well is a hot plate cooled, and how strongly heated? Two numbers found from noisy temperatures.

    −Δu = s                    in the square (−1, 1)² without two discs
    h u + n·∇u = h u* + n·∇u*  on the rims of the discs: cooling with an unknown coefficient h
    u = u*                     on the sides

One network solves the problem for every h and s, its conditions exact for each; the pair that agrees best with
400 temperatures is then found in a moment. The temperatures are those of h = 1.7, s = 3, with 1 % noise. The solution
is known for every pair: u* = (s/4)(1 − |x|²) + x y / (1 + h).
"""

import jax
import jax.numpy as jnp
import numpy as np

import hardpde as hp

h, s = hp.parameters(h=(0.5, 3.0), s=(1.0, 5.0))
TRUE = {"h": 1.7, "s": 3.0}
DISCS = [(-0.45, 0.0), (0.45, 0.1)]


def u(x):
    return s(x) / 4 * (1 - x[0] ** 2 - x[1] ** 2) + x[0] * x[1] / (1 + h(x))


def gradient(x):
    return jax.grad(u)(x)[:2]


def rim(centre):
    def data(x):
        away = jnp.array(centre) - x[:2]
        return h(x) * u(x) + gradient(x) @ away / jnp.linalg.norm(away)

    return data


domain = hp.Box((-1, -1), (1, 1), name="sides")
for k, centre in enumerate(DISCS):
    domain = domain - hp.Ball(centre, 0.25, name=f"disc {k}")
problem = hp.Problem(
    domain=domain,
    fields="u",
    gradients={"grad_u": "u"},
    parameters=(h, s),
    residual=lambda x, q, dq: -hp.div(dq.grad_u) - s(x),
    conditions=[hp.dirichlet("sides", "u", u),
                *(hp.robin(f"disc {k}", "u", a=h, b=1, g=rim(centre)) for k, centre in enumerate(DISCS))],
    exact=lambda x: {"u": u(x), "grad_u": gradient(x)},
    name="find-cooling",
)


def measured(n=400, noise=0.01):
    """Points and temperatures with noise, as a thermometer would give them."""
    x = np.asarray(problem.domain.sample(jax.random.key(5), n))
    true = np.asarray(jax.vmap(problem.at(**TRUE).exact)(x)["u"])
    return x, true + noise * np.abs(true).max() * np.random.default_rng(0).normal(size=n)


if __name__ == "__main__":
    solution = hp.solve(problem, steps=[200, 1500])
    print(hp.infer(solution, "u", *measured()))
    print(f"relative L2 error of u in the middle of the ranges: {solution.errors()['u']['relative_l2']:.1e}")
    solution.picture("u").savefig("find_cooling.png")
