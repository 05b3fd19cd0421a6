"""A wave in a square with two round holes, held at all walls. Marched.

    ∂u/∂t = v,   ∂v/∂t = Δu     in the square without the holes, 0 < t < 1
    u = v = 0 on the walls;     u = 10 w³ exp(−4 |x − a|²), v = 0 at t = 0; w = 0 on the walls

The reference is by finite elements of order 7 and Numerov's steps of order 4, which begin symmetrically as v = 0.
"""

import math

import jax.numpy as jnp
import numpy as np

import hardpde as hp

HOLES = [(0.4, 0.3, 0.3), (-0.4, -0.4, 0.25)]


def begin(x, y, exp=jnp.exp):
    holes = math.prod(1 - radius**2 / ((x - a) ** 2 + (y - b) ** 2) for a, b, radius in HOLES)
    return 10 * ((1 - x**2) * (1 - y**2) * holes) ** 3 * exp(-4 * ((x + 0.4) ** 2 + (y - 0.4) ** 2))


def elements(end, order=7, maxh=0.25, steps=200):
    import ngsolve as ng
    from netgen.geom2d import SplineGeometry
    from scipy.sparse import csr_array, linalg
    (geometry := SplineGeometry()).AddRectangle((-1, -1), (1, 1), bcs=["wall"] * 4)
    for a, b, radius in HOLES:
        geometry.AddCircle((a, b), radius, leftdomain=0, rightdomain=1, bc="wall", maxh=radius / 3)
    space = ng.H1(mesh := ng.Mesh(geometry.GenerateMesh(maxh=maxh)).Curve(order), order=order, dirichlet="wall")
    (u, v), found, free = space.TnT(), ng.GridFunction(space), np.flatnonzero(list(space.FreeDofs()))
    forms = [ng.BilinearForm(form * ng.dx).Assemble() for form in (u * v, ng.grad(u) * ng.grad(v))]
    mass, stiffness = (csr_array(form.mat.CSR())[free][:, free].tocsc() for form in forms)
    found.Set(begin(ng.x, ng.y, ng.exp))
    h, now, change, values = end / 5 / steps, found.vec.FV().NumPy()[free], 0.0, []
    x = np.array([p for p in (vertex.point for vertex in mesh.vertices) if abs(begin(*p, np.exp)) > 1e-6])
    system = linalg.splu(mass + h**2 / 12 * stiffness)
    for k in range(5 * steps):
        change = change - system.solve(h**2 * (stiffness @ now)) / (1 if k else 2)
        now = now + change
        if (k + 1) % steps == 0:
            found.vec.FV().NumPy()[free] = now
            values.append(np.asarray(found(mesh(*x.T))).ravel())
    return hp.Reference(x, {"u": np.stack(values)}, end * np.arange(1, 6) / 5)


def problem(end=1.0, steps=200):
    square = hp.Box((-1, -1), (1, 1), name="wall")
    for a, b, radius in HOLES:
        square = square - hp.Ball((a, b), radius, name="wall")
    return hp.Problem(square, ["u", "v"], time=(0.0, end), reference=lambda: elements(end, steps=steps),
        name="waves-round-holes", residual=lambda x, q, dq: (hp.dt(dq.u) - q.v, hp.dt(dq.v) - hp.laplacian(dq.u)),
        conditions=[*(hp.dirichlet("wall", name, 0) for name in "uv"),
                    hp.initial("u", lambda x: begin(*x[:2])), hp.initial("v", 0)])


if __name__ == "__main__":
    solution = hp.solve(problem(), solver="march", tolerance=1e-3)
    print(f"relative L2 error of u: {solution.errors()['u']['relative_l2']:.1e}; {solution.decision}")
