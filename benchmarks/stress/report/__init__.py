"""The report of a run: one HTML file that needs nothing else, and its figures as JSON beside it."""

from greenroom.stress.report._report import write_report

__all__ = ["write_report"]
