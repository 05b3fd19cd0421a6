"""What is told of an error bar: on the command line, as JSON, in the report, and by the solution itself."""

import pytest

import hardpde as hp
from hardpde.bounds.error_bar import ESTIMATED, GUARANTEED, ErrorBar, FieldBar, at_least_change
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


def test_an_estimate_is_not_below_what_the_answer_still_changes_by():
    """Darcy's flow through layers: features that do not jump changed by 38 %, and what is linear about that said 0.7 %.
    """
    fields = {"h": FieldBar(0.02, 0.01, 0.05, ESTIMATED, ESTIMATED), "w": FieldBar(0.5, None, None, ESTIMATED)}
    bar = ErrorBar(ESTIMATED, "", fields)
    wider = at_least_change(bar, 0.4).fields
    assert wider["h"].relative_l2 == pytest.approx(0.4) and wider["h"].l2 == pytest.approx(0.8)
    assert wider["h"].largest == pytest.approx(2.0) and wider["w"] == fields["w"]
    assert at_least_change(bar, 1e-3) == bar and at_least_change(bar, None) == bar
    assert at_least_change(ErrorBar(GUARANTEED, "", fields), 0.4).fields == fields
