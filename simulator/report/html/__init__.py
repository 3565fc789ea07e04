"""The HTML report: one file that shows a run, without network, library or build step.

`page/` has the page's own files. They are put together with the run's data when a report is written.
"""
