"""Signing in to `petstore_auth`: where, how, what came of it, and its renewal."""
