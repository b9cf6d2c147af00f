/* A wall clock that can be stepped, for a program that is run with LD_PRELOAD: the file $STEPPED_CLOCK holds, as an int64_t,
 * by how many nanoseconds it is wrong. It is mapped, so a step is there at once, for all processes that share the file.
 * The monotonic clock stays true, as it does when an operator sets the time.
 *
 * libfaketime does this, too, but changes the environment while the program starts, and Swift's runtime then does not find
 * the program's arguments. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *wrong;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("STEPPED_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *found = mmap(NULL, sizeof *wrong, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED) wrong = found;
}

static int told(clockid_t clock, struct timespec *now) {
    long status = syscall(SYS_clock_gettime, clock, now);
    if (status || !wrong || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return (int)status;
    int64_t nanoseconds = now->tv_nsec + *wrong % 1000000000;
    now->tv_sec += *wrong / 1000000000 + (nanoseconds >= 1000000000) - (nanoseconds < 0);
    now->tv_nsec = (nanoseconds + 1000000000) % 1000000000;
    return 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) { return told(clock, now); }

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    if (told(CLOCK_REALTIME, &precise)) return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *also) {
    struct timespec now;
    told(CLOCK_REALTIME, &now);
    if (also) *also = now.tv_sec;
    return now.tv_sec;
}

int timespec_get(struct timespec *now, int base) { return base == TIME_UTC && !told(CLOCK_REALTIME, now) ? base : 0; }
