"""Random annotations in Shardy's vocabulary, right and wrong: we refuse what Shardy refuses."""

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from shard_dialect.errors import ShardError
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source, to_generic
from tests.extras import needs

pytestmark = needs("jax")
EXAMPLES = int(os.environ.get("SHARD_DIALECT_SHARDY_MODULES", "400"))
SHAPES = ([8, 4], [16], [2, 3, 8], [])


def joined(items: list[str]) -> str:
    return ", ".join(items)


GOOD_MESHES = ('<["x"=8, "y"=4]>', '<["x"=4, "y"=2, "z"=2]>', "<[]>", "<[], device_ids=[0]>")


@st.composite
def meshes(draw: st.DrawFn) -> str:
    if draw(st.integers(0, 9)):
        return draw(st.sampled_from((*GOOD_MESHES[:2] * 4, *GOOD_MESHES[2:])))
    names = draw(st.sampled_from([["x", "y"], ["x"], ["x", "y", "z"], ["x", "x"], []]))
    sizes = draw(st.sampled_from([[2, 4, 2], [8, 2, 3], [1, 4, 2], [4, 0, 1]]))
    axes = [f'"{name}"={size}' for name, size in zip(names, sizes, strict=False)]
    devices = draw(st.sampled_from(["", "", "", "[0]", "[1, 0]", "[0, 1]", "[-1]", "[0, 2, 1, 3]"]))
    return f"<[{joined(axes)}]" + (f", device_ids={devices}" if devices else "") + ">"


AXES = st.sampled_from(
    '"x" "x" "y" "y" "z" "w" "x":(1)2 "x":(2)2 "x":(2)4 "x":(1)8 "x":(1)4 "x":(4)2 "x":(0)2 '
    '"x":(1)1 "y":(1)2 "y":(2)2 "y":(3)2'.split()
)


@st.composite
def dims(draw: st.DrawFn) -> str:
    axes = draw(st.lists(AXES, max_size=2))
    opened = ["?"] if draw(st.booleans()) else []
    priority = draw(st.sampled_from(["", "", "", "p0", "p3"]))
    return "{" + joined([*axes, *opened]) + "}" + priority


@st.composite
def shardings(draw: st.DrawFn, rank: int) -> str:
    count = draw(st.sampled_from([rank, rank, rank, rank, rank + 1, max(rank - 1, 0)]))
    text = f"[{joined([draw(dims()) for _ in range(count)])}]"
    for name in ("replicated", "unreduced"):
        if draw(st.integers(0, 3)) == 0:
            text += f", {name}={{{joined(draw(st.lists(AXES, min_size=1, max_size=2)))}}}"
    return f"<@{draw(st.sampled_from(['m', 'm', 'm', 'm', 'n']))}, {text}>"


def tensor(shape: list[int]) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}f32>"


@st.composite
def constraints(draw: st.DrawFn, shape: list[int]) -> list[str]:
    type_ = tensor(shape)
    name = draw(st.sampled_from(["sharding_constraint", "reshard"]))
    said = draw(shardings(len(shape)))
    call = f'"sdy.{name}"(%x) <{{sharding = #sdy.sharding{said}}}>'
    return [f"%0 = {call} : ({type_}) -> {type_}"]


@st.composite
def results(draw: st.DrawFn, shape: list[int]) -> list[str]:
    count = draw(st.sampled_from([1, 1, 1, 2]))
    per_value = joined([draw(shardings(len(shape))) for _ in range(count)])
    said = f"sdy.sharding = #sdy.sharding_per_value<[{per_value}]>"
    return [f"%0 = stablehlo.abs %x {{{said}}} : {tensor(shape)}"]


@st.composite
def barriers(draw: st.DrawFn, shape: list[int]) -> list[str]:
    type_, number = tensor(shape), draw(st.integers(0, 3))
    call = f'"sdy.propagation_barrier"(%x) <{{allowed_direction = {number} : i32}}>'
    return [f"%0 = {call} : ({type_}) -> {type_}"]


@st.composite
def rules(draw: st.DrawFn, shape: list[int]) -> list[str]:
    letters = st.sampled_from(["i", "j", "k", "ij", "jk", "ii"])

    def side() -> str:
        return f"[{joined([draw(letters) for _ in shape])}]"

    sizes = draw(st.sampled_from(["i=8, j=4", "i=2, j=3, k=8", "i=16", "j=2", "i=8, j=4, k=1"]))
    sets = ""
    for kind in ("reduction", "need_replication", "permutation", "blocked_propagation"):
        if draw(st.integers(0, 2)) == 0:
            sets += f" {kind}={{{draw(st.sampled_from(['i', 'j', 'k', 'i, j', 'j, i']))}}}"
    operand = side()
    result = draw(st.sampled_from([operand, operand, side()]))
    rule = f"#sdy.op_sharding_rule<({operand})->({result}) {{{sizes}}}{sets}>"
    return [f"%0 = stablehlo.abs %x {{sdy.sharding_rule = {rule}}} : {tensor(shape)}"]


@st.composite
def computations(draw: st.DrawFn, shape: list[int]) -> list[str]:
    type_ = tensor(shape)
    manual = joined(draw(st.sampled_from([[], ['"x"'], ['"y"'], ['"x"', '"y"']])))
    said = draw(shardings(len(shape)))
    cut = draw(st.sampled_from([1, 1, 2, 4]))
    local = tensor([shape[0] // cut, *shape[1:]] if shape else [])
    attributes = (
        f"in_shardings = #sdy.sharding_per_value<[{said}]>, "
        f"manual_axes = #sdy<manual_axes{{{manual}}}>, "
        f"out_shardings = #sdy.sharding_per_value<[{said}]>"
    )
    return [
        f'%0 = "sdy.manual_computation"(%x) <{{{attributes}}}> ({{',
        f"^bb0(%a: {local}):",
        f'"sdy.return"(%a) : ({local}) -> ()',
        f"}}) : ({type_}) -> {type_}",
    ]


@st.composite
def modules(draw: st.DrawFn) -> str:
    shape = draw(st.sampled_from(SHAPES))
    kind = draw(st.sampled_from([constraints, results, barriers, rules, computations]))
    argument = ""
    if draw(st.integers(0, 3)) == 0:
        argument = f" {{sdy.sharding = #sdy.sharding{draw(shardings(len(shape)))}}}"
    return "\n".join(
        [
            f'"sdy.mesh"() <{{mesh = #sdy.mesh{draw(meshes())}, sym_name = "m"}}> : () -> ()',
            f"func.func @main(%x: {tensor(shape)}{argument}) {{",
            *draw(kind(shape)),
            "return",
            "}",
        ]
    )


def refusal(read: object) -> str | None:
    assert callable(read)
    try:
        read()
    except ShardError as error:
        return error.message
    return None


def ours(text: str) -> str | None:
    with make_context():
        return refusal(Source.of(text).parse)


@settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
@given(modules())
def test_we_refuse_what_shardy_refuses_and_nothing_else(text: str) -> None:
    theirs = refusal(lambda: to_generic(text, "in.mlir", 0))
    assert (theirs is None) == (ours(text) is None), f"Shardy: {theirs}\nours: {ours(text)}\n{text}"
