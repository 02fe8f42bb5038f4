"""Claude Code's session files, as version 2.1.197 writes and reads them.

`records` says what one record is, `transcript` indexes a file, `turns` shows turns,
`splice` copies lines with byte-exact edits, `store` finds files, `agent` is the adapter.
Facts come from running the real program; docs/claude-code.md lists them.
"""
