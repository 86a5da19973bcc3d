// SPDX-License-Identifier: MIT
#include "hostile/watch.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <sys/prctl.h>

#include "hostile/board.hpp"
#include "hostile/plain.hpp"

namespace hostile
{

namespace
{

constexpr int64_t tick = 20 * ms, window = 100 * ms;
// Shorter waits are measured but not judged.
constexpr int64_t worth_a_look = 30 * ms;

// What the system did between two looks of the watchdog.
struct Window {
	int64_t from, to;
	int64_t kept;  // for how long it kept a thread from running
	int64_t plain; // the worst delay of the plain threads
};
std::mutex history_lock;
std::deque<Window> history; // the windows of the last five minutes

// Read without a lock, because a stalled task might hold it.
struct Place {
	std::atomic<int> kind; // KINDS: the place is free
	std::atomic<int64_t> due;
};
constexpr size_t most_slots = 4096;
Place places[most_slots];
std::mutex places_lock; // held while a place is taken or freed
std::atomic<size_t> used;

std::atomic<int64_t> queue, former_queue, former_until, more_queue, more_until;
std::atomic<bool> late;

constexpr int64_t still = INT64_MAX;
std::atomic<int64_t> limited_until; // when memory limits ended; `still`: they are in force

// While memory is locked, the kernel fills each stack, 64 KiB or more, when it is mapped. The first
// turn of a task then takes 0.1 ms instead of a piece.
constexpr int64_t pieces_to_map_a_stack = 32;

int64_t queue_at(int64_t at)
{
	int64_t ahead = queue.load();

	if (at < former_until.load())
		ahead = std::max(ahead, former_queue.load());
	if (at < more_until.load())
		ahead += more_queue.load();
	return ahead;
}

// For how long a task may have to wait for the queue.
int64_t wait_at(int64_t at)
{
	const int64_t limited = limited_until.load();
	const bool slow = limited == still || (limited && at < limited + second);

	return queue_at(at) * (slow ? pieces_to_map_a_stack : 1);
}

// The times at which waits of a kind began to be too long.
struct Episodes {
	std::deque<int64_t> times;
	bool now = false, before = false;
};
Episodes kinds[KINDS];

struct Judged {
	int64_t counted; // the length of the wait, without the time that the system took
	int64_t plain;   // the worst delay of the plain threads during the wait
};

Judged judge(int64_t from, int64_t to)
{
	std::lock_guard hold(history_lock);
	Judged judged = {to - from, 0};

	for (auto w = history.rbegin(); w != history.rend() && w->to > from; ++w) {
		const int64_t part = std::min(to, w->to) - std::max(from, w->from);

		if (part > 0)
			judged.counted -= std::min(w->kept, part);
		judged.plain = std::max(judged.plain, w->plain);
	}
	return judged;
}

[[noreturn]] void stalled(Kind kind, int64_t due, int64_t at, const Judged &judged, int64_t ahead,
			  int64_t allowed)
{
	const Bound &bound = bounds[kind];

	fail("stall: %s (%s): %.1f ms late by now, %.1f of them not the system's; allowed are "
	     "%.1f: the promise %.1f, %d times a queue of %.1f, slack %.1f, %d times a plain "
	     "thread's worst of %.1f",
	     bound.name, bound.meaning, (double)(at - due) / ms, (double)judged.counted / ms,
	     (double)allowed / ms, (double)bound.ns / ms, queue_factor, (double)ahead / ms,
	     (double)slack / ms, plain_factor, (double)judged.plain / ms);
}

void look_at(Kind kind, int64_t due, int64_t at)
{
	const Bound &bound = bounds[kind];
	const Judged judged = judge(due, at);
	const int64_t ahead = bound.behind_queue ? wait_at(at) : 0;
	const int64_t allowed =
		bound.ns + queue_factor * ahead + slack + plain_factor * judged.plain;

	raise_to(board->worst_counted[kind], judged.counted);
	raise_to(board->worst[kind], at - due);
	if (at - due > allowed)
		late.store(true);
	// However little of the delay counts, plain threads were never that late.
	if (at - due > allowed + hopeless)
		stalled(kind, due, at, judged, ahead, allowed);
	if (judged.counted <= allowed)
		return;
	kinds[kind].now = true;
	if (judged.counted > allowed + hard)
		stalled(kind, due, at, judged, ahead, allowed);
}

void look_at_all(int64_t at)
{
	for (size_t i = 0; i < used.load(); i++) {
		const int64_t due = places[i].due.load();
		const int kind = places[i].kind.load();

		if (!due || kind >= KINDS)
			continue;
		const int64_t from =
			bounds[kind].needs_stack ? std::max(due, limited_until.load()) : due;
		if (from < at - worth_a_look)
			look_at((Kind)kind, from, at);
	}
}

void count_episodes(int64_t at)
{
	for (int i = 0; i < KINDS; i++) {
		Episodes &kind = kinds[i];

		if (kind.now && !kind.before) {
			kind.times.push_back(at);
			board->too_long[i]++;
		}
		kind.before = std::exchange(kind.now, false);
		while (!kind.times.empty() && kind.times.front() < at - episode_window)
			kind.times.pop_front();
		if (kind.times.size() >= (size_t)episodes)
			fail("too late too often: %s (%s): %zu times within %.0f s beyond its "
			     "bound of "
			     "%.1f ms",
			     bounds[i].name, bounds[i].meaning, kind.times.size(),
			     (double)episode_window / second, (double)bounds[i].ns / ms);
	}
}

void watchdog()
{
	int64_t begun = now(), target = begun + tick, own = 0, plain = 0;

	prctl(PR_SET_NAME, "watchdog");
	for (;;) {
		struct timespec until = {(time_t)(target / second), (long)(target % second)};

		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR)
			;
		const int64_t at = now();
		own += at - target;
		plain = std::max({plain, at - target, plain_worst_since()});
		target = at + tick;
		board->beat.store(at);
		if (at - begun < window)
			continue;
		{
			const int64_t span = at - begun;
			const int64_t most = span - span / 20; // so that a hang is found eventually
			const int64_t kept =
				std::min(most, std::max({own, plain, plain_kept_by_system(span)}));
			std::lock_guard hold(history_lock);

			history.push_back({begun, at, kept, plain});
			while (history.front().to < at - 300 * second)
				history.pop_front();
			board->os_kept += kept;
		}
		late.store(false);
		look_at_all(at);
		count_episodes(at);
		begun = at;
		own = plain = 0;
	}
}

} // namespace

Slot::Slot(Kind kind) : kind_(kind)
{
	std::lock_guard hold(places_lock);
	size_t i = 0;

	while (i < used && places[i].kind.load() != KINDS)
		i++;
	if (i == most_slots)
		fail("an error of the test: too many slots");
	places[i].due.store(0);
	places[i].kind.store(kind);
	if (i == used)
		used = i + 1;
	place_ = i;
	due_ = &places[i].due;
}

Slot::~Slot()
{
	std::lock_guard hold(places_lock);

	due_->store(0);
	places[place_].kind.store(KINDS);
}

int64_t Slot::met()
{
	const int64_t wait = now() - due_->exchange(0);

	raise_to(board->worst[kind_], wait);
	board->measured[kind_].fetch_add(1, std::memory_order_relaxed);
	return wait;
}

void watch_start()
{
	std::thread(watchdog).detach();
}

void watch_queue(int64_t ns)
{
	const int64_t at = now();

	former_queue.store(queue_at(at));
	former_until.store(at + 4 * former_queue.load() + second);
	queue.store(ns);
}

void watch_queue_more(int64_t ns, int64_t until)
{
	more_queue.store(ns);
	more_until.store(until + 4 * ns);
}

void watch_memory_limited(bool limited)
{
	limited_until = limited ? still : now();
}

bool watch_late()
{
	return late.load();
}

int64_t watch_counted(int64_t since)
{
	return judge(since, now()).counted;
}

} // namespace hostile
