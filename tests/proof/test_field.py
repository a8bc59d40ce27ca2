"""Arithmetic in the field is that of integers modulo its prime."""

import numpy as np
import pytest

from shard_dialect.proof.field import PRIME_GAPS, Field

FIELDS = [Field(gap, 0) for gap in PRIME_GAPS]


def drawn(field: Field, *shape: int) -> "np.ndarray":
    """Random elements, of which the first is the largest."""
    numbers = field.random(np.random.default_rng(7), shape)
    numbers.reshape(-1)[:1] = field.prime - 1
    return numbers


@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_remainders_are_of_all_numbers(field: Field) -> None:
    ends = [n for k in (0, 1, 31, 32, 62, 63, 64) for n in (2**k - 1, 2**k) if n < 2**64]
    ends += [field.prime * k + n for k in (1, 2, 2**32) for n in (-1, 0, 1)]
    numbers = np.array(ends, np.uint64)
    assert field.reduced(numbers).tolist() == [n % field.prime for n in ends]
    assert field.reduced(numbers[3]).shape == ()


@pytest.mark.parametrize("size", [0, 1, 63, 65, 130, 1001, 4097])
@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_quotients_are_those_of_integers(field: Field, size: int) -> None:
    below = drawn(field, size)
    below[size // 2 : size // 2 + 2] = 0
    by_zero = int(field.div(np.array(5, np.uint64), np.zeros((), np.uint64)))
    expected = [
        5 * pow(each, -1, field.prime) % field.prime if each else by_zero for each in below.tolist()
    ]
    assert field.div(np.array(5, np.uint64), below).tolist() == expected
    repeated = np.broadcast_to(below[:, None], (size, 3))
    assert field.div(np.array(5, np.uint64), repeated)[:, 2].tolist() == expected


@pytest.mark.parametrize("terms", [0, 1, 2, 3, 64, 65, 127, 128, 2048, 2049, 5000])
@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_products_of_matrices_are_exact(field: Field, terms: int) -> None:
    a, b = drawn(field, 2, 3, terms), drawn(field, terms, 2)
    a[0], b[:, 0] = field.prime - 1, field.prime - 1
    expected = np.matmul(a.astype(object), b.astype(object)) % field.prime
    assert field.matmul(a, b).tolist() == (expected.tolist() if terms else [[[0] * 2] * 3] * 2)
