"""Write the pinned text of tests/lit/walkthroughs anew from what the passes print now.

    python tests/update_walkthroughs.py && git diff tests/lit/walkthroughs

The diff is the change of behaviour: read it before committing it.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
FORMS = {
    "ANNOTATED": [],
    "PROPAGATED": ["--propagate"],
    "DISTRIBUTED": ["--propagate", "--materialize"],
    "OPTIMIZED": ["--propagate", "--materialize", "--optimize-collectives"],
    "LOCAL": ["--spmd"],
    "LOWERED": ["--spmd", "--lower"],
}
HEAD = """\
// Each form of examples/{name}.mlir.
// The check lines are written by tests/update_walkthroughs.py.
//
"""
STEP = """\
// RUN: shard-opt %examples/{name}.mlir {flags}| filecheck %s --check-prefix={prefix}
"""


def main() -> None:
    for example in ("mlp_1d", "mlp_1d_mesh", "mlp_2d", "mlp_2d_mesh"):
        path = ROOT / "tests" / "lit" / "walkthroughs" / f"{example}.mlir"
        path.write_text(test(example))


def test(example: str) -> str:
    parts = [HEAD.format(name=example)]
    for prefix, flags in FORMS.items():
        parts.append(
            STEP.format(
                name=example,
                flags="".join(f"{flag} " for flag in flags),
                prefix=prefix,
            )
        )
    for prefix, flags in FORMS.items():
        parts.append("\n" + "\n".join(checks(prefix, opt(example, flags))) + "\n")
    return "".join(parts)


def opt(example: str, flags: list[str]) -> str:
    command = [sys.executable, "-m", "shard_dialect.opt", f"examples/{example}.mlir", *flags]
    done = subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=120
    )
    return done.stdout


def checks(prefix: str, text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.strip()]
    return [
        f"// {prefix}{'-NEXT' if number else ''}{{LITERAL}}: {line}"
        for number, line in enumerate(lines)
    ]


if __name__ == "__main__":
    main()
