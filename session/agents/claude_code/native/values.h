/* Ids, times, and texts that a person wrote. */

#pragma once

#include "json.h"

#define SPREAD 0x9E3779B97F4A7C15ull

/* The number that eight hexadecimal digits in lower case spell; `strange` gets a bit for what is
   none.  All eight are worked on at once, a byte of the word each, the first one on top. */
static uint64_t number_of(At digits, uint64_t *strange)
{
    const uint64_t ones = 0x0101010101010101;
    uint64_t word = 0;
    for (int at = 0; at < 8; at++)
        word = word << 8 | digits[at];
    uint64_t letter = word >> 6 & ones;
    uint64_t value = (word & ones * 0x0F) + letter * 9;
    *strange |= ((word & ones * 0xF0) ^ (ones + letter) * 0x30) | (value & ones * 0xF0) |
                (((value + ones * 6) & ones * 0x10) ^ letter << 4);
    value = (value | value >> 4) & 0x00FF00FF00FF00FF;
    value = (value | value >> 8) & 0x0000FFFF0000FFFF;
    return (value | value >> 16) & 0x00000000FFFFFFFF;
}

/* The id of a uuid in its ordinary spelling, as records.id_of; 0 for any other text. */
static uint64_t id_of(const Text *text)
{
    At c = text->begin;
    unsigned char digits[32];
    if (text->end - c != 36 || c[8] != '-' || c[13] != '-' || c[18] != '-' || c[23] != '-')
        return 0;
    memcpy(digits, c, 8);
    memcpy(digits + 8, c + 9, 4);
    memcpy(digits + 12, c + 14, 4);
    memcpy(digits + 16, c + 19, 4);
    memcpy(digits + 20, c + 24, 12);
    uint64_t strange = 0;
    uint64_t high = number_of(digits, &strange) << 32, low = number_of(digits + 16, &strange) << 32;
    high |= number_of(digits + 8, &strange);
    low |= number_of(digits + 24, &strange);
    if (strange)
        return 0;
    uint64_t id = (high * SPREAD) ^ low;
    return id ? id : 1;
}

static At read_id(At p, At end, uint64_t *id)
{
    Text text;
    p = read_text(p, end, &text);
    return p != NULL && (*id = id_of(&text)) != 0 ? p : NULL;
}

static int is_time(const Text *text) /* 2026-03-02T09:00:00.000Z */
{
    static const char shape[] = "0000-00-00T00:00:00.000Z";
    if (text->end - text->begin != 24)
        return 0;
    for (int at = 0; at < 24; at++) {
        unsigned char c = text->begin[at];
        if (shape[at] == '0' ? c < '0' || c > '9' : c != (unsigned char)shape[at])
            return 0;
    }
    return 1;
}

/* Whether a text is surely one that a person wrote: records.py looks for what programs write,
   which begins, perhaps behind white space, with a bracket. */
static int is_typed(const Text *text)
{
    if (text->begin == text->end)
        return 0;
    switch (*text->begin) {
    case ' ': case '<': case '[': case '\\':
    case 0xC2: case 0xE1: case 0xE2: case 0xE3: /* the lead bytes of wide spaces */
        /* U+3000 is the one space of its block; what else is there is Chinese and Japanese. */
        return *text->begin == 0xE3 && text->begin[1] != 0x80;
    }
    return 1;
}
