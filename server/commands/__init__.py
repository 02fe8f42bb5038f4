"""The commands of `turntree`: what is typed becomes one call of the engine, its result text.

`run` runs one and turns failures into exit codes, `group` finds it, `look`, `lineage`,
`change` and `process` hold them.  `options` is what they share, `names` finds out which
session or turn is meant, `invocation` reaches the engine and prints.
"""
