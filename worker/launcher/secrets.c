/* The task's secrets. They are in no file of the box: the Worker, or the one that was started in its place, gives them
 * through a socket in box/run, and they stay in memory and on a tmpfs of the container. */
#define _GNU_SOURCE
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SOCKET "secrets"
#define FOLDER "run/secrets"
#define MAX_VALUE (1 << 20)
#define ANSWER_PATIENCE (5 * SECOND)
#ifndef TMPFS_MAGIC
#define TMPFS_MAGIC 0x01021994
#endif

static void forget(char **value, size_t size)
{
    if (*value != NULL)
        explicit_bzero(*value, size);
    free(*value);
    *value = NULL;
}

/* The path of a box can be longer than that of a socket may be, so it is reached from its folder. */
static int call_worker(const struct box *box)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = SOCKET};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || fchdir(box->run) < 0)
        goto failed;
    int done = connect(fd, (struct sockaddr *)&address, sizeof address), error = errno;
    if (chdir("/") < 0)
        goto failed;
    errno = error;
    if (done == 0)
        return fd;
failed:
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool read_exactly(int fd, char *to, size_t size, ns_t until)
{
    while (size > 0) {
        ssize_t got = read(fd, to, size);
        if (got > 0) {
            to += got;
            size -= (size_t)got;
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            return false;
        } else {
            ns_t left = until - boot_now();
            struct pollfd one = {.fd = fd, .events = POLLIN};
            if (left <= 0 || poll(&one, 1, (int)(left / MS) + 1) < 0)
                return false;
        }
    }
    return true;
}

/* A variable's value has its name before it, as a program is given it. */
static bool read_one(int fd, struct secret *secret, ns_t until)
{
    unsigned char head[8];
    uint64_t size = 0;
    size_t before = secret->is_file ? 0 : strlen(secret->name) + 1;

    if (!read_exactly(fd, (char *)head, sizeof head, until))
        return false;
    for (size_t i = 0; i < sizeof head; i++)
        size = size << 8 | head[i];
    if (size > MAX_VALUE)
        return false;
    secret->size = before + (size_t)size;
    secret->value = calloc(1, secret->size + 1);
    if (secret->value == NULL)
        return false;
    if (before > 0) {
        memcpy(secret->value, secret->name, before - 1);
        secret->value[before - 1] = '=';
    }
    return read_exactly(fd, secret->value + before, (size_t)size, until);
}

bool take_secrets(const struct box *box, struct spec *spec)
{
    ns_t until = boot_now() + ANSWER_PATIENCE;
    int fd = call_worker(box);
    bool whole = fd >= 0;

    if (fd < 0)
        return false;
    for (size_t i = 0; whole && i < spec->secret_count; i++)
        whole = read_one(fd, &spec->secrets[i], until);
    close(fd);
    if (!whole)
        forget_secrets(spec);
    return whole;
}

void forget_secrets(struct spec *spec)
{
    for (size_t i = 0; i < spec->secret_count; i++)
        forget(&spec->secrets[i].value, spec->secrets[i].size);
}

static bool write_file(int folder, const struct secret *secret, const struct identity *identity)
{
    size_t done = 0;
    int fd = openat(folder, secret->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);

    if (fd < 0)
        return false;
    while (done < secret->size) {
        ssize_t written = write(fd, secret->value + done, secret->size - done);
        if (written < 0 && errno != EINTR)
            break;
        if (written > 0)
            done += (size_t)written;
    }
    bool fine = done == secret->size && fchown(fd, identity->uid, identity->gid) == 0 && fchmod(fd, 0400) == 0;
    int error = errno;
    close(fd);
    errno = error;
    return fine;
}

bool place_secrets(int root, struct spec *spec, const struct identity *identity, struct failure *failure)
{
    struct statfs info;
    size_t variables = 0;
    int folder = -1;

    while (spec->env[variables] != NULL)
        variables++;
    for (size_t i = 0; i < spec->secret_count; i++) {
        struct secret *secret = &spec->secrets[i];
        if (!secret->is_file) {
            if (strlen(secret->value) != secret->size)
                return fail(failure, STAGE_SETUP, EINVAL, "the secret in %.60s has a NUL byte, as no variable can",
                            secret->name);
            spec->env[variables++] = secret->value;
            continue;
        }
        if (folder < 0) {
            folder = open_without_links(root, FOLDER);
            /* On any other file system the value would reach a disk. */
            if (folder < 0 || fstatfs(folder, &info) < 0 || info.f_type != TMPFS_MAGIC) {
                int error = folder < 0 ? errno : EINVAL;
                if (folder >= 0)
                    close(folder);
                return fail(failure, STAGE_SETUP, error, "/" FOLDER " is no folder in memory");
            }
        }
        if (!write_file(folder, secret, identity)) {
            int error = errno;
            close(folder);
            return fail(failure, STAGE_SETUP, error, "the secret file /" FOLDER "/%.60s can't be written: %s",
                        secret->name, strerror(error));
        }
    }
    if (folder >= 0)
        close(folder);
    return true;
}
