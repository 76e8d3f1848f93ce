"""A chat bot with a long-term memory, in a terminal."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from openai import AsyncOpenAI, OpenAIError

from rawthink_chat.clients import with_memory
from rawthink_core.memory import open_memory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from openai.types.chat import ChatCompletionMessageParam

    from rawthink_core.memory import Memory

CONFIG = Path(__file__).with_name("rawthink.toml")
HELP = "/forget erases this conversation from the memory, /quit ends."


class Bot:
    """One conversation with a model."""

    def __init__(
        self, client: AsyncOpenAI, memory: Memory, model: str, session: str, name: str | None
    ) -> None:
        self.recalled = ""
        self._memory, self._model, self._session = memory, model, session
        self._client = with_memory(client, memory, session=session, speaker=name, on_recall=self._told)
        self._messages: list[ChatCompletionMessageParam] = []

    def _told(self, recalled: object) -> None:
        self.recalled = str(recalled)

    async def say(self, text: str) -> AsyncIterator[str]:
        """Send a message, and yield the answer as it comes."""
        self._messages.append({"role": "user", "content": text})
        said = ""
        try:
            stream = await self._client.chat.completions.create(
                model=self._model, messages=self._messages, stream=True
            )
            async for chunk in stream:
                piece = chunk.choices[0].delta.content if chunk.choices else None
                said += piece or ""
                yield piece or ""
        finally:
            if said:
                self._messages.append({"role": "assistant", "content": said})
            else:  # the message was not answered: it is not part of the conversation
                self._messages.pop()

    async def forget(self) -> str:
        """Erase this conversation from the memory for good, and say what became of it."""
        await self._memory.flush()
        receipt = await self._memory.forget(sessions=[self._session])
        self._messages.clear()
        return "; ".join(f"{place.place}: {place.outcome}" for place in receipt.places) or "nothing was kept"


async def talk(bot: Bot, read: Callable[[], str], write: Callable[[str], None]) -> None:
    """Read messages and write answers, until there are no more."""
    while True:
        try:
            text = (await asyncio.to_thread(read)).strip()
        except EOFError:
            return
        if text == "/quit":
            return
        if text == "/forget":
            write(await bot.forget() + "\n")
        elif text:
            try:
                async for piece in bot.say(text):
                    write(piece)
                write(f"\n  ({bot.recalled})\n")
            except OpenAIError as error:
                write(f"\n  (no answer: {error})\n")


async def main(arguments: list[str] | None = None) -> None:
    """Run the bot. OPENAI_BASE_URL and OPENAI_API_KEY say which model server to ask."""
    parser = argparse.ArgumentParser(description=__doc__, epilog=HELP)
    parser.add_argument("--model", default=os.environ.get("OPENAI_MODEL", "gpt-5-mini"))
    parser.add_argument("--session", default="terminal", help="the conversation; others remember it")
    parser.add_argument("--name", help="who you are, where several people share the memory")
    chosen = parser.parse_args(arguments)
    config = None if "RAWTHINK_CONFIG" in os.environ else CONFIG
    async with open_memory(config=config) as memory, AsyncOpenAI() as client:
        bot = Bot(client, memory, chosen.model, chosen.session, chosen.name)
        await talk(bot, lambda: input("> "), lambda text: print(text, end="", flush=True))


if __name__ == "__main__":
    asyncio.run(main())
