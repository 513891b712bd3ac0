/* A task that tells what became of it, in a file that no fault of the tests reaches, and prints bytes that are known.
 *
 *   task NAME MILLISECONDS EXIT STDOUT_LINES STDERR_LINES SEED FLAGS
 *
 * FLAGS: "m": it writes its begin and end into a file of its home, too; "t": it ignores TERM; "-": none.
 *
 * Lines of /witness/NAME: "begin ATTEMPT MOMENT GPUS", "twice ATTEMPT MOMENT" where another one of this task lives,
 * "tick ATTEMPT MOMENT", "term ATTEMPT MOMENT", "mount ATTEMPT MOMENT ERROR" where the home took no line,
 * "end ATTEMPT MOMENT EXIT". A moment is nanoseconds of the boot clock. A line of the streams is
 * "SEED NUMBER" in hexadecimal, 16 bytes long. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define TICK_MS 100
#define LINE 16

static int witness;
static const char *attempt;

static long long now_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_BOOTTIME, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static void say(const char *what, const char *more)
{
    char line[400];
    int length = snprintf(line, sizeof line, "%s %.20s %lld %.300s\n", what, attempt, now_ns(), more);
    if (write(witness, line, (size_t)length) != length)
        _exit(103);
}

static void on_term(int number)
{
    (void)number;
    say("term", "");
}

/* Appends a line to the file of the home and brings it to the disk; what fails is told. */
static void say_at_home(const char *name, const char *what)
{
    char path[200], line[80], error[20];
    snprintf(path, sizeof path, "/root/nfs/%.120s", name);
    int length = snprintf(line, sizeof line, "%s %.20s\n", what, attempt);
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    int failed = file < 0 || write(file, line, (size_t)length) != length || fsync(file) != 0 ? errno : 0;
    if (file >= 0 && close(file) != 0 && !failed)
        failed = errno;
    if (failed) {
        snprintf(error, sizeof error, "%d", failed);
        say("mount", error);
    }
}

static void print_lines(int stream, const char *seed, long from, long until)
{
    static char block[512 * LINE + 1];
    while (from < until) {
        long count = until - from < 512 ? until - from : 512;
        for (long i = 0; i < count; i++)
            sprintf(block + i * LINE, "%.6s %08lx\n", seed, (unsigned long)(from + i));
        for (long done = 0; done < count * LINE;) {
            ssize_t wrote = write(stream, block + done, (size_t)(count * LINE - done));
            if (wrote < 0 && errno == EINTR)
                continue;
            if (wrote < 0)
                _exit(104);
            done += wrote;
        }
        from += count;
    }
}

int main(int argc, char **argv)
{
    if (argc != 8 || strlen(argv[6]) != 6)
        return 102;
    const char *name = argv[1], *seed = argv[6], *flags = argv[7];
    long ms = atol(argv[2]), out = atol(argv[4]), err = atol(argv[5]);
    char path[200];
    attempt = getenv("HEADWAY_ATTEMPT") ? getenv("HEADWAY_ATTEMPT") : "?";
    snprintf(path, sizeof path, "/witness/%.120s", name);
    witness = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (witness < 0)
        return 101;
    if (flock(witness, LOCK_EX | LOCK_NB) != 0)
        say("twice", "");
    if (strchr(flags, 't')) {
        struct sigaction ignore = {.sa_handler = on_term};
        sigaction(SIGTERM, &ignore, NULL);
    }
    say("begin", getenv("HEADWAY_GPU_UUIDS") ? getenv("HEADWAY_GPU_UUIDS") : "");
    if (strchr(flags, 'm'))
        say_at_home(name, "begin");
    long long began = now_ns();
    long out_done = 0, err_done = 0;
    for (;;) {
        long long passed = (now_ns() - began) / 1000000;
        int last = passed >= ms;
        long out_until = last ? out : (long)(out * passed / ms), err_until = last ? err : (long)(err * passed / ms);
        print_lines(1, seed, out_done, out_until);
        print_lines(2, seed, err_done, err_until);
        out_done = out_until, err_done = err_until;
        if (last)
            break;
        nanosleep(&(struct timespec){0, TICK_MS * 1000000}, NULL);
        say("tick", "");
    }
    if (strchr(flags, 'm'))
        say_at_home(name, "end");
    say("end", argv[3]);
    return atoi(argv[3]);
}
