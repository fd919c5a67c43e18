"""The HTTP client: sessions, authentication, retries, limits on requests, and the eight operations.
No other package imports httpx.
"""
