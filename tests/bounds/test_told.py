"""What is told of an error bar: on the command line, as JSON, in the report, and by the solution itself."""

import pytest

import hardpde as hp
from hardpde.bounds.error_bar import GUARANTEED
from hardpde.cli.parser import main
from hardpde.problems.poisson import poisson
from helpers import last_json

pytestmark = pytest.mark.usefixtures("quick_compilation")


def test_a_solve_tells_its_error_bar(tmp_path, capsys):
    folder = tmp_path / "run"
    assert main(["solve", "poisson", "--solver", "direct", "--tolerance", "1e-3", "--json", "--out", str(folder)]) == 0
    out, err = capsys.readouterr()
    bar = last_json(out)["error_bar"]
    assert bar["word"] == GUARANTEED and "elliptic, symmetric" in bar["kind"] and "exactly" in bar["constant"]
    assert 0 < bar["fields"]["u"]["relative_l2"] < 1e-3
    assert "error bar, guaranteed: u ≤" in err
    page = (folder / "report.html").read_text()
    assert "Error bar" in page and "bar / error" in page
    problem = poisson()
    own = hp.Solution.load(folder / "model.eqx", problem).error_bar()
    assert own.fields["u"].l2 == pytest.approx(bar["fields"]["u"]["l2"], rel=0.1)
    assert own.fields["u"].l2 >= own.fields["u"].relative_l2  # the norm of sin 2x is larger than one
