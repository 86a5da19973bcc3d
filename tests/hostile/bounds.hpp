// SPDX-License-Identifier: MIT
//
// The promises, in one table, and by how much a wait has to exceed a promise before the watchdog
// (watch.hpp) reports it as broken. The promises are those of docs/design.md: timers and the
// network are checked at least every 10 ms of a processor's time, and a task that computes or loops
// lets others run after 10 ms. Therefore a timer or a socket makes its task runnable within 20 ms,
// and a runnable task waits for those ahead of it.
#ifndef SENNIT_TESTS_HOSTILE_BOUNDS_HPP
#define SENNIT_TESTS_HOSTILE_BOUNDS_HPP

#include <cstdint>

#if defined(__SANITIZE_THREAD__)
#	define HOSTILE_TSAN 1
#elif defined(__SANITIZE_ADDRESS__)
#	define HOSTILE_ASAN 1
#elif defined(__has_feature)
#	if __has_feature(thread_sanitizer)
#		define HOSTILE_TSAN 1
#	elif __has_feature(address_sanitizer)
#		define HOSTILE_ASAN 1
#	endif
#endif
#ifndef HOSTILE_TSAN
#	define HOSTILE_TSAN 0
#endif
#ifndef HOSTILE_ASAN
#	define HOSTILE_ASAN 0
#endif
#ifndef HOSTILE_EMULATED
#	define HOSTILE_EMULATED 0
#endif

namespace hostile
{

constexpr int64_t us = 1000, ms = 1000 * us, second = 1000 * ms;

// The kinds of delays that are measured in the runtime.
enum Kind { TIMER, ALARM, DEADLINE, SOCKET, RUNNABLE, FOREIGN, SPAWN, SIGNAL, PHASE, KINDS };

// What plain threads do at the same time, for comparison (plain.hpp).
enum Plain { PLAIN_SLEEP, PLAIN_POLL, PLAIN_WAKE, PLAIN_WORK, PLAINS };

struct Bound {
	const char *name;
	const char *meaning;
	int64_t ns;        // the promise, for an empty queue
	bool behind_queue; // the time of the tasks ahead is added
	bool needs_stack;  // a new task: while memory is limited it may wait for a stack
	Plain beside;      // the plain thread that does the same, for comparison
};

constexpr Bound bounds[KINDS] = {
	{"timer", "a sleep is over", 20 * ms, true, false, PLAIN_SLEEP},
	{"alarm", "an alarm's task runs", 20 * ms, true, true, PLAIN_SLEEP},
	{"deadline", "a read's deadline has passed", 20 * ms, true, false, PLAIN_SLEEP},
	{"socket", "a readable socket's reader runs", 20 * ms, true, false, PLAIN_POLL},
	{"runnable", "a task that yielded runs again", 10 * ms, true, false, PLAIN_WORK},
	{"foreign", "a task that a plain thread sent to runs", 10 * ms, true, false, PLAIN_WAKE},
	{"spawn", "a task that a plain thread spawned runs", 10 * ms, true, true, PLAIN_WAKE},
	{"signal", "sn_signal_wait() returns", 30 * ms, true, false, PLAIN_POLL},
	{"phase", "everything that was begun has ended", 20 * second, false, false, PLAIN_WORK},
};

constexpr const char *plain_names[PLAINS] = {"sleep", "poll", "wake", "work"};

// For how long a task that computes, or loops without parking, may make the tasks behind it wait.
constexpr int64_t slice = 10 * ms;

// The length of a turn of a task that only yields, or wakes another one.
constexpr int64_t piece = HOSTILE_EMULATED ? 100 * us
			  : HOSTILE_TSAN   ? 40 * us
			  : HOSTILE_ASAN   ? 20 * us
#if SENNIT_DEBUG
					 : 10 * us;
#else
					 : 3 * us;
#endif

// A number of repetitions or tasks, divided by how much more they cost than in a release build.
constexpr int scaled(int n)
{
	const int by = HOSTILE_EMULATED      ? 20
		       : HOSTILE_TSAN        ? 10
		       : HOSTILE_ASAN        ? 5
		       : sizeof(void *) == 4 ? 2
					     : 1;

	return n / by > 0 ? n / by : 1;
}

/*
 * A wait is too long when it exceeds
 *
 *	the promise + queue_factor * the queue + slack + plain_factor * the worst of any plain thread,
 *
 * where time in which the system kept runnable threads from running does not count. A wait that is
 * too long by `hard` fails the test as a stall, and so do `episodes` waits that are too long within
 * `episode_window`. A wait that is too long by `hopeless` fails even if the system kept threads
 * from running all the time, because the plain threads did make progress.
 */
constexpr int64_t slack = (HOSTILE_EMULATED || HOSTILE_TSAN ? 3 : HOSTILE_ASAN ? 2 : 1) * 100 * ms;
constexpr int plain_factor = 4;
constexpr int queue_factor = 8; // "about 8n/P + 64 turns" in docs/design.md
constexpr int64_t hard = (HOSTILE_EMULATED || HOSTILE_TSAN ? 3 : 1) * 500 * ms;
constexpr int64_t hopeless = (HOSTILE_EMULATED || HOSTILE_TSAN ? 2 : 1) * 20 * second;
constexpr int episodes = 4;
constexpr int64_t episode_window = 10 * second;

} // namespace hostile

#endif
