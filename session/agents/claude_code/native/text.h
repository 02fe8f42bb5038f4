/* Strings of JSON, which are most of a transcript's bytes: where each ends, and whether it is
   well formed. */

#pragma once

#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

typedef const unsigned char *At;

/* Tokens.  Each takes the place where one begins and returns the place behind it, NULL when
   there is none that is well formed. */

typedef struct {
    At begin, end;
    int escaped;
} Text;

static At skip_character(At p, At end) /* one character that is not ASCII */
{
    Py_ssize_t left = end - p;
    unsigned char a = p[0];
    if (a < 0xC2 || a > 0xF4 || left < 2)
        return NULL;
    unsigned char b = p[1];
    if ((b & 0xC0) != 0x80)
        return NULL;
    if (a < 0xE0)
        return p + 2;
    if (left < 3 || (p[2] & 0xC0) != 0x80)
        return NULL;
    if (a < 0xF0)
        return (a == 0xE0 && b < 0xA0) || (a == 0xED && b > 0x9F) ? NULL : p + 3;
    if (left < 4 || (p[3] & 0xC0) != 0x80)
        return NULL;
    return (a == 0xF0 && b < 0x90) || (a == 0xF4 && b > 0x8F) ? NULL : p + 4;
}

static int is_hex(unsigned char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f');
}

static At skip_escape(At p, At end) /* at a backslash */
{
    if (end - p < 2)
        return NULL;
    switch (p[1]) {
    case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't':
        return p + 2;
    case 'u':
        if (end - p >= 6 && is_hex(p[2]) && is_hex(p[3]) && is_hex(p[4]) && is_hex(p[5]))
            return p + 6;
    }
    return NULL;
}

static At skip_characters(At p, At end) /* all that are not ASCII, at least one */
{
    do
        p = skip_character(p, end);
    while (p != NULL && p < end && *p >= 0x80);
    return p;
}

#if defined(__SSE2__)
/* A bit a byte, of 64 bytes. */
typedef struct {
    uint64_t stops; /* quotes, and what is not printable ASCII */
    uint64_t slashes;
    uint64_t usual; /* what most often stands behind a backslash */
} Block;

static inline Block classify(At p)
{
    Block block = {0, 0, 0};
    for (int at = 0; at < 64; at += 16) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(p + at));
        const __m128i quotes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"'));
        const __m128i slashes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'));
        const __m128i letters = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('n')),
                                             _mm_cmpeq_epi8(bytes, _mm_set1_epi8('t')));
        /* Signed: what is not ASCII is less than a space, too. */
        const __m128i stops = _mm_or_si128(quotes, _mm_cmplt_epi8(bytes, _mm_set1_epi8(' ')));
        const __m128i usual = _mm_or_si128(_mm_or_si128(quotes, slashes), letters);
        block.stops |= (uint64_t)(unsigned)_mm_movemask_epi8(stops) << at;
        block.slashes |= (uint64_t)(unsigned)_mm_movemask_epi8(slashes) << at;
        block.usual |= (uint64_t)(unsigned)_mm_movemask_epi8(usual) << at;
    }
    return block;
}

#define WIDE __attribute__((target("avx2")))

WIDE static inline Block classify_wide(At p)
{
    Block block = {0, 0, 0};
    for (int at = 0; at < 64; at += 32) {
        const __m256i bytes = _mm256_loadu_si256((const __m256i *)(p + at));
        const __m256i quotes = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('"'));
        const __m256i slashes = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('\\'));
        const __m256i letters = _mm256_or_si256(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('n')),
                                             _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('t')));
        const __m256i stops = _mm256_or_si256(quotes, _mm256_cmpgt_epi8(_mm256_set1_epi8(' '), bytes));
        const __m256i usual = _mm256_or_si256(_mm256_or_si256(quotes, slashes), letters);
        block.stops |= (uint64_t)(unsigned)_mm256_movemask_epi8(stops) << at;
        block.slashes |= (uint64_t)(unsigned)_mm256_movemask_epi8(slashes) << at;
        block.usual |= (uint64_t)(unsigned)_mm256_movemask_epi8(usual) << at;
    }
    return block;
}

/* Which of the backslashes are not themselves behind one that counts. */
static inline uint64_t escaping(uint64_t slashes)
{
    uint64_t left = slashes & (slashes << 1) ? slashes : 0; /* mostly they stand alone */
    while (left) {
        uint64_t first = left & -left;
        slashes &= ~(first << 1);
        left &= ~(first | first << 1);
    }
    return slashes;
}

/* As far into a string as whole blocks go: its closing quote, or a place from which to go on
   byte by byte. */
static inline __attribute__((always_inline)) At skip_by(Block (*classes)(At), At p, At end,
                                                        int *escaped)
{
    uint64_t open = 0; /* the last block ended with a backslash */
    while (end - p >= 64) {
        Block block = classes(p);
        uint64_t slashes = escaping(block.slashes & ~open);
        uint64_t behind = slashes << 1 | open;
        uint64_t stops = block.stops & ~behind;
        uint64_t seen = stops ^ (stops - 1); /* up to the first stop; all, if there is none */
        *escaped |= (slashes & seen) != 0;
        for (uint64_t rare = behind & seen & ~block.usual; rare; rare &= rare - 1)
            if (skip_escape(p + __builtin_ctzll(rare) - 1, end) == NULL)
                return NULL;
        if (stops == 0) {
            open = slashes >> 63;
            p += 64;
            continue;
        }
        p += __builtin_ctzll(stops);
        if (*p == '"')
            return p;
        if (*p < ' ' || (p = skip_characters(p, end)) == NULL)
            return NULL;
        open = 0;
    }
    return p - open;
}

static At skip_narrow(At p, At end, int *escaped)
{
    return skip_by(classify, p, end, escaped);
}

WIDE static At skip_wide(At p, At end, int *escaped)
{
    return skip_by(classify_wide, p, end, escaped);
}

/* What this processor is good at; chosen when the module is loaded. */
static At (*skip_blocks)(At, At, int *) = skip_narrow;
#endif

static At skip_string(At p, At end, Text *text) /* behind the opening quote */
{
    text->begin = p;
    text->escaped = 0;
#if defined(__SSE2__)
    /* Most strings are short. */
    for (int tries = 0; tries < 2 && end - p >= 16; tries++) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)p);
        const __m128i stops = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
                                           _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
        int found = _mm_movemask_epi8(_mm_or_si128(stops, _mm_cmplt_epi8(bytes, _mm_set1_epi8(' '))));
        if (found) {
            p += __builtin_ctz((unsigned)found);
            if (*p != '"')
                break;
            text->end = p;
            return p + 1;
        }
        p += 16;
    }
    p = skip_blocks(p, end, &text->escaped);
#endif
    while (p != NULL && p < end) {
        if (*p == '"') {
            text->end = p;
            return p + 1;
        }
        if (*p == '\\') {
            text->escaped = 1;
            p = skip_escape(p, end);
        }
        else if (*p < 0x80)
            p = *p < ' ' ? NULL : p + 1;
        else
            p = skip_characters(p, end);
    }
    return NULL;
}
