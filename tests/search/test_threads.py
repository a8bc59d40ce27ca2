"""Searches on several threads at once: each by itself, and the process's warnings stay."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import shard_dialect as sd

TEXT = """
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""


def search(number: int) -> str:
    grid = (2,) if number % 2 else (4,)
    return sd.to_text(sd.auto(sd.parse(TEXT), grid=grid).module)


def test_the_filters_of_the_process_stay() -> None:
    alone = [search(number) for number in range(2)]
    before = list(warnings.filters)  # scipy has added its own by now
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(search, range(6)))
    assert found == alone * 3
    assert warnings.filters == before
