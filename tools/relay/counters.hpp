/* SPDX-License-Identifier: MIT */
/*
 * What the relay counts, and the line that tells it.
 *
 * Any task counts, without a lock. Relaxed atomics are enough: an increment is never lost, which is
 * all that is asked of a count; nobody concludes from one counter that something else in memory
 * has happened (shutting down waits for the sessions themselves, see sessions.hpp). A line is read
 * while others count, so its numbers may be a moment apart.
 *
 * All change a few times in the life of a connection. Bytes, which change with every chunk, are
 * counted for each listener and backend alone (book.hpp), and summed up when they are told.
 */
#ifndef RELAY_COUNTERS_HPP
#define RELAY_COUNTERS_HPP

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

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
 * The same for what changes with every chunk: each thread counts on one of several lines, mostly
 * another one than others do, so that they do not take it from each other. A task that changes threads
 * counts on another line; the sum is the same.
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

	/* Not inline: a task that has changed threads must not find where the former's was. */
	[[gnu::noinline]] static unsigned line() noexcept
	{
		static std::atomic<unsigned> threads{0};
		static thread_local unsigned mine = 0;
		if (mine == 0) [[unlikely]]
			mine = 1 + threads.fetch_add(1, std::memory_order_relaxed) % lines;
		return mine - 1;
	}

	std::array<padded, lines> lines_;
};

struct counters {
	counter accepted;       /* connections from clients */
	counter active;         /* of those, open now */
	counter connect_failed; /* backend refused, unresolvable, silent too long, ... */
	counter retries;        /* tries of another backend after one that failed */
	counter ejections;      /* times that a backend was left out for failing */
	counter check_failures; /* active checks that a backend failed */
	counter throttled;      /* times that bytes had to wait for bandwidth */
	counter denied;         /* clients closed for their address */
	counter rate_refused;   /* clients closed as they came too fast */
	counter bad_openings;   /* clients closed as a PROXY header or TLS hello was bad, or late */
	counter no_route;       /* TLS clients that asked for a name that nobody has */
	counter lifetimes;      /* ended because they were open for as long as they may be */
	counter refused;        /* clients closed as there were as many as there may be */
	counter no_memory;      /* connections closed because there was no memory to serve them */
	counter resets;         /* ended by a reset, which was passed on to the other side */
	counter idle_timeouts;  /* ended because no byte moved for the idle timeout */
	counter cut;            /* ended by shutting down */
	counter reloads;        /* of the configuration, that took effect */
	counter reload_failures; /* that changed nothing */
	counter accept_holds;    /* times that a door waited for room, see descriptors.hpp */
};

/* "accepted=12 active=3 ...": names and meanings are in docs/relay.md. */
std::string to_line(const counters &now, std::uint64_t bytes_to_backend,
		    std::uint64_t bytes_to_client);

} // namespace relay

#endif
