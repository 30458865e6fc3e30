"""The command line: `greenroom`, or `python -m greenroom`.

This much of it runs on a base install, which has neither Typer nor Rich, and then says what to install.
The commands are in `greenroom._cli` and its neighbours.
"""

import sys
from importlib.util import find_spec

__all__ = ["main"]

NEEDED = ("typer", "rich")
"""What the extra `cli` brings."""

INTERRUPTED = 130
"""What a shell shows for a command that Ctrl-C ended: 128 and the number of the signal."""


def main() -> int:
    """Run the command line on the arguments of this process; return what to exit with."""
    missing = [package for package in NEEDED if find_spec(package) is None]
    if missing:
        sys.stderr.write(
            f"greenroom: the command line needs {' and '.join(missing)}: pip install 'greenroom[cli]'\n"
        )
        return 2
    try:
        from greenroom._cli import run

        return run(sys.argv[1:])
    except KeyboardInterrupt:
        # Typer sees to the one that comes while a command runs. This one came before or after that.
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
