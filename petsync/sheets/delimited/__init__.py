"""CSV in and out, record by record and byte by byte."""
