// SPDX-License-Identifier: MIT
//
// What the tasks do, in phases: a phase begins some loads, lets them run until it is told to stop,
// waits for everything that they have begun, and then checks that nothing was lost.
//
// A call that fails because of a limit (out of memory or descriptors) counts as refused: the load
// continues without it, or tries again. While no limit is lowered, no call may be refused.
#ifndef SENNIT_TESTS_HOSTILE_LOADS_HPP
#define SENNIT_TESTS_HOSTILE_LOADS_HPP

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <sennit/sennit.h>

#include "hostile/board.hpp"
#include "hostile/random.hpp"
#include "hostile/watch.hpp"

namespace hostile
{

/*
 * The driver announces limits: between limits_begin() and limits_end() calls may be refused. A
 * caller takes limits_mark() before the call; limits_excuse() says whether any limit was lowered at
 * some time after that.
 */
void limits_begin();
void limits_end();
uint64_t limits_mark();
bool limits_excuse(uint64_t mark);

class Phase
{
public:
	explicit Phase(uint64_t seed) : random(seed) {}

	/*
	 * Runs the body as a task that the phase waits for. Returns false if it was refused. Any
	 * thread or task of the load may call it.
	 */
	bool go(Load load, std::function<void()> body);
	// Repeats that until the task is accepted. Only tasks may call it.
	void go_surely(Load load, const std::function<void()> &body);

	bool stopping() const { return stop.load(std::memory_order_acquire); }
	// Sleeps until the phase has to end.
	void until_stop();

	Random random; // used while the loads are begun
	std::atomic<bool> stop{false};
	std::atomic<uint64_t> alive{0};
};

// Called when a call of a load has failed: counts the error if limits explain it, and fails the
// test otherwise.
void refused(Load load, const char *what, int error, uint64_t mark);

// Starts a plain thread for all runs of the process, unless it has started. Retries, because memory
// or threads may be short when the first phase begins.
void start_outside(std::atomic<bool> &started, void (*body)());

// Returns a channel, as soon as there is memory for it. Only tasks may call it.
sn_chan *make_channel(size_t elem_size, ssize_t capacity);

// One load in one phase. The phase's task creates, begins and ends it.
class Work
{
public:
	virtual ~Work() = default;
	virtual void begin(Phase &phase) = 0;
	// Called when everything has ended: checks that nothing was lost.
	virtual void end(Phase &) {}
	// The work that the load may put ahead of a task that has become runnable, in ns of one
	// processor.
	virtual int64_t queue() const = 0;
};

std::unique_ptr<Work> make_probes();
std::unique_ptr<Work> make_channels();
std::unique_ptr<Work> make_mutex();
std::unique_ptr<Work> make_nappers();
std::unique_ptr<Work> make_sleepers();
std::unique_ptr<Work> make_alarms();
std::unique_ptr<Work> make_joins();
std::unique_ptr<Work> make_echo();
std::unique_ptr<Work> make_relay();
std::unique_ptr<Work> make_blocking();
std::unique_ptr<Work> make_pinned();
std::unique_ptr<Work> make_hogs();
std::unique_ptr<Work> make_crowd();
std::unique_ptr<Work> make_scan();
std::unique_ptr<Work> make_visitors();
std::unique_ptr<Work> make_loop(Load load);
std::unique_ptr<Work> make(Load load);

inline void done(Load load, uint64_t n = 1)
{
	board->operations[load].fetch_add(n, std::memory_order_relaxed);
}

// Computes for so long, by the thread's CPU clock, without calling sennit.
void compute(int64_t ns);

} // namespace hostile

#endif
