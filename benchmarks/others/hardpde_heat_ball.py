"""heat-ball with hardpde: the built-in problem written out, without gradient fields."""

import jax.numpy as jnp
from heat_ball import DIM, K, solution, source

import hardpde as hp


def u(x):
    return solution(x[:DIM], x[DIM], jnp)


problem = hp.Problem(
    name="heat-ball",
    domain=hp.Ball((0.0,) * DIM, 1.0, name="sphere"),
    fields="u",
    time=(0.0, 1.0),
    residual=lambda x, q, dq: hp.dt(dq.u) - K * hp.laplacian(dq.u) - source(x[:DIM], x[DIM], jnp),
    conditions=[hp.neumann("sphere", "u", u), hp.initial("u", u)],
    # The data agree where they meet, so that nothing is steep.
    hints=hp.Hints(root_time=False, near=0.0, early=0.0, scale=lambda x: 1.0),
)

if __name__ == "__main__":
    solved = hp.solve(problem)
