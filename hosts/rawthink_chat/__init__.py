"""A memory beside any chat API that speaks OpenAI's formats: pure functions, with no I/O and no client.

`shapes` reads requests and replies, `injecting` puts the block in, `capturing` makes a turn of a finished
answer, `scrubbing` takes a repeated block out of streamed text, `sse`, `following` and `streaming` do so for
whole streams.
"""
