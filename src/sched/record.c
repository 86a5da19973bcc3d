/* SPDX-License-Identifier: MIT */
#include "sched/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <sennit/clock.h>

#include "arch/compiler.h"
#include "base/environment.h"
#include "sched/off_cpu.h"
#include "wait/checked.h"
#include "wait/lock.h"

/* The size of a ring. At 100,000 requests a second with six records each it holds 30 ms; a larger
 * one would not stay in the processor's cache. Address space is scarce on 32 bits. */
#define DEFAULT_BYTES ((size_t)(sizeof(void *) > 4 ? 256 : 64) << 10)
#define LEAST_BYTES ((size_t)4 << 10)
#define MOST_BYTES ((size_t)(sizeof(void *) > 4 ? 64 : 1) << 20)

/*
 * If there is one record in LONG_NS or less often on average, each turn gets a TIME of its own;
 * reading the clock takes a fiftieth of that. Otherwise up to MOST_UNTIMED records share one TIME.
 * Both are larger where reading the clock is a system call.
 */
#define LONG_NS 1000
#define MOST_UNTIMED 128
#define LONG_SYSCALL_NS 20000
#define MOST_SYSCALL_UNTIMED 512

static struct {
	struct sn_lock lock;         /* guards writes to the last ring */
	struct sn_lock reading;      /* guards the fields below, for readers, when a run begins */
	struct sn_record_ring *ring; /* an array of `count` rings; NULL if there are none */
	int count;
	size_t mapped;
} rings = {.lock = SN_LOCK_INIT(SN_RANK_LAST_RING), .reading = SN_LOCK_INIT(SN_RANK_RINGS)};

_Atomic uint32_t sn_record_ms_mask;

static int64_t long_ns;       /* one of the two values above; constant during a run */
static uint32_t most_untimed; /* the same, in bytes of records */

/* ---- writing ---- */

/* The ms for a ring whose last TIME is of now: its next record is late once the clock has moved, or
 * immediately if every record is to have its time. */
static inline uint32_t late_from_now(void)
{
	return atomic_load_explicit(&sn_status_clock.ms, memory_order_relaxed) ^
	       atomic_load_explicit(&sn_record_ms_mask, memory_order_relaxed);
}

/* Called before a record with a time is written: notes the time, and decides when the clock has to
 * be read again. Returns the time to record. */
static inline int64_t note_time(struct sn_record_ring *ring, int64_t now)
{
	sn_record_position head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	const int64_t records = (int64_t)((head - ring->timed) / sizeof(struct sn_record));
	int64_t passed = now - ring->time;

	/* The clocks that callers read may differ a little (clock.h). */
	if (passed < 0)
		passed = 0;
	ring->time += passed;
	/* Plus one for this record. Without it, the second of two times in a row, as at a fair
	 * tick, would be taken for the end of a long turn. */
	if (passed > (records + 1) * long_ns)
		ring->spacing = 0;
	else if (ring->spacing < most_untimed / 2)
		ring->spacing = 2 * ring->spacing + sizeof(struct sn_record);
	else
		ring->spacing = most_untimed;
	ring->ms = late_from_now();
	ring->timed = head + sizeof(struct sn_record);
	ring->due = ring->timed + ring->spacing;
	return ring->time;
}

void sn_record_time_at(struct sn_record_ring *ring, int64_t now)
{
	if (ring) {
		const bool late = sn_record_is_late(ring);

		now = note_time(ring, now);
		sn_record_put(ring, sn_record_what(SN_RECORD_TIME, late, 0), (uint64_t)now);
	}
}

sn_noinline void sn_record_time(struct sn_record_ring *ring)
{
	sn_record_time_at(ring, sn_ticks_now());
}

void sn_record_timed(struct sn_record_ring *ring, uint64_t what)
{
	if (ring)
		sn_record_put(ring, what, (uint64_t)note_time(ring, sn_ticks_now()));
}

void sn_record_outside(uint64_t what, uint64_t detail)
{
	struct sn_record_ring *ring;

	/* Needs no lock: rings.ring is constant while a caller may be here. */
	if (!rings.ring)
		return;
	ring = &rings.ring[rings.count - 1];
	sn_lock(&rings.lock);
	sn_record_time(ring);
	sn_record_put(ring, what, detail);
	sn_unlock(&rings.lock);
}

/* ---- with waits being measured ---- */

sn_noinline void sn_record_leave_time(struct sn_record_ring *ring, struct sn_task *task,
				      enum sn_leave_how how)
{
	sn_record_time(ring);
	if (sn_likely(!sn_off_cpu_is_on()) || how == SN_LEAVE_END)
		return;
	if (how == SN_LEAVE_YIELD)
		sn_off_cpu_ready(task, ring->time);
	sn_off_cpu_left(task, ring->time);
}

/* Notes the time in a task that becomes runnable or was just made. In the second case its wait
 * begins, too. */
static void note_ready(struct sn_task *task, uint64_t what, int64_t now)
{
	const bool spawned = (what & 0xff) == SN_RECORD_SPAWN, waits = what >> 8 & 1;

	if (!spawned || !waits)
		sn_off_cpu_ready(task, now);
	if (spawned)
		sn_off_cpu_left(task, now);
}

sn_noinline void sn_record_ready_time(struct sn_record_ring *ring, struct sn_task *task,
				      uint64_t what)
{
	sn_record_time(ring);
	if (sn_unlikely(sn_off_cpu_is_on()))
		note_ready(task, what, ring->time);
}

sn_noinline void sn_record_ready_outside(struct sn_task *task, uint64_t what, uint64_t detail)
{
	if (sn_unlikely(sn_off_cpu_is_on()))
		note_ready(task, what, sn_ticks_now());
	sn_record_outside(what, detail);
}

void sn_record_exactly(bool on)
{
	struct timespec left = {.tv_nsec = 1000000};

	atomic_store(&sn_record_ms_mask, on ? UINT32_C(1) << 31 : 0);
	if (!on)
		return;
	/* Each ring obeys the mask from its next record with a time on. Moving the clock makes that
	 * the next record. */
	sn_checked_pass(); /* a millisecond */
	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
	sn_checked_pass_end();
	sn_status_clock_advance(sn_now());
}

void sn_record_name(struct sn_processor *p, const struct sn_task *task)
{
	char name[SN_TASK_NAME_MAX + 1] = "";
	uint64_t bytes;
	unsigned length = 0;

	if (!p->record || !task->named)
		return;
	/* Relaxed: the last writer was the task itself, which is ending on this thread. */
	while (length < SN_TASK_NAME_MAX &&
	       (name[length] = atomic_load_explicit(&task->name[length], memory_order_relaxed)))
		length++;
	for (unsigned at = 0; at < length; at += sizeof bytes) {
		memcpy(&bytes, name + at, sizeof bytes);
		sn_record_put(p->record,
			      sn_record_what(SN_RECORD_NAME, at / sizeof bytes, sn_record_id(task)),
			      bytes);
	}
}

/* ---- the beginning ---- */

/* Stores the size of a ring in bytes, or 0 if nothing is to be recorded. Returns 0 or a negative
 * errno. */
static int wanted_size(size_t *size)
{
	const char *text = getenv("SENNIT_RECORD");
	size_t power = LEAST_BYTES;
	int err;

	*size = 0;
	if (text && strcmp(text, "0") == 0)
		return 0;
	*size = DEFAULT_BYTES;
	err = sn_environment_size("SENNIT_RECORD", LEAST_BYTES, MOST_BYTES, size);
	while (power < *size)
		power *= 2;
	*size = power;
	return err;
}

/* Maps all rings: first their structures, then their slots. The kernel commits pages when they are
 * written. */
static void map(int count, size_t size)
{
	size_t heads = ((size_t)count * sizeof *rings.ring + size - 1) & -size;
	size_t mapped = heads + (size_t)count * size;
	char *at = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return;
	/* A huge page would commit all of its memory at the first write. */
	madvise(at, mapped, MADV_NOHUGEPAGE);
	rings.ring = (struct sn_record_ring *)at;
	rings.count = count;
	rings.mapped = mapped;
	for (int i = 0; i < count; i++)
		rings.ring[i] = (struct sn_record_ring){.mask = size - 1,
							.slots = at + heads + (size_t)i * size};
}

int sn_record_begin(int processors)
{
	const bool slow = sn_clock_source(SN_CLOCK_CALL_TICKS_NOW) == SN_CLOCK_SOURCE_SYSCALL;
	size_t size;

	if (wanted_size(&size) < 0)
		return -EINVAL;
	long_ns = slow ? LONG_SYSCALL_NS : LONG_NS;
	most_untimed = (slow ? MOST_SYSCALL_UNTIMED : MOST_UNTIMED) * sizeof(struct sn_record);
	sn_lock(&rings.reading);
	if (rings.ring)
		munmap(rings.ring, rings.mapped);
	rings.ring = NULL;
	if (size)
		map(processors + 1, size);
	sn_unlock(&rings.reading);
	/* Read without the lock, because only this thread changes it. */
	if (size && !rings.ring)
		sn_log("no memory for %d rings of %zu KiB (SENNIT_RECORD): nothing is recorded, so "
		       "there are no traces and no profiles of waits",
		       processors + 1, size >> 10);
	return 0;
}

struct sn_record_ring *sn_record_ring(int processor)
{
	return rings.ring ? &rings.ring[processor] : NULL;
}

/* In the child there is no run, and no earlier one whose rings could be read. */
void sn_record_fork(enum sn_fork_phase phase)
{
	sn_fork_lock(&rings.reading, phase);
	sn_fork_lock(&rings.lock, phase);
	if (phase == SN_FORK_CHILD) {
		if (rings.ring)
			munmap(rings.ring, rings.mapped);
		rings.ring = NULL;
	}
}

/* ---- reading ---- */

int sn_record_hold(size_t *size)
{
	sn_lock(&rings.reading);
	if (!rings.ring) {
		sn_unlock(&rings.reading);
		return 0;
	}
	*size = (rings.ring->mask + 1) / sizeof(struct sn_record);
	return rings.count;
}

void sn_record_release(void)
{
	sn_unlock(&rings.reading);
}

size_t sn_record_copy(int number, struct sn_record_copy *to)
{
	struct sn_record_ring *ring = &rings.ring[number];
	const sn_record_position size = ring->mask + 1;
	sn_record_position end, now, from;
	size_t count = 0, lost = 0;

	/* Acquire, to see the records before it. */
	end = atomic_load_explicit(&ring->head, memory_order_acquire);
	from = end > size ? end - size : 0;
	for (sn_record_position at = from; at != end; at += sizeof(struct sn_record), count++) {
		struct sn_record *slot = (struct sn_record *)(ring->slots + (at & ring->mask));

		/* Acquire: see "Torn records" in record.h. */
		to[count].what = atomic_load_explicit(&slot->what, memory_order_acquire);
		to[count].detail = atomic_load_explicit(&slot->detail, memory_order_acquire);
	}
	now = atomic_load_explicit(&ring->head, memory_order_relaxed);
	/* The writer may be writing the record at `now`, in the place of the one at now - size. */
	if (now - from >= size)
		lost = (now - from - size) / sizeof(struct sn_record) + 1;
	if (lost > count)
		lost = count;
	memmove(to, to + lost, (count - lost) * sizeof *to);
	return count - lost;
}

bool sn_record_has_lost(int number)
{
	struct sn_record_ring *ring = &rings.ring[number];

	return atomic_load_explicit(&ring->head, memory_order_relaxed) > ring->mask + 1;
}
