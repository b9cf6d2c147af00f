// Writes over realtime WebSockets, so many at a time on each.
//
//   writers PORT CONNECTIONS IN-FLIGHT SECONDS KEYS LENGTH SEED
//
// Each connection keeps IN-FLIGHT puts to /bench/k1 … /bench/kKEYS unanswered; values are strings of LENGTH bytes that differ
// from write to write. Ends with a line of JSON: answers, those that were not ok, microseconds, and percentiles of the time
// from a put to its answer in microseconds.
#include "client.h"

#include <sys/epoll.h>

struct connection {
    int fd;
    struct frames frames;
    char text[512];
    size_t text_size;
    long long number, *sent_at;
};

static int in_flight, keys, length;
static uint64_t dice;
static char filler[4096];
static long long answers, wrong;
static uint32_t *times;
static const long long times_max = 1 << 22;

static unsigned roll(unsigned sides) {
    dice = dice * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(dice >> 33) % sides;
}

static void put(struct connection *connection, unsigned char *out, size_t *size) {
    char text[4600];
    long long number = ++connection->number;
    int count = snprintf(
        text, sizeof text, "{\"t\":\"d\",\"d\":{\"r\":%lld,\"a\":\"p\",\"b\":{\"p\":\"/bench/k%u\",\"d\":\"%.*s%09u\"}}}",
        number, 1 + roll(keys), length - 9, filler, 100000000 + roll(900000000));
    *size += put_frame(out + *size, 1, text, count);
    connection->sent_at[number % in_flight] = now_ns();
}

// Looks at an answer; {"t":"d","d":{"r":NUMBER,"b":{"s":"ok","d":""}}}
static void take(struct connection *connection, long long now) {
    connection->text[connection->text_size] = 0;
    char *number = strstr(connection->text, "\"r\":");
    if (!number) fail("no answer: %s", connection->text);
    if (!strstr(connection->text, "\"s\":\"ok\"")) wrong++;
    if (answers < times_max) times[answers] = (now - connection->sent_at[atoll(number + 4) % in_flight]) / 1000;
    answers++;
}

static int by_size(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

int main(int count_of_words, char **words) {
    if (count_of_words != 8) fail("usage: writers PORT CONNECTIONS IN-FLIGHT SECONDS KEYS LENGTH SEED");
    int port = atoi(words[1]), count = atoi(words[2]);
    in_flight = atoi(words[3]);
    double seconds = atof(words[4]);
    keys = atoi(words[5]);
    length = atoi(words[6]);
    dice = strtoull(words[7], NULL, 10) * 2654435761u + 12345;
    if (length < 9 || length > 4000) fail("LENGTH must be 9 to 4000");
    memset(filler, 'x', sizeof filler);
    times = allocated(times_max, sizeof *times);
    unsigned char *out = allocated(in_flight, 5000);
    static char buffer[1 << 17];
    struct connection *all = allocated(count, sizeof *all);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int index = 0; index < count; index++) {
        struct connection *connection = &all[index];
        connection->fd = connected(port);
        connection->sent_at = allocated(in_flight, sizeof *connection->sent_at);
        send_handshake(connection->fd);
        read_until(connection->fd, buffer, sizeof buffer, has_greeting);
        if (strncmp(buffer, "HTTP/1.1 101", 12)) fail("refused: %.200s", buffer);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, connection->fd, &event)) fail("epoll: %s", strerror(errno));
    }

    long long start = now_ns(), stop = start + (long long)(seconds * 1e9), now = start;
    for (int index = 0; index < count; index++) {
        size_t size = 0;
        for (int number = 0; number < in_flight; number++) put(&all[index], out, &size);
        send_all(all[index].fd, out, size);
    }
    struct epoll_event ready[256];
    while (now < stop) {
        int waiting = epoll_wait(epoll, ready, 256, 1000);
        for (int index = 0; index < waiting; index++) {
            struct connection *connection = ready[index].data.ptr;
            ssize_t size = recv(connection->fd, buffer, sizeof buffer, MSG_DONTWAIT);
            if (size < 0 && (errno == EAGAIN || errno == EINTR)) continue;
            if (size <= 0) fail("the gateway closed a connection");
            now = now_ns();
            size_t out_size = 0;
            for (ssize_t at = 0; at < size;) {
                int ended;
                size_t used = frame_step(&connection->frames, (unsigned char *)buffer + at, size - at, &ended);
                // Answers are short; the head's bytes before them do no harm.
                size_t room = sizeof connection->text - 1 - connection->text_size, part = used < room ? used : room;
                memcpy(connection->text + connection->text_size, buffer + at, part);
                connection->text_size += part;
                at += used;
                if (!ended) continue;
                if (connection->frames.opcode == 1) {
                    // Zeros in a frame's head would end the text.
                    char *json = memchr(connection->text, '{', connection->text_size);
                    if (!json) fail("no answer");
                    connection->text_size -= json - connection->text;
                    memmove(connection->text, json, connection->text_size);
                    take(connection, now);
                    put(connection, out, &out_size);
                } else if (connection->frames.opcode == 8) {
                    fail("the gateway closed a WebSocket");
                }
                connection->text_size = 0;
            }
            if (out_size > 0) send_all(connection->fd, out, out_size);
        }
        now = now_ns();
    }
    long long micros = (now - start) / 1000, known = answers < times_max ? answers : times_max;
    if (known == 0) fail("no answers");
    qsort(times, known, sizeof *times, by_size);
    printf("{\"answers\": %lld, \"wrong\": %lld, \"micros\": %lld, \"p50\": %u, \"p99\": %u}\n", answers, wrong, micros,
           times[known / 2], times[known * 99 / 100]);
    return 0;
}
