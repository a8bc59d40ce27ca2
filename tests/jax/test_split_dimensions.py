"""Programs whose best plan takes more than one op to see: what they move, and their numbers."""

import pytest

import shard_dialect as sd
from benchmarks.split_dimensions import PROGRAMS, text_of
from shard_dialect.testing.check_program import run_and_check

# An exchange of a third of what a gather of queries, keys or values of 8 heads moves.
EXCHANGE = 2 * 64 * 8 * 16 * 4 // 4 * 3 // 4
ROW = 64 * 4
BYTES = {
    "merged_rows_product": 128 * 64 * 4 * 3 // 4,
    "merged_columns_product": 21_504,
    "merged_rows_softmax": 0,
    "merged_columns_softmax": 2 * 2 * 64 * 4 * 3 // 4,
    "attention": 4 * EXCHANGE,
    "causal_attention": 4 * EXCHANGE,
    "grouped_attention": 3 * EXCHANGE,  # keys and values have half of the heads
    "attention_gradients": 6 * EXCHANGE,
    # A row to each neighbour in each step.
    "stencil_kept_edges": 2 * 2 * ROW,
    "stencil_joined_edges": 2 * 2 * ROW,
    "stencil_repeated_edges": 2 * 2 * ROW,
    "stencil_around": 2 * 2 * ROW,
    "differences": 2 * ROW,
}


def test_each_program_has_its_bytes() -> None:
    assert BYTES.keys() == PROGRAMS.keys()


@pytest.mark.whole  # each has a number of its own
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_a_program_moves(name: str) -> None:
    module = sd.parse(text_of(name))
    sd.run_pipeline(module, "inline,spmd")
    assert sd.communication(module).bytes_moved == BYTES[name]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_computes_the_same(name: str) -> None:
    verdict = run_and_check(text_of(name), "inline,spmd,lower").verdict
    assert verdict.passed, verdict.failure
