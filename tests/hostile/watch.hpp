// SPDX-License-Identifier: MIT
//
// The watchdog: a plain thread that looks every 20 ms at the events that are due in the runtime,
// and judges late ones by bounds.hpp and by the delays of plain threads during the wait
// (plain.hpp). It does not call sennit.
#ifndef SENNIT_TESTS_HOSTILE_WATCH_HPP
#define SENNIT_TESTS_HOSTILE_WATCH_HPP

#include <atomic>
#include <cstdint>

#include "hostile/bounds.hpp"

namespace hostile
{

/*
 * An event that has to happen again and again. expect() says when it is due, and met() that it has
 * happened; these are called in turn, from any thread or task. The event is registered as long as
 * the object lives.
 */
class Slot
{
public:
	explicit Slot(Kind kind);
	~Slot();
	Slot(const Slot &) = delete;
	Slot &operator=(const Slot &) = delete;

	void expect(int64_t due) { due_->store(due); }
	bool expected() const { return due_->load() != 0; }
	// Returns how late the event was.
	int64_t met();
	// The event will not happen.
	void drop() { due_->store(0); }

private:
	const Kind kind_;
	size_t place_;              // the index in a static table
	std::atomic<int64_t> *due_; // the time in that place
};

// Starts the watchdog. Called once, before the runtime begins.
void watch_start();

// Says how much work may be ahead of a task from now on, in ns of one processor. The previous value
// stays in force for as long as that work may take.
void watch_queue(int64_t ns);
// Adds work to that, until the given time.
void watch_queue_more(int64_t ns, int64_t until);

// Says that memory limits are in force from now on, or no longer.
void watch_memory_limited(bool limited);

// Whether something is late, perhaps beyond its bound: the phase then continues for some time, to
// find out why.
bool watch_late();

// How much time the runtime has had since then, without the time in which the system kept threads
// from running.
int64_t watch_counted(int64_t since);

} // namespace hostile

#endif
