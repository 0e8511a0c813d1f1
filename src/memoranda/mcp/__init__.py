"""The MCP door: whose memory it is in, a server for any MCP client out, with tools, resources and a prompt.

`memoranda mcp` is how it is started. Only `serving.py` needs the extra `mcp`.
"""
