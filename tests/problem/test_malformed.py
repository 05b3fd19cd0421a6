"""Two hundred statements that are wrong: each is answered by one sentence that names what is wrong."""

import hashlib
import json
import math
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import hardpde as hp
from hardpde.cli.parser import main
from hardpde.evaluation.errors import checked_reference
from hardpde.geometry import Intersection, Loop, Union, check_shape, read_airfoil
from hardpde.problem.hints import Focus, Hints, Mirror
from hardpde.problem.measurements import Measurement
from hardpde.problem.reference import Reference
from hardpde.problems.presets import make_stages, preset, with_steps
from hardpde.runs.trusted import remember
from hardpde.solving.settings import check_options, make_settings

pytestmark = pytest.mark.usefixtures("quick_compilation")

nan, inf = math.nan, math.inf
DATA = Path(hp.__file__).parent / "problems" / "data"
LINE = hp.Interval(0, 1, left="a", right="b")
SQUARE = ((0, 0), (1, 0), (1, 1), (0, 1))
BALL = hp.Ball((0, 0), 0.3)
HOLED = hp.Box((0,), (1,), sides={"left": "a", "right": "b"}) - hp.Ball((5,), 0.1, name="hole")
SQUARE_WITH = hp.Box((0, 0), (1, 1), name="rest", sides={"left": "left"})
H, K = hp.parameters(h=(0.5, 2.0), k=(1.0, 3.0))
BOTH = (hp.dirichlet("a", "u"), hp.dirichlet("b", "u"))


def problem(**more):
    stated = {"domain": LINE, "fields": "u", "gradients": {"p": "u"}, "residual": lambda x, q, dq: hp.div(dq.p),
              "conditions": BOTH}
    return hp.Problem(**{**stated, **more})


def heated(**more):
    return problem(time=(0.0, 1.0), conditions=[*BOTH, hp.initial("u")], **more)


def pulsed(width):
    """Data that disagree at a corner during a short time alone."""
    sides = {side: side for side in ("left", "right", "bottom", "top")}
    rest = [hp.dirichlet(side, "u") for side in ("right", "bottom", "top")]
    return hp.Problem(domain=hp.Box((0, 0), (1, 1), sides=sides), fields="u", gradients={"p": "u"}, time=(0, 1),
                      residual=lambda x, q, dq: hp.dt(dq.u) - hp.div(dq.p), conditions=[*rest, hp.initial("u"),
                      hp.dirichlet("left", "u", lambda x: jnp.exp(-(((x[2] - 0.523) / width) ** 2)))])


def condition(function, *arguments, **more):
    return problem(conditions=[function("b", *arguments, **more), BOTH[0]])


def hints(**more):
    return problem(hints=Hints(**more))


# What is stated, and words of the answer.
SHAPES = [
    (lambda: hp.Box((0, 0), (1,)), "equally many coordinates"),
    (lambda: hp.Box((), ()), "at least one"),
    (lambda: hp.Box((0, 0), (0, 1)), "lo < hi"),
    (lambda: hp.Box((0, 0), (-1, 1)), "lo < hi"),
    (lambda: hp.Box((0, nan), (1, 1)), "finite"),
    (lambda: hp.Box((0, 0), (1, inf)), "finite"),
    (lambda: hp.Box(("zero", 0), (1, 1)), "numbers"),
    (lambda: hp.Box("ab", (1, 1)), "numbers"),
    (lambda: hp.Box(None, (1, 1)), "numbers"),
    (lambda: hp.Box(((0, 0), (1, 1)), ((2, 2), (3, 3))), "equally many coordinates"),
    (lambda: hp.Box(((0, 0), (1,)), (1, 1)), "numbers"),
    (lambda: hp.Box((0, 1j), (1, 1)), "numbers"),
    (lambda: hp.Box({0: 1}, (1, 1)), "numbers"),
    (lambda: hp.Box((0, 0), (1, 1), name=("left", "right")), "name"),
    (lambda: hp.Box((0, 0), (1, 1), name=3), "name"),
    (lambda: hp.Box((0, 0), (1, 1), name=""), "name"),
    (lambda: hp.Box((0, 0), (1, 1), name=None), "name"),
    (lambda: hp.Box((0, 0), (1, 1), sides={"north": "a"}), "no side 'north'"),
    (lambda: hp.Box((0, 0), (1, 1), sides={"front": "a"}), "no side 'front'"),
    (lambda: hp.Box((0, 0), (1, 1), sides={"left": 3}), "name"),
    (lambda: hp.Box((0, 0), (1, 1), sides={"left": ["a"]}), "name"),
    (lambda: hp.Box((0, 0), (1, 1), sides={3: "a"}), "no side 3"),
    (lambda: hp.Box((0, 0), (1, 1), sides=("left", "right")), "sides"),
    (lambda: hp.Box((0, 0), (1, 1), sides=7), "sides"),
    (lambda: hp.Interval(1, 0), "lo < hi"),
    (lambda: hp.Interval(0, 0), "lo < hi"),
    (lambda: hp.Interval(0, nan), "finite"),
    (lambda: hp.Interval("0", "one"), "numbers"),
    (lambda: hp.Interval(None, 1), "numbers"),
    (lambda: hp.Interval(0, 1, ("a", "b")), "name"),
    (lambda: hp.Interval(0, 1, left=1), "name"),
    (lambda: hp.Interval((0, 1), (2, 3)), "equally many coordinates"),
    (lambda: hp.Ball((0, 0), 0), "radius > 0"),
    (lambda: hp.Ball((0, 0), -1), "radius > 0"),
    (lambda: hp.Ball((0, 0), nan), "finite"),
    (lambda: hp.Ball((0, inf), 1), "finite"),
    (lambda: hp.Ball((0, 0), "big"), "number"),
    (lambda: hp.Ball("origin", 1), "numbers"),
    (lambda: hp.Ball((0, 0), (1, 2)), "one number"),
    (lambda: hp.Ball((0, 0), None), "number"),
    (lambda: hp.Ball((), 1), "at least one"),
    (lambda: hp.Ball(((0, 0), (1, 1)), 1), "center"),
    (lambda: hp.Ball((0, 0), 1, name=5), "name"),
    (lambda: hp.Polygon(()), "(n, 2)"),
    (lambda: hp.Polygon(SQUARE[:2]), "at least 3"),
    (lambda: hp.Polygon([0, 1, 2]), "(n, 2)"),
    (lambda: hp.Polygon([(0, 0, 0), (1, 0, 0), (0, 1, 0)]), "(n, 2)"),
    (lambda: hp.Polygon([(0, 0), (1, 0), (0,)]), "numbers"),
    (lambda: hp.Polygon([(0, 0), (1, nan), (0, 1)]), "finite"),
    (lambda: hp.Polygon([(0, 0), (1, "y"), (0, 1)]), "numbers"),
    (lambda: hp.Polygon("square"), "numbers"),
    (lambda: hp.Polygon(None), "numbers"),
    (lambda: hp.Polygon([(0, 0), (0, 0), (1, 1)]), "coincide"),
    (lambda: hp.Polygon([(0, 0), (1, 1), (1, 0), (0, 1)]), "cross"),
    (lambda: hp.Polygon([(0, 0), (1, 0), (2, 0)]), "cross or touch"),
    (lambda: hp.Polygon(SQUARE, names=("a", "b")), "one entry per edge"),
    (lambda: hp.Polygon(SQUARE, names=("a", "b", "c", 4)), "name"),
    (lambda: hp.Polygon(SQUARE, names=4), "names"),
    (lambda: hp.Polygon(SQUARE, name=["a"]), "name"),
    (lambda: hp.Spline(SQUARE[:2]), "at least 3"),
    (lambda: hp.Spline(()), "(n, 2)"),
    (lambda: hp.Spline([(0, 0), (1, "y"), (0, 1)]), "numbers"),
    (lambda: hp.Spline([(0, 0), (0, 0), (1, 1), (0, 1)]), "coincide"),
    (lambda: hp.Spline(SQUARE, corners=(9,)), "corners"),
    (lambda: hp.Spline(SQUARE, corners=(-1,)), "corners"),
    (lambda: hp.Spline(SQUARE, corners=("first",)), "corners"),
    (lambda: hp.Spline(SQUARE, corners=2), "corners"),
    (lambda: hp.Spline(SQUARE, corners=(0.5,)), "corners"),
    (lambda: hp.Spline(SQUARE, name=1.5), "name"),
    (lambda: hp.Spline([(0, 0), (1, 1), (1, 0), (0, 1)]), "crosses itself"),
    (lambda: Loop(()), "at least one"),
    (lambda: Loop(3), "arcs and segments"),
    (lambda: Loop((("arc", (0, 1)),)), "arcs and segments"),
    (lambda: hp.Ball((0, 0), 1) | 3, "shapes"),
    (lambda: hp.Ball((0, 0), 1) & "ball", "shapes"),
    (lambda: hp.Ball((0, 0), 1) - None, "shapes"),
    (lambda: hp.Ball((0, 0), 1) | hp.Ball((0,), 1), "one dimension"),
    (lambda: Union(), "at least one"),
    (lambda: Intersection(), "at least one"),
    (lambda: hp.Inlay(hp.Ball((0, 0), 1), hp.Ball((0,), 0.5)), "one dimension"),
    (lambda: hp.Inlay(hp.Ball((0, 0), 1), "core"), "shapes"),
    (lambda: hp.Inlay(None, hp.Ball((0, 0), 1)), "shapes"),
    (lambda: check_shape(hp.Ball((0, 0), 1) & hp.Ball((5, 0), 1)), "do not overlap"),
    (lambda: check_shape(hp.Ball((0, 0), 1) - hp.Ball((0, 0), 2)), "touches or leaves"),
    (lambda: check_shape(hp.Ball((0, 0), 1) - hp.Ball((1, 0), 0.5)), "touches or leaves"),
    (lambda: check_shape(hp.Ball((0, 0), 2) - hp.Ball((0, 0), 0.5) - hp.Ball((0.5, 0), 0.5)), "overlap"),
    (lambda: hp.airfoil("nowhere.dat"), "nowhere.dat"),
    (lambda: read_airfoil("."), "."),
    (lambda: read_airfoil(__file__), "expected two numbers"),
    (lambda: hp.airfoil(DATA / "w1015.dat", smooth="very"), "smooth is 'very'"),
    (lambda: hp.airfoil(3), "is a path"),
    (lambda: read_airfoil(None), "is a path"),
    (lambda: hp.read_surface(3), "is a path"),
    (lambda: hp.read_mesh(["a.msh"]), "is a path"),
    (lambda: hp.read_outline(None), "is a path"),
    (lambda: hp.Solid([[0, 0, 0]], [[0, 1, 2]]), "names the point 1; its 1 points"),
    (lambda: hp.Solid([[0, 0, 0]], [[0, -1, 0]]), "names the point -1"),
    (lambda: hp.Solid([[0, 0, 0]], [[0, 0.5, 0]]), "names the point 0.5"),
    (lambda: hp.Solid([[0, 0, 0]], "faces"), "numbers"),
    (lambda: hp.moving(hp.Box((0, 0), (1, 1)), 0.9), "not a Ball"),
    (lambda: hp.moving(BALL, "far"), "within must be numbers"),
    (lambda: hp.moving(BALL, (1, 2)), "one number"),
    (lambda: hp.moving(BALL, 0.9, by=3), "by is 3"),
    (lambda: hp.moving(BALL, 0.9, by="xy"), "by must be numbers"),
    (lambda: hp.moving(BALL, 0.9, by=(1, 2, 3)), "by has 3 components"),
    (lambda: hp.moving(BALL, 0.9, radius="large"), "radius must be numbers"),
    (lambda: hp.moving_all(), "at least one"),
    (lambda: hp.moving_all(3), "adds mappings"),
]
CONDITIONS = [
    (lambda: condition(hp.dirichlet, "v"), "no field 'v'"),
    (lambda: condition(hp.dirichlet, 3), "field"),
    (lambda: condition(hp.dirichlet, None), "field"),
    (lambda: condition(hp.dirichlet, ["u"]), "field"),
    (lambda: condition(hp.dirichlet, "u", "zero"), "data"),
    (lambda: condition(hp.dirichlet, "u", None), "data"),
    (lambda: condition(hp.dirichlet, "u", "0"), "are the text '0'"),
    (lambda: condition(hp.dirichlet, "u", lambda x: "0"), "'0' is text"),
    (lambda: hp.initial("u", "0"), "are the text '0'"),
    (lambda: problem(conditions=[*BOTH, hp.neumann("a", "u")]), "'a' has 2 conditions, dirichlet u, neumann u, for 1"),
    (lambda: problem(conditions=[*BOTH, hp.robin("a", "u", 1, 1)]), "'a' has 2 conditions"),
    (lambda: condition(hp.dirichlet, "u", nan), "not a finite number"),
    (lambda: condition(hp.dirichlet, "u", inf), "not a finite number"),
    (lambda: condition(hp.dirichlet, "u", (1, 2)), "rows"),
    (lambda: condition(hp.dirichlet, "u", lambda x: x[5] + "a"), "data"),
    (lambda: condition(hp.dirichlet, "u", lambda: 1.0), "data"),
    (lambda: condition(hp.dirichlet, "u", lambda x: math.sin(x[0])), "data"),
    (lambda: condition(hp.dirichlet, "u", {"value": 1}), "data"),
    (lambda: condition(hp.neumann, "v"), "no field 'v'"),
    (lambda: condition(hp.neumann, "u", nan), "not a finite number"),
    (lambda: condition(hp.neumann, "p"), "gradient"),
    (lambda: condition(hp.robin, "u", 0, 0), "a = b = 0"),
    (lambda: condition(hp.robin, "u", 0.0, 0, 3), "a = b = 0"),
    (lambda: condition(hp.robin, "u", "one", 1), "coefficient"),
    (lambda: condition(hp.robin, "u", None, 1), "coefficient"),
    (lambda: condition(hp.robin, "u", nan, 1), "not a finite number"),
    (lambda: condition(hp.robin, "u", lambda x: 0.0, lambda x: 0.0), "zero"),
    (lambda: condition(hp.robin, "u", (1, 2), 1), "coefficient"),
    (lambda: hp.dirichlet(3, "u"), "boundary"),
    (lambda: hp.neumann(None, "u"), "boundary"),
    (lambda: hp.robin(("a", "b"), "u", 1, 1), "boundary"),
    (lambda: hp.slip(3, "u"), "boundary"),
    (lambda: hp.traction(["a"], "u"), "boundary"),
    (lambda: hp.interface(3, ("u", "v")), "boundary"),
    (lambda: hp.interface("a", "uv"), "two fields"),
    (lambda: hp.interface("a", ("u",)), "two fields"),
    (lambda: hp.interface("a", 5), "two fields"),
    (lambda: hp.interface("a", ("u", "v"), conductivity=3), "two"),
    (lambda: hp.interface("a", ("u", "v"), conductivity=(1, 2, 3)), "two"),
    (lambda: hp.periodic("a", "a"), "twice"),
    (lambda: hp.periodic("a", 3), "boundary"),
    (lambda: hp.periodic("a", "b", soft=0), "positive"),
    (lambda: hp.periodic("a", "b", soft=nan), "positive"),
    (lambda: hp.periodic("a", "b", soft="little"), "positive"),
    (lambda: hp.periodic("a", "b", fields=3), "fields"),
    (lambda: problem(conditions=[hp.periodic("a", "c")]), "no boundary 'c'"),
    (lambda: problem(conditions=[hp.periodic("a", "b", fields="w")]), "no field 'w'"),
    (lambda: problem(conditions=[hp.periodic("a", "b"), BOTH[0]]), "periodic"),
    (lambda: problem(conditions=[hp.dirichlet("c", "u"), *BOTH]), "no boundary 'c'"),
    (lambda: problem(conditions=BOTH[:1]), "'b' has no condition"),
    (lambda: problem(conditions=()), "no condition"),
    (lambda: problem(conditions=BOTH[0]), "list"),
    (lambda: problem(conditions=None), "list"),
    (lambda: problem(conditions="dirichlet"), "not a condition"),
    (lambda: problem(conditions=[*BOTH, 3]), "not a condition"),
    (lambda: problem(conditions=[*BOTH, hp.initial("u")]), "needs time"),
    (lambda: problem(conditions=[*BOTH, BOTH[1]]), "linearly dependent"),
    (lambda: condition(lambda on: hp.Condition(on, lambda q, x, n: q.u**2)), "not linear"),
    (lambda: condition(lambda on: hp.Condition(on, lambda q, x, n: q.u + 1)), "not linear"),
    (lambda: condition(lambda on: hp.Condition(on, lambda q, x, n: q.w)), "no field 'w'"),
    (lambda: condition(lambda on: hp.Condition(on, lambda q, x: q.u)), "cannot be evaluated"),
    (lambda: condition(lambda on: hp.Condition(on, lambda q, x, n: None)), "condition"),
    (lambda: condition(lambda on: hp.Condition(on, 3)), "function"),
    (lambda: condition(lambda on: hp.Condition(on, lambda q, x, n: ())), "condition"),
    (lambda: condition(lambda on: hp.Condition(on, lambda q, x, n: 0 * q.u)), "zero"),
    (lambda: hp.Condition(3, lambda q, x, n: q.u), "boundary"),
]
PROBLEMS = [
    (lambda: problem(residual=lambda x, q, dq: 3.0), "does not change with any field"),
    (lambda: problem(residual=lambda x, q, dq: hp.div(dq.p) > 1), "does not change with any field"),
    (lambda: problem(residual=lambda x, q, dq: None), "without `return`"),
    (lambda: problem(residual=lambda x, q, dq: dq.p[0]), "dq.u.space[0]"),
    (lambda: hp.parameters(**{"lambda": (0, 1)}), "Python's own"),
    (lambda: problem(time=(0, 1), conditions=[*BOTH, hp.initial("u"), hp.initial("p", lambda x: x)]), "'initial p'"),
    (lambda: pulsed(0.005), "disagree by"),
    (lambda: pulsed(0.001), "disagree by"),
    (lambda: hp.solve(problem(), report=3), "report is 3"),
    (lambda: problem(domain=None), "domain"),
    (lambda: problem(domain="line"), "domain"),
    (lambda: problem(domain=(0, 1)), "domain"),
    (lambda: problem(domain=hp.Interval(0, 1, left="initial", right="b")), "initial"),
    (lambda: problem(domain=hp.Ball((0, 0), 1) & hp.Ball((5, 0), 1)), "do not overlap"),
    (lambda: problem(fields=(), gradients={}), "at least one field"),
    (lambda: problem(fields=3), "fields"),
    (lambda: problem(fields=None), "fields"),
    (lambda: problem(fields=[3]), "name a field"),
    (lambda: problem(fields="2u", gradients={}), "name a field"),
    (lambda: problem(fields="_u", gradients={}), "name a field"),
    (lambda: problem(fields="gradient", gradients={}), "name a field"),
    (lambda: problem(fields=["u", "u"]), "twice"),
    (lambda: problem(fields={"u": -1}), "shape"),
    (lambda: problem(fields={"u": 0}), "shape"),
    (lambda: problem(fields={"u": 1.5}), "shape"),
    (lambda: problem(fields={"u": "two"}), "shape"),
    (lambda: problem(fields={"u": None}), "shape"),
    (lambda: problem(gradients={"p": "v"}), "not a field"),
    (lambda: problem(gradients={"u": "u"}), "stated twice"),
    (lambda: problem(gradients={"p": "u", "r": "u"}), "same field"),
    (lambda: problem(gradients=["p"]), "gradients"),
    (lambda: problem(gradients="p"), "gradients"),
    (lambda: problem(gradients=None), "gradients"),
    (lambda: problem(gradients={3: "u"}), "name a field"),
    (lambda: problem(gradients={"p": ["u"]}), "not a field"),
    (lambda: problem(residual=None), "residual"),
    (lambda: problem(residual=3), "residual"),
    (lambda: problem(residual=lambda x: 0), "residual"),
    (lambda: problem(residual=lambda x, q, dq: None), "residual"),
    (lambda: problem(residual=lambda x, q, dq: ()), "residual"),
    (lambda: problem(residual=lambda x, q, dq: "zero"), "residual"),
    (lambda: problem(residual=lambda x, q, dq: q.w), "no field 'w'"),
    (lambda: problem(residual=lambda x, q, dq: q.u * nan), "not a finite number"),
    (lambda: problem(residual=lambda x, q, dq: (q.u, q.u)), "2 equations"),
    (lambda: problem(residual=lambda x, q, dq: 1 / 0), "ZeroDivisionError"),
    (lambda: problem(residual=lambda x, q, dq: hp.dt(dq.u)), "time"),
    (lambda: problem(residual=lambda x, q, dq: hp.div(dq.u)), "vector field"),
    (lambda: problem(residual=lambda x, q, dq: hp.curl(dq.p)), "curl"),
    (lambda: problem(residual=lambda x, q, dq: x[7] if q.u > 0 else 0), "residual"),
    (lambda: problem(time=(1, 0)), "start < end"),
    (lambda: problem(time=(0, nan)), "start < end"),
    (lambda: problem(time=(0,)), "(start, end)"),
    (lambda: problem(time=1.0), "(start, end)"),
    (lambda: problem(time="now"), "(start, end)"),
    (lambda: problem(time=("a", "b")), "(start, end)"),
    (lambda: problem(time=("0", "1")), "(start, end)"),
    (lambda: problem(time=(0, 1e-320)), "other units"),
    (lambda: problem(time=(1e20, 1e20 + 1e6)), "from 0 on"),
    (lambda: problem(domain=hp.Interval(0, 1e300, left="a", right="b")), "other units"),
    (lambda: problem(domain=hp.Interval(1, 1 + 1e-10, left="a", right="b")), "nearer"),
    (lambda: problem(time=(0, 1), residual=lambda x, q, dq: hp.dt(dq.u) - hp.div(dq.p)), "initial('u', …)"),
    (lambda: problem(time=(0.0, 1.0), conditions=[
        *BOTH, hp.initial("u", lambda x: x[0] * (1 - x[0])), hp.initial("p", 0.0)]),
     "not the gradient of that of 'u'"),
    (lambda: problem(domain=HOLED, conditions=[*BOTH, hp.dirichlet("hole", "u")]), "nothing of the boundary 'hole'"),
    (lambda: problem(domain=SQUARE_WITH, conditions=[
        hp.dirichlet("left", "u", lambda x: jnp.sin(3 * math.pi * x[2])), hp.dirichlet("rest", "u"), hp.initial("u")],
        time=(0.0, 1.0)), "disagree"),
    (lambda: problem(free=["c"]), "'c'"),
    (lambda: problem(free="c"), "'c'"),
    (lambda: problem(free=3), "free"),
    (lambda: problem(equations=5), "5 are expected"),
    (lambda: problem(equations="one"), "equations"),
    (lambda: problem(regions={"w": LINE}), "'w'"),
    (lambda: problem(regions={"u": 3}), "region of 'u'"),
    (lambda: problem(regions={"u": hp.Ball((0, 0), 1)}), "1-D"),
    (lambda: problem(regions={"u": lambda x: 1.0}), "holds no point"),
    (lambda: problem(regions=["u"]), "regions"),
    (lambda: problem(parameters=3), "parameters"),
    (lambda: problem(parameters=["h"]), "not a parameter"),
    (lambda: hp.parameters(), "no parameter"),
    (lambda: hp.parameters(h=3), "(low, high)"),
    (lambda: hp.parameters(h=(1, 0)), "low < high"),
    (lambda: hp.parameters(h=("a", "b")), "(low, high)"),
    (lambda: hp.parameters(h=("0", "1")), "(low, high)"),
    (lambda: hp.parameters(**{"<script>": (0, 1)}), "cannot name a parameter"),
    (lambda: hp.parameters(**{"a b": (0, 1)}), "cannot name a parameter"),
    (lambda: hp.parameters(x=(0, 1)), "cannot be named"),
    (lambda: H(jnp.zeros((5, 3))), "function of one point"),
    *[(state, words) for used, words in [
        (lambda p: {"residual": lambda x, q, dq: hp.div(dq.p) - p(x)}, "residual: the parameter"),
        (lambda p: {"conditions": [hp.dirichlet("a", "u", p), BOTH[1]]}, "the data of condition 'dirichlet u' on 'a'"),
        (lambda p: {"conditions": [hp.robin("a", "u", p, 1), BOTH[1]]}, "condition 'robin u' on 'a': the parameter"),
        (lambda p: {"mapping": lambda x: x[:1] * p(x)}, "the mapping: the parameter"),
        (lambda p: {"exact": lambda x: {"u": p(x)}}, "exact: the parameter"),
        (lambda p: {"hints": Hints(inputs=lambda x: jnp.stack([p(x)]))}, "the parameter"),
        (lambda p: {"hints": Hints(scale=p)}, "the hint scale"),
        (lambda p: {"hints": Hints(distances={"a": p})}, "the hint distances of 'a': the parameter"),
    ] for state in (lambda used=used: problem(**used(K)),  # none is stated, not all are, or others
                    lambda used=used: problem(**used(H), parameters=(K,)),
                    lambda used=used: problem(**used(K), parameters=hp.parameters(h=(0, 1), q=(0, 1))))],
    (lambda: problem(parameters=(H, K), regions={"u": lambda x: -H(x)}), "a point of 1 coordinates"),
    (lambda: problem(mapping=lambda x: x[:1] * 0), "squeezes"),
    (lambda: problem(mapping=lambda x: 3), "mapping"),
    (lambda: problem(mapping=3), "mapping"),
    (lambda: problem(domain=hp.Box((0, 0), (1, 7), name="a"), conditions=BOTH[:1],  # more than once around
                     mapping=lambda x: (1 + x[0]) * jnp.array([jnp.cos(x[1]), jnp.sin(x[1])])), "two points to one"),
    (lambda: problem(hints=None), "Hints"),
    (lambda: problem(hints={"decay": True}), "Hints"),
    (lambda: problem(name=3), "name"),
    (lambda: problem(name=""), "name"),
    (lambda: problem(name="a/b"), "name"),
    (lambda: problem(exact=3), "exact"),
    (lambda: problem(reference=3), "reference"),
    (lambda: problem(measurements=[3]), "not a Measurement"),
    (lambda: problem(measurements=3), "measurements"),
    (lambda: problem(measurements=[Measurement("w", [[0.5]], [1.0])]), "no field"),
    (lambda: problem(measurements=[Measurement("u", [[5.0]], [1.0])]), "outside the domain"),
    (lambda: problem(measurements=[Measurement("u", [[0.5]], [nan])]), "not finite"),
    (lambda: problem(measurements=[Measurement("u", [[0.5, 0.5]], [1.0])]), "shape"),
    (lambda: problem(measurements=[Measurement("u", [[0.5]], [1.0, 2.0])]), "shape"),
    (lambda: problem(measurements=[Measurement("u", [["half"]], [1.0])]), "numbers"),
    (lambda: problem(measurements=[Measurement("u", [[0.5]], [1.0], t=1)]), "times"),
    (lambda: problem(measurements=[Measurement("u", [[[0.5]]], [1.0])]), "points of shape"),
    (lambda: heated(measurements=[Measurement("u", [[0.5], [0.6]], [1.0, 2.0], t=[0.1, 0.2, 0.3])]), "2 points"),
    (lambda: heated(measurements=[Measurement("u", [[0.5]], [1.0], t="noon")]), "t of the measurement of 'u' must be"),
    (lambda: problem(measurements=[Measurement("u", [[0.5]], [1.0], weight=-1)]), "weight"),
    (lambda: problem(measurements=[Measurement("u", [[0.5]], [1.0], weight="much")]), "weight"),
]
HINTS = [
    (lambda: hints(mirror=Mirror(0, 7.0)), "not symmetric about x = 7"),
    (lambda: hints(mirror=Mirror(0, 0.3)), "not in the domain"),
    (lambda: hints(focus=[Focus((5.0,), 1e-3, 0.1, 0.1)]), "holds no point of the domain"),
    (lambda: hints(outputs=lambda x: [1.0, 2.0, 3.0]), "it must be a matrix"),
    (lambda: hints(thin=0.0), "thin"),
    (lambda: hints(thin="x"), "thin"),
    (lambda: hints(ramp="square"), "ramp"),
    (lambda: hints(ramp=3), "ramp"),
    (lambda: hints(near=2), "near"),
    (lambda: hints(near=nan), "near"),
    (lambda: hints(near="half"), "near"),
    (lambda: hints(early=-0.1), "early"),
    (lambda: hints(early=None), "early"),
    (lambda: hints(collar=-1), "collar"),
    (lambda: hints(collar=9), "collar"),
    (lambda: hints(collar="wide"), "collar"),
    (lambda: hints(collar={"c": 0.1}), "'c'"),
    (lambda: hints(collar={"a": "wide"}), "collar"),
    (lambda: hints(collar=nan), "collar"),
    (lambda: hints(sharp=[(0.5,)]), "sharp corner"),
    (lambda: hints(sharp=[(0, 0)]), "sharp"),
    (lambda: hints(sharp=3), "sharp"),
    (lambda: hints(sharp=["corner"]), "sharp"),
    (lambda: hints(focus=[3]), "not a Focus"),
    (lambda: hints(focus=3), "focus"),
    (lambda: hints(focus=[Focus((0, 0), 0.1, 0.2, 0.1)]), "coordinates"),
    (lambda: hints(focus=[Focus((0,), 0.2, 0.1, 0.1)]), "inner < outer"),
    (lambda: hints(focus=[Focus((0,), "near", "far", 0.1)]), "inner < outer"),
    (lambda: hints(focus=[Focus(0, 0.1, 0.2, 0.1)]), "coordinates"),
    (lambda: hints(focus=[Focus((0,), 0.1, 0.2, 0.9)]), "more than 1"),
    *[(lambda at=at: hints(focus=[Focus((at,), 0.1, 0.2, 0.1)]), "focus") for at in (nan, inf, "a")],
    (lambda: hints(focus=[Focus((0.5,), 0.1, inf, 0.1)]), "inner < outer"),
    *[(lambda at=at: hints(mirror=Mirror(0, at)), "mirror") for at in (nan, inf, "a", (1, 2))],
    *[(lambda axis=axis: hints(mirror=Mirror(axis)), "axis") for axis in (0.0, None, -1)],
    (lambda: hints(mirror=Mirror(0, 0.5, 3)), "odd"),
    *[(lambda to=to: hints(scale=lambda x: to), "scale") for to in (nan, inf, 0.0, -1.0)],
    (lambda: hints(inputs=lambda x: "a"), "the hint inputs"),
    (lambda: hints(harmonics=0), "harmonics"),
    (lambda: hints(harmonics="three"), "harmonics"),
    (lambda: hints(harmonics=1.5), "harmonics"),
    (lambda: hints(mirror=Mirror(5)), "axis"),
    (lambda: hints(mirror=Mirror(0, 0.5, ("w",))), "odd"),
    (lambda: hints(mirror="x"), "Mirror"),
    (lambda: hints(mirror=Mirror("x")), "axis"),
    (lambda: hints(inputs=3), "inputs"),
    (lambda: hints(inputs=lambda x: x[0] / "a"), "TypeError"),
    (lambda: hints(inputs=lambda x: jnp.array([nan])), "not finite"),
    (lambda: hints(outputs=lambda x: jnp.ones(3)), "outputs"),
    (lambda: hints(outputs="all"), "outputs"),
    (lambda: hints(guess=lambda x: {"w": 1.0}), "guess"),
    (lambda: hints(guess=lambda x: 3), "guess"),
    (lambda: hints(guess={"u": 1}), "guess"),
    (lambda: hints(scale=lambda x: jnp.ones(7)), "scale"),
    (lambda: hints(scale=3), "scale"),
    (lambda: hints(scale=lambda x: "big"), "scale"),
    (lambda: hints(distances=3), "distances"),
    (lambda: hints(distances={"a": 3}), "distances"),
    (lambda: hints(distances={"c": lambda x: x[0]}), "'c'"),
    (lambda: hints(normals=[1]), "normals"),
    (lambda: hints(decay="yes"), "decay"),
    (lambda: hints(root_time=3), "root_time"),
]
PLAIN = type("Named", (), {"name": "line", "presets": None})()


def known(x=((0.5,),), values=None, **more):
    return Reference(np.array(x), {"u": np.ones(1)} if values is None else values, **more)


def options(**more):
    return check_options({"method_name": "exact", "method": more})


SETTINGS = [
    (lambda: make_settings(PLAIN, "magic", "quick", 0), "no method 'magic'"),
    (lambda: make_settings(PLAIN, 3, "quick", 0), "no method"),
    (lambda: make_settings(PLAIN, ["exact"], "quick", 0), "no method"),
    (lambda: make_settings(PLAIN, "exact", "slow", 0), "no preset 'slow'"),
    (lambda: make_settings(PLAIN, "exact", ["quick"], 0), "no preset"),
    (lambda: make_settings(PLAIN, "exact", "quick", -1), "seed"),
    (lambda: make_settings(PLAIN, "exact", "quick", 0.5), "seed"),
    (lambda: make_settings(PLAIN, "exact", "quick", "one"), "seed"),
    (lambda: make_settings(PLAIN, "exact", "quick", None), "seed"),
    (lambda: make_settings(PLAIN, "exact", "quick", 2**32), "seed"),
    (lambda: make_settings(PLAIN, "exact", "quick", 0, steps=[1]), "one number for each stage"),
    (lambda: make_settings(PLAIN, "exact", "quick", 0, steps=[1, "two"]), "steps"),
    (lambda: make_settings(PLAIN, "exact", "quick", 0, steps=[1, 2.5]), "steps"),
    (lambda: make_settings(PLAIN, "exact", "quick", 0, steps=5), "steps"),
    (lambda: make_settings(PLAIN, "exact", "quick", 0, steps=[0, 0]), "one stage must remain"),
    (lambda: make_settings(PLAIN, "exact", "quick", 0, schedule="odd"), "no schedule 'odd'"),
    (lambda: make_settings(PLAIN, "exact", "quick", 0, options=["width"]), "options"),
    (lambda: make_settings(PLAIN, "exact", "quick", 0, options="width=3"), "options"),
    (lambda: make_settings(PLAIN, "exact", "quick", 0, devices=0), "devices"),
    (lambda: make_settings(PLAIN, "exact", "quick", 0, devices=10_000), "devices"),
    *[(lambda steps=steps: hp.Stage("a", optax.adam(1e-3), steps), "steps") for steps in (2.5, "5", nan, True)],
    *[(lambda made=made, words=words: checked_reference(problem(reference=lambda: made())), words) for made, words in [
        (lambda: 3, "returns 3"), (lambda: known(x=[[5.0]]), "outside the domain"),
        (lambda: known(x=[[nan]]), "finite"), (lambda: known(x=[0.5]), "shape"),
        (lambda: known(cells=np.array([[0, 7]])), "cells"), (lambda: known(cells=np.array([[0.0, 0.5]])), "cells"),
        (lambda: known(times=np.array([0.0])), "no time")]],
    (lambda: checked_reference(heated(reference=lambda: known(times=np.array([9.0]), values={"u": np.ones((1, 1))}))),
     "instants from 0 to 1"),
    (lambda: hp.solve(3), "int is given in place of a problem"),
    (lambda: hp.solve(problem(), tensorboard=3), "tensorboard is 3; it is a path"),
    (lambda: hp.compare(3, ["exact"]), "in place of a problem"),
    (lambda: hp.compare(problem(), "exact"), "methods is 'exact'"),
    (lambda: hp.compare(problem(), 3), "methods is 3"),
    (lambda: hp.compare(problem(), ["exact"], "two"), "seeds"),
    (lambda: hp.infer(3, "u", [[0.5]], [1.0]), "int in place of a solution"),
    (lambda: hp.Solution.load(3, problem()), "is a path"),
    (lambda: hp.Solution.load(__file__, 3), "int is given in place of a problem"),
    (lambda: preset("exact", "slow"), "no preset"),
    (lambda: with_steps(preset("exact", "quick"), [-1, 5]), "positive"),
    (lambda: options(wdth=3), "no option 'wdth'"),
    (lambda: options(width="wide"), "whole number"),
    (lambda: options(width=True), "whole number"),
    (lambda: options(depth=-1), "positive whole number"),
    (lambda: options(points=nan), "whole number"),
    (lambda: options(dtype="float8"), "float32 or float64"),
    (lambda: options(dtype=["float32"]), "float32 or float64"),
    (lambda: options(chunk="some"), "whole number"),
    (lambda: options(adaptive="yes"), "true or false"),
    (lambda: make_stages([]), "at least one"),
    (lambda: make_stages("adam"), "list"),
    (lambda: make_stages(None), "list"),
    (lambda: make_stages([3]), "optimiser and steps"),
    (lambda: make_stages([{"optimiser": "adam"}]), "optimiser and steps"),
    (lambda: make_stages([{"optimiser": "adam", "steps": 5, "rate": 1}]), "optimiser and steps"),
    (lambda: make_stages([{"optimiser": "sgd", "steps": 5}]), "no optimiser 'sgd'"),
    (lambda: make_stages([{"optimiser": ["adam"], "steps": 5}]), "no optimiser"),
    (lambda: make_stages([{"optimiser": None, "steps": 5}]), "no optimiser"),
    (lambda: make_stages([{"optimiser": "adam", "steps": 0}]), "positive"),
    (lambda: make_stages([{"optimiser": "adam", "steps": -3}]), "positive"),
    (lambda: make_stages([{"optimiser": "adam", "steps": 2.5}]), "whole number"),
    (lambda: make_stages([{"optimiser": "adam", "steps": True}]), "whole number"),
    (lambda: make_stages([{"optimiser": "adam", "steps": 5, "block": 0}]), "block"),
    (lambda: make_stages([{"optimiser": "adam", "steps": 5, "redraw": -1}]), "redraw"),
    (lambda: make_stages([{"optimiser": "adam", "steps": 5, "reweigh": 3}]), "reweigh"),
    (lambda: make_stages([{"optimiser": "adam", "steps": 5, "options": 3}]), "options"),
    (lambda: make_stages([{"optimiser": "adam", "steps": 5, "options": {"speed": 3}}]), "no option 'speed'; its"),
    *[(lambda name=name, options=options: make_stages([{"optimiser": name, "steps": 5, "options": options}]), words)
      for name, options, words in [
          ("lbfgs", {"memory": 0}, "memory is 0; it must be a positive whole number"),
          ("lbfgs", {"memory": 2.5}, "memory is 2.5"), ("lbfgs", {"memory": True}, "memory is True"),
          ("lbfgs", {"tolerance": "small"}, "tolerance is 'small'; it must be a number"),
          ("adam", {"patience": "long"}, "patience is 'long'"), ("adam", {"cooldown": -1}, "0 or more"),
          ("adam", {"plateau": 1}, "true or false"), ("ssbroyden", {"reset_scale": None}, "reset_scale is None"),
          ("levenberg_marquardt", {"mode": 3}, "mode is 3"),
          ("levenberg_marquardt", {"damping": float("nan")}, "damping is nan")]],
    (lambda: make_stages([{"optimiser": "adam", "steps": 5, "options": {"learning_rate": "fast"}}]), "learning_rate"),
    (lambda: make_stages([{"optimiser": "adam", "steps": 5, "options": {"learning_rate": -1}}]), "learning_rate"),
    (lambda: Reference.load("nowhere.npz"), "nowhere.npz"),
    (lambda: Reference.load(__file__), "not a reference file"),
    (lambda: Reference.load("."), "not a reference file"),
    (lambda: Reference.load(None), "is a path"),
]
STATEMENTS = {"shape": SHAPES, "condition": CONDITIONS, "problem": PROBLEMS, "hint": HINTS, "setting": SETTINGS}
TABLE = [pytest.param(*row, id=f"{kind}{k}") for kind, rows in STATEMENTS.items() for k, row in enumerate(rows)]


@pytest.mark.parametrize("state, says", TABLE)
def test_a_wrong_statement_is_answered_by_a_sentence(state, says):
    with pytest.raises(ValueError) as caught:
        state()
    sentence = str(caught.value)
    assert says in sentence, sentence
    assert "\n" not in sentence and len(sentence) < 600


# --- The command line ------------------------------------------------------------------------------------------

FILE = """
import hardpde as hp

problem = hp.Problem(
    domain=hp.Interval(0, 1, left="a", right="b"), fields="u", residual=lambda x, q, dq: hp.laplacian(dq.u),
    conditions=[hp.dirichlet("a", "u"), hp.dirichlet("b", "u", 1.0)])
"""
METRICS = {"problem": "line", "method": "exact", "preset": "quick", "seed": 0, "parameters": 1, "mae": None,
           "errors": {}, "boundary_violation": 0.0, "certificate": [], "endings": [], "seconds": 1.0, "loss": 1.0,
           "held_out": 1.0}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to stand in, with a problem and what looks like a finished run of it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "line.py").write_text(FILE)
    (tmp_path / "run").mkdir()
    source = {"path": str(tmp_path / "line.py"), "sha256": hashlib.sha256(FILE.encode()).hexdigest(), "options": {}}
    remember(source["sha256"])
    settings = {**make_settings(PLAIN, "exact", "quick", 0), "problem": "line"}
    about = {"status": "finished", "settings": settings, "source": source, "provenance": {}}
    (tmp_path / "run" / "run.json").write_text(json.dumps(about))
    (tmp_path / "run" / "metrics.json").write_text(json.dumps(METRICS))
    (tmp_path / "run" / "history.csv").write_text("stage,step,steps,loss,held_out,seconds\nadam,1,1,1,1,1\n")
    (tmp_path / "run" / "model.eqx").write_text("{}\n")
    return tmp_path


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts}


def refused(capsys, *words):
    """The sentence with which a command is refused; nothing was written."""
    before = contents(Path())
    try:
        code = main([str(word) for word in words])
    except SystemExit as stop:
        code = stop.code
    said = capsys.readouterr().err.strip().splitlines()
    assert code == 2, said
    assert len(said) == 1 and said[0].startswith("hardpde: ") and len(said[0]) < 700, said
    assert contents(Path()) == before
    return said[0]


def change(name, *path, to):
    """A function that changes one entry of a JSON file of the run."""

    def edit(folder):
        data = json.loads((folder / name).read_text())
        inner = data
        for key in path[:-1]:
            inner = inner[key]
        if to is None:
            del inner[path[-1]]
        else:
            inner[path[-1]] = to
        (folder / name).write_text(json.dumps(data))

    return edit


def unfinished(*path, to):
    """The same for run.json of a run that is not finished."""
    edits = change("run.json", "status", to="running"), change("run.json", *path, to=to)
    return lambda folder: [edit(folder) for edit in edits]


def text(name, content):
    return lambda folder: (folder / name).write_bytes(content)


DAMAGES = {
    "no status": (change("run.json", "status", to=None), "resume", "run.json' is damaged"),
    "odd settings": (change("run.json", "settings", to=[]), "resume", "run.json' is damaged"),
    "odd options": (unfinished("settings", "method", to=3), "resume", "options 3"),
    "unknown option": (unfinished("settings", "method", to={"wdth": 3}), "resume", "no option 'wdth'"),
    "unknown method": (unfinished("settings", "method_name", to="magic"), "resume", "'magic'"),
    "method of no name": (unfinished("settings", "method_name", to=[1]), "resume", "no method [1]"),
    "odd seed": (unfinished("settings", "seed", to="one"), "resume", "run.json' is damaged"),
    "large seed": (unfinished("settings", "seed", to=2**70), "resume", "run.json' is damaged"),
    "odd provenance": (change("run.json", "provenance", to=[3]), "resume", "run.json' is damaged"),
    "odd stages": (unfinished("settings", "stages", to=[3]), "resume", "stage 3"),
    "no stages": (unfinished("settings", "stages", to={}), "resume", "stages are a list"),
    "odd source": (change("run.json", "source", to="line"), "resume", "run.json' is damaged"),
    "source of no path": (change("run.json", "source", "path", to=None), "resume", "run.json' is damaged"),
    "odd path": (change("run.json", "source", "path", to=3), "resume", "run.json' is damaged"),
    "unknown problem": (change("run.json", "source", to={"name": "nothing"}), "resume", "no problem 'nothing'"),
    "problem of no name": (change("run.json", "source", to={"name": [3]}), "resume", "run.json' is damaged"),
    "odd problem options": (change("run.json", "source", "options", to=[1]), "resume", "run.json' is damaged"),
    "other problem": (change("run.json", "source", "sha256", to="0"), "resume", "problem.py"),
    "bytes": (text("run.json", bytes(range(256))), "resume", "run.json' is damaged"),
    "number": (text("run.json", b"3"), "resume", "run.json' is damaged"),
    "null": (text("run.json", b"null"), "report", "run.json' is damaged"),
    "metrics without errors": (change("metrics.json", "errors", to=None), "resume", "metrics.json"),
    "metrics without endings": (change("metrics.json", "endings", to=None), "report", "metrics.json"),
    "metrics a list": (text("metrics.json", b"[]"), "resume", "metrics.json"),
    "metrics empty": (text("metrics.json", b""), "resume", "metrics.json"),
    "odd errors": (change("metrics.json", "errors", to=[3]), "resume", "metrics.json"),
    "odd seconds": (change("metrics.json", "seconds", to="long"), "resume", "metrics.json"),
    "no metrics": (lambda folder: (folder / "metrics.json").unlink(), "resume", "metrics.json"),
    "no model": (lambda folder: (folder / "model.eqx").unlink(), "export", "model.eqx"),
    "model of no header": (text("model.eqx", b"3"), "export", "model.eqx"),
    "model of bytes": (text("model.eqx", bytes(range(256)) * 9), "report", "model.eqx"),
    "model of an empty header": (text("model.eqx", b"{}"), "export", "model.eqx"),
    "model of odd settings": (text("model.eqx", b'{"settings": 3, "fingerprint": 0}'), "export", "model.eqx"),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_run_is_answered_by_a_sentence(capsys, folder, kind):
    edit, command, says = DAMAGES[kind]
    edit(folder / "run")
    assert says in refused(capsys, command, "run")


FILES = {
    "tabs": (b"if True:\n\tproblem = 1\n        x = 2\n", "TabError"),
    "bytes": (bytes(range(256)), "cannot be run"),
    "null": (b"problem = None\n", "does not define `problem`"),
    "class": (b"class problem:\n    pass\n", "does not define `problem`"),
    "needs": (b"def problem(size):\n    return None\n", "cannot be run: TypeError"),
    "returns": (b"def problem():\n    return 3\n", "does not define `problem`"),
    "recursion": (b"def problem():\n    return problem()\n", "RecursionError"),
    "assertion": (b"assert False, 'no'\n", "AssertionError in line 1: no"),
    "key": (b"{}['a']\n", "KeyError in line 1"),
    "stop": (b"raise KeyboardInterrupt\n", "KeyboardInterrupt"),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_of_no_problem_is_answered_by_a_sentence(capsys, folder, kind):
    content, says = FILES[kind]
    (folder / "wrong.py").write_bytes(content)
    if kind == "stop":
        assert main(["check", "wrong.py"]) == 130
        return
    assert says in refused(capsys, "check", "wrong.py")


WORDS = [
    (["solve"], "PROBLEM"), (["check"], "PROBLEM"), (["resume"], "RUN"), (["report"], "RUN"), (["export"], "RUN"),
    (["reproduce"], "NAME"), (["reproduce", "table99"], "table99"), (["reproduce", "table1", "--jobs", "0"], "--jobs"),
    (["solve", "line.py", "--what"], "--what"), (["solve", "line.py", "--seed"], "--seed"),
    (["solve", "line.py", "--seed", "1.5"], "1.5"), (["solve", "line.py", "--seed", "nan"], "nan"),
    (["solve", "line.py", "--steps", ""], "--steps"), (["solve", "line.py", "--steps", "1e3,5"], "1e3,5"),
    (["solve", "line.py", "--stages", "null"], "stages"), (["solve", "line.py", "--stages", "{}"], "stages"),
    (["solve", "line.py", "--stages", '[{"optimiser": 3, "steps": 5}]'], "no optimiser"),
    (["solve", "line.py", "--stages", '[{"optimiser": "adam", "steps": NaN}]'], "steps"),
    (["solve", "line.py", "--set", "=3"], "NAME=VALUE"), (["solve", "line.py", "--set", "width=[1]"], "width"),
    (["solve", "line.py", "--checkpoint-every", "soon"], "--checkpoint-every"),
    (["solve", "line.py", "--checkpoint-every", "nan"], "--checkpoint-every"),
    (["solve", "line.py", "--devices", "0"], "devices"), (["solve", "line.py", "--devices", "-1"], "devices"),
    (["solve", "line.py", "--processes", "2"], "all three"), (["solve", "line.py", "--dim", "two"], "--dim"),
    (["solve", "heat-ball", "--with", "dim=1.5"], "whole number"), (["solve", "heat-ball", "--dim", "-2"], "dim"),
    (["solve", "line.py", "--out", "line.py"], "is a file"), (["solve", "."], "no problem '.'"),
    (["solve", ""], "no problem ''"), (["solve", "run"], "no problem 'run'"), (["resume", "line.py"], "line.py"),
    (["compare", "line.py", "--methods", "magic"], "magic"), (["compare", "line.py", "--methods", ""], "method"),
    (["compare", "line.py", "--seeds", "0"], "seeds"), (["compare", "line.py", "--seeds", "many"], "--seeds"),
    (["compare", "line.py", "--out", "run"], "exists"), (["reference", "line.py"], "not offered for a domain in 1-D"),
    (["bench", "line.py", "--points", "0"], "points"), (["bench", "line.py", "--out", "nowhere/file"], "nowhere"),
    (["check", "line.py", "--picture", "."], "'.' is a folder"),
]


@pytest.mark.parametrize("words, says", WORDS, ids=[" ".join(words)[:40] for words, _ in WORDS])
def test_wrong_words_are_answered_by_a_sentence(capsys, folder, words, says):
    assert says in refused(capsys, *words)


def test_at_least_two_hundred_mistakes_are_tried():
    assert len(TABLE) + len(DAMAGES) + len(FILES) + len(WORDS) >= 200
