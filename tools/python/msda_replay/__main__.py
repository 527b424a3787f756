"""python3 -m msda_replay import CASE.npz -o CASE.h5; python3 -m msda_replay COMMAND ... is msda-replay COMMAND ..."""

import argparse
import os
import sys

from .capture import CaptureError
from .command import CommandError, find_command
from .importer import import_case
from .operator_rows import DIALECTS, ROWS, values_of

_WITH_INTERPOLATION = [row.name for row in ROWS.values() if "interpolation" in row.conventions]
_MOST_NAMES = 10  # of unused members that are named


def _print(text):
    """Prints one line. Names come from files, so control characters are shown as escapes."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
    print(f"msda_replay: {line}", file=sys.stderr)


def _keys_by_operator():
    """Returns a line for each operator."""
    lines = []
    for row in ROWS.values():
        optional = [f"{name} if wanted" for name in row.named("optional")]
        lines.append(f"{row.name}: {', '.join((*row.named('input'), *optional))}; gradients {', '.join(row.named('gradient'))}; "
                     f"scalars {', '.join(row.conventions)}")
    return "\n".join(lines)


def _become_msda_replay(arguments):
    """Returns only if it cannot be started, the exit status."""
    try:
        os.execv(find_command(), ["msda-replay", *arguments])
    except (CommandError, OSError) as error:
        _print(str(error))
        return 2


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python3 -m msda_replay", description="Capture files of msda-replay in Python.")
    commands = parser.add_subparsers(dest="command", required=True)
    importer = commands.add_parser(
        "import", help="make a capture of a NumPy .npz archive", description=import_case.__doc__, epilog=_keys_by_operator(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    importer.add_argument("archive", metavar="CASE.npz")
    importer.add_argument("-o", "--output", required=True, metavar="CASE.h5")
    importer.add_argument("--dialect", choices=DIALECTS, help="conventions of the kernel under test")
    importer.add_argument("--padding-mode", choices=values_of("padding_mode"), help="what lies beyond the image's border")
    importer.add_argument("--align-corners", choices=("true", "false"), help="whether coordinates span the centres of the corner pixels")
    importer.add_argument("--interpolation", choices=values_of("interpolation"), help=f"of {', '.join(_WITH_INTERPOLATION)}")
    importer.add_argument("--reference-dialect", choices=DIALECTS, help="conventions of the reference")
    importer.add_argument("--force", action="store_true", help="replace the output file if it exists")
    chosen = parser.parse_args(arguments)
    try:
        unused, note = import_case(
            chosen.archive, chosen.output, chosen.dialect, chosen.reference_dialect, chosen.force, chosen.padding_mode,
            None if chosen.align_corners is None else chosen.align_corners == "true", chosen.interpolation,
        )
    except CaptureError as error:
        _print(str(error))
        return 2
    if note:
        _print(f"{chosen.archive}: {note}")
    if unused:
        more = f" and {len(unused) - _MOST_NAMES} more" if len(unused) > _MOST_NAMES else ""
        _print(f"{chosen.archive}: not used: {', '.join(unused[:_MOST_NAMES])}{more}")
    return 0


if __name__ == "__main__":
    is_own = sys.argv[1:2] in ([], ["import"]) or sys.argv[1].startswith("-")
    sys.exit(main() if is_own else _become_msda_replay(sys.argv[1:]))
