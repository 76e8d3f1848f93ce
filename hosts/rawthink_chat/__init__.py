"""A memory beside any chat API that speaks OpenAI's formats: for clients in Python, and as a proxy.

Pure functions, with no I/O and no client: `shapes` reads requests and replies, `injecting` puts the block in,
`capturing` makes a turn of a finished answer, `scrubbing` takes a repeated block out of streamed text,
`jsontext` and `sse` keep every other byte, `following` and `streaming` do so for whole streams, `requests`
and `answers` for what goes over the wire.

`calls` is what a caller says of one call, `exchange` one request and its answer with the memory beside them,
`transports` puts that before an HTTP client, `clients` before an `openai` client, `proxy` before any program.
"""
