"""Curves for TensorBoard: event files read back byte by byte, also those of a run that was stopped and resumed."""

import csv
import json
import struct
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import hardpde as hp
from hardpde.cli.parser import main
from hardpde.runs.folder import prepare_folder
from hardpde.support.tensorboard import event_writer, has_events

pytestmark = pytest.mark.usefixtures("quick_compilation")
TAGS = {"loss/training": "loss", "loss/held_out": "held_out", "time/seconds": "seconds"}
STAGES = [{"optimiser": "adam", "steps": 6, "block": 2}, {"optimiser": "adam", "steps": 4, "block": 2}]
LINE = """
import hardpde as hp

problem = hp.Problem(domain=hp.Interval(0, 1, left="left", right="right"), fields="u",
                     residual=lambda x, q, dq: hp.laplacian(dq.u) - 1,
                     conditions=[hp.dirichlet("left", "u"), hp.dirichlet("right", "u", 1)])
"""


def crc32c(data: bytes) -> int:
    """The checksum of TFRecord files (Castagnoli), bit by bit."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    value ^= 0xFFFFFFFF
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def curves(folder):
    """{tag: [(step, value)]} of all event files of a folder, in the order they were written."""
    event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2")
    found = {}
    for path in sorted(folder.glob("events.out.tfevents.*")):
        data, at = path.read_bytes(), 0
        while at < len(data):
            (length,) = struct.unpack_from("<Q", data, at)
            body = data[at + 12 : at + 12 + length]
            assert struct.unpack_from("<I", data, at + 8)[0] == crc32c(data[at : at + 8])
            assert struct.unpack_from("<I", data, at + 12 + length)[0] == crc32c(body)
            event = event_pb2.Event.FromString(body)
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value.simple_value))
            at += 16 + length
    return found


def problem():
    return hp.Problem(domain=hp.Interval(0, 1, left="left", right="right"), fields="u",
                      residual=lambda x, q, dq: hp.laplacian(dq.u) - 1,
                      conditions=[hp.dirichlet("left", "u"), hp.dirichlet("right", "u", 1)])


def agree(found, history):
    """Curves are those of a history, with steps counted through the stages."""
    steps = [2, 4, 6, 8, 10]
    assert [record["step"] for record in history] == [2, 4, 6, 2, 4]
    for tag, key in TAGS.items():
        assert [step for step, _ in found[tag]] == steps
        np.testing.assert_allclose([value for _, value in found[tag]], [r[key] for r in history], rtol=1e-6)
    assert found["time/stage"] == [(2, 1), (4, 1), (6, 1), (8, 2), (10, 2)]


def test_a_solve_leaves_its_curves_and_one_that_begins_again_replaces_them(tmp_path):
    pytest.importorskip("tensorboardX")
    given = {"options": {"points": 16, "width": 4, "depth": 1}, "stages": STAGES, "tensorboard": tmp_path}

    def stop(record):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hp.solve(problem(), report=stop, **given)
    assert [step for step, _ in curves(tmp_path)["loss/training"]] == [2]
    history = hp.solve(problem(), **given).training.history
    agree(curves(tmp_path), history)


def test_other_files_in_the_folder_stay(tmp_path):
    pytest.importorskip("tensorboardX")
    (tmp_path / "notes.txt").write_text("mine")
    record = {"stage": "adam", "step": 5, "loss": float("nan"), "held_out": 1.0, "seconds": 0.5}
    for _ in range(2):
        with event_writer(tmp_path) as write:
            write(record)
    found = curves(tmp_path)
    assert [step for step, _ in found["loss/training"]] == [5] and np.isnan(found["loss/training"][0][1])
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_command_that_was_stopped_goes_on_with_its_curves(tmp_path, capsys, monkeypatch):
    pytest.importorskip("tensorboardX")
    (tmp_path / "line.py").write_text(LINE)
    folder = tmp_path / "run"
    words = ["solve", str(tmp_path / "line.py"), "--stages", json.dumps(STAGES), "--set", "points=16",
             "--set", "width=4", "--out", str(folder), "--checkpoint-every", "1e-9", "--tensorboard"]

    def stop(self, record):
        if record["step"] == 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("hardpde.cli.commands.Progress.__call__", stop)
        assert main(words) == 130
    assert [step for step, _ in curves(folder / "tensorboard")["loss/training"]] == [2, 4]
    assert main(["resume", str(folder)]) == 0, capsys.readouterr().err
    with open(folder / "history.csv", newline="") as file:
        rows = [{key: float(value) if key != "stage" else value for key, value in row.items()}
                for row in csv.DictReader(file)]
    agree(curves(folder / "tensorboard"), rows)
    prepare_folder(folder)  # what --force does
    assert not has_events(folder / "tensorboard")


def test_without_the_package_nothing_begins(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    (tmp_path / "line.py").write_text(LINE)
    assert main(["solve", str(tmp_path / "line.py"), "--tensorboard", "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err.strip()
    assert "tensorboardX" in said and "pip install 'hardpde[tensorboard]'" in said and len(said.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["line.py"]
    with pytest.raises(ValueError, match="tensorboardX"):
        hp.solve(SimpleNamespace(), tensorboard=tmp_path)
