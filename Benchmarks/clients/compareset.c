// Clients read counters, and increment them if no other client has set them meanwhile.
//
//   compareset gateway|etcd PORT CLIENTS KEYS SECONDS SEED
//
// Each client takes one of KEYS counters by the dice, reads it, and repeats its write until it succeeds; a refusal has the current value. The
// counters must exist. Ends with a line of JSON: the numbers of successes and of refused attempts, the microseconds, percentiles of the
// microseconds from a client's first read to its success, and the sum of the counters at the end less that at the beginning: if it differs
// from the number of successes, an answer was wrong.
#include "queues.h"

#include <sys/epoll.h>

struct client {
    int fd, key, is_reading;
    struct text in, out;
    // The current value, and the condition of a write: an entity tag, or a revision.
    long long value;
    char tag[64];
    long long since;
};

static int is_etcd, keys;
static uint64_t dice;
static long long set, refused;
static uint32_t *times;
static const long long times_max = 1 << 22;

static unsigned roll(unsigned sides) {
    dice = dice * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(dice >> 33) % sides;
}

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void encode(char *out, const char *text) {
    size_t size = strlen(text);
    for (size_t at = 0; at < size; at += 3) {
        unsigned bits = (unsigned char)text[at] << 16 | (at + 1 < size ? (unsigned char)text[at + 1] << 8 : 0)
                        | (at + 2 < size ? (unsigned char)text[at + 2] : 0);
        *out++ = letters[bits >> 18];
        *out++ = letters[bits >> 12 & 63];
        *out++ = at + 1 < size ? letters[bits >> 6 & 63] : '=';
        *out++ = at + 2 < size ? letters[bits & 63] : '=';
    }
    *out = 0;
}

static void decode(char *out, const char *text) {
    unsigned bits = 0, count = 0;
    for (const char *found; *text && *text != '"' && *text != '='; text++) {
        if (!(found = strchr(letters, *text))) fail("no base64: %.60s", text);
        bits = bits << 6 | (unsigned)(found - letters);
        if (++count % 4 != 1) *out++ = bits >> (count % 4 == 2 ? 4 : count % 4 == 3 ? 2 : 0) & 255;
    }
    *out = 0;
}

static void post(struct text *out, const char *path, const char *body) {
    add(out, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s", path, strlen(body), body);
}

static void send_out(struct client *client) {
    send_all(client->fd, client->out.bytes, client->out.size);
    client->out.size = 0;
}

static void read_value(struct client *client) {
    client->is_reading = 1;
    if (is_etcd) {
        char name[32], key[64], body[128];
        snprintf(name, sizeof name, "/counter/%d", client->key);
        encode(key, name);
        snprintf(body, sizeof body, "{\"key\":\"%s\"}", key);
        post(&client->out, "/v3/kv/range", body);
    } else {
        add(&client->out, "GET /counter/k%d.json HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Firebase-ETag: true\r\n\r\n", client->key);
    }
    send_out(client);
}

static void begin(struct client *client) {
    client->key = roll(keys);
    client->since = now_ns();
    read_value(client);
}

static void try_to_set(struct client *client) {
    char number[32];
    client->is_reading = 0;
    int size = snprintf(number, sizeof number, "%lld", client->value + 1);
    if (is_etcd) {
        char name[32], key[64], value[64], body[512];
        snprintf(name, sizeof name, "/counter/%d", client->key);
        encode(key, name);
        encode(value, number);
        snprintf(body, sizeof body,
                 "{\"compare\":[{\"key\":\"%s\",\"target\":\"MOD\",\"modRevision\":\"%s\"}],\"success\":[{\"requestPut\":{\"key\":\"%s\","
                 "\"value\":\"%s\"}}],\"failure\":[{\"requestRange\":{\"key\":\"%s\"}}]}",
                 key, client->tag, key, value, key);
        post(&client->out, "/v3/kv/txn", body);
    } else {
        add(&client->out, "PUT /counter/k%d.json HTTP/1.1\r\nHost: 127.0.0.1\r\nif-match: %s\r\nContent-Length: %d\r\n\r\n%s", client->key,
            client->tag, size, number);
    }
    send_out(client);
}

// Takes the current value from an answer.
static void learn(struct client *client, const char *answer) {
    if (is_etcd) {
        const char *revision = strstr(answer, "\"mod_revision\":\""), *value = strstr(answer, "\"value\":\"");
        char text[64];
        if (!revision || !value || sscanf(revision + 16, "%63[0-9]", client->tag) != 1) fail("no counter: %.400s", answer);
        decode(text, value + 9);
        client->value = atoll(text);
    } else {
        const char *tag = strcasestr(answer, "\r\netag: "), *body = strstr(answer, "\r\n\r\n");
        if (!tag || sscanf(tag + 8, "%63[^\r]", client->tag) != 1) fail("no entity tag: %.400s", answer);
        client->value = atoll(body + 4);
    }
}

static void take(struct client *client, const char *answer) {
    int status = atoi(answer + 9);
    int is_refused = is_etcd ? !client->is_reading && !strstr(answer, "\"succeeded\":true") : status == 412;
    if (status != 200 && !is_refused) fail("an answer: %.400s", answer);
    if (client->is_reading || is_refused) {
        refused += is_refused;
        learn(client, answer);
        try_to_set(client);
        return;
    }
    if (set < times_max) times[set] = (now_ns() - client->since) / 1000;
    set++;
    begin(client);
}

// Whether an answer is whole: one with a length.
static size_t whole_answer(const char *bytes, size_t size) {
    const char *end = memmem(bytes, size, "\r\n\r\n", 4);
    const char *length = end ? strcasestr(bytes, "\r\ncontent-length:") : NULL;
    if (!end) return 0;
    if (!length || length > end) fail("an answer without a length: %.300s", bytes);
    size_t whole = end + 4 - bytes + strtoull(length + 17, NULL, 10);
    return size < whole ? 0 : whole;
}

// One answer, or nothing yet.
static int receive(struct client *client, int flags) {
    struct text *in = &client->in;
    reserve(in, 1 << 14);
    ssize_t count = recv(client->fd, in->bytes + in->size, in->room - in->size - 1, flags);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (count <= 0) fail("the server closed a connection");
    in->size += count;
    in->bytes[in->size] = 0;
    return whole_answer(in->bytes, in->size) > 0;
}

static long long sum(struct client *client) {
    long long total = 0;
    for (client->key = 0; client->key < keys; client->key++) {
        read_value(client);
        while (!receive(client, 0)) {}
        learn(client, client->in.bytes);
        client->in.size = 0;
        total += client->value;
    }
    return total;
}

static int by_size(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

int main(int count_of_words, char **words) {
    if (count_of_words != 7) fail("usage: compareset gateway|etcd PORT CLIENTS KEYS SECONDS SEED");
    is_etcd = !strcmp(words[1], "etcd");
    int port = atoi(words[2]), count = atoi(words[3]);
    keys = atoi(words[4]);
    double seconds = atof(words[5]);
    dice = strtoull(words[6], NULL, 10) * 2654435761u + 12345;
    times = allocated(times_max, sizeof *times);
    struct client reader = {.fd = connected(port)}, *all = allocated(count, sizeof *all);
    long long before = sum(&reader);
    int epoll = epoll_create1(EPOLL_CLOEXEC), open = count;
    for (int index = 0; index < count; index++) {
        all[index].fd = connected(port);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[index]};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, all[index].fd, &event)) fail("epoll: %s", strerror(errno));
    }
    long long start = now_ns(), stop = start + (long long)(seconds * 1e9), counted = 0, wasted = 0, end = 0;
    for (int index = 0; index < count; index++) begin(&all[index]);
    struct epoll_event ready[256];
    while (open) {
        int waiting = epoll_wait(epoll, ready, 256, 1000);
        for (int index = 0; index < waiting; index++) {
            struct client *client = ready[index].data.ptr;
            if (!receive(client, MSG_DONTWAIT)) continue;
            int was_try = !client->is_reading;
            client->in.size = 0;
            if (now_ns() >= stop) {
                // What is under way is waited for, and counted in the sum only.
                if (!end) end = now_ns(), counted = set, wasted = refused;
                const char *answer = client->in.bytes;
                if (was_try && (is_etcd ? strstr(answer, "\"succeeded\":true") != NULL : atoi(answer + 9) == 200)) set++;
                epoll_ctl(epoll, EPOLL_CTL_DEL, client->fd, NULL);
                open--;
                continue;
            }
            take(client, client->in.bytes);
        }
    }
    long long known = counted < times_max ? counted : times_max, after = sum(&reader);
    if (!known) fail("nothing was set");
    qsort(times, known, sizeof *times, by_size);
    printf("{\"set\": %lld, \"refused\": %lld, \"micros\": %lld, \"p50\": %u, \"p99\": %u, \"answered\": %lld, \"counted\": %lld}\n", counted,
           wasted, (end - start) / 1000, times[known / 2], times[known * 99 / 100], set, after - before);
    return 0;
}
