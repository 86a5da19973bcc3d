/* SPDX-License-Identifier: MIT */
#include "clock/steer.h"

/* After a surprise, pieces begin with this length, so that the next measurement soon corrects any
 * error. */
#define SHORT_NS (SN_STEER_PIECE_NS / 16)

/* The last 1/16 of a piece, 0.25 ms, is for publishing the next one. */
#define LEAD_SHIFT 4

/* How many consecutive pieces may see a jump. A jump after a pause longer than PAUSE_NS does not
 * count, because the machine may have slept. */
#define MOST_STRIKES 4
#define PAUSE_NS (16 * SN_STEER_PIECE_NS)

/* A measurement that takes longer than this has been interrupted on each of its tries, and is not
 * used. */
#define WORST_SAMPLE_NS 20000
#define SAMPLE_TRIES 5

/*
 * Lays a line with this slope through the point (start, ns) of the piece. Values are always rounded
 * down, on the same line, so the time at start is exactly ns, and the time at the end is exactly
 * where the next piece begins.
 */
static void lay(struct sn_piece *p, uint64_t ns, uint32_t slope)
{
	p->slope = slope;
	p->origin_ns = ns - ((p->start - sn_piece_origin(p->start)) * slope >> SN_COUNTER_SHIFT);
}

struct sample {
	uint64_t early;   /* the counter just before the kernel's clock was read */
	uint64_t counter; /* the counter, as it most likely was at that moment */
	uint64_t ns;
};

/* Reads the counter and the kernel's clock together. Returns 0, or -1 if the kernel's clock cannot
 * be read or every try took too long. */
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
	/* If all tries were slow, the last reading is as much later than the first as the tries
	 * took together. */
	return (uint64_t)sn_to_ns(&ts) - first_ns < SAMPLE_TRIES * WORST_SAMPLE_NS ? 0 : -1;
}

/* Returns what must be added to CLOCK_MONOTONIC for CLOCK_REALTIME: the difference of the coarse
 * clocks, which is exact if no tick came between their readings; `otherwise` if one came each
 * time. */
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

/* a * b / per, where b and per may need more than 32 bits; exact to 1 in 2^30. */
static uint64_t scale(uint32_t a, uint64_t b, uint64_t per)
{
	while (b >> 32 || per >> 32) {
		b >>= 1;
		per >>= 1;
	}
	return per ? a * b / per : UINT64_MAX;
}

/* By how many ns a clock of that rate advances in that many steps. */
static uint64_t passes(uint32_t rate, uint64_t steps)
{
	return scale(rate, steps, (uint64_t)1 << SN_COUNTER_SHIFT);
}

/* The rate of a clock that advances by `ns` in `steps`; 0 if the rate does not fit, because the
 * counter is too slow or stands still. */
static uint32_t rate_of(uint64_t ns, uint64_t steps)
{
	uint64_t rate = scale((uint32_t)1 << (SN_COUNTER_SHIFT - 1), ns, steps);

	return rate >> 31 ? 0 : (uint32_t)rate * 2;
}

/* The kernel's time at a counter value after the piece's measurement, if the kernel's rate has not
 * changed since. */
static uint64_t kernels_at(const struct sn_piece *p, uint64_t counter)
{
	return p->sample_ns + passes(p->rate, counter - p->sample);
}

/*
 * Gives the piece its line, length and window. The line begins at p->start with the time start_ns,
 * and ends where the kernel's clock will be according to the piece's measurement and rate. Returns
 * 0, or -1 if there is no such line.
 */
static int aim(struct sn_piece *p, uint64_t start_ns)
{
	uint64_t length, rise, room;
	int64_t error = (int64_t)(kernels_at(p, p->start) - start_ns);

	/* A large error is corrected fast. Steering other than by ADJ_TICK causes errors of only a
	 * tenth of this size. */
	if (error > SHORT_NS / 16 || error < -SHORT_NS / 16)
		p->span = SHORT_NS;
	length = p->rate ? ((uint64_t)p->span << SN_COUNTER_SHIFT) / p->rate : 0;
	if (length >= UINT32_MAX / 4 || length < 64)
		return -1;
	/* An error as large as the piece takes several pieces to correct; time never stands
	 * still. */
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
	 * The piece must end before the next multiple of 2^32. If little would be left for the
	 * piece after it, the rest is divided into two halves, neither of which is longer than
	 * planned. A short piece has a short lead, which readers may miss; then the next one
	 * resumes (sn_steer_resume()).
	 */
	room = sn_piece_origin(p->start) + ((uint64_t)1 << 32) - p->start;
	if (room < length)
		length = room;
	else if (room < 2 * length)
		length = (room + 1) / 2;
	p->length = (uint32_t)length;
	p->window = p->length - (p->length >> LEAD_SHIFT);
	p->state = SN_PIECE_LINE;
	return 0;
}

static void give_up(struct sn_piece *p, uint64_t floor_ns)
{
	p->floor_ns = floor_ns;
	p->state = SN_PIECE_GIVEN_UP;
	p->window = 0;
}

void sn_steer_begin(struct sn_pieces *t, unsigned long current, uint32_t strikes)
{
	struct sn_piece p = {.state = SN_PIECE_WAITING, .strikes = strikes};
	struct sample s;

	if (take_sample(&s) < 0)
		return;
	p.sample = s.counter;
	p.sample_ns = s.ns;
	if (strikes >= MOST_STRIKES)
		give_up(&p, 0);
	sn_piece_publish(t, current, &p);
}

void sn_steer_first_line(struct sn_pieces *t, unsigned long current, const struct sn_piece *waiting)
{
	struct sn_piece p = *waiting;
	struct sample s;

	if (take_sample(&s) < 0)
		return;
	/*
	 * Until now times came from the kernel's clock. The line must not lie below it, so the
	 * kernel's reading is assigned to the earliest moment at which it can have been taken.
	 */
	p.start = p.before = p.sample = s.early; /* there is no predecessor */
	p.sample_ns = s.ns;
	p.wall = wall_offset(0);
	p.span = SHORT_NS;
	p.strikes = 0;
	if (s.counter > waiting->sample && s.ns > waiting->sample_ns)
		p.rate = rate_of(s.ns - waiting->sample_ns, s.early - waiting->sample);
	if (aim(&p, s.ns) < 0) /* perhaps the process has entered another time namespace */
		sn_steer_begin(t, current, waiting->strikes + 1);
	else
		sn_piece_publish(t, current, &p);
}

enum course {
	STEADY,   /* the kernel's clock advanced at some possible rate */
	JUMPED,   /* it did not: it, or the counter, jumped */
	WENT_BACK /* it is now another clock */
};

/*
 * Stores a measurement in p, which is still a copy of the last piece, and returns how the kernel's
 * clock has advanced since the last piece's measurement.
 */
static enum course judge(struct sn_piece *p, const struct sn_piece *last, uint64_t counter,
			 uint64_t ns)
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
	 * Too short a time says little about the rate, and a jump says nothing. But if a second
	 * jump follows immediately, the rate may be what was wrong.
	 */
	if (passed >= SHORT_NS / 2 && (steady || last->strikes))
		p->rate = rate_of(passed, steps);
	if (steady || expected > PAUSE_NS)
		p->strikes = 0;
	/* Steering other than by ADJ_TICK is below 1 in 1024. */
	if (apart <= expected >> 10)
		p->span = last->span < SN_STEER_PIECE_NS / 2 ? 2 * last->span : SN_STEER_PIECE_NS;
	return steady ? STEADY : JUMPED;
}

void sn_steer_append(struct sn_pieces *t, unsigned long current, const struct sn_piece *last)
{
	struct sn_piece p = *last;
	uint64_t start_ns = sn_piece_end_ns(last);
	enum course course;
	struct sample s;

	/* If this thread is stopped until the piece is over, it leaves the work to the next
	 * reader. */
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
	sn_piece_publish(t, current, &p);
}

void sn_steer_resume(struct sn_pieces *t, unsigned long current, const struct sn_piece *last)
{
	struct sn_piece p = *last;
	uint64_t start_ns = sn_piece_end_ns(last);
	enum course course;
	struct sample s;

	if (take_sample(&s) < 0)
		return;
	p.start = p.before = s.early; /* no predecessor */
	course = judge(&p, last, s.early, s.ns);
	if (course == WENT_BACK || (int64_t)(s.ns - start_ns) > 0)
		start_ns = s.ns;
	if (p.strikes >= MOST_STRIKES || aim(&p, start_ns) < 0)
		give_up(&p, course == WENT_BACK ? 0 : start_ns);
	sn_piece_publish(t, current, &p);
}
