"""What one vocabulary says, said in another and read back: import after export changes nothing."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shard_dialect.errors import ShardError
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.model import Annotation, Axis, Grid, Sharding, SubAxis
from shard_dialect.passes.framework.pipeline import run_pipeline
from tests.extras import needs

pytestmark = pytest.mark.usefixtures("unoptimized")

SIZES = (1, 2, 3, 4, 8)


@dataclass(frozen=True)
class Words:
    """What a vocabulary can say."""

    partial: bool = False
    sub_axes: bool = False
    openness: bool = False
    shards: bool = False
    names: bool = False
    devices: bool = False
    soft_constraints: bool = False
    reshard: bool = False
    others: bool = False
    unknown_sizes: bool = False
    kinds: tuple[str, ...] = ("sum",)


VOCABULARIES = {
    "shard": Words(shards=True, names=True, reshard=True, unknown_sizes=True),
    "mesh": Words(
        partial=True,
        soft_constraints=True,
        unknown_sizes=True,
        kinds=("sum", "max", "min", "product"),
    ),
    "sdy": Words(
        partial=True,
        sub_axes=True,
        openness=True,
        names=True,
        devices=True,
        reshard=True,
        others=True,
    ),
}
OWN = Words(*[True] * 10, kinds=("sum", "max", "min", "product"))


@st.composite
def grids(draw: st.DrawFn, words: Words, name: str) -> Grid:
    shape: list[int | None] = draw(st.lists(st.sampled_from(SIZES), min_size=1, max_size=3))
    if words.unknown_sizes and draw(st.booleans()):
        shape[draw(st.integers(0, len(shape) - 1))] = None
    names: tuple[str, ...] = ()
    if words.names and draw(st.booleans()):
        names = tuple(f"{letter}.axis" for letter in "zyx"[: len(shape)])
    grid = Grid(name, tuple(shape), names)
    if words.devices and grid.is_static and grid.size > 1 and draw(st.booleans()):
        return Grid(name, tuple(shape), names, tuple(reversed(range(grid.size))))
    return grid


@st.composite
def axes_of(draw: st.DrawFn, words: Words, grid: Grid) -> list[Axis]:
    """Each axis once, whole or cut in two, in a random order."""
    found: list[Axis] = []
    for axis, size in enumerate(grid.shape):
        if words.sub_axes and size in (4, 8) and draw(st.booleans()):
            halves: list[Axis] = [SubAxis(axis, 1, 2), SubAxis(axis, 2, size // 2)]
            found += draw(st.sampled_from([halves, halves[:1], halves[1:]]))
        else:
            found.append(axis)
    return list(draw(st.permutations(found)))


@st.composite
def annotations(draw: st.DrawFn, words: Words, grid: Grid, rank: int) -> Annotation:
    split: list[list[Axis]] = [[] for _ in range(rank)]
    partial: list[Axis] = []
    replicated: list[Axis] = []
    places = [*split, []]
    if words.partial:
        places.append(partial)
    if words.openness:
        places.append(replicated)
    for axis in draw(axes_of(words, grid)):
        draw(st.sampled_from(places)).append(axis)
    halos: list[tuple[int | None, ...]] = []
    if words.shards and draw(st.booleans()):
        halos = [tuple(draw(st.integers(0, 1)) for _ in range(2)) if axes else () for axes in split]
    opened = [dim for dim in range(rank) if words.openness and draw(st.booleans())]
    priorities = [
        draw(st.one_of(st.none(), st.integers(0, 3)))
        if words.openness and (split[dim] or dim in opened)
        else None
        for dim in range(rank)
    ]
    try:
        said = Annotation(
            Sharding(
                grid.name,
                tuple(map(tuple, split)),
                tuple(partial),
                draw(st.sampled_from(words.kinds)),  # type: ignore[arg-type]
                tuple(halos),
            ),
            tuple(opened),
            tuple(priorities),
            tuple(replicated),
        )
        said.check(grid, rank)
        said.sharding.check_offsets((48,) * rank)
    except ShardError:  # neighbours that are one axis
        return Annotation(Sharding.replicated(grid.name, rank))
    if not upstream_takes(said.sharding, grid):
        return Annotation(Sharding.replicated(grid.name, rank))
    return said


def upstream_takes(sharding: Sharding, grid: Grid) -> bool:
    """Whether halos are no larger than the smallest of the shards of 48 elements."""
    return all(
        size is None or size <= 48 // (grid.axes_size(axes) if grid.is_static else 48)
        for axes, halo in zip(sharding.split_axes, sharding.halos, strict=False)
        for size in halo
    )


def cluster(grid: Grid) -> str:
    entries = [f'sym_name = "{grid.name}"', f"rank = {grid.rank} : i64"]
    entries.append(f"dim_sizes = {[-1 if size is None else size for size in grid.shape]}")
    if grid.axes:
        names = ", ".join(f'"{name}"' for name in grid.axes)
        entries.append(f"axis_names = [{names}]")
    if grid.device_ids:
        entries.append(f"device_ids = {list(grid.device_ids)}")
    return f'"mesh.cluster"() {{{", ".join(entries)}}} : () -> ()'


def attribute(said: Annotation) -> str:
    return f"#mesh.shard<@{said.grid}, {said}>"


@st.composite
def programs(draw: st.DrawFn, words: Words) -> str:
    """Annotations of each kind that the vocabulary has, in a chain of ops."""
    grid = draw(grids(words, "g"))
    rank = draw(st.integers(0, 3))
    type_ = f"tensor<{'48x' * rank}f32>"
    said = annotations(words, grid, rank)

    def maybe(key: str, form: str) -> str:
        return f" {{{key} = {form.format(attribute(draw(said)))}}}" if draw(st.booleans()) else ""

    kinds = ["annotate", *["reshard"] * words.reshard, *["group", "barrier"] * words.others]
    lines, last = [], "%x"
    for number, kind in enumerate(draw(st.lists(st.sampled_from(kinds), max_size=4))):
        plain, new = f"%p{number}", f"%v{number}"
        result = maybe("mesh.shardings", "[{}]")
        lines.append(f"{plain} = math.absf {last}{result} : {type_}")
        if kind == "annotate":
            itself = not result and draw(st.booleans())
            required = not words.soft_constraints or draw(st.booleans())
            fields = f"as_result = {itself}, required = {required}".lower()
            fields += f", sharding = {attribute(draw(said))}"
        elif kind == "reshard":
            fields = f"sharding = {attribute(draw(said))}"
        elif kind == "barrier":
            direction = draw(st.sampled_from(["none", "forward", "backward"]))
            fields = f'allowed_direction = "{direction}"'
        else:
            lines.append(f'"mesh.sharding_group"({plain}) {{group_id = 7 : i64}} : ({type_}) -> ()')
            last = plain
            continue
        name = "propagation_barrier" if kind == "barrier" else kind
        call = f'{new} = "mesh.{name}"({plain}) {{{fields}}}'
        lines.append(f"{call} : ({type_}) -> {type_}")
        last = new
    boundary = maybe("mesh.sharding", "{}"), maybe("mesh.sharding", "{}")
    head = f"func.func @main(%x: {type_}{boundary[0]}) -> ({type_}{boundary[1]}) {{"
    return "\n".join([cluster(grid), head, *lines, f"return {last} : {type_}", "}"])


def through(text: str, passes: str) -> str:
    with make_context():
        module = Source.of(text).parse()
        run_pipeline(module, passes)
        return str(module)


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.data())
def test_import_after_export_is_the_identity(vocabulary: str, data: st.DataObject) -> None:
    own = through(data.draw(programs(VOCABULARIES[vocabulary])), "import")
    exported = through(own, f"export-{vocabulary}")
    assert "mesh.annotate" not in exported or vocabulary == "mesh"
    assert through(exported, "import") == own, exported


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_what_cannot_be_said_is_refused_with_its_place(
    vocabulary: str, data: st.DataObject
) -> None:
    own = through(data.draw(programs(OWN)), "import")
    try:
        exported = through(own, f"export-{vocabulary}")
    except ShardError as error:
        refused: ShardError | None = error
    else:
        refused = None
        assert through(exported, "import") == own, exported
    if refused:
        assert "cannot say" in refused.message or "cannot be expressed" in refused.message
        assert refused.location is not None


@needs("jax")
@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_shardy_parses_and_verifies_what_is_exported_to_it(data: st.DataObject) -> None:
    from shard_dialect.ir.reading.source import to_generic

    text = data.draw(programs(VOCABULARIES["sdy"]))
    own = through(text, "import")
    generic = to_generic(through(own, "export-sdy"), "exported.mlir", 0)
    assert through(generic, "import") == own
