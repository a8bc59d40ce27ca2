"""The RFC's spelling of the `mesh` dialect: printed, it is read back as the same module."""

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import make_context
from shard_dialect.ir.mesh import mesh_dialect
from shard_dialect.ir.mesh.mesh_spelling import ops
from shard_dialect.ir.pretty_ops import pretty
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.testing.random_stages import staged_program
from tests.conftest import ROOT
from tests.extras import needs
from tests.programs.annotated import random_program
from tests.programs.flow import random_flow_program

LIT = ROOT / "tests" / "lit"
FILES = [path for path in sorted(LIT.rglob("*.mlir")) if "mesh." in path.read_text()]
GENERIC = re.compile(r'"mesh\.\w+"\(')


def check_is_read_back(module: ir.Module) -> None:
    for is_generic in (False, True):
        plain = module.operation.get_asm(print_generic_op_form=is_generic)
        text = pretty(plain)
        assert not GENERIC.search(text)
        try:
            again = Source.of(text, "pretty").parse()
        except ShardError:
            assert not is_generic  # StableHLO's own loops lose the encoding of their types
            with pytest.raises(ShardError):
                Source.of(plain, "plain").parse()
            continue
        assert again.operation.get_asm(print_generic_op_form=is_generic) == plain


def test_every_op_has_a_spelling() -> None:
    text = mesh_dialect.definition()
    assert sorted(ops()) == sorted(f"mesh.{name}" for name in re.findall(r"operation @(\w+)", text))


@pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning")
@pytest.mark.parametrize(
    "path",
    [  # jaxlib reads Shardy's pretty spelling, whatever spelling the file has
        pytest.param(path, marks=[needs("jax")] if "sdy." in path.read_text() else [])
        for path in FILES
    ],
    ids=lambda path: str(path.relative_to(LIT)),
)
def test_every_module_of_a_lit_test_is_read_back(path: Path) -> None:
    for source in Source.read_split_input(str(path)):
        with make_context(), source.file_locations():
            try:
                module = source.parse()
            except ShardError:
                continue  # a test of this error
            check_is_read_back(module)


def random_staged_program(seed: int) -> str:
    return staged_program(random.Random(seed))


@pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning")
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("passes", ["import", "propagate", "propagate,materialize"])
@pytest.mark.parametrize("program", [random_program, random_flow_program, random_staged_program])
def test_every_form_of_a_random_program_is_read_back(
    program: Callable[[int], str], passes: str, seed: int
) -> None:
    with make_context():
        module = Source.of(program(seed)).parse()
        try:
            run_pipeline(module, passes)
        except ShardError:
            return
        check_is_read_back(module)


ATTRIBUTES = (
    "required = true",
    "as_result = false",
    'func.note = "a, mesh.mask %0 {(<\\22 #mesh.shard<[[0]]>"',
    "func.list = [[0], {a = 1, b}, (i32) -> i1]",
    "func.alone",
    "#mesh.shard<[[0]]>",
    "#mesh.shard<@other, [[], [1, 0], {max = [2]}]>",
    'sharding = [["0:(1)2"], [], {open = [1]}]',
)


def random_spelling(draw: random.Random) -> str:
    """An annotation with space, comments and attributes wherever there may be some."""

    def space() -> str:
        return draw.choice(("", " ", "  ", "\n  ", " // mesh.mask {(\n"))

    kept = [each for each in ATTRIBUTES[:5] if draw.random() < 0.4]
    kept.insert(draw.randrange(len(kept) + 1), draw.choice(ATTRIBUTES[5:]))
    entries = f",{space()}".join(kept)
    type_ = draw.choice(("tensor<8x8xf32>", "tensor<8x\n8xf32 >", "!t"))
    types = draw.choice((type_, f"{type_}{space()}->{space()}{type_}"))
    operand = draw.choice(("%x", "%y#1"))
    attributes = f"{{{space()}{entries}{space()}}}"
    return f"%0 = mesh.annotate{space()} {operand}{space()}{attributes}:{space()}{types}"


@pytest.mark.parametrize("seed", range(100))
def test_space_and_comments_may_be_anywhere(seed: int) -> None:
    text = f"""!t = tensor<8x8xf32>
mesh.cluster @m(rank = 2, dim_sizes = [4])
mesh.cluster @other // mesh.cluster @no(
  (rank = 3,
   dim_sizes = [2, 2, 2]) {{axis_names = ["a", "mesh.size(", "c"]}}
func.func @f(%x: !t) -> !t attributes {{mesh_cluster = @m}} {{
  %y:2 = func.call @g(%x) : (!t) -> (!t, !t)
  {random_spelling(random.Random(seed))}
  return %0 : !t
}}
func.func private @g(!t) -> (!t, !t)
"""
    source = Source.of(text)
    assert str(source.text).count("\n") == text.count("\n")
    with make_context():
        module = source.parse()
        assert '"mesh.annotate"(%' in str(module)
        check_is_read_back(module)
