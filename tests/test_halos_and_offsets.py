"""Random programs with users' halos, and with shards at offsets: their numbers, and their bytes.

What ops can compute on such shards moves nothing: chains of elementwise ops, products and
reductions along other dimensions, and reshapes that merge the first one, for offsets; elementwise
ops before windows, for halos.
"""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import shard_dialect as sd
from benchmarks.ours import tally_of
from tests.conftest import Program
from tests.test_end_to_end import run_and_check

pytestmark = pytest.mark.usefixtures("unoptimized")

SEEDS = range(40)
PIPELINES = (
    "spmd,lower",
    "propagate,canonicalize,cse;materialize,canonicalize,cse;optimize-collectives,partition,lower",
    "propagate,materialize,compute-halos,partition,canonicalize,cse,lower",
)


def moved(text: str) -> int:
    """The bytes that a device moves."""
    module = sd.parse(text)
    sd.run_pipeline(module, "propagate,materialize,optimize-collectives")
    return tally_of(module).bytes_moved


def check(text: str, seed: int = 0) -> None:
    pipeline = PIPELINES[seed % len(PIPELINES)]
    verdict = run_and_check(text, *pipeline.split(";"))
    assert verdict.passed, f"{text}\n{verdict.failure}"


class Chain:
    """A function of one annotated argument, `%0`, and its ops in order."""

    def __init__(self, rng: random.Random, shape: tuple[int, ...]) -> None:
        self.rng, self.shape = rng, shape
        self.lines: list[str] = []
        self.arguments: list[str] = []
        self.count = 0

    @property
    def type(self) -> str:
        return f"tensor<{'x'.join(map(str, self.shape))}xf32>"

    def append(self, text: str) -> None:
        """An op whose operand, `{}`, is the latest value."""
        self.lines.append(f"%{self.count + 1} = {text.replace('{}', f'%{self.count}')}")
        self.count += 1

    def elementwise(self) -> None:
        type_, kind = self.type, self.rng.randrange(4)
        if kind == 0:
            self.append(f"math.tanh {{}} : {type_}")
        elif kind == 1:
            self.append(f'"stablehlo.logistic"({{}}) : ({type_}) -> {type_}')
        elif kind == 2:
            self.lines.append(f"%c{self.count} = stablehlo.constant dense<0.5> : {type_}")
            self.append(f"stablehlo.multiply {{}}, %c{self.count} : {type_}")
        else:
            self.lines.append(f"%e{self.count} = tensor.empty() : {type_}")
            self.append(f"linalg.exp ins({{}} : {type_}) outs(%e{self.count} : {type_}) -> {type_}")

    def product(self) -> None:
        """With a matrix that all devices have, along the last dimension."""
        rows, columns = self.shape
        new = self.rng.randint(1, 6)
        w = f"%w{self.count}"
        self.arguments.append(f"{w}: tensor<{columns}x{new}xf32>")
        self.append(
            f"stablehlo.dot_general {{}}, {w}, contracting_dims = [1] x [0] : ({self.type}, "
            f"tensor<{columns}x{new}xf32>) -> tensor<{rows}x{new}xf32>"
        )
        self.shape = (rows, new)

    def reshape(self, shape: tuple[int, ...]) -> None:
        before, self.shape = self.type, shape
        self.append(f"stablehlo.reshape {{}} : ({before}) -> {self.type}")

    def window(self, low: int, high: int, dim: int = 0) -> None:
        """A sum over `low` rows before and `high` after."""
        size = low + 1 + high
        sizes = [size if each == dim else 1 for each in range(len(self.shape))]
        padding = [[low, high] if each == dim else [0, 0] for each in range(len(self.shape))]
        z = f"%z{self.count}"
        self.lines.append(f"{z} = stablehlo.constant dense<0.0> : tensor<f32>")
        self.append(
            f'"stablehlo.reduce_window"({{}}, {z}) <{{window_dimensions = array<i64: '
            f"{', '.join(map(str, sizes))}>, padding = dense<{padding}> : "
            f"tensor<{len(sizes)}x2xi64>}}> ({{\n"
            "^bb0(%p: tensor<f32>, %q: tensor<f32>):\n%s = stablehlo.add %p, %q : tensor<f32>\n"
            f"stablehlo.return %s : tensor<f32>\n}}) : ({self.type}, tensor<f32>) -> {self.type}"
        )

    def program(self, grid: str, sharding: str, argument: str) -> str:
        arguments = ", ".join([f"%x: {argument}", *self.arguments])
        return "\n".join(
            [
                f"shard.grid @g(shape = {grid})",
                f"func.func @main({arguments}) -> {self.type} {{",
                f"%l = shard.sharding @g {sharding} : !shard.sharding",
                f"%0 = shard.shard %x to %l : {argument}",
                *self.lines,
                f"return %{self.count} : {self.type}",
                "}",
            ]
        )


def offsets(rng: random.Random, size: int, count: int) -> list[int]:
    return [0, *sorted(rng.randint(0, size) for _ in range(count - 1)), size]


@pytest.mark.parametrize("seed", SEEDS)
def test_ops_along_other_dimensions_leave_shards_at_their_offsets(seed: int) -> None:
    rng = random.Random(seed)
    devices = rng.choice([2, 3, 4])
    # With fewer rows than devices the split may be an even one, which does not go on to others.
    shape = rng.randint(devices, 17), rng.randint(1, 7)
    chain = Chain(rng, shape)
    argument = chain.type
    for _ in range(rng.randint(1, 5)):
        rng.choice([chain.elementwise, chain.elementwise, chain.product])()
    at = offsets(rng, shape[0], devices)
    text = chain.program(str(devices), f"split_axes = [[0]] sharded_dims_offsets = {at}", argument)
    assert moved(text) == 0
    check(text, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_merging_the_first_dimension_leaves_shards_where_they_are(seed: int) -> None:
    """A batch that the devices do not divide, or whose shards are at offsets, and its positions."""
    rng = random.Random(seed)
    devices = rng.choice([2, 3, 4])
    batch, positions = rng.randint(devices, 13), rng.randint(2, 5)
    chain = Chain(rng, (batch, positions, rng.randint(1, 5)))
    argument = chain.type
    for _ in range(rng.randint(1, 3)):
        batched = (*chain.shape[:-1],)
        if rng.random() < 0.4:
            chain.elementwise()
        chain.reshape((batch * positions, chain.shape[-1]))
        for _ in range(rng.randint(1, 3)):
            rng.choice([chain.elementwise, chain.product])()
        chain.reshape((*batched, chain.shape[-1]))
    if rng.random() < 0.3:
        chain.reshape((batch, positions * chain.shape[-1]))
    at = f" sharded_dims_offsets = {offsets(rng, batch, devices)}" if rng.random() < 0.5 else ""
    text = chain.program(str(devices), f"split_axes = [[0]]{at}", argument)
    assert moved(text) == 0
    check(text, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_reshapes_of_uneven_dimensions_are_right(seed: int) -> None:
    """Any dimension, merged and taken apart, also between whole indices of another one."""
    rng = random.Random(seed)
    grid, axes = rng.choice(
        [("2", "[[0]]"), ("4", "[[0]]"), ("2x2", "[[0], [1]]"), ("3", "[[], [0]]")]
    )
    chain = Chain(rng, (rng.randint(2, 9), rng.choice([2, 3, 4, 6]), rng.randint(1, 4)))
    argument = chain.type
    for _ in range(rng.randint(1, 4)):
        a, b, *rest = chain.shape
        parts = [part for part in range(2, a) if a % part == 0]
        if rng.random() < 0.5 or not parts:
            chain.reshape((a * b, *rest))
        else:
            part = rng.choice(parts)
            chain.reshape((a // part, part * b, *rest))
        if len(chain.shape) < 3:
            first = rng.choice([each for each in range(1, a * b + 1) if a * b % each == 0])
            chain.elementwise()
            chain.reshape((first, a * b // first, *rest))
        chain.elementwise()
    check(chain.program(grid, f"split_axes = {axes}", argument), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_windows_change_the_shards_once_before_and_once_after(seed: int) -> None:
    """Of least bytes: no more than a gather of all rows."""
    rng = random.Random(seed)
    devices, rows = 4, 4 * rng.randint(2, 5)
    chain = Chain(rng, (rows, 3))
    argument = chain.type
    chain.elementwise()
    chain.window(rng.randint(0, 2), rng.randint(0, 2))
    chain.elementwise()
    at = offsets(rng, rows, devices)
    text = chain.program("4", f"split_axes = [[0]] sharded_dims_offsets = {at}", argument)
    largest = max(end - begin for begin, end in pairwise(at))
    assert moved(text) <= (devices - 1) * largest * 3 * 4
    check(text, seed)


def windows_after_halos(seed: int) -> str:
    """Elementwise ops, and windows that read no more than the halos of the user."""
    rng = random.Random(seed)
    grid, axes, split = rng.choice([("2", "[[0]]", 1), ("4", "[[0]]", 1), ("2x2", "[[0], [1]]", 2)])
    shape = 4 * rng.randint(2, 4), 4 * rng.randint(1, 2)
    low, high = rng.randint(0, 2), rng.randint(0, 2)
    halos = [low, high] + [rng.randint(0, 2), rng.randint(0, 2)] * (split - 1)
    chain = Chain(rng, shape)
    argument = chain.type
    for _ in range(rng.randint(0, 3)):
        chain.elementwise()
    chain.window(rng.randint(0, low), rng.randint(0, high))
    chain.elementwise()
    return chain.program(grid, f"split_axes = {axes} halo_sizes = {halos}", argument)


@pytest.mark.parametrize("seed", SEEDS)
def test_windows_read_the_halos_of_the_user(seed: int) -> None:
    text = windows_after_halos(seed)
    assert moved(text) == 0
    check(text, seed)


def test_the_pass_computes_halos_once() -> None:
    changed = 0
    for seed in SEEDS:
        module = sd.parse(windows_after_halos(seed))
        sd.run_pipeline(module, "propagate,materialize")
        before, exchanged = str(module), tally_of(module).bytes_moved
        sd.run_pipeline(module, "compute-halos")
        once = str(module)
        assert tally_of(module).bytes_moved <= exchanged
        changed += once != before
        sd.run_pipeline(module, "compute-halos")
        assert str(module) == once
    assert changed > len(SEEDS) // 4


@pytest.mark.parametrize("seed", SEEDS)
def test_halos_never_move_more_than_none(seed: int) -> None:
    """Those of another width are exchanged anew, and those that nothing reads are dropped."""
    rng = random.Random(seed)
    rows = rng.randint(6, 18)
    chain = Chain(rng, (rows, 3))
    argument = chain.type
    for _ in range(rng.randint(1, 4)):
        if chain.shape[1] == 3 and rng.random() < 0.3:
            chain.window(rng.randint(0, 2), rng.randint(0, 2))
        else:
            rng.choice([chain.elementwise, chain.product])()
    if rng.random() < 0.5:
        chain.lines.append("%z = stablehlo.constant dense<0.0> : tensor<f32>")
        columns = chain.shape[1]
        chain.append(
            "stablehlo.reduce({} init: %z) applies stablehlo.add across dimensions = [0] : "
            f"({chain.type}, tensor<f32>) -> tensor<{columns}xf32>"
        )
        chain.shape = (columns,)
    halos = [rng.randint(0, 1), rng.randint(0, 1)]
    without = chain.program("4", "split_axes = [[0]]", argument)
    text = chain.program("4", f"split_axes = [[0]] halo_sizes = {halos}", argument)
    assert moved(text) <= moved(without)
    check(text, seed)


EXP = """
shard.grid @g(shape = 4)
func.func @main(%x: tensor<{size}xf32>) -> tensor<{size}xf32> {{
  %c = arith.constant 2 : i64
  %s = shard.sharding @g split_axes = [[0]] {sizes} : !shard.sharding
  %0 = shard.shard %x to %s : tensor<{size}xf32>
  %1 = math.exp %0 : tensor<{size}xf32>
  %2 = shard.shard %1 to %s : tensor<{size}xf32>
  return %2 : tensor<{size}xf32>
}}
"""


@pytest.mark.parametrize(
    ("size", "sizes"),
    [
        (14, "sharded_dims_offsets = [0, %c, 5, 9, 14]"),
        (14, "sharded_dims_offsets = [0, 0, 14, 14, 14]"),
        (16, "halo_sizes = [%c, 1]"),
        (9, "halo_sizes = [1, 2]"),
        (5, "halo_sizes = [1, 1]"),
        (16, "halo_sizes = [0, 0]"),
    ],
)
def test_an_elementwise_op_between_two_annotations_moves_nothing(size: int, sizes: str) -> None:
    text = EXP.format(size=size, sizes=sizes)
    assert moved(text) == 0
    for seed in range(len(PIPELINES)):
        check(text, seed)


@pytest.mark.parametrize("size", [4, 5, 7, 8, 16])
@pytest.mark.parametrize("halo", [(1, 0), (0, 2), (3, 1)])
def test_scattered_shards_hold_their_halos(size: int, halo: tuple[int, int]) -> None:
    """Each device's frame of the tensor, with the identity outside; gathered again without."""
    grid = sd.Grid("g", (4,))
    sharding = sd.Sharding("g", ((0,),), halos=(halo,), fill="max")
    array = np.arange(1, size + 1, dtype=np.int32)
    low, high = halo
    shard = -(-size // 4)
    least = np.iinfo(np.int32).min
    around = np.full(low + 4 * shard + high, least, np.int32)
    around[low : low + size] = array
    shards = sd.scatter(array, sharding, grid)
    for rank, held in enumerate(shards):
        expected = around[rank * shard : rank * shard + len(held)]
        np.testing.assert_array_equal(held, expected)
    np.testing.assert_array_equal(sd.gather(shards, sharding, grid), array)


@pytest.mark.parametrize(
    ("size", "sharding", "sizes"),
    [
        (9, sd.Sharding("g", ((0,), ()), halos=((1, 2), ())), "halo_sizes = [1, 2]"),
        (16, sd.Sharding("g", ((0,), ()), halos=((2, 2), ())), "halo_sizes = [2, 2]"),
        (
            9,
            sd.Sharding("g", ((0,), ()), offsets=((0, 2, 5, 5, 9), ())),
            "sharded_dims_offsets = [0, 2, 5, 5, 9]",
        ),
    ],
)
def test_files_of_ranks_hold_such_shards(
    size: int, sharding: sd.Sharding, sizes: str, tmp_path: Path, run: Program
) -> None:
    chain = Chain(random.Random(0), (size, 3))
    argument = chain.type
    chain.window(1, 2)
    program = tmp_path / "in.mlir"
    program.write_text(chain.program("4", f"split_axes = [[0]] {sizes}", argument))
    array = np.random.default_rng(0).random((size, 3), np.float32)
    (tmp_path / "in").mkdir()
    for rank, shard in enumerate(sd.scatter(array, sharding, sd.Grid("g", (4,)))):
        np.savez(tmp_path / f"in/rank{rank}.npz", arg0=shard)
    ended = run(program, f"--inputs={tmp_path}/in/", f"--outputs={tmp_path}/out/")
    assert ended.returncode == 0, ended.stderr
    around = np.pad(array, ((1, 2), (0, 0)))
    expected = sum(around[row : row + size] for row in range(4))
    np.testing.assert_allclose(sd.join_shards(tmp_path / "out")["result0"], expected, rtol=1e-6)
