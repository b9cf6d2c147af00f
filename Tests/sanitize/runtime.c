// Synchronization that ThreadSanitizer does not see, because Swift's own libraries are not instrumented. Preloaded, this wraps some of
// their calls and reports the order to the sanitizer. It suppresses no report: accesses without an order are reported as before.
//
// - The kernel hands over a contended Mutex. Without this, writes of one thread and reads of another under it would count as a race.
// - A continuation may be resumed before its task waits for it. The task then continues at once, and without this, writes before the
//   resumption would count as a race with its accesses.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context))

extern void __tsan_acquire(void *) __attribute__((weak));
extern void __tsan_release(void *) __attribute__((weak));

static void *original(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) {
        fprintf(stderr, "sanitize: this toolchain has no %s: Tests/sanitize/runtime.c has to follow it.\n", name);
        abort();
    }
    return found;
}

#define LOCK "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"

// _MutexHandle._lockSlow(_: UInt32): the handle is where the sanitizer sees the uncontended exchange, too.
SWIFT void lockSlow(uint32_t thread, SELF void *handle) __asm__(LOCK);
SWIFT void lockSlow(uint32_t thread, SELF void *handle) {
    static SWIFT void (*next)(uint32_t, SELF void *);
    if (!next) next = (SWIFT void (*)(uint32_t, SELF void *))original(LOCK);
    next(thread, handle);
    if (__tsan_acquire) __tsan_acquire(handle);
}

// _MutexHandle._unlockSlow()
SWIFT void unlockSlow(SELF void *handle) __asm__(UNLOCK);
SWIFT void unlockSlow(SELF void *handle) {
    static SWIFT void (*next)(SELF void *);
    if (!next) next = (SWIFT void (*)(SELF void *))original(UNLOCK);
    if (__tsan_release) __tsan_release(handle);
    next(handle);
}

#define AWAIT "swift_continuation_await"
#define ASYNC __attribute__((swiftasynccall))

extern SWIFT void *swift_task_getCurrent(void) __attribute__((weak));

// The runtime reports the resumption to the sanitizer, by the task, and the accesses of a task that has waited.
ASYNC void continuationAwait(void *context) __asm__(AWAIT);
ASYNC void continuationAwait(void *context) {
    static ASYNC void (*next)(void *);
    if (!next) next = (ASYNC void (*)(void *))original(AWAIT);
    if (__tsan_acquire && swift_task_getCurrent) __tsan_acquire(swift_task_getCurrent());
    __attribute__((musttail)) return next(context);
}
