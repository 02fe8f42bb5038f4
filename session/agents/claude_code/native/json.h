/* What else is in a line of JSON, and how to walk through the members of an object. */

#pragma once

#include "text.h"

#define DEEPEST 64 /* levels of nesting, one bit each */
#define LONGEST 64 /* characters of a number; Python refuses integers of thousands */

static inline At skip_space(At p, At end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\r'))
        p++;
    return p;
}

static At skip_digits(At p, At end)
{
    At begin = p;
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p == begin ? NULL : p;
}

static At skip_number(At p, At end)
{
    At begin = p;
    if (*p == '-')
        p++;
    if (p < end && *p == '0')
        p++;
    else if ((p = skip_digits(p, end)) == NULL)
        return NULL;
    if (p < end && *p == '.' && (p = skip_digits(p + 1, end)) == NULL)
        return NULL;
    if (p < end && (*p | 32) == 'e') {
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        if ((p = skip_digits(p, end)) == NULL)
            return NULL;
    }
    return p - begin > LONGEST ? NULL : p;
}

static At skip_word(At p, At end, const char *word)
{
    Py_ssize_t length = (Py_ssize_t)strlen(word);
    return end - p >= length && !memcmp(p, word, (size_t)length) ? p + length : NULL;
}

static At skip_scalar(At p, At end)
{
    Text text;
    if (p >= end)
        return NULL;
    switch (*p) {
    case '"': return skip_string(p + 1, end, &text);
    case 't': return skip_word(p, end, "true");
    case 'f': return skip_word(p, end, "false");
    case 'n': return skip_word(p, end, "null");
    default: return *p == '-' || (*p >= '0' && *p <= '9') ? skip_number(p, end) : NULL;
    }
}

/* A key and its colon; the place where the value begins. */
static At skip_key(At p, At end, Text *key)
{
    if (p >= end || *p != '"' || (p = skip_string(p + 1, end, key)) == NULL)
        return NULL;
    p = skip_space(p, end);
    return p < end && *p == ':' ? skip_space(p + 1, end) : NULL;
}

static At skip_value(At p, At end)
{
    uint64_t objects = 0; /* a bit a level: an object, or a list */
    int depth = 0;
    Text key;
    for (;;) {
        /* At a value. */
        if (p < end && (*p == '{' || *p == '[')) {
            int object = *p == '{';
            p = skip_space(p + 1, end);
            if (p < end && *p == (object ? '}' : ']'))
                p++;
            else {
                if (depth == DEEPEST)
                    return NULL;
                depth++;
                objects = objects << 1 | (unsigned)object;
                if (object && (p = skip_key(p, end, &key)) == NULL)
                    return NULL;
                continue;
            }
        }
        else if ((p = skip_scalar(p, end)) == NULL)
            return NULL;
        /* Behind a value. */
        for (;;) {
            if (depth == 0)
                return p;
            p = skip_space(p, end);
            if (p >= end)
                return NULL;
            if (*p == ',') {
                p = skip_space(p + 1, end);
                if ((objects & 1) && (p = skip_key(p, end, &key)) == NULL)
                    return NULL;
                break;
            }
            if (*p != ((objects & 1) ? '}' : ']'))
                return NULL;
            p++;
            depth--;
            objects >>= 1;
        }
    }
}

/* Members of an object, one by one:

       for (p = open_object(p, end); p && *p != '}'; p = next_member(p, end))
           p = skip_key(...), then the value

   `p` is then at the closing brace, or NULL. */

static At open_object(At p, At end)
{
    if (p >= end || *p != '{')
        return NULL;
    p = skip_space(p + 1, end);
    return p < end ? p : NULL;
}

static At next_member(At p, At end)
{
    if (p == NULL)
        return NULL;
    p = skip_space(p, end);
    if (p >= end)
        return NULL;
    if (*p == '}')
        return p;
    if (*p != ',')
        return NULL;
    p = skip_space(p + 1, end);
    return p < end && *p == '"' ? p : NULL;
}

/* Values that are looked at. */

static At read_text(At p, At end, Text *text) /* a string that is spelt as it is */
{
    if (p >= end || *p != '"' || (p = skip_string(p + 1, end, text)) == NULL)
        return NULL;
    return text->escaped ? NULL : p;
}

static inline int is(const Text *text, const char *word)
{
    size_t length = strlen(word);
    return (size_t)(text->end - text->begin) == length && !memcmp(text->begin, word, length);
}

enum { ABSENT, NO, YES };

static At read_flag(At p, At end, int *flag)
{
    if (p < end && *p == 't') {
        *flag = YES;
        return skip_word(p, end, "true");
    }
    *flag = NO;
    if (p < end && *p == 'f')
        return skip_word(p, end, "false");
    return skip_word(p, end, "null");
}
