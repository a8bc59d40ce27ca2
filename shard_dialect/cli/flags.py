"""The command line of `opt`: its options, and the flags of passes."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn, cast

from shard_dialect import __version__, plugins
from shard_dialect.cli.printing import STDIN, STDOUT, write_output
from shard_dialect.errors import ShardError, check_one_of, did_you_mean
from shard_dialect.processes.startup import DEBUG, show_tracebacks

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

_BRIEF = "brief"
_SPACE = "\x1f"
_BINDINGS = "MLIR's Python bindings have no way to ask for it"
_REFUSED = {
    **dict.fromkeys(
        (
            "crash-diagnostics-dir elide-resource-data-from-bytecode emit-bytecode-producer "
            "emit-bytecode-version log-actions-to log-mlir-actions-filter mlir-debug-counter "
            "mlir-diagnostic-verbosity-level mlir-disable-diagnostic-notes "
            "mlir-enable-debugger-hook mlir-generate-reproducer mlir-output-format "
            "mlir-pass-pipeline-local-reproducer mlir-print-debug-counter "
            "mlir-print-elementsattrs-with-hex-if-larger mlir-print-op-on-diagnostic "
            "mlir-print-stacktrace-on-diagnostic mlir-print-unique-ssa-ids "
            "mlir-print-value-users mlir-very-unsafe-disable-verifier-on-parsing "
            "no-implicit-module pass-remarks pass-remarks-analysis pass-remarks-missed "
            "profile-actions-to remark-format remark-policy remarks-filter "
            "remarks-filter-analyse remarks-filter-failed remarks-filter-missed "
            "remarks-filter-passed remarks-output-file remarks-section"
        ).split(),
        _BINDINGS,
    ),
    **dict.fromkeys(
        ("irdl-file", "load-dialect-plugin", "load-pass-plugin"),
        "--load-plugin loads dialects and passes, from Python",
    ),
}
"""Flags of `mlir-opt` that are not there, and why."""


_EMITTED = ("emit_python", "emit_object", "emit_stablehlo", "emit_bytecode")
"""What may be written instead of a module's text, one at a time."""
_NEEDS = {
    "entry": "auto list_mutations mutate prove prove_each report emit_object".split(),
}
"""The options that an option is for."""


def parse_arguments(arguments: Sequence[str], description: str) -> tuple[argparse.Namespace, str]:
    """Return the options, and the pipeline that `--pass-pipeline` or the passes' flags give."""
    parser = _parser(description)
    named = [_uniform(each) for each in arguments]
    options, unknown = parser.parse_known_args([_joined(each, parser) for each in named])
    rest = [each.replace(_SPACE, " ") for each in unknown]
    text = options.pass_pipeline
    if options.run_reproducer and (rest or text is not None):
        given = "--pass-pipeline" if text is not None else rest[0]
        raise ShardError(f"--run-reproducer is given together with {given}: use one of them")
    if text is not None and rest:
        raise ShardError(f"--pass-pipeline is given together with {rest[0]}: use one of them")
    if options.list_mutations and (options.prove is not None or options.prove_each):
        given = "--prove" if options.prove is not None else "--prove-each"
        raise ShardError(f"--list-mutations, which runs no passes, is given together with {given}")
    written = [each for each in _EMITTED if getattr(options, each) not in (None, False)]
    if len(written) > 1 and written != ["emit_stablehlo", "emit_bytecode"]:
        first, second = (f"--{each.replace('_', '-')}" for each in written[:2])
        raise ShardError(f"{first} is given together with {second}: use one of them")
    check_needed(options, _NEEDS)
    if others := [each for each in rest if not each.startswith("-")]:
        bare = [each for each in named if parser.may_lack_value(each)]
        hint = f"; a value of {bare[-1]} stands behind '='" if bare else ""
        raise ShardError(f"unexpected argument '{others[0]}': one input file is read{hint}")
    elements = [_element(flag) for flag in rest]
    options.pass_flags = [element.partition("{")[0] for element in elements]
    return options, text if text is not None else ",".join(elements)


def _uniform(argument: str) -> str:
    """Normalize an argument for argparse: `mlir-opt` accepts one dash for two.

    >>> _uniform("-cse"), _uniform("-o"), _uniform("--verify-diagnostics")
    ('--cse', '-o', '--verify-diagnostics')
    """
    return f"-{argument}" if re.match(r"-[A-Za-z][^=]", argument) else argument


def _joined(argument: str, parser: argparse.ArgumentParser) -> str:
    """A pass's flag without spaces: argparse takes an argument with spaces for an input file."""
    is_option = argument.partition("=")[0] in parser._option_string_actions
    return argument if is_option or argument[:2] != "--" else argument.replace(" ", _SPACE)


def _element(flag: str) -> str:
    """Convert a flag such as `--materialize=strict=true` to a pipeline's element."""
    name, _, options = flag.lstrip("-").partition("=")
    if not re.fullmatch(r"[\w.-]+", name):
        raise ShardError(f"unknown flag '{flag}'")
    if name in _REFUSED:
        raise ShardError(f"--{name} of mlir-opt is not supported: {_REFUSED[name]}")
    return f"{name}{{{options}}}" if options else name


def unknown_flag(name: str, passes: Iterable[str]) -> ShardError:
    """The error for a flag that is neither an option of `opt` nor a pass; `passes` has names."""
    known = [*(each.lstrip("-") for each in _parser("")._option_string_actions), *passes]
    hint = did_you_mean(name, known, ": no pass or option is called so", "--")
    return ShardError(f"unknown flag '--{name}'{hint}")


def complete(parser: Callable[[], Parser], *, with_passes: bool = False) -> None:
    """Tell a shell that asks how its line may go on, and end; else do nothing."""
    if "_ARGCOMPLETE" in os.environ:
        from shard_dialect.cli.completion import answer

        answer(parser(), with_passes=with_passes)


def complete_opt(description: str) -> None:
    """The same for `opt`, whose flags are also the passes."""
    complete(lambda: _parser(description), with_passes=True)


class Parser(argparse.ArgumentParser):
    """A parser of a program, whose errors are printed like all others.

    The program's docstring is a title and what its help begins with.
    """

    lists_options = "--help"
    given: Sequence[str] = ()
    """What is parsed."""
    valued: set[str]
    """The options whose values were found."""
    is_completing = False
    """Whether a shell asks: its last argument may be an option whose value is not there yet."""

    def __init__(self, program: str, docstring: str | None, *, add_help: bool = True) -> None:
        super().__init__(
            prog=program,
            description=(docstring or "").partition("\n")[2],
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            add_help=add_help,
        )

    def error(self, message: str) -> NoReturn:
        """Raise a `ShardError`, with the nearest flag to the first that there is not."""
        known = self._option_string_actions
        if message.startswith(("unrecognized arguments", "the following arguments are required")):
            flags = (each.partition("=")[0] for each in self.given if each.startswith("--"))
            unknown = next((each for each in flags if each not in known and each != "--"), None)
            if unknown:
                message = f"unknown flag '{unknown}'{did_you_mean(unknown, known)}"
        raise ShardError(f"{message} ({self.lists_options} lists all options)")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As `argparse`, but a value that may be left out stands behind `=`.

        So `--prove FILE` proves what FILE, the input, becomes: `argparse` would take the next
        argument for the value.
        """
        actions = self._option_string_actions
        self.valued = set()
        self.given = [
            f"{each}={actions[each].const}" if self.may_lack_value(each) else each
            for each in (sys.argv[1:] if args is None else args)
        ]
        return super().parse_known_args(self.given, namespace)

    def may_lack_value(self, argument: str) -> bool:
        """Whether this is an option, without a value, that takes one behind `=`."""
        action = self._option_string_actions.get(argument)
        lacks_one = action is not None and action.nargs != 0 and action.const is not None
        return lacks_one and not self.is_completing

    def format_help(self) -> str:
        """As `argparse`, but with the `=` of values that may be left out."""
        return _behind_equals(super().format_help())

    def _match_argument(self, action: argparse.Action, arg_strings_pattern: str) -> int:
        """As `argparse`, with what may follow."""
        try:
            return super()._match_argument(action, arg_strings_pattern)
        except argparse.ArgumentError:
            value = (
                "|".join(map(str, action.choices or [])) or action.metavar or action.dest.upper()
            )
            flag = action.option_strings[-1]
            example = f"{flag}{'=' if flag.startswith('--') else ' '}{value}"
            raise argparse.ArgumentError(action, f"expected a value: {example}") from None

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """As `argparse`, whose error would name our function, and repeat a long text whole."""
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as error:
            short = arg_string if len(arg_string) < 80 else f"{arg_string[:60]}..."
            name = getattr(action.type, "__name__", "")
            message = error.message.replace(repr(arg_string), repr(short)).replace(
                f"invalid {name} value: {short!r}", f"{short!r} is no value of it"
            )
            raise argparse.ArgumentError(action, message.replace(arg_string, short)) from None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """As `argparse`, with the choice that may be meant."""
        if action.choices is not None:
            try:
                check_one_of("the value", value, [str(each) for each in action.choices])
            except ShardError as error:
                raise argparse.ArgumentError(action, error.message) from None

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """As `argparse`, which would make an empty list of `--option=--`.

        Of an option that is given twice it would take the last value.
        """
        if action.option_strings and arg_strings == ["--"]:
            raise argparse.ArgumentError(action, "'--' is no value")
        if isinstance(action, argparse._StoreAction) and action.option_strings:
            if action.dest in self.valued and not self.is_completing:
                raise argparse.ArgumentError(action, "is given twice")
            self.valued.add(action.dest)
        return super()._get_values(action, arg_strings)

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        if file is sys.stdout:
            write_output(message)  # argparse would ignore an error
        else:
            super()._print_message(message, file)


def check_needed(options: argparse.Namespace, needs: Mapping[str, Sequence[str]]) -> None:
    """Raise for an option that was given without any of those that it is for."""
    for flag, others in needs.items():
        given = [at for at in others if getattr(options, at) not in (None, False, [])]
        if getattr(options, flag) is not None and not given:
            *named, last = [f"--{each.replace('_', '-')}" for each in (flag, *others)]
            for_ = " or ".join(filter(None, (", ".join(named[1:]), last)))
            raise ShardError(f"{named[0]} is of no use here: it is for {for_}")


def _behind_equals(text: str) -> str:
    """Help with `--prove[=FILE]` for `--prove [FILE]`."""
    return re.sub(r"(--[\w-]+) \[([^\]\s]+)\]", r"\1[=\2]", text)


def _plugins_among(arguments: Sequence[str]) -> list[str]:
    """The values of `--load-plugin`, wherever they stand."""
    joined = [each.partition("=")[2] for each in arguments if each.startswith("--load-plugin=")]
    return joined + [b for a, b in pairwise(arguments) if a == "--load-plugin"]


class _Help(argparse.Action):
    """`--help` of what is named, or else of `const`; of passes it imports all, and plugins.

    An option is named without its dashes, as a pass is.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        what = values or self.const
        if what == _BRIEF:
            write_output(_FIRST_HELP)
        elif what == "options":
            parser.print_help()
        elif option := parser._option_string_actions.get(f"--{what}"):
            formatter = parser._get_formatter()
            formatter.add_argument(option)
            write_output(_behind_equals(formatter.format_help()))
        else:
            from shard_dialect.cli.passes_help import pass_help, passes_help

            plugins.load(_plugins_among(cast("Parser", parser).given))
            write_output(f"{passes_help() if what == 'passes' else pass_help(str(what))}\n")
        parser.exit()


_FIRST_HELP = """\
usage: shard-opt [FILE.mlir] [--PASS[=OPTION=VALUE] ...] [OPTION ...]

Passes of ours and of upstream's run in the order given; these come first:
  --spmd                       all of the way to the program that a device runs
  --propagate                  give every tensor a sharding
  --materialize                make every collective explicit
  --optimize-collectives       make collectives cheaper
  --partition                  global shapes become local ones
  --lower                      collectives become calls, and tensors buffers
  --export-shard --export-sdy  write upstream's vocabulary, or Shardy's

Options, of many:
  -o FILE                      write to a file
  --emit-python=mpi4py|torch   write the local form as a Python program
  --emit-object -o FILE.o      compile it, with a C header
  --emit-stablehlo             write it as plain StableHLO, for other compilers
  --pass-pipeline=TEXT         a pipeline: 'builtin.module(propagate,cse)'
  --stop-after=PASS            run up to this pass, also inside --spmd
  --auto                       find shardings of what is not annotated
  --remarks                    report conflicts during --propagate
  --explain-sharding=%3        trace the sharding of a value to an annotation
  --mlir-print-ir-after-all    print the module after each pass

--help=options: all options; --help=passes: all passes; --help=PASS: its options
"""
"""What people need first, in one screen of 24 lines and 80 columns."""


def _parser(description: str) -> Parser:
    parser = Parser("shard-opt", description, add_help=False)
    option = partial(add_option, parser)
    parser.add_argument("input", nargs="?", default=STDIN, help="a .mlir file; '-': standard input")
    option("-o FILE", "the output; '-': standard output", dest="output", default=STDOUT)
    _add_input_and_output(parser.add_argument_group("input and output"))
    _add_pipeline(parser.add_argument_group("passes"))
    _add_checks(parser.add_argument_group("checks"))
    _add_instruments(parser.add_argument_group("what a running pipeline prints, on stderr"))
    _add_information(parser.add_argument_group("information"))
    parser.lists_options = "--help=options"
    return parser


_Group = argparse._ArgumentGroup


def add_option(
    parser: argparse._ActionsContainer, spelled: str, help_: str, **settings: Any
) -> None:
    """Add an option as its help spells it: `--entry NAME` takes a value, `--json` is a flag.

    A flag that is given more of `argparse`'s settings than `dest` may take a value, too.
    """
    name, _, value = spelled.partition(" ")
    if value:
        settings["metavar"] = value
    elif settings.keys() <= {"dest"}:
        settings["action"] = "store_true"
    parser.add_argument(name, help=help_, **settings)


def add_debug(parser: argparse._ActionsContainer) -> None:
    """Add `--debug` to a program's parser."""
    text = "show the traceback of an internal error"
    parser.add_argument(DEBUG, action=_Debug, nargs=0, help=text)


class _Debug(argparse.Action):
    """`--debug`: applies at once, since the parser itself may fail on later arguments."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        show_tracebacks()


def _add_input_and_output(group: _Group) -> None:
    option = partial(add_option, group)
    option(
        "--split-input-file MARKER",
        "take each part between lines that begin with MARKER ('// -----') as a module",
        nargs="?",
        const="// -----",
    )
    option(
        "--output-split-marker MARKER",
        "the line between modules in the output ('// -----')",
        default="// -----",
    )
    option("--allow-unregistered-dialect", "read ops of unknown dialects")
    option("--emit-bytecode", "write MLIR bytecode")
    option(
        "--emit-python",
        "write the local form as a Python program, over mpi4py or torch.distributed",
        choices=("mpi4py", "torch"),
    )
    option("--emit-object", "compile it to an object with a C header, for MPI: -o FILE.o")
    option("--emit-stablehlo", "write the local form as plain StableHLO, for other compilers")
    option("--mesh-pretty", "print the local form's ops of 'mesh' in the RFC's spelling, too")
    option("--mlir-print-op-generic", "print ops in the generic form")
    option("--mlir-print-debuginfo", "print locations")
    option("--mlir-pretty-debuginfo", "print locations to read, which no parser reads back")
    option("--mlir-print-assume-verified", "do not verify the module before it is printed")
    option("--mlir-print-skip-regions", "print ops without their regions")
    option("--mlir-use-nameloc-as-prefix", "name values by the names in their locations")
    option("--mlir-print-local-scope", "print attributes in place, without aliases")
    option(
        "--mlir-elide-elementsattrs-if-larger N",
        "print '...' for constants of more than N elements",
        type=_count,
    )
    option(
        "--mlir-elide-resource-strings-if-larger N",
        "leave out resources of more than N characters",
        type=_count,
    )


def _add_pipeline(group: _Group) -> None:
    option = partial(add_option, group)
    option("--pass-pipeline TEXT", "a pipeline, as in 'builtin.module(propagate,cse)'")
    plugins.add_argument(group)
    option("--stop-after PASS", "run the pipeline up to this pass, also inside --spmd")
    option("--skip PASS,...", "leave these passes out", action="extend", type=_names, default=[])
    option(
        "--insert-after PASS=PIPELINE",
        "after a pass also run these, as in 'partition=canonicalize,cse'",
        action="append",
        default=[],
    )
    option("--dump-pass-pipeline", "print the pipeline with all options on stderr")
    option("--run-reproducer", "run the pipeline that the file ends with")
    option("--mlir-disable-threading", "changes nothing: passes never run in threads here")


def _add_checks(group: _Group) -> None:
    option = partial(add_option, group)
    option(
        "--verify-diagnostics",
        "the diagnostics must be those of comments 'expected-error {{text}}'; "
        "only-expected: others may be there too",
        nargs="?",
        const="all",
        choices=("all", "only-expected"),
    )
    option(
        "--verify-roundtrip",
        "print and parse input and output, as text and bytecode, and compare",
    )
    option(
        "--prove FILE",
        "prove that each device computes the input, or the program in FILE, for all "
        "inputs: what is refuted is an error (docs/proof.md)",
        nargs="?",
        const="",
    )
    option(
        "--prove-each",
        "prove after each pass that the module computes the input: an error names the "
        "first pass after which it does not",
    )
    option("--strict", "make an op without a sharding rule an error, in --materialize")
    option("--verify-each 0|1", "verify after each pass", type=_on_or_off, default=True)


def _add_instruments(group: _Group) -> None:
    option = partial(add_option, group)
    for when in ("before", "after"):
        group.add_argument(
            f"--mlir-print-ir-{when}",
            dest=f"print_ir_{when}",
            action="extend",
            type=_names,
            default=[],
            metavar="PASS,...",
            help=f"print the module {when} these passes; may be repeated",
        )
    for when in ("before-all", "after-all", "after-change", "after-failure"):
        text = f"print the module {when.replace('-', ' ').replace('all', 'each pass')}"
        option(f"--mlir-print-ir-{when}", text, dest=f"print_ir_{when.replace('-', '_')}")
    option(
        "--mlir-print-ir-module-scope",
        "print all of the module also for passes on functions",
        dest="print_ir_module_scope",
    )
    option(
        "--mlir-print-ir-tree-dir DIR",
        "print to files in this folder",
        dest="print_ir_tree_dir",
    )
    option("--mlir-timing", "print the time of each pass", dest="timing")
    option("--mlir-timing-display", "how --mlir-timing prints: as a tree", choices=("tree",))
    option("--mlir-pass-statistics", "print the statistics of passes", dest="statistics")
    option(
        "--mlir-pass-statistics-display",
        "how --mlir-pass-statistics prints",
        dest="statistics_display",
        choices=("list", "pipeline"),
        default="pipeline",
    )
    option(
        "--mlir-pass-pipeline-crash-reproducer FILE",
        "if the pipeline fails, write the module and the pipeline there",
        dest="crash_reproducer",
    )
    option("--remarks", "report conflicts during --propagate, and which side won")
    option(
        "--auto OPTIONS",
        "first find shardings for what is not annotated: grid=2x4 (or devices=8) "
        "objective=time|bytes|memory memory-limit=16GiB device-model=h100 seconds=60 (or "
        "plans=500) pipelines=yes, with commas between; Ctrl-C takes the best so far",
        nargs="?",
        const="",
    )
    option(
        "--list-mutations",
        "print, as JSON, each change of one annotation and what it adds to bytes, memory and time",
    )
    option(
        "--mutate WHAT",
        "first change an annotation: a number of --list-mutations, or w1=[[], [model]]",
        action="append",
        default=[],
    )
    option(
        "--entry NAME",
        "the function of --auto, --list-mutations, --mutate, --prove and --report (default: main)",
    )
    option("--report", "report what the resulting program costs: see shard-report")
    option(
        "--explain-sharding VALUE",
        "trace a value's sharding to an annotation: its name in the file, or as printed "
        "(%%3, or @f:%%3 in @f), or the line that makes it",
    )


def _add_information(group: _Group) -> None:
    option = partial(add_option, group)
    option("-h", "show the options that are needed most", action=_Help, nargs=0, const=_BRIEF)
    option(
        "--help options|passes|PASS",
        "show all options, all passes, or the options of a pass",
        action=_Help,
        const=_BRIEF,
    )
    option(
        "--list-passes",
        "show all passes and their options",
        action=_Help,
        nargs=0,
        const="passes",
    )
    add_debug(group)
    option("--show-dialects", "print the names of the dialects that can be read")
    group.add_argument("--version", action="version", version=f"shard-opt {__version__}")


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _on_or_off(text: str) -> bool:
    if text not in ("0", "1", "true", "false"):
        raise argparse.ArgumentTypeError(f"'{text}' is neither 0 nor 1")
    return text in ("1", "true")


def seconds_above_0(text: str) -> float:
    """A number of seconds, for `argparse`."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0")
    return seconds


_MOST = 2**63 - 1
"""The largest count that MLIR takes."""


def seed(text: str) -> int:
    """A number from 0 on."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0 on")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > len(str(_MOST)) or int(text) > _MOST:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0 on, below 2^63")
    return int(text)
