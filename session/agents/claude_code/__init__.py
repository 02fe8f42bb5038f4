"""Claude Code's session files, as version 2.1.197 writes and reads them.

`records` says what one record is.  `table` knows the lines of a file, `branch` the live branch
among them, `tree` the turns of all branches, `transcript` keeps that up to date with the file.
`cut` resolves boundaries and chooses lines, `splice` copies lines with byte-exact edits,
`derive` makes a fork's index from its source's, `fork` and `rewind` put these together.
`turns` and `history` show turns, `store` finds files, `agent` is the adapter.
Facts come from running the real program; docs/claude-code.md lists them.
"""
