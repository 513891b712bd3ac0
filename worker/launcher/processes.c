/* Who lives in the container, and what is known of them. */
#define _GNU_SOURCE
#include "launcher.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>


static struct process processes[PROCESSES];

static char *read_proc(pid_t pid, const char *file, size_t *size)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    return read_whole(AT_FDCWD, path, 4096, size);
}

static bool read_process(pid_t pid, struct process *process)
{
    char *text = read_proc(pid, "stat", NULL), *name, *after;
    bool found = text != NULL && (name = strchr(text, '(')) != NULL && (after = strrchr(name, ')')) != NULL &&
                 after[1] != '\0' && after[2] != '\0';

    if (found) {
        char *at = after + 4; /* the parent; the start is 18 words behind it */
        *after = '\0';
        snprintf(process->name, sizeof process->name, "%.15s", name + 1);
        process->pid = pid;
        process->state = after[2];
        process->parent = atoi(at);
        process->group = (at = strchr(at, ' ')) != NULL ? atoi(at + 1) : 0;
        for (int words = 0; words < 17 && at != NULL; words++)
            at = strchr(at + 1, ' ');
        process->started = at != NULL ? strtoull(at, NULL, 10) : 0;
    }
    free(text);
    return found;
}

bool lives(const struct process *process) { return strchr("ZXx", process->state) == NULL; }

bool is_same(const struct process *one, const struct process *other)
{
    return one->pid == other->pid && one->started == other->started;
}

bool look_again(const struct process *process, struct process *now)
{
    return read_process(process->pid, now) && lives(now) && is_same(process, now);
}

size_t list_processes(bool is_init, const struct process **table)
{
    size_t count = 0, kept = 0;
    DIR *proc = opendir("/proc");
    struct dirent *entry;

    *table = processes;
    if (proc == NULL)
        return 0;
    while ((entry = readdir(proc)) != NULL && count < PROCESSES) {
        pid_t pid = atoi(entry->d_name);
        if (pid > 0 && pid != getpid() && read_process(pid, &processes[count])) {
            processes[count].ours = is_init || processes[count].parent == getpid();
            count++;
        }
    }
    closedir(proc);
    for (bool more = !is_init; more;) {
        more = false;
        for (size_t i = 0; i < count; i++)
            for (size_t j = 0; j < count && !processes[i].ours; j++)
                if (processes[j].ours && processes[j].pid == processes[i].parent)
                    processes[i].ours = more = true;
    }
    for (size_t i = 0; i < count; i++)
        if (processes[i].ours)
            processes[kept++] = processes[i];
    return kept;
}

bool has_signal(pid_t pid, const char *set, int number)
{
    char *text = read_proc(pid, "status", NULL), *line = text != NULL ? strstr(text, set) : NULL;
    bool found = line != NULL && (strtoull(line + strlen(set), NULL, 16) >> (number - 1) & 1) != 0;

    free(text);
    return found;
}

/* --- what a process is by its name ---------------------------------------------------------------------- */

static bool is_one_of(const char *name, const char *const *names)
{
    for (; *names != NULL; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

static enum waiter waiter_named(const char *name)
{
    static const char *const shells[] = {"sh", "bash", "dash", "ash", "rbash", "zsh", "ksh", "mksh", NULL};
    static const char *const others[] = {"tini",    "tini-static", "dumb-init", "docker-init", "catatonit",
                                         "su",      "runuser",     "timeout",   "time",        "make",
                                         "gmake",   "xargs",       "parallel",  NULL};
    static const char *const relays[] = {"conda", "mamba", "micromamba", "sudo", "script", NULL};

    return is_one_of(name, shells) ? SHELL : is_one_of(name, others) ? WAITER : is_one_of(name, relays) ? RELAY : NONE;
}

/* By the name under which it was started: the program's file is nobody's to read but its user's. */
enum waiter waiter_kind(pid_t pid)
{
    size_t size = 0;
    char *words = read_proc(pid, "cmdline", &size), *name = words, *slash;
    enum waiter kind = NONE;

    for (int tries = 0; words != NULL && tries < 2 && name < words + size; tries++) {
        size_t length = strlen(name);
        if ((slash = strrchr(name, '/')) != NULL)
            length -= (size_t)(slash + 1 - name), name = slash + 1;
        kind = waiter_named(name + (*name == '-')); /* a login shell */
        /* busybox sh; python3 /opt/conda/bin/conda */
        if (kind != NONE || (strcmp(name, "busybox") != 0 && strncmp(name, "python", 6) != 0))
            break;
        name += length + 1;
    }
    free(words);
    return kind;
}

/* --- pipes ------------------------------------------------------------------------------------------------ */

/* Only its user may look at the descriptors of a process, and the launcher has no more power than that user. */
static void look_as(pid_t pid)
{
    char path[32];
    struct stat info;

    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    if (stat(path, &info) < 0)
        return;
    setfsgid(info.st_gid);
    setfsuid(info.st_uid);
}

static void look_as_ourselves(void)
{
    setfsuid(geteuid());
    setfsgid(getegid());
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* the change may have reset it */
}

static uint64_t pipe_behind(const char *path)
{
    char link[64];
    ssize_t size = readlink(path, link, sizeof link - 1);

    link[size > 0 ? size : 0] = '\0';
    return strncmp(link, "pipe:[", 6) == 0 ? strtoull(link + 6, NULL, 10) : 0;
}

bool may_see_pipes(pid_t pid)
{
    char path[64], link[64];

    snprintf(path, sizeof path, "/proc/%d/fd/0", (int)pid);
    look_as(pid);
    bool may = readlink(path, link, sizeof link) >= 0 || (errno != EACCES && errno != EPERM);
    look_as_ourselves();
    return may;
}

uint64_t pipe_at(pid_t pid, int fd)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
    look_as(pid);
    uint64_t pipe = pipe_behind(path);
    look_as_ourselves();
    return pipe;
}

bool has_end_of(pid_t pid, uint64_t pipe, bool writing)
{
    char path[64 + 256];
    struct stat info;
    struct dirent *entry;
    bool found = false;

    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    look_as(pid);
    DIR *folder = opendir(path);
    while (folder != NULL && !found && (entry = readdir(folder)) != NULL) {
        snprintf(path, sizeof path, "/proc/%d/fd/%s", (int)pid, entry->d_name);
        found = pipe_behind(path) == pipe && lstat(path, &info) == 0 &&
                (info.st_mode & (writing ? S_IWUSR : S_IRUSR)) != 0;
    }
    if (folder != NULL)
        closedir(folder);
    look_as_ourselves();
    return found;
}
