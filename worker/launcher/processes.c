/* Who lives in the container, and who of them is told first that the end comes. */
#define _GNU_SOURCE
#include "launcher.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROCESSES 16384
#define SHELLS_DEEP 8 /* a script that runs a script that runs a program */

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
        for (int words = 0; words < 18 && at != NULL; words++)
            if ((at = strchr(at, ' ')) != NULL)
                at++;
        process->started = at != NULL ? strtoull(at, NULL, 10) : 0;
    }
    free(text);
    return found;
}

static bool lives(const struct process *process) { return strchr("ZXx", process->state) == NULL; }

bool is_gone(const struct process *process)
{
    struct process now;

    return !read_process(process->pid, &now) || !lives(&now) || now.started != process->started;
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

void signal_others(bool is_init, int number, const struct process *these, size_t count)
{
    const struct process *table;

    /* The launcher's own kill(-1) would reach the whole machine when it is not process 1 of a container. */
    if (is_init && count == 0) {
        kill(-1, number);
        return;
    }
    size_t all = list_processes(is_init, &table);
    for (size_t i = 0; i < all; i++) {
        bool spared = false;
        for (size_t j = 0; j < count && !spared; j++)
            spared = these[j].pid == table[i].pid && these[j].started == table[i].started;
        if (!spared)
            kill(table[i].pid, number);
    }
}

/* --- who is told first -------------------------------------------------------------------------------------- */

/* By the name under which it was started: the program's file is nobody's to read but its user's. */
static bool is_shell(pid_t pid)
{
    static const char *const names[] = {"sh", "bash", "dash", "ash", "rbash", "zsh", "ksh", "mksh"};
    size_t size = 0;
    char *words = read_proc(pid, "cmdline", &size), *name = words, *slash;
    bool found = false;

    if (words == NULL)
        return false;
    for (int tries = 0; tries < 2 && name < words + size; tries++) {
        if ((slash = strrchr(name, '/')) != NULL)
            name = slash + 1;
        name += *name == '-'; /* a login shell */
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            found = found || strcmp(name, names[i]) == 0;
        if (found || strcmp(name, "busybox") != 0)
            break;
        name += strlen(name) + 1; /* busybox sh */
    }
    free(words);
    return found;
}

/* Whether a signal is in a set of its status, SigIgn or SigCgt. */
static bool has_signal(pid_t pid, const char *set, int number)
{
    char *text = read_proc(pid, "status", NULL), *line = text != NULL ? strstr(text, set) : NULL;
    bool found = line != NULL && (strtoull(line + strlen(set), NULL, 16) >> (number - 1) & 1) != 0;

    free(text);
    return found;
}

struct choice {
    const struct process *table;
    size_t count;
    struct process *chosen;
    size_t room, taken;
};

static void take(struct choice *c, const struct process *process)
{
    if (c->taken < c->room)
        c->chosen[c->taken++] = *process;
}

/* Shells start what they don't wait for with SIGINT ignored, where nobody sits at a terminal. */
static bool is_in_background(const struct process *process) { return has_signal(process->pid, "SigIgn:", SIGINT); }

static void choose(struct choice *c, const struct process *process, int deep)
{
    const struct process *waited_for = NULL;
    size_t before = c->taken;

    if (deep == SHELLS_DEEP || !is_shell(process->pid)) {
        take(c, process);
        return;
    }
    bool has_trap = has_signal(process->pid, "SigCgt:", SIGTERM);
    /* In a pipe the first one: the others end with their input. */
    for (size_t i = 0; i < c->count; i++) {
        const struct process *child = &c->table[i];
        if (child->parent == process->pid && lives(child) && !is_in_background(child) &&
            (waited_for == NULL || child->started < waited_for->started ||
             (child->started == waited_for->started && child->pid < waited_for->pid)))
            waited_for = child;
    }
    if (waited_for != NULL)
        choose(c, waited_for, deep + 1);
    /* A shell with a trap that only waits hears the signal, and passes it on as its author meant. */
    for (size_t i = 0; i < c->count && waited_for == NULL && !has_trap; i++)
        if (c->table[i].parent == process->pid && lives(&c->table[i]))
            choose(c, &c->table[i], deep + 1);
    if (has_trap || c->taken == before)
        take(c, process);
}

size_t first_to_end(bool is_init, pid_t main_pid, struct process *chosen, size_t room)
{
    struct choice c = {.chosen = chosen, .room = room};

    c.count = list_processes(is_init, &c.table);
    for (size_t i = 0; i < c.count; i++)
        if (c.table[i].pid == main_pid && lives(&c.table[i])) {
            choose(&c, &c.table[i], 0);
            break;
        }
    return c.taken;
}
