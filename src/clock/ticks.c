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
 *  - A reader with a counter value in [S, W) needs nothing else: one multiplication, shift and
 *    addition. Before S (the next piece came early) it uses the line that the piece carries along of
 *    its predecessor. At E or later nobody has read a time yet, for nobody could: the first who
 *    comes measures, and publishes a piece that begins now, at the kernel's time or at the end of
 *    the old piece, whichever is later.
 *  - No piece crosses a multiple of 2^32 of the counter, and its line is written down from the last
 *    one on, its *origin*. So what is multiplied is the counter's lower half as the processor
 *    delivers it. The cost beyond the counter's own is what happens between its arrival and the
 *    result, because the next ordered read waits for that: joining the halves and subtracting the
 *    start first took 17.9 ns, this takes 16.4, beside 15.2 for a function that returns the counter.
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
	GIVEN_UP /* the counter is not to be trusted */
};

/* What writers and readers work on; in shared memory it is a slot. */
struct piece {
	/* What each read needs comes first, and fits a line of the cache. */
	uint64_t start;       /* counter value that it begins with */
	uint32_t slope;       /* ns per step, times 2^SN_COUNTER_SHIFT */
	uint32_t window;      /* steps; 0 unless the state is LINE */
	uint64_t origin_ns;   /* the line's value at its origin: modulo 2^64, it may lie before 0 */
	uint64_t origin_wall; /* the sum of origin_ns and wall, set by publish() */
	uint32_t length, state; /* steps; enum state */

	uint64_t before, before_origin_ns; /* its predecessor's line, which ends at start, */
	uint32_t before_slope;             /* and where that began */
	uint32_t strikes;
	uint64_t sample, sample_ns; /* the measurement: counter value and kernel's time */
	uint64_t wall;              /* to be added for CLOCK_REALTIME */
	uint64_t floor_ns;          /* GIVEN_UP: times may not fall below */
};

#define SLOTS 8
#define SLOT_BYTES SN_CACHE_LINE
#define COUNT_STEP ((unsigned long)SLOTS * SLOT_BYTES)

/*
 * In shared memory: the fields of struct piece, one after the other; those that are read in pairs as
 * machine words, because 32-bit machines load 64 bits at once only with great effort. That all
 * values are of one piece is seen by `current`.
 */
#define NARROW_BYTES offsetof(struct piece, origin_ns)
#define NARROW (NARROW_BYTES / sizeof(uint32_t))
#define WIDE ((sizeof(struct piece) - NARROW_BYTES) / sizeof(unsigned long))

struct slot {
	_Alignas(SLOT_BYTES) _Atomic uint32_t narrow[NARROW];
	_Atomic unsigned long wide[WIDE];
};

union image {
	struct piece piece;
	struct {
		uint32_t narrow[NARROW];
		unsigned long wide[WIDE];
	};
};

/* Written by whoever publishes; wiped by fork(). */
struct ticks {
	struct slot slots[SLOTS]; /* first: see slot_of() */
	/*
	 * The slot's offset in the low bits; above it a count that makes each value new. A machine
	 * word: with 32 bits the count takes three days to come round, and a reader would have to be
	 * stopped in the middle of a read for exactly so long.
	 */
	_Atomic unsigned long current;
	_Atomic uint32_t claimed; /* a bit per slot: a writer fills it, or it is the current one */
};

_Static_assert(sizeof(struct ticks) <= 4096, "one page on every machine");
_Static_assert(sizeof(struct slot) == SLOT_BYTES, "current holds offsets");

static _Atomic(struct ticks *) ticks; /* NULL: none, or not yet */

/* An offset, not a number: what lies between the counter's arrival and the fields counts. */
static inline struct slot *slot_of(struct ticks *t, unsigned long current)
{
	return (struct slot *)((char *)t->slots + (current & (SLOTS - 1) * SLOT_BYTES));
}

static inline uint32_t slot_number(unsigned long current)
{
	return (uint32_t)(current / SLOT_BYTES % SLOTS);
}

/* Written once, by sn_ticks_prepare(): 0 undecided, else an enum sn_clock_source. */
static _Atomic uint32_t decided;

/* Of a 64-bit field too: the lower half is at its offset, the upper 4 bytes on. */
static inline uint32_t get32(struct slot *slot, size_t offset)
{
	return atomic_load_explicit(&slot->narrow[offset / sizeof(uint32_t)], memory_order_acquire);
}

static inline unsigned long get_word(struct slot *slot, size_t offset)
{
	return atomic_load_explicit(&slot->wide[(offset - NARROW_BYTES) / sizeof(unsigned long)],
				    memory_order_acquire);
}

static inline uint64_t get64(struct slot *slot, size_t offset)
{
#if __SIZEOF_LONG__ == 8
	return get_word(slot, offset);
#else
	return get_word(slot, offset) | (uint64_t)get_word(slot, offset + 4) << 32;
#endif
}

/* Copies the current piece; returns its `current`. */
static unsigned long read_piece(struct ticks *t, struct piece *piece)
{
	union image image;
	unsigned long current;
	struct slot *slot;

	/* Ends at the latest when no more pieces are published, of which there are 16 a second. */
	do {
		current = atomic_load_explicit(&t->current, memory_order_acquire);
		slot = slot_of(t, current);
		for (size_t i = 0; i < NARROW; i++)
			image.narrow[i] =
				atomic_load_explicit(&slot->narrow[i], memory_order_acquire);
		for (size_t i = 0; i < WIDE; i++)
			image.wide[i] = atomic_load_explicit(&slot->wide[i], memory_order_acquire);
	} while (atomic_load_explicit(&t->current, memory_order_relaxed) != current);
	*piece = image.piece;
	return current;
}

/* Makes the piece the one that follows `current`, unless another one already does. */
static void publish(struct ticks *t, unsigned long current, const struct piece *piece)
{
	uint32_t claimed = atomic_load_explicit(&t->claimed, memory_order_relaxed), bit, slot;
	unsigned long mine = current;
	union image image;

	do {
		slot = 0;
		while (slot < SLOTS && ((claimed >> slot & 1) || slot == slot_number(current)))
			slot++;
		/* As many writers as slots are stuck: one of them will publish. */
		if (slot == SLOTS)
			return;
		bit = (uint32_t)1 << slot;
	} while (!atomic_compare_exchange_weak_explicit(
		&t->claimed, &claimed, claimed | bit, memory_order_acquire, memory_order_relaxed));

	image.piece = *piece;
	image.piece.origin_wall = piece->origin_ns + piece->wall;
	for (size_t i = 0; i < NARROW; i++)
		atomic_store_explicit(&t->slots[slot].narrow[i], image.narrow[i],
				      memory_order_release);
	for (size_t i = 0; i < WIDE; i++)
		atomic_store_explicit(&t->slots[slot].wide[i], image.wide[i], memory_order_release);
	if (atomic_compare_exchange_strong_explicit(
		    &t->current, &mine, (current / COUNT_STEP + 1) * COUNT_STEP + slot * SLOT_BYTES,
		    memory_order_acq_rel, memory_order_relaxed))
		bit = (uint32_t)1 << slot_number(current); /* free is now the old one */
	atomic_fetch_and_explicit(&t->claimed, ~bit, memory_order_release);
}

/* --- lines -------------------------------------------------------------------------------------
 */

/* Of a counter value, or of a piece that begins there. */
static inline uint64_t origin_of(uint64_t counter)
{
	return counter >> 32 << 32;
}

/* The line's value `steps` after its origin. No more than 2^32, so the product cannot overflow. */
static inline uint64_t along(uint64_t origin_ns, uint64_t steps, uint32_t slope)
{
	return origin_ns + (steps * slope >> SN_COUNTER_SHIFT);
}

/* The same in shared memory, by the field that has the origin's time. */
static inline uint64_t along_slot(struct slot *slot, size_t offset, unsigned long steps)
{
	uint32_t slope = get32(slot, offsetof(struct piece, slope));

#if defined(__i386__)
	/* In halves, because the compiler would add the 64-bit numbers in memory, at 2 ns. */
	uint32_t rise = (uint32_t)((uint64_t)steps * slope >> SN_COUNTER_SHIFT);
	uint32_t low = get_word(slot, offset) + rise;
	uint32_t high = get_word(slot, offset + 4) + (low < rise);

	_Static_assert(SN_COUNTER_SHIFT == 32, "rise fits");
	return (uint64_t)high << 32 | low;
#else
	return along(get64(slot, offset), steps, slope);
#endif
}

/* The time at a counter value from the piece's start to its end, both included. */
static uint64_t time_at(const struct piece *p, uint64_t counter)
{
	return along(p->origin_ns, counter - origin_of(p->start), p->slope);
}

static uint64_t end_ns(const struct piece *p)
{
	return time_at(p, p->start + p->length);
}

/*
 * Lays a line of that slope through the point (start, ns) of the piece. Rounding is always down and
 * on the same line, so the time at start is ns, and at the end what the next piece takes it for.
 */
static void lay(struct piece *p, uint64_t ns, uint32_t slope)
{
	p->slope = slope;
	p->origin_ns = ns - ((p->start - origin_of(p->start)) * slope >> SN_COUNTER_SHIFT);
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
 * Gives the piece, whose start is set and has the time start_ns, its line, length and window: so
 * that it ends where the kernel's clock will be, which was at the piece's sample and makes `ns` in
 * `steps`. 0, or -1 if there is no such line.
 */
static int aim(struct piece *p, uint64_t start_ns, uint64_t steps, uint64_t ns)
{
	uint64_t length = scale(PIECE_NS, steps, ns), until, target, rise, room;

	if (length >= UINT32_MAX / 4 || length < 64)
		return -1;
	until = p->start + length - p->sample;
	if (until >> 32) /* the start is seconds from the sample: no piece of ours begins there */
		return -1;
	target = p->sample_ns + scale(until, ns, steps);
	rise = target - start_ns;
	/* An error as large as the piece takes several of them; time goes on meanwhile. */
	if ((int64_t)rise < PIECE_NS / 16)
		rise = PIECE_NS / 16;
	if (rise > 2 * PIECE_NS)
		rise = 2 * PIECE_NS;
	rise = (rise << SN_COUNTER_SHIFT) / length;
	if (rise >> 32) /* the counter is slower than SN_COUNTER_SHIFT allows */
		return -1;
	lay(p, start_ns, (uint32_t)rise);
	/*
	 * The end of the counter's range that has this origin cuts it off, or lengthens it if little
	 * would be left. A short piece has a short lead, which a reader may miss; then it resumes.
	 */
	room = origin_of(p->start) + ((uint64_t)1 << 32) - p->start;
	p->length = (uint32_t)(room < length + length / 4 ? room : length);
	p->window = p->length - (p->length >> LEAD_SHIFT);
	p->state = LINE;
	return 0;
}

static void give_up(struct piece *p, uint64_t floor_ns)
{
	p->floor_ns = floor_ns;
	p->state = GIVEN_UP;
	p->window = 0;
}

/* The first measurement. */
static void begin(struct ticks *t, unsigned long current)
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
static void first_line(struct ticks *t, unsigned long current, const struct piece *waiting)
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
	p.start = p.before = p.sample = s.early; /* nothing before */
	p.sample_ns = s.ns;
	p.wall = wall_offset(0);
	if (!p.wall || aim(&p, s.ns, s.early - waiting->sample, s.ns - waiting->sample_ns) < 0)
		give_up(&p, 0);
	publish(t, current, &p);
}

/* The next piece, while the last one is still good. */
static void append(struct ticks *t, unsigned long current, const struct piece *last)
{
	struct piece p = *last;
	struct sample s;
	int64_t error;

	if (take_sample(&s) < 0 || s.counter <= last->sample ||
	    s.counter - last->start > UINT32_MAX)
		return;
	error = (int64_t)(s.ns -
			  along(time_at(last, last->start), s.counter - last->start, last->slope));
	p.strikes = error > FAR_NS || error < -FAR_NS ? last->strikes + 1 : 0;
	p.start = last->start + last->length;
	p.before = last->start;
	p.before_origin_ns = last->origin_ns;
	p.before_slope = last->slope;
	p.sample = s.counter;
	p.sample_ns = s.ns;
	p.wall = wall_offset(last->wall);
	if (p.strikes >= MOST_STRIKES ||
	    aim(&p, end_ns(last), s.counter - last->sample, s.ns - last->sample_ns) < 0)
		give_up(&p, end_ns(last));
	publish(t, current, &p);
}

/* A piece that begins now: nobody asked for the time while the last one was good. */
static void resume(struct ticks *t, unsigned long current, const struct piece *last)
{
	struct piece p = *last;
	uint64_t floor = end_ns(last), steps = last->length;
	uint64_t rise = floor - time_at(last, last->start);
	struct sample s;

	if (take_sample(&s) < 0)
		return;
	p.start = p.before = p.sample = s.early; /* nothing before */
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
	if (p.strikes >= MOST_STRIKES || aim(&p, s.ns > floor ? s.ns : floor, steps, rise) < 0)
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
	struct ticks *expected = NULL, *page;
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

/* The page; NULL: none, for good. */
static struct ticks *get_page(void)
{
	struct ticks *t = atomic_load_explicit(&ticks, memory_order_acquire);

	if (!t && !atomic_load_explicit(&decided, memory_order_relaxed)) {
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
	if (!t)
		return sn_now();

	/*
	 * One round uses a piece or makes one; the next finds it there. More are needed only when
	 * pieces are published meanwhile, or cannot be: then the kernel's clock answers.
	 */
	for (int round = 0; round < 16; round++) {
		unsigned long current = read_piece(t, &p);
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
			floor = p.floor_ns;
			break;
		}

		counter = sn_counter();
		*wall = p.wall;
		if (counter - p.start < p.length) {
			if (counter - p.start >= p.window)
				append(t, current, &p);
			return (int64_t)time_at(&p, counter);
		}
		if (counter - p.before < p.start - p.before)
			return (int64_t)along(p.before_origin_ns, counter - origin_of(p.before),
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
	unsigned long low, high, current;
	struct slot *slot;

	if (sn_unlikely(!t))
		return 0;
	low = sn_counter_halves(&high);
	current = atomic_load_explicit(&t->current, memory_order_acquire);
	slot = slot_of(t, current);
	/* No piece crosses a multiple of 2^32. */
	if (sn_unlikely(high != get32(slot, offsetof(struct piece, start) + 4) ||
			(uint32_t)low - get32(slot, offsetof(struct piece, start)) >=
				get32(slot, offsetof(struct piece, window))))
		return 0;
	*result = (int64_t)along_slot(slot,
				      with_wall ? offsetof(struct piece, origin_wall)
						: offsetof(struct piece, origin_ns),
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
	struct ticks *t = get_page();
	struct piece p;

	if (!t)
		return (int)atomic_load_explicit(&decided, memory_order_relaxed);
	read_piece(t, &p);
	return p.state == GIVEN_UP ? SN_CLOCK_SOURCE_VDSO : SN_CLOCK_SOURCE_COUNTER;
}
