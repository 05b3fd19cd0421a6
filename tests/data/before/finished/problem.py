"""A rod that warms up, held on the left and cooled on the right: u = x t solves it."""

import hardpde as hp

problem = hp.Problem(
    domain=hp.Interval(0, 1, left="held", right="cooled"), fields="u", gradients={"grad_u": "u"}, time=(0, 1),
    residual=lambda x, q, dq: hp.dt(dq.u) - hp.div(dq.grad_u) - x[0],
    conditions=[
        hp.dirichlet("held", "u"),
        hp.robin("cooled", "u", a=1, b=1, g=lambda x: 2 * x[1]),
        hp.initial("u"),
    ],
    exact=lambda x: {"u": x[0] * x[1]}, name="rod",
)
