"""What stands between the command line and a run.

    options, file ──► what is asked ──► a target and its turns ──► played ──► board, lines, summary
     (_options,          (_asked,            (_driving, _find)      (_play)    (_live, _board,
      _file, _values)     _rules)                                               _summary)

Each is imported when it is needed: `greenroom stress --help` should not take a second.
"""

__all__ = []
