"""What a user states is of its kind, or one sentence says what it must be."""

import numpy as np
import pytest

from hardpde.support.checking import (
    check_at_least,
    check_choice,
    is_fraction,
    is_number,
    is_positive,
    is_whole,
    one_number,
    unlike_default,
    wished_kind,
)

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("kind, of_it, others", [
    (is_number, [0, -1.5, np.float32(2)], [True, "1", None, [1]]),
    (is_positive, [1, 0.5], [0, -1, NAN, INF, True, "1"]),
    (is_fraction, [0, 1, 0.3], [-0.1, 1.1, NAN, False]),
    (is_whole, [0, -3], [1.0, True, "1"]),
])
def test_kinds_of_numbers(kind, of_it, others):
    assert all(map(kind, of_it)) and not any(map(kind, others))


@pytest.mark.parametrize("call, says", [
    (lambda: check_at_least(1, width=3, depth=0), "depth is 0; it must be at least 1"),
    (lambda: check_choice("ramp", "steep", ("linear", "root")), "ramp is 'steep'; it is 'linear' or 'root'"),
    (lambda: one_number([1, 2], "radius"), "radius is one number"),
    (lambda: one_number(NAN, "radius"), "radius must be finite"),
    (lambda: one_number("far", "radius"), "radius must be numbers"),
])
def test_what_is_not_of_its_kind_is_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()


@pytest.mark.parametrize("default, good, bad", [
    (False, [True], [1, "yes"]), (3, [-2, 0], [True, 2.0]), (0.5, [1, 2.5], [True, "1"]), ("a", ["b"], [1]),
    (None, [1, "b", None], [])])
def test_options_are_of_the_kind_of_their_default(default, good, bad):
    assert not any(unlike_default(default, value) for value in good)
    assert all(unlike_default(default, value) for value in bad)


@pytest.mark.parametrize("default, good, bad", [
    (3, [1], [0, -2, True]), (0, [0, 5], [-1]), (None, [None, 4], [0, 1.5]), ((5, 5), [[1, 2], ()], [[0], 3]),
    (0.5, [1, 0.1], [NAN, INF, "1"])])
def test_whole_numbers_among_options_are_counts(default, good, bad):
    assert not any(wished_kind("option", default, value) for value in good)
    assert all(wished_kind("option", default, value) for value in bad)
