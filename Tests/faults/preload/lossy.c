/* A disk that may lose data without an fsync, for a PostgreSQL that is run with LD_PRELOAD.
 *
 * The library records every change of a file below $LOSSY_ROOT, with the former contents, in the journal $LOSSY_JOURNAL/journal:
 * writes, truncations, and changes of directories. It records an fsync too, and does not execute it: the page cache
 * survives kill -9. powercut.py decides about the losses of a power cut: it reads the journal when all processes are
 * dead, and reverts a part of the changes that no fsync had made durable.
 *
 * The library records a change after its execution. If a process is killed between the two, its change cannot be
 * reverted, as if the disk had written it in time; so no order of a real disk is violated. An fsync covers the changes
 * that were recorded before it began.
 *
 * While there is a file $LOSSY_JOURNAL/full, the disk is full: no file can be created, and none grows. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { WRITE = 1, RESIZE, SYNC, CREATE, RENAME, UNLINK, LINK, MKDIR, RMDIR, SYMLINK };

/* One record: this, the payload, and two paths without their ends. All numbers are little-endian, as the machine's. */
struct head {
    char magic[8];
    uint32_t kind, check;
    uint64_t inode, offset, length, before, payload;
    uint32_t first, second;
};

#define MAGIC "LoSsY\x01\xfe\n"
#define SECTOR 512
#define FILES 65536

static int journal = -1;
static char root[PATH_MAX], grave[PATH_MAX], full[PATH_MAX];
static size_t root_length;
static long sync_ns;
static unsigned char tracked[FILES];
static unsigned long graves;

#define REAL(name) ((__typeof__(&name))real(#name, &real_##name))
static void *real(const char *name, void **found) {
    if (!*found) *found = dlsym(RTLD_NEXT, name);
    if (!*found) abort();
    return *found;
}
static void *real_open, *real_openat, *real_close, *real_dup2, *real_write, *real_pwrite, *real_pwritev, *real_ftruncate, *real_truncate,
    *real_posix_fallocate, *real_rename, *real_unlink, *real_link, *real_symlink, *real_mkdir, *real_rmdir, *real_fsync, *real_fdatasync,
    *real_sync_file_range, *real_syncfs;

__attribute__((constructor)) static void begin(void) {
    const char *where = getenv("LOSSY_ROOT"), *into = getenv("LOSSY_JOURNAL"), *slow = getenv("LOSSY_SYNC_US");
    char path[PATH_MAX];
    if (!where || !into || !realpath(where, root)) return;
    root_length = strlen(root);
    snprintf(grave, sizeof grave, "%s/grave", into);
    snprintf(full, sizeof full, "%s/full", into);
    snprintf(path, sizeof path, "%s/journal", into);
    sync_ns = slow ? atol(slow) * 1000 : 0;
    int low = REAL(open)(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (low < 0) {
        perror("lossy: the journal");
        _exit(99);
    }
    journal = fcntl(low, F_DUPFD_CLOEXEC, 900);
    if (journal < 0) journal = low;
    else REAL(close)(low);
}

/* The journal is shared by all processes: one write a record, at the file's end, is one record. */
static void note(uint32_t kind, uint64_t inode, uint64_t offset, uint64_t length, uint64_t before, const void *payload,
                 size_t size, const char *first, const char *second) {
    int kept = errno;
    struct head head = {.kind = kind, .inode = inode, .offset = offset, .length = length, .before = before, .payload = size,
                        .first = first ? strlen(first) : 0, .second = second ? strlen(second) : 0};
    memcpy(head.magic, MAGIC, sizeof head.magic);
    head.check = kind ^ (uint32_t)inode ^ (uint32_t)offset ^ (uint32_t)length ^ (uint32_t)before ^ (uint32_t)size ^ head.first ^ head.second;
    struct iovec parts[] = {{&head, sizeof head}, {(void *)payload, size}, {(void *)first, head.first}, {(void *)second, head.second}};
    size_t whole = sizeof head + size + head.first + head.second;
    if (writev(journal, parts, 4) != (ssize_t)whole) {
        static const char text[] = "lossy: the journal could not be written\n";
        (void)!REAL(write)(2, text, sizeof text - 1);
        _exit(99);
    }
    errno = kept;
}

static uint64_t journal_end(void) {
    struct stat now;
    return fstat(journal, &now) ? 0 : (uint64_t)now.st_size;
}

/* The whole path, without following a last symbolic link; empty if it is not below the root. */
static void locate(const char *path, char *whole) {
    if (path[0] == '/') {
        snprintf(whole, PATH_MAX, "%s", path);
    } else {
        char here[PATH_MAX];
        if (!getcwd(here, sizeof here)) here[0] = 0;
        if (strlen(here) + strlen(path) + 2 > PATH_MAX) abort();
        strcpy(whole, here);
        strcat(whole, "/");
        strcat(whole, !strncmp(path, "./", 2) ? path + 2 : path);
    }
    if (journal < 0 || strncmp(whole, root, root_length) || (whole[root_length] != '/' && whole[root_length])) whole[0] = 0;
}

static int no_room(void) {
    if (access(full, F_OK)) {
        errno = 0;
        return 0;
    }
    errno = ENOSPC;
    return 1;
}

static int is_tracked(int file) { return journal >= 0 && file >= 0 && file < FILES && tracked[file]; }

static void resized(int file, uint64_t to);

static int opened(int file, const char *path, int is_new) {
    struct stat about;
    if (file < 0 || file >= FILES) return file;
    tracked[file] = 0;
    if (!path[0] || fstat(file, &about) || !(S_ISREG(about.st_mode) || S_ISDIR(about.st_mode))) return file;
    tracked[file] = 1;
    if (is_new) note(CREATE, about.st_ino, 0, 0, 0, NULL, 0, path, NULL);
    return file;
}

static int open_any(int at, const char *name, int flags, mode_t mode) {
    char path[PATH_MAX] = "";
    struct stat about;
    int is_new = 0;
    if (journal >= 0 && at == AT_FDCWD) locate(name, path);
    if (path[0]) {
        is_new = (flags & O_CREAT) && lstat(path, &about) != 0;
        if (is_new && no_room()) return -1;
        if (!is_new && (flags & O_TRUNC)) {
            /* What is cut away must be in the journal first: open and cut are two steps here. */
            int file = REAL(open)(path, flags & ~(O_TRUNC | O_CREAT | O_EXCL), mode);
            if (file >= 0 && file < FILES) {
                tracked[file] = 1;
                resized(file, 0);
            }
            return file;
        }
    }
    return opened(REAL(openat)(at, name, flags, mode), path, is_new);
}

#define MODE_OF(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list more; \
        va_start(more, flags); \
        mode = va_arg(more, mode_t); \
        va_end(more); \
    }

int open(const char *name, int flags, ...) { MODE_OF(flags) return open_any(AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE_OF(flags) return open_any(AT_FDCWD, name, flags, mode); }
int openat(int at, const char *name, int flags, ...) { MODE_OF(flags) return open_any(at, name, flags, mode); }
int openat64(int at, const char *name, int flags, ...) { MODE_OF(flags) return open_any(at, name, flags, mode); }
int creat(const char *name, mode_t mode) { return open_any(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int close(int file) {
    if (file == journal && journal >= 0) return 0;
    if (file >= 0 && file < FILES) tracked[file] = 0;
    return REAL(close)(file);
}

int dup2(int from, int to) {
    if (to >= 0 && to < FILES) tracked[to] = from >= 0 && from < FILES ? tracked[from] : 0;
    return REAL(dup2)(from, to);
}

/* What is about to be overwritten, and the file's size. */
struct past {
    struct stat about;
    char *bytes;
    size_t size;
};

static void remember(int file, struct past *past, uint64_t offset, size_t length) {
    past->bytes = NULL;
    past->size = 0;
    if (fstat(file, &past->about)) abort();
    uint64_t size = (uint64_t)past->about.st_size;
    size_t old = offset >= size ? 0 : (size - offset < length ? size - offset : length);
    if (!old) return;
    if (!(past->bytes = malloc(old))) abort();
    while (past->size < old) {
        ssize_t got = pread(file, past->bytes + past->size, old - past->size, offset + past->size);
        if (got <= 0) break;
        past->size += got;
    }
    if (past->size == old) return;
    /* The file was opened for writing only: read it by another door. */
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    int door = REAL(open)(name, O_RDONLY | O_CLOEXEC);
    if (door < 0) abort();
    while (past->size < old) {
        ssize_t got = pread(door, past->bytes + past->size, old - past->size, offset + past->size);
        if (got <= 0) break;
        past->size += got;
    }
    REAL(close)(door);
    if (past->size != old) abort();
}

static size_t gather(const struct iovec *parts, int count, size_t at, char *into, size_t most) {
    size_t filled = 0;
    for (int i = 0; i < count && filled < most; i++) {
        if (at >= parts[i].iov_len) {
            at -= parts[i].iov_len;
            continue;
        }
        size_t take = parts[i].iov_len - at < most - filled ? parts[i].iov_len - at : most - filled;
        memcpy(into + filled, (char *)parts[i].iov_base + at, take);
        filled += take;
        at = 0;
    }
    return filled;
}

/* Only the sectors that differ are noted: WAL pages are written again and again, mostly as they were. */
static void written(struct past *past, const struct iovec *parts, int count, uint64_t offset, size_t length) {
    size_t from = 0, to = length;
    char now[SECTOR];
    while (from < past->size && from < length) {
        size_t step = SECTOR - (offset + from) % SECTOR;
        if (step > length - from) step = length - from;
        if (from + step > past->size || gather(parts, count, from, now, step) != step || memcmp(now, past->bytes + from, step)) break;
        from += step;
    }
    while (to > from && to <= past->size) {
        size_t step = (offset + to) % SECTOR ? (offset + to) % SECTOR : SECTOR;
        if (step > to - from) step = to - from;
        if (gather(parts, count, to - step, now, step) != step || memcmp(now, past->bytes + to - step, step)) break;
        to -= step;
    }
    if (to > from) {
        size_t old = past->size > from ? (past->size < to ? past->size : to) - from : 0;
        note(WRITE, past->about.st_ino, offset + from, to - from, past->about.st_size, past->bytes ? past->bytes + from : NULL, old, NULL, NULL);
    }
    free(past->bytes);
    past->bytes = NULL;
}

ssize_t pwrite(int file, const void *data, size_t size, off_t offset) {
    struct past past;
    if (!is_tracked(file)) return REAL(pwrite)(file, data, size, offset);
    remember(file, &past, offset, size);
    if (offset + (off_t)size > past.about.st_size && no_room()) {
        free(past.bytes);
        errno = ENOSPC;
        return -1;
    }
    ssize_t done = REAL(pwrite)(file, data, size, offset);
    struct iovec part = {(void *)data, size};
    if (done > 0) written(&past, &part, 1, offset, done);
    else free(past.bytes);
    return done;
}
ssize_t pwrite64(int file, const void *data, size_t size, off_t offset) { return pwrite(file, data, size, offset); }

ssize_t pwritev(int file, const struct iovec *parts, int count, off_t offset) {
    struct past past;
    size_t size = 0;
    if (!is_tracked(file)) return REAL(pwritev)(file, parts, count, offset);
    for (int i = 0; i < count; i++) size += parts[i].iov_len;
    remember(file, &past, offset, size);
    if (offset + (off_t)size > past.about.st_size && no_room()) {
        free(past.bytes);
        errno = ENOSPC;
        return -1;
    }
    ssize_t done = REAL(pwritev)(file, parts, count, offset);
    if (done > 0) written(&past, parts, count, offset, done);
    else free(past.bytes);
    return done;
}
ssize_t pwritev2(int file, const struct iovec *parts, int count, off_t offset, int flags) {
    (void)flags;
    return pwritev(file, parts, count, offset);
}
ssize_t pwritev64v2(int file, const struct iovec *parts, int count, off_t offset, int flags) {
    return pwritev2(file, parts, count, offset, flags);
}
ssize_t pwritev64(int file, const struct iovec *parts, int count, off_t offset) { return pwritev(file, parts, count, offset); }

ssize_t write(int file, const void *data, size_t size) {
    struct past past;
    off_t offset = is_tracked(file) ? lseek(file, 0, (fcntl(file, F_GETFL) & O_APPEND) ? SEEK_END : SEEK_CUR) : -1;
    if (offset < 0) return REAL(write)(file, data, size);
    remember(file, &past, offset, size);
    if (offset + (off_t)size > past.about.st_size && no_room()) {
        free(past.bytes);
        errno = ENOSPC;
        return -1;
    }
    ssize_t done = REAL(write)(file, data, size);
    struct iovec part = {(void *)data, size};
    if (done > 0) written(&past, &part, 1, offset, done);
    else free(past.bytes);
    return done;
}

/* Cuts, or lengthens, with the tail that goes in the journal. */
static void resized(int file, uint64_t to) {
    struct past past;
    struct stat about;
    if (fstat(file, &about)) abort();
    uint64_t size = about.st_size;
    remember(file, &past, to, size > to ? size - to : 0);
    if (REAL(ftruncate)(file, to) == 0) note(RESIZE, about.st_ino, to, to, size, past.bytes, past.size, NULL, NULL);
    free(past.bytes);
}

int ftruncate(int file, off_t to) {
    if (!is_tracked(file)) return REAL(ftruncate)(file, to);
    resized(file, to);
    struct stat about;
    return fstat(file, &about) == 0 && about.st_size == to ? 0 : REAL(ftruncate)(file, to);
}
int ftruncate64(int file, off_t to) { return ftruncate(file, to); }

int truncate(const char *name, off_t to) {
    char path[PATH_MAX];
    locate(name, path);
    if (!path[0]) return REAL(truncate)(name, to);
    int file = REAL(open)(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return -1;
    resized(file, to);
    REAL(close)(file);
    return 0;
}
int truncate64(const char *name, off_t to) { return truncate(name, to); }

int posix_fallocate(int file, off_t offset, off_t length) {
    struct stat before, after;
    if (!is_tracked(file) || fstat(file, &before)) return REAL(posix_fallocate)(file, offset, length);
    if (offset + length > before.st_size && no_room()) return ENOSPC;
    int status = REAL(posix_fallocate)(file, offset, length);
    if (!fstat(file, &after) && after.st_size != before.st_size)
        note(RESIZE, after.st_ino, before.st_size, after.st_size, before.st_size, NULL, 0, NULL, NULL);
    return status;
}
int posix_fallocate64(int file, off_t offset, off_t length) { return posix_fallocate(file, offset, length); }

/* A second name, outside of the tree, for a file that is about to lose its last one, so that its inode number is not used again. */
static void bury(const char *path, char *name) {
    struct stat about;
    name[0] = 0;
    if (lstat(path, &about) || !S_ISREG(about.st_mode)) return;
    char whole[PATH_MAX + 64];
    snprintf(name, 64, "%d-%lu", getpid(), ++graves);
    snprintf(whole, sizeof whole, "%s/%s", grave, name);
    if (REAL(link)(path, whole)) name[0] = 0;
}

int rename(const char *from, const char *to) {
    char old[PATH_MAX], new[PATH_MAX], both[PATH_MAX + 80], name[64];
    locate(from, old);
    locate(to, new);
    if (!old[0] || !new[0]) return REAL(rename)(from, to);
    bury(new, name);
    int status = REAL(rename)(from, to);
    if (status) return status;
    snprintf(both, sizeof both, "%s\n%s", new, name);
    note(RENAME, 0, 0, 0, 0, NULL, 0, old, both);
    return 0;
}

int unlink(const char *victim) {
    char path[PATH_MAX], name[64];
    locate(victim, path);
    if (!path[0]) return REAL(unlink)(victim);
    bury(path, name);
    int status = REAL(unlink)(victim);
    if (!status) note(UNLINK, 0, 0, 0, 0, NULL, 0, path, name);
    return status;
}

#define NOTED(call, path_of, kind) \
    char path[PATH_MAX]; \
    locate(path_of, path); \
    int status = call; \
    if (!status && path[0]) note(kind, 0, 0, 0, 0, NULL, 0, path, NULL); \
    return status;

int link(const char *from, const char *to) { NOTED(REAL(link)(from, to), to, LINK) }
int symlink(const char *from, const char *to) { NOTED(REAL(symlink)(from, to), to, SYMLINK) }
int mkdir(const char *name, mode_t mode) { NOTED(REAL(mkdir)(name, mode), name, MKDIR) }
int rmdir(const char *name) { NOTED(REAL(rmdir)(name), name, RMDIR) }

static int synced(int file) {
    struct stat about;
    if (fstat(file, &about)) return -1;
    uint64_t covered = journal_end();
    struct timespec pause = {0, sync_ns};
    if (sync_ns) nanosleep(&pause, NULL);
    note(SYNC, about.st_ino, covered, 0, 0, NULL, 0, NULL, NULL);
    return 0;
}

int fsync(int file) { return is_tracked(file) ? synced(file) : REAL(fsync)(file); }
int fdatasync(int file) { return is_tracked(file) ? synced(file) : REAL(fdatasync)(file); }

/* A wish, and no promise: nothing becomes durable by it. */
int sync_file_range(int file, off_t offset, off_t length, unsigned flags) {
    return is_tracked(file) ? 0 : REAL(sync_file_range)(file, offset, length, flags);
}

int syncfs(int file) {
    if (!is_tracked(file)) return REAL(syncfs)(file);
    note(SYNC, 0, journal_end(), 1, 0, NULL, 0, NULL, NULL);
    return 0;
}
