from array import array

# The members of `plain.Run`, in that order.
_Run = tuple[
    int, int, bytes, bytes, bytes, bytes, bytes, bytes, bytes, bytes, bytes,
    list[tuple[int, int, str]], int, str | None, int | None,
]  # fmt: skip

def scan(
    data: bytes | bytearray,
    start: int,
    stop: int,
    position: int,
    ids: array[int],
    parents: array[int],
    kinds: bytearray,
    prompts: array[int],
    prompt_ids: array[int],
    cwd: bytes | None,
    version: bytes | None,
    entrypoint: bytes | None,
    session: bytes | None,
    flags: int,
    /,
) -> _Run: ...
def climb(kinds: bytearray, parents: array[int], leaf: int, /) -> bytes: ...
def survey(
    kinds: bytearray, parents: array[int], chain: array[int], /
) -> tuple[bytes, int, bytes, bytes]: ...
