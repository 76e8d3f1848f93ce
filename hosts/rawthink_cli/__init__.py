"""The `rawthink` command: a memory at the shell, for people and for scripts.

`main` starts it; `group` finds commands and turns errors into exit codes; `app` holds the global options and
opens the memory; `paper` and `telling` write for people. Each other module is one command.
"""
