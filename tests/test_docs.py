"""The README and docs/: code runs, names exist, links lead somewhere, figures and messages are as they are."""

import ast
import importlib
import importlib.util
import inspect
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from test_house import FLOORS

import hardpde as hp
from hardpde.cli.parser import make_parser
from hardpde.problems import presets

pytestmark = pytest.mark.usefixtures("quick_compilation")

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import readme as tables  # noqa: E402

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
README = ROOT / "README.md"
SHORT = 30  # lines of code of an extension


def blocks(path: Path, language: str) -> list[str]:
    """The fenced blocks of one language, but those after <!-- not run -->."""
    text = re.sub(r"<!-- not run -->\n+```.*?^```$", "", path.read_text(), flags=re.S | re.M)
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.S | re.M)


def source_files() -> list[Path]:
    return sorted((ROOT / "hardpde").rglob("*.py"))


# ---------------------------------------------------------------- code


@pytest.mark.parametrize("page", [page for page in (README, *PAGES) if blocks(page, "python")],
                         ids=lambda page: page.stem)
def test_python_on_a_page_runs(page, monkeypatch, tmp_path):
    """All blocks of a page, one after the other, as one program; presets are made tiny, and direct solves and marches
    small."""
    tiny = {"method": {"width": 6, "depth": 2, "points": 64}, "stages": [{"optimiser": "ssbroyden", "steps": 3}]}
    monkeypatch.setitem(presets.GENERAL.settings, ("exact", "quick"), tiny)
    for limit in ("solving.direct", "solving.marching", "direct.in_windows"):
        monkeypatch.setattr(f"hardpde.{limit}.MOST", 200)
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    before = dict(presets.METHODS)
    try:
        for block in blocks(page, "python"):
            exec(compile(block, f"{page.name}", "exec"), names)
    finally:
        presets.METHODS.clear()
        presets.METHODS.update(before)


def test_extensions_are_short():
    """Every block that defines something has at most 30 lines, without blank ones and docstrings."""
    found = [block for block in blocks(DOCS / "extending.md", "python") if re.search(r"^(def|class) ", block, re.M)]
    assert len(found) >= 4
    for block in found:
        tree = ast.parse(block)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
                node.body = node.body[1:]
        lines = {node.lineno for node in ast.walk(tree) if hasattr(node, "lineno")}
        lines |= {decorator.lineno for node in ast.walk(tree) for decorator in getattr(node, "decorator_list", [])}
        assert len(lines) <= SHORT, block


@pytest.mark.parametrize("page", [*PAGES, README], ids=lambda page: page.stem)
def test_commands_on_a_page_are_known(page):
    """`hardpde …` in shell blocks is a command line that the parser takes."""
    for block in blocks(page, "sh"):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["hardpde"]:
                make_parser().parse_args(words[1:])


# ---------------------------------------------------------------- figures


def typed(page: Path) -> list[str]:
    """Errors and seconds in the text of a page: not between markers, not in code."""
    text = re.sub(r"<!-- (\w+) -->.*?<!-- /\1 -->|^```.*?^```$", "", page.read_text(), flags=re.S | re.M)
    return re.findall(r"\d(?:\.\d+)?e-\d+|\b[\d.]+ m?s\b", text)


def test_tables_say_what_the_result_files_say():
    """Every table between markers is what benchmarks/readme.py writes, and no marker is left alone."""
    for page in (*PAGES, README):
        name = page.relative_to(ROOT).as_posix()
        marked = set(re.findall(r"<!-- /(\w+) -->", page.read_text()))
        assert marked == set(tables.PAGES.get(name, ())), name
        assert not marked or tables.written(name) == page.read_text(), f"{name}: python benchmarks/readme.py"


@pytest.mark.parametrize("page", [README, DOCS / "results.md"], ids=lambda page: page.stem)
def test_no_figure_is_typed_by_hand(page):
    assert not typed(page)


def test_the_readme_is_short_and_says_how_to_begin():
    text = README.read_text()
    assert len(text.splitlines()) <= 150
    assert len(re.findall(r"^- \*\*.+", text.split("## Install")[0], flags=re.M)) == 5
    assert {"make demo", "make test", "hardpde check", "hardpde solve"} <= {
        " ".join(line.split()[:2]) for block in blocks(README, "sh") for line in block.splitlines()}
    assert 15 <= max(len([line for line in block.splitlines() if line]) for block in blocks(README, "python")) <= 20


# ---------------------------------------------------------------- names


def named(page: Path) -> list[tuple[str, Path]]:
    """(name, file) of the rows of a page's tables; a row with as many files as names pairs them."""
    found = []
    for line in page.read_text().splitlines():
        *_, names, files = ["", "", *re.split(r"(?<!\\)\|", line.strip("|"))]
        linked = [page.parent / target for target in re.findall(r"\]\(([^)]+\.py)\)", files)]
        if line.startswith("| ") and linked:
            words = re.findall("`([^`]+)`", names)
            assert words and len(linked) in (1, len(words)), line
            found += zip(words, linked if len(linked) == len(words) else linked * len(words))
    return found


def defined(path: Path) -> set[str]:
    """What a file defines: functions, classes, constants, and Class.member."""
    found: set[str] = set()

    def visit(body, prefix):
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{prefix}{node.name}.")
            for target in getattr(node, "targets", [getattr(node, "target", None)]):
                if isinstance(target, ast.Name):
                    found.add(prefix + target.id)

    visit(ast.parse(path.read_text()).body, "")
    return found


@pytest.mark.parametrize("page", ["architecture", "glossary"])
def test_names_are_defined_in_the_files_given_beside_them(page):
    rows = named(DOCS / f"{page}.md")
    assert len(rows) > 20
    for name, file in rows:
        assert name in defined(file), f"{file} does not define {name}"


def test_the_glossary_is_short():
    assert len(re.findall(r"^\| (?!maths)", (DOCS / "glossary.md").read_text(), flags=re.M)) <= 25


def test_floors_are_listed_in_their_order_with_the_words_of_their_docstrings():
    rows = re.findall(r"^\| \[(\w+)\]\(../hardpde/(\w+)\) \| (.+) \|$", (DOCS / "architecture.md").read_text(),
                      flags=re.M)
    assert tuple(name for name, *_ in rows) == FLOORS
    for name, folder, said in rows:
        text = ast.get_docstring(ast.parse((ROOT / "hardpde" / folder / "__init__.py").read_text()))
        assert name == folder
        assert said.replace("\\|", "|") == " ".join(text.split("\n\n")[0].split())


@pytest.mark.parametrize("name", hp.__all__)
def test_a_public_name_is_typed_and_documented(name):
    thing = getattr(hp, name)
    assert len(inspect.getdoc(thing) or "") > 10
    annotated = vars(thing).get("__init__", thing) if inspect.isclass(thing) else thing
    if inspect.isclass(thing) and not inspect.isfunction(annotated):
        return  # a contract without a constructor of its own
    signature = inspect.signature(annotated)
    for parameter in signature.parameters.values():
        assert parameter.name == "self" or parameter.annotation is not parameter.empty, parameter
    assert inspect.isclass(thing) or signature.return_annotation is not signature.empty


# ---------------------------------------------------------------- links and messages


def hooks():
    pytest.importorskip("mkdocs")
    spec = importlib.util.spec_from_file_location("docs_hooks", DOCS / "hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def anchor(title: str) -> str:
    """The anchor that the site gives a heading."""
    toc = pytest.importorskip("markdown.extensions.toc")
    return toc.slugify(re.sub(r"[`*]", "", title), "-")


@pytest.mark.parametrize("page", [*PAGES, README], ids=lambda page: page.stem)
def test_links_of_a_page_lead_somewhere(page):
    text = re.sub(r"^```.*?^```$|^    .*?$", "", page.read_text(), flags=re.S | re.M)  # not in code
    for target in re.findall(r"(?:\]\(|src=\")([^)\"\s]+)[)\"]", text):
        if target.startswith("http"):
            continue
        file, _, place = target.partition("#")
        path = (page.parent / file) if file else page
        assert path.exists(), target
        if place:
            titles = re.findall(r"^#+ (.+)$", path.read_text(), flags=re.M)
            assert place in map(anchor, titles), target


@pytest.mark.parametrize("page", [README, ROOT / "CONTRIBUTING.md", *(p for p in PAGES if p.stem != "lab")],
                         ids=lambda page: page.stem)
def test_files_that_a_page_names_exist(page):
    for path in re.findall(r"`((?:[\w-]+/)+[\w-]+\.(?:py|json|md))`", page.read_text()):
        assert (ROOT / path).exists() or (ROOT / "hardpde" / path).exists(), path


def test_lists_that_contributors_add_to_are_where_it_is_said():
    found = re.findall(r"`(\w+)`\s+of\s+`([\w/]+\.py)`", (ROOT / "CONTRIBUTING.md").read_text())
    assert len(found) == 4
    for name, file in found:
        assert name in defined(ROOT / file), file


def test_the_gallery_has_every_example_and_the_api_every_name():
    made = hooks()
    gallery, page = made.gallery(), (DOCS / "api.md").read_text()
    for path in (ROOT / "examples").glob("*.py"):
        assert f"### {path.stem}\n" in gallery
        assert made.examples()[path.stem][0].endswith("."), f"{path.name} starts with a sentence"
    listed = " ".join(made.API.findall(page)).split()
    assert sorted(name for name in listed if "." not in name) == sorted(hp.__all__)
    assert all(f"### {name}\n" in made.entry(name) for name in listed)


def test_extensions_are_made_of_public_names():
    """What the page imports of hardpde is in the `__all__` of a floor, and on the page of public names."""
    listed = (DOCS / "api.md").read_text().split()
    found = [node for block in blocks(DOCS / "extending.md", "python") for node in ast.walk(ast.parse(block))
             if isinstance(node, ast.ImportFrom) and node.module.startswith("hardpde")]
    assert found
    for node in found:
        for alias in node.names:
            assert alias.name in importlib.import_module(node.module).__all__
            name = f"{node.module.removeprefix('hardpde.')}.{alias.name}"
            assert name in listed or f"`{name}`" in listed, name


def sentences() -> list[re.Pattern]:
    """Every text of the package as a pattern, with anything where a value is put in."""
    found = []
    for path in source_files():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                parts = [node.value]
            elif isinstance(node, ast.JoinedStr):
                parts = [value.value if isinstance(value, ast.Constant) else None for value in node.values]
            else:
                continue
            fixed = "".join(part or "" for part in parts)
            if len(fixed) >= 10:
                pattern = "".join(".+?" if part is None else re.escape(" ".join(part.split(" "))) for part in parts)
                found.append(re.compile(pattern, re.S))
    return found


def test_messages_are_those_of_the_code():
    known = sentences()
    quoted = [" ".join(block.split()) for block in blocks(DOCS / "troubleshooting.md", "text")]
    assert len(quoted) > 20
    for message in quoted:
        assert any(pattern.fullmatch(message) for pattern in known), message


# ---------------------------------------------------------------- the site


def test_the_site_opens_and_is_searched_from_disk(page, tmp_path):
    pytest.importorskip("mkdocs")
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "--quiet", "--no-strict", "--site-dir", tmp_path],
                   cwd=ROOT, check=True, capture_output=True)
    page.goto((tmp_path / "index.html").as_uri())
    page.keyboard.press("/")  # to the search
    page.keyboard.type("levenberg")
    found = page.locator(".md-search-result__link")
    found.first.wait_for()
    found.first.click()
    page.wait_for_url(lambda address: "index.html" not in address)
    assert "levenberg" in page.locator("article").inner_text().lower()
