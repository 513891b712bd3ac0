/* A task that can tell whether it runs twice at once: it holds a lock on its file, and writes all that happens there.
 *
 *   ticker FILE TICKS MILLISECONDS
 *
 * Lines: "begin ATTEMPT", "twice ATTEMPT" where somebody else holds the lock, "tick ATTEMPT", "end ATTEMPT". */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static int file;

static void say(const char *what)
{
    const char *attempt = getenv("HEADWAY_ATTEMPT");
    char line[80];
    int length = snprintf(line, sizeof line, "%s %.20s\n", what, attempt == NULL ? "?" : attempt);
    if (write(file, line, (size_t)length) != length)
        exit(3);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    file = open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0) {
        perror(argv[1]);
        return 3;
    }
    if (flock(file, LOCK_EX | LOCK_NB) != 0)
        say("twice");
    say("begin");
    long ms = atol(argv[3]);
    for (int left = atoi(argv[2]); left > 0; left--) {
        nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
        say("tick");
    }
    say("end");
    puts("done");
    return 0;
}
