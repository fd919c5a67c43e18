"""Apply plans change by change, with a journal, through a Target: this package does not use HTTP
itself.
"""
