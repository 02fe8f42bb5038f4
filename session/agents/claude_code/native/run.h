/* Records in the table, one by one. */

#pragma once

#include "record.h"

#define SALT 0x5EED5EED5EEDull /* table.py's SNAPSHOT_SALT */

static int is_spoken(int kind)
{
    return kind >= PROMPT && kind <= SYNTHETIC;
}

static int append(Scan *s, uint64_t offset, int kind, uint64_t id, int32_t parent)
{
    PUSH(&s->offsets, uint64_t, offset);
    PUSH(&s->new_ids, int64_t, (int64_t)id);
    PUSH(&s->new_parents, int32_t, parent);
    PUSH(&s->new_kinds, unsigned char, (unsigned char)kind);
    s->added++;
    return 1;
}

/* Calls of a record on the main line; an answer right behind its call leaves nothing to say. */
static int keep_calls(Scan *s, int kind, size_t before)
{
    Call *call = (Call *)(s->calls.bytes + before), *end = (Call *)(s->calls.bytes + s->calls.used);
    s->calls.used = before;
    for (; call < end; call++) {
        if (kind != (call->what == ANSWERED ? RESULT : ASSISTANT))
            continue;
        Call *last = (Call *)s->calls.bytes;
        if ((s->flags & QUIET) && s->calls.used == sizeof(Call) && call->what == ANSWERED &&
            last->what == CALLED && call->end - call->begin == last->end - last->begin &&
            !memcmp(call->begin, last->begin, (size_t)(call->end - call->begin)))
            s->calls.used = 0;
        else {
            *(Call *)(s->calls.bytes + s->calls.used) = *call;
            s->calls.used += sizeof(Call);
        }
    }
    return 1;
}

/* A record with a place in the tree, as LineTable.add_record. */
static int place(Scan *s, const Record *r, uint64_t offset, int flagged, size_t calls)
{
    int kind = flagged & KIND, main = !(flagged & SIDECHAIN);
    int32_t line = s->lines + s->added;
    if ((r->has & FORK) && (kind == PROMPT || !(s->flags & FORKED)))
        return 0;
    int32_t parent = r->has & PARENT ? find(s, (int64_t)r->parent) : -1;
    if (parent < 0 || (main && (kind_at(s, parent) & SIDECHAIN)) || line == INT32_MAX)
        return 0;
    if (main && (s->flags & UNNAMED) && !(r->has & SESSION))
        return 0;
    int gap = 0;
    int32_t of = flagged == PROMPT ? owner(s, parent, &gap) : -1;
    if (gap && r->prompt_id)
        return 0; /* whose turn that is depends on what stands in for the missing parent */
    if (flagged == PROMPT && r->prompt_id && prompt_id_of(s, of) == (int64_t)r->prompt_id)
        kind = flagged = NOTE; /* typed while the turn ran */
    if (flagged == PROMPT && !(s->flags & NAMED))
        return 0;
    if (append(s, offset, flagged, r->uuid, parent) < 0)
        return -1;
    PUSH(&s->tree_ids, int64_t, (int64_t)r->uuid);
    PUSH(&s->tree_lines, int32_t, line);
    if (flagged == PROMPT) {
        PUSH(&s->new_prompts, uint32_t, (uint32_t)line);
        PUSH(&s->owners, int32_t, of);
        PUSH(&s->new_prompt_ids, int64_t, (int64_t)r->prompt_id);
    }
    if ((r->has & TIME) && is_spoken(kind) &&
        (s->stamp == NULL || memcmp(r->time.begin, s->stamp, 24) > 0))
        s->stamp = r->time.begin;
    if (!main) {
        s->calls.used = calls;
        return 1;
    }
    s->last_main = line;
    return keep_calls(s, kind, calls);
}

/* One line: 1: added, and `next` is behind it; 0: not plain, `next` is as it was; -1: no memory. */
static int add_line(Scan *s, At *next, At end, uint64_t offset)
{
    Record r = {0};
    size_t calls = s->calls.used;
    At p = *next;
    int done = read_record(s, &r, &p, end);
    if (done > 0) {
        int flagged = kind_of(s, &r);
        if (flagged < 0)
            done = 0;
        else if (in_tree((unsigned char)flagged))
            done = place(s, &r, offset, flagged, calls);
        else {
            s->calls.used = calls;
            done = append(s, offset, flagged, flagged == SNAPSHOT ? r.snapshot ^ SALT : 0, -1);
            if ((flagged & KIND) == POINTER) {
                s->pointed = 1;
                s->pointer = r.leaf;
            }
        }
    }
    if (done > 0)
        *next = p;
    else
        s->calls.used = calls;
    return done;
}
