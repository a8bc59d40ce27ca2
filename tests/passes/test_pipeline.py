"""Pipelines and options of passes, as text and back."""

from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.framework.options import (
    Element,
    Group,
    Node,
    documented_options,
    options_of,
    parse_pipeline,
    read_options,
)
from shard_dialect.passes.framework.pass_table import register_pass
from shard_dialect.passes.framework.pipeline import described, make_pass, run_pipeline
from shard_dialect.passes.pipelines import Materialize

pytestmark = pytest.mark.usefixtures("unoptimized")

NAMES = st.from_regex(r"[a-z][a-z0-9.-]{0,8}", fullmatch=True)
ELEMENTS: st.SearchStrategy[Node] = st.builds(Element, NAMES, st.sampled_from(["", "a=1 b={x,y}"]))
NODES = st.recursive(
    ELEMENTS,
    lambda inner: st.builds(Group, NAMES, st.lists(inner, min_size=1, max_size=3).map(tuple)),
    max_leaves=6,
)


@given(st.lists(NODES, max_size=4).map(tuple))
def test_a_pipeline_is_read_back(nodes: tuple[Node, ...]) -> None:
    assert parse_pipeline(",".join(map(str, nodes))) == nodes


@given(st.text("ab(){},= \n", max_size=20))
def test_any_text_is_a_pipeline_or_an_error(text: str) -> None:
    try:
        nodes = parse_pipeline(text)
    except ShardError:
        return
    assert parse_pipeline(",".join(map(str, nodes))) == nodes


@dataclass(frozen=True)
class Sample(Pass):
    """Every kind of option."""

    name = "test-sample"

    is_on: bool = False
    """Two
    lines."""
    most: int | None = None
    share: float = 0.5
    order: Literal["up", "down"] = "up"
    """Which way."""
    file_name: str = ""

    def rewrite(self, module: ir.Operation) -> None: ...


def test_every_kind_of_option_is_read_and_written() -> None:
    options = options_of(Sample)
    text = "is-on most=3,share=0.25 order=down file-name='a, b'"
    sample = Sample(**read_options(text, options, "test-sample"))
    assert sample == Sample(True, 3, 0.25, "down", "a, b")
    inside = str(sample).removeprefix("test-sample{").removesuffix("}")
    assert Sample(**read_options(inside, options, "test-sample")) == sample
    assert str(Sample()).startswith("test-sample{is-on=false share=0.5 order=up file-name=")


def test_the_help_of_an_option_is_the_string_below_it() -> None:
    helps = {option.name: option.help for option in documented_options(Sample)}
    assert helps["is-on"] == "Two\nlines."
    assert (helps["order"], helps["most"]) == ("Which way.", "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("most=many", "option 'most' of pass 'p' must be a whole number, found 'many'"),
        ("share=x", "option 'share' of pass 'p' must be a number, found 'x'"),
        ("order=left", "must be one of up, down, found 'left'"),
        ("is-on=yes", "must be true or false, found 'yes'"),
        ("most", "option 'most' of pass 'p' needs a value: most=int"),
        ("most=1 most=2", "option 'most' of pass 'p' is given twice"),
        ("file-name=0,1", "a list is one value in brackets, as in file-name={0,1}"),
        ("nope=1", "has no option 'nope': its options are is-on, most, share, order, file-name"),
        ("=1", "cannot read the options of pass 'p' at '=1'"),
    ],
)
def test_a_wrong_option_is_refused(text: str, message: str) -> None:
    with pytest.raises(ShardError) as caught:
        read_options(text, options_of(Sample), "p")
    assert message in caught.value.message


def test_fields_that_are_no_options_are_refused_when_registered() -> None:
    @dataclass(frozen=True)
    class Lists(Sample):
        name = "test-lists"
        sizes: tuple[int, ...] = ()

    with pytest.raises(ShardError, match="option sizes cannot be a tuple"):
        register_pass(Lists)


def test_a_pass_is_given_as_itself_or_as_text() -> None:
    with make_context():
        strict = make_pass("insert-collectives", "strict")
        text = "propagate,insert-collectives{strict=true}"
        assert described(["propagate", strict]) == described(text)
        assert described(["propagate", Materialize(strict=True)]) == described(
            "propagate,materialize{strict=true}"
        )


def test_a_described_pipeline_is_read_as_itself() -> None:
    with make_context():
        for text in ("", "spmd,lower", "func.func(cse,canonicalize),any(cse)", "inline"):
            once = described(text)
            assert described(once) == once


def test_passes_in_groups_run_on_inner_modules_only() -> None:
    function = "func.func @f() attributes {propagated} { return }"
    with make_context():
        module = Source.of(f"module @inner {{ {function} }}\n{function}\n").parse()
        run_pipeline(module, "builtin.module(builtin.module(erase-sharding))")
        inner, outer = module.body.operations
        assert "propagated" not in str(inner)
        assert "propagated" in str(outer)
