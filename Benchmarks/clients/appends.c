// Appends to a Redis stream, a fixed number at a time on each connection: the same as writers.c, in Redis' protocol.
//
//   appends PORT CONNECTIONS IN-FLIGHT SECONDS KEYS LENGTH SEED
//
// Each connection keeps IN-FLIGHT XADDs to the stream "bench" unanswered; values are strings of LENGTH bytes that differ from
// write to write, beside one of KEYS names. Ends with a line of JSON as writers.c does.
#include "queues.h"

#include <sys/epoll.h>

struct connection {
    int fd;
    struct text in, out;
    long long sent, got, *sent_at;
};

static int in_flight, keys, length;
static uint64_t dice;
static char filler[4096];
static long long answers;
static uint32_t *times;
static const long long times_max = 1 << 22;

static unsigned roll(unsigned sides) {
    dice = dice * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(dice >> 33) % sides;
}

static void append(struct connection *connection) {
    connection->sent_at[connection->sent++ % in_flight] = now_ns();
    char name[16];
    int size = snprintf(name, sizeof name, "k%u", 1 + roll(keys));
    add(&connection->out, "*5\r\n$4\r\nXADD\r\n$5\r\nbench\r\n$1\r\n*\r\n$%d\r\n%s\r\n$%d\r\n%.*s%09u\r\n", size, name, length, length - 9,
        filler, 100000000 + roll(900000000));
}

static void send_out(struct connection *connection) {
    send_all(connection->fd, connection->out.bytes, connection->out.size);
    connection->out.size = 0;
}

static int by_size(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void receive(struct connection *connection) {
    struct text *in = &connection->in;
    reserve(in, 1 << 16);
    ssize_t count = recv(connection->fd, in->bytes + in->size, in->room - in->size - 1, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) fail("redis closed a connection");
    in->size += count;
    long long now = now_ns();
    size_t at = 0, whole;
    // Answers come in the order of the requests; an error ends the program.
    while (at < in->size && (whole = resp_value(in->bytes + at, in->size - at, 0, NULL))) {
        at += whole;
        if (answers < times_max) times[answers] = (now - connection->sent_at[connection->got % in_flight]) / 1000;
        connection->got++;
        answers++;
        append(connection);
    }
    memmove(in->bytes, in->bytes + at, in->size - at);
    in->size -= at;
    if (connection->out.size) send_out(connection);
}

int main(int count_of_words, char **words) {
    if (count_of_words != 8) fail("usage: appends PORT CONNECTIONS IN-FLIGHT SECONDS KEYS LENGTH SEED");
    int port = atoi(words[1]), count = atoi(words[2]);
    in_flight = atoi(words[3]);
    double seconds = atof(words[4]);
    keys = atoi(words[5]);
    length = atoi(words[6]);
    dice = strtoull(words[7], NULL, 10) * 2654435761u + 12345;
    if (length < 9 || length > 900) fail("LENGTH must be 9 to 900");
    memset(filler, 'x', sizeof filler);
    times = allocated(times_max, sizeof *times);
    struct connection *all = allocated(count, sizeof *all);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int index = 0; index < count; index++) {
        all[index].fd = connected(port);
        all[index].sent_at = allocated(in_flight, sizeof *all[index].sent_at);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[index]};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, all[index].fd, &event)) fail("epoll: %s", strerror(errno));
    }
    long long start = now_ns(), stop = start + (long long)(seconds * 1e9);
    for (int index = 0; index < count; index++) {
        for (int number = 0; number < in_flight; number++) append(&all[index]);
        send_out(&all[index]);
    }
    struct epoll_event ready[256];
    while (now_ns() < stop) {
        int waiting = epoll_wait(epoll, ready, 256, 1000);
        for (int index = 0; index < waiting; index++) receive(ready[index].data.ptr);
    }
    long long micros = (now_ns() - start) / 1000, known = answers < times_max ? answers : times_max;
    if (known == 0) fail("no answers");
    qsort(times, known, sizeof *times, by_size);
    printf("{\"answers\": %lld, \"wrong\": 0, \"micros\": %lld, \"p50\": %u, \"p99\": %u}\n", answers, micros, times[known / 2],
           times[known * 99 / 100]);
    return 0;
}
