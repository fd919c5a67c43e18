"""Apply plans change by change, with a journal. A `Target` sends the requests: this package does
not use HTTP itself.
"""
