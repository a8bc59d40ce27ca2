"""What bytecode does with the values of names."""

from typing import Any

import pytest

from shard_dialect.torch.name_uses import ADDS, ASKS_KEYS, OTHER, Use, only_adds, uses_in

USES = {
    "found.append(x)": {Use(ADDS)},
    "found.append((x, f(x, y=2), [x for x in y]))": {Use(ADDS)},
    "found += [x, y]": {Use(ADDS)},
    "self.found += [x]": {Use(ADDS)},
    "found[x].append(y)": {Use(ADDS, 1)},
    "found[f(x)][x + 1].extend(y)": {Use(ADDS, 2)},
    "found.setdefault(f(x), []).append(y)": {Use(ADDS, 1)},
    "found[x] = y": {Use(ASKS_KEYS)},
    "found[x][y] = y": {Use(ASKS_KEYS, 1)},
    "if x not in found: found[x] = []": {Use(ASKS_KEYS)},
    "x in found[y]": {Use(ASKS_KEYS, 1)},
    "f(lambda: found.append(x))": {Use(ADDS)},
    "found.append(found)": {Use(ADDS), Use(OTHER)},
    "found[found].append(x)": {Use(ADDS, 1), Use(OTHER)},
    "y[x] = found": {Use(OTHER)},
    "x.append(found)": {Use(OTHER)},
    "found in x": {Use(OTHER)},
    "x += found": {Use(OTHER)},
    "x[found]": {Use(OTHER)},
    "f(found[x])": {Use(OTHER)},
    "f(found.append)": {Use(OTHER)},
    "found[x] += [y]": {Use(OTHER)},
    "(found if x else y).append(x)": {Use(OTHER)},
    "f(x, [found])": {Use(OTHER)},
    "f(found.setdefault(x, []))": {Use(OTHER)},
    "found.setdefault(x, []) + y": {Use(OTHER)},
    "del found[x]": {Use(OTHER)},
    "found[x:]": {Use(OTHER)},
    "found.clear()": {Use(OTHER)},
    "found == x": {Use(OTHER)},
    "x, *y = found": {Use(OTHER)},
    "for x in found: pass": {Use(OTHER)},
    "if found: pass": {Use(OTHER)},
    "import found": {Use(OTHER)},
    "f'{found}'": {Use(OTHER)},
}


@pytest.mark.parametrize("text", USES)
def test_each_use_of_a_name(text: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def g(self, x, y, f):\n  global found\n  {text}", scope)
    uses = uses_in(scope["g"].__code__)["found"]
    assert {each if each.way != OTHER else Use(OTHER) for each in uses} == USES[text]


def test_a_list_that_is_in_dicts_is_only_added_to_there() -> None:
    assert only_adds([Use(ADDS, 1), Use(ASKS_KEYS)], 1)
    assert not only_adds([Use(ADDS, 1)], 0)
    assert not only_adds([Use(ADDS, 1), Use(ASKS_KEYS, 1)], 1)
    assert not only_adds([Use(ADDS), Use(OTHER)], 0)
