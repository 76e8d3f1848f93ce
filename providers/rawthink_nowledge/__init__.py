"""Nowledge Mem as a backend, over its REST API."""
