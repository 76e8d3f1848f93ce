"""The spool of chat turns: on the disk before the store is asked, and delivered in order.

``files`` and ``index`` are the lines on the disk and what is known of them in memory, ``spool`` what a turn's
line means; ``pacing`` says when to try, ``courier`` takes one conversation to the store, ``delivery`` all of
them; ``spooled`` is what `Memory` has of it.
"""
