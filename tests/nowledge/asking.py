"""A plain client of an emulator: it sends what a test says and shows what came back."""

from __future__ import annotations

import httpx2

from rawthink_nowledge_emulator import Emulator

TIMEOUT = 10.0


class Asking:
    """An emulator and a connection to it."""

    def __init__(self, generation, **more):
        self.server = Emulator(generation, **more)

    def __enter__(self):
        self.server.__enter__()
        self.http = httpx2.Client(base_url=self.server.url, timeout=TIMEOUT, trust_env=False)
        return self

    def __exit__(self, *trouble):
        self.http.close()
        self.server.__exit__(*trouble)

    def get(self, path, **params):
        return self.http.get(path, params=params)

    def post(self, path, body=None, **params):
        return self.http.post(path, json={} if body is None else body, params=params)

    def patch(self, path, **body):
        return self.http.patch(path, json=body)

    def delete(self, path, **params):
        return self.http.delete(path, params=params)

    def add(self, content="something to remember", **fields):
        """Create a memory; return its id."""
        answer = self.post("/memories", {"content": content, **fields})
        assert answer.status_code == 200, answer.text
        return answer.json()["memory"]["id"]

    def found(self, query, **more):
        """Return the ids that POST search finds."""
        answer = self.post("/memories/search", {"query": query, **more})
        return [hit["memory"] and hit["memory"]["id"] for hit in answer.json()]

    def browsed(self, **params):
        """Return the ids that GET search finds."""
        return [row["id"] for row in self.get("/memories/search", **params).json()["memories"]]

    def listed(self, **params):
        """Return the ids that the list shows."""
        return [row["id"] for row in self.get("/memories", **params).json()["memories"]]

    def space(self, space_id):
        """Add a space and return its id."""
        self.server.add_space(space_id)
        return space_id


def detail(answer):
    """Return what an error says."""
    return answer.json()["detail"]
