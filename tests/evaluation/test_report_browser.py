"""The report in a real browser: it opens from a file, the slider moves pictures and numbers, nothing goes wrong."""

import base64
import contextlib
import json
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from hardpde.cli.parser import main

websocket = pytest.importorskip("websocket", reason="websocket-client is not installed; pip install 'hardpde[dev]'")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = [pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to open the report in"),
              pytest.mark.usefixtures("quick_compilation")]
PATIENCE = 60  # seconds: a browser that takes longer has failed
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
         "--remote-debugging-port=0", "--remote-allow-origins=*", "about:blank"]

# A plate with a hole that is heated, with its known solution; and a line that does not change, without one.
PLATE = """
import hardpde as hp

problem = hp.Problem(
    domain=hp.Box((0, 0), (1, 0.5), name="sides") - hp.Ball((0.5, 0.25), 0.1, name="hole"), fields="u", time=(0, 1),
    residual=lambda x, q, dq: hp.dt(dq.u) - hp.laplacian(dq.u) - x[0],
    conditions=[*(hp.dirichlet(name, "u", lambda x: x[0] * x[2]) for name in ("sides", "hole")), hp.initial("u")],
    exact=lambda x: {"u": x[0] * x[2]},
)
"""
LINE = """
import hardpde as hp

problem = hp.Problem(
    domain=hp.Interval(0, 1, left="<b>", right="right"), fields="u", residual=lambda x, q, dq: hp.laplacian(dq.u),
    conditions=[hp.dirichlet("<b>", "u"), hp.dirichlet("right", "u", 1)],
)
"""


class Page:
    """A page in Chromium, by the DevTools protocol: what it says, its numbers, keys and the pointer."""

    def __init__(self, address: str):
        self.socket = websocket.create_connection(address, timeout=PATIENCE)
        self.number, self.trouble, self.asked = 0, [], []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **given):
        """Ask for something and wait for the answer; complaints of the page are kept."""
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": given}))
        while (message := self._next()).get("id") != self.number:
            pass
        assert "error" not in message, message
        return message["result"]

    def _next(self) -> dict:
        message = json.loads(self.socket.recv())
        kind, said = message.get("method"), message.get("params", {})
        if kind == "Runtime.exceptionThrown":
            self.trouble.append(said["exceptionDetails"])
        elif kind == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.trouble.append(said["entry"]["text"])
        elif kind == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
            self.trouble.append(said["args"])
        elif kind == "Network.requestWillBeSent":
            self.asked.append(said["request"]["url"])
        return message

    def open(self, path: Path, width: int = 1100, height: int = 900, dark: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.until("document.readyState === 'complete'")

    def value(self, expression: str):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def until(self, expression: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self.value(expression):
            assert time.monotonic() < deadline, f"never: {expression}"
            time.sleep(0.02)

    def press(self, key: str, code: int) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def point(self, selector: str) -> None:
        """Move the pointer into the left upper part of an element."""
        self.value(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center'}})")
        box = self.value(f"(() => {{ const b = document.querySelector({selector!r}).getBoundingClientRect();"
                         f"return [b.x, b.y, b.width, b.height]; }})()")
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0] + 0.3 * box[2], y=box[1] + 0.2 * box[3])

    def shot(self, path: Path) -> None:
        """Keep a picture of the whole page, for people."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        data = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)["data"]
        Path(path).write_bytes(base64.b64decode(data))


@contextlib.contextmanager
def chromium(folder: Path):
    """A browser with one page; it is ended whatever happens."""
    with open(folder / "chromium.log", "w") as log:
        process = subprocess.Popen([CHROMIUM, f"--user-data-dir={folder / 'profile'}", *FLAGS], stdout=log, stderr=log)
    try:
        port, deadline = folder / "profile" / "DevToolsActivePort", time.monotonic() + PATIENCE
        while not port.exists() or not port.read_text().strip():
            assert process.poll() is None and time.monotonic() < deadline, (folder / "chromium.log").read_text()
            time.sleep(0.05)
        number = port.read_text().split()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{number}/json/list", timeout=PATIENCE) as answer:
            pages = [target for target in json.load(answer) if target["type"] == "page"]
        page = Page(pages[0]["webSocketDebuggerUrl"])
        yield page
        page.socket.close()
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Finished runs of a problem with time and of one without: barely trained, so that there are errors to see."""
    folder = tmp_path_factory.mktemp("runs")
    for name, text in (("plate", PLATE), ("line", LINE)):
        (folder / f"{name}.py").write_text(text)
        method = "pinn" if name == "plate" else "exact"
        words = ["solve", folder / f"{name}.py", "--method", method, "--set", "points=32", "--stages",
                 json.dumps([{"optimiser": "adam", "steps": 4, "block": 2}] * 2), "--out", folder / name]
        assert main([str(word) for word in words]) == 0
    return folder


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("chromium")) as page:
        yield page


NOW = "Object.fromEntries([...document.querySelectorAll('td[data-now]')].map((c) => [c.dataset.now, c.textContent]))"
WHEN = "document.querySelector('.control output').textContent"
COLOURS = """[...document.querySelectorAll('.panels canvas')].map((c) => {
    const copy = new OffscreenCanvas(c.width, c.height).getContext('2d', {willReadFrequently: true});
    copy.drawImage(c, 0, 0);
    const data = copy.getImageData(0, 0, c.width, c.height).data;
    let sum = 0, seen = 0;
    for (let i = 0; i < data.length; i += 4) {
        if (data[i + 3]) { sum += data[i] + 3 * data[i + 1] + 7 * data[i + 2]; seen++; }
    }
    return [sum, seen / (data.length / 4)];
})"""


def clean(page):
    """Nothing went wrong, and nothing was asked for but the file itself and what is in it."""
    assert not page.trouble
    assert all(address.startswith(("file:", "data:")) for address in page.asked)


def test_the_slider_moves_pictures_and_numbers(runs, page):
    known = json.loads((runs / "plate" / "metrics.json").read_text())["errors"]
    rows = known["u"]["by_time"]
    page.open(runs / "plate" / "report.html")
    assert page.value("[...document.querySelectorAll('.panels figcaption')].map((c) => c.textContent)") == [
        "reference u", "prediction u", "|error|"]
    assert page.value("document.querySelectorAll('input[type=range]').length") == 1
    shown = {}
    page.value("document.querySelector('.control input').focus()")
    for k in range(len(rows) - 1, len(rows) - 4, -1):
        assert page.value(WHEN) == f"t = {rows[k]['time']:g}"
        numbers = page.value(NOW)
        assert set(numbers) == {f"{name} {key}" for name in known for key in rows[k] if key != "time"}
        for name, found in known.items():
            assert numbers[f"{name} mae"] == f"{found['by_time'][k]['mae']:.2e}"
            assert numbers[f"{name} max"] == f"{found['by_time'][k]['max']:.2e}"
        assert numbers["u relative_l2"] == f"{100 * rows[k]['relative_l2']:#.3g} %"
        shown[k] = (numbers["u mae"], page.value(COLOURS))
        page.press("ArrowLeft", 37)
    assert len({mae for mae, _ in shown.values()}) == 3
    for panel in range(3):  # reference, prediction and error all change, and all are drawn
        assert len({colours[panel][0] for _, colours in shown.values()}) == 3
        assert all(0.4 < colours[panel][1] < 0.95 for _, colours in shown.values())
    page.press("Home", 36)
    assert page.value(WHEN) == "t = 0"
    assert page.value("document.querySelector('input').getAttribute('aria-valuetext')") == "t = 0"
    clean(page)


def test_the_button_plays(runs, page):
    page.open(runs / "plate" / "report.html")
    page.value("document.querySelector('.control button').click()")
    page.until(f"{WHEN} !== 't = 1'")
    page.value("document.querySelector('.control button').click()")
    assert page.value("document.querySelector('.control button').getAttribute('aria-label')") == "play"
    clean(page)


def test_the_pointer_reads_values(runs, page):
    page.open(runs / "plate" / "report.html")
    page.point(".panels canvas")
    page.until("document.querySelector('.under').textContent.startsWith('at (')")
    said = page.value("document.querySelector('.under').textContent")
    place, values = said.removeprefix("at (").split("): ")
    x, y = map(float, place.split(", "))
    reference, prediction, error = (float(part.rsplit(" ", 1)[1]) for part in values.split(", "))
    assert 0 < x < 1 and 0 < y < 0.5
    assert reference == pytest.approx(x, abs=0.01)  # the known solution is x t, at t = 1
    assert error == pytest.approx(abs(prediction - reference), abs=1e-3)
    page.point(".chart svg")
    page.until("document.querySelector('.said').textContent.startsWith('arc length')")
    clean(page)


def test_violations_and_losses_are_drawn(runs, page):
    metrics = json.loads((runs / "plate" / "metrics.json").read_text())
    page.open(runs / "plate" / "report.html")
    assert page.value("document.querySelectorAll('.chart svg path').length") == len(metrics["certificate"]) + 2
    assert page.value("[...document.querySelectorAll('.chart .stage')].map((c) => c.textContent)") == ["adam", "adam"]
    text = page.value("document.body.innerText")
    for row in metrics["certificate"]:
        assert f"{row['violation']:.2e}" in text or row["violation"] == 0
    for ending in metrics["endings"]:
        assert ending["why"] in text
    assert metrics["commit"] in text and metrics["versions"]["jax"] in text
    clean(page)


def test_a_problem_without_time_has_no_slider(runs, page):
    page.open(runs / "line" / "report.html")
    assert page.value("document.querySelectorAll('input, .control, .control button').length") == 0
    assert page.value("[...document.querySelectorAll('.panels figcaption')].map((c) => c.textContent)") == ["u"]
    assert page.value(COLOURS)[0][1] > 0
    assert "dirichlet u on <b>" in page.value("document.querySelector('.charts').innerText")
    clean(page)


def test_it_fits_a_phone_and_the_dark(runs, page):
    page.open(runs / "plate" / "report.html", width=390, height=800, dark=True)
    assert page.value("document.documentElement.scrollWidth") <= 390
    back, ink = (np.array(page.value(f"getComputedStyle(document.body).{name}.match(/\\d+/g).map(Number)"))
                 for name in ("backgroundColor", "color"))
    assert back.mean() < 64 and ink.mean() > 190
    wide = page.value("[...document.querySelectorAll('.panels canvas')].map((c) => c.clientWidth)")
    assert len(wide) == 3 and min(wide) > 250  # one below the other
    clean(page)
