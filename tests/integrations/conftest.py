"""Tests that need a framework run where it is: in its environment, which says so."""

import os
from pathlib import Path

HERE = Path(__file__).parent

collect_ignore = [
    folder.parent.name
    for folder in HERE.glob("*/requirements.txt")
    if folder.parent.name != os.environ.get("GREENROOM_INTEGRATION")
]
