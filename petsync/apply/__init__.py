"""A plan carried out, change by change, with a journal; knows a Target, not HTTP."""
