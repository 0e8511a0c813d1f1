"""Call the tools of an agent: Python functions and HTTP endpoints."""
