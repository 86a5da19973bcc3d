/* SPDX-License-Identifier: MIT */
/*
 * What the relay tells about itself, at one moment: plain numbers and names, which the core fills
 * and the outer parts (metrics, web page, status by JSON) only read. Nothing here refers to
 * anything that lives on, so a snapshot can be kept, and be compared with a later one.
 *
 * The numbers are counted without a lock while connections come and go, and may be a moment apart.
 * What is called a total only grows while the relay runs, also over a reload: a listener or backend
 * keeps its totals for as long as its name stays in the configuration. Bytes are those delivered.
 */
#ifndef RELAY_SNAPSHOT_HPP
#define RELAY_SNAPSHOT_HPP

#include "histogram.hpp"
#include "termination.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace relay
{

/* Is it given connections? Names are what users see. */
enum class health : unsigned char {
	unknown, /* checks are configured, none has ended yet; it is given connections */
	up,      /* the last checks succeeded, or there are none */
	slow,    /* it came back and is given fewer connections than its weight says, for a while */
	down,    /* active checks fail */
	ejected, /* connections to it failed, so it is left out for a while */
	drained, /* weight 0, or gone from the configuration with connections still open */
	count_
};

inline constexpr std::array<const char *, static_cast<std::size_t>(health::count_)> health_names = {
	"unknown", "up", "slow", "down", "ejected", "drained",
};

constexpr const char *to_string(health state) noexcept
{
	return health_names[static_cast<std::size_t>(state)];
}

/* Of something for each direction. */
struct both_ways {
	std::uint64_t to_backend = 0;
	std::uint64_t to_client = 0;
};

/* One direction. */
struct flow {
	std::uint64_t bytes = 0; /* as they are delivered */
	/* Of those, by the way they took; counted when a connection ends, so their sum lags. */
	std::uint64_t userspace = 0;
	std::uint64_t splice = 0;

	flow &operator+=(const flow &other) noexcept
	{
		bytes += other.bytes;
		userspace += other.userspace;
		splice += other.splice;
		return *this;
	}
};

struct latencies {
	histogram_counts connect; /* from choosing a backend to its connection, retries included */
	histogram_counts first_byte; /* from the connection to the backend's first byte */
	histogram_counts duration;   /* from accept to the end; all that had a backend */
};

using termination_counts = std::array<std::uint64_t, terminations>;

struct listener_snapshot {
	std::string name;           /* the route's, unique */
	std::string address;        /* where it listens, with the port that it has */
	std::uint64_t active = 0;   /* connections from accept to end */
	std::uint64_t limit = 0;    /* most of them; 0: only the process's limit */
	std::uint64_t accepted = 0; /* total; = active + the sum of ended */
	termination_counts ended{}; /* total, by enum termination */
	std::uint64_t retries = 0;  /* total: tries of another backend after one that failed */
	/* Total: times that bytes had to wait for bandwidth, and for how long, added up. */
	std::uint64_t throttled = 0;
	std::chrono::nanoseconds throttled_time{};
	both_ways throttled_now; /* connections whose bytes wait for it */
	flow to_backend;         /* totals */
	flow to_client;
	latencies times; /* totals */
};

struct backend_snapshot {
	std::string route;   /* the listener_snapshot::name or pool that it belongs to */
	std::string address; /* as configured: unique within the route */
	health state = health::up;
	std::uint32_t weight = 1;    /* as configured */
	std::uint64_t active = 0;    /* connections, those being made included */
	std::uint64_t limit = 0;     /* most of them; 0: none of its own */
	std::uint64_t connected = 0; /* total: connections made */
	std::uint64_t failures = 0;  /* total: connections that could not be made */
	std::uint64_t ejections = 0; /* total: times that it was left out for a while */
	std::uint64_t throttled = 0; /* as of listeners, of its own bandwidth */
	std::chrono::nanoseconds throttled_time{};
	both_ways throttled_now;
	bool is_named = false; /* its addresses are looked up */
	/* That its name stands for, or its own; none: it does not resolve, or not yet. */
	std::vector<std::string> addresses;
	std::uint64_t resolve_failures = 0; /* total: look-ups of it that failed */
	bool is_resolve_failing = false;    /* the last look-up did */
	std::uint64_t checks = 0;           /* total: active checks that ended */
	std::uint64_t check_failures = 0;   /* total, of those */
	/* When the last check ended: time since 1970, 0 when none has; and what it found, as an error
	 * text, empty when all was well. */
	std::chrono::nanoseconds last_check{};
	std::string last_error;
	flow to_backend; /* totals */
	flow to_client;
};

struct snapshot {
	std::string version;
	std::chrono::nanoseconds time{};   /* of this snapshot, since 1970 */
	std::chrono::nanoseconds uptime{}; /* of the process's service; a handover begins anew */
	bool ready = false;                /* false from the moment that draining begins, and before
					    * listening has begun */
	std::vector<listener_snapshot> listeners;
	std::vector<backend_snapshot> backends;
	/* Of the process. */
	std::uint64_t active = 0;
	std::uint64_t limit = 0;           /* connections that the descriptors have room for */
	std::uint64_t accept_pauses = 0;   /* total: times that accepting waited for room */
	std::uint64_t reloads = 0;         /* total: that took effect */
	std::uint64_t reload_failures = 0; /* total: refused, the old configuration stays */
	std::uint64_t log_dropped = 0;     /* total: access log lines that were dropped */
	std::uint64_t descriptors = 0;     /* open now */
	std::uint64_t descriptor_limit = 0;
	std::uint64_t pipes = 0; /* for splicing, that exist now */
	std::uint64_t pipes_limit = 0;
	std::uint64_t pipes_missed = 0; /* total: times that none was to be had */
	std::uint64_t tasks = 0;        /* of the runtime, now */
};

/* Who can be asked. Any task, at any time; the answer does not park for long. */
class snapshot_source
{
public:
	virtual snapshot read() const = 0;

protected:
	snapshot_source() = default;
	snapshot_source(const snapshot_source &) = default;
	snapshot_source &operator=(const snapshot_source &) = default;
	~snapshot_source() = default;
};

} // namespace relay

#endif
