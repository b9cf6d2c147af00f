// The engines of queue.c: their requests, the ends of their answers, and the contents of these.
#ifndef PATHMIRROR_BENCH_QUEUES_H
#define PATHMIRROR_BENCH_QUEUES_H

#include "client.h"

// MARK: Text that grows

struct text {
    char *bytes;
    size_t size, room;
};

static inline void reserve(struct text *text, size_t more) {
    if (text->size + more + 1 <= text->room) return;
    text->room = 2 * (text->size + more + 1);
    text->bytes = realloc(text->bytes, text->room);
    if (!text->bytes) fail("no memory");
}

static inline void add_bytes(struct text *text, const char *bytes, size_t count) {
    reserve(text, count);
    memcpy(text->bytes + text->size, bytes, count);
    text->size += count;
    text->bytes[text->size] = 0;
}

__attribute__((format(printf, 2, 3))) static inline void add(struct text *text, const char *format, ...) {
    va_list list;
    reserve(text, 1024);
    va_start(list, format);
    int count = vsnprintf(text->bytes + text->size, text->room - text->size, format, list);
    va_end(list);
    if (count < 0 || (size_t)count >= text->room - text->size) fail("a request is too long");
    text->size += count;
}

// MARK: Messages

// A value with its time of sending: @NANOSECONDS@ and filler.
static inline void put_value(char *out, int length) {
    int count = snprintf(out, length + 1, "@%lld@", now_ns());
    memset(out + count, 'x', length - count);
    out[length] = 0;
}

// Calls `found` with the time in each value of an answer.
static inline void each_time(const char *bytes, size_t size, void (*found)(long long)) {
    const char *at = bytes, *end = bytes + size;
    while ((at = memchr(at, '@', end - at))) {
        char *after;
        long long time = strtoll(at + 1, &after, 10);
        if (*after == '@' && time > 0) found(time);
        at = after + 1;
        if (at >= end) return;
    }
}

// Ids of the messages of an answer, consecutively, each with a zero after it.
struct ids {
    struct text text;
    int count;
};

static inline void add_id(struct ids *ids, const char *id, size_t size) {
    add_bytes(&ids->text, id, size);
    add_bytes(&ids->text, "", 1);
    ids->count++;
}

// MARK: HTTP

static inline void add_post(struct text *out, const char *feed, const char *what, const struct text *body) {
    add(out,
        "POST /.feeds/%s/%s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer owner\r\nContent-Type: application/json\r\n"
        "Content-Length: %zu\r\n\r\n",
        feed, what, body->size);
    add_bytes(out, body->bytes, body->size);
}

static inline void add_put(struct text *out, int key, const char *value, int length) {
    add(out, "PUT /bench/k%d.json?print=silent HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n\"", key, length + 2);
    add_bytes(out, value, length);
    add_bytes(out, "\"", 1);
}

static inline void add_pull(struct text *out, const char *feed, int max, int consumer) {
    struct text body = {0};
    add(&body, "{\"max\":%d,\"wait\":\"2s\",\"consumer\":\"c%d\"}", max, consumer);
    add_post(out, feed, "pull", &body);
    free(body.bytes);
}

// Acknowledges `count` messages by the ids from `id` on; returns the address after them.
static inline const char *add_ack(struct text *out, const char *feed, const char *id, int count, int consumer) {
    struct text body = {0};
    add(&body, "{\"ids\":[");
    for (int index = 0; index < count; index++, id += strlen(id) + 1) add(&body, "%s\"%s\"", index ? "," : "", id);
    add(&body, "],\"consumer\":\"c%d\"}", consumer);
    add_post(out, feed, "ack", &body);
    free(body.bytes);
    return id;
}

// The size of the first answer with its head, 0 while it is not whole. An answer that is no success ends the program.
static inline size_t http_answer(const char *bytes, size_t size) {
    const char *head_end = memmem(bytes, size, "\r\n\r\n", 4);
    if (!head_end) return 0;
    if (memcmp(bytes, "HTTP/1.1 20", 11)) fail("the gateway answered: %.300s", bytes);
    size_t head = head_end + 4 - bytes;
    if (!memcmp(bytes + 9, "204", 3)) return head;
    const char *length = strcasestr(bytes, "\r\ncontent-length:");
    if (!length || length > head_end) fail("an answer without a length: %.300s", bytes);
    size_t whole = head + strtoull(length + 17, NULL, 10);
    return size < whole ? 0 : whole;
}

static inline void http_ids(const char *bytes, size_t size, struct ids *ids) {
    const char *at = bytes, *end = bytes + size;
    while ((at = memmem(at, end - at, "\"id\":\"", 6))) {
        const char *quote = memchr(at + 6, '"', end - at - 6);
        if (!quote) return;
        add_id(ids, at + 6, quote - at - 6);
        at = quote;
    }
}

// MARK: RESP

static inline int is_stream_id(const char *bytes, size_t size) {
    int dashes = 0;
    if (size < 3 || size > 40) return 0;
    for (size_t index = 0; index < size; index++) {
        if (bytes[index] == '-') dashes++;
        else if (bytes[index] < '0' || bytes[index] > '9') return 0;
    }
    return dashes == 1;
}

// Where the value at `at` ends, 0 while it is not whole; collects the stream ids in it.
static inline size_t resp_value(const char *bytes, size_t size, size_t at, struct ids *ids) {
    const char *line = memchr(bytes + at, '\n', size - at);
    if (!line) return 0;
    size_t next = line + 1 - bytes;
    long long number = strtoll(bytes + at + 1, NULL, 10);
    if (bytes[at] == '-') fail("redis answered: %.*s", (int)(next - at), bytes + at);
    switch (bytes[at]) {
    case '+':
    case ':': return next;
    case '$':
        if (number < 0) return next;
        if (size < next + number + 2) return 0;
        if (ids && is_stream_id(bytes + next, number)) add_id(ids, bytes + next, number);
        return next + number + 2;
    case '*':
        for (long long index = 0; index < number; index++) {
            next = resp_value(bytes, size, next, ids);
            if (next == 0 || (next >= size && index + 1 < number)) return 0;
        }
        return next;
    default: fail("no answer of redis: %.100s", bytes + at);
    }
    return 0;
}

static inline void add_word(struct text *out, const char *word) {
    add(out, "$%zu\r\n", strlen(word));
    add_bytes(out, word, strlen(word));
    add_bytes(out, "\r\n", 2);
}

static inline void add_xadd(struct text *out, const char *stream, const char *value) {
    const char *words[] = {"XADD", stream, "*", "v", value};
    add(out, "*5\r\n");
    for (int index = 0; index < 5; index++) add_word(out, words[index]);
}

static inline void add_xreadgroup(struct text *out, const char *stream, int max, int consumer) {
    char name[24], count[24];
    snprintf(name, sizeof name, "c%d", consumer);
    snprintf(count, sizeof count, "%d", max);
    const char *words[] = {"XREADGROUP", "GROUP", "g", name, "COUNT", count, "BLOCK", "2000", "STREAMS", stream, ">"};
    add(out, "*11\r\n");
    for (int index = 0; index < 11; index++) add_word(out, words[index]);
}

static inline const char *add_xack(struct text *out, const char *stream, const char *id, int count) {
    add(out, "*%d\r\n$4\r\nXACK\r\n", count + 3);
    add_word(out, stream);
    add_word(out, "g");
    for (int index = 0; index < count; index++, id += strlen(id) + 1) add_word(out, id);
    return id;
}

#endif
