"""An emulator of the Nowledge Mem REST API for authors of clients: a real HTTP server on loopback.

Written from public documentation and observed behaviour; holds nothing of the vendor's code. What it guesses
is listed in `ASSUMED`, how versions differ in `PROFILES`, what it shows in `BEHAVIOURS`.
"""

from __future__ import annotations

from rawthink_nowledge_emulator.assumed import ASSUMED, Assumption
from rawthink_nowledge_emulator.background import JOBS
from rawthink_nowledge_emulator.behaviours import BEHAVIOURS, Behaviour
from rawthink_nowledge_emulator.emulator import Emulator
from rawthink_nowledge_emulator.failures import CODES, PAGES, WAYS, Failure
from rawthink_nowledge_emulator.profiles import GENERATIONS, PROFILES, Profile
from rawthink_nowledge_emulator.service import Seen

__all__ = [
    "ASSUMED",
    "BEHAVIOURS",
    "CODES",
    "GENERATIONS",
    "JOBS",
    "PAGES",
    "PROFILES",
    "WAYS",
    "Assumption",
    "Behaviour",
    "Emulator",
    "Failure",
    "Profile",
    "Seen",
]
