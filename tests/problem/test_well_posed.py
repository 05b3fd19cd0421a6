"""What is said of statements before anything is solved: sound ones are found sound, broken ones broken."""

import pytest
from well_posed_statements import BROKEN, SOUND, UNTOLD

from hardpde.problem.well_posed import check_well_posed
from hardpde.problems import PROBLEMS

pytestmark = pytest.mark.usefixtures("quick_compilation")


def test_there_are_enough_statements():
    assert len(SOUND) >= 30 and len(BROKEN) >= 30


@pytest.mark.parametrize("name", SOUND)
def test_no_false_alarm(name):
    found = check_well_posed(SOUND[name]())
    assert found.verdict is True, found.sentences


@pytest.mark.parametrize("name", BROKEN)
def test_broken_statements_are_found(name):
    make, words = BROKEN[name]
    found = check_well_posed(make())
    assert found.verdict is False
    assert any(words in sentence for sentence in found.sentences), found.sentences


@pytest.mark.parametrize("name", UNTOLD)
def test_what_cannot_be_told_is_said(name):
    found = check_well_posed(UNTOLD[name]())
    assert found.verdict is None and any("cannot be told" in sentence for sentence in found.sentences)


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name != "airfoil-printed"])
def test_the_problems_that_come_with_it_are_well_posed(name):
    found = check_well_posed(PROBLEMS[name]())
    assert found.verdict is True, found.sentences


def test_the_airfoil_as_printed_lacks_two_conditions():
    found = check_well_posed(PROBLEMS["airfoil-printed"]())
    assert found.verdict is False
    assert found.needs["airfoil"] == found.needs["outlet"] == {"needed": 2, "stated": 1}
    assert found.needs["inlet"] == {"needed": 2, "stated": 2}
    assert len(found.sentences) == 2 and "'airfoil' needs 2 conditions and has 1" in found.sentences[1]
