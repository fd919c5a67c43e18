"""Apply plans, change by change, with a journal; uses a Target, not HTTP."""
