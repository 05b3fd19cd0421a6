"""What is said of a mistake in a user's function names the file, the line, and what to write instead."""

import pytest

from hardpde.cli.parser import main

pytestmark = pytest.mark.usefixtures("quick_compilation")

FILE = """
import math
import numpy as np
import jax.numpy as jnp
import hardpde as hp

def source(x):
    return HERE

problem = hp.Problem(
    domain=hp.Interval(0, 1, left="a", right="b"), fields="u", gradients={"p": "u"},
    residual=lambda x, q, dq: hp.div(DIV) + source(x),
    conditions=[hp.dirichlet("a", "u"), hp.dirichlet("b", "u", lambda x: DATA)], hints=hp.Hints(guess=HINT))
"""
MISTAKES = {
    "div of a value": ({"DIV": "q.p"}, "residual: div takes derivatives: hp.div(dq.p) (user.py, line 12: "),
    "if": ({"HERE": "1.0 if x[0] > 0.5 else 2.0"}, "write jnp.where(condition, a, b), jnp.minimum or jnp.maximum (u"),
    "max": ({"HERE": "max(x[0], 0.5)"}, "jnp.maximum (user.py, line 8: return max(x[0], 0.5))"),
    "numpy": ({"HERE": "np.sin(x[0])"}, "write jnp in place of np (import jax.numpy as jnp) (user.py, line 8"),
    "math in a residual": ({"HERE": "math.sin(x[0])"}, "the functions of math cannot take x or fields"),
    "float in data": ({"DATA": "float(x[0])"}, "the data of condition 'dirichlet u' on 'b'"),
    "an exception of their own": ({"HERE": "[][1]"}, "IndexError: list index out of range (user.py, line 8: return ["),
    "a name": ({"HERE": "k * x[0]"}, "NameError: name 'k' is not defined (user.py, line 8"),
    "in a hint": ({"HINT": "lambda x: {'u': np.exp(x[0])}"}, "hint guess cannot be evaluated: NumPy cannot compute"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_in_ones_own_words(capsys, tmp_path, mistake):
    changed, says = MISTAKES[mistake]
    text = FILE
    for name, usual in {"HERE": "1.0", "DIV": "dq.p", "DATA": "1.0", "HINT": "None"}.items():
        text = text.replace(name, changed.get(name, usual))
    (tmp_path / "user.py").write_text(text)
    assert main(["check", str(tmp_path / "user.py")]) == 2
    said = capsys.readouterr().err
    assert says in said and "user.py" in said and len(said.splitlines()) == 1, said
