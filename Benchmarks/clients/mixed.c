// Writes at a fixed rate, independent of the server (an open loop), and subscribers that each must get their events: all of them, once and
// in order.
//
//   mixed PORT NODE WRITERS SUBSCRIBERS RATE SECONDS LENGTH PATIENCE
//
// Write number n is due RATE times a second, goes to NODE/s(n mod SUBSCRIBERS), and by the WebSocket that this path always has; it is sent
// when it is due, or as soon afterwards as there is room for it, and all times count from its due time: a stalled server is charged for
// the waiting time. Each path has one subscriber by server-sent events. The program ends when all events have arrived, or none has arrived
// for PATIENCE seconds after the last write. Ends with a line of JSON: writes, answers that were
// ok, events, events that were not the next of their path, how late writes were sent, and the times to answers and events, in microseconds.
#include "queues.h"

#include <sys/epoll.h>

// Both begin with the same members, which include the kind.
struct writer {
    int fd, is_writer;
    struct frames frames;
    struct text in, out;
    size_t sent;
    long long number, room, *due;
};

struct subscriber {
    int fd, is_writer;
    struct text in;
    long long seen;
};

struct times {
    uint32_t *values;
    long long count;
};

static int port, writers, subscribers, length;
static const char *node;
static long long total, answered, wrong_answers, events, out_of_order, last;
static struct times answers, arrivals, lateness;
static struct writer *all_writers;
static struct subscriber *all_subscribers;

static void note(struct times *times, long long since, long long now) {
    long long micros = (now - since) / 1000;
    if (times->count < total) times->values[times->count++] = micros < 0 ? 0 : micros > UINT32_MAX ? UINT32_MAX : micros;
}

// MARK: Opening

static int has_put(const char *bytes, size_t size) {
    return size > 2 && memmem(bytes, size, "event: put", 10) && !memcmp(bytes + size - 2, "\n\n", 2);
}

static void open_all(int epoll) {
    static char buffer[1 << 16];
    for (int index = 0; index < subscribers; index++) {
        struct subscriber *subscriber = &all_subscribers[index];
        subscriber->fd = connected(port);
        int size = snprintf(buffer, sizeof buffer, "GET %s/s%d.json HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n", node, index);
        send_all(subscriber->fd, buffer, size);
        // The initial value: none, or that of an earlier run, which is no event of this one.
        read_until(subscriber->fd, buffer, sizeof buffer, has_put);
        if (strncmp(buffer, "HTTP/1.1 200", 12)) fail("refused: %.200s", buffer);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = subscriber};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, subscriber->fd, &event)) fail("epoll: %s", strerror(errno));
    }
    for (int index = 0; index < writers; index++) {
        struct writer *writer = &all_writers[index];
        writer->fd = connected(port);
        writer->is_writer = 1;
        // Paths are dealt out to the writers, to some one more than to others.
        writer->room = ((subscribers + writers - 1) / writers) * (total / subscribers + 1) + 2;
        writer->due = allocated(writer->room, sizeof *writer->due);
        send_handshake(writer->fd);
        read_until(writer->fd, buffer, sizeof buffer, has_greeting);
        if (strncmp(buffer, "HTTP/1.1 101", 12)) fail("refused: %.200s", buffer);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = writer};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, writer->fd, &event)) fail("epoll: %s", strerror(errno));
    }
}

// MARK: Sending

static void begin_write(long long number, long long due) {
    int subscriber = number % subscribers;
    struct writer *writer = &all_writers[subscriber % writers];
    char text[4600], value[4096];
    int size = snprintf(value, sizeof value, "@%lld#%lld@", due, number / subscribers);
    memset(value + size, 'x', length - size);
    if (writer->number + 1 >= writer->room) fail("too many writes for a writer");
    writer->due[++writer->number] = due;
    size = snprintf(text, sizeof text, "{\"t\":\"d\",\"d\":{\"r\":%lld,\"a\":\"p\",\"b\":{\"p\":\"%s/s%d\",\"d\":\"%.*s\"}}}", writer->number,
                    node, subscriber, length, value);
    reserve(&writer->out, size + 14);
    writer->out.size += put_frame((unsigned char *)writer->out.bytes + writer->out.size, 1, text, size);
}

static void flush(struct writer *writer) {
    while (writer->sent < writer->out.size) {
        ssize_t sent = send(writer->fd, writer->out.bytes + writer->sent, writer->out.size - writer->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EAGAIN) return;
        if (sent < 0) fail("cannot send: %s", strerror(errno));
        writer->sent += sent;
    }
    writer->out.size = writer->sent = 0;
}

// MARK: Receiving

static ssize_t receive(int fd, struct text *in) {
    reserve(in, 1 << 16);
    ssize_t count = recv(fd, in->bytes + in->size, in->room - in->size - 1, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (count <= 0) fail("the gateway closed a connection");
    in->size += count;
    in->bytes[in->size] = 0;
    return count;
}

static void take_answers(struct writer *writer) {
    static char text[1 << 16];
    static size_t text_size;
    ssize_t count = receive(writer->fd, &writer->in);
    long long now = now_ns();
    size_t at = 0, begin = 0;
    struct frames frames = {0};
    while (count > 0 && at < writer->in.size) {
        int ended;
        at += frame_step(&frames, (unsigned char *)writer->in.bytes + at, writer->in.size - at, &ended);
        if (!ended) break;
        text_size = at - begin < sizeof text - 1 ? at - begin : sizeof text - 1;
        memcpy(text, writer->in.bytes + begin, text_size);
        text[text_size] = 0;
        begin = at;
        if (frames.opcode == 8) fail("the gateway closed a WebSocket");
        char *json = frames.opcode == 1 ? memchr(text, '{', text_size) : NULL;
        char *number = json ? strstr(json, "\"r\":") : NULL;
        if (!number) continue;
        long long request = atoll(number + 4);
        if (request < 1 || request > writer->number || !writer->due[request]) fail("an answer to nothing, or a second one: %.200s", json);
        if (!strstr(json, "\"s\":\"ok\"")) wrong_answers++;
        note(&answers, writer->due[request], now);
        writer->due[request] = 0;
        answered++;
        last = now;
    }
    memmove(writer->in.bytes, writer->in.bytes + begin, writer->in.size - begin);
    writer->in.size -= begin;
}

static void take_event(struct subscriber *subscriber, const char *bytes, const char *end, long long now) {
    if (strncmp(bytes, "event: put", 10)) return;
    const char *mark = memchr(bytes, '@', end - bytes);
    long long due, number;
    if (!mark || sscanf(mark, "@%lld#%lld@", &due, &number) != 2) fail("an event of nobody: %.200s", bytes);
    events++;
    last = now;
    if (number != subscriber->seen) out_of_order++;
    subscriber->seen = number + 1;
    note(&arrivals, due, now);
}

static void take_events(struct subscriber *subscriber) {
    struct text *in = &subscriber->in;
    if (receive(subscriber->fd, in) == 0) return;
    long long now = now_ns();
    char *at = in->bytes, *end = in->bytes + in->size, *found;
    while ((found = memmem(at, end - at, "\n\n", 2))) {
        *found = 0;
        while (*at == '\n') at++;
        take_event(subscriber, at, found, now);
        at = found + 2;
    }
    memmove(in->bytes, at, end - at);
    in->size = end - at;
}

// MARK: The loop

static int by_size(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void print_times(const char *name, struct times *times) {
    static const struct {
        const char *name;
        double share;
    } parts[] = {{"50", 0.5}, {"90", 0.9}, {"99", 0.99}, {"999", 0.999}, {"max", 1}};
    qsort(times->values, times->count, sizeof *times->values, by_size);
    for (int part = 0; part < 5; part++)
        printf(", \"%s%s\": %u", name, parts[part].name, times->count ? times->values[(long long)((times->count - 1) * parts[part].share)] : 0);
}

int main(int count_of_words, char **words) {
    if (count_of_words != 9) fail("usage: mixed PORT NODE WRITERS SUBSCRIBERS RATE SECONDS LENGTH PATIENCE");
    port = atoi(words[1]), node = words[2], writers = atoi(words[3]), subscribers = atoi(words[4]), length = atoi(words[7]);
    double rate = atof(words[5]), seconds = atof(words[6]), patience = atof(words[8]);
    if (length < 40 || length > 4000) fail("LENGTH must be 40 to 4000");
    total = (long long)(rate * seconds);
    answers.values = allocated(total, sizeof(uint32_t)), arrivals.values = allocated(total, sizeof(uint32_t));
    lateness.values = allocated(total, sizeof(uint32_t));
    all_writers = allocated(writers, sizeof *all_writers), all_subscribers = allocated(subscribers, sizeof *all_subscribers);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    open_all(epoll);
    long long start = now_ns() + 1000000, number = 0, now = now_ns();
    struct epoll_event ready[256];
    last = start;
    while ((answered < total || events < total) && (number < total || now < last + (long long)(1e9 * patience))) {
        now = now_ns();
        for (long long due; number < total && (due = start + (long long)(1e9 * number / rate)) <= now; number++) {
            begin_write(number, due);
            note(&lateness, due, now);
        }
        for (int index = 0; index < writers; index++) flush(&all_writers[index]);
        // Waits some tenths of a millisecond: a busy loop would take the processor that the server needs.
        struct timespec wait = {0, 300000};
        int count = epoll_pwait2(epoll, ready, 256, &wait, NULL);
        for (int index = 0; index < count; index++) {
            struct writer *writer = (struct writer *)ready[index].data.ptr;
            if (writer->is_writer) take_answers(writer);
            else take_events((struct subscriber *)writer);
        }
    }
    printf("{\"writes\": %lld, \"ok\": %lld, \"events\": %lld, \"outOfOrder\": %lld, \"micros\": %lld", number, answered - wrong_answers, events,
           out_of_order, (last - start) / 1000);
    print_times("late", &lateness);
    print_times("answer", &answers);
    print_times("event", &arrivals);
    puts("}");
    return 0;
}
