"""Results of the engine as text for people.

`words` turns single values into words, `layout` holds the few shapes that output is made
of, the modules named after results build those shapes, and `plain` and `terminal` print
them.  Nothing here knows click or the engine; only `terminal` imports rich.
"""
