/* Who is told that the end comes, and when. The rules are in docs/signals.md.
 *
 * It goes in rounds. In each those are told who save their work: the main process, or the program behind it that a shell
 * waits for. The shells on the way are stopped first, so none of them starts anything behind our back. The next round
 * comes once those have ended. When no such program is left, all others are told, the shells with them. */
#define _GNU_SOURCE
#include "launcher.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SHELLS_DEEP 16               /* a script that runs a script that runs a program */
#define STOP_PATIENCE (150 * MS)     /* a shell that starts a program at this moment can't be stopped before that is done */
#define SEARCH_PATIENCE (300 * MS)   /* among thousands of shells nobody looks for programs: the grace runs */
#define INPUT_PATIENCE SECOND        /* who reads from a pipe ends with its input, if nobody disturbs it */

static struct process told[PROCESSES], held[PROCESSES];
static size_t told_count, held_count;

static bool is_in(const struct process *set, size_t count, const struct process *process)
{
    for (size_t i = 0; i < count; i++)
        if (is_same(&set[i], process))
            return true;
    return false;
}

static void put_in(struct process *set, size_t *count, const struct process *process)
{
    if (*count < PROCESSES)
        set[(*count)++] = *process;
}

static void send_term(const struct process *process)
{
    kill(process->pid, SIGTERM);
    kill(process->pid, SIGCONT);
}

struct round {
    struct ending *ending;
    struct box *box;
    ns_t now, stop_until, search_until;
    bool input_may_end; /* readers of pipes are left alone for a moment */
};

/* Whether its work may be done once nothing comes through its pipe any more. */
static bool ends_with_input(const struct process *process)
{
    return !is_in(held, held_count, process) && pipe_at(process->pid, 0) != 0;
}

/* Always true: it is to be waited for. */
static bool tell(struct round *r, const struct process *process)
{
    say(r->box, "TERM goes to %s (%d)%s", process->name, (int)process->pid, r->ending->rounds == 0 ? " first" : "");
    put_in(told, &told_count, process);
    send_term(process);
    return true;
}

/* Returns once it stands still: what it started until then can be seen. */
static void hold(struct round *r, const struct process *process)
{
    struct timespec nap = {.tv_nsec = MS / 2};
    struct process now;

    if (is_in(held, held_count, process) || kill(process->pid, SIGSTOP) < 0)
        return;
    put_in(held, &held_count, process);
    while (look_again(process, &now) && now.state != 'T' && now.state != 't' && boot_now() < r->stop_until)
        nanosleep(&nap, NULL);
}

/* --- what a shell waits for -------------------------------------------------------------------------------- */

/* A child of a shell. Its place says how sure it is that the shell waits for it: the highest is the program. */
enum place {
    BACKGROUND, /* shells start those with SIGINT and SIGQUIT ignored */
    BESIDE,     /* it reads what the shell writes, as in `exec > >(tee log)` */
    READ,       /* the shell reads what it writes, as in `$(…)` */
    UNSURE,     /* one of both signals is ignored: perhaps by the program itself */
    FRONT,
};

struct child {
    struct process process;
    enum place place; /* of a shell's child */
    bool taken; /* a member of the pipe */
};

static enum place place_of(const struct process *child, const struct process *shell)
{
    bool no_int = has_signal(child->pid, "SigIgn:", SIGINT), no_quit = has_signal(child->pid, "SigIgn:", SIGQUIT);
    uint64_t in = pipe_at(child->pid, 0), out = pipe_at(child->pid, 1);

    if (no_int && no_quit)
        return BACKGROUND;
    if (in != 0 && has_end_of(shell->pid, in, true))
        return BESIDE;
    if (out != 0 && has_end_of(shell->pid, out, false))
        return READ;
    return no_int || no_quit ? UNSURE : FRONT;
}

static struct child *children_of(struct round *r, const struct process *parent, size_t *count)
{
    const struct process *table;
    size_t all = list_processes(r->ending->is_init, &table), found = 0;

    *count = 0;
    for (size_t i = 0; i < all; i++)
        found += table[i].parent == parent->pid && lives(&table[i]);
    struct child *children = calloc(found + 1, sizeof *children);
    for (size_t i = 0; i < all && children != NULL; i++)
        if (table[i].parent == parent->pid && lives(&table[i]))
            children[(*count)++].process = table[i];
    return children;
}

static bool is_newer(const struct process *one, const struct process *other)
{
    return one->started != other->started ? one->started > other->started : one->pid > other->pid;
}

/* Whether this child, or a process below it, writes into a pipe. */
static bool feeds(struct round *r, const struct process *child, uint64_t pipe)
{
    const struct process *table;
    size_t all = list_processes(r->ending->is_init, &table);

    for (size_t i = 0; i < all && boot_now() < r->search_until; i++) {
        const struct process *up = &table[i];
        for (int deep = 0; deep < 64 && up != NULL && up->pid != child->pid; deep++) {
            const struct process *above = NULL;
            for (size_t j = 0; j < all && above == NULL; j++)
                if (table[j].pid == up->parent)
                    above = &table[j];
            up = above;
        }
        if (up != NULL && up->pid == child->pid && has_end_of(table[i].pid, pipe, true))
            return true;
    }
    return false;
}

/* The first program of the pipe that the shell waits for, or NULL. That pipe is what it started last. Where nobody may
 * see pipes, the program that has lived longest stands for it. */
static struct child *waited_for(struct round *r, struct child *children, size_t count)
{
    struct child *first = NULL, *before;
    uint64_t pipe;

    for (size_t i = 0; i < count; i++)
        if (children[i].place >= READ &&
            (first == NULL || children[i].place > first->place ||
             (children[i].place == first->place &&
              is_newer(&children[i].process, &first->process) == may_see_pipes(children[i].process.pid))))
            first = &children[i];
    while (first != NULL && !first->taken) {
        first->taken = true;
        pipe = pipe_at(first->process.pid, 0);
        before = NULL;
        for (size_t i = 0; i < count && pipe != 0 && before == NULL; i++)
            if (!children[i].taken && children[i].place >= UNSURE && feeds(r, &children[i].process, pipe))
                before = &children[i];
        if (before != NULL)
            first = before;
    }
    return first;
}

/* --- who is next ------------------------------------------------------------------------------------------- */

static bool choose(struct round *r, const struct process *process, int deep);

static bool choose_all(struct round *r, struct child *children, size_t count, int deep)
{
    bool somebody = false;

    for (size_t i = 0; i < count; i++)
        if (children[i].place != BESIDE && choose(r, &children[i].process, deep))
            somebody = true;
    return somebody;
}

/* With job control each job has a group of its own, and none is started as one of the background. */
static bool is_other_job(const struct child *child, const struct process *shell)
{
    return !child->taken && child->place == FRONT && child->process.group == child->process.pid &&
           child->process.group != shell->group && pipe_at(child->process.pid, 0) == 0;
}

/* Tells what a process waits for. Returns false if there is nothing. */
static bool choose_below(struct round *r, const struct process *process, enum waiter kind, bool has_trap, int deep)
{
    size_t count;
    struct child *children = children_of(r, process, &count), *first = NULL;
    bool somebody = false;

    for (size_t i = 0; i < count && kind == SHELL; i++)
        children[i].place = place_of(&children[i].process, process);
    if (kind == SHELL)
        first = waited_for(r, children, count);
    if (first != NULL) {
        somebody = choose(r, &first->process, deep);
        for (size_t i = 0; i < count; i++)
            if (is_other_job(&children[i], process))
                choose(r, &children[i].process, deep);
    } else if (kind != SHELL || !has_trap) {
        somebody = choose_all(r, children, count, deep);
    }
    free(children);
    return somebody;
}

/* True: somebody was told, or is to be waited for. */
static bool choose(struct round *r, const struct process *process, int deep)
{
    enum waiter kind = waiter_kind(process->pid);

    if (is_in(told, told_count, process))
        return false; /* it has ended, or will be gone in a moment */
    if (r->input_may_end && ends_with_input(process))
        return true;
    if (boot_now() >= r->search_until)
        return tell(r, process);
    if (kind != NONE && kind != RELAY && deep < SHELLS_DEEP) {
        hold(r, process);
        kind = waiter_kind(process->pid); /* it may have become its program */
    }
    if (kind == NONE || deep == SHELLS_DEEP)
        return tell(r, process);
    bool has_trap = has_signal(process->pid, "SigCgt:", SIGTERM);
    if (has_signal(process->pid, "SigIgn:", SIGTERM))
        kill(process->pid, SIGCONT); /* it was told to go on, whatever comes */
    if (choose_below(r, process, kind, has_trap, deep + 1))
        return true;
    /* Nothing is left that it waits for. A trap can pass the signal on now. The main process is told with the rest. */
    return deep > 0 || has_trap ? tell(r, process) : false;
}

/* The main process. After the first round also those whose parents have ended: the launcher is their parent now. */
static bool choose_next(struct round *r)
{
    struct process launcher = {.pid = getpid()};
    size_t count, others = 0, before = told_count;
    struct child *roots = children_of(r, &launcher, &count);
    bool somebody = false;

    for (size_t i = 0; i < count; i++)
        if (roots[i].process.pid == r->ending->main_pid)
            somebody = choose(r, &roots[i].process, 0);
        else
            roots[others++] = roots[i];
    if (r->ending->rounds > 0 || !somebody)
        somebody = choose_all(r, roots, others, 1) || somebody;
    free(roots);
    if (told_count > before) {
        r->ending->rounds++;
        r->ending->quiet_at = 0;
    }
    return somebody;
}

void kill_everybody(bool is_init)
{
    const struct process *table;

    /* The launcher's own kill(-1) would reach the whole machine when it is not process 1 of a container. */
    if (is_init) {
        kill(-1, SIGKILL);
        return;
    }
    for (size_t i = 0, all = list_processes(is_init, &table); i < all; i++)
        kill(table[i].pid, SIGKILL);
}

/* To all who were not told; `readers`: to those alone who read from a pipe, else to all but them. */
static void tell_rest(struct ending *ending, bool readers, bool all)
{
    const struct process *table;
    size_t count = list_processes(ending->is_init, &table);

    for (size_t i = 0; i < count; i++)
        if (lives(&table[i]) && !is_in(told, told_count, &table[i]) &&
            (all || ends_with_input(&table[i]) == readers))
            send_term(&table[i]);
}

void tell_next(struct ending *ending, struct box *box, ns_t now)
{
    struct round r = {.ending = ending, .box = box, .now = now, .stop_until = now + STOP_PATIENCE, .search_until = now + SEARCH_PATIENCE};
    struct process still;

    if (ending->readers_told || now >= ending->kill_at)
        return;
    for (size_t i = 0; i < told_count && !ending->rest_told; i++)
        if (look_again(&told[i], &still))
            return;
    if (ending->quiet_at == 0)
        ending->quiet_at = now;
    ns_t patience = (ending->kill_at - ending->quiet_at) / 4;
    r.input_may_end = ending->rounds > 0 && now < ending->quiet_at + (patience < INPUT_PATIENCE ? patience : INPUT_PATIENCE);
    if (!ending->rest_told) {
        if (choose_next(&r))
            return;
        ending->rest_told = true;
        tell_rest(ending, false, !r.input_may_end);
        ending->readers_told = !r.input_may_end;
    } else if (!r.input_may_end) {
        tell_rest(ending, true, false);
        ending->readers_told = true;
    }
}
