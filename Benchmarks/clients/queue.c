// Producers and acknowledging consumers of a queue, in one thread.
//
//   queue feed PORT FEED …  |  queue redis PORT STREAM …  |  queue pgq CONNINFO QUEUE …
//     … PRODUCERS RATE CONSUMERS MAX batch|each EVENTS SECONDS KEYS LENGTH
//
// Producers write values of LENGTH bytes to KEYS records, one unanswered each, RATE a second together (0: as fast as they are answered),
// for SECONDS or until there are EVENTS of them (0: no bound). Consumers take up to MAX at a time and acknowledge, all of them with one
// request or each with its own. Without producers it ends when EVENTS were acknowledged, else when everything that was written was, or
// ten seconds after the last write. PgQ has a queue for each consumer: QUEUE with its number appended.
//
// Ends with a line of JSON: the numbers of produced, taken and acknowledged messages, the microseconds from the first request to the last
// acknowledgement, and percentiles of the microseconds from sending a write to receiving its message, and to receiving its answer.
#include "queues.h"

#include <libpq-fe.h>
#include <poll.h>
#include <sys/epoll.h>

enum kind { FEED, REDIS, PGQ };
enum state { IDLE, WRITING, PULLING, READING, ACKNOWLEDGING };

struct connection {
    int fd, number, is_producer;
    PGconn *sql;
    enum state state;
    struct text in, out;
    struct ids ids;
    // Answers that are still to come, of acknowledgements.
    int awaited;
    char batch[32];
    long long due, sent;
};

static enum kind kind;
static const char *target, *name;
static int producers, consumers, max_messages, keys, length, each;
static double rate;
static long long events, begun, produced, taken, acknowledged, stop, last;
static uint64_t dice = 88172645463325252ULL;
static const int times_max = 1 << 22;
static uint32_t *times, *answers;
static int times_count, answers_count;

static unsigned roll(unsigned sides) {
    dice = dice * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(dice >> 33) % sides;
}

static void note(uint32_t *where, int *count, long long since) {
    if (*count < times_max) where[(*count)++] = (now_ns() - since) / 1000;
}

static void note_time(long long sent) {
    taken++;
    note(times, &times_count, sent);
}

static void flush_out(struct connection *connection) {
    struct text *out = &connection->out;
    size_t at = 0;
    while (at < out->size) {
        ssize_t sent = send(connection->fd, out->bytes + at, out->size - at, MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (sent < 0) fail("cannot send: %s", strerror(errno));
        at += sent;
    }
    out->size = 0;
}

static void ask_sql(struct connection *connection, const char *text, int count, const char *const *values) {
    if (!PQsendQueryParams(connection->sql, text, count, NULL, values, NULL, NULL, 0)) fail("%s", PQerrorMessage(connection->sql));
    PQflush(connection->sql);
}

// MARK: What is asked for

static void produce(struct connection *connection) {
    char value[4096], queue[64];
    int key = roll(keys);
    connection->state = WRITING;
    begun++;
    connection->sent = now_ns();
    put_value(value, length);
    if (kind == PGQ) {
        snprintf(queue, sizeof queue, "%s%d", name, key % (consumers ? consumers : 1));
        const char *values[] = {queue, value};
        ask_sql(connection, "select pgq.insert_event($1, 'write', $2)", 2, values);
        return;
    }
    if (kind == FEED) add_put(&connection->out, key, value, length);
    else add_xadd(&connection->out, name, value);
    flush_out(connection);
}

static void pull(struct connection *connection) {
    char queue[64];
    connection->state = PULLING;
    connection->ids.count = 0;
    connection->ids.text.size = 0;
    if (kind == PGQ) {
        snprintf(queue, sizeof queue, "%s%d", name, connection->number);
        const char *values[] = {queue};
        ask_sql(connection, "select pgq.next_batch($1, 'bench')", 1, values);
        return;
    }
    if (kind == FEED) add_pull(&connection->out, name, max_messages, connection->number);
    else add_xreadgroup(&connection->out, name, max_messages, connection->number);
    flush_out(connection);
}

static void acknowledge_all(struct connection *connection) {
    const char *id = connection->ids.text.bytes;
    int count = connection->ids.count, at_once = each ? 1 : count;
    connection->state = ACKNOWLEDGING;
    connection->awaited = 0;
    for (int done = 0; done < count; done += at_once, connection->awaited++) {
        if (kind == FEED) id = add_ack(&connection->out, name, id, at_once, connection->number);
        else id = add_xack(&connection->out, name, id, at_once);
    }
    flush_out(connection);
}

// MARK: What was answered

static void go_on(struct connection *connection) {
    connection->state = IDLE;
    if (!connection->is_producer) pull(connection);
}

static void written(struct connection *connection) {
    produced++;
    last = now_ns();
    note(answers, &answers_count, connection->sent);
    connection->state = IDLE;
}

static void take(struct connection *connection, const char *bytes, size_t size) {
    if (connection->state == WRITING) {
        written(connection);
    } else if (connection->state == PULLING) {
        each_time(bytes, size, note_time);
        if (kind == FEED) http_ids(bytes, size, &connection->ids);
        if (connection->ids.count > 0) acknowledge_all(connection);
        else go_on(connection);
    } else if (connection->state == ACKNOWLEDGING) {
        if (kind == FEED && (memmem(bytes, size, "expired", 7) || memmem(bytes, size, "unknown", 7))) fail("not acknowledged: %.300s", bytes);
        if (--connection->awaited > 0) return;
        acknowledged += connection->ids.count;
        last = now_ns();
        go_on(connection);
    }
}

static void take_sql(struct connection *connection, PGresult *result) {
    if (PQresultStatus(result) != PGRES_TUPLES_OK) fail("%s", PQresultErrorMessage(result));
    const char *values[] = {connection->batch};
    if (connection->state == WRITING) {
        written(connection);
    } else if (connection->state == PULLING && PQgetisnull(result, 0, 0)) {
        // PgQ does not notify a consumer of new messages: the consumer polls.
        connection->state = IDLE;
        connection->due = now_ns() + 2000000;
    } else if (connection->state == PULLING) {
        snprintf(connection->batch, sizeof connection->batch, "%s", PQgetvalue(result, 0, 0));
        connection->state = READING;
        ask_sql(connection, "select ev_data from pgq.get_batch_events($1)", 1, values);
    } else if (connection->state == READING) {
        connection->ids.count = PQntuples(result);
        for (int row = 0; row < PQntuples(result); row++) each_time(PQgetvalue(result, row, 0), PQgetlength(result, row, 0), note_time);
        connection->state = ACKNOWLEDGING;
        ask_sql(connection, "select pgq.finish_batch($1)", 1, values);
    } else {
        acknowledged += connection->ids.count;
        if (connection->ids.count > 0) last = now_ns();
        go_on(connection);
    }
}

static void read_sql(struct connection *connection) {
    PGresult *result, *only = NULL;
    if (!PQconsumeInput(connection->sql)) fail("%s", PQerrorMessage(connection->sql));
    while (!PQisBusy(connection->sql)) {
        result = PQgetResult(connection->sql);
        if (result) {
            only = result;
            continue;
        }
        if (!only) return;
        take_sql(connection, only);
        PQclear(only);
        only = NULL;
    }
    if (only) fail("half a result");
}

static void read_answers(struct connection *connection) {
    struct text *in = &connection->in;
    reserve(in, 1 << 16);
    ssize_t count = recv(connection->fd, in->bytes + in->size, in->room - in->size - 1, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) fail("the server closed a connection");
    in->size += count;
    in->bytes[in->size] = 0;
    size_t at = 0;
    while (at < in->size) {
        struct ids *ids = kind == REDIS && connection->state == PULLING ? &connection->ids : NULL;
        if (ids) ids->count = 0, ids->text.size = 0;
        size_t whole = kind == FEED ? http_answer(in->bytes + at, in->size - at) : resp_value(in->bytes + at, in->size - at, 0, ids);
        if (whole == 0) break;
        take(connection, in->bytes + at, whole);
        at += whole;
    }
    memmove(in->bytes, in->bytes + at, in->size - at);
    in->size -= at;
}

// MARK: The loop

static void open_connection(struct connection *connection, int epoll) {
    if (kind == PGQ) {
        connection->sql = PQconnectdb(target);
        if (PQstatus(connection->sql) != CONNECTION_OK) fail("%s", PQerrorMessage(connection->sql));
        PQclear(PQexec(connection->sql, "set client_min_messages = warning"));
        PQsetnonblocking(connection->sql, 1);
        connection->fd = PQsocket(connection->sql);
    } else {
        connection->fd = connected(atoi(target));
    }
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, connection->fd, &event)) fail("epoll: %s", strerror(errno));
}

// Starts the due operations; returns the milliseconds until the next one.
static int begin_due(struct connection *all, long long now) {
    long long nearest = now + 100000000;
    for (int index = 0; index < producers + consumers; index++) {
        struct connection *connection = &all[index];
        if (connection->state != IDLE) continue;
        if (connection->is_producer && (now >= stop || (events && begun >= events))) continue;
        if (connection->due <= now) {
            if (connection->is_producer) {
                // What could not be sent in time is not made up for by a burst later on.
                if (rate > 0) connection->due = (connection->due < now - 20000000 ? now : connection->due) + 1e9 * producers / rate;
                produce(connection);
            } else {
                pull(connection);
            }
        } else if (connection->due < nearest) {
            nearest = connection->due;
        }
    }
    long long wait = (nearest - now) / 1000000;
    return wait < 0 ? 0 : (int)wait;
}

static int is_over(long long now) {
    if (!producers) return acknowledged >= events || now > stop;
    int writes_end = now >= stop || (events && produced >= events);
    return writes_end && (!consumers || acknowledged >= produced || now > last + 10000000000LL);
}

static int by_size(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static uint32_t part(uint32_t *values, int count, double share) { return count ? values[(int)((count - 1) * share)] : 0; }

int main(int count_of_words, char **words) {
    if (count_of_words != 13) fail("usage: queue KIND TARGET NAME PRODUCERS RATE CONSUMERS MAX ACK EVENTS SECONDS KEYS LENGTH");
    kind = !strcmp(words[1], "feed") ? FEED : !strcmp(words[1], "redis") ? REDIS : PGQ;
    target = words[2], name = words[3];
    producers = atoi(words[4]), rate = atof(words[5]), consumers = atoi(words[6]), max_messages = atoi(words[7]);
    each = !strcmp(words[8], "each"), events = atoll(words[9]);
    double seconds = atof(words[10]);
    keys = atoi(words[11]), length = atoi(words[12]);
    if (length < 24 || length > 4000) fail("LENGTH must be 24 to 4000");
    times = allocated(times_max, sizeof *times), answers = allocated(times_max, sizeof *answers);
    struct connection *all = allocated(producers + consumers, sizeof *all);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int index = 0; index < producers + consumers; index++) {
        all[index].is_producer = index < producers;
        all[index].number = index < producers ? index : index - producers;
        open_connection(&all[index], epoll);
    }
    long long start = now_ns(), now = start;
    stop = start + (long long)(seconds * 1e9), last = start;
    // Producers that are held to a rate begin one after the other.
    for (int index = 0; index < producers; index++) all[index].due = rate > 0 ? start + (long long)(1e9 * index / rate) : start;
    struct epoll_event ready[256];
    while (!is_over(now)) {
        int wait = begin_due(all, now);
        int count = epoll_wait(epoll, ready, 256, wait);
        for (int index = 0; index < count; index++) {
            struct connection *connection = ready[index].data.ptr;
            if (kind == PGQ) read_sql(connection);
            else read_answers(connection);
        }
        now = now_ns();
    }
    qsort(times, times_count, sizeof *times, by_size);
    qsort(answers, answers_count, sizeof *answers, by_size);
    printf("{\"produced\": %lld, \"taken\": %lld, \"acknowledged\": %lld, \"micros\": %lld, \"p50\": %u, \"p99\": %u, \"max\": %u, "
           "\"answer50\": %u, \"answer99\": %u}\n",
           produced, taken, acknowledged, (last - start) / 1000, part(times, times_count, 0.5), part(times, times_count, 0.99),
           part(times, times_count, 1), part(answers, answers_count, 0.5), part(answers, answers_count, 0.99));
    return 0;
}
