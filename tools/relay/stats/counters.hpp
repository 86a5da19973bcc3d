/* SPDX-License-Identifier: MIT */
/*
 * The relay's counters, and the event that reports them.
 *
 * Any task may count, without a lock. Relaxed atomics are enough, because a count needs only that
 * no increment is lost. No code concludes from a counter that something else in memory has happened
 * (shutting down waits for the sessions themselves, see sessions.hpp). Tasks count while an event
 * reads the counters, so its numbers may be a moment apart.
 *
 * All of these change a few times in the life of a connection. Bytes, which change with every
 * chunk, are counted only for each listener and backend (registry.hpp), and are summed up when they
 * are read.
 */
#ifndef RELAY_COUNTERS_HPP
#define RELAY_COUNTERS_HPP

#include "stats/event.hpp"

#include <array>
#include <atomic>
#include <cstdint>

namespace relay
{

class counter
{
public:
	void add(std::uint64_t n = 1) noexcept { value_.fetch_add(n, std::memory_order_relaxed); }
	void subtract(std::uint64_t n = 1) noexcept
	{
		value_.fetch_sub(n, std::memory_order_relaxed);
	}
	std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

private:
	std::atomic<std::uint64_t> value_{0};
};

/*
 * A counter that changes with every chunk. Each thread counts on one of several cache lines,
 * usually on another line than other threads, so that they do not contend. A task that changes
 * threads counts on another line; the sum is the same.
 */
class busy_counter
{
public:
	void add(std::uint64_t n) noexcept { lines_[line()].part.add(n); }
	std::uint64_t get() const noexcept
	{
		std::uint64_t sum = 0;
		for (const auto &each : lines_)
			sum += each.part.get();
		return sum;
	}

private:
	struct alignas(64) padded {
		counter part;
	};
	static constexpr unsigned lines = 8;

	/* Not inline: a task that has changed threads must not reuse the thread-local address of
	 * its old thread. */
	[[gnu::noinline]] static unsigned line() noexcept;

	std::array<padded, lines> lines_;
};

struct counters {
	counter accepted;        /* connections from clients */
	counter active;          /* connections that are open now */
	counter connect_failed;  /* backend refused, unresolvable, silent too long, ... */
	counter retries;         /* tries of another backend after one that failed */
	counter ejections;       /* times that a backend was ejected for failing */
	counter check_failures;  /* active checks that a backend failed */
	counter throttled;       /* times that bytes had to wait for bandwidth */
	counter denied;          /* clients closed for their address */
	counter rate_refused;    /* clients closed because they came too fast */
	counter bad_openings;    /* clients closed for a bad or late PROXY header or TLS hello */
	counter no_route;        /* TLS clients that asked for a name that no group serves */
	counter lifetimes;       /* ended because their lifetime was over */
	counter refused;         /* clients closed because a limit of connections was reached */
	counter no_memory;       /* connections closed because there was no memory to serve them */
	counter resets;          /* ended by a reset, which was passed on to the other side */
	counter idle_timeouts;   /* ended because no byte moved for the idle timeout */
	counter backend_down;    /* ended because the backend's checks failed */
	counter killed;          /* ended by a client of the control server */
	counter cut;             /* ended by shutting down */
	counter reloads;         /* reloads that took effect */
	counter reload_failures; /* reloads that changed nothing */
	counter certificates_left_out; /* from PROXY headers, because they are too long */
	counter accept_holds; /* times that a listener waited for room, see descriptors.hpp */
};

/* "accepted", "active" and so on, as fields of an event: docs/relay-reference.md describes the
 * names. */
event_fields to_fields(const counters &now, std::uint64_t bytes_to_backend,
		       std::uint64_t bytes_to_client);

} // namespace relay

#endif
