"""Statements for `test_well_posed`, sound and broken; none of them is solved."""

from functools import cache

import jax
import jax.numpy as jnp

import hardpde as hp
from hardpde import Condition, dirichlet, initial, interface, neumann, periodic, robin, slip, traction

SIDES = {side: side for side in ("left", "right", "bottom", "top")}
SQUARE = hp.Box((0, 0), (1, 1), sides=SIDES)
PLAIN = hp.Box((0, 0), (1, 1), name="sides")
SMALL = hp.Box((0, 0), (1e-3, 2e-3), name="sides")
CHIP = hp.Box((0, 0), (5e-6, 5e-6), sides=SIDES)
CUBE = hp.Box((0, 0, 0), (1, 1, 1), name="sides")
RING = hp.Ball((0, 0), 2, name="outer") - hp.Ball((0, 0), 1, name="inner")
ROD = hp.Interval(0, 1, left="left", right="right")
DISC = hp.Ball((0.5, 0.5), 0.2, name="rim")
INLAY = hp.Inlay(PLAIN, DISC)


@cache
def _checked():
    return hp.Problem(domain=ROD, fields="u", residual=lambda x, q, dq: dq.u.space[0], free=["right"],
                      conditions=[dirichlet("left", "u")])


def state(domain, fields, residual, conditions, **more):
    """A problem whose statement is not checked otherwise: some of these would be refused, and it takes longer."""
    ordered = tuple(sorted(conditions, key=lambda one: not isinstance(one, Condition)))
    return _checked().derived(domain=domain, fields=fields, residual=residual, conditions=ordered, free=(), **more)


def poisson(conditions, domain=SQUARE, source=1.0, coefficient=lambda x: 1.0, reaction=0.0, **more):
    def residual(x, q, dq):
        slope, a = jax.value_and_grad(lambda x: coefficient(x) + 0 * x[0])(x)[::-1]
        return -a * hp.div(dq.p) - slope[: q.p.size] @ q.p + reaction * q.u - source

    return state(domain, "u", residual, conditions, gradients={"p": "u"}, **more)


def laplace(conditions, domain=PLAIN, **more):
    return state(domain, "u", lambda x, q, dq: hp.laplacian(dq.u) + 1.0, conditions, **more)


def heat(conditions, domain=SQUARE, sign=1.0, **more):
    return state(domain, "u", lambda x, q, dq: hp.dt(dq.u) - sign * hp.div(dq.p), conditions, gradients={"p": "u"},
                 time=(0, 1), **more)


def wave(conditions, domain=PLAIN):
    return state(domain, ["u", "v"], lambda x, q, dq: (hp.dt(dq.u) - q.v, hp.dt(dq.v) - hp.div(dq.p)), conditions,
                 gradients={"p": "u"}, time=(0, 1))


def acoustics(conditions, domain=SQUARE):
    def residual(x, q, dq):
        return hp.dt(dq.p) + hp.div(dq.u), hp.dt(dq.u) + hp.grad(dq.p)

    return state(domain, {"u": 2, "p": ()}, residual, conditions, time=(0, 1))


def stokes(conditions, domain=SQUARE, nu=1.0, inertia=0.0, time=None, leave=()):
    def residual(x, q, dq):
        momentum = inertia * q.g @ q.u + hp.grad(dq.p) - nu * hp.div(dq.g)
        if time:
            momentum = momentum + hp.dt(dq.u)
        return tuple(part for k, part in enumerate((momentum, hp.div(dq.u))) if k not in leave)

    return state(domain, {"u": 2, "p": ()}, residual, conditions, gradients={"g": "u"}, time=time)


def elasticity(conditions, domain=RING):
    def residual(x, q, dq):
        dd = hp.grad(dq.g)
        return hp.div(dq.g) + jnp.einsum("jij->i", dd) + jnp.einsum("jji->i", dd)

    return state(domain, {"u": 2}, residual, conditions, gradients={"g": "u"})


def plate(conditions, domain=PLAIN):
    """Δw = f, Δu = w, with gradients."""
    return state(domain, ["u", "w"], lambda x, q, dq: (hp.div(dq.pu) - q.w, hp.div(dq.pw) - 1.0), conditions,
                 gradients={"pu": "u", "pw": "w"})


def transport(conditions, time=None, reaction=0.0, velocity=(1.0, 0.3), domain=SQUARE, nonlinear=False):
    def residual(x, q, dq):
        found = dq.u.space @ jnp.asarray(velocity) * (q.u if nonlinear else 1.0) + reaction * q.u
        return found + hp.dt(dq.u) if time else found

    return state(domain, "u", residual, conditions, time=time)


def ode(order, conditions, domain=ROD, **more):
    if order == 1:
        return state(domain, "u", lambda x, q, dq: dq.u.space[0] + q.u, conditions, **more)
    return state(domain, "u", lambda x, q, dq: hp.div(dq.p) + 1.0, conditions, gradients={"p": "u"}, **more)


def regions(conditions):
    return state(INLAY, ["a", "b"], lambda x, q, dq: {"a": 5 * hp.div(dq.pa), "b": hp.div(dq.pb)}, conditions,
                 gradients={"pa": "a", "pb": "b"}, regions={"a": DISC, "b": PLAIN - DISC})


def gas(conditions):
    """Density r and velocity w of an isothermal gas in a tube."""
    def residual(x, q, dq):
        r, w = dq.r.space[0], dq.w.space[0]
        return hp.dt(dq.r) + q.w * r + q.r * w, hp.dt(dq.w) + q.w * w + r / q.r

    return state(ROD, ["r", "w"], residual, conditions, time=(0, 1))


def dispersion(conditions):
    """Korteweg and de Vries."""
    def residual(x, q, dq):
        return q.p - dq.u.space[0], q.q - dq.p.space[0], hp.dt(dq.u) + dq.q.space[0] + 6 * q.u * q.p

    return state(ROD, ["u", "p", "q"], residual, [*conditions, initial("u", 1.0)], time=(0, 1))


def each(make, *names):
    return [make(name) for name in names or SIDES]


def maxwell(conditions):
    """Curl and divergence of a plane field."""
    return state(PLAIN, {"e": 2}, lambda x, q, dq: (hp.div(dq.e) - 1.0, hp.curl(dq.e)), conditions)


def parabola(x):
    return jnp.stack([x[1] * (1 - x[1]), 0 * x[0]])


def outlet(q, x, n):
    return q.p, q.u[1]


held = [dirichlet(side, "u", 0.0) for side in SIDES]
walls = [dirichlet(side, "u") for side in ("bottom", "top")]

SOUND = {
    "a rod with one name for both ends": lambda: hp.Problem(
        hp.Interval(0, 1, name="ends"), "u", lambda x, q, dq: hp.laplacian(dq.u) + 1, [hp.dirichlet("ends", "u", 0)]),
    "Poisson, Dirichlet": lambda: poisson(held),
    "Poisson, all kinds": lambda: poisson([dirichlet("left", "u"), neumann("right", "u", 1.0),
                                           robin("bottom", "u", 1.0, 2.0), dirichlet("top", "u", 1.0)]),
    "Poisson, Robin alone": lambda: poisson(each(lambda s: robin(s, "u", 1.0, 1.0))),
    "Poisson, small units": lambda: poisson([robin("sides", "u", 1e3, 4e-7)], SMALL, coefficient=lambda x: 4e-7),
    "Poisson, micrometres": lambda: poisson([dirichlet("bottom", "u", 350.0), *each(
        lambda s: neumann(s, "u"), "left", "right", "top")], CHIP, 2e13, lambda x: 150.0),
    "charges and a potential in SI units": lambda: state(
        hp.Interval(0, 1e-6, left="left", right="right"), ["u", "n"], lambda x, q, dq: (
            hp.laplacian(dq.u) + 1.6e-9 * (q.n - 1e22), hp.laplacian(dq.n) - 4e12 * q.n),
        [dirichlet(end, field) for end in ("left", "right") for field in "un"]),
    "a beam by four fields in SI units": lambda: state(
        hp.Interval(0, 3, left="left", right="right"), ["w", "s", "m", "v"], lambda x, q, dq: (
            dq.w.space[0] - q.s, 1.7e6 * dq.s.space[0] - q.m, dq.m.space[0] - q.v, dq.v.space[0] - 2e3),
        [dirichlet("left", "w"), dirichlet("left", "s"), dirichlet("right", "m"), dirichlet("right", "v")]),
    "Poisson, variable coefficient": lambda: poisson([dirichlet("outer", "u"), neumann("inner", "u", 1.0)], RING,
                                                     coefficient=lambda x: 1 + x @ x),
    "Poisson in three dimensions": lambda: poisson([dirichlet("sides", "u")], CUBE),
    "Poisson in six dimensions": lambda: poisson([robin("s", "u", 1.0, 1.0)], hp.Ball((0.0,) * 6, 1.0, name="s")),
    "Neumann with reaction": lambda: poisson(each(lambda s: neumann(s, "u", 1.0)), reaction=1.0),
    "Laplacian, Dirichlet": lambda: laplace([dirichlet("sides", "u")]),
    "Laplacian, Robin on a disc": lambda: laplace([robin("rim", "u", 1.0, 1.0)], DISC),
    "periodic and Dirichlet": lambda: poisson([periodic("left", "right"), dirichlet("top", "u"), dirichlet(
        "bottom", "u")]),
    "Helmholtz between resonances": lambda: poisson(held, reaction=-1.3 * jnp.pi**2),
    "heat, Neumann": lambda: heat([*each(lambda s: neumann(s, "u", 1.0)), initial("u", 1.0)]),
    "heat, Dirichlet and Robin": lambda: heat([dirichlet("left", "u"), *each(lambda s: robin(s, "u", 2.0, 1.0), "right",
                                                                             "top", "bottom"), initial("u", 0.0)]),
    "heat on a rod": lambda: heat([dirichlet("left", "u"), neumann("right", "u"), initial("u", 0.0)], ROD),
    "wave": lambda: wave([dirichlet("sides", "u"), initial("u", 0.0), initial("v", 1.0)]),
    "wave, absorbing": lambda: wave([Condition("sides", lambda q, x, n: q.v + q.p @ n), initial("u", 0.0),
                                     initial("v", 1.0)]),
    "acoustics, walls": lambda: acoustics([*each(lambda s: Condition(s, lambda q, x, n: q.u @ n)), initial("u", 0.0),
                                           initial("p", 1.0)]),
    "acoustics, pressure": lambda: acoustics([*each(lambda s: dirichlet(s, "p")), initial("u", 0.0),
                                              initial("p", 1.0)]),
    "Stokes in a channel": lambda: stokes([dirichlet("left", "u", parabola), *walls, Condition("right", outlet)]),
    "Stokes, free outflow": lambda: stokes([dirichlet("left", "u", parabola), *walls, traction(
        "right", "u", pressure="p")]),
    "Navier–Stokes, slip walls": lambda: stokes([dirichlet("left", "u", (1.0, 0.0)), Condition("right", outlet), *each(
        lambda s: slip(s, "u"), "top", "bottom")], nu=0.01, inertia=1.0),
    "Navier–Stokes in time": lambda: stokes([dirichlet("left", "u", parabola), *walls, Condition("right", outlet),
                                             initial("u", 0.0)], inertia=1.0, time=(0, 1)),
    "elasticity, held inside": lambda: elasticity([dirichlet("inner", "u"), traction(
        "outer", "u", 1.0, viscosity=1, bulk=1)]),
    "elasticity, sliding": lambda: elasticity([dirichlet("inner", "u"), Condition("outer", lambda q, x, n: (
        q.u @ n, jnp.array([-n[1], n[0]]) @ (q.g + q.g.T) @ n))]),
    "plate, supported": lambda: plate([dirichlet("sides", "u"), dirichlet("sides", "w")]),
    "plate, clamped": lambda: plate([dirichlet("sides", "u"), neumann("sides", "u")]),
    "transport in time": lambda: transport([dirichlet("left", "u"), dirichlet("bottom", "u"), initial("u", 1.0)],
                                           time=(0, 1)),
    "transport, stationary": lambda: transport([dirichlet("left", "u"), dirichlet("bottom", "u")]),
    "transport with decay": lambda: transport([dirichlet("left", "u"), dirichlet("bottom", "u")], reaction=2.0),
    "transport backwards": lambda: transport([dirichlet("right", "u"), dirichlet("top", "u")]),
    "inviscid Burgers": lambda: transport([dirichlet("left", "u", 1.0), initial("u", 1.0)], time=(0, 1),
                                          velocity=(1.0,), domain=ROD, nonlinear=True),
    "two points": lambda: ode(2, [dirichlet("left", "u"), neumann("right", "u")]),
    "all at one end": lambda: ode(2, [dirichlet("left", "u"), neumann("left", "u")]),
    "first order": lambda: ode(1, [dirichlet("right", "u", 1.0)]),
    "gas, slow": lambda: gas([dirichlet("left", "w", 0.5), dirichlet("right", "r", 1.0), initial("r", 1.0), initial(
        "w", 0.5)]),
    "gas, faster than sound": lambda: gas([dirichlet("left", "w", 3.0), dirichlet("left", "r", 1.0), initial(
        "r", 1.0), initial("w", 3.0)]),
    "dispersion": lambda: dispersion([dirichlet("left", "u"), dirichlet("right", "u"), dirichlet("right", "p")]),
    "phases that part": lambda: state(
        SQUARE, ["c", "m"], lambda x, q, dq: (hp.dt(dq.c) - hp.div(dq.b), q.m - q.c**3 + q.c + 0.01 * hp.div(dq.a)),
        [*each(lambda s: neumann(s, "c")), *each(lambda s: neumann(s, "m")), initial("c", 0.3)],
        gradients={"a": "c", "b": "m"}, time=(0, 1)),
    "a root of the solution": lambda: poisson(
        [dirichlet("sides", "u", 1.0)], PLAIN).derived(residual=lambda x, q, dq: jnp.sqrt(q.u) * hp.div(dq.p) - 1.0),
    "two materials": lambda: regions([interface("rim", ("a", "b"), conductivity=(5.0, 1.0)), dirichlet("sides", "b")]),
    "curl and divergence": lambda: maxwell([Condition("sides", lambda q, x, n: n[0] * q.e[1] - n[1] * q.e[0])]),
    "curl of a gradient said too": lambda: state(
        PLAIN, "u", lambda x, q, dq: (hp.div(dq.p) + 1.0, hp.curl(dq.p)), [dirichlet("sides", "u")],
        gradients={"p": "u"}, equations=2),
    "reaction and diffusion": lambda: state(
        SQUARE, ["u", "v"], lambda x, q, dq: (hp.dt(dq.u) - hp.div(dq.a) - q.u * q.v**2, hp.dt(dq.v) - 0.01 * hp.div(
            dq.b) + q.u * q.v**2), [*each(lambda s: neumann(s, "u")), *each(lambda s: neumann(s, "v")), initial(
                "u", 1.0), initial("v", 0.5)], gradients={"a": "u", "b": "v"}, time=(0, 1)),
}

# Where the answer depends on what is not known.
UNTOLD = {
    "eikonal": lambda: state(RING, "u", lambda x, q, dq: dq.u.space @ dq.u.space - 1, [dirichlet("inner", "u")]),
    "Burgers, nothing known of the outflow": lambda: transport([dirichlet("left", "u", 1.0)], velocity=(1.0, 0.0),
                                                               nonlinear=True),
    "an inlay between nothing": lambda: poisson([dirichlet("rim", "u"), dirichlet("sides", "u")], INLAY),
}

# What is said of each: words of a finding.
BROKEN = {
    "Poisson, nothing on a side": (lambda: poisson(held[:3]), "'top' needs 1 condition and has 0"),
    "Poisson, two on a side": (lambda: poisson([*held, neumann("top", "u")]), "'top' needs 1 condition and has 2"),
    "Laplacian, nothing on a hole": (lambda: laplace([dirichlet("outer", "u")], RING), "'inner' needs 1"),
    "pure Neumann": (lambda: poisson(each(lambda s: neumann(s, "u", -0.25))), "the level of 'u'"),
    "pure Neumann, micrometres": (lambda: poisson(each(lambda s: neumann(s, "u", -1.0)), CHIP, 1e3, lambda x: 150.0),
                                  "the level of 'u'"),
    "pure Neumann, wrong mean": (lambda: poisson(each(lambda s: neumann(s, "u", 0.5))), "no solution can exist"),
    "Neumann and periodic": (lambda: poisson([periodic("left", "right"), *each(lambda s: neumann(s, "u", -0.5), "top",
                                                                               "bottom")]), "the level of 'u'"),
    "pure Neumann, Laplacian": (lambda: laplace([neumann("rim", "u", -0.1)], DISC), "the level of 'u'"),
    "pure Neumann on a rod": (lambda: ode(2, [neumann(end, "u", -0.5) for end in ("left", "right")]),
                              "the level of 'u'"),
    "pure Neumann on a rod, wrong mean": (lambda: ode(2, [neumann("left", "u"), neumann("right", "u")]),
                                          "no solution can exist"),
    "Helmholtz at a resonance": (lambda: poisson(held, reaction=-2 * jnp.pi**2), "solutions that differ"),
    "variable coefficient, wrong flux": (lambda: poisson(
        [neumann("outer", "u", 1.0), neumann("inner", "u", 1.0)], RING, 0.0, lambda x: 1 + x @ x),
                                         "no solution can exist"),
    "cavity without a datum": (lambda: stokes(held, inertia=1.0), "the level of 'p'"),
    "cavity in time without a datum": (lambda: stokes([*held, initial("u", 0.0)], time=(0, 1)), "the level of 'p'"),
    "more flows in than out": (lambda: stokes([dirichlet("left", "u", parabola), *walls, dirichlet("right", "u")]),
                               "no solution can exist"),
    "Stokes, pressure alone at the outlet": (lambda: stokes([dirichlet("left", "u", parabola), *walls, dirichlet(
        "right", "p")]), "'right' needs 2 conditions and has 1"),
    "Stokes, no flow through alone": (lambda: stokes([dirichlet("left", "u", parabola), *walls, Condition(
        "right", lambda q, x, n: q.u @ n)]), "'right' needs 2 conditions and has 1"),
    "Stokes, all at the outlet": (lambda: stokes([dirichlet("left", "u", parabola), *walls, dirichlet("right", "u"),
                                                  dirichlet("right", "p")]), "'right' needs 2 conditions and has 3"),
    "Stokes without continuity": (lambda: stokes(held, leave=(1,)), "1 equation is missing"),
    "two fields, one equation": (lambda: state(
        SQUARE, ["u", "v"], lambda x, q, dq: hp.div(dq.p) + q.v, held, gradients={"p": "u"}, equations=1),
                                 "1 equation is missing"),
    "the same equation twice": (lambda: state(
        SQUARE, ["u", "v"], lambda x, q, dq: (hp.div(dq.p) + q.v, 2 * hp.div(dq.p) + 2 * q.v),
        [*held, *each(lambda s: dirichlet(s, "v"))], gradients={"p": "u"}), "do not determine"),
    "a field that no equation knows": (lambda: state(
        SQUARE, ["u", "v"], lambda x, q, dq: (hp.div(dq.p), hp.div(dq.p) + q.u), held, gradients={"p": "u"}),
                                       "do not determine v"),
    "one equation too many": (lambda: state(
        PLAIN, "u", lambda x, q, dq: (hp.div(dq.p) + 1.0, dq.u.space[0] - q.u), [dirichlet("sides", "u")],
        gradients={"p": "u"}, equations=2), "needs 0 conditions and has 1"),
    "heat without a start": (lambda: heat(held), "needs 1 initial condition and has 0"),
    "heat backwards in time": (lambda: heat([*held, initial("u", 0.0)], sign=-1.0), "grow without bound"),
    "heat on a rod, one end": (lambda: heat([dirichlet("left", "u"), initial("u", 0.0)], ROD), "'right' needs 1"),
    "wave with one initial condition": (lambda: wave([dirichlet("sides", "u"), initial("u", 0.0)]),
                                        "needs 2 initial conditions and has 1"),
    "wave with two conditions on the boundary": (lambda: wave([dirichlet("sides", "u"), neumann("sides", "u"), initial(
        "u", 0.0), initial("v", 0.0)]), "'sides' needs 1 condition and has 2"),
    "wave, absorbing with the wrong sign": (lambda: wave([Condition("sides", lambda q, x, n: q.v - q.p @ n), initial(
        "u", 0.0), initial("v", 1.0)]), "do not determine all"),
    "acoustics, velocity and pressure": (lambda: acoustics([*each(lambda s: dirichlet(s, "p")), Condition(
        "top", lambda q, x, n: q.u @ n), initial("u", 0.0), initial("p", 1.0)]), "'top' needs 1 condition and has 2"),
    "Laplace in time": (lambda: state(
        ROD, ["u", "v"], lambda x, q, dq: (hp.dt(dq.u) - q.v, hp.dt(dq.v) + hp.div(dq.p)), [
            dirichlet("left", "u"), dirichlet("right", "u"), initial("u", 0.0), initial("v", 0.0)],
        gradients={"p": "u"}, time=(0, 1)), "grow without bound"),
    "gas, faster than sound, as if slow": (lambda: gas([dirichlet("left", "w", 3.0), dirichlet(
        "right", "r", 1.0), initial("r", 1.0), initial("w", 3.0)]), "'left' needs 2 conditions and has 1"),
    "dispersion, from the wrong side": (lambda: dispersion([dirichlet("left", "u"), dirichlet("left", "p"), dirichlet(
        "right", "u")]), "'left' needs 1 condition and has 2"),
    "elasticity, loads alone": (lambda: elasticity([traction(name, "u", viscosity=1, bulk=1) for name in (
        "outer", "inner")]), "solutions that differ"),
    "elasticity, one component": (lambda: elasticity([dirichlet("inner", "u"), Condition(
        "outer", lambda q, x, n: q.u[0])]), "'outer' needs 2 conditions and has 1"),
    "plate with one condition": (lambda: plate([dirichlet("sides", "u")]), "'sides' needs 2 conditions and has 1"),
    "plate with three": (lambda: plate([dirichlet("sides", "u"), neumann("sides", "u"), dirichlet("sides", "w")]),
                         "'sides' needs 2 conditions and has 3"),
    "plate, both of the moment": (lambda: plate([dirichlet("sides", "w"), neumann("sides", "w")]),
                                  "do not determine all"),
    "transport, outflow stated": (lambda: transport([dirichlet("right", "u"), dirichlet("top", "u"), initial("u", 1.0)],
                                                    time=(0, 1)), "'left' needs 1 condition and has 0"),
    "transport, outflow too": (lambda: transport([*each(lambda s: dirichlet(s, "u")), initial("u", 1.0)], time=(0, 1)),
                               "'right' needs 0 conditions and has 1"),
    "stationary transport, both ends": (lambda: transport([*each(lambda s: dirichlet(s, "u"))]),
                                        "'right' needs 0 conditions and has 1"),
    "stationary transport, part of the inflow": (lambda: transport([dirichlet("left", "u")]), "'bottom' needs 1"),
    "transport, one name for all sides": (lambda: transport([dirichlet("sides", "u"), initial("u", 0.0)], (0, 1),
                                                            domain=PLAIN), "part of 'sides'"),
    "two points, one condition": (lambda: ode(2, [dirichlet("left", "u")]), "2 conditions together and have 1"),
    "first order, two conditions": (lambda: ode(1, [dirichlet("left", "u"), dirichlet("right", "u")]),
                                    "1 condition together and have 2"),
    "interface without a flux": (lambda: regions([Condition("rim", lambda q, x, n: q.a - q.b), dirichlet(
        "sides", "b")]), "'rim' needs 2 conditions and has 1"),
    "two materials, flux alone outside": (lambda: regions([interface("rim", ("a", "b")), neumann("sides", "b")]),
                                          "may be added"),
    "curl and divergence, both components": (lambda: maxwell([dirichlet("sides", "e")]),
                                             "'sides' needs 1 condition and has 2"),
}
