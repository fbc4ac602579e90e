/* Kills a process at the n-th moment between two system calls that touch the disk or a socket.
 *
 * Behind a call, and until the next one begins, is one moment. It is struck right behind the call where its number is
 * odd, and where that is even right before the next call: what the process does between the two without such a call
 * (it starts a program, it sends a signal) is done then. Before a call while another one of another thread is under
 * way is a moment of its own. A write at a place in a file (pwrite) has none behind it: it is followed at once by the
 * next call of the same thread, whose own moment comes then. A lock ends with its process, and changes nothing that
 * stays: it is no such call.
 *
 * Loaded with LD_PRELOAD. Counting begins with killat_arm(FILE), or at the start of a program one of whose arguments
 * is KILLAT_WORD, where KILLAT_FILE is set. FILE is a `struct control`, shared with whoever made it: `target` is the
 * point of the kill (0: none, only count), `count` how many points were passed, by all threads together, `pid` who
 * took it: the first process that asks, and no other one, so that what it starts, forks included, is not counted.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

struct control {
    int64_t target, count, pid;
    int32_t behind, due; /* the newest moment is right behind a call; the next one to come is struck */
    char what[224];
};

static struct control *control;
static pid_t armed;

int killat_arm(const char *file) {
    int fd = syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -1;
    struct control *found = mmap(NULL, sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    int64_t nobody = 0;
    if (found == MAP_FAILED)
        return -1;
    if (!__atomic_compare_exchange_n(&found->pid, &nobody, getpid(), 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        munmap(found, sizeof *found);
        return 1;
    }
    armed = getpid();
    __atomic_store_n(&control, found, __ATOMIC_SEQ_CST);
    return 0;
}

static int has_argument(const char *word) {
    static char line[1 << 16];
    int fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? 0 : syscall(SYS_read, fd, line, sizeof line - 1);
    if (fd >= 0)
        syscall(SYS_close, fd);
    for (char *at = line; at < line + size; at += strlen(at) + 1)
        if (!strcmp(at, word))
            return 1;
    return 0;
}

__attribute__((constructor)) static void begin(void) {
    const char *file = getenv("KILLAT_FILE"), *word = getenv("KILLAT_WORD");
    if (file && word && has_argument(word))
        killat_arm(file);
}

/* ------------------------------------------------------------ what counts */

static int counting(void) { return control && getpid() == armed; }

static int kind(int fd) {
    struct stat found;
    return fd == 1 || fd == 2 || fstat(fd, &found) ? 0 : found.st_mode & S_IFMT;
}

/* A pair that a process made to talk to itself: the event loop's alarm. */
static int own_pair(int fd) {
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) && peer.pid == getpid();
}

static int stream(int fd) {
    int of = kind(fd);
    return of == S_IFIFO || (of == S_IFSOCK && !own_pair(fd));
}

static int any(int fd) {
    int of = kind(fd);
    return of == S_IFREG || of == S_IFDIR || stream(fd);
}

static int socket_only(int fd) { return kind(fd) == S_IFSOCK && stream(fd); }

static int path_only(int fd) { return (void)fd, 1; }

static void strike(const char *when, const char *call, int fd, const char *path) {
    char link[64], name[200] = "";
    if (!path) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t size = readlink(link, name, sizeof name - 1);
        name[size < 0 ? 0 : size] = 0;
    }
    snprintf(control->what, sizeof control->what, "%s %s %s", when, call, path ? path : name);
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static void pass(int behind, const char *call, int fd, const char *path) {
    const char *when = behind ? "after" : "before";
    int same = __atomic_exchange_n(&control->behind, behind, __ATOMIC_SEQ_CST) && !behind;
    if (__atomic_load_n(&control->due, __ATOMIC_SEQ_CST))
        strike(when, call, fd, path);
    int64_t number = same ? 0 : __atomic_add_fetch(&control->count, 1, __ATOMIC_SEQ_CST);
    if (!number || number != control->target)
        return;
    if (!behind || number % 2)
        strike(when, call, fd, path);
    __atomic_store_n(&control->due, 1, __ATOMIC_SEQ_CST);
}

/* ------------------------------------------------------------ the calls */

#define REAL(ret, name, args)                                                                                          \
    static ret(*real) args;                                                                                            \
    if (!real)                                                                                                         \
    real = (ret(*) args)dlsym(RTLD_NEXT, #name)

#define CALL(ret, name, args, given, counts, fd, path, twice)                                                          \
    ret name args {                                                                                                    \
        REAL(ret, name, args);                                                                                         \
        int before = errno;                                                                                            \
        if (!counting() || !counts(fd)) {                                                                              \
            errno = before;                                                                                            \
            return real given;                                                                                         \
        }                                                                                                              \
        pass(0, #name, fd, path);                                                                                      \
        errno = before;                                                                                                \
        ret out = real given;                                                                                          \
        int after = errno;                                                                                             \
        if (twice)                                                                                                     \
            pass(1, #name, fd, path);                                                                                  \
        errno = after;                                                                                                 \
        return out;                                                                                                    \
    }

#define ON_FD(ret, name, args, given, counts) CALL(ret, name, args, given, counts, fd, NULL, 1)
#define AT_PLACE(ret, name, args, given) CALL(ret, name, args, given, any, fd, NULL, 0)
#define ON_PATH(ret, name, args, given) CALL(ret, name, args, given, path_only, -1, path, 1)

ON_FD(ssize_t, write, (int fd, const void *b, size_t n), (fd, b, n), any)
ON_FD(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n), any)
AT_PLACE(ssize_t, pwrite, (int fd, const void *b, size_t n, off_t at), (fd, b, n, at))
AT_PLACE(ssize_t, pwrite64, (int fd, const void *b, size_t n, off64_t at), (fd, b, n, at))
AT_PLACE(ssize_t, pwritev, (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at))
AT_PLACE(ssize_t, pwritev64, (int fd, const struct iovec *v, int n, off64_t at), (fd, v, n, at))
ON_FD(int, fsync, (int fd), (fd), any)
ON_FD(int, fdatasync, (int fd), (fd), any)
ON_FD(int, ftruncate, (int fd, off_t to), (fd, to), any)
ON_FD(int, ftruncate64, (int fd, off64_t to), (fd, to), any)
ON_FD(int, posix_fallocate, (int fd, off_t at, off_t n), (fd, at, n), any)
ON_FD(int, posix_fallocate64, (int fd, off64_t at, off64_t n), (fd, at, n), any)
ON_FD(int, fallocate, (int fd, int how, off_t at, off_t n), (fd, how, at, n), any)
ON_FD(int, fallocate64, (int fd, int how, off64_t at, off64_t n), (fd, how, at, n), any)
ON_FD(int, fchmod, (int fd, mode_t mode), (fd, mode), any)
ON_FD(ssize_t, sendfile, (int fd, int from, off_t *at, size_t n), (fd, from, at, n), any)
ON_FD(ssize_t, sendfile64, (int fd, int from, off64_t *at, size_t n), (fd, from, at, n), any)

ON_FD(ssize_t, read, (int fd, void *b, size_t n), (fd, b, n), stream)
ON_FD(ssize_t, readv, (int fd, const struct iovec *v, int n), (fd, v, n), stream)
ON_FD(ssize_t, __read_chk, (int fd, void *b, size_t n, size_t room), (fd, b, n, room), stream)

ON_FD(ssize_t, send, (int fd, const void *b, size_t n, int how), (fd, b, n, how), stream)
ON_FD(ssize_t, sendto, (int fd, const void *b, size_t n, int how, const struct sockaddr *to, socklen_t size),
      (fd, b, n, how, to, size), stream)
ON_FD(ssize_t, sendmsg, (int fd, const struct msghdr *m, int how), (fd, m, how), stream)
ON_FD(ssize_t, recv, (int fd, void *b, size_t n, int how), (fd, b, n, how), stream)
ON_FD(ssize_t, __recv_chk, (int fd, void *b, size_t n, size_t room, int how), (fd, b, n, room, how), stream)
ON_FD(ssize_t, recvfrom, (int fd, void *b, size_t n, int how, struct sockaddr *of, socklen_t *size),
      (fd, b, n, how, of, size), stream)
ON_FD(ssize_t, recvmsg, (int fd, struct msghdr *m, int how), (fd, m, how), stream)
ON_FD(int, connect, (int fd, const struct sockaddr *to, socklen_t size), (fd, to, size), stream)
ON_FD(int, bind, (int fd, const struct sockaddr *to, socklen_t size), (fd, to, size), stream)
ON_FD(int, listen, (int fd, int n), (fd, n), stream)
ON_FD(int, accept, (int fd, struct sockaddr *of, socklen_t *size), (fd, of, size), stream)
ON_FD(int, accept4, (int fd, struct sockaddr *of, socklen_t *size, int how), (fd, of, size, how), stream)
ON_FD(int, shutdown, (int fd, int how), (fd, how), stream)
ON_FD(int, close, (int fd), (fd), socket_only)

ON_PATH(int, unlink, (const char *path), (path))
ON_PATH(int, unlinkat, (int at, const char *path, int how), (at, path, how))
ON_PATH(int, rename, (const char *path, const char *to), (path, to))
ON_PATH(int, renameat, (int a, const char *path, int b, const char *to), (a, path, b, to))
ON_PATH(int, renameat2, (int a, const char *path, int b, const char *to, unsigned how), (a, path, b, to, how))
ON_PATH(int, link, (const char *path, const char *to), (path, to))
ON_PATH(int, linkat, (int a, const char *path, int b, const char *to, int how), (a, path, b, to, how))
ON_PATH(int, symlink, (const char *to, const char *path), (to, path))
ON_PATH(int, symlinkat, (const char *to, int at, const char *path), (to, at, path))
ON_PATH(int, mkdir, (const char *path, mode_t mode), (path, mode))
ON_PATH(int, mkdirat, (int at, const char *path, mode_t mode), (at, path, mode))
ON_PATH(int, rmdir, (const char *path), (path))
ON_PATH(int, chmod, (const char *path, mode_t mode), (path, mode))
ON_PATH(int, fchmodat, (int at, const char *path, mode_t mode, int how), (at, path, mode, how))
ON_PATH(int, creat, (const char *path, mode_t mode), (path, mode))
ON_PATH(int, creat64, (const char *path, mode_t mode), (path, mode))

/* Those with as many arguments as they like. */

#define MODE                                                                                                           \
    mode_t mode = 0;                                                                                                   \
    if (how & (O_CREAT | O_TMPFILE)) {                                                                                 \
        va_list more;                                                                                                  \
        va_start(more, how);                                                                                           \
        mode = va_arg(more, mode_t);                                                                                   \
        va_end(more);                                                                                                  \
    }

#define OPEN(name, args, types, given)                                                                                 \
    int name args {                                                                                                    \
        REAL(int, name, types);                                                                                        \
        MODE                                                                                                           \
        if (!(how & (O_CREAT | O_TRUNC)) || !counting())                                                               \
            return real given;                                                                                         \
        pass(0, #name, -1, path);                                                                                      \
        int out = real given, after = errno;                                                                           \
        pass(1, #name, -1, path);                                                                                      \
        errno = after;                                                                                                 \
        return out;                                                                                                    \
    }

OPEN(open, (const char *path, int how, ...), (const char *, int, ...), (path, how, mode))
OPEN(open64, (const char *path, int how, ...), (const char *, int, ...), (path, how, mode))
OPEN(openat, (int at, const char *path, int how, ...), (int, const char *, int, ...), (at, path, how, mode))
OPEN(openat64, (int at, const char *path, int how, ...), (int, const char *, int, ...), (at, path, how, mode))
