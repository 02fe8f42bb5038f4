/* Runs of plain lines of a transcript, put into columns.

   What a line means is defined in Python (records.py, table.py).  This file knows the ordinary
   spelling of ordinary records, does for them what the Python code does, and stops at the first
   line that is anything else: an escape or a repeated key where a member is looked for, a value
   of another type, a parent further away than FAR lines, bytes that are not one JSON object in
   UTF-8.  Python then reads that line and calls again.  Tests hold both ways to the same table.

   It works without the interpreter's lock, allocates nothing a line, does not recurse, and
   reads no byte outside [start, stop).  Every line in there ends with a newline, which is
   neither allowed in a string nor taken for white space: whatever is torn ends there. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "branch.h"
#include "run.h"

/* What Python sees. */

static PyObject *calls_of(const Scan *s)
{
    Py_ssize_t count = (Py_ssize_t)(s->calls.used / sizeof(Call));
    PyObject *list = PyList_New(count);
    for (Py_ssize_t at = 0; list != NULL && at < count; at++) {
        const Call *call = (const Call *)s->calls.bytes + at;
        PyObject *one = Py_BuildValue("(iis#)", (int)call->line, (int)call->what,
                                      (const char *)call->begin, call->end - call->begin);
        if (one == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, at, one);
    }
    return list;
}

static PyObject *result_of(const Scan *s, Py_ssize_t next)
{
    return Py_BuildValue(
        "(niNNNNNNNNNNiz#N)", next, (int)s->added,
        bytes_of(&s->offsets), bytes_of(&s->new_ids), bytes_of(&s->new_parents),
        bytes_of(&s->new_kinds), bytes_of(&s->new_prompts), bytes_of(&s->owners),
        bytes_of(&s->new_prompt_ids), bytes_of(&s->tree_ids), bytes_of(&s->tree_lines),
        calls_of(s), (int)s->last_main,
        (const char *)s->stamp, (Py_ssize_t)(s->stamp ? 24 : 0),
        s->pointed ? PyLong_FromLongLong((int64_t)s->pointer) : Py_NewRef(Py_None));
}

static void release(Scan *s, Py_buffer *buffers, int count)
{
    Column *columns[] = {&s->offsets, &s->new_ids, &s->new_parents, &s->new_kinds,
                         &s->new_prompts, &s->owners, &s->new_prompt_ids, &s->tree_ids, &s->tree_lines, &s->calls};
    for (size_t at = 0; at < sizeof(columns) / sizeof(*columns); at++)
        PyMem_RawFree(columns[at]->bytes);
    for (int at = 0; at < count; at++)
        PyBuffer_Release(&buffers[at]);
}

PyDoc_STRVAR(scan_doc,
"scan(data, start, stop, position, ids, parents, kinds, prompts, prompt_ids,\n"
"     cwd, version, entrypoint, session, flags)\n--\n\n"
"Read plain lines in data[start:stop], which ends with a newline; see plain.py.");

static PyObject *scan(PyObject *module, PyObject *args)
{
    (void)module;
    Scan s = {.last_main = -1};
    Py_buffer table[6] = {{0}}; /* data, ids, parents, kinds, prompts, prompt_ids */
    Py_buffer *said[] = {&s.cwd, &s.version, &s.entrypoint, &s.session};
    Py_ssize_t start, stop;
    unsigned long long position;
    PyObject *result = NULL;
    int done = 1;
    if (!PyArg_ParseTuple(args, "y*nnKy*y*y*y*y*z*z*z*z*i:scan", &table[0], &start, &stop, &position,
                          &table[1], &table[2], &table[3], &table[4], &table[5], said[0], said[1],
                          said[2], said[3], &s.flags))
        return NULL;
    At data = table[0].buf;
    s.ids = table[1].buf;
    s.parents = table[2].buf;
    s.kinds = table[3].buf;
    s.prompts = table[4].buf;
    s.prompt_ids = table[5].buf;
    s.turns = (size_t)table[4].len / sizeof(uint32_t);
    if (start < 0 || start > stop || stop > table[0].len || table[3].len >= INT32_MAX ||
        table[1].len != table[3].len * 8 || table[2].len != table[3].len * 4 ||
        table[5].len != table[4].len * 2 ||
        (stop > start && data[stop - 1] != '\n')) {
        PyErr_SetString(PyExc_ValueError, "scan: whole lines and equally long columns, please");
        goto end;
    }
    s.lines = (int32_t)table[3].len;
    At p = data + start, end = data + stop;
    Py_BEGIN_ALLOW_THREADS
    while (p < end && done > 0)
        done = add_line(&s, &p, end, position + (uint64_t)(p - data));
    Py_END_ALLOW_THREADS
    if (done < 0)
        PyErr_NoMemory();
    else
        result = result_of(&s, p - data);
end:
    release(&s, table, 6);
    for (size_t at = 0; at < sizeof(said) / sizeof(*said); at++)
        PyBuffer_Release(said[at]);
    return result;
}

static PyMethodDef methods[] = {
    {"scan", scan, METH_VARARGS, scan_doc},
    {"climb", climb, METH_VARARGS, climb_doc},
    {"survey", survey, METH_VARARGS, survey_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_scan", .m_size = 0, .m_methods = methods,
};

PyMODINIT_FUNC PyInit__scan(void)
{
#if defined(__SSE2__)
    if (__builtin_cpu_supports("avx2"))
        skip_blocks = skip_wide;
#endif
    return PyModuleDef_Init(&definition);
}
