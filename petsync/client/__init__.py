"""The HTTP client of a store: session, auth, retries, pacing, and the eight operations. No other
package uses httpx.
"""
