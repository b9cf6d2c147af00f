// What the benchmarks' clients share: sockets, the realtime protocol's handshake and frames, clocks.
#ifndef PATHMIRROR_BENCH_CLIENT_H
#define PATHMIRROR_BENCH_CLIENT_H

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static inline void fail(const char *format, ...) {
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    exit(1);
}

static inline void *allocated(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (!memory) fail("no memory");
    return memory;
}

static inline long long now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static inline int connected(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address)) fail("cannot connect: %s", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    // Closed with a reset: the next round must not wait for ports of this one.
    struct linger linger = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    return fd;
}

static inline void send_all(int fd, const void *bytes, size_t count) {
    while (count > 0) {
        ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) fail("cannot send: %s", strerror(errno));
        bytes = (const char *)bytes + sent;
        count -= sent;
    }
}

// MARK: Frames

// Appends a client's text frame, masked with zeros, and returns its size. `out` has room for 14 bytes more than the text.
static inline size_t put_frame(unsigned char *out, int opcode, const char *text, size_t length) {
    size_t size = 0;
    out[size++] = 0x80 | opcode;
    if (length < 126) {
        out[size++] = 0x80 | length;
    } else if (length < 65536) {
        out[size++] = 0x80 | 126;
        out[size++] = length >> 8;
        out[size++] = length & 255;
    } else {
        fail("a frame of %zu bytes", length);
    }
    memset(out + size, 0, 4);
    memcpy(out + size + 4, text, length);
    return size + 4 + length;
}

// Finds frames in the bytes of one connection, however they are cut.
struct frames {
    uint64_t left;
    uint8_t head[10], head_size, opcode;
    uint8_t in_payload;
};

// Passes bytes on up to the end of a frame; returns how many. `*ended` is set if one ended.
static inline size_t frame_step(struct frames *frames, const unsigned char *bytes, size_t count, int *ended) {
    size_t used = 0;
    *ended = 0;
    while (!frames->in_payload) {
        if (used == count) return used;
        frames->head[frames->head_size++] = bytes[used++];
        if (frames->head_size < 2) continue;
        int code = frames->head[1] & 127, size = code == 127 ? 10 : code == 126 ? 4 : 2;
        if (frames->head_size < size) continue;
        frames->opcode = frames->head[0] & 15;
        frames->left = size == 2 ? code : 0;
        for (int index = 2; index < size; index++) frames->left = frames->left << 8 | frames->head[index];
        frames->head_size = 0;
        frames->in_payload = 1;
    }
    size_t take = count - used < frames->left ? count - used : frames->left;
    frames->left -= take;
    if (frames->left == 0) {
        frames->in_payload = 0;
        *ended = 1;
    }
    return used + take;
}

// MARK: Opening

// Reads until `is_complete` accepts the received bytes, which are returned in `buffer` with a zero after them.
static inline size_t read_until(int fd, char *buffer, size_t room, int (*is_complete)(const char *, size_t)) {
    size_t size = 0;
    buffer[0] = 0;
    while (!is_complete(buffer, size)) {
        if (size + 1 == room) fail("too long an answer: %.100s", buffer);
        ssize_t count = recv(fd, buffer + size, room - size - 1, 0);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) fail("closed while opening; got: %.200s", buffer);
        size += count;
        buffer[size] = 0;
    }
    return size;
}

static inline int frames_behind_head(const char *bytes, size_t size) {
    char *end = memmem(bytes, size, "\r\n\r\n", 4);
    if (!end) return -1;
    struct frames frames = {0};
    size_t at = end + 4 - bytes;
    int count = 0, ended;
    while (at < size) {
        at += frame_step(&frames, (const unsigned char *)bytes + at, size - at, &ended);
        count += ended;
    }
    return frames.in_payload || frames.head_size ? 0 : count;
}

static inline int has_greeting(const char *bytes, size_t size) { return frames_behind_head(bytes, size) == 1; }

static inline void send_handshake(int fd) {
    static const char request[] =
        "GET /.ws?v=5 HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
    send_all(fd, request, sizeof request - 1);
}

#endif
