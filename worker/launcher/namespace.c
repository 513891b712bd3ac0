/* Holds a user namespace for the Worker, which shows files to a task as its own by it. */
#define _GNU_SOURCE
#include "launcher.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The Worker is large and has threads: forking it is slow, and it can't enter a namespace itself. It writes the maps of
 * this process once it has read the line, opens the namespace and closes the pipe. */
int hold_user_namespace(void)
{
    char byte;

    if (unshare(CLONE_NEWUSER) < 0) {
        dprintf(2, "%s\n", strerror(errno));
        return 1;
    }
    if (write(1, "\n", 1) != 1)
        return 1;
    while (read(0, &byte, 1) < 0 && errno == EINTR)
        ;
    return 0;
}
