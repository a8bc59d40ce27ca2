"""Write what the compiler makes of many programs, to compare two versions of it by `diff -r`.

    python -m tests.testing.outputs before examples/*.mlir --random 1000
    python -m tests.testing.outputs after before/programs/*.mlir
    diff -r before/outputs after/outputs

For each program there is a file with the text of `--spmd` and its remarks, of `--spmd,lower`, and
the report; or the error where one of them is refused. `--random N` draws N random programs besides,
and keeps them in the folder `programs`, since another version of the generator may draw others.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from shutil import copyfile

import hypothesis

import shard_dialect as sd
from shard_dialect.testing import Program, programs, runnable


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--random", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    kept = arguments.folder / "programs"
    kept.mkdir(parents=True, exist_ok=True)
    (arguments.folder / "outputs").mkdir(exist_ok=True)
    for file in arguments.files:
        copyfile(file, kept / file.name)
    for number, text in enumerate(random_texts(arguments.random, arguments.seed)):
        (kept / f"random_{number:04}.mlir").write_text(text)
    with ProcessPoolExecutor() as pool:
        for _ in pool.map(write_output, sorted(kept.iterdir()), chunksize=8):
            pass


def random_texts(count: int, seed: int) -> list[str]:
    """The texts of `count` different programs of ops of all dialects."""
    texts: dict[str, None] = {}

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=max(1, 2 * count),
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(programs(runnable()))
    def draw(program: Program) -> None:
        if len(texts) < count:
            texts[program.text] = None

    if count:
        draw()
    return list(texts)


def write_output(path: Path) -> None:
    """Write the file for one program."""
    text = path.read_text()
    parts = {
        "spmd": lambda: transformed(text, "spmd"),
        "remarks": lambda: transformed(text, "propagate{remarks=true}"),
        "lower": lambda: transformed(text, "spmd,lower"),
        "report": lambda: str(sd.report(sd.parse(text))),
    }
    shown = "\n".join(f"=== {name}\n{outcome(part)}" for name, part in parts.items())
    (path.parent.parent / "outputs" / path.with_suffix(".txt").name).write_text(shown)


def transformed(text: str, pipeline: str) -> str:
    module = sd.parse(text)
    sd.run_pipeline(module, pipeline)
    return sd.to_text(module)


def outcome(part: Callable[[], str]) -> str:
    """What a part gives, behind its warnings; or its error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            text = part()
        except sd.ShardError as error:
            text = f"refused: {error}"
    return "\n".join([*(f"warning: {each.message}" for each in caught), text])


if __name__ == "__main__":
    main()
