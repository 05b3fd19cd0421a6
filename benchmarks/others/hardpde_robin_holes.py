"""robin-holes with hardpde: every condition holds by construction."""

import jax.numpy as jnp
from robin_holes import HOLES, RADIUS, A, rim, source

import hardpde as hp

domain = hp.Box((0, 0), (1, 1), name="sides")
for k, hole in enumerate(HOLES):
    domain = domain - hp.Ball(hole, RADIUS, name=f"hole{k}")

problem = hp.Problem(
    name="robin-holes",
    domain=domain,
    fields="u",
    residual=lambda x, q, dq: hp.laplacian(dq.u) + source(x[0], x[1], jnp),
    conditions=[
        hp.dirichlet("sides", "u", 0),
        *[hp.robin(f"hole{k}", "u", a=A, b=1, g=lambda x, hole=hole: rim(x[0], x[1], hole, jnp))
          for k, hole in enumerate(HOLES)],
    ],
    hints=hp.Hints(decay=False),  # the solution has no layers at the holes
)

if __name__ == "__main__":
    solution = hp.solve(problem)
