"""The MCP server: the memory as tools, over stdio. `rawthink mcp` starts it; `tools` is their table."""
