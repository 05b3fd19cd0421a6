"""The published values that reproductions stand beside are those of the paper's tables."""

import re
from pathlib import Path

import pytest

from hardpde.studies.reproduction.published import PUBLISHED

PAPER = Path(__file__).parents[3] / "shared" / "paper.tex"


def tables(source: str) -> dict[str, dict[str, list[str]]]:
    """{table1: {row: cells}} of every table in a LaTeX source, in the order in which they come."""
    found = {}
    for number, body in enumerate(re.findall(r"\\begin\{table\}.*?\\end\{table\}", source, re.S), 1):
        rows = {}
        for line in re.findall(r"^(.*?)\\\\", body.split(r"\midrule", 1)[1], re.M):
            name, *cells = (plain(cell) for cell in line.split("&"))
            rows[name] = [part for cell in cells for part in cell.split(" / ")]
        found[f"table{number}"] = rows
    return found


def plain(cell: str) -> str:
    cell = re.sub(r"\\textbf\{([^}]*)\}", r"\1", cell)
    cell = re.sub(r"\s*\\pm(\\ )?\s*", " ± ", cell).replace(r"\beta", "β").replace(r"\%", "%")
    return re.sub(r"\s+", " ", re.sub(r"[$\\]", "", cell)).strip()


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's source is not beside the checkout")
def test_every_published_value_is_the_papers():
    assert tables(PAPER.read_text()) == PUBLISHED


def test_a_cell_is_read_without_its_markup():
    assert plain(r" $\textbf{0.0200}$ $\pm \ 0.0020$ ") == "0.0200 ± 0.0020"
    assert plain(r"$\textbf{0.02}$ $ \pm \ 0.00\%$") == "0.02 ± 0.00%"
    assert plain(r"$\beta_s=1$") == "β_s=1"
