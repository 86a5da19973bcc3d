/* SPDX-License-Identifier: MIT */
/*
 * Nanoseconds off the raw counter: CLOCK_MONOTONIC without the kernel's share of the work.
 *
 * The clock is one function of the counter's value, made of straight pieces that join end to end.
 * Everybody who reads the same counter value computes the same time, and no piece is ever changed
 * once somebody may have used it. So the clock cannot go back between two threads, however long
 * either of them is preempted in the middle of a read or of an update, provided only that their
 * counters agree and that sn_counter() is ordered: there is no moment of switching over that could
 * be missed. This is what the layout below is for.
 *
 *      ns ^                                      E = start + length
 *         |                          W.....E--------
 *         |              S-----------------/  next piece, published between W and E
 *         |    ---------/
 *         +--------------------------------------> counter
 *
 *  - A piece (struct piece) is a line from S = `start` on. It serves up to E; from W = start +
 *    `window` on, whoever reads tries to publish the next one, which begins at E exactly where this
 *    one ends. Its slope is chosen so that it meets the kernel's clock at its own end: an error
 *    that has built up is worked off evenly, never by a step back.
 *  - A reader with a counter value in [S, W) needs nothing else: one subtraction, comparison,
 *    multiplication, shift and addition. Before S (the next piece came early) it uses the line that
 *    the piece carries along of its predecessor. At E or later nobody has read a time yet, for
 *    nobody could: the first who comes measures, and publishes a piece that begins now, at the
 *    kernel's time or at the end of the old piece, whichever is later.
 *  - Publishing is one compare-and-swap of `current`. Writers fill a slot that they have claimed
 *    and that no reader can be led to; who loses the race throws its piece away and uses the
 *    winner's. No lock is held, so neither a preempted writer nor a signal handler that interrupts
 *    one keeps anybody waiting.
 *  - A reader takes the slot by `current`, reads its fields and then looks whether `current` is
 *    still the same; otherwise the slot may have been filled anew, and it starts over.
 *
 * Memory ordering. Fields are stored with release and loaded with acquire, `current` is published
 * with release and its last check comes after acquire loads. Suppose a reader sees a field of a
 * later filling. The load that saw it acquires from the store that wrote it, before which the
 * writer claimed the slot (acquire), before which the slot's previous user gave it back (release),
 * after it had published another `current`: so the reader's second look at `current` cannot see the
 * old value, and it starts over. On x86 all of these are plain moves but for the writer's three
 * locked instructions 16 times a second; on ARM they are ldar and stlr. No fences, which the thread
 * sanitizer does not understand.
 *
 * Trust. The counter is used only if the kernel itself keeps time by it (current_clocksource), the
 * processor says that it is constant and never stops, and the vDSO serves the clocks. If the
 * kernel's clock and this one then part by more than FAR in several pieces on end, which is what an
 * unstable counter or a migration to another host looks like, it is given up for good, and the call
 * reads the kernel's clock from then on.
 *
 * fork(): the pieces lie in memory that the kernel hands to a child as zeros (MADV_WIPEONFORK), and
 * zero is the state in which measuring begins. A child may be in another time namespace, where the
 * monotonic clock has another origin, so it must not go on with its parent's pieces.
 *
 * Rejected: a thread that recalibrates, which a library for programs without threads cannot have; a
 * seqlock around one line, with which a writer that is preempted between measuring and publishing
 * lets the clock step back, and which deadlocks a signal handler; clamping to the last value read,
 * whose cache line all cores would fight for; the rate that CPUID or CNTFRQ tell, as the kernel's
 * clock is steered away from it by up to 500 ppm.
 */
#include "clock/clock.h"

#include <errno.h>
#include <linux/fcntl.h>
#include <linux/mman.h>

/*
 * Nanoseconds that a piece lasts: 62.5 ms. Measuring takes some 0.4 us, so it costs 6 ppm of the
 * time of one thread. Shorter pieces would measure the rate less well (a measurement is some 10 ns
 * wrong), longer ones follow a change of the kernel's rate later: by 500 ppm at most, or 31 us in a
 * piece.
 */
#define PIECE_NS 62500000

/* The first slope is measured over this time. Until then the kernel's clock is read. */
#define FIRST_NS 20000000

/* The last 1/16 of a piece, 4 ms, is for publishing the next one. */
#define LEAD_SHIFT 4

/*
 * An error that steering cannot explain (31 us, see above) nor a measurement that was interrupted
 * (WORST_SAMPLE_NS), and how many pieces on end may have it.
 */
#define FAR_NS 100000
#define MOST_STRIKES 4

/* A measurement that took longer was interrupted on each of its tries, and is not used. */
#define WORST_SAMPLE_NS 20000
#define SAMPLE_TRIES 5

enum state {
	BLANK = 0, /* zero, as after fork(): nothing is known */
	WAITING,   /* there is a first measurement, not yet a second */
	LINE,
	GIVEN_UP /* the counter is not to be trusted; times may not fall below start_ns */
};

/* What writers and readers work on; in shared memory it is a slot. */
struct piece {
	uint64_t start, start_ns;     /* the line goes through this point */
	uint64_t before, before_ns;   /* and so does its predecessor's, which ends at start */
	uint64_t sample, sample_ns;   /* the measurement: counter value and kernel's time */
	uint64_t wall;                /* to be added for CLOCK_REALTIME */
	uint64_t start_wall;          /* the sum of start_ns and wall, set by publish() */
	uint32_t slope, before_slope; /* ns per step, times 2^SN_COUNTER_SHIFT */
	uint32_t window, length;      /* steps */
	uint32_t state, strikes;
};

#define SLOTS 8
#define WORDS (sizeof(struct piece) / sizeof(uint32_t))

/*
 * As the fields of struct piece, one after the other. Machine words, because 32-bit machines load
 * 64 bits at once only with great effort; that a value is of one piece is seen by `current`.
 */
#if __SIZEOF_LONG__ == 8
typedef _Atomic uint64_t cell;
#else
typedef _Atomic uint32_t cell;
#endif
#define CELLS (sizeof(struct piece) / sizeof(cell))

/* Written by whoever publishes; wiped by fork(). */
struct ticks {
	/* Slot in the low bits, above it a count that makes each value new (97 days till it wraps).
	 */
	_Atomic uint32_t current;
	_Atomic uint32_t claimed; /* a bit per slot: a writer fills it, or it is the current one */
	_Alignas(SN_CACHE_LINE) struct {
		_Alignas(SN_CACHE_LINE) cell cells[CELLS];
	} slots[SLOTS];
};

_Static_assert(sizeof(struct ticks) <= 4096, "one page on every machine");

/* Where `ticks` points while there is nothing better: its only slot is blank and stays so. */
static struct ticks nothing;
static _Atomic(struct ticks *) ticks = &nothing;

/* Written once, by sn_ticks_prepare(): 0 undecided, else an enum sn_clock_source. */
static _Atomic uint32_t decided;

static inline uint64_t get_cell(cell *cells, size_t offset)
{
	return atomic_load_explicit(&cells[offset / sizeof(cell)], memory_order_acquire);
}

static inline uint64_t get64(cell *cells, size_t offset)
{
#if __SIZEOF_LONG__ == 8
	return get_cell(cells, offset);
#else
	return get_cell(cells, offset) | get_cell(cells, offset + 4) << 32;
#endif
}

static inline uint32_t get32(cell *cells, size_t offset)
{
#if __SIZEOF_LONG__ == 8
	return (uint32_t)(get_cell(cells, offset) >> offset % 8 * 8);
#else
	return (uint32_t)get_cell(cells, offset);
#endif
}

union image {
	struct piece piece;
#if __SIZEOF_LONG__ == 8
	uint64_t cells[CELLS];
#else
	uint32_t cells[CELLS];
#endif
};

/* Copies the current piece; returns its `current`. */
static uint32_t read_piece(struct ticks *t, struct piece *piece)
{
	union image image;
	uint32_t current;

	/* Ends at the latest when no more pieces are published, of which there are 16 a second. */
	do {
		current = atomic_load_explicit(&t->current, memory_order_acquire);
		for (size_t i = 0; i < CELLS; i++)
			image.cells[i] = atomic_load_explicit(&t->slots[current % SLOTS].cells[i],
							      memory_order_acquire);
	} while (atomic_load_explicit(&t->current, memory_order_relaxed) != current);
	*piece = image.piece;
	return current;
}

/* Makes the piece the one that follows `current`, unless another one already does. */
static void publish(struct ticks *t, uint32_t current, const struct piece *piece)
{
	uint32_t claimed = atomic_load_explicit(&t->claimed, memory_order_relaxed), bit, slot;
	uint32_t mine = current;
	union image image;

	do {
		slot = 0;
		while (slot < SLOTS && ((claimed >> slot & 1) || slot == current % SLOTS))
			slot++;
		/* As many writers as slots are stuck: one of them will publish. */
		if (slot == SLOTS)
			return;
		bit = (uint32_t)1 << slot;
	} while (!atomic_compare_exchange_weak_explicit(
		&t->claimed, &claimed, claimed | bit, memory_order_acquire, memory_order_relaxed));

	image.piece = *piece;
	image.piece.start_wall = piece->start_ns + piece->wall;
	for (size_t i = 0; i < CELLS; i++)
		atomic_store_explicit(&t->slots[slot].cells[i], image.cells[i],
				      memory_order_release);
	if (atomic_compare_exchange_strong_explicit(&t->current, &mine,
						    (current / SLOTS + 1) * SLOTS + slot,
						    memory_order_acq_rel, memory_order_relaxed))
		bit = (uint32_t)1 << current % SLOTS; /* the slot that is now free is the old one */
	atomic_fetch_and_explicit(&t->claimed, ~bit, memory_order_release);
}

/* --- lines -------------------------------------------------------------------------------------
 */

static inline uint64_t along(uint64_t ns, uint32_t steps, uint32_t slope)
{
	return ns + ((uint64_t)steps * slope >> SN_COUNTER_SHIFT);
}

static uint64_t end_ns(const struct piece *p)
{
	return along(p->start_ns, p->length, p->slope);
}

struct sample {
	uint64_t early;   /* the counter at the latest before the kernel's clock was read */
	uint64_t counter; /* the counter as it most likely was at that moment */
	uint64_t ns;
};

/* Reads the counter and the kernel's clock together. 0, or -1 if that could not be done well. */
static int take_sample(struct sample *s)
{
	uint64_t width = UINT64_MAX;
	struct sn_timespec ts;
	uint64_t first_ns = 0;

	for (int i = 0; i < SAMPLE_TRIES; i++) {
		uint64_t before = sn_counter(), after;

		if (sn_clock_gettime(SN_ID_MONOTONIC, &ts) < 0)
			return -1;
		after = sn_counter();
		if (i == 0)
			first_ns = (uint64_t)sn_to_ns(&ts);
		if (after - before < width) {
			width = after - before;
			s->early = before;
			s->counter = before + width / 2;
			s->ns = (uint64_t)sn_to_ns(&ts);
		}
	}
	/* If all of them were slow, the last is as far from the first as they were long. */
	return (uint64_t)sn_to_ns(&ts) - first_ns < SAMPLE_TRIES * WORST_SAMPLE_NS ? 0 : -1;
}

/* What the coarse clocks differ by when no tick came between: the exact difference of the fine. */
static uint64_t wall_offset(uint64_t otherwise)
{
	struct sn_timespec before, wall, after;

	for (int i = 0; i < SAMPLE_TRIES; i++) {
		if (sn_clock_gettime(SN_ID_MONOTONIC_COARSE, &before) < 0 ||
		    sn_clock_gettime(SN_ID_REALTIME_COARSE, &wall) < 0 ||
		    sn_clock_gettime(SN_ID_MONOTONIC_COARSE, &after) < 0)
			break;
		if (sn_to_ns(&before) == sn_to_ns(&after))
			return (uint64_t)(sn_to_ns(&wall) - sn_to_ns(&before));
	}
	return otherwise;
}

/* steps * ns / per, all of which may need more than 32 bits; exact to 1 in 2^30. */
static uint64_t scale(uint64_t steps, uint64_t ns, uint64_t per)
{
	while (ns >> 32 || per >> 32) {
		ns >>= 1;
		per >>= 1;
	}
	return per ? steps * ns / per : 0;
}

/*
 * Gives the piece, whose start is set, its slope, length and window: so that it ends where the
 * kernel's clock will be, which was at the piece's sample and makes `ns` in `steps`. 0, or -1 if
 * there is no such line.
 */
static int aim(struct piece *p, uint64_t steps, uint64_t ns)
{
	uint64_t length = scale(PIECE_NS, steps, ns), until, target, rise;

	if (length >= UINT32_MAX / 4 || length < 64)
		return -1;
	until = p->start + length - p->sample;
	if (until >> 32) /* the start is seconds from the sample: no piece of ours begins there */
		return -1;
	target = p->sample_ns + scale(until, ns, steps);
	rise = target - p->start_ns;
	/* An error as large as the piece takes several of them; time goes on meanwhile. */
	if ((int64_t)rise < PIECE_NS / 16)
		rise = PIECE_NS / 16;
	if (rise > 2 * PIECE_NS)
		rise = 2 * PIECE_NS;
	rise = (rise << SN_COUNTER_SHIFT) / length;
	if (rise >> 32) /* the counter is slower than SN_COUNTER_SHIFT allows */
		return -1;
	p->slope = (uint32_t)rise;
	p->length = (uint32_t)length;
	p->window = p->length - (p->length >> LEAD_SHIFT);
	p->state = LINE;
	return 0;
}

static void give_up(struct piece *p, uint64_t floor_ns)
{
	p->start_ns = floor_ns;
	p->state = GIVEN_UP;
	p->window = 0;
}

/* The first measurement. */
static void begin(struct ticks *t, uint32_t current)
{
	struct piece p = {.state = WAITING};
	struct sample s;

	if (take_sample(&s) < 0)
		return;
	p.sample = s.counter;
	p.sample_ns = s.ns;
	publish(t, current, &p);
}

/* The second, FIRST_NS later, and so the first line. */
static void first_line(struct ticks *t, uint32_t current, const struct piece *waiting)
{
	struct piece p = *waiting;
	struct sample s;

	if (take_sample(&s) < 0)
		return;
	if (s.counter <= waiting->sample) {
		begin(t, current);
		return;
	}
	/*
	 * Until now times came from the kernel's clock. The line must not lie below it, so it takes
	 * for the moment of the kernel's reading the earliest that it can have been.
	 */
	p.start = p.sample = s.early;
	p.start_ns = p.sample_ns = s.ns;
	p.before = p.start;
	p.before_ns = p.start_ns;
	p.wall = wall_offset(0);
	if (!p.wall || aim(&p, s.early - waiting->sample, s.ns - waiting->sample_ns) < 0)
		give_up(&p, 0);
	else
		p.before_slope = p.slope;
	publish(t, current, &p);
}

/* The next piece, while the last one is still good. */
static void append(struct ticks *t, uint32_t current, const struct piece *last)
{
	struct piece p = *last;
	struct sample s;
	int64_t error;

	if (take_sample(&s) < 0 || s.counter <= last->sample ||
	    s.counter - last->start > UINT32_MAX)
		return;
	error = (int64_t)(s.ns -
			  along(last->start_ns, (uint32_t)(s.counter - last->start), last->slope));
	p.strikes = error > FAR_NS || error < -FAR_NS ? last->strikes + 1 : 0;
	p.start = last->start + last->length;
	p.start_ns = end_ns(last);
	p.before = last->start;
	p.before_ns = last->start_ns;
	p.before_slope = last->slope;
	p.sample = s.counter;
	p.sample_ns = s.ns;
	p.wall = wall_offset(last->wall);
	if (p.strikes >= MOST_STRIKES ||
	    aim(&p, s.counter - last->sample, s.ns - last->sample_ns) < 0)
		give_up(&p, end_ns(last));
	publish(t, current, &p);
}

/* A piece that begins now: nobody asked for the time while the last one was good. */
static void resume(struct ticks *t, uint32_t current, const struct piece *last)
{
	struct piece p = *last;
	uint64_t steps = last->length, rise = end_ns(last) - last->start_ns, floor = end_ns(last);
	struct sample s;

	if (take_sample(&s) < 0)
		return;
	p.start = s.early;
	p.start_ns = s.ns > floor ? s.ns : floor;
	p.before = p.start;
	p.before_ns = p.start_ns;
	p.before_slope = last->slope;
	p.sample = s.early;
	p.sample_ns = s.ns;
	p.wall = wall_offset(last->wall);
	if (s.early > last->sample) {
		/*
		 * The rate over the whole pause is the best there is, unless the machine slept
		 * through part of it: the counter may go on then, while the kernel's clock stops.
		 * Steering is far below 1 in 1024.
		 */
		uint64_t expected = scale(s.early - last->sample, rise, steps);
		uint64_t measured = s.ns - last->sample_ns;
		uint64_t apart = expected > measured ? expected - measured : measured - expected;

		if (apart <= measured >> 10) {
			steps = s.early - last->sample;
			rise = measured;
			p.strikes = 0;
		} else {
			p.strikes = last->strikes + 1;
		}
	} else {
		p.strikes = last->strikes + 1; /* the counter went back: another host */
	}
	if (p.strikes >= MOST_STRIKES || aim(&p, steps, rise) < 0)
		give_up(&p, floor);
	publish(t, current, &p);
}

/* --- trust -------------------------------------------------------------------------------------
 */

/* Does the kernel keep time by our counter? */
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

#define PAGE_BYTES 4096 /* of which a larger page is a multiple; the calls round up */

void sn_ticks_prepare(void)
{
	struct ticks *expected = &nothing, *page;
	uint32_t verdict = SN_CLOCK_SOURCE_SYSCALL;
	long memory;

	if (atomic_load_explicit(&decided, memory_order_relaxed))
		return;
	if (sn_clock_by_vdso()) {
		verdict = SN_CLOCK_SOURCE_VDSO;
		if (sn_counter_usable() && is_clocksource()) {
			memory = sn_sys_map(PAGE_BYTES, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS);
			if (memory < 0 && memory >= -4095)
				goto out;
			page = (struct ticks *)memory;
			/* Without the wiping a child could tell its parent's time. */
			if (sn_sys3(__NR_madvise, memory, PAGE_BYTES, MADV_WIPEONFORK) < 0) {
				sn_sys2(__NR_munmap, memory, PAGE_BYTES);
				goto out;
			}
			begin(page, 0);
			verdict = SN_CLOCK_SOURCE_COUNTER;
			/* Release: who sees the page sees what begin() wrote. */
			if (!atomic_compare_exchange_strong_explicit(&ticks, &expected, page,
								     memory_order_release,
								     memory_order_relaxed))
				sn_sys2(__NR_munmap, memory, PAGE_BYTES); /* somebody was faster */
		}
	}
out:
	atomic_store_explicit(&decided, verdict, memory_order_relaxed);
}

/* The page, or `nothing` for good. */
static struct ticks *get_page(void)
{
	struct ticks *t = atomic_load_explicit(&ticks, memory_order_acquire);

	if (t == &nothing && !atomic_load_explicit(&decided, memory_order_relaxed)) {
		sn_ticks_prepare();
		t = atomic_load_explicit(&ticks, memory_order_acquire);
	}
	return t;
}

/* --- reading -----------------------------------------------------------------------------------
 */

/*
 * The rare cases, and the upkeep. The time, and in *wall what makes CLOCK_REALTIME of it; *wall is
 * 0 where the time is the kernel's.
 */
static sn_noinline int64_t read_slowly(uint64_t *wall)
{
	struct ticks *t = get_page();
	struct piece p;
	uint64_t floor = 0;
	int64_t now;

	*wall = 0;
	if (t == &nothing)
		return sn_now();

	/*
	 * One round uses a piece or makes one; the next finds it there. More are needed only when
	 * pieces are published meanwhile, or cannot be: then the kernel's clock answers.
	 */
	for (int round = 0; round < 16; round++) {
		uint32_t current = read_piece(t, &p);
		uint64_t counter;

		if (p.state == BLANK || p.state == WAITING) {
			/*
			 * The kernel's time is good as long as no line has begun. Looking again
			 * afterwards makes sure that nobody can have read a later time off one.
			 */
			now = sn_now();
			if (p.state == BLANK)
				begin(t, current);
			else if ((uint64_t)now - p.sample_ns >= FIRST_NS)
				first_line(t, current, &p);
			read_piece(t, &p);
			if (p.state == BLANK || p.state == WAITING)
				return now;
			continue;
		}
		if (p.state == GIVEN_UP) {
			floor = p.start_ns;
			break;
		}

		counter = sn_counter();
		*wall = p.wall;
		if (counter - p.start < p.length) {
			if (counter - p.start >= p.window)
				append(t, current, &p);
			return (int64_t)along(p.start_ns, (uint32_t)(counter - p.start), p.slope);
		}
		if (counter - p.before < p.start - p.before)
			return (int64_t)along(p.before_ns, (uint32_t)(counter - p.before),
					      p.before_slope);
		floor = end_ns(&p);
		resume(t, current, &p);
	}
	*wall = 0;
	now = sn_now();
	return now < (int64_t)floor ? (int64_t)floor : now;
}

/*
 * All but one in some hundred thousand reads end here. Where the counter is not trusted it must not
 * even be read: that may be forbidden, or an instruction which the processor does not have. Beyond
 * that the order of the loads and of the counter does not matter: a piece that holds for the
 * counter's value gives the right time for it, whether or not there is a newer one.
 *
 * Sets *result and says 1, or says 0: then it takes read_slowly(). A constant `with_wall` asks for
 * CLOCK_REALTIME.
 */
static inline __attribute__((always_inline)) int read_fast(int64_t *result, int with_wall)
{
	struct ticks *t = atomic_load_explicit(&ticks, memory_order_acquire);
	uint64_t steps, ns;
	uint32_t current, window, slope;
	cell *cells;

	if (sn_unlikely(t == &nothing))
		return 0;
	steps = sn_counter();
	current = atomic_load_explicit(&t->current, memory_order_acquire);
	cells = t->slots[current % SLOTS].cells;
	steps -= get64(cells, offsetof(struct piece, start));
	window = get32(cells, offsetof(struct piece, window));
	slope = get32(cells, offsetof(struct piece, slope));
	ns = get64(cells, with_wall ? offsetof(struct piece, start_wall)
				    : offsetof(struct piece, start_ns));
	if (sn_unlikely(steps >= window ||
			atomic_load_explicit(&t->current, memory_order_relaxed) != current))
		return 0;
	*result = (int64_t)along(ns, (uint32_t)steps, slope);
	return 1;
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

uint64_t sn_ticks(void)
{
	if (sn_unlikely(get_page() == &nothing))
		return (uint64_t)sn_now();
	return sn_counter();
}

int sn_ticks_source(void)
{
	struct ticks *t = get_page();
	struct piece p;

	if (t == &nothing)
		return (int)atomic_load_explicit(&decided, memory_order_relaxed);
	read_piece(t, &p);
	return p.state == GIVEN_UP ? SN_CLOCK_SOURCE_VDSO : SN_CLOCK_SOURCE_COUNTER;
}
