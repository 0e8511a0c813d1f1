"""A Model Context Protocol server with tools, resources and a prompt, started by `memoranda mcp`.

Only `server.py` needs the extra `mcp`.
"""
