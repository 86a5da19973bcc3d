// SPDX-License-Identifier: MIT
//
// The watchdog: a plain thread that looks every 20 ms at what is due in the runtime, and judges
// what is late by bounds.hpp and by what plain threads got meanwhile (plain.hpp). It does not call
// sennit.
#ifndef SENNIT_TESTS_HOSTILE_WATCH_HPP
#define SENNIT_TESTS_HOSTILE_WATCH_HPP

#include <atomic>
#include <cstdint>

#include "hostile/bounds.hpp"

namespace hostile
{

/*
 * Something that is to happen, again and again. expect() says when it is due, met() that it has
 * happened; they are called in turns, from any thread or task. It is registered for as long as the
 * object lives.
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
	// Returns how late it was.
	int64_t met();
	// It will not happen.
	void drop() { due_->store(0); }

private:
	const Kind kind_;
	size_t place_;              // the index in a static table
	std::atomic<int64_t> *due_; // in that place
};

// Starts the thread. Once, before the runtime.
void watch_start();

// How much work may be ahead of a task from now on: ns of one processor's time. The previous value
// stays in force for as long as that work may take.
void watch_queue(int64_t ns);
// Additional work, until a time.
void watch_queue_more(int64_t ns, int64_t until);

// Memory limits are in force from now on, or no longer.
void watch_memory_limited(bool limited);

// Something is late, perhaps beyond its bound: the phase continues for some time, to find out why.
bool watch_late();

// The time since then that the runtime had: without the time in which the system kept threads from
// running.
int64_t watch_counted(int64_t since);

} // namespace hostile

#endif
