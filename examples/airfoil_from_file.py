"""Heat round a warm airfoil that is read from a coordinate file.

    Δu = 0                    in (−1, 2) × (−1, 1) without the airfoil
    u = u*                    on the airfoil
    u + n·∇u = u* + n·∇u*     on the sides, which are cooled

The solution u* is that of a thin plate inside the airfoil: cosh u* = (|x − a| + |x − b|) / |a − b|, a and b its ends.

    python examples/airfoil_from_file.py [--file airfoil.dat]
    hardpde solve examples/airfoil_from_file.py --with file=airfoil.dat
"""

import argparse
from importlib.resources import files

import jax
import jax.numpy as jnp

import hardpde as hp

W1015 = str(files("hardpde.problems") / "data" / "w1015.dat")
A, B = jnp.array([0.2, 0.0]), jnp.array([0.7, 0.0])
NORMALS = {"left": (-1, 0), "right": (1, 0), "bottom": (0, -1), "top": (0, 1)}


def u(x):
    distances = jnp.linalg.norm(x - A) + jnp.linalg.norm(x - B)
    return jnp.arccosh(distances / jnp.linalg.norm(A - B))


def cooled(side: str) -> hp.Condition:
    return hp.robin(side, "u", a=1, b=1, g=lambda x: u(x) + jnp.array(NORMALS[side]) @ jax.grad(u)(x))


def problem(file: str = W1015) -> hp.Problem:
    """Selig's and Lednicer's formats are read; "fit" smooths the rounded digits of the file."""
    box = hp.Box((-1, -1), (2, 1), sides={side: side for side in NORMALS})
    return hp.Problem(
        domain=box - hp.airfoil(file, smooth="fit"),
        fields="u",
        gradients={"grad_u": "u"},
        residual=lambda x, q, dq: hp.div(dq.grad_u),
        conditions=[hp.dirichlet("airfoil", "u", u), *map(cooled, NORMALS)],
        exact=lambda x: {"u": u(x), "grad_u": jax.grad(u)(x)},
        name="airfoil-from-file",
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--file", default=W1015)
    solution = hp.solve(problem(parser.parse_args().file))
    print(f"relative L2 error of u: {solution.errors()['u']['relative_l2']:.1e}")
    solution.picture("u").savefig("airfoil_from_file.png")
