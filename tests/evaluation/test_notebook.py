"""What a notebook shows of a problem and a solution, and that showing never fails."""

import base64
import re
import subprocess
import sys

import pytest

import hardpde as hp
from helpers import stated

pytestmark = pytest.mark.usefixtures("quick_compilation")
STATED = """
import hardpde as hp

problem = hp.Problem(
    domain=hp.Box((0, 0), (1, 1), name="<sides>") - hp.Ball((0.5, 0.5), 0.2, name="hole"),
    fields="u", gradients={"grad_u": "u"}, time=(0, 2),
    residual=lambda x, q, dq: hp.dt(dq.u) - hp.div(dq.grad_u),
    conditions=[hp.robin("hole", "u", a=1, b=1), hp.dirichlet("<sides>", "u"), hp.initial("u")], name="plate",
)
"""


@pytest.fixture(scope="module")
def problem():
    return stated(STATED)


@pytest.fixture(scope="module")
def solution():
    line = hp.Problem(domain=hp.Interval(0, 1, left="left", right="right"), fields="u",
                      residual=lambda x, q, dq: hp.laplacian(dq.u) - 2, exact=lambda x: {"u": x[0] ** 2},
                      conditions=[hp.dirichlet("left", "u"), hp.dirichlet("right", "u", 1)], name="line")
    return hp.solve(line, options={"points": 16, "width": 4, "depth": 1}, stages=[{"optimiser": "adam", "steps": 2}])


def rows(html):
    """The cells of all rows of all tables."""
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", html)]


def image(html):
    [data] = re.findall(r"src='data:image/png;base64,([^']+)'", html)
    return base64.b64decode(data)


def test_a_problem_shows_what_is_stated(problem):
    html = problem._repr_html_()
    assert "Problem plate" in html and "0 to 2" in html and "2-D, within [0, 1] × [0, 1]" in html
    assert ["u", "number", ""] in rows(html) and ["grad_u", "2", "gradient of u"] in rows(html)
    assert ["robin u", "robin", "hole"] in rows(html) and ["initial u", "initial", "initial"] in rows(html)
    assert ["dirichlet u", "dirichlet", "&lt;sides&gt;"] in rows(html) and "<sides>" not in html
    assert image(html).startswith(b"\x89PNG")


def test_a_solution_shows_how_good_it_is(solution):
    html = solution._repr_html_()
    last = solution.training.history[-1]
    assert f"{last['loss']:.3e}" in html and f"{last['held_out']:.3e}" in html
    assert ["adam", "2", "all 2 steps were taken"] in rows(html)
    assert any(row[:2] == ["u", f"{solution.errors()['u']['mae']:.3g}"] for row in rows(html))
    assert image(html).startswith(b"\x89PNG")


def test_words_remain_where_nothing_can_be_drawn(problem, solution, monkeypatch):
    def broken(*_):
        raise RuntimeError("no picture today")

    monkeypatch.setattr("hardpde.evaluation.figures.pictures.draw_domain", broken)
    monkeypatch.setattr(hp.Solution, "picture", broken)
    for html in (problem._repr_html_(), solution._repr_html_()):
        assert "<table>" in html and "<img" not in html


def test_what_cannot_be_shown_is_left_to_plain_text(problem, solution, monkeypatch):
    monkeypatch.setattr("hardpde.evaluation.notebook._block", lambda *parts: 1 / 0)
    assert problem._repr_html_() is None and solution._repr_html_() is None


def test_words_do_without_matplotlib():
    script = f"import sys\nsys.modules['matplotlib'] = None\n{STATED}\nprint(problem._repr_html_())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert ["robin u", "robin", "hole"] in rows(done.stdout) and "<img" not in done.stdout
