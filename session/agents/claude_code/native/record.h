/* One record, as far as its place in the table depends on it. */

#pragma once

#include "table.h"

#define TELLING 64 /* a value of more bytes is not one that the next line has too */

enum {
    CWD = 1, TYPE = 2, UUID = 4, META = 8, ORIGIN = 16, VERSION = 32, SUBTYPE = 64,
    MESSAGE = 128, PROMPT_ID = 256, LEAF = 512, EXPLICIT = 1024, FILES = 2048, SESSION = 4096,
    TIME = 8192, PARENT = 16384, ENTRYPOINT = 32768, FORK = 65536, SIDE = 131072,
    SUMMARY = 262144,
    CONSTANT = CWD | VERSION | ENTRYPOINT | SESSION
};

static int member_of(const Text *key)
{
    switch (key->end - key->begin) {
    case 3: return is(key, "cwd") ? CWD : 0;
    case 4: return is(key, "type") ? TYPE : is(key, "uuid") ? UUID : 0;
    case 6: return is(key, "isMeta") ? META : is(key, "origin") ? ORIGIN : 0;
    case 7: return is(key, "version") ? VERSION : is(key, "subtype") ? SUBTYPE
                 : is(key, "message") ? MESSAGE : 0;
    case 8: return is(key, "promptId") ? PROMPT_ID : is(key, "leafUuid") ? LEAF
                 : is(key, "explicit") ? EXPLICIT : is(key, "snapshot") ? FILES : 0;
    case 9: return is(key, "sessionId") ? SESSION : is(key, "timestamp") ? TIME : 0;
    case 10: return is(key, "parentUuid") ? PARENT : is(key, "entrypoint") ? ENTRYPOINT
                  : is(key, "forkedFrom") ? FORK : 0;
    case 11: return is(key, "isSidechain") ? SIDE : 0;
    case 16: return is(key, "isCompactSummary") ? SUMMARY : 0;
    }
    return 0;
}

typedef struct {
    int has;
    uint64_t uuid, parent, leaf, snapshot, prompt_id;
    Text type, time, subtype;
    int side, meta, summary, explicit_;
    int synthetic, results, typed, odd; /* of the message: `odd` texts may not be typed */
} Record;

static int only_once(int *has, int bit)
{
    if (*has & bit)
        return 0;
    *has |= bit;
    return 1;
}

/* A block of a message's content; -1: no memory, 0: not plain. */
static int read_block(Scan *s, Record *r, At *place, At end)
{
    enum { ITS_TYPE = 1, ITS_ID = 2, ITS_CALL = 4, ITS_NAME = 8, ITS_TEXT = 16 };
    Text key, type, id, used, name, text;
    int has = 0, texts = 0;
    At p;
    for (p = open_object(*place, end); p && *p != '}'; p = next_member(p, end)) {
        if ((p = skip_key(p, end, &key)) == NULL || key.escaped)
            return 0;
        if (is(&key, "type"))
            p = only_once(&has, ITS_TYPE) ? read_text(p, end, &type) : NULL;
        else if (is(&key, "id"))
            p = only_once(&has, ITS_ID) ? read_text(p, end, &id) : NULL;
        else if (is(&key, "tool_use_id"))
            p = only_once(&has, ITS_CALL) ? read_text(p, end, &used) : NULL;
        else if (is(&key, "name"))
            p = only_once(&has, ITS_NAME) ? read_text(p, end, &name) : NULL;
        else if (is(&key, "text")) {
            texts = only_once(&has, ITS_TEXT) && p < end && *p == '"';
            p = texts ? skip_string(p + 1, end, &text) : NULL;
        }
        else
            p = skip_value(p, end);
    }
    if (p == NULL || !(has & ITS_TYPE))
        return 0;
    *place = p + 1;
    Call call = {s->lines + s->added, CALLED, NULL, NULL};
    if (is(&type, "tool_use")) {
        if (!(has & ITS_ID))
            return 0;
        call.begin = id.begin;
        call.end = id.end;
        if ((has & ITS_NAME) && (is(&name, "Agent") || is(&name, "Task")))
            call.what = DELEGATED;
        r->odd = 1;
    }
    else if (is(&type, "tool_result")) {
        if (!(has & ITS_CALL))
            return 0;
        call.what = ANSWERED;
        call.begin = used.begin;
        call.end = used.end;
        r->results = 1;
    }
    else if (is(&type, "text") && texts && is_typed(&text))
        r->typed = 1;
    else if (is(&type, "image") || is(&type, "document"))
        r->typed = 1;
    else
        r->odd = 1;
    if (call.begin != NULL)
        PUSH(&s->calls, Call, call);
    return 1;
}

static int read_message(Scan *s, Record *r, At *place, At end)
{
    enum { MODEL = 1, CONTENT = 2 };
    Text key, text;
    int has = 0;
    At p;
    for (p = open_object(*place, end); p && *p != '}'; p = next_member(p, end)) {
        if ((p = skip_key(p, end, &key)) == NULL || key.escaped)
            return 0;
        if (is(&key, "model")) {
            if (!only_once(&has, MODEL) || (p = read_text(p, end, &text)) == NULL)
                return 0;
            r->synthetic = is(&text, "<synthetic>");
        }
        else if (is(&key, "content")) {
            if (!only_once(&has, CONTENT) || p >= end)
                return 0;
            if (*p == '"') {
                if ((p = skip_string(p + 1, end, &text)) == NULL)
                    return 0;
                r->typed = is_typed(&text);
                r->odd = !r->typed;
                continue;
            }
            if (*p != '[')
                return 0;
            p = skip_space(p + 1, end);
            for (;;) {
                int read = read_block(s, r, &p, end);
                if (read <= 0)
                    return read;
                p = skip_space(p, end);
                if (p >= end || (*p != ',' && *p != ']'))
                    return 0;
                if (*p++ == ']')
                    break;
                p = skip_space(p, end);
            }
        }
        else
            p = skip_value(p, end);
    }
    if (p == NULL || !(has & CONTENT))
        return 0;
    *place = p + 1;
    return 1;
}

/* An object of which one member counts. */
static At read_within(At p, At end, const char *name, Text *text)
{
    Text key;
    int has = 0;
    for (p = open_object(p, end); p && *p != '}'; p = next_member(p, end)) {
        if ((p = skip_key(p, end, &key)) == NULL || key.escaped)
            return NULL;
        if (is(&key, name))
            p = only_once(&has, 1) ? read_text(p, end, text) : NULL;
        else
            p = skip_value(p, end);
    }
    return p != NULL && has ? p + 1 : NULL;
}

/* A string that must be the one that the last records said; it is compared as it is spelt. */
static At read_same(At p, At end, const Py_buffer *last)
{
    Text text;
    if (last->buf == NULL || p >= end || *p != '"')
        return NULL;
    if ((p = skip_string(p + 1, end, &text)) == NULL)
        return NULL;
    return text.end - text.begin == last->len && !memcmp(text.begin, last->buf, (size_t)last->len)
               ? p : NULL;
}

/* Whether a line ends here as the last one did. */
static int is_tail(const Scan *s, At p, At end)
{
    size_t length = (size_t)(s->tail_end - s->tail);
    return s->tail != NULL && (size_t)(end - p) >= length && !memcmp(p, s->tail, length);
}

/* 1: read, and `place` is behind the record's line; 0: not plain; -1: no memory. */
static int read_record(Scan *s, Record *r, At *place, At end)
{
    Text key, text;
    int read, tail_has = 0;
    At p, value, tail = NULL;
    for (p = open_object(skip_space(*place, end), end); p && *p != '}'; p = next_member(p, end)) {
        if ((p = skip_key(p, end, &key)) == NULL || key.escaped)
            return 0;
        value = p;
        int member = member_of(&key);
        if (member && !only_once(&r->has, member))
            return 0;
        switch (member) {
        case TYPE: p = read_text(p, end, &r->type); break;
        case UUID: p = read_id(p, end, &r->uuid); break;
        case PARENT: p = read_id(p, end, &r->parent); break;
        case LEAF: p = read_id(p, end, &r->leaf); break;
        case SIDE: p = read_flag(p, end, &r->side); break;
        case META: p = read_flag(p, end, &r->meta); break;
        case SUMMARY: p = read_flag(p, end, &r->summary); break;
        case EXPLICIT: p = read_flag(p, end, &r->explicit_); break;
        case PROMPT_ID: p = read_id(p, end, &r->prompt_id); break;
        case SUBTYPE: p = read_text(p, end, &r->subtype); break;
        case CWD: p = read_same(p, end, &s->cwd); break;
        case VERSION: p = read_same(p, end, &s->version); break;
        case ENTRYPOINT: p = read_same(p, end, &s->entrypoint); break;
        case SESSION: p = read_same(p, end, &s->session); break;
        case TIME:
            p = read_text(p, end, &r->time);
            if (p == NULL || !is_time(&r->time))
                return 0;
            break;
        case ORIGIN:
            p = read_within(p, end, "kind", &text);
            if (p == NULL || !is(&text, "human"))
                return 0;
            break;
        case FILES:
            if ((p = read_within(p, end, "messageId", &text)) == NULL)
                return 0;
            r->snapshot = id_of(&text);
            break;
        case MESSAGE:
            if ((read = read_message(s, r, &p, end)) <= 0)
                return read;
            break;
        default: p = skip_value(p, end);
        }
        if (p == NULL)
            return 0;
        if (is_tail(s, p, end)) {
            *place = p + (s->tail_end - s->tail);
            return only_once(&r->has, s->tail_has);
        }
        if (!(member & CONSTANT) && (member || p - value > TELLING)) {
            tail = p;
            tail_has = 0;
        }
        else
            tail_has |= member;
    }
    if (p == NULL)
        return 0;
    p = skip_space(p + 1, end);
    if (p >= end || *p != '\n')
        return 0;
    *place = p + 1;
    if (tail != NULL && (tail_has & CWD)) {
        s->tail = tail;
        s->tail_end = p + 1;
        s->tail_has = tail_has;
    }
    return 1;
}

/* Kind and flags of a record, as records.kind_of; -1: not plain. */
static int kind_of(const Scan *s, const Record *r)
{
    int side = r->side == YES ? SIDECHAIN : 0;
    if (!(r->has & TYPE))
        return -1;
    if (!(r->has & UUID)) {
        if (is(&r->type, "file-history-snapshot"))
            return r->snapshot ? SNAPSHOT : -1;
        if (is(&r->type, "last-prompt")) {
            int settled = (s->flags & SETTLED) || s->last_main >= 0;
            return (r->has & LEAF) && r->explicit_ != YES && settled ? (POINTER | LOCAL) : -1;
        }
        if (is(&r->type, "mode") || is(&r->type, "permission-mode"))
            return OTHER;
        return is(&r->type, "queue-operation") ? (OTHER | LOCAL) : -1;
    }
    if (is(&r->type, "assistant"))
        return r->has & MESSAGE ? ((r->synthetic ? SYNTHETIC : ASSISTANT) | side) : -1;
    if (is(&r->type, "user")) {
        if (!(r->has & MESSAGE))
            return -1;
        if (r->results)
            return RESULT | side;
        if (r->meta == YES || r->summary == YES)
            return NOTE | side;
        return r->typed && !r->odd ? (PROMPT | side) : -1;
    }
    if (is(&r->type, "system"))
        return is(&r->subtype, "compact_boundary") ? -1 : (SYSTEM | side);
    return (is(&r->type, "attachment") ? ATTACHMENT : PASSAGE) | side;
}
