/* Whether the box and its mounts are those that the Worker made. An image can hold links, files and volumes wherever
 * something is mounted, so the launcher believes nothing that it can prove. */
#define _GNU_SOURCE
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROUNDS 64
#define BLOCK 64
#define DIGEST_TEXT 65
#define MOUNT_ROOT 0x2000 /* STATX_ATTR_MOUNT_ROOT, known since Linux 5.8 */

/* --- SHA-256 (FIPS 180-4) ------------------------------------------------------------------------------- */

/* The first 32 bits behind the point of the square root (2) or the cube root (3) of a prime. */
static uint32_t root_bits(unsigned prime, int root)
{
    unsigned __int128 want = (unsigned __int128)prime << (32 * root);
    uint64_t low = 0, high = (uint64_t)1 << 37;

    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        unsigned __int128 power = (unsigned __int128)middle * middle;
        if (root == 3)
            power *= middle;
        if (power <= want)
            low = middle;
        else
            high = middle;
    }
    return (uint32_t)low;
}

static uint32_t turn(uint32_t word, int bits) { return word >> bits | word << (32 - bits); }

static void take_block(uint32_t state[8], const uint32_t constants[ROUNDS], const unsigned char *block)
{
    uint32_t words[ROUNDS], now[8];

    for (int i = 0; i < 16; i++)
        words[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
                   block[4 * i + 3];
    for (int i = 16; i < ROUNDS; i++) {
        uint32_t a = words[i - 15], b = words[i - 2];
        words[i] = words[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + words[i - 7] +
                   (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    memcpy(now, state, sizeof now);
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t a = now[0], e = now[4];
        uint32_t first = now[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & now[5]) ^ (~e & now[6])) +
                         constants[i] + words[i];
        uint32_t second = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & now[1]) ^ (a & now[2]) ^ (now[1] & now[2]));
        memmove(now + 1, now, 7 * sizeof *now);
        now[4] += first;
        now[0] = first + second;
    }
    for (int i = 0; i < 8; i++)
        state[i] += now[i];
}

static void digest_of(const char *data, size_t size, char text[DIGEST_TEXT])
{
    uint32_t constants[ROUNDS], state[8];
    unsigned char last[2 * BLOCK] = {0};
    unsigned prime = 2;

    for (int count = 0; count < ROUNDS; prime++) {
        bool divides = false;
        for (unsigned by = 2; by * by <= prime && !divides; by++)
            divides = prime % by == 0;
        if (divides)
            continue;
        constants[count] = root_bits(prime, 3);
        if (count < 8)
            state[count] = root_bits(prime, 2);
        count++;
    }
    size_t rest = size % BLOCK, length = rest < BLOCK - 8 ? BLOCK : 2 * BLOCK;
    for (size_t at = 0; at + BLOCK <= size; at += BLOCK)
        take_block(state, constants, (const unsigned char *)data + at);
    memcpy(last, data + size - rest, rest);
    last[rest] = 0x80;
    for (int i = 0; i < 8; i++)
        last[length - 1 - (size_t)i] = (unsigned char)((uint64_t)size * 8 >> (8 * i));
    for (size_t at = 0; at < length; at += BLOCK)
        take_block(state, constants, last + at);
    for (int i = 0; i < 8; i++)
        snprintf(text + 8 * i, 9, "%08x", (unsigned)state[i]);
}

/* --- the box ---------------------------------------------------------------------------------------------- */

bool is_the_workers(struct box *box, const char *digest)
{
    struct stat root, run, attempt, spec;
    char found[DIGEST_TEXT];

    if (fstat(box->root, &root) < 0 || fstat(box->run, &run) < 0 || fstat(box->attempt, &attempt) < 0 ||
        fstatat(box->run, "spec", &spec, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    /* A folder that came from elsewhere is on another file system, or is not the Worker's, who is root. */
    if (run.st_dev != root.st_dev || attempt.st_dev != root.st_dev || spec.st_dev != root.st_dev ||
        !S_ISREG(spec.st_mode) || spec.st_uid != geteuid() || (spec.st_mode & 022) != 0)
        return false;
    box->spec = read_whole(box->run, "spec", SPEC_BYTES, &box->spec_size);
    if (box->spec == NULL)
        return false;
    digest_of(box->spec, box->spec_size, found);
    return strcmp(found, digest) == 0;
}

/* --- the mounts ------------------------------------------------------------------------------------------- */

int open_without_links(int root, const char *path)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};

    path += strspn(path, "/");
    path = *path != '\0' ? path : ".";
    int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof how);
    if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
        return fd;
    /* An old kernel, an old seccomp profile: step by step. */
    char *copy = strdup(path), *rest = NULL;
    fd = dup(root);
    for (char *part = copy != NULL ? strtok_r(copy, "/", &rest) : NULL; part != NULL && fd >= 0;
         part = strtok_r(NULL, "/", &rest)) {
        int next = openat(fd, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), error = errno;
        close(fd);
        errno = error;
        fd = next;
    }
    free(copy);
    return fd;
}

static bool is_mounted(int fd)
{
    struct statx info;

    /* A share that does not answer, or a kernel that can't tell, is no fault of the image. */
    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &info) < 0 ||
        (info.stx_attributes_mask & MOUNT_ROOT) == 0)
        return true;
    return (info.stx_attributes & MOUNT_ROOT) != 0;
}

/* The words of mountinfo have spaces and the like as three octal digits. */
static void decode_octal(char *text)
{
    char *to = text;

    for (const char *from = text; *from != '\0'; from++)
        if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] != '\0' && from[3] != '\0') {
            *to++ = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
            from += 3;
        } else {
            *to++ = *from;
        }
    *to = '\0';
}

/* How many mounts lie over each other here. A volume of the image may lie on the Worker's, or below it. */
static int times_mounted(int fd)
{
    char link[64], path[4096], *line = NULL;
    size_t room = 0;
    int count = 0;
    FILE *table = fopen("/proc/self/mountinfo", "re");

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (table == NULL || length < 0) {
        if (table != NULL)
            fclose(table);
        return 1; /* as above: no fault of the image */
    }
    path[length] = '\0';
    while (getline(&line, &room, table) > 0) {
        char *place = line; /* the fifth word */
        for (int word = 0; word < 4 && place != NULL; word++)
            place = (place = strchr(place, ' ')) != NULL ? place + 1 : NULL;
        if (place == NULL)
            continue;
        place[strcspn(place, " \n")] = '\0';
        decode_octal(place);
        count += strcmp(place, path) == 0;
    }
    free(line);
    fclose(table);
    return count;
}

bool mounts_are_in_place(int root, const struct spec *spec, struct failure *failure)
{
    for (char **path = spec->mounts; *path != NULL; path++) {
        int fd = open_without_links(root, *path), error = errno;
        if (fd < 0 && (error == ELOOP || error == ENOTDIR || error == ENOENT))
            return fail(failure, STAGE_IMAGE, error, "a link or a file of the image is in the way of %.150s", *path);
        if (fd < 0)
            continue;
        bool mounted = is_mounted(fd), hidden = mounted && times_mounted(fd) > 1;
        close(fd);
        if (hidden)
            return fail(failure, STAGE_IMAGE, EBUSY, "a volume of the image is in the way of %.150s", *path);
        if (!mounted)
            return fail(failure, STAGE_IMAGE, EBUSY, "something of the image is in the way of %.150s", *path);
    }
    return true;
}
