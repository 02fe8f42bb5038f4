/* The table of a transcript: what there is of it, and the columns that are added. */

#pragma once

#include <Python.h>

#include "values.h"

#define FAR 256 /* table.py's _FAR: a parent behind that is a branch, which Python places */

/* Kinds and flags of records.py. */
enum { OTHER, PROMPT, RESULT, NOTE, ASSISTANT, SYNTHETIC, ATTACHMENT, SYSTEM, COMPACT, PASSAGE,
       SNAPSHOT };
enum { KIND = 15, SIDECHAIN = 16, DUPLICATE = 32, GAP = 64, LOCAL = 128 };
enum { POINTER = 12 };

/* What the table knows already (plain.py). */
enum { NAMED = 1, FORKED = 2, SETTLED = 4, QUIET = 8, UNNAMED = 16 };

/* What a message's block says of a call (plain.py). */
enum { CALLED, DELEGATED, ANSWERED };

/* Columns that grow. */

typedef struct {
    char *bytes;
    size_t used, room;
} Column;

static void *grow(Column *column, size_t size) /* NULL: no memory */
{
    if (column->room - column->used < size) {
        size_t room = column->room ? column->room * 2 : 4096;
        char *bytes = PyMem_RawRealloc(column->bytes, room);
        if (bytes == NULL)
            return NULL;
        column->bytes = bytes;
        column->room = room;
    }
    column->used += size;
    return column->bytes + column->used - size;
}

#define PUSH(column, type, value)                          \
    do {                                                   \
        type *place_ = grow(column, sizeof(type));         \
        if (place_ == NULL)                                \
            return -1;                                     \
        *place_ = (value);                                 \
    } while (0)

static PyObject *bytes_of(const Column *column)
{
    return PyBytes_FromStringAndSize(column->bytes, (Py_ssize_t)column->used);
}

typedef struct {
    int32_t line;
    int32_t what;
    At begin, end;
} Call;

typedef struct {
    /* The table so far. */
    const int64_t *ids;
    const int32_t *parents;
    const unsigned char *kinds;
    int32_t lines;
    const uint32_t *prompts;
    const int64_t *prompt_ids;
    size_t turns;
    /* What the last records said. */
    Py_buffer cwd, version, entrypoint, session;
    int flags;
    /* What is found. */
    Column offsets, new_ids, new_parents, new_kinds, new_prompts, owners;
    Column new_prompt_ids, tree_ids, tree_lines, calls;
    int32_t added;
    int32_t last_main;
    At stamp;   /* the newest time of one who speaks, 24 characters */
    int pointed;
    uint64_t pointer;
    /* How the last line ended: members that say the same in most lines, from the comma before
       them to behind the newline, and which they are. */
    At tail, tail_end;
    int tail_has;
} Scan;

static int64_t id_at(const Scan *s, int32_t line)
{
    return line < s->lines ? s->ids[line] : ((int64_t *)s->new_ids.bytes)[line - s->lines];
}

static int32_t parent_at(const Scan *s, int32_t line)
{
    return line < s->lines ? s->parents[line] : ((int32_t *)s->new_parents.bytes)[line - s->lines];
}

static unsigned char kind_at(const Scan *s, int32_t line)
{
    return line < s->lines ? s->kinds[line]
                           : ((unsigned char *)s->new_kinds.bytes)[line - s->lines];
}

static int in_tree(unsigned char kind)
{
    kind &= KIND;
    return kind >= PROMPT && kind <= PASSAGE;
}

/* The line of a record near the end, -1 when it is not there. */
static int32_t find(const Scan *s, int64_t id)
{
    int32_t line = s->lines + s->added, last = line > FAR ? line - FAR : 0;
    while (--line >= last) {
        unsigned char kind = kind_at(s, line);
        if (id_at(s, line) == id && in_tree(kind))
            return kind & DUPLICATE ? -1 : line;
    }
    return -1;
}

/* The prompt of the turn that a line belongs to, as LineTable.owner; `gap` tells of a parent on
   the way that is missing. */
static int32_t owner(const Scan *s, int32_t line, int *gap)
{
    int32_t most = s->lines + s->added;
    *gap = 0;
    for (int32_t steps = 0; steps < most && line >= 0 && line < most; steps++) {
        if ((kind_at(s, line) & KIND) == PROMPT)
            return line;
        *gap |= kind_at(s, line) & GAP;
        line = parent_at(s, line);
    }
    return -1;
}

/* The promptId of a turn, 0 for none. */
static int64_t prompt_id_of(const Scan *s, int32_t prompt)
{
    const uint32_t *prompts = s->prompts;
    const int64_t *ids = s->prompt_ids;
    size_t first = 0, last = s->turns;
    if (prompt < 0)
        return 0;
    if (prompt >= s->lines) {
        prompts = (uint32_t *)s->new_prompts.bytes;
        ids = (int64_t *)s->new_prompt_ids.bytes;
        last = s->new_prompts.used / sizeof(uint32_t);
    }
    while (first < last) {
        size_t middle = first + (last - first) / 2;
        if (prompts[middle] == (uint32_t)prompt)
            return ids[middle];
        if (prompts[middle] < (uint32_t)prompt)
            first = middle + 1;
        else
            last = middle;
    }
    return 0;
}
