// Waiting for many sockets: what of Linux's C library Swift's own module of it leaves out. No library of its own.
#ifndef PATHMIRROR_CEPOLL_SHIM_H
#define PATHMIRROR_CEPOLL_SHIM_H

#include <sys/epoll.h>
#include <sys/eventfd.h>

static inline int pathmirror_epoll(void) { return epoll_create1(EPOLL_CLOEXEC); }

static inline int pathmirror_epoll_wake(void) { return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); }

// Adds a socket, changes what is waited for, or removes it; 0 where that is done.
static inline int pathmirror_epoll_set(int poller, int operation, int socket, unsigned long long id, int read, int write) {
    struct epoll_event event = {0};
    event.events = (read ? EPOLLIN : 0) | (write ? EPOLLOUT : 0);
    event.data.u64 = id;
    return epoll_ctl(poller, operation, socket, &event);
}

static inline unsigned long long pathmirror_epoll_id(const struct epoll_event *event) { return event->data.u64; }
static inline int pathmirror_epoll_can_read(const struct epoll_event *event) { return (event->events & EPOLLIN) != 0; }
static inline int pathmirror_epoll_can_write(const struct epoll_event *event) { return (event->events & EPOLLOUT) != 0; }
static inline int pathmirror_epoll_is_broken(const struct epoll_event *event) {
    return (event->events & (EPOLLERR | EPOLLHUP)) != 0;
}

#endif
