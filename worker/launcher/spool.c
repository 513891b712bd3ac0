/* stdout and stderr to disk. Memory is fixed whatever the program prints; a full disk makes the program
 * wait (its pipe fills up), and only after a while costs output. */
#define _GNU_SOURCE
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#define BUFFER_BYTES (256 << 10)
#define PIPE_BYTES (1 << 20)
#define FULL_RETRY (200 * MS)
/* A program that prints line by line would wake the launcher for each line. This collects them. */
#define GATHER (4 * MS)
/* A record covers this much time at most, so a byte now and then does not cost 24 bytes of index each. */
#define RECORD_SPAN (20 * MS)
/* Two streams in turns would still do that: past this allowance a record covers a second. */
#define INDEX_ALLOWANCE (4 << 20)
#define RECORD_SPAN_LONG SECOND

static unsigned char buffers[2][BUFFER_BYTES];

static bool open_stream(struct stream *stream, const struct box *box, uint32_t number, int *child_end)
{
    static const char *const names[] = {"stdout", "stderr"};
    int ends[2];

    stream->number = number;
    stream->buffer = buffers[number - 1];
    stream->file = openat(box->run, names[number - 1], O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (stream->file < 0 || pipe2(ends, O_CLOEXEC) < 0)
        return false;
    int capacity = fcntl(ends[0], F_GETPIPE_SZ);
    stream->capacity = capacity > 0 ? (size_t)capacity : 4096;
    /* Only this end: the program's end stays blocking. */
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    stream->pipe = ends[0];
    *child_end = ends[1];
    return true;
}

bool open_spool(struct spool *spool, const struct box *box, int child_ends[2], struct failure *failure)
{
    spool->index = openat(box->run, "index", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (spool->index < 0 || !open_stream(&spool->streams[0], box, 1, &child_ends[0]) ||
        !open_stream(&spool->streams[1], box, 2, &child_ends[1]))
        return fail(failure, STAGE_SETUP, errno, "the spools can't be made");
    return true;
}

/* All containers' roots share one allowance of pipe memory (64 MiB), and past it every new pipe is tiny: so only
 * a pipe that is filled gets more. Refused, the small one works too, a little slower. */
static void grow_pipe(struct stream *stream)
{
    int capacity = fcntl(stream->pipe, F_SETPIPE_SZ, PIPE_BYTES);

    if (capacity > 0)
        stream->capacity = (size_t)capacity;
    stream->grown = true;
}

static void put_le(unsigned char *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

static void flush_record(struct spool *spool, struct stream *stream)
{
    unsigned char record[24];

    if (stream->record_length == 0)
        return;
    put_le(record, (uint64_t)stream->record_wall, 8);
    put_le(record + 8, stream->record_offset, 8);
    put_le(record + 16, stream->record_length, 4);
    put_le(record + 20, stream->number, 4);
    ssize_t written = pwrite(spool->index, record, sizeof record, (off_t)spool->index_size);
    if (written != (ssize_t)sizeof record) {
        /* Full disk: the record grows on and is tried again later. No partial record stays. */
        if (ftruncate(spool->index, (off_t)spool->index_size) < 0)
            return;
        stream->record_at = boot_now();
        return;
    }
    spool->index_size += sizeof record;
    stream->record_length = 0;
}

static bool index_is_long(const struct spool *spool)
{
    return spool->index_size > INDEX_ALLOWANCE + (spool->streams[0].size + spool->streams[1].size) / 8;
}

static ns_t record_due(const struct spool *spool, const struct stream *stream)
{
    if (stream->record_length == 0)
        return NEVER;
    return stream->record_at + (index_is_long(spool) ? RECORD_SPAN_LONG : RECORD_SPAN);
}

static void note(struct spool *spool, struct stream *stream, size_t length)
{
    struct stream *other = &spool->streams[stream->number == 1 ? 1 : 0];

    if (!index_is_long(spool))
        flush_record(spool, other); /* keeps the order in which the two streams took turns */
    if (length > UINT32_MAX - stream->record_length)
        flush_record(spool, stream);
    if (stream->record_length == 0) {
        stream->record_at = boot_now();
        stream->record_wall = wall_now();
        stream->record_offset = stream->size;
    }
    stream->record_length += (uint32_t)length;
    stream->size += length;
}

static void drop_rest(struct spool *spool, struct stream *stream)
{
    spool->dropped += stream->have - stream->done;
    stream->have = stream->done = 0;
}

/* False: the disk is full now. */
static bool write_buffer(struct spool *spool, struct stream *stream, ns_t now)
{
    while (stream->done < stream->have) {
        ssize_t written = write(stream->file, stream->buffer + stream->done, stream->have - stream->done);
        if (written > 0) {
            note(spool, stream, (size_t)written);
            stream->done += (size_t)written;
            spool->full_since = 0;
            spool->gave_up = false;
            continue;
        }
        if (written < 0 && errno == EINTR)
            continue;
        if (spool->full_since == 0)
            spool->full_since = now;
        if (!spool->gave_up && now - spool->full_since < spool->full_patience) {
            spool->retry_at = now + FULL_RETRY;
            return false;
        }
        spool->gave_up = true;
        drop_rest(spool, stream);
    }
    stream->have = stream->done = 0;
    return true;
}

/* One read and its write. Returns the bytes read. 0: nothing to read, the end, or a full disk. */
static size_t carry(struct spool *spool, struct stream *stream, ns_t now)
{
    if (!write_buffer(spool, stream, now) || stream->pipe < 0)
        return 0;
    ssize_t got;
    do
        got = read(stream->pipe, stream->buffer, BUFFER_BYTES);
    while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN)
        return 0;
    if (got <= 0) {
        close(stream->pipe);
        stream->pipe = -1;
        return 0;
    }
    if (!stream->grown && (size_t)got >= stream->capacity / 2)
        grow_pipe(stream);
    uint64_t used = spool->streams[0].size + spool->streams[1].size;
    uint64_t room = used < spool->limit ? spool->limit - used : 0;
    stream->done = 0;
    stream->have = (size_t)got;
    if ((uint64_t)got > room) {
        stream->have = (size_t)room;
        spool->dropped += (uint64_t)got - room;
        spool->limit_reached = true;
    }
    write_buffer(spool, stream, now);
    return (size_t)got;
}

bool wants_input(const struct stream *stream, ns_t now)
{
    return stream->pipe >= 0 && stream->have == stream->done && now >= stream->read_after;
}

void pump(struct spool *spool, ns_t now)
{
    for (int i = 0; i < 2; i++) {
        struct stream *stream = &spool->streams[i];
        bool waiting = stream->have != stream->done;
        if (waiting ? now >= spool->retry_at : wants_input(stream, now)) {
            size_t got = carry(spool, stream, now);
            /* The pipe was full: read again at once, since the program may be blocked. */
            stream->read_after = got > 0 && got < stream->capacity / 4 ? now + GATHER : 0;
        }
        if (now >= record_due(spool, stream))
            flush_record(spool, stream);
    }
}

ns_t pump_due(const struct spool *spool)
{
    ns_t due = NEVER;

    for (int i = 0; i < 2; i++) {
        const struct stream *stream = &spool->streams[i];
        ns_t record = record_due(spool, stream);
        if (record < due)
            due = record;
        if (stream->have != stream->done && spool->retry_at < due)
            due = spool->retry_at;
        if (stream->pipe >= 0 && stream->read_after != 0 && stream->read_after < due)
            due = stream->read_after;
    }
    return due;
}

void finish_spool(struct spool *spool)
{
    for (int i = 0; i < 2; i++) {
        struct stream *stream = &spool->streams[i];
        /* All writers in the container are gone, so what they wrote is in the pipe already. Its end may never
         * come: a descriptor can have been handed to a process of another container, which may even write. */
        size_t left = stream->capacity;
        for (;;) {
            if (stream->have != stream->done) {
                nanosleep(&(struct timespec){.tv_nsec = (long)FULL_RETRY}, NULL);
                write_buffer(spool, stream, boot_now());
                continue;
            }
            size_t got = left > 0 ? carry(spool, stream, boot_now()) : 0;
            if (got == 0 && stream->have == stream->done)
                break;
            left -= got < left ? got : left;
        }
    }
    for (int i = 0; i < 2; i++) {
        flush_record(spool, &spool->streams[i]);
        if (spool->streams[i].size > 0)
            fdatasync(spool->streams[i].file);
    }
    if (spool->index_size > 0)
        fdatasync(spool->index);
}
