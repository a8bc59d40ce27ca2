"""What a shell may complete on the command lines of the programs, by `argcomplete`.

    eval "$(register-python-argcomplete shard-opt shard-run shard-report shard-prove)"

For each completion the shell starts the program, with `_ARGCOMPLETE` and its line in the
environment: flags, values of choices, passes with their options and values, and files are the
candidates. No other start of a program imports this module.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from shard_dialect import plugins
from shard_dialect.errors import MissingExtra, ShardError, say

Candidates = Callable[..., Iterable[str]]
"""Given `prefix`, what is written of a value, the values that it may become."""


def answer(parser: argparse.ArgumentParser, *, with_passes: bool) -> None:
    """Write how the shell's line may go on, and end the process."""
    try:
        from argcomplete.completers import DirectoriesCompleter, FilesCompleter
        from argcomplete.finders import CompletionFinder
    except ImportError:
        say(MissingExtra("argcomplete", "completion"))
        os._exit(1)

    if with_passes:
        _add_passes(parser)
    files, folders = FilesCompleter(), DirectoriesCompleter()
    of_metavar: dict[str, Candidates] = {
        "BACKEND": _backends,
        "DIR": folders,
        "FOLDER": folders,
        "GLOBAL": files,
        "LOCAL": files,
        "PASS": _list_of_passes,
        "PASS,...": _list_of_passes,
        "PASS=PIPELINE": _pipeline,
        "TEXT": _pipeline,
        "JUDGE": lambda **_: ("xla", "upstream", "self"),
        "options|passes|PASS": _help_topics,
    }
    for action in parser._actions:
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        if "FILE" in metavar or action.dest == "input":
            vars(action)["completer"] = files
        elif action.dest == "device_model":
            vars(action)["completer"] = lambda **line: [*_device_models(), *files(line["prefix"])]
        elif not action.choices:
            vars(action).setdefault("completer", of_metavar.get(metavar, _nothing))
    vars(parser)["is_completing"] = True  # of `flags.Parser`
    CompletionFinder()(parser, always_complete_options=False)


def _nothing(**_: object) -> Iterable[str]:
    """Nobody knows the numbers and names that a user has in mind."""
    return ()


def _device_models() -> Iterable[str]:
    from shard_dialect.model.devices.device_model import device_model_names

    return device_model_names()


def _backends(**_: object) -> Iterable[str]:
    from shard_dialect.runtime.communicators.registered_devices import backend_names

    with suppress(ShardError):
        plugins.load()
    return backend_names()


def _add_passes(parser: argparse.ArgumentParser) -> None:
    """Make each pass a flag; the one whose options are being written has these as its value."""
    line = os.environ.get("COMP_LINE", "")[: int(os.environ.get("COMP_POINT", "0"))]
    written, is_assigned, _ = (line.split() or [""])[-1].partition("=")
    for name in _flags():
        flag = f"--{name}"
        if flag in parser._option_string_actions:
            continue
        if is_assigned and flag == written:
            vars(parser.add_argument(flag))["completer"] = _Options(name)
        else:
            parser.add_argument(flag, action="store_true")


def _pass_names() -> list[str]:
    from shard_dialect.passes.framework.pass_table import pass_names
    from shard_dialect.passes.pipelines import PIPELINES

    with suppress(ShardError):  # which the program tells of when it runs
        plugins.load()
    return [*PIPELINES, *pass_names()]


def _flags() -> list[str]:
    from shard_dialect.cli.passes_help import upstream_passes

    return [*_pass_names(), *(name for name, _ in upstream_passes())]


def _list_of_passes(*, prefix: str, **_: object) -> Iterable[str]:
    return _continued(prefix, ",", _pass_names())


def _pipeline(*, prefix: str, **_: object) -> Iterable[str]:
    return _continued(prefix, ",(=", _flags())


def _help_topics(*, prefix: str, **_: object) -> Iterable[str]:
    return "options", "passes", *_flags()


def _continued(prefix: str, separators: str, names: Sequence[str]) -> Iterable[str]:
    """All of `prefix` up to its last separator, with each of `names` behind it.

    >>> _continued("cse,prop", ",(", ["propagate"])
    ['cse,propagate']
    """
    end = max(prefix.rfind(each) for each in separators) + 1
    return [prefix[:end] + name for name in names]


class _Options:
    """The options of a pass, and their values: `strict=true,objective=time`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *, prefix: str, **_: object) -> Iterable[str]:
        from shard_dialect.passes.framework.options import options_of
        from shard_dialect.passes.framework.pass_table import pass_class
        from shard_dialect.passes.pipelines import PIPELINES

        if self._name not in _pass_names():
            return ()  # upstream's options are not listed anywhere
        options = options_of(PIPELINES.get(self._name) or pass_class(self._name))
        name, is_assigned, _value = prefix.rpartition(",")[2].partition("=")
        if not is_assigned:
            return _continued(prefix, ",", [f"{each.name}=" for each in options])
        of_name = next((each for each in options if each.name == name), None)
        if of_name is None:
            return ()
        values = ("true", "false") if of_name.kind is bool else of_name.choices
        return _continued(prefix, "=", values)
