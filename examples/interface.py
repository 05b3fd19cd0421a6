"""A disc of another conductivity in a square plate under a uniform field, with a contact resistance.

    k Δu = 0                           in (−1, 1)², with k = 5 for |x| < R = 0.5 and k = 1 around it
    u₊ − u₋ = J x / R                  on the rim of the disc: u jumps,
    n·∇u₊ = 5 n·∇u₋                    the flux does not
    u = u*                             on the sides

The solution is u* = A x in the disc and u* = (1 + B R²/|x|²) x around it, with A + J/R = 1 + B, 5 A = 1 − B.
"""

import jax

import hardpde as hp

R, K, JUMP = 0.5, 5.0, 0.2
A = (2 - JUMP / R) / (1 + K)
B = 1 - K * A

plate, disc = hp.Box((-1, -1), (1, 1), name="sides"), hp.Ball((0, 0), R, name="rim")


def inside(x):
    return A * x[0]


def around(x):
    return (1 + B * R**2 / (x @ x)) * x[0]


problem = hp.Problem(
    domain=hp.Inlay(plate, disc),
    fields=["a", "b"],
    gradients={"grad_a": "a", "grad_b": "b"},
    regions={"a": disc, "b": plate - disc},
    residual=lambda x, q, dq: {"a": K * hp.div(dq.grad_a), "b": hp.div(dq.grad_b)},
    conditions=[
        hp.interface("rim", ("a", "b"), conductivity=(K, 1), jump=lambda x: JUMP * x[0] / R),
        hp.dirichlet("sides", "b", around),
    ],
    exact=lambda x: {"a": inside(x), "grad_a": jax.grad(inside)(x), "b": around(x), "grad_b": jax.grad(around)(x)},
    name="interface",
)

if __name__ == "__main__":
    solution = hp.solve(problem)
    print(f"relative L2 error around the disc: {solution.errors()['b']['relative_l2']:.1e}")
    solution.picture("b").savefig("interface.png")
