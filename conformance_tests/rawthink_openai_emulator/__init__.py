"""An emulator of OpenAI's API: a real HTTP server on loopback, whose model says what it is told to say.

For tests, benches and examples of programs that talk to such an API. Chat completions and responses, whole
and streamed, follow the published wire format (https://platform.openai.com/docs/api-reference, and the types
of the `openai` package); what the real server refuses is refused. It is no language model.

    with Emulator() as emulator:
        client = OpenAI(base_url=emulator.url, api_key="any")
        client.chat.completions.create(model="echo", messages=[{"role": "user", "content": "hi"}])
        assert emulator.requests[-1].json["model"] == "echo"

`models`       what the model says, by its name or by a function
`refusals`     what the real server refuses
`completions`  chat completions and their chunks
`responses`    responses, their events, and what the server keeps of a conversation
`failures`     how a server may go wrong, for one request
`sending`      bytes on their way to the client
`app`          the routes
`emulator`     the server in a thread
"""

from rawthink_openai_emulator.emulator import Emulator
from rawthink_openai_emulator.models import Answer, Call, Question

__all__ = ["Answer", "Call", "Emulator", "Question"]
