/* SPDX-License-Identifier: MIT */
/*
 * The inside of copying: a job, and the ways to move its bytes.
 *
 * Bytes move in *spells*: a spell borrows what it needs (a buffer, a pipe), moves what is there, and
 * gives that back before anybody waits for more to read. copy.c decides which kind of spell is next.
 *
 * A job belongs to the one task that runs it. All of this is within the runtime; spells may park
 * while they wait for room to write.
 */
#ifndef SENNIT_NET_COPY_H
#define SENNIT_NET_COPY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sennit/copy.h>

#include "net/copy_policy.h"
#include "net/gather.h"
#include "net/stream.h"

/*
 * What was written to one connection, for whoever reads from it in the other direction of a relay.
 *
 * The kernel tells of a reset once: a call, reading or writing, takes the error off the socket, and
 * the next read finds the end of the stream. So a reader that finds an end must know whether a
 * writer was told of a reset before it. The writer counts in begun before each call and, after it,
 * records a failure and then counts in ended. The reader's call took the socket's lock after the
 * writer's had released it, if it was the writer that took the error; so the reader sees begun
 * counted, waits the moment until ended has the same value, and then sees failed.
 */
struct sn_write_guard {
	_Atomic uint32_t begun, ended; /* written by the one task that writes */
	_Atomic bool failed;
};

struct sn_copy_job;

/*
 * What a direction of a relay is allowed. pace.c; the task's of the job. pausing() tells the relay
 * that the job sleeps until then.
 */
struct sn_pace {
	const struct sn_relay_pace *calls;
	enum sn_relay_direction direction;
	bool limited;   /* granted was taken, and what is left of it is to be given back */
	size_t granted; /* bytes that may be read before it is asked again */
	void (*pausing)(struct sn_copy_job *job, int64_t until);
};

struct sn_copy_job {
	struct sn_fd *dst, *src;
	int64_t left; /* negative: until the end */
	struct sn_copy_result *result;
	/* NULL: none. delivered() is within the runtime; must not park. */
	void (*delivered)(struct sn_copy_job *job, size_t n);
	sn_copy_progress *progress;
	void *arg;
	struct sn_write_guard *guard; /* of dst; NULL outside of relays */
	struct sn_pace *pace;         /* NULL: as fast as can be */
	/* How often the other direction has moved something; NULL outside of relays. */
	const _Atomic uint32_t *answers;
	struct sn_gather gather; /* initialised by who has set answers */
	uint32_t low_water;      /* of src, while it is ours to change; 0: it is not */
	/* In sn_copy_try(), before the task waits for room in dst; NULL: none. Must not park. */
	void (*blocks)(struct sn_copy_job *job);
	struct sn_copy_policy policy;
	bool begun;        /* the policy is initialised */
	bool passes_end;   /* who runs the job passes the end of src on to dst at once */
	bool may_splice;   /* until the kernel says that it cannot */
	bool hold_sigpipe; /* not ignored by the program; known before the first splice */
};

/* How a spell ended. Negative: an error, and result->failed says whose. */
enum sn_spell {
	SN_SPELL_END = 0, /* of the stream, or what was asked for is copied */
	SN_SPELL_DRAINED, /* src has no more for now, or not enough while the job gathers; more will
			   * be an edge */
	SN_SPELL_SWITCH,  /* there is, or may be, more, which should go the other way */
	SN_SPELL_NO_PIPE, /* as SWITCH, and nothing was tried */
	SN_SPELL_FULL,    /* direct splices only: dst has no room, which will be an edge */
	SN_SPELL_PACED,   /* what was granted has been read */
	SN_SPELL_PIECE,   /* not at all: a piece was moved, and there may be more */
};

/* Runs the job: sn_copy(). */
int sn_copy_run(struct sn_copy_job *job);

/*
 * Moves what is there of a small flow between sockets, for a task that has more to do than this job. SN_SPELL_END,
 * SN_SPELL_DRAINED, or an error; or SN_SPELL_SWITCH when sn_copy_run() is to go on with it, as it is
 * not so small, gathers, or is held back. Parks only when dst has no room, after job->blocks().
 */
int sn_copy_try(struct sn_copy_job *job);

/* ---- for spells ---- */

int sn_copy_fail(struct sn_copy_job *job, enum sn_copy_side side, ssize_t err);

/* Accounts for n bytes that dst has taken; tells who wants to know. */
void sn_copy_delivered(struct sn_copy_job *job, size_t n, uint64_t *path);

/*
 * After a piece of so many bytes was moved: whether the copy should wait for more to gather (gather.h),
 * so that the spell ends as if src had no more (SN_SPELL_DRAINED).
 */
bool sn_copy_gathers(struct sn_copy_job *job, size_t n);

/* Of all jobs, how often what there was had to do. */
uint64_t sn_copies_late(void);

/* most, or what is left of the limit, or what may be read for now. */
size_t sn_copy_limit(const struct sn_copy_job *job, size_t most);

/* What it means that this is nothing. */
static inline enum sn_spell sn_copy_limit_reached(const struct sn_copy_job *job)
{
	return job->left == 0 ? SN_SPELL_END : SN_SPELL_PACED;
}

/* What src has without taking it: > 0 something, 0 the end, -EAGAIN nothing, or an error. */
ssize_t sn_copy_peek(struct sn_copy_job *job);

/* Accounts for n bytes that were read. */
static inline void sn_copy_taken(struct sn_copy_job *job, size_t n)
{
	job->result->bytes_read += n;
	if (job->left >= 0)
		job->left -= (int64_t)n;
	if (job->pace)
		job->pace->granted -= n;
}

/* Around each call that writes to dst; n is what it returned. */
void sn_guard_begin(struct sn_write_guard *guard);
void sn_guard_end(struct sn_write_guard *guard, ssize_t n);

/* Writes all of a buffer to dst. 0 or an error. */
int sn_copy_deliver(struct sn_copy_job *job, const char *data, size_t size);

/*
 * Has what src has to give granted, unless something is left, and sleeps until it may be read.
 * SN_SPELL_PACED when the next spell can begin; otherwise how it has ended already. sn_pace_end()
 * gives back what is left.
 */
int sn_pace_begin(struct sn_copy_job *job);
/* When there is no limit, as sn_pace_begin(): true. Otherwise nothing was done. Does not park. */
bool sn_pace_is_free(struct sn_copy_job *job);
void sn_pace_end(struct sn_pace *pace);

/* Moves what is there through the pipe. *moved: how much. splice.c. */
int sn_splice_spell(struct sn_copy_job *job, uint64_t *moved);

/* The same when src or dst is a pipe itself. splice.c. */
int sn_direct_spell(struct sn_copy_job *job);

/* From a file to anything, as far as the kernel can. file_copy.c. */
int sn_file_spell(struct sn_copy_job *job);

#endif
