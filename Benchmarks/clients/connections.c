// Holds many connections in one thread, and counts the events that come by them.
//
//   connections PORT PATH KIND COUNT [KIND COUNT]...
//
// Says "ready" when all are open. From then on, whenever all of them together have had another event each, it says how
// many, and when (monotonic nanoseconds). Ends with its standard input. Where events bear numbers ("message 7"), each
// connection must get every one of them once and in order: it fails otherwise.
//
// KIND: idle (HTTP, between requests), stream (server-sent events of PATH), socket (a realtime WebSocket), listen (the
// same with a listen on PATH), poll (a long-polling session with a request under way); or raw-stream and raw-listen,
// whose server (broadcast.c) sends the same events without being asked.
#include "client.h"

#include <sys/epoll.h>

enum kind { idle, stream, socket_only, listening, poll_session, raw_stream, raw_listen };
static const char *names[] = {"idle", "stream", "socket", "listen", "poll", "raw-stream", "raw-listen"};

struct connection {
    int fd;
    uint8_t kind, ends_with_newline;
    // How much of `mark` was just read (all of it: a number is being read), that number, and the one before it.
    uint8_t matched;
    long long number, last;
    struct frames frames;
};

static int port;
static const char *path;
static char buffer[1 << 18];
static long long total;

// MARK: Opening

static int has_event(const char *bytes, size_t size) {
    return size > 2 && memmem(bytes, size, "event: put", 10) && !memcmp(bytes + size - 2, "\n\n", 2);
}

// The answer to a GET of /.health/live.
static int has_constant(const char *bytes, size_t size) { return size > 2 && !memcmp(bytes + size - 2, "}\n", 2); }

static int has_opening(const char *bytes, size_t size) { return size > 3 && !memcmp(bytes + size - 3, "]);", 3); }

static void ask(struct connection *connection) {
    char text[1024];
    int fd = connection->fd = connected(port);
    switch (connection->kind) {
    case idle:
        snprintf(text, sizeof text, "GET /.health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        return send_all(fd, text, strlen(text));
    case stream:
        snprintf(text, sizeof text,
                 "GET %s.json HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n", path);
        return send_all(fd, text, strlen(text));
    case socket_only:
    case listening: return send_handshake(fd);
    case poll_session:
        snprintf(text, sizeof text, "GET /.lp?start=t&ser=1&cb=1&v=5 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        return send_all(fd, text, strlen(text));
    case raw_stream: return send_all(fd, "s", 1);
    case raw_listen: return send_all(fd, "l", 1);
    }
}

static void expect_status(const char *answer, const char *status) {
    if (strncmp(answer, "HTTP/1.1 ", 9) || strncmp(answer + 9, status, 3)) fail("refused: %.200s", answer);
}

static const char mark[] = "\"message ";

// Events may come in any pieces.
static void follow(struct connection *connection, const char *bytes, size_t size) {
    for (const char *at = bytes, *end = bytes + size; at < end; at++) {
        if (connection->matched == sizeof mark - 1) {
            if (*at >= '0' && *at <= '9') {
                connection->number = connection->number * 10 + (*at - '0');
                continue;
            }
            if (connection->last && connection->number != connection->last + 1)
                fail("event %lld came behind event %lld", connection->number, connection->last);
            connection->last = connection->number;
            connection->number = connection->matched = 0;
        } else if (*at == mark[connection->matched]) {
            connection->matched++;
        } else if (connection->matched) {
            connection->matched = *at == mark[0];
        } else if (!(at = memchr(at, mark[0], end - at))) {
            return;
        } else {
            connection->matched = 1;
        }
    }
}

// Goes on once the first answer has come.
static void answered(struct connection *connection) {
    int fd = connection->fd;
    switch (connection->kind) {
    case idle:
        read_until(fd, buffer, sizeof buffer, has_constant);
        return expect_status(buffer, "200");
    case stream:
        follow(connection, buffer, read_until(fd, buffer, sizeof buffer, has_event));
        return expect_status(buffer, "200");
    case socket_only:
    case listening: {
        read_until(fd, buffer, sizeof buffer, has_greeting);
        expect_status(buffer, "101");
        if (connection->kind == socket_only) return;
        char text[1024];
        unsigned char frame[1040];
        int length = snprintf(
            text, sizeof text, "{\"t\":\"d\",\"d\":{\"r\":1,\"a\":\"q\",\"b\":{\"p\":\"%s\",\"h\":\"\"}}}", path);
        return send_all(fd, frame, put_frame(frame, 1, text, length));
    }
    case poll_session: {
        read_until(fd, buffer, sizeof buffer, has_opening);
        expect_status(buffer, "200");
        char id[100], password[100], text[1024];
        char *start = strstr(buffer, "pLPCommand('start','");
        if (!start || sscanf(start, "pLPCommand('start','%99[0-9A-Za-z]','%99[0-9A-Za-z]')", id, password) != 2)
            fail("no session: %.300s", buffer);
        snprintf(text, sizeof text, "GET /.lp?id=%s&pw=%s&ser=2 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", id, password);
        return send_all(fd, text, strlen(text));
    }
    case raw_stream:
    case raw_listen: return;
    }
}

// The value of a listen, and its answer.
static void listens(struct connection *connection) {
    struct frames frames = {0};
    for (int count = 0, ended; count < 2;) {
        ssize_t size = recv(connection->fd, buffer, sizeof buffer, 0);
        if (size <= 0) fail("closed while beginning to listen");
        follow(connection, buffer, size);
        for (ssize_t at = 0; at < size; count += ended)
            at += frame_step(&frames, (unsigned char *)buffer + at, size - at, &ended);
        if (count == 2 && !memmem(buffer, size, "\"s\":\"ok\"", 8)) fail("a listen was refused");
    }
}

// MARK: Events

static void take_stream(struct connection *connection, const char *bytes, size_t size) {
    // Events end with an empty line, whose two newlines may come apart.
    const char *at = bytes, *end = bytes + size;
    if (connection->ends_with_newline && *at == '\n') {
        total++;
        at++;
    }
    while ((at = memmem(at, end - at, "\n\n", 2))) {
        total++;
        at += 2;
    }
    connection->ends_with_newline = end[-1] == '\n' && !(size > 1 && end[-2] == '\n');
}

static void take_frames(struct connection *connection, const char *bytes, size_t size) {
    for (size_t at = 0; at < size;) {
        int ended;
        at += frame_step(&connection->frames, (const unsigned char *)bytes + at, size - at, &ended);
        if (!ended) continue;
        if (connection->frames.opcode == 1) total++;
        if (connection->frames.opcode == 9) {
            unsigned char pong[14];
            send_all(connection->fd, pong, put_frame(pong, 10, "", 0));
        }
        if (connection->frames.opcode == 8) fail("the gateway closed a WebSocket");
    }
}

int main(int count_of_words, char **words) {
    if (count_of_words < 5) fail("usage: connections PORT PATH KIND COUNT [KIND COUNT]...");
    port = atoi(words[1]);
    path = words[2];
    size_t count = 0;
    for (int word = 4; word < count_of_words; word += 2) count += atoi(words[word]);
    struct connection *all = allocated(count, sizeof *all), *next = all;
    for (int word = 3; word + 1 < count_of_words; word += 2) {
        int kind = 0, last = sizeof names / sizeof *names - 1;
        while (strcmp(names[kind], words[word])) {
            if (kind++ == last) fail("unknown kind: %s", words[word]);
        }
        for (int number = atoi(words[word + 1]); number > 0; number--) next++->kind = kind;
    }
    // Some at a time, so that no queue of the gateway's overflows.
    for (size_t first = 0; first < count; first += 200) {
        size_t end = first + 200 < count ? first + 200 : count;
        for (size_t index = first; index < end; index++) ask(&all[index]);
        for (size_t index = first; index < end; index++) answered(&all[index]);
        for (size_t index = first; index < end; index++)
            if (all[index].kind == listening) listens(&all[index]);
    }

    int epoll = epoll_create1(EPOLL_CLOEXEC);
    for (size_t index = 0; index < count; index++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[index]};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, all[index].fd, &event)) fail("epoll: %s", strerror(errno));
    }
    struct epoll_event input = {.events = EPOLLIN, .data.ptr = NULL}, ready[512];
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, 0, &input)) fail("epoll: %s", strerror(errno));
    puts("ready");
    fflush(stdout);

    for (long long told = 0;;) {
        int waiting = epoll_wait(epoll, ready, 512, -1);
        for (int index = 0; index < waiting; index++) {
            struct connection *connection = ready[index].data.ptr;
            if (!connection) return 0;
            ssize_t size = recv(connection->fd, buffer, sizeof buffer, MSG_DONTWAIT);
            if (size < 0 && (errno == EAGAIN || errno == EINTR)) continue;
            if (size <= 0) fail("the server closed a connection");
            follow(connection, buffer, size);
            switch (connection->kind) {
            case stream:
            case raw_stream: take_stream(connection, buffer, size); break;
            case socket_only:
            case listening:
            case raw_listen: take_frames(connection, buffer, size); break;
            default: break;
            }
        }
        if (total / (long long)count > told) {
            told = total / count;
            printf("%lld %lld\n", told, now_ns());
            fflush(stdout);
        }
    }
}
