// The event loop of libevent (Debian package libevent-dev): events, timers, nothing of its buffers or its HTTP; and the
// few calls of the C library about sockets and threads whose types or macros Swift does not see.
#ifndef PATHMIRROR_CEVENT_SHIM_H
#define PATHMIRROR_CEVENT_SHIM_H

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#ifndef _GNU_SOURCE
// Without _GNU_SOURCE, as in Swift's own module of the C library: two views of its types do not go together.
extern int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
#endif

static inline int pathmirror_eventfd(void) { return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); }

static inline int pathmirror_tcp_socket(int family) {
    return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static inline int pathmirror_bind(int fd, const struct sockaddr_storage *address, socklen_t length) {
    return bind(fd, (const struct sockaddr *)address, length);
}

static inline int pathmirror_local_address(int fd, struct sockaddr_storage *address) {
    socklen_t length = sizeof(*address);
    return getsockname(fd, (struct sockaddr *)address, &length);
}

// Accepts without blocking; the new descriptor does not block either.
static inline int pathmirror_accept(int fd, struct sockaddr_storage *address) {
    socklen_t length = sizeof(*address);
    return accept4(fd, (struct sockaddr *)address, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

// The text of an errno into `buffer`, cut to `length`, always terminated.
static inline void pathmirror_error_text(int number, char *buffer, size_t length) {
    errno = number;
    snprintf(buffer, length, "%m");
}

#endif
