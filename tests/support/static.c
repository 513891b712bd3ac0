/* The one program of an image made from scratch: no shell, no libc files, no /etc/passwd, no /root. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv) {
    const char *verb = argc > 1 ? argv[1] : "hello";
    const char *argument = argc > 2 ? argv[2] : "";
    if (strcmp(verb, "print") == 0) {
        puts(argument);
        return 0;
    }
    if (strcmp(verb, "exit") == 0)
        return atoi(argument);
    if (strcmp(verb, "sleep") == 0) {
        sleep((unsigned)atoi(argument));
        return 0;
    }
    if (strcmp(verb, "id") == 0) {
        printf("%u:%u\n", (unsigned)getuid(), (unsigned)getgid());
        return 0;
    }
    if (strcmp(verb, "env") == 0) {
        for (char **variable = environ; *variable; variable++)
            puts(*variable);
        return 0;
    }
    if (strcmp(verb, "write") == 0) {
        FILE *file = fopen(argument, "w");
        if (!file) {
            perror(argument);
            return 1;
        }
        fputs("written\n", file);
        return fclose(file) == 0 ? 0 : 1;
    }
    puts("hello from scratch");
    return 0;
}
