/* SPDX-License-Identifier: MIT */
/*
 * Nanoseconds from the raw counter: CLOCK_MONOTONIC without the kernel's share of the work.
 *
 * Contract. The clock never goes back, except with the kernel's own in another time namespace; all
 * threads agree on what a counter value means (piece.h); and it follows the kernel's clock
 * (steer.h; docs/clock.md has the bounds). Reading takes no lock, and may be done in a signal
 * handler.
 *
 * Trust. The counter is used only if the kernel itself keeps time by it (current_clocksource), the
 * processor says that it is constant and never stops, and the vDSO serves the clocks. It may still
 * be given up later (steer.h). Then, and where it was never trusted, the calls read the kernel's
 * clock.
 *
 * fork(): the pieces lie in memory that a child gets as zeros (MADV_WIPEONFORK), and zero is the
 * state in which measuring begins. A child may be in another time namespace, where the monotonic
 * clock has another origin, so it must not continue with its parent's pieces.
 *
 * Who may write what:
 *   ticks, decided   sn_ticks_prepare(), once; two threads at the same time write the same values
 */
#include "clock/clock.h"

#include <errno.h>
#include <linux/fcntl.h>
#include <linux/mman.h>

#include "clock/piece.h"
#include "clock/steer.h"

static _Atomic(struct sn_pieces *) ticks; /* NULL: none, or not yet */

/* 0 undecided, else an enum sn_clock_source. */
static _Atomic uint32_t decided;

/* ---- trust ---- */

/* Whether the kernel keeps time by the counter that sn_counter() reads. */
static int is_clocksource(void)
{
	static const char path[] =
		"/sys/devices/system/clocksource/clocksource0/current_clocksource";
	static const char wanted[] = SN_COUNTER_CLOCKSOURCE "\n";
	char name[sizeof(wanted)];
	long n, fd = sn_sys4(__NR_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0);

	if (fd < 0)
		return 0;
	n = sn_sys3(__NR_read, fd, (long)name, sizeof(name));
	sn_sys1(__NR_close, fd);
	if (n != sizeof(wanted) - 1)
		return 0;
	for (long i = 0; i < n; i++)
		if (name[i] != wanted[i])
			return 0;
	return 1;
}

#ifndef MADV_WIPEONFORK /* Linux 4.14 */
#	define MADV_WIPEONFORK 18
#endif

void sn_ticks_prepare(void)
{
	static struct sn_page place;
	struct sn_pieces *page = sn_page(&place);
	uint32_t verdict = SN_CLOCK_SOURCE_SYSCALL;

	if (atomic_load_explicit(&decided, memory_order_relaxed))
		return;
	if (sn_clock_by_vdso()) {
		verdict = SN_CLOCK_SOURCE_VDSO;
		/* Without the wiping a child could continue with its parent's pieces. */
		if (sn_counter_usable() && is_clocksource() &&
		    sn_sys3(__NR_madvise, (long)page, SN_PAGE_BYTES, MADV_WIPEONFORK) == 0) {
			/* Another thread that does this at the same time does no harm: one of the
			 * two publishes, as with later pieces. */
			sn_steer_begin(page, 0, 0);
			verdict = SN_CLOCK_SOURCE_COUNTER;
			/* Release: a thread that sees the page sees what sn_steer_begin() wrote. */
			atomic_store_explicit(&ticks, page, memory_order_release);
		}
	}
	atomic_store_explicit(&decided, verdict, memory_order_relaxed);
}

#ifndef SENNIT_NO_LIBC
/* It is in this file, not where the vDSO is looked up, so that static programs without ticks do not
 * get it. */
__attribute__((constructor(102))) static void prepare(void)
{
	sn_ticks_prepare();
}
#endif

/* The page; NULL: there will never be one. */
static struct sn_pieces *get_page(void)
{
	struct sn_pieces *t = atomic_load_explicit(&ticks, memory_order_acquire);

	if (!t && !atomic_load_explicit(&decided, memory_order_relaxed)) {
		sn_ticks_prepare();
		t = atomic_load_explicit(&ticks, memory_order_acquire);
	}
	return t;
}

/* ---- reading ---- */

/*
 * Handles the rare cases, and publishes pieces. Returns the time. The caller adds *wall for
 * CLOCK_REALTIME; it is 0 where the time is the kernel's.
 */
static sn_noinline int64_t read_slowly(uint64_t *wall)
{
	struct sn_pieces *t = get_page();
	struct sn_piece p;
	uint64_t floor = 0;
	int64_t now;

	*wall = 0;
	if (!t)
		return sn_now();

	/*
	 * One round uses a piece or makes one, and the next round finds that. More rounds are
	 * needed only when other threads publish pieces in between, or when none can be published:
	 * then the kernel's clock answers.
	 */
	for (int round = 0; round < 16; round++) {
		unsigned long current = sn_piece_read(t, &p);
		uint64_t counter;

		if (p.state == SN_PIECE_BLANK || p.state == SN_PIECE_WAITING) {
			/*
			 * The kernel's time is valid as long as no line has begun. The check after
			 * it was read ensures that no reader can have taken a later time from a
			 * line.
			 */
			now = sn_now();
			if (p.state == SN_PIECE_BLANK)
				sn_steer_begin(t, current, 0);
			else if ((uint64_t)now - p.sample_ns >= SN_STEER_FIRST_NS)
				sn_steer_first_line(t, current, &p);
			sn_piece_read(t, &p);
			if (p.state == SN_PIECE_BLANK || p.state == SN_PIECE_WAITING)
				return now;
			continue;
		}
		if (p.state == SN_PIECE_GIVEN_UP) {
			floor = p.floor_ns;
			break;
		}

		counter = sn_counter();
		*wall = p.wall;
		if (counter - p.start < p.length) {
			if (counter - p.start >= p.window)
				sn_steer_append(t, current, &p);
			return (int64_t)sn_piece_time_at(&p, counter);
		}
		*wall = p.before_wall;
		if (counter - p.before < p.start - p.before)
			return (int64_t)sn_piece_along(p.before_origin_ns,
						       counter - sn_piece_origin(p.before),
						       p.before_slope);
		floor = sn_piece_end_ns(&p);
		sn_steer_resume(t, current, &p);
	}
	*wall = 0;
	now = sn_now();
	/* floor, if the kernel's time is earlier, unless that is an error, or the time of another
	 * namespace. */
	return now >= 0 && floor - (uint64_t)now < SN_STEER_FAR_NS ? (int64_t)floor : now;
}

/*
 * Nearly all reads end here; about one in a hundred thousand does not. Where the counter is not
 * trusted it must not even be read: that may be forbidden, or the processor may lack the
 * instruction. Apart from that, the order of the loads and of the counter does not matter: a piece
 * that holds for the counter's value gives the right time for it, even if there is a newer piece.
 *
 * Sets *result and returns 1, or returns 0 when read_slowly() is needed. A constant `with_wall`
 * asks for CLOCK_REALTIME.
 */
static inline __attribute__((always_inline)) int read_fast(int64_t *result, int with_wall)
{
	struct sn_pieces *t = atomic_load_explicit(&ticks, memory_order_acquire);
	unsigned long low, high, current;
	struct sn_piece_slot *slot;

	if (sn_unlikely(!t))
		return 0;
	low = sn_counter_halves(&high);
	current = atomic_load_explicit(&t->current, memory_order_acquire);
	slot = sn_piece_slot_of(t, current);
	/* No piece crosses a multiple of 2^32. */
	if (sn_unlikely(high != sn_piece_get32(slot, offsetof(struct sn_piece, start) + 4) ||
			(uint32_t)low - sn_piece_get32(slot, offsetof(struct sn_piece, start)) >=
				sn_piece_get32(slot, offsetof(struct sn_piece, window))))
		return 0;
	*result = (int64_t)sn_piece_along_slot(slot,
					       with_wall ? offsetof(struct sn_piece, origin_wall)
							 : offsetof(struct sn_piece, origin_ns),
					       low);
	return sn_likely(atomic_load_explicit(&t->current, memory_order_relaxed) == current);
}

static sn_noinline int64_t ticks_slowly(void)
{
	uint64_t wall;

	return read_slowly(&wall);
}

int64_t sn_ticks_now(void)
{
	int64_t now;

	return sn_likely(read_fast(&now, 0)) ? now : ticks_slowly();
}

#if SN_WALLTIME_BY_COUNTER
static sn_noinline int64_t walltime_slowly(void)
{
	uint64_t wall;
	int64_t now = read_slowly(&wall);

	return wall ? now + (int64_t)wall : sn_walltime_by_kernel();
}

int64_t sn_walltime(void)
{
	int64_t now;

	return sn_likely(read_fast(&now, 1)) ? now : walltime_slowly();
}
#endif

static sn_noinline uint64_t counter_slowly(void)
{
	return get_page() ? sn_counter() : (uint64_t)sn_now();
}

uint64_t sn_ticks(void)
{
	if (sn_unlikely(!atomic_load_explicit(&ticks, memory_order_acquire)))
		return counter_slowly();
	return sn_counter();
}

int sn_ticks_source(void)
{
	struct sn_pieces *t = get_page();
	struct sn_piece p;

	if (!t)
		return (int)atomic_load_explicit(&decided, memory_order_relaxed);
	sn_piece_read(t, &p);
	return p.state == SN_PIECE_GIVEN_UP ? SN_CLOCK_SOURCE_VDSO : SN_CLOCK_SOURCE_COUNTER;
}
