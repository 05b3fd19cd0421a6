"""Kovasznay's flow behind a grid, at Reynolds number 40, round a disc through which it passes undisturbed.

    (u·∇)u + ∇p − Δu/40 = 0,   ∇·u = 0     in (−½, 1) × (−½, 3/2) without the disc
    u = u*                                 on the left, the bottom, the top and the disc
    p = p*,   v = v*                       on the right

The solution is u* = (1 − e^λx cos 2πy, λ/2π e^λx sin 2πy), p* = (1 − e^2λx)/2, with λ = 20 − √(400 + 4π²).
"""

import jax
import jax.numpy as jnp

import hardpde as hp

RATE = 20 - jnp.sqrt(400 + 4 * jnp.pi**2)


def u(x):
    growth, angle = jnp.exp(RATE * x[0]), 2 * jnp.pi * x[1]
    return jnp.stack([1 - growth * jnp.cos(angle), RATE / (2 * jnp.pi) * growth * jnp.sin(angle)])


def p(x):
    return (1 - jnp.exp(2 * RATE * x[0])) / 2


def flow(x, q, dq):
    return q.grad_u @ q.u + dq.p.space - hp.div(dq.grad_u) / 40, hp.div(dq.u)


def outlet(q, x, n):
    return q.p, q.u[1]


problem = hp.Problem(
    domain=hp.Box((-0.5, -0.5), (1, 1.5), sides={side: side for side in ("left", "right", "bottom", "top")})
    - hp.Ball((0.2, 0.4), 0.2, name="disc"),
    fields={"u": 2, "p": ()},
    gradients={"grad_u": "u"},
    residual=flow,
    conditions=[
        *[hp.dirichlet(side, "u", u) for side in ("left", "bottom", "top", "disc")],
        hp.Condition("right", outlet, lambda x: (p(x), u(x)[1]), "outlet"),
    ],
    exact=lambda x: {"u": u(x), "p": p(x), "grad_u": jax.jacfwd(u)(x)},
    name="kovasznay",
)

if __name__ == "__main__":
    solution = hp.solve(problem)
    print({name: f"{found['relative_l2']:.1e}" for name, found in solution.errors().items()})
    solution.picture("u[0]").savefig("kovasznay.png")
