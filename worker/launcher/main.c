/* The loop: it decides what ends an attempt (own end, timeout, stop order, lease, log limit), and ends it. */
#define _GNU_SOURCE
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ORDERS_EVERY (5 * SECOND)            /* in case an event was missed */
#define ORDERS_EVERY_WITHOUT_EVENTS SECOND
#define LOOK_WHILE_ENDING (100 * MS)         /* who is not our child makes no SIGCHLD */
#define LOOK_AT_FIRST (10 * MS)              /* most programs end soon after their TERM */
#define AT_FIRST (2 * SECOND)
#define KILL_AGAIN (20 * MS)
#define KILL_PATIENCE (30 * SECOND)          /* for a process that hangs in the kernel */
#define FULL_PATIENCE (30 * SECOND)          /* a full disk blocks the program so long, then output is dropped */
#define SECRETS_PATIENCE (120 * SECOND)      /* the Worker may be restarted, and ask for them anew */
#define SECRETS_AGAIN (20 * MS)
#define DEADLINE_DRIFT (2 * SECOND)
#define LEFT_NAMES 5
#define FOREIGN_BOX 120 /* the exit code where something of the image is in the place of the box */

enum phase { STARTING, RUNNING, ENDING, KILLING };

struct launcher {
    struct box box;
    struct spec spec;
    struct orders orders;
    struct spool spool;
    const char *cgroup; /* NULL: outside a container, where the numbers are those of the machine */
    bool is_init;
    enum phase phase;
    pid_t main_pid;
    int report, signals, events;
    struct report ready; /* once the child reported that the exec is its next step; boot is 0 before */
    bool ended; /* the main process */
    int status;
    ns_t started, started_wall, ended_at, ended_wall;
    ns_t deadline, deadline_wall; /* as written to the file */
    ns_t kill_at, killed_at, look_at, orders_at;
    const char *reason; /* set when something other than the program ends the attempt */
    const char *stop_word;
    struct ending ending;
    ns_t ending_at;
    bool killed_outside;
    struct failure failure;
    int64_t oom_kills_before;
    bool may_not_start; /* the launch ticket was withdrawn: nothing is run, and nothing is recorded */
    int64_t left;       /* processes that lived when the program had ended by itself */
    char left_names[LEFT_NAMES * 16];
};

static ns_t earlier(ns_t a, ns_t b) { return a < b ? a : b; }

/* --- the processes of the container -------------------------------------------------------------------- */

/* What the program left in the background is ended with it: the record names it, since it dies without a word. */
static void note_left(struct launcher *l)
{
    const struct process *processes;
    size_t count = list_processes(l->is_init, &processes), named = 0;
    char *at = l->left_names, *end = at + sizeof l->left_names;

    for (size_t i = 0; i < count; i++) {
        bool known = false;
        if (strchr("ZXx", processes[i].state) != NULL)
            continue;
        l->left++;
        for (size_t j = 0; j < i && !known; j++)
            known = strchr("ZXx", processes[j].state) == NULL && strcmp(processes[j].name, processes[i].name) == 0;
        if (known || named == LEFT_NAMES)
            continue;
        at += snprintf(at, (size_t)(end - at), "%s%s", named++ > 0 ? "/" : "", processes[i].name);
    }
}

/* Returns true once there are no children any more. */
static bool reap(struct launcher *l)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == l->main_pid && !l->ended) {
            l->ended = true;
            l->status = status;
            l->ended_at = boot_now();
            l->ended_wall = wall_now();
        }
    return pid < 0 && errno == ECHILD;
}

static bool everybody_is_gone(struct launcher *l)
{
    bool childless = reap(l);

    /* Processes of `docker exec` are not children of any process in here. */
    return childless && l->ended && (!l->is_init || (kill(-1, 0) < 0 && errno == ESRCH));
}

/* --- readings of the cgroup ------------------------------------------------------------------------------ */

static int64_t cgroup_number(const struct launcher *l, const char *file, const char *key)
{
    char path[256];
    int64_t number = -1;

    if (l->cgroup == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/%s", l->cgroup, file);
    char *text = read_whole(AT_FDCWD, path, 4096, NULL);
    for (char *line = text; line != NULL && *line != '\0';) {
        size_t length = strlen(key);
        if (strncmp(line, key, length) == 0 && line[length + strspn(line + length, " ")] != '\0') {
            number = strtoll(line + length, NULL, 10);
            break;
        }
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    free(text);
    return number;
}

static int64_t oom_kills(const struct launcher *l)
{
    int64_t number = cgroup_number(l, "memory.events", "oom_kill ");

    if (number < 0)
        number = cgroup_number(l, "memory/memory.oom_control", "oom_kill ");
    return number < 0 ? 0 : number;
}

static int64_t peak_memory(const struct launcher *l)
{
    struct rusage usage;
    int64_t bytes = cgroup_number(l, "memory.peak", "");

    if (bytes <= 0)
        bytes = cgroup_number(l, "memory/memory.max_usage_in_bytes", "");
    if (bytes <= 0 && getrusage(RUSAGE_CHILDREN, &usage) == 0)
        bytes = (int64_t)usage.ru_maxrss * 1024;
    return bytes;
}

/* --- ways to end ------------------------------------------------------------------------------------------ */

static void kill_all(struct launcher *l, ns_t now)
{
    if (l->phase != KILLING) {
        l->phase = KILLING;
        l->killed_at = now;
    }
    kill_everybody(l->is_init);
    l->look_at = now + KILL_AGAIN;
}

static void go_on_ending(struct launcher *l, ns_t now)
{
    tell_next(&l->ending, &l->box, now);
    l->look_at = now + (now - l->ending_at < AT_FIRST ? LOOK_AT_FIRST : LOOK_WHILE_ENDING);
}

/* The first reason counts. A later one can only shorten the grace. */
static void end_for(struct launcher *l, const char *reason, const char *word, ns_t grace, ns_t now)
{
    if (l->phase == KILLING)
        return;
    l->kill_at = l->ending.kill_at = earlier(l->kill_at, now + grace);
    if (l->phase == ENDING)
        return;
    say(&l->box, "ending: %s %s, grace %lld ms", reason, word, (long long)(grace / MS));
    l->reason = reason;
    l->stop_word = word;
    l->phase = ENDING;
    l->ending_at = now;
    l->ending.is_init = l->is_init;
    l->ending.main_pid = l->main_pid;
    go_on_ending(l, now);
}

static void move_deadline(struct launcher *l, bool changed)
{
    ns_t now = boot_now(), wall = wall_now();
    ns_t from = l->started != 0 ? l->started : now;

    l->deadline = from + l->orders.timeout;
    /* The wall clock may have been set. Then the deadline file must change too. */
    ns_t drift = wall + (l->deadline - now) - l->deadline_wall;
    if (changed || drift > DEADLINE_DRIFT || drift < -DEADLINE_DRIFT) {
        l->deadline_wall = wall + (l->deadline - now);
        if (!write_deadline(&l->box, l->deadline_wall))
            say(&l->box, "the deadline can't be written: %s", strerror(errno));
    }
}

static void take_orders(struct launcher *l, ns_t now)
{
    ns_t timeout = l->orders.timeout;

    read_orders(&l->box, &l->orders);
    l->orders_at = now + (l->events >= 0 ? ORDERS_EVERY : ORDERS_EVERY_WITHOUT_EVENTS);
    if (l->phase == RUNNING || l->phase == STARTING) {
        bool changed = timeout != l->orders.timeout;
        move_deadline(l, changed);
        if (changed) {
            say(&l->box, "timeout is now %lld ms", (long long)(l->orders.timeout / MS));
            if (!write_taken(&l->box, l->orders.timeout))
                say(&l->box, "the changed timeout can't be confirmed: %s", strerror(errno));
        }
    } else {
        l->orders.timeout = timeout; /* too late: the record keeps the timeout that counted */
    }
    if (l->orders.stop)
        end_for(l, "stopped", l->orders.stop_word, l->orders.stop_grace >= 0 ? l->orders.stop_grace : l->spec.grace,
                now);
}

static void check_limits(struct launcher *l, ns_t now)
{
    if (l->killed_outside)
        end_for(l, "stopped", "killed_outside", l->spec.grace, now);
    if (now >= l->orders.lease_until) {
        /* From the lease on, not from now on: the machine may have stood still, and the task may run elsewhere. */
        ns_t grace = l->orders.lease_until + l->spec.lease_grace - now;
        end_for(l, "lease_expired", "", grace > 0 ? grace : 0, now);
    }
    if (l->phase == RUNNING && now >= l->deadline)
        end_for(l, "timed_out", "", l->spec.grace, now);
    if (l->phase == RUNNING && l->spool.limit_reached && l->spec.log_limit_kills)
        end_for(l, "log_limit", "", l->spec.grace, now);
}

/* --- events ------------------------------------------------------------------------------------------------ */

static void hear_child(struct launcher *l)
{
    struct report message;
    ssize_t got;

    while (l->report >= 0) {
        got = read(l->report, &message, sizeof message);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return;
        if (got == (ssize_t)sizeof message) {
            if (message.failure.stage != STAGE_READY)
                l->failure = message.failure;
            else
                l->ready = message;
            continue;
        }
        close(l->report);
        l->report = -1;
        if (l->failure.stage != STAGE_NONE)
            return;
        /* Closed by the exec, or by the child's death before it. Ending already, its TERM may have come first. */
        if (l->ready.boot == 0 || l->phase != STARTING) {
            fail(&l->failure, STAGE_SETUP, EINTR, "the process ended before it became the program");
            return;
        }
        l->phase = RUNNING;
        l->started = l->ready.boot;
        l->started_wall = l->ready.wall;
        move_deadline(l, false);
        if (!write_started(&l->box, l->started_wall, l->started, l->main_pid))
            say(&l->box, "the start can't be recorded: %s", strerror(errno));
        say(&l->box, "started as pid %d", (int)l->main_pid);
    }
}

static void hear_signals(struct launcher *l)
{
    struct signalfd_siginfo info;

    while (read(l->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD)
            continue;
        /* The engine is outside the container's pid namespace and shows up as 0. A program inside that signals
         * process 1 does not speak for the platform. */
        if (l->is_init && info.ssi_pid != 0)
            say(&l->box, "signal %u from process %u in the container: ignored", info.ssi_signo, info.ssi_pid);
        else
            l->killed_outside = true;
    }
}

static bool hear_events(struct launcher *l)
{
    char buffer[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    bool orders = false;
    ssize_t got;

    while ((got = read(l->events, buffer, sizeof buffer)) > 0)
        for (char *at = buffer; at < buffer + got;) {
            const struct inotify_event *event = (const struct inotify_event *)(const void *)at;
            const char *name = event->len > 0 ? event->name : "";
            orders = orders || (event->mask & IN_Q_OVERFLOW) != 0 || strcmp(name, "lease") == 0 ||
                     strcmp(name, "limits") == 0 || strcmp(name, "stop") == 0;
            at += sizeof *event + event->len;
        }
    return orders;
}

static void wait_for_something(struct launcher *l, ns_t now)
{
    struct pollfd polls[5];
    nfds_t count = 0;
    ns_t due = earlier(l->orders_at, pump_due(&l->spool));

    if (l->phase == RUNNING)
        due = earlier(due, l->deadline);
    if (l->phase == RUNNING || l->phase == STARTING)
        due = earlier(due, l->orders.lease_until);
    if (l->phase == ENDING)
        due = earlier(due, earlier(l->kill_at, l->look_at));
    if (l->phase == KILLING)
        due = earlier(due, l->look_at);
    polls[count++] = (struct pollfd){.fd = l->signals, .events = POLLIN};
    polls[count++] = (struct pollfd){.fd = l->events, .events = POLLIN}; /* -1 is ignored */
    polls[count++] = (struct pollfd){.fd = l->report, .events = POLLIN};
    for (int i = 0; i < 2; i++)
        if (wants_input(&l->spool.streams[i], now))
            polls[count++] = (struct pollfd){.fd = l->spool.streams[i].pipe, .events = POLLIN};
    ns_t wait = due > now ? due - now : 0;
    struct timespec timeout = {.tv_sec = wait / SECOND, .tv_nsec = wait % SECOND};
    ppoll(polls, count, &timeout, NULL);
}

/* Until no process is left in the container. */
static void run(struct launcher *l)
{
    for (;;) {
        wait_for_something(l, boot_now());
        /* The child's message before its death, its death before any limit: a program that ended by itself
         * ended by itself, even in the moment of its timeout. */
        hear_signals(l);
        hear_child(l);
        reap(l);
        if (l->ended)
            hear_child(l);
        ns_t now = boot_now();
        if (l->phase <= RUNNING && l->ended) {
            note_left(l);
            kill_all(l, now);
        }
        if ((l->events >= 0 && hear_events(l)) || now >= l->orders_at)
            take_orders(l, now);
        pump(&l->spool, now);
        if (l->phase <= ENDING)
            check_limits(l, now);
        if (l->phase == ENDING && now >= l->kill_at)
            kill_all(l, now);
        if (l->phase >= ENDING && everybody_is_gone(l))
            return;
        if (l->phase == KILLING && now >= l->look_at) {
            kill_all(l, now);
            if (now - l->killed_at > KILL_PATIENCE) {
                say(&l->box, "processes are left that even a KILL does not end");
                return;
            }
        }
        if (l->phase == ENDING)
            go_on_ending(l, now);
    }
}

/* --- begin and end ------------------------------------------------------------------------------------------ */

static void watch(struct launcher *l, const char *box_path)
{
    char path[4096];
    sigset_t all, watched;

    /* Blocked ones reach the signalfd even in process 1, where they would be dropped otherwise. */
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    sigaddset(&watched, SIGTERM);
    sigaddset(&watched, SIGINT);
    sigaddset(&watched, SIGQUIT);
    sigaddset(&watched, 37); /* SIGRTMIN+3, the stop signal of images with systemd */
    l->signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    snprintf(path, sizeof path, "%s/run", box_path);
    l->events = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (l->events >= 0 && inotify_add_watch(l->events, path, IN_MOVED_TO | IN_CLOSE_WRITE) < 0) {
        close(l->events);
        l->events = -1;
    }
    if (l->events < 0)
        say(&l->box, "no file events (%s): orders are looked for every second", strerror(errno));
}

/* The Worker gives them once it has them. Orders count meanwhile. */
static bool get_secrets(struct launcher *l)
{
    ns_t until = boot_now() + SECRETS_PATIENCE;

    if (l->spec.secret_count == 0)
        return true;
    while (!take_secrets(&l->box, &l->spec)) {
        ns_t now = boot_now();
        if ((l->events >= 0 && hear_events(l)) || now >= l->orders_at)
            take_orders(l, now);
        hear_signals(l);
        check_limits(l, now);
        if (l->phase != STARTING)
            return false;
        if (now >= until)
            return fail(&l->failure, STAGE_SETUP, ETIMEDOUT, "the Worker did not give the task's secrets");
        nanosleep(&(struct timespec){.tv_nsec = SECRETS_AGAIN}, NULL);
    }
    return true;
}

static bool begin(struct launcher *l, int root)
{
    struct identity identity;
    int child_ends[2];

    if (l->signals < 0)
        return fail(&l->failure, STAGE_SETUP, errno, "signals can't be watched");
    if (!read_spec(&l->box, &l->spec, &l->failure))
        return false;
    l->orders.timeout = l->spec.timeout;
    read_orders(&l->box, &l->orders);
    l->spool.limit = l->spec.log_limit;
    if (!open_spool(&l->spool, &l->box, child_ends, &l->failure))
        return false;
    /* The Worker always writes one. Without it nothing would end the program when its machine is given up. */
    if (!l->orders.lease_known)
        return fail(&l->failure, STAGE_SETUP, EINVAL, "its lease can't be read");
    /* Orders may have come before the start. Then the program does not run at all. */
    take_orders(l, boot_now());
    check_limits(l, boot_now());
    if (l->phase != STARTING)
        return false;
    if (!mounts_are_in_place(root, &l->spec, &l->failure))
        return false;
    if (l->is_init || getenv("HEADWAY_ROOT") != NULL)
        prepare_image(&l->box, root, &l->spec);
    if (!find_user(root, l->spec.user, &identity, &l->failure))
        return false;
    if (l->is_init || getenv("HEADWAY_ROOT") != NULL)
        name_user(&l->box, root, &identity);
    if (!get_secrets(l) || !place_secrets(root, &l->spec, &identity, &l->failure))
        return false;
    if (identity.uid == 0 && l->spec.drop_caps && geteuid() == 0)
        close_to_root(&l->box);
    /* What came meanwhile: the lease may have passed while the image was prepared. */
    take_orders(l, boot_now());
    check_limits(l, boot_now());
    if (l->phase != STARTING)
        return false;
    /* From here on the attempt counts as one that ran. */
    if (!take_ticket(&l->box)) {
        l->may_not_start = true;
        return false;
    }
    l->main_pid = start_child(&l->spec, &identity, child_ends[0], child_ends[1], &l->report, &l->failure);
    forget_secrets(&l->spec);
    /* With the launcher's own copies open the pipes would never end. */
    close(child_ends[0]);
    close(child_ends[1]);
    return l->main_pid > 0;
}

static bool finish(struct launcher *l)
{
    struct end_record record = {
        .reason = l->reason != NULL ? l->reason : "exited",
        .stop_word = l->stop_word != NULL ? l->stop_word : "",
        .started_wall = l->started_wall,
        .has_status = l->ended && l->started != 0,
        .status = l->status,
    };

    if (l->reason == NULL && l->failure.stage != STAGE_NONE)
        record.reason = "start_failed", record.failure = &l->failure;
    if (!l->ended || l->started == 0) {
        l->ended_at = boot_now();
        l->ended_wall = wall_now();
    }
    record.ended_wall = l->ended_wall;
    record.timeout = l->orders.timeout;
    record.run = l->started != 0 ? l->ended_at - l->started : 0;
    record.peak_memory = peak_memory(l);
    record.oom_kills = oom_kills(l) - l->oom_kills_before;
    if (l->spool.streams[0].number != 0)
        finish_spool(&l->spool);
    record.stdout_bytes = l->spool.streams[0].size;
    record.stderr_bytes = l->spool.streams[1].size;
    record.dropped_bytes = l->spool.dropped;
    record.left = l->left;
    record.left_names = l->left_names;
    say(&l->box, "ended: %s%s%s", record.reason, record.failure != NULL ? ": " : "",
        record.failure != NULL ? record.failure->text : "");
    return write_end(&l->box, &record);
}

static void complain(const char *text)
{
    if (write(2, text, strlen(text)) < 0)
        _exit(125);
}

int main(int argc, char **argv)
{
    static struct launcher l = {
        .orders = {.lease_until = NEVER, .stop_grace = -1},
        .spool = {.full_patience = FULL_PATIENCE},
        .kill_at = NEVER,
        .report = -1,
        .signals = -1,
        .events = -1,
    };
    const char *path = argc > 1 ? argv[1] : NULL, *digest = argc > 2 ? argv[2] : NULL, *root_path = "/";

    if (argc == 2 && strcmp(argv[1], "user-namespace") == 0)
        return hold_user_namespace();
    /* Descriptors 0 to 2 are for the child, so none of the launcher's may get these numbers. */
    for (int fd = 0; fd >= 0 && fd < 3;)
        fd = open("/", O_PATH | O_CLOEXEC);
    l.is_init = getpid() == 1;
    if (l.is_init) {
        /* The Worker gives both arguments. The image's ENV reaches this process too, so it is not used. */
        l.cgroup = "/sys/fs/cgroup";
    } else {
        if (path == NULL && getenv("HEADWAY_BOX") != NULL)
            path = getenv("HEADWAY_BOX");
        if (getenv("HEADWAY_ROOT") != NULL)
            root_path = getenv("HEADWAY_ROOT");
        if (getenv("HEADWAY_FULL_PATIENCE_MS") != NULL)
            l.spool.full_patience = atoi(getenv("HEADWAY_FULL_PATIENCE_MS")) * MS;
        l.cgroup = getenv("HEADWAY_CGROUP");
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    }
    /* A program with the launcher's uid must not read its memory nor its open files. */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    umask(022);
    if (path == NULL || !open_box(&l.box, path)) {
        complain("headway launcher: there is no attempt box at its place\n");
        return l.is_init ? FOREIGN_BOX : 125;
    }
    if (digest != NULL ? !is_the_workers(&l.box, digest) : l.is_init) {
        complain("headway launcher: the attempt box is not that of its Worker\n");
        return FOREIGN_BOX;
    }
    if (!lock_box(&l.box)) {
        say(&l.box, "another launcher runs this attempt, or its box has no lock: %s", strerror(errno));
        complain("headway launcher: this attempt's box can't be locked\n");
        return 125;
    }
    if (already_used(&l.box)) {
        say(&l.box, "this attempt ran before: it is not run again");
        complain("headway launcher: this attempt ran before\n");
        return 125;
    }
    if (!ticket_is_valid(&l.box)) {
        say(&l.box, "this attempt may not start: its launch ticket was withdrawn, or is of another boot");
        complain("headway launcher: this attempt may not start any more\n");
        return 125;
    }
    reserve_end(&l.box);
    watch(&l, path);
    int root = open(root_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (chdir("/") < 0)
        say(&l.box, "no root folder: %s", strerror(errno));
    l.oom_kills_before = oom_kills(&l);
    if (begin(&l, root))
        run(&l);
    if (l.may_not_start) {
        say(&l.box, "its launch ticket was withdrawn: nothing is started");
        return 125;
    }
    return finish(&l) ? 0 : 125;
}
