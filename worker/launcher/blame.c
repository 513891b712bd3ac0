/* Says which file of the image is at fault when its program can't be run or its folder can't be entered. The user
 * and the powers are those of the program by then, so nothing is opened that it could not open itself. */
#define _GNU_SOURCE
#include "launcher.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define HEAD_BYTES 4096

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#else
#define OUR_MACHINE EM_AARCH64
#endif

static const char *machine_name(unsigned machine)
{
    static const struct {
        unsigned number;
        const char *name;
    } names[] = {
        {EM_X86_64, "amd64"}, {EM_AARCH64, "arm64"}, {EM_386, "386"},     {EM_ARM, "arm"},
        {EM_RISCV, "riscv64"}, {EM_PPC64, "ppc64le"}, {EM_S390, "s390x"}, {EM_LOONGARCH, "loong64"},
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].number == machine)
            return names[i].name;
    return "other";
}

static size_t read_head(const char *path, unsigned char *head)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    size_t have = 0;

    while (fd >= 0 && have < HEAD_BYTES) {
        ssize_t got = read(fd, head + have, HEAD_BYTES - have);
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    if (fd >= 0)
        close(fd);
    return have;
}

/* The loader that a program for this machine names, or NULL. */
static const char *loader_of(const unsigned char *head, size_t size)
{
    Elf64_Ehdr file;
    Elf64_Phdr part;

    if (size < sizeof file || head[EI_CLASS] != ELFCLASS64 || head[EI_DATA] != ELFDATA2LSB)
        return NULL;
    memcpy(&file, head, sizeof file);
    for (size_t i = 0; i < file.e_phnum && file.e_phentsize == sizeof part; i++) {
        if (file.e_phoff > size || (i + 1) * sizeof part > size - file.e_phoff)
            return NULL;
        memcpy(&part, head + file.e_phoff + i * sizeof part, sizeof part);
        if (part.p_type != PT_INTERP)
            continue;
        if (part.p_offset >= size || memchr(head + part.p_offset, '\0', size - part.p_offset) == NULL)
            return NULL;
        return (const char *)head + part.p_offset;
    }
    return NULL;
}

static void blame_script(const char *path, char *line, int error, struct failure *failure)
{
    char *name = line + 2 + strspn(line + 2, " \t");
    bool windows = line[strcspn(line, "\n")] == '\n' && strcspn(line, "\r") + 1 == strcspn(line, "\n");

    name[strcspn(name, " \t\r\n")] = '\0';
    if (*name == '\0')
        fail(failure, STAGE_EXEC, error, "the first line of %.90s is #! and names no interpreter (%s)", path,
             strerror(error));
    else if (windows && error == ENOENT)
        fail(failure, STAGE_EXEC, error,
             "the first line of %.90s ends as on Windows, with a carriage return, so no interpreter %.60s is found",
             path, name);
    else if (access(name, F_OK) < 0)
        fail(failure, STAGE_EXEC, error, "the first line of %.90s names the interpreter %.60s, which is not there",
             path, name);
    else
        fail(failure, STAGE_EXEC, error,
             "the first line of %.90s names the interpreter %.60s, which is there and can't be run (%s)", path, name,
             strerror(error));
}

static void blame_program(const char *path, const unsigned char *head, size_t size, int error,
                          struct failure *failure)
{
    unsigned machine = size < 20 ? OUR_MACHINE
                                 : head[EI_DATA] == ELFDATA2MSB ? head[18] * 256u + head[19] : head[19] * 256u + head[18];
    const char *loader = loader_of(head, size);

    if (error == ENOENT && loader != NULL)
        fail(failure, STAGE_EXEC, error,
             "%.90s needs the loader %.60s, which is not there: it was built for another system or libc", path, loader);
    else if (error == ENOENT)
        fail(failure, STAGE_EXEC, error, "%.90s is there, but its loader (its interpreter) is not", path);
    else if (machine != OUR_MACHINE)
        fail(failure, STAGE_EXEC, error, "%.90s is a program for %s machines, and this one is %s (%s)", path,
             machine_name(machine), machine_name(OUR_MACHINE), strerror(error));
    else
        fail(failure, STAGE_EXEC, error, "%.90s is a damaged program (%s)", path, strerror(error));
}

void blame_exec(const char *path, int error, struct failure *failure)
{
    unsigned char head[HEAD_BYTES + 1];
    struct stat info;

    if (stat(path, &info) < 0) {
        fail(failure, STAGE_EXEC, error, "%.150s: %s", path, strerror(error));
        return;
    }
    if (S_ISDIR(info.st_mode)) {
        fail(failure, STAGE_EXEC, error, "%.120s is a folder (%s)", path, strerror(error));
        return;
    }
    if (error == EACCES && (info.st_mode & 0111) == 0) {
        fail(failure, STAGE_EXEC, error, "%.120s is not executable, its mode is %04o (%s)", path,
             (unsigned)info.st_mode & 07777, strerror(error));
        return;
    }
    if (error == EACCES && faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0) {
        fail(failure, STAGE_EXEC, error, "the user %u may not run %.100s, its owner is %u and its mode %04o (%s)",
             (unsigned)geteuid(), path, (unsigned)info.st_uid, (unsigned)info.st_mode & 07777, strerror(error));
        return;
    }
    if (error == EPERM && getxattr(path, "security.capability", NULL, 0) >= 0) {
        fail(failure, STAGE_EXEC, error, "the file %.100s asks for capabilities, which no task has (%s)", path,
             strerror(error));
        return;
    }
    size_t size = read_head(path, head);
    head[size] = '\0';
    if (size >= 2 && memcmp(head, "#!", 2) == 0)
        blame_script(path, (char *)head, error, failure);
    else if (size >= SELFMAG && memcmp(head, ELFMAG, SELFMAG) == 0)
        blame_program(path, head, size, error, failure);
    else if (error == ENOENT)
        fail(failure, STAGE_EXEC, error, "%.90s is there, but the interpreter it names, or its loader, is not", path);
    else if (error != ENOEXEC)
        fail(failure, STAGE_EXEC, error, "%.150s: %s", path, strerror(error));
    else if (info.st_size == 0)
        fail(failure, STAGE_EXEC, error, "%.120s is empty (%s)", path, strerror(error));
    else if (size >= 2 && memcmp(head, "MZ", 2) == 0)
        fail(failure, STAGE_EXEC, error, "%.120s is a program for Windows (%s)", path, strerror(error));
    else if (size >= 4 && (memcmp(head, "\xcf\xfa\xed\xfe", 4) == 0 || memcmp(head, "\xca\xfe\xba\xbe", 4) == 0))
        fail(failure, STAGE_EXEC, error, "%.120s is a program for macOS (%s)", path, strerror(error));
    else
        fail(failure, STAGE_EXEC, error, "%.120s is a script without a #! line, or no program (%s)", path,
             strerror(error));
}

bool blame_workdir(const char *path, int error, struct failure *failure)
{
    char *way = strdup(path), *at = way;
    struct stat info;

    while (way != NULL && *at != '\0') {
        at += strspn(at, "/");
        at += strcspn(at, "/");
        char kept = *at;
        *at = '\0';
        if (stat(way, &info) < 0) {
            bool ring = errno == ELOOP, none = errno == ENOENT;
            if (ring)
                fail(failure, STAGE_WORKDIR, error, "the links at %.150s form a ring", way);
            else if (none)
                fail(failure, STAGE_WORKDIR, error, "there is no %.120s, and it can't be made (%s)", way,
                     strerror(error));
            else
                fail(failure, STAGE_WORKDIR, error, "%.150s: %s", way, strerror(errno));
            free(way);
            return false;
        }
        if (!S_ISDIR(info.st_mode)) {
            fail(failure, STAGE_WORKDIR, error, "%.150s is %s there", way,
                 S_ISREG(info.st_mode) ? "a file" : "no folder");
            free(way);
            return false;
        }
        if (faccessat(AT_FDCWD, way, X_OK, AT_EACCESS) < 0) {
            fail(failure, STAGE_WORKDIR, error, "the user %u may not enter %.120s, its owner is %u and its mode %04o",
                 (unsigned)geteuid(), way, (unsigned)info.st_uid, (unsigned)info.st_mode & 07777);
            free(way);
            return false;
        }
        *at = kept;
    }
    free(way);
    return fail(failure, STAGE_WORKDIR, error, "%.150s: %s", path, strerror(error));
}
