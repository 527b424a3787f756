"""python3 -m msda_replay import CASE.npz -o CASE.h5"""

import argparse
import sys

from .capture import DIALECTS, CaptureError
from .importer import import_case


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python3 -m msda_replay", description="Capture files of msda-replay in Python.")
    commands = parser.add_subparsers(dest="command", required=True)
    importer = commands.add_parser(
        "import", help="make a capture of a NumPy .npz archive", description=import_case.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    importer.add_argument("archive", metavar="CASE.npz")
    importer.add_argument("-o", "--output", required=True, metavar="CASE.h5")
    importer.add_argument("--dialect", choices=DIALECTS, help="conventions of the kernel under test")
    importer.add_argument("--reference-dialect", choices=DIALECTS, help="conventions of the reference")
    importer.add_argument("--force", action="store_true", help="replace the output file if it exists")
    chosen = parser.parse_args(arguments)
    try:
        unused = import_case(chosen.archive, chosen.output, chosen.dialect, chosen.reference_dialect, chosen.force)
    except CaptureError as error:
        print(f"msda_replay: {error}", file=sys.stderr)
        return 2
    if unused:
        print(f"msda_replay: {chosen.archive}: not used: {', '.join(unused)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
