"""Coverage-guided fuzzing of what reads bytes that others wrote.

`make fuzz` runs each target for a while; what it finds lies in `cases/` afterwards, where
`test_cases` replays it for good.
"""
