"""A square plate, clamped at its edges, bends under a uniform load.

    ΔΔw = 1             in (0, 1)²
    w = 0, n·∇w = 0     on the edges

Its centre sinks by 0.00126531908748 (Ritz's method with 400 polynomials; `tests/test_examples.py` finds it again).
"""

import hardpde as hp

CENTRE = 0.00126531908748

problem = hp.Problem(
    domain=hp.Box((0, 0), (1, 1), name="edges"),
    fields="w",
    residual=lambda x, q, dq: hp.bilaplacian(dq.w) - 1,
    conditions=[hp.dirichlet("edges", "w", 0), hp.neumann("edges", "w", 0)],
    name="clamped-plate",
)

if __name__ == "__main__":
    solution = hp.solve(problem, solver="direct", tolerance=1e-4)
    print(solution.decision)
    print(f"deflection of the centre: {solution([[0.5, 0.5]])['w'][0]:.9f}, {CENTRE:.9f} is right")
