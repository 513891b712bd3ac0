/* Headway's container launcher: process 1 of every attempt's container, and parent of the user's program.
 *
 * It enforces the timeout, the grace and the lease without help from outside the container. It copies stdout
 * and stderr into spools on the local disk, and writes the end record before it ends. The binary is static and
 * needs nothing of the image: no shell, no libc, no /etc/passwd, no /dev/null. It has about 3200 lines of C,
 * and 87 kB built for x86-64.
 *
 *   main.c       the loop: what ends an attempt, and how
 *   box.c        the files of the box: spec, orders, records, log (the contract is in worker/box/)
 *   proof.c      whether box and mounts are those that the Worker made
 *   container.c  /root, /tmp, passwd and group lines, the user, the working folder, the child up to its exec
 *   secrets.c    the task's secrets: from the Worker through a socket, into the environment and into files in memory
 *   blame.c      which file of the image is at fault when that fails
 *   processes.c  who lives in the container, and what is known of them
 *   ending.c     who of them is told first that the end comes, and who next
 *   spool.c      stdout and stderr to disk, with an index of times
 *   namespace.c  no part of this: a user namespace for the Worker, which starts the program for it
 */
#ifndef HEADWAY_LAUNCHER_H
#define HEADWAY_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef int64_t ns_t; /* nanoseconds; instants are CLOCK_BOOTTIME unless they are called wall */

#define MS ((ns_t)1000000)
#define SECOND ((ns_t)1000000000)
#define NEVER INT64_MAX
#define MAX_GROUPS 256

ns_t boot_now(void);
ns_t wall_now(void);

/* --- failures of the start ------------------------------------------------------------------------ */

enum stage { STAGE_NONE, STAGE_SETUP, STAGE_IMAGE, STAGE_USER, STAGE_WORKDIR, STAGE_EXEC, STAGE_READY };

/* STAGE_READY is no failure: it says that the exec is the child's next step. */
struct failure {
    int32_t stage;
    int32_t error; /* errno */
    char text[240];
};

/* The message from the child to the launcher, small enough for one write to a pipe. Its instants are the
 * child's own: on a busy machine the launcher reads it late, and the program may run already. */
struct report {
    struct failure failure;
    ns_t boot;
    ns_t wall;
};

bool fail(struct failure *failure, enum stage stage, int error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* --- box.c ---------------------------------------------------------------------------------------- */

struct box {
    int root;
    int run;     /* box/run, for root alone */
    int attempt; /* box/attempt, seen by the user's program */
    int lock;    /* box/lock, held as long as the launcher lives */
    int log;
    size_t log_size;
    char *spec; /* its bytes, once they are proven; NULL before */
    size_t spec_size;
    int end; /* the end record's file, made at the start because the disk may be full later */
};

/* What the task is given of its owner's secrets. */
struct secret {
    const char *name; /* of the variable, or of the file in /run/secrets */
    bool is_file;
    char *value; /* of a variable: NAME=VALUE; NULL: not there */
    size_t size;
};

struct spec {
    char **args;
    char **env; /* with room for the secrets that are variables */
    struct secret *secrets;
    size_t secret_count;
    char **mounts; /* folders that must be mounts */
    char *workdir;
    char *user;
    char *passwd_line;
    char *group_line;
    ns_t timeout;
    ns_t grace;
    ns_t lease_grace;
    uint64_t log_limit;
    bool log_limit_kills;
    bool drop_caps;
    bool open_root;
};

struct orders {
    ns_t lease_until;
    bool lease_known; /* a lease was read once */
    ns_t timeout;
    bool stop;
    char stop_word[32];
    ns_t stop_grace; /* negative: the spec's */
};

struct end_record {
    const char *reason;
    const char *stop_word;
    int status; /* as waitpid gave it */
    bool has_status;
    const struct failure *failure;
    ns_t started_wall; /* 0: never */
    ns_t ended_wall;
    ns_t run;
    ns_t timeout; /* that counted last */
    int64_t peak_memory; /* negative: unknown */
    int64_t oom_kills;
    uint64_t stdout_bytes;
    uint64_t stderr_bytes;
    uint64_t dropped_bytes;
    int64_t left;           /* processes that were ended with the program */
    const char *left_names; /* some of their names, with a slash between */
};

bool open_box(struct box *box, const char *path);
/* A program that is root without capabilities owns root's files, also orders and records. So the owner becomes
 * nobody. The launcher and the Worker can still use the files, with their capabilities. */
void close_to_root(struct box *box);
/* Takes box/lock for as long as this process lives: by it others see that the attempt runs. False if another launcher
 * holds it. A test of the lock by somebody else holds it for an instant, so it is tried for a while. */
bool lock_box(struct box *box);
/* Whether there is a launch ticket that was made since the machine booted. */
bool ticket_is_valid(const struct box *box);
/* Takes the ticket, once and for all; to be called with the lock held. False if the Worker has withdrawn it. */
bool take_ticket(const struct box *box);
/* An attempt runs once. If the engine starts the container again, the program must not run again. */
bool already_used(const struct box *box);
void reserve_end(struct box *box);
void say(struct box *box, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool read_spec(const struct box *box, struct spec *spec, struct failure *failure);
void read_orders(const struct box *box, struct orders *orders);
bool write_started(const struct box *box, ns_t wall, ns_t boot, pid_t pid);
bool write_deadline(const struct box *box, ns_t wall);
bool write_taken(const struct box *box, ns_t timeout);
bool write_end(struct box *box, const struct end_record *record);

/* Up to limit bytes of a file and a NUL. NULL (errno set): it can't be read. The caller frees it. */
char *read_whole(int folder, const char *name, size_t limit, size_t *size);

/* --- proof.c -------------------------------------------------------------------------------------- */

#define SPEC_BYTES (16 << 20)

/* Whether the spec has this SHA-256 and lies where the Worker put it. Keeps the bytes for read_spec. */
bool is_the_workers(struct box *box, const char *digest);
/* Opens a folder of the container, and follows no link on the way. */
int open_without_links(int root, const char *path);
/* Whether each of the spec's mounts was reached without a link of the image, and nothing lies over it. */
bool mounts_are_in_place(int root, const struct spec *spec, struct failure *failure);

/* --- container.c ---------------------------------------------------------------------------------- */

struct identity {
    uid_t uid;
    gid_t gid;
    gid_t groups[MAX_GROUPS];
    int group_count;
};

/* `root` is a descriptor of the container's root folder. */
void prepare_image(struct box *box, int root, const struct spec *spec);
/* Adds a line to passwd and group for ids that have none, as those of an image's USER 1234. */
void name_user(struct box *box, int root, const struct identity *identity);
bool find_user(int root, const char *user, struct identity *identity, struct failure *failure);
pid_t start_child(const struct spec *spec, const struct identity *identity, int out, int err, int *report,
                  struct failure *failure);

/* --- secrets.c ------------------------------------------------------------------------------------ */

/* Asks the Worker for all of them, once. False: it is not there, or has not given all, and none is kept. */
bool take_secrets(const struct box *box, struct spec *spec);
/* Puts them where the program finds them. To be called before the program is started, and once. */
bool place_secrets(int root, struct spec *spec, const struct identity *identity, struct failure *failure);
/* Overwrites them in this process. The environment of the spec is of no use after it. */
void forget_secrets(struct spec *spec);

/* --- blame.c -------------------------------------------------------------------------------------- */

/* After an exec of this file that failed with `error`: why, with the file at fault. */
void blame_exec(const char *path, int error, struct failure *failure);
/* After a chdir that failed: which folder on the way is at fault. Returns false, as fail() does. */
bool blame_workdir(const char *path, int error, struct failure *failure);

/* --- processes.c ---------------------------------------------------------------------------------- */

#define PROCESSES 16384

struct process {
    pid_t pid, parent, group;
    char state;
    bool ours;
    char name[16];    /* as the kernel cuts it */
    uint64_t started; /* ticks since boot: a number that was given again is another process */
};

/* What does nothing but run others: it can't save anything, and goes on once they have ended. */
enum waiter {
    NONE,
    SHELL,  /* it waits for one pipe at a time */
    WAITER, /* it waits for all of its children */
    RELAY,  /* the same, and it copies their output: it is not to be stopped */
};

/* All processes of the container but the launcher, in a table that the next call fills anew. Outside of one (tests)
 * these are the launcher's descendants: it is their reaper, so nobody escapes by a double fork. */
size_t list_processes(bool is_init, const struct process **table);
bool lives(const struct process *process);
bool is_same(const struct process *one, const struct process *other);
/* False: it has ended. */
bool look_again(const struct process *process, struct process *now);
/* Whether a signal is in a set of its status, as "SigIgn:" or "SigCgt:". */
bool has_signal(pid_t pid, const char *set, int number);
enum waiter waiter_kind(pid_t pid);
bool may_see_pipes(pid_t pid);
/* The pipe behind a descriptor. 0: something else is there, or nobody may know. */
uint64_t pipe_at(pid_t pid, int fd);
/* Whether a process has the end of a pipe that is written, or read. */
bool has_end_of(pid_t pid, uint64_t pipe, bool writing);

/* --- ending.c ------------------------------------------------------------------------------------- */

struct ending {
    bool is_init;
    pid_t main_pid;
    ns_t kill_at;
    ns_t quiet_at; /* since when nobody lives who was told; 0: somebody does */
    int rounds;
    bool rest_told, readers_told;
};

/* Tells those who are next that the end comes, once those who were told before have ended. To be called until everybody
 * is gone. Who is told gets TERM, and CONT: a stopped process would not see it. */
void tell_next(struct ending *ending, struct box *box, ns_t now);
void kill_everybody(bool is_init);

/* --- spool.c -------------------------------------------------------------------------------------- */

struct stream {
    uint32_t number; /* in the index */
    int pipe;        /* -1 once at its end */
    int file;
    uint64_t size;   /* bytes in the file */
    size_t capacity; /* of the pipe */
    bool grown;
    ns_t read_after; /* so that small writes are read together */
    unsigned char *buffer;
    size_t have, done; /* bytes that wait in the buffer for space on the disk */
    /* The record that is still growing. */
    ns_t record_at, record_wall;
    uint64_t record_offset;
    uint32_t record_length;
};

struct spool {
    struct stream streams[2];
    int index;
    uint64_t index_size;
    uint64_t limit;
    uint64_t dropped;
    bool limit_reached;
    ns_t full_patience;
    bool gave_up; /* the disk was full too long, so bytes that it does not take at once are dropped */
    ns_t full_since;
    ns_t retry_at;
};

/* `limit` and `full_patience` are set by the caller. */
bool open_spool(struct spool *spool, const struct box *box, int child_ends[2], struct failure *failure);
/* Copies what there is, about one buffer of each stream at most. */
void pump(struct spool *spool, ns_t now);
/* When pump must be called although no pipe became readable. */
ns_t pump_due(const struct spool *spool);
bool wants_input(const struct stream *stream, ns_t now);
/* After the last writer of the container is gone: copy the rest of the pipes, then fsync all. */
void finish_spool(struct spool *spool);

/* --- namespace.c ------------------------------------------------------------------------------------------- */

int hold_user_namespace(void);

#endif
