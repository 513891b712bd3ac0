/* Prepares the container for the user's program, and starts it. */
#define _GNU_SOURCE
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TABLE_BYTES (4 << 20)
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define OOM_SCORE_MORE 500

/* --- the image's files ---------------------------------------------------------------------------------- */

/* The launcher is root, and an image may have made /etc/passwd or /root a link to anywhere: it follows links
 * within the image's own file system only, never into a mounted home or dataset, nor through /proc. */
static int open_in_image(int root, const char *path, int flags, mode_t mode)
{
    struct open_how how = {
        .flags = (uint64_t)(flags | O_CLOEXEC | O_NONBLOCK),
        .mode = flags & O_CREAT ? mode : 0,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS,
    };
    int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof how);

    if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
        return fd;
    /* An old kernel, an old seccomp profile: no link at all. */
    const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
    char *above = strndup(path, slash != NULL ? (size_t)(slash - path) : 0);
    int folder = above != NULL ? open_without_links(root, above) : -1, error = errno;
    free(above);
    if (folder < 0) {
        errno = error;
        return -1;
    }
    fd = openat(folder, base, flags | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, mode);
    error = errno;
    close(folder);
    errno = error;
    return fd;
}

static char *read_table(int root, const char *path)
{
    int fd = open_in_image(root, path, O_RDONLY, 0);
    char *data = NULL;
    size_t have = 0;
    struct stat info;

    if (fd < 0)
        return NULL;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
        size_t room = info.st_size < TABLE_BYTES ? (size_t)info.st_size : TABLE_BYTES;
        data = malloc(room + 1);
        while (data != NULL && have < room) {
            ssize_t got = read(fd, data + have, room - have);
            if (got <= 0)
                break;
            have += (size_t)got;
        }
        if (data != NULL)
            data[have] = '\0';
    }
    close(fd);
    return data;
}

/* Field `number` of a line of /etc/passwd or /etc/group, as start and length. */
static const char *field(const char *line, int number, size_t *length)
{
    for (;;) {
        *length = strcspn(line, ":\n");
        if (number-- == 0)
            return line;
        if (line[*length] != ':')
            return NULL;
        line += *length + 1;
    }
}

static bool is_number(const char *text, size_t length, uint32_t *number)
{
    uint64_t value = 0;

    if (length == 0 || length > 10)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    /* For setresuid the last id means "leave it as it is". */
    if (value >= UINT32_MAX)
        return false;
    *number = (uint32_t)value;
    return true;
}

static bool number_field(const char *line, int number, uint32_t *value)
{
    size_t length;
    const char *text = field(line, number, &length);

    return text != NULL && is_number(text, length, value);
}

static bool name_is(const char *line, const char *name, size_t name_length)
{
    size_t length;
    const char *text = field(line, 0, &length);

    return text != NULL && length == name_length && memcmp(text, name, length) == 0;
}

static const char *next_line(const char *line)
{
    line += strcspn(line, "\n");
    return *line == '\n' ? line + 1 : line;
}

/* The line of a table that has this name or, without a name, this id in its third field. */
static const char *find_line(const char *table, const char *name, size_t name_length, uint32_t id)
{
    uint32_t found;

    for (const char *line = table; line != NULL && *line != '\0'; line = next_line(line))
        if (name != NULL ? name_is(line, name, name_length) : number_field(line, 2, &found) && found == id)
            return line;
    return NULL;
}

/* --- /root, passwd, group -------------------------------------------------------------------------------- */

static void append_line(struct box *box, int root, const char *path, char *line)
{
    uint32_t id;
    struct stat info;
    char last = '\n';

    line[strcspn(line, "\r\n")] = '\0';
    if (!number_field(line, 2, &id)) {
        say(box, "%s: a line without an id is not added", path);
        return;
    }
    char *table = read_table(root, path);
    bool known = find_line(table, NULL, 0, id) != NULL;
    if (table != NULL && *table != '\0')
        last = table[strlen(table) - 1];
    free(table);
    if (known)
        return;
    if (mkdirat(root, "etc", 0755) == 0)
        fchmodat(root, "etc", 0755, 0);
    int fd = open_in_image(root, path, O_WRONLY | O_APPEND | O_CREAT, 0644);
    if (fd < 0 || fstat(fd, &info) < 0 || !S_ISREG(info.st_mode)) {
        say(box, "%s takes no line: %s", path, fd < 0 ? strerror(errno) : "no regular file");
    } else {
        char text[1024];
        int size = snprintf(text, sizeof text, "%s%.1000s\n", last == '\n' ? "" : "\n", line);
        if (write(fd, text, (size_t)size) != size)
            say(box, "%s took no line: %s", path, strerror(errno));
    }
    if (fd >= 0)
        close(fd);
}

/* A folder that everybody may write in, as every machine has it at /tmp. One that is mounted is left as it is. */
static void open_folder(struct box *box, int root, const char *name)
{
    struct stat info;

    if (mkdirat(root, name, 0755) < 0 && errno != EEXIST)
        say(box, "/%s can't be made: %s", name, strerror(errno));
    int fd = open_in_image(root, name, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0 && errno == EXDEV)
        return;
    if (fd < 0 || fstat(fd, &info) < 0 || ((info.st_mode & 07777) != 01777 && fchmod(fd, 01777) < 0))
        say(box, "/%s can't be opened for the user: %s", name, strerror(errno));
    if (fd >= 0)
        close(fd);
}

void prepare_image(struct box *box, int root, const struct spec *spec)
{
    /* Failures are ignored: most programs need none of it. */
    if (spec->open_root)
        open_folder(box, root, "root");
    open_folder(box, root, "tmp");
    if (spec->passwd_line != NULL)
        append_line(box, root, "etc/passwd", spec->passwd_line);
    if (spec->group_line != NULL)
        append_line(box, root, "etc/group", spec->group_line);
}

void name_user(struct box *box, int root, const struct identity *identity)
{
    char line[128];
    unsigned uid = (unsigned)identity->uid, gid = (unsigned)identity->gid;

    snprintf(line, sizeof line, "user%u:x:%u:%u::/root:/bin/sh", uid, uid, gid);
    append_line(box, root, "etc/passwd", line);
    snprintf(line, sizeof line, "group%u:x:%u:", gid, gid);
    append_line(box, root, "etc/group", line);
}

/* --- the user ---------------------------------------------------------------------------------------------- */

static bool is_member(const char *group_line, const char *name, size_t name_length)
{
    size_t length;
    const char *members = field(group_line, 3, &length);

    for (const char *end = members != NULL ? members + length : NULL; members != NULL && members < end;) {
        size_t one = strcspn(members, ",:\n");
        if (one == name_length && memcmp(members, name, one) == 0)
            return true;
        members += one + 1;
    }
    return false;
}

/* As the engine reads an image's USER: nothing is root, names first, then numbers; without a group the user's own from
 * /etc/passwd and all that list the name; with a group that one alone. */
bool find_user(int root, const char *user, struct identity *identity, struct failure *failure)
{
    size_t name_length = strcspn(user, ":");
    const char *group = user[name_length] == ':' ? user + name_length + 1 : "";
    char *users = read_table(root, "etc/passwd"), *groups = read_table(root, "etc/group");
    uint32_t uid = 0, gid = 0;

    memset(identity, 0, sizeof *identity);
    bool numeric = is_number(user, name_length, &uid);
    if (name_length == 0)
        numeric = true;
    const char *line = name_length > 0 ? find_line(users, user, name_length, 0) : NULL;
    if (line == NULL && numeric)
        line = find_line(users, NULL, 0, uid);
    if (line != NULL && (!number_field(line, 2, &uid) || !number_field(line, 3, &gid)))
        return fail(failure, STAGE_USER, EINVAL, "the image's /etc/passwd has no ids for the user %.60s", user);
    if (line == NULL && !numeric)
        return fail(failure, STAGE_USER, ENOENT, "the image's /etc/passwd has no user %.*s",
                    (int)(name_length < 60 ? name_length : 60), user);
    identity->uid = uid;
    identity->gid = gid;
    if (*group != '\0') {
        uint32_t group_id = 0;
        bool group_numeric = is_number(group, strlen(group), &group_id);
        const char *group_line = find_line(groups, group, strlen(group), 0);
        if (group_line != NULL && !number_field(group_line, 2, &group_id))
            return fail(failure, STAGE_USER, EINVAL, "the image's /etc/group has no id for the group %.60s", group);
        if (group_line == NULL && !group_numeric)
            return fail(failure, STAGE_USER, ENOENT, "the image's /etc/group has no group %.60s", group);
        identity->gid = group_id;
    } else if (line != NULL) {
        size_t length;
        const char *name = field(line, 0, &length);
        for (const char *g = groups; g != NULL && *g != '\0'; g = next_line(g))
            if (identity->group_count < MAX_GROUPS && is_member(g, name, length) &&
                number_field(g, 2, &identity->groups[identity->group_count]))
                identity->group_count++;
    }
    free(users);
    free(groups);
    return true;
}

/* --- the child ---------------------------------------------------------------------------------------------- */

static int become(uid_t effective)
{
    return setresuid((uid_t)-1, effective, (uid_t)-1);
}

static int workdir_error; /* of the first folder that could not be made; a chdir would only say that it is not there */

/* First as the user: a mount with root_squash refuses root. Then as root: the image may refuse the user. */
static void make_workdir(const char *path, const struct identity *identity, bool privileged)
{
    char *copy = strdup(path);

    for (char *at = copy; at != NULL && *at != '\0';) {
        at += strspn(at, "/");
        at += strcspn(at, "/");
        char kept = *at;
        *at = '\0';
        int error = mkdir(copy, 0755) < 0 ? errno : 0;
        if (privileged && (error == EACCES || error == EPERM)) {
            error = become(0) == 0 && mkdir(copy, 0755) == 0 ? 0 : errno;
            if (error == 0 && lchown(copy, identity->uid, identity->gid) < 0) {
                error = errno;
                rmdir(copy);
            }
            if (become(identity->uid) < 0)
                _exit(127);
        }
        if (workdir_error == 0 && error != EEXIST)
            workdir_error = error;
        *at = kept;
    }
    free(copy);
}

static bool enter_workdir(const char *path, struct failure *failure)
{
    if (chdir(path) == 0)
        return true;
    return blame_workdir(path, errno == ENOENT && workdir_error != 0 ? workdir_error : errno, failure);
}

static bool drop_capabilities(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};

    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    return syscall(SYS_capset, &header, none) == 0;
}

static bool become_user(const struct spec *spec, const struct identity *identity, struct failure *failure)
{
    bool privileged = geteuid() == 0;
    bool same = getuid() == identity->uid && getgid() == identity->gid;

    if (privileged || !same) {
        if (setgroups((size_t)identity->group_count, identity->groups) < 0 ||
            setresgid(identity->gid, identity->gid, identity->gid) < 0)
            return fail(failure, STAGE_USER, errno, "the group %u can't be taken on", (unsigned)identity->gid);
        if (become(identity->uid) < 0)
            return fail(failure, STAGE_USER, errno, "the user %u can't be taken on", (unsigned)identity->uid);
    }
    if (*spec->workdir != '\0') {
        struct stat info;
        if (stat(spec->workdir, &info) < 0)
            make_workdir(spec->workdir, identity, privileged);
    }
    if (privileged) {
        if (become(0) < 0)
            return fail(failure, STAGE_SETUP, errno, "root can't be taken back");
        for (int cap = 0; spec->drop_caps && cap < 64; cap++)
            if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EINVAL)
                return fail(failure, STAGE_SETUP, errno, "the capability bounding set can't be emptied");
    }
    if ((privileged || !same) && setresuid(identity->uid, identity->uid, identity->uid) < 0)
        return fail(failure, STAGE_USER, errno, "the user %u can't be taken on", (unsigned)identity->uid);
    if ((spec->drop_caps || identity->uid != 0) && !drop_capabilities())
        return fail(failure, STAGE_SETUP, errno, "the capabilities can't be dropped");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return fail(failure, STAGE_SETUP, errno, "no_new_privs can't be set");
    return true;
}

/* The out-of-memory killer should kill the program, not the launcher, which reports it. */
static void be_killed_first(void)
{
    char text[16];
    size_t size;
    char *old = read_whole(AT_FDCWD, "/proc/self/oom_score_adj", 64, &size);
    int score = (old != NULL ? atoi(old) : 0) + OOM_SCORE_MORE;
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    int length = snprintf(text, sizeof text, "%d", score < 1000 ? score : 1000);
    if (write(fd, text, (size_t)length) < 0) {
        /* Not allowed here, so both stay equal. */
    }
    close(fd);
}

static bool set_streams(int out, int err, int *report)
{
    int ends[2];
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (in < 0) { /* the image has no /dev/null: a pipe without a writer is at its end too */
        if (pipe2(ends, O_CLOEXEC) < 0)
            return false;
        in = ends[0];
    }
    if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0 ||
        (*report != 3 && dup3(*report, 3, O_CLOEXEC) < 0))
        return false;
    *report = 3;
    /* The launcher's own are CLOEXEC, but the engine may have left others open. */
    if (syscall(SYS_close_range, 4U, ~0U, 0U) < 0)
        for (int fd = 4; fd < 1024; fd++)
            close(fd);
    return true;
}

static void reset_signals(void)
{
    sigset_t none;

    for (int number = 1; number < 65; number++)
        signal(number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void tell(int report, const struct failure *failure)
{
    struct report message = {.failure = *failure, .boot = boot_now(), .wall = wall_now()};

    while (write(report, &message, sizeof message) < 0 && errno == EINTR)
        ;
}

static const char *find_env(char *const *env, const char *name)
{
    size_t length = strlen(name);

    for (; *env != NULL; env++)
        if (strncmp(*env, name, length) == 0 && (*env)[length] == '=')
            return *env + length + 1;
    return NULL;
}

/* Returns only after a failure. */
static void exec_program(const struct spec *spec, struct failure *failure)
{
    const char *program = spec->args[0];
    const char *path = find_env(spec->env, "PATH");
    char candidate[4096];
    int error = ENOENT;

    if (strchr(program, '/') != NULL) {
        execve(program, spec->args, spec->env);
        blame_exec(program, errno, failure);
        return;
    }
    for (const char *at = path != NULL ? path : DEFAULT_PATH; *program != '\0'; at++) {
        size_t length = strcspn(at, ":");
        /* An empty element stands for the working folder. */
        int size = snprintf(candidate, sizeof candidate, "%.*s%s%s", (int)length, at, length > 0 ? "/" : "", program);
        if (size > 0 && (size_t)size < sizeof candidate) {
            execve(candidate, spec->args, spec->env);
            int why = errno;
            if (why != ENOTDIR && why != ENAMETOOLONG && access(candidate, F_OK) == 0 &&
                (why != EACCES || error != EACCES)) {
                blame_exec(candidate, why, failure);
                if (why != EACCES)
                    return;
                error = EACCES; /* another folder of PATH may have an executable one */
            }
        }
        at += length;
        if (*at == '\0')
            break;
    }
    if (error != EACCES)
        fail(failure, STAGE_EXEC, error, "no program %.60s in the PATH %.100s", program,
             path != NULL ? path : DEFAULT_PATH);
}

static _Noreturn void run_child(const struct spec *spec, const struct identity *identity, int out, int err, int report)
{
    struct failure failure = {.stage = STAGE_NONE};

    setsid();
    umask(022);
    be_killed_first();
    if (!set_streams(out, err, &report))
        fail(&failure, STAGE_SETUP, errno, "the standard streams can't be set up");
    else if (become_user(spec, identity, &failure) && enter_workdir(*spec->workdir != '\0' ? spec->workdir : "/", &failure)) {
        failure.stage = STAGE_READY;
        tell(report, &failure);
        reset_signals();
        exec_program(spec, &failure);
    }
    tell(report, &failure);
    _exit(127);
}

pid_t start_child(const struct spec *spec, const struct identity *identity, int out, int err, int *report,
                  struct failure *failure)
{
    int ends[2];
    pid_t pid = -1;

    if (pipe2(ends, O_CLOEXEC) == 0) {
        pid = fork();
        if (pid == 0)
            run_child(spec, identity, out, err, ends[1]);
        int error = errno;
        close(ends[1]);
        if (pid < 0)
            close(ends[0]);
        errno = error;
    }
    if (pid < 0) {
        fail(failure, STAGE_SETUP, errno, "no process can be started: %s", strerror(errno));
        return -1;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    *report = ends[0];
    return pid;
}
