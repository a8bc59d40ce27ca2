"""Pages whose snippets want an extra are left out where it is missing."""

from collections.abc import Iterator

import pytest

from shard_dialect.ops.op_table import RECORDS
from tests.extras import missing

collect_ignore = ["torch.md"] if missing(["torch"]) else []


@pytest.fixture(autouse=True)
def _samples_of_the_page_end_with_it() -> Iterator[None]:
    """Other tests of the process draw all samples: one made in a page's snippet is not theirs."""
    before = dict(RECORDS)
    yield
    RECORDS.clear()
    RECORDS.update(before)
