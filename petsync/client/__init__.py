"""The only user of httpx: session, auth, retries, pacing, and the eight operations."""
