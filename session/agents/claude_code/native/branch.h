/* The branch that a table's columns describe, as branch.py builds it from nothing. */

#pragma once

#include "table.h"

typedef struct {
    Py_buffer kinds, parents, chain;
} Table;

static int is_one_table(const Table *t)
{
    if (t->parents.len == t->kinds.len * 4 && t->kinds.len < INT32_MAX)
        return 1;
    PyErr_SetString(PyExc_ValueError, "columns must be equally long");
    return 0;
}

static void let_go(Table *t)
{
    PyBuffer_Release(&t->kinds);
    PyBuffer_Release(&t->parents);
    PyBuffer_Release(&t->chain);
}

PyDoc_STRVAR(climb_doc,
"climb(kinds, parents, leaf)\n--\n\n"
"The lines from the root to `leaf` as 4-byte numbers.");

static PyObject *climb(PyObject *module, PyObject *args)
{
    (void)module;
    Table t = {{0}, {0}, {0}};
    int leaf;
    PyObject *path = NULL;
    if (!PyArg_ParseTuple(args, "y*y*i:climb", &t.kinds, &t.parents, &leaf))
        return NULL;
    const int32_t *parents = t.parents.buf;
    int32_t lines = (int32_t)t.kinds.len, length = 0, line;
    unsigned char *seen = NULL;
    if (!is_one_table(&t))
        goto end;
    if ((seen = PyMem_Calloc((size_t)lines + 1, 1)) == NULL) {
        PyErr_NoMemory();
        goto end;
    }
    for (line = leaf; line >= 0 && line < lines && !seen[line]; line = parents[line]) {
        seen[line] = 1;
        length++;
    }
    if ((path = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)length * 4)) == NULL)
        goto end;
    for (line = leaf; length > 0; line = parents[line]) {
        length--;
        memcpy(PyBytes_AS_STRING(path) + (size_t)length * 4, &line, 4);
    }
end:
    PyMem_Free(seen);
    let_go(&t);
    return path;
}

PyDoc_STRVAR(survey_doc,
"survey(kinds, parents, chain)\n--\n\n"
"Of a chain of lines: the positions at which turns start, that of the last compaction (-1: none),\n"
"and results that hang on its calls but are not in it, calls and results.");

static PyObject *survey(PyObject *module, PyObject *args)
{
    (void)module;
    Table t = {{0}, {0}, {0}};
    Column starts = {0}, calls = {0}, results = {0};
    unsigned char *live = NULL;
    PyObject *found = NULL;
    if (!PyArg_ParseTuple(args, "y*y*y*:survey", &t.kinds, &t.parents, &t.chain))
        return NULL;
    const unsigned char *kinds = t.kinds.buf;
    const int32_t *parents = t.parents.buf;
    const uint32_t *chain = t.chain.buf;
    uint32_t lines = (uint32_t)t.kinds.len, length = (uint32_t)(t.chain.len / 4);
    int32_t compacted = -1;
    if (!is_one_table(&t))
        goto end;
    if ((live = PyMem_Calloc((size_t)lines + 1, 1)) == NULL)
        goto no_memory;
    for (uint32_t at = 0; at < length; at++) {
        if (chain[at] >= lines)
            continue;
        live[chain[at]] = 1;
        if ((kinds[chain[at]] & KIND) == COMPACT)
            compacted = (int32_t)at;
        if ((kinds[chain[at]] & KIND) == PROMPT) {
            uint32_t *start = grow(&starts, sizeof(uint32_t));
            if (start == NULL)
                goto no_memory;
            *start = at;
        }
    }
    for (uint32_t line = 0; line < lines; line++) {
        int32_t call = parents[line];
        if (kinds[line] != RESULT || live[line] || call < 0 || (uint32_t)call >= lines ||
            (kinds[call] & KIND) != ASSISTANT || !live[call])
            continue;
        uint32_t *one = grow(&calls, sizeof(uint32_t)), *other = grow(&results, sizeof(uint32_t));
        if (one == NULL || other == NULL)
            goto no_memory;
        *one = (uint32_t)call;
        *other = line;
    }
    found = Py_BuildValue("(NiNN)", bytes_of(&starts), (int)compacted, bytes_of(&calls),
                          bytes_of(&results));
    goto end;
no_memory:
    PyErr_NoMemory();
end:
    PyMem_Free(live);
    PyMem_RawFree(starts.bytes);
    PyMem_RawFree(calls.bytes);
    PyMem_RawFree(results.bytes);
    let_go(&t);
    return found;
}
