"""Draw the domains of the examples, as `hardpde check` does, into docs/images/examples.

    python docs/pictures.py [NAME …]
"""

import sys
from io import BytesIO
from pathlib import Path

import matplotlib.pyplot as plt
from PIL import Image

from hardpde.evaluation.figures.pictures import draw_domain
from hardpde.runs.load import load_problem

ROOT = Path(__file__).resolve().parent.parent
WIDTH, COLOURS = 640, 64


def main() -> None:
    folder = ROOT / "docs" / "images" / "examples"
    for name in sys.argv[1:] or sorted(path.stem for path in (ROOT / "examples").glob("*.py")):
        figure = draw_domain(load_problem(str(ROOT / "examples" / f"{name}.py"))[0])
        drawn = BytesIO()
        figure.savefig(drawn, dpi=130)
        plt.close(figure)
        image = Image.open(drawn).convert("RGB")
        image = image.resize((WIDTH, round(image.height * WIDTH / image.width)), Image.Resampling.LANCZOS)
        image.quantize(COLOURS).save(folder / f"{name}.png", optimize=True)
        print(name, flush=True)


if __name__ == "__main__":
    main()
