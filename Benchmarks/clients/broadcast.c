// What a fan-out costs at the least: the same bytes to many sockets by plain loops of send(), and nothing else.
//
//   broadcast COUNT THREADS
//
// Says its port, accepts COUNT connections (which each say with one byte, s or l, whether they are to be sent streams' events
// or listens' pushes) and says "ready". Then each line of standard input, "STREAM-EVENT-IN-HEX PUSH-IN-HEX", is sent to
// all of them, each thread serving its part, and answered with "sent".
#include "client.h"

#include <pthread.h>

struct bytes {
    unsigned char bytes[4096];
    size_t count;
};

static int *sockets;
static char *wants;
static int count, threads;
static struct bytes event, push;
static pthread_barrier_t begin, end;

static void *serve(void *argument) {
    for (;;) {
        pthread_barrier_wait(&begin);
        for (int index = (int)(intptr_t)argument; index < count; index += threads) {
            struct bytes *bytes = wants[index] == 's' ? &event : &push;
            // Blocking: nothing is queued, nothing is lost.
            send_all(sockets[index], bytes->bytes, bytes->count);
        }
        pthread_barrier_wait(&end);
    }
    return NULL;
}

static void parse(const char *hex, struct bytes *into) {
    unsigned value;
    into->count = 0;
    while (into->count < sizeof into->bytes && sscanf(hex, "%2x", &value) == 1) {
        into->bytes[into->count++] = value;
        hex += 2;
    }
}

int main(int count_of_words, char **words) {
    if (count_of_words != 3) fail("usage: broadcast COUNT THREADS");
    count = atoi(words[1]);
    threads = atoi(words[2]);
    sockets = allocated(count, sizeof *sockets);
    wants = allocated(count, 1);
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1024)
        || getsockname(listener, (struct sockaddr *)&address, &length))
        fail("cannot listen: %s", strerror(errno));
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (int index = 0; index < count; index++) {
        sockets[index] = accept(listener, NULL, NULL);
        if (sockets[index] < 0 || recv(sockets[index], &wants[index], 1, MSG_WAITALL) != 1)
            fail("cannot accept: %s", strerror(errno));
        setsockopt(sockets[index], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    pthread_barrier_init(&begin, NULL, threads + 1);
    pthread_barrier_init(&end, NULL, threads + 1);
    for (int index = 0; index < threads; index++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)index)) fail("no thread");
    }
    puts("ready");
    fflush(stdout);
    static char first[2 * sizeof event.bytes + 1], second[2 * sizeof push.bytes + 1];
    while (scanf("%8192s %8192s", first, second) == 2) {
        parse(first, &event);
        parse(second, &push);
        pthread_barrier_wait(&begin);
        pthread_barrier_wait(&end);
        puts("sent");
        fflush(stdout);
    }
    return 0;
}
