/* The files of the box. Their formats are the contract with worker/box/. */
#define _GNU_SOURCE
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOG_BYTES (64 << 10)
#define ORDER_BYTES 4096
#define END_BYTES 4096
#define END_NAME ".end.new"
#define LOCK_PATIENCE (10 * SECOND)
#define LOCK_AGAIN (2 * MS)
#define BOOT_ID_BYTES 64
#define NOBODY ((uid_t)0xfffffffe)

/* By this text in the binary a Worker sees that launcher and Worker keep to the same protocol of the box. */
__attribute__((used)) static const char protocol[] = "headway box protocol 4";

static ns_t clock_now(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

ns_t boot_now(void) { return clock_now(CLOCK_BOOTTIME); }

ns_t wall_now(void) { return clock_now(CLOCK_REALTIME); }

bool fail(struct failure *failure, enum stage stage, int error, const char *format, ...)
{
    va_list list;

    failure->stage = stage;
    failure->error = error;
    va_start(list, format);
    vsnprintf(failure->text, sizeof failure->text, format, list);
    va_end(list);
    return false;
}

/* --- reading and writing ----------------------------------------------------------------------------- */

static bool write_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t written = write(fd, data, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        data += written;
        size -= (size_t)written;
    }
    return true;
}

char *read_whole(int folder, const char *name, size_t limit, size_t *size)
{
    /* Not blocking: an image may have a named pipe instead of a file. */
    int fd = openat(folder, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat info;
    char *data = NULL;
    size_t have = 0;

    if (fd < 0)
        return NULL;
    if (fstat(fd, &info) < 0 || S_ISDIR(info.st_mode) || S_ISFIFO(info.st_mode)) {
        errno = EINVAL;
        goto out;
    }
    /* Files under /proc and /sys report the size 0. */
    size_t room = info.st_size > 0 ? (size_t)info.st_size : 4096;
    if (room > limit)
        room = limit;
    data = malloc(room + 1);
    while (data != NULL && have < room) {
        ssize_t got = read(fd, data + have, room - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            free(data);
            data = NULL;
        }
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    if (data != NULL)
        data[have] = '\0';
    if (size != NULL)
        *size = have;
out:;
    int error = errno;
    close(fd);
    errno = error;
    return data;
}

static bool replace_file(int folder, const char *name, const char *temporary, mode_t mode, const char *data,
                         size_t size)
{
    int fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode);

    if (fd < 0)
        return false;
    bool fine = fchmod(fd, mode) == 0 && write_all(fd, data, size);
    close(fd);
    return fine && renameat(folder, temporary, folder, name) == 0;
}

/* --- the box ------------------------------------------------------------------------------------------ */

bool open_box(struct box *box, const char *path)
{
    int root = box->root = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    box->end = box->log = -1;
    if (root < 0)
        return false;
    /* Held open from now on: the program may change paths, but the launcher writes to the same folder. */
    box->run = openat(root, "run", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    box->attempt = openat(root, "attempt", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (box->run < 0 || box->attempt < 0)
        return false;
    box->log = openat(box->run, "launcher.log", O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    struct stat info;
    box->log_size = box->log >= 0 && fstat(box->log, &info) == 0 ? (size_t)info.st_size : 0;
    return true;
}

void close_to_root(struct box *box)
{
    if (fchown(box->run, NOBODY, (gid_t)-1) < 0 || fchown(box->attempt, NOBODY, (gid_t)-1) < 0 ||
        fchown(box->lock, NOBODY, (gid_t)-1) < 0 || fchownat(box->root, "", NOBODY, (gid_t)-1, AT_EMPTY_PATH) < 0)
        say(box, "the box stays in reach of the program's root: %s", strerror(errno));
}

bool lock_box(struct box *box)
{
    ns_t until = boot_now() + LOCK_PATIENCE;

    /* Never made here: a lock that nobody else looks at proves nothing. */
    box->lock = openat(box->root, "lock", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (box->lock < 0)
        return false;
    while (flock(box->lock, LOCK_EX | LOCK_NB) < 0) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || boot_now() > until)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = LOCK_AGAIN}, NULL);
    }
    return true;
}

bool already_used(const struct box *box)
{
    return faccessat(box->run, "started", F_OK, 0) == 0 || faccessat(box->run, "end", F_OK, 0) == 0 ||
           faccessat(box->run, "ticket.taken", F_OK, 0) == 0;
}

bool take_ticket(const struct box *box) { return renameat(box->run, "ticket", box->run, "ticket.taken") == 0; }

void say(struct box *box, const char *format, ...)
{
    char line[400];
    va_list list;
    ns_t now = wall_now();

    int length = snprintf(line, sizeof line, "%lld.%03lld ", (long long)(now / SECOND),
                          (long long)(now % SECOND / MS));
    va_start(list, format);
    length += vsnprintf(line + length, sizeof line - (size_t)length - 1, format, list);
    va_end(list);
    if (length > (int)sizeof line - 2)
        length = sizeof line - 2;
    line[length++] = '\n';
    if (box->log < 0 || box->log_size + (size_t)length > LOG_BYTES)
        return;
    box->log_size += (size_t)length;
    write_all(box->log, line, (size_t)length);
}

/* --- spec --------------------------------------------------------------------------------------------- */

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In place. False: a broken escape, or an escaped NUL. */
static bool decode(char *text)
{
    char *to = text;

    for (const char *from = text; *from != '\0'; from++) {
        char c = *from;
        if (c == '%') {
            int high = hex(from[1]), low = high < 0 ? -1 : hex(from[2]);
            if (low < 0 || (high == 0 && low == 0))
                return false;
            c = (char)(high * 16 + low);
            from += 2;
        }
        *to++ = c;
    }
    *to = '\0';
    return true;
}

static bool parse_number(const char *text, int64_t *number)
{
    char *end;

    errno = 0;
    long long value = strtoll(text, &end, 10);
    while (*end == '\n' || *end == ' ')
        end++;
    if (end == text || *end != '\0' || errno != 0 || value < 0)
        return false;
    *number = value;
    return true;
}

static bool parse_ms(const char *text, ns_t *duration)
{
    int64_t ms;

    if (!parse_number(text, &ms))
        return false;
    *duration = ms < NEVER / 4 / MS ? ms * MS : NEVER / 4; /* instants plus durations must not overflow */
    return true;
}

bool read_spec(const struct box *box, struct spec *spec, struct failure *failure)
{
    size_t size = box->spec_size, lines = 2, args = 0, envs = 0, mounts = 0;
    char *data = box->spec != NULL ? box->spec : read_whole(box->run, "spec", SPEC_BYTES, &size);

    if (data == NULL)
        return fail(failure, STAGE_SETUP, errno, "the spec can't be read");
    memset(spec, 0, sizeof *spec);
    for (size_t i = 0; i < size; i++)
        lines += data[i] == '\n';
    spec->args = calloc(lines, sizeof *spec->args);
    spec->env = calloc(lines, sizeof *spec->env);
    spec->mounts = calloc(lines, sizeof *spec->mounts);
    spec->secrets = calloc(lines, sizeof *spec->secrets);
    if (spec->args == NULL || spec->env == NULL || spec->mounts == NULL || spec->secrets == NULL)
        return fail(failure, STAGE_SETUP, ENOMEM, "no memory for the spec");
    spec->workdir = "";
    spec->timeout = spec->grace = spec->lease_grace = -1;
    spec->log_limit = UINT64_MAX;

    char *next;
    for (char *line = data; *line != '\0'; line = next) {
        size_t length = strcspn(line, "\n");
        next = line[length] == '\n' ? line + length + 1 : line + length;
        line[length] = '\0';
        char *value = strchr(line, '=');
        int64_t number = 0;
        bool fine = value != NULL;
        if (fine) {
            *value++ = '\0';
            fine = decode(value);
        }
        if (!fine)
            return fail(failure, STAGE_SETUP, EINVAL, "a line of the spec is broken: %.60s", line);
        if (strcmp(line, "arg") == 0)
            spec->args[args++] = value;
        else if (strcmp(line, "env") == 0)
            spec->env[envs++] = value;
        else if (strcmp(line, "mount") == 0)
            spec->mounts[mounts++] = value;
        else if (strcmp(line, "secret_env") == 0)
            spec->secrets[spec->secret_count++].name = value;
        else if (strcmp(line, "secret_file") == 0) {
            fine = *value != '\0' && *value != '.' && strchr(value, '/') == NULL;
            spec->secrets[spec->secret_count].is_file = true;
            spec->secrets[spec->secret_count++].name = value;
        } else if (strcmp(line, "workdir") == 0)
            spec->workdir = value;
        else if (strcmp(line, "user") == 0)
            spec->user = value;
        else if (strcmp(line, "passwd_line") == 0)
            spec->passwd_line = value;
        else if (strcmp(line, "group_line") == 0)
            spec->group_line = value;
        else if (strcmp(line, "timeout_ms") == 0)
            fine = parse_ms(value, &spec->timeout);
        else if (strcmp(line, "grace_ms") == 0)
            fine = parse_ms(value, &spec->grace);
        else if (strcmp(line, "lease_grace_ms") == 0)
            fine = parse_ms(value, &spec->lease_grace);
        else if (strcmp(line, "log_limit_bytes") == 0) {
            fine = parse_number(value, &number);
            spec->log_limit = (uint64_t)number;
        } else if (strcmp(line, "log_limit_action") == 0)
            spec->log_limit_kills = strcmp(value, "kill") == 0;
        else if (strcmp(line, "drop_caps") == 0)
            spec->drop_caps = strcmp(value, "1") == 0;
        else if (strcmp(line, "open_root") == 0)
            spec->open_root = strcmp(value, "1") == 0;
        /* A newer Worker may write other keys, which are ignored. */
        if (!fine)
            return fail(failure, STAGE_SETUP, EINVAL, "%.40s has no sense in the spec: %.60s", line, value);
    }
    if (args == 0 || spec->user == NULL || spec->timeout < 0 || spec->grace < 0)
        return fail(failure, STAGE_SETUP, EINVAL, "the spec lacks a program, a user, a timeout or a grace");
    if (spec->lease_grace < 0)
        spec->lease_grace = spec->grace;
    return true;
}

/* --- orders ------------------------------------------------------------------------------------------- */

static const char *find_value(const char *text, const char *key, char *value, size_t room)
{
    size_t key_length = strlen(key);

    for (const char *line = text; line != NULL && *line != '\0';) {
        size_t length = strcspn(line, "\n");
        if (length > key_length && line[key_length] == '=' && strncmp(line, key, key_length) == 0) {
            length -= key_length + 1;
            if (length >= room)
                length = room - 1;
            memcpy(value, line + key_length + 1, length);
            value[length] = '\0';
            return value;
        }
        line += length + (line[length] == '\n');
    }
    return NULL;
}

/* A missing or broken file leaves the order as it was. */
void read_orders(const struct box *box, struct orders *orders)
{
    char value[64];
    int64_t number;
    ns_t duration;
    char *text = read_whole(box->run, "lease", ORDER_BYTES, NULL);

    if (text != NULL && strncmp(text, "none", 4) == 0)
        orders->lease_until = NEVER, orders->lease_known = true;
    else if (text != NULL && parse_number(text, &number))
        orders->lease_until = number, orders->lease_known = true;
    free(text);

    text = read_whole(box->run, "limits", ORDER_BYTES, NULL);
    if (text != NULL && find_value(text, "timeout_ms", value, sizeof value) && parse_ms(value, &duration))
        orders->timeout = duration;
    free(text);

    text = read_whole(box->run, "stop", ORDER_BYTES, NULL);
    if (text != NULL) {
        if (!orders->stop && find_value(text, "word", value, sizeof value))
            snprintf(orders->stop_word, sizeof orders->stop_word, "%.31s", value);
        if (find_value(text, "grace_ms", value, sizeof value) && parse_ms(value, &duration))
            orders->stop_grace = duration;
        orders->stop = true;
    }
    free(text);
}

/* --- the launch ticket -------------------------------------------------------------------------------- */

bool ticket_is_valid(const struct box *box)
{
    char here[BOOT_ID_BYTES] = "", there[BOOT_ID_BYTES] = "";
    char *now = read_whole(AT_FDCWD, "/proc/sys/kernel/random/boot_id", sizeof here - 1, NULL);
    char *ticket = read_whole(box->run, "ticket", ORDER_BYTES, NULL);

    if (now != NULL)
        snprintf(here, sizeof here, "%.*s", (int)strcspn(now, "\n"), now);
    bool valid = find_value(ticket, "boot_id", there, sizeof there) != NULL && here[0] != '\0' &&
                 strcmp(here, there) == 0;
    free(now);
    free(ticket);
    return valid;
}

/* --- records ------------------------------------------------------------------------------------------ */

bool write_started(const struct box *box, ns_t wall, ns_t boot, pid_t pid)
{
    char text[128];
    int size = snprintf(text, sizeof text, "wall_ns=%lld\nboot_ns=%lld\npid=%d\n", (long long)wall,
                        (long long)boot, (int)pid);

    return replace_file(box->run, "started", ".started.new", 0600, text, (size_t)size);
}

bool write_deadline(const struct box *box, ns_t wall)
{
    char text[32];
    int size = snprintf(text, sizeof text, "%lld\n", (long long)(wall / SECOND));

    return replace_file(box->attempt, "deadline", ".deadline.new", 0644, text, (size_t)size);
}

bool write_taken(const struct box *box, ns_t timeout)
{
    char text[48];
    int size = snprintf(text, sizeof text, "timeout_ms=%lld\n", (long long)(timeout / MS));

    return replace_file(box->run, "taken", ".taken.new", 0600, text, (size_t)size);
}

static const char *errno_name(int error)
{
    static const struct {
        int number;
        const char *name;
    } names[] = {
        {E2BIG, "E2BIG"},     {EACCES, "EACCES"},   {EAGAIN, "EAGAIN"},   {EBUSY, "EBUSY"},
        {EDQUOT, "EDQUOT"},   {EEXIST, "EEXIST"},   {EINVAL, "EINVAL"},   {EIO, "EIO"},
        {EISDIR, "EISDIR"},   {ELIBBAD, "ELIBBAD"}, {ELOOP, "ELOOP"},     {EMFILE, "EMFILE"},
        {ENFILE, "ENFILE"},   {ENODEV, "ENODEV"},   {ENOENT, "ENOENT"},   {ENOEXEC, "ENOEXEC"},
        {ENOMEM, "ENOMEM"},   {ENOSPC, "ENOSPC"},   {ENOSYS, "ENOSYS"},   {ENOTDIR, "ENOTDIR"},
        {ENXIO, "ENXIO"},     {EPERM, "EPERM"},     {EROFS, "EROFS"},     {ESTALE, "ESTALE"},
        {ETXTBSY, "ETXTBSY"}, {EXDEV, "EXDEV"},     {ENAMETOOLONG, "ENAMETOOLONG"},
        {ENOTCONN, "ENOTCONN"}, {ETIMEDOUT, "ETIMEDOUT"}, {EINTR, "EINTR"},
    };
    static char other[16];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].number == error)
            return names[i].name;
    snprintf(other, sizeof other, "E%d", error);
    return other;
}

static const char *stage_name(int stage)
{
    switch (stage) {
    case STAGE_IMAGE:
        return "image";
    case STAGE_USER:
        return "user";
    case STAGE_WORKDIR:
        return "workdir";
    case STAGE_EXEC:
        return "exec";
    default:
        return "setup";
    }
}

static size_t put_text(char *to, const char *text)
{
    size_t length = 0;

    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '%' || c < 0x20 || c >= 0x7f)
            length += (size_t)sprintf(to + length, "%%%02X", c);
        else
            to[length++] = (char)c;
    }
    to[length] = '\0';
    return length;
}

/* Reserves disk space for the record. Readers do not see it before the rename. */
static int make_end(const struct box *box)
{
    int fd = openat(box->run, END_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd >= 0)
        posix_fallocate(fd, 0, END_BYTES);
    return fd;
}

void reserve_end(struct box *box) { box->end = make_end(box); }

bool write_end(struct box *box, const struct end_record *record)
{
    char text[END_BYTES], encoded[3 * sizeof record->failure->text + 1] = "", code[8] = "", signal[8] = "";
    char started[24] = "", peak[24] = "", left_names[3 * 128] = "";
    const struct failure *failure = record->failure;

    if (record->has_status && WIFEXITED(record->status))
        snprintf(code, sizeof code, "%d", WEXITSTATUS(record->status));
    if (record->has_status && WIFSIGNALED(record->status))
        snprintf(signal, sizeof signal, "%d", WTERMSIG(record->status));
    if (record->started_wall != 0)
        snprintf(started, sizeof started, "%lld", (long long)record->started_wall);
    if (record->peak_memory >= 0)
        snprintf(peak, sizeof peak, "%lld", (long long)record->peak_memory);
    if (failure != NULL)
        put_text(encoded, failure->text);
    if (record->left_names != NULL)
        put_text(left_names, record->left_names);
    int size = snprintf(
        text, sizeof text,
        "reason=%s\nstop_word=%s\nexit_code=%s\nsignal=%s\nerrno=%s\nerror=%s\nstage=%s\n"
        "started_wall_ns=%s\nended_wall_ns=%lld\nrun_ns=%lld\ntimeout_ms=%lld\npeak_memory_bytes=%s\noom_kills=%lld\n"
        "stdout_bytes=%llu\nstderr_bytes=%llu\ndropped_bytes=%llu\nleft=%lld\nleft_names=%s\n",
        record->reason, record->stop_word, code, signal, failure != NULL ? errno_name(failure->error) : "", encoded,
        failure != NULL ? stage_name(failure->stage) : "", started, (long long)record->ended_wall,
        (long long)record->run, (long long)(record->timeout / MS), peak, (long long)record->oom_kills, (unsigned long long)record->stdout_bytes,
        (unsigned long long)record->stderr_bytes, (unsigned long long)record->dropped_bytes,
        (long long)record->left, left_names);

    for (int tries = 0; tries < 150; tries++) {
        if (box->end < 0)
            box->end = make_end(box);
        if (box->end >= 0 && pwrite(box->end, text, (size_t)size, 0) == size && ftruncate(box->end, size) == 0 &&
            fsync(box->end) == 0 && renameat(box->run, END_NAME, box->run, "end") == 0) {
            fsync(box->run);
            return true;
        }
        nanosleep(&(struct timespec){.tv_nsec = 200 * 1000 * 1000}, NULL);
    }
    say(box, "the end record can't be written: %s", strerror(errno));
    return false;
}
