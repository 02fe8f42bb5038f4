"""Repairs: a fork of the live branch whose lines are changed where it is damaged.

`plan` says what would be done and builds it: `strays` and `plain_text` make a usable copy of the
file where it needs one, `ailments` looks at the kept records, `regrowing` decides who follows
whom (`lost_results`, `preserving`), `mending` changes lines (`blocks`, `stripping`), and
`words` tells of it.
"""
