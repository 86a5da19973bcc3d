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
 *    that has built up is worked off evenly. Steps are for jumps of the kernel's clock, see below.
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
 * locked instructions 250 times a second; on ARM they are ldar and stlr. No fences, which the thread
 * sanitizer does not understand.
 *
 * Trust. The counter is used only if the kernel itself keeps time by it (current_clocksource), the
 * processor says that it is constant and never stops, and the vDSO serves the clocks. If the
 * kernel's clock then jumps by it in several pieces on end, which is what an unstable counter looks
 * like, it is given up for good, and the call reads the kernel's clock from then on.
 *
 * Every measurement is compared with the last one, at the rate that was measured before (judge()):
 *
 *  - The rate is the same: the usual case.
 *  - It is another one. The kernel's clock can be steered by 500 ppm, and by ADJ_TICK, which chrony
 *    uses, from 10 % below to 10 % above. What was not known when a piece was laid is wrong by the
 *    rate's change times the time from its measurement to its end, at most 17/16 of a piece; this
 *    is the error bound that docs/clock.md states. The measured rate is then a mixture of the old
 *    one and the new one, so the next pieces are short, and double until they are whole again.
 *  - The kernel's clock is ahead by more than a rate explains: the counter stopped or was set back,
 *    or the process has entered another time namespace with setns(). The clock steps forward.
 *  - It is behind by that, but later than at the last measurement: the counter went on while the
 *    machine slept, or jumped, or another namespace is some milliseconds behind. The clock must not
 *    go back; it goes at a sixteenth of its speed until the kernel's has caught up. As no piece
 *    reaches far beyond its measurement, that takes a few pieces.
 *  - It is earlier than at the last measurement. CLOCK_MONOTONIC never does that: so the process is
 *    in another namespace, and this clock goes back as the kernel's did. A step back is at the join
 *    of two pieces like any other, so threads still agree on what a counter value means. (The
 *    kernel lets only a process with one thread enter a namespace.)
 *
 * fork(): the pieces lie in memory that the kernel hands to a child as zeros (MADV_WIPEONFORK), and
 * zero is the state in which measuring begins. A child may be in another time namespace, where the
 * monotonic clock has another origin, so it must not go on with its parent's pieces.
 *
 * Rejected: a thread that recalibrates, which a library for programs without threads cannot have; a
 * seqlock around one line, with which a writer that is preempted between measuring and publishing
 * lets the clock step back, and which deadlocks a signal handler; clamping to the last value read,
 * whose cache line all cores would fight for; the rate that CPUID or CNTFRQ tell, as the kernel's
 * clock is steered away from it; comparing the inode of /proc/self/ns/time to notice
 * setns(), as sandboxes forbid opening files.
 */
#include "clock/clock.h"

#include <errno.h>
#include <linux/fcntl.h>
#include <linux/mman.h>

/*
 * Nanoseconds that a piece lasts: 4 ms. Measuring takes some 0.4 us, so it costs 0.01 % of the time
 * of one thread. Shorter pieces would cost more, longer ones follow the kernel's clock later.
 */
#define PIECE_NS 4000000

/* After a surprise they begin with this, so that the next measurement soon puts right what is wrong. */
#define SHORT_NS (PIECE_NS / 16)

/* The first slope is measured over this time. Until then the kernel's clock is read. */
#define FIRST_NS 20000000

/* The last 1/16 of a piece, 0.25 ms, is for publishing the next one. */
#define LEAD_SHIFT 4

/* How many pieces on end may see a jump. Jumps over longer pauses are what a sleep looks like. */
#define MOST_STRIKES 4
#define PAUSE_NS (16 * PIECE_NS)

/*
 * A time that lies so far behind one that was told before is of another namespace: no piece ends
 * more than 2 * PIECE_NS beyond its beginning, and none begins far beyond the kernel's time.
 */
#define FAR_NS (16 * PIECE_NS)

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
	uint32_t rate;              /* as measured: ns per step, times 2^SN_COUNTER_SHIFT */
	uint32_t span;              /* ns that it is to last */
	uint64_t sample, sample_ns; /* the measurement: counter value and kernel's time */
	uint64_t wall, before_wall; /* to be added for CLOCK_REALTIME */
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
	 * word: with 32 bits the count takes hours to come round, and a reader would have to be
	 * stopped in the middle of a read for exactly so long.
	 */
	_Atomic unsigned long current;
	_Atomic uint32_t claimed; /* a bit per slot: a writer fills it, or it is the current one */
};

_Static_assert(sizeof(struct ticks) <= SN_PAGE_BYTES, "one page on every machine");
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

	/* Ends at the latest when no more pieces are published, of which there are some 250 a second. */
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

/* a * b / per, all of which may need more than 32 bits but `a`; exact to 1 in 2^30. */
static uint64_t scale(uint32_t a, uint64_t b, uint64_t per)
{
	while (b >> 32 || per >> 32) {
		b >>= 1;
		per >>= 1;
	}
	return per ? a * b / per : UINT64_MAX;
}

/* What a clock of that rate makes in so many steps. */
static uint64_t passes(uint32_t rate, uint64_t steps)
{
	return scale(rate, steps, (uint64_t)1 << SN_COUNTER_SHIFT);
}

/* The rate of a clock that makes `ns` in `steps`; 0 if it does not fit: a slower counter, or none. */
static uint32_t rate_of(uint64_t ns, uint64_t steps)
{
	uint64_t rate = scale((uint32_t)1 << (SN_COUNTER_SHIFT - 1), ns, steps);

	return rate >> 31 ? 0 : (uint32_t)rate * 2;
}

/* What the kernel's clock has at a counter value after the piece's measurement, if it is steady. */
static uint64_t kernels_at(const struct piece *p, uint64_t counter)
{
	return p->sample_ns + passes(p->rate, counter - p->sample);
}

/*
 * Gives the piece, whose start is set and has the time start_ns, its line, length and window: so
 * that it ends where the kernel's clock will be, by the piece's measurement and rate. 0, or -1 if
 * there is no such line.
 */
static int aim(struct piece *p, uint64_t start_ns)
{
	uint64_t length, rise, room;
	int64_t error = (int64_t)(kernels_at(p, p->start) - start_ns);

	/* Work it off fast. Steering other than by ADJ_TICK leaves a tenth of this. */
	if (error > SHORT_NS / 16 || error < -SHORT_NS / 16)
		p->span = SHORT_NS;
	length = p->rate ? ((uint64_t)p->span << SN_COUNTER_SHIFT) / p->rate : 0;
	if (length >= UINT32_MAX / 4 || length < 64)
		return -1;
	/* An error as large as the piece takes several of them; time goes on meanwhile. */
	error += p->span;
	if (error < p->span / 16)
		error = p->span / 16;
	if (error > 2 * (int64_t)p->span)
		error = 2 * (int64_t)p->span;
	rise = ((uint64_t)error << SN_COUNTER_SHIFT) / length;
	if (rise >> 32) /* steeper than SN_COUNTER_SHIFT allows; the rate itself fits */
		rise = UINT32_MAX;
	lay(p, start_ns, (uint32_t)rise);
	/*
	 * The end of the counter's range that has this origin cuts it off, in two halves if little
	 * would be left: none may be longer than planned. A short piece has a short lead, which a
	 * reader may miss; then it resumes.
	 */
	room = origin_of(p->start) + ((uint64_t)1 << 32) - p->start;
	if (room < length)
		length = room;
	else if (room < 2 * length)
		length = (room + 1) / 2;
	p->length = (uint32_t)length;
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

/* The first measurement; the strikes are those of earlier first ones. */
static void begin(struct ticks *t, unsigned long current, uint32_t strikes)
{
	struct piece p = {.state = WAITING, .strikes = strikes};
	struct sample s;

	if (take_sample(&s) < 0)
		return;
	p.sample = s.counter;
	p.sample_ns = s.ns;
	if (strikes >= MOST_STRIKES)
		give_up(&p, 0);
	publish(t, current, &p);
}

/* The second, FIRST_NS later, and so the first line. */
static void first_line(struct ticks *t, unsigned long current, const struct piece *waiting)
{
	struct piece p = *waiting;
	struct sample s;

	if (take_sample(&s) < 0)
		return;
	/*
	 * Until now times came from the kernel's clock. The line must not lie below it, so it takes
	 * for the moment of the kernel's reading the earliest that it can have been.
	 */
	p.start = p.before = p.sample = s.early; /* nothing before */
	p.sample_ns = s.ns;
	p.wall = wall_offset(0);
	p.span = SHORT_NS;
	p.strikes = 0;
	if (s.counter > waiting->sample && s.ns > waiting->sample_ns)
		p.rate = rate_of(s.ns - waiting->sample_ns, s.early - waiting->sample);
	if (aim(&p, s.ns) < 0) /* perhaps it entered another time namespace meanwhile */
		begin(t, current, waiting->strikes + 1);
	else
		publish(t, current, &p);
}

enum course {
	STEADY,   /* it went on at some possible rate */
	JUMPED,   /* it did not */
	WENT_BACK /* it is another clock */
};

/*
 * Takes a measurement into the piece, which is still a copy of the last one, and says how the kernel's
 * clock went on since that one's.
 */
static enum course judge(struct piece *p, const struct piece *last, uint64_t counter, uint64_t ns)
{
	uint64_t steps = counter - last->sample, passed = ns - last->sample_ns;
	uint64_t expected, apart;
	int steady;

	p->sample = counter;
	p->sample_ns = ns;
	p->wall = wall_offset(last->wall);
	p->span = SHORT_NS;
	if ((int64_t)passed < 0)
		return WENT_BACK;
	p->strikes = last->strikes + 1;
	if ((int64_t)steps <= 0)
		return JUMPED; /* the counter went back: another host */

	expected = passes(last->rate, steps);
	apart = expected > passed ? expected - passed : passed - expected;
	/* ADJ_TICK can turn 0.9 into 1.1, which is 22 %; either measurement may be off as well. */
	steady = apart <= (expected > passed ? expected : passed) / 4 + 2 * WORST_SAMPLE_NS;
	/*
	 * Too short a time says little of the rate, and a jump nothing. But if there is another one at
	 * once, the rate may be what was wrong.
	 */
	if (passed >= SHORT_NS / 2 && (steady || last->strikes))
		p->rate = rate_of(passed, steps);
	if (steady || expected > PAUSE_NS)
		p->strikes = 0;
	/* Steering other than by ADJ_TICK is below 1 in 1024. */
	if (apart <= expected >> 10)
		p->span = last->span < PIECE_NS / 2 ? 2 * last->span : PIECE_NS;
	return steady ? STEADY : JUMPED;
}

/* The next piece, while the last one is still good. */
static void append(struct ticks *t, unsigned long current, const struct piece *last)
{
	struct piece p = *last;
	uint64_t start_ns = end_ns(last);
	enum course course;
	struct sample s;

	/* Whoever is stopped on the way for so long that the piece is over leaves it to the next. */
	p.start = last->start + last->length;
	if (take_sample(&s) < 0 || s.counter <= last->sample || s.counter >= p.start)
		return;
	p.before = last->start;
	p.before_origin_ns = last->origin_ns;
	p.before_slope = last->slope;
	p.before_wall = last->wall;
	course = judge(&p, last, s.counter, s.ns);
	if (course == WENT_BACK ||
	    (course == JUMPED && (int64_t)(kernels_at(&p, p.start) - start_ns) > 0))
		start_ns = kernels_at(&p, p.start);
	if (p.strikes >= MOST_STRIKES || aim(&p, start_ns) < 0)
		give_up(&p, course == WENT_BACK ? 0 : start_ns);
	publish(t, current, &p);
}

/* A piece that begins now: nobody asked for the time while the last one was good. */
static void resume(struct ticks *t, unsigned long current, const struct piece *last)
{
	struct piece p = *last;
	uint64_t start_ns = end_ns(last);
	enum course course;
	struct sample s;

	if (take_sample(&s) < 0)
		return;
	p.start = p.before = s.early; /* nothing before */
	course = judge(&p, last, s.early, s.ns);
	if (course == WENT_BACK || (int64_t)(s.ns - start_ns) > 0)
		start_ns = s.ns;
	if (p.strikes >= MOST_STRIKES || aim(&p, start_ns) < 0)
		give_up(&p, course == WENT_BACK ? 0 : start_ns);
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

void sn_ticks_prepare(void)
{
	static struct sn_page place;
	struct ticks *page = sn_page(&place);
	uint32_t verdict = SN_CLOCK_SOURCE_SYSCALL;

	if (atomic_load_explicit(&decided, memory_order_relaxed))
		return;
	if (sn_clock_by_vdso()) {
		verdict = SN_CLOCK_SOURCE_VDSO;
		/* Without the wiping a child could tell its parent's time. */
		if (sn_counter_usable() && is_clocksource() &&
		    sn_sys3(__NR_madvise, (long)page, SN_PAGE_BYTES, MADV_WIPEONFORK) == 0) {
			/* Whoever does the same at the same time races as later writers do. */
			begin(page, 0, 0);
			verdict = SN_CLOCK_SOURCE_COUNTER;
			/* Release: whoever sees the page sees what begin() wrote. */
			atomic_store_explicit(&ticks, page, memory_order_release);
		}
	}
	atomic_store_explicit(&decided, verdict, memory_order_relaxed);
}

#ifndef SENNIT_NO_LIBC
/* In this file, not where the vDSO is looked up: static programs without ticks do without. */
__attribute__((constructor(102))) static void prepare(void)
{
	sn_ticks_prepare();
}
#endif

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
				begin(t, current, 0);
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
		*wall = p.before_wall;
		if (counter - p.before < p.start - p.before)
			return (int64_t)along(p.before_origin_ns, counter - origin_of(p.before),
					      p.before_slope);
		floor = end_ns(&p);
		resume(t, current, &p);
	}
	*wall = 0;
	now = sn_now();
	/* Unless it is an error, or the time of another namespace. */
	return now >= 0 && floor - (uint64_t)now < FAR_NS ? (int64_t)floor : now;
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
