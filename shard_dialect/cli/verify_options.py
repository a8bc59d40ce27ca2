"""`--verify-diagnostics` and `--verify-roundtrip`, as in MLIR.

`--verify-diagnostics` compares a run's diagnostics with comments that expect them:

    %0 = shard.shard %x to %s : tensor<5xf32>  // expected-error {{does not divide by 2}}
    // expected-warning-re@+1 {{op '{{.*}}' has no sharding rule}}
    // expected-note@below {{defined here}}       the next line without an expectation
    // expected-remark@above {{}}                 the previous one
    // expected-error@unknown {{no place}}        without a location in a file

A comment refers to its own line, or to a line by an offset. Its text is a substring of the message;
in the `-re` form, text in inner double braces is a regular expression. At least one diagnostic of
the line must match each expectation, and each diagnostic must be expected.

`--verify-roundtrip` checks that printed IR is parsed as the same IR.
"""

from __future__ import annotations

import difflib
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from shard_dialect.cli.printing import warnings_to
from shard_dialect.errors import Diagnostic, Severity, ShardError, note
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.reading.source import Source

_COMMENT = re.compile(
    r"expected-(?P<severity>error|note|remark|warning)(?P<regex>-re)? *"
    r"(?:@(?P<at>[+-]\d+|above|below|unknown))? *\{\{(?P<text>.*)\}\}$"
)
_CURRENT_OP = "see current operation"
"""The beginning of notes with the op's text, which are ignored here, as in `mlir-opt`."""

Result = TypeVar("Result")


@dataclass(slots=True)
class _Expectation:
    severity: Severity
    text: str
    pattern: re.Pattern[str]
    line: int | None
    """The line in the file; `None` expects a diagnostic without a location."""
    location: str
    """The location of the comment."""
    is_met: bool = field(default=False)

    def error(self, message: str) -> Diagnostic:
        return Diagnostic("error", message, self.location)


def verify_diagnostics(source: Source, which: str, run: Callable[[], Result]) -> Result | None:
    """Return the result of `run`, or `None` if it raises a `ShardError`; compare diagnostics.

    Raises a `ShardError` for every mismatch. `which` is `all`, or `only-expected`, which allows
    further diagnostics.
    """
    expectations = _read(source)
    produced: list[Diagnostic] = []
    result = None
    with warnings_to(lambda warning: produced.append(warning.diagnostic)):
        try:
            result = run()
        except ShardError as error:
            produced += error.diagnostics
    problems = [*_match(source, expectations, produced, which == "all"), *_unmet(expectations)]
    if problems:
        first, *further = problems
        raise ShardError(first.message, first.location, (), further)
    return result


def _read(source: Source) -> list[_Expectation]:
    if isinstance(source.text, bytes):
        return []
    expectations: list[_Expectation] = []
    awaiting_next: list[_Expectation] = []
    last_other = source.lines_before + 1
    lines = (source.file_text or "").split("\n")
    for number, line in enumerate(lines, source.lines_before + 1):
        match = _COMMENT.search(line.rstrip())
        if match is None:
            for each in awaiting_next:
                each.line = number
            awaiting_next.clear()
            last_other = number
            continue
        location = f"{source.name}:{number}:{match.start() + 1}"
        at = match["at"] or "+0"
        target = {"unknown": None, "above": last_other, "below": number}
        expectation = _Expectation(
            cast("Severity", match["severity"]),
            match["text"],
            _pattern(match["text"], bool(match["regex"]), location),
            target[at] if at in target else number + int(at),
            location,
        )
        expectations.append(expectation)
        if at == "below":
            awaiting_next.append(expectation)
    return expectations


def _pattern(text: str, has_regex: bool, location: str) -> re.Pattern[str]:
    if not has_regex:
        return re.compile(re.escape(text))
    shards: list[str] = []
    rest = text
    while "{{" in rest:
        literal, _, rest = rest.partition("{{")
        inside, end, rest = rest.partition("}}")
        if not end:
            raise ShardError("found start of regex with no end '}}'", location)
        shards += [re.escape(literal), f"(?:{inside})"]
    try:
        return re.compile("".join(shards) + re.escape(rest))
    except re.error as error:
        raise ShardError(f"invalid regex: {error.msg}", location) from None


def _match(
    source: Source,
    expectations: Sequence[_Expectation],
    produced: Sequence[Diagnostic],
    reports_others: bool,
) -> Iterator[Diagnostic]:
    """Mark the expectations that are met; yield errors for unexpected diagnostics."""
    for diagnostic in _flattened(produced):
        line = _line_of(source, diagnostic)
        similar = [
            each
            for each in expectations
            if line == each.line and each.pattern.search(diagnostic.message)
        ]
        exact = next((each for each in similar if each.severity == diagnostic.severity), None)
        if exact:
            exact.is_met = True
        elif reports_others and similar:
            yield similar[-1].error(
                f"'{diagnostic.severity}' diagnostic emitted when expecting a "
                f"'{similar[-1].severity}'"
            )
        elif reports_others:
            message = f"unexpected {diagnostic.severity}: {diagnostic.message}"
            yield Diagnostic("error", message, diagnostic.location)


def _flattened(diagnostics: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    for each in diagnostics:
        if not (each.severity == "note" and each.message.startswith(_CURRENT_OP)):
            yield each
            yield from _flattened(each.notes)


def _line_of(source: Source, diagnostic: Diagnostic) -> int | None:
    """Its line in the file, -1 in another file, `None` without a location."""
    if diagnostic.location is None:
        return None
    file, line, _ = diagnostic.location.rsplit(":", 2)
    return int(line) if file == source.name else -1


def _unmet(expectations: Sequence[_Expectation]) -> Iterator[Diagnostic]:
    for each in expectations:
        if not each.is_met:
            yield each.error(f'expected {each.severity} "{each.text}" was not produced')


_SHOWN = 12
"""The most lines of a difference that are shown."""


def verify_roundtrip(module: ir.Module) -> None:
    """Print `module` in each form and parse it again, in its context.

    Raises a `ShardError` that names the form, if it is refused or gives other IR.
    """
    for form, source, has_locations in _printed(module):
        try:
            again = source.parse()
        except ShardError as error:
            raise ShardError(
                f"the module's {form} is not read back: {error.message}", error.location
            ) from None
        expected, actual = _text(module, True, has_locations), _text(again, True, has_locations)
        if actual != expected:
            raise ShardError(
                f"the module's {form} is read back as other IR",
                notes=[note(f"the difference:\n{_difference(expected, actual)}")],
            )


def _printed(module: ir.Module) -> Iterator[tuple[str, Source, bool]]:
    """Each form, and whether it has all locations: text lacks those of implicit regions."""
    yield "custom form", Source.of(_text(module, False, True), "<custom form>"), False
    yield "generic form", Source.of(_text(module, True, True), "<generic form>"), True
    file = io.BytesIO()
    module.operation.write_bytecode(file)
    yield "bytecode", Source("<bytecode>", file.getvalue()), True


def _text(module: ir.Module, is_generic: bool, has_locations: bool) -> str:
    return module.operation.get_asm(
        print_generic_op_form=is_generic, enable_debug_info=has_locations
    )


def _difference(expected: str, actual: str) -> str:
    lines = difflib.unified_diff(
        expected.splitlines(), actual.splitlines(), "before", "after", lineterm="", n=0
    )
    return "\n".join(list(lines)[:_SHOWN])
