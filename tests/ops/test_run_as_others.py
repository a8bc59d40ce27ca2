"""What is run of StableHLO is what its interpreter, or XLA, makes of the same text and numbers.

The unsharded program alone: that the sharded one equals it is tested elsewhere.
"""

import numpy as np
import pytest

from shard_dialect.abi.tensor_types import Array
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.walk import body, operations
from shard_dialect.runtime.executable import Alone
from shard_dialect.testing import compile_unsharded
from tests.extras import needs
from tests.ops.interpreted import Call, draw, run
from tests.ops.stablehlo_ops import COMPILED, INTERPRETED, Case, Family, drawn

pytestmark = pytest.mark.usefixtures("unoptimized")


def call_of(case: Case) -> Call:
    with make_context():
        module = Source.of(str(case)).parse()  # which owns what is in it
        function = operations(module.body)[0]
        arguments = list(body(function).arguments)
        return str(case), [draw(case.name, n, each.type) for n, each in enumerate(arguments)]


def check(family: Family, runner: str, tolerance: float) -> None:
    calls = [call_of(case) for case in drawn(family).values()]
    theirs = run(runner, calls)
    for (text, inputs), expected in zip(calls, theirs, strict=True):
        found: list[Array] = compile_unsharded(text).run(inputs, Alone())
        for ours, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(
                ours, other, rtol=tolerance, atol=tolerance, err_msg=f"{text}\n{inputs}"
            )


@pytest.mark.parametrize("family", INTERPRETED.values(), ids=INTERPRETED)
def test_ops_are_what_the_interpreter_makes_of_them(family: Family) -> None:
    check(family, "interpreter", 1e-5)


@needs("jax")
@pytest.mark.parametrize("family", COMPILED.values(), ids=COMPILED)
def test_ops_are_what_xla_makes_of_them(family: Family) -> None:
    check(family, "xla", 1e-4)
