/* Ends the process by SIGKILL at one of its calls that change a file or sync it.
 *
 * Loaded with LD_PRELOAD. KILL_FILE names the file, KILL_AT is the number of the call, from 0 on. A
 * write of KILL_HALF leaves the first half of its bytes. Without KILL_AT nothing is killed. At the
 * end of the process, the number of calls goes to the file KILL_COUNT. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long calls;

static int is_watched(int fd)
{
    const char *path = getenv("KILL_FILE");
    struct stat open, named;
    return path && fstat(fd, &open) == 0 && stat(path, &named) == 0 && open.st_dev == named.st_dev &&
           open.st_ino == named.st_ino;
}

static int is_point(int fd)
{
    const char *at = getenv("KILL_AT");
    return is_watched(fd) && atomic_fetch_add(&calls, 1) == (at ? atol(at) : -1);
}

static void end(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static void *real(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t at)
{
    ssize_t (*write_at)(int, const void *, size_t, off64_t) = real("pwrite64");
    if (is_point(fd)) {
        if (getenv("KILL_HALF"))
            write_at(fd, bytes, len / 2, at);
        end();
    }
    return write_at(fd, bytes, len, at);
}

ssize_t write(int fd, const void *bytes, size_t len)
{
    ssize_t (*write_next)(int, const void *, size_t) = real("write");
    if (is_point(fd)) {
        if (getenv("KILL_HALF"))
            write_next(fd, bytes, len / 2);
        end();
    }
    return write_next(fd, bytes, len);
}

int ftruncate64(int fd, off64_t len)
{
    if (is_point(fd))
        end();
    return ((int (*)(int, off64_t))real("ftruncate64"))(fd, len);
}

int fsync(int fd)
{
    if (is_point(fd))
        end();
    return ((int (*)(int))real("fsync"))(fd);
}

int fdatasync(int fd)
{
    if (is_point(fd))
        end();
    return ((int (*)(int))real("fdatasync"))(fd);
}

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("KILL_COUNT");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "%ld\n", atomic_load(&calls));
        fclose(file);
    }
}
