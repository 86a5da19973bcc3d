/* SPDX-License-Identifier: MIT */
/*
 * The state of the relay at one moment: plain numbers and names, which the core fills in and the
 * outer parts (metrics, web page, JSON) only read. Nothing here refers to live objects, so a
 * snapshot can be kept and compared with a later one.
 *
 * The numbers are counted without a lock while connections come and go, and may be a moment apart.
 * A total only grows while the relay runs, also across a reload: a listener or backend keeps its
 * totals for as long as its name stays in the configuration. Bytes are those delivered.
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

/* Whether a backend is given connections. Users see these names. */
enum class health : unsigned char {
	unknown, /* checks are configured, and none has ended yet; it is given connections */
	up,      /* the last checks succeeded, or there are none */
	slow,    /* it has come back, and for a while gets fewer connections than its weight says */
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

/* One number for each direction. */
struct both_ways {
	std::uint64_t to_backend = 0;
	std::uint64_t to_client = 0;
};

/* Bytes in one direction. */
struct flow {
	std::uint64_t bytes = 0; /* counted as they are delivered */
	/* Of those, by path; counted when a connection ends, so their sum lags. */
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
	histogram_counts duration;   /* from accept to the end; connections that had a backend */
};

using termination_counts = std::array<std::uint64_t, terminations>;

struct listener_snapshot {
	std::string name;           /* the route's, unique */
	std::string address;        /* bound address, with the actual port */
	std::uint64_t active = 0;   /* connections from accept to end */
	std::uint64_t limit = 0;    /* of those; 0: only the process's limit */
	std::uint64_t accepted = 0; /* total; = active + the sum of ended */
	termination_counts ended{}; /* total, by enum termination */
	std::uint64_t retries = 0;  /* total: tries of another backend after one that failed */
	/* Totals: times that bytes had to wait for bandwidth, and the sum of these waits. */
	std::uint64_t throttled = 0;
	std::chrono::nanoseconds throttled_time{};
	both_ways throttled_now; /* connections that wait for bandwidth now */
	flow to_backend;         /* totals */
	flow to_client;
	latencies times; /* totals */
};

struct backend_snapshot {
	std::string route;   /* the listener_snapshot::name or pool that it belongs to */
	std::string address; /* as configured: unique within the route */
	health state = health::up;
	std::uint32_t weight = 1;    /* as configured */
	std::uint64_t active = 0;    /* connections, including those being made */
	std::uint64_t limit = 0;     /* of those; 0: none of its own */
	std::uint64_t connected = 0; /* total: connections made */
	std::uint64_t failures = 0;  /* total: connections that could not be made */
	std::uint64_t ejections = 0; /* total: times that it was left out for a while */
	std::uint64_t throttled = 0; /* as for listeners, but only for its own bandwidth */
	std::chrono::nanoseconds throttled_time{};
	both_ways throttled_now;
	bool is_named = false; /* its addresses are looked up */
	/* The results of its name's look-up, or its own; empty: it does not resolve, or not yet. */
	std::vector<std::string> addresses;
	std::uint64_t resolve_failures = 0; /* total: look-ups of it that failed */
	bool is_resolve_failing = false;    /* the last look-up did */
	std::uint64_t checks = 0;           /* total: active checks that ended */
	std::uint64_t check_failures = 0;   /* total, of those */
	/* When the last check ended, as time since 1970, 0 if none has; and its error as text,
	 * empty if it succeeded. */
	std::chrono::nanoseconds last_check{};
	std::string last_error;
	flow to_backend; /* totals */
	flow to_client;
};

struct snapshot {
	std::string version;
	std::chrono::nanoseconds time{};   /* of this snapshot, since 1970 */
	std::chrono::nanoseconds uptime{}; /* since this process began to serve */
	bool ready = false;                /* false before listening begins, and from the moment
					    * that draining begins */
	std::vector<listener_snapshot> listeners;
	std::vector<backend_snapshot> backends;
	/* For the whole process. */
	std::uint64_t active = 0;
	std::uint64_t limit = 0;           /* connections that the descriptors have room for */
	std::uint64_t accept_pauses = 0;   /* total: times that accepting waited for room */
	std::uint64_t reloads = 0;         /* total: that took effect */
	std::uint64_t reload_failures = 0; /* total: rejected; the old configuration stayed */
	std::uint64_t log_dropped = 0;     /* total: access log lines that were dropped */
	std::uint64_t descriptors = 0;     /* open now */
	std::uint64_t descriptor_limit = 0;
	std::uint64_t pipes = 0; /* existing now, for splicing */
	std::uint64_t pipes_limit = 0;
	std::uint64_t pipes_missed = 0; /* total: times that none was available */
	std::uint64_t tasks = 0;        /* alive in the runtime now */
};

/* A source of snapshots. Any task may call read(), at any time; it parks only briefly. */
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
