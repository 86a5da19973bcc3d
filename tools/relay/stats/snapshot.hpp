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

#include "base/histogram.hpp"
#include "stats/process.hpp"
#include "stats/udp_drop.hpp"
#include "wire/termination.hpp"

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
	up,      /* the last checks succeeded */
	slow,    /* it has come back, and for a while gets fewer connections than its weight says */
	down,    /* active checks fail, its agent says so, or its name has never resolved */
	ejected, /* connections to it failed, so it is left out for a while */
	drained, /* weight 0 or by its agent, or gone with connections still open */
	unchecked, /* there are no checks; it is given connections */
	count_
};

inline constexpr std::array<const char *, static_cast<std::size_t>(health::count_)> health_names = {
	"unknown", "up", "slow", "down", "ejected", "drained", "not checked",
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
	std::string name;           /* as configured, or the address; unique */
	std::string address;        /* bound address, with the actual port */
	std::uint64_t active = 0;   /* connections from accept to end */
	std::uint64_t limit = 0;    /* of those; 0: only the process's limit */
	std::uint64_t accepted = 0; /* total; = active + the sum of ended */
	termination_counts ended{}; /* total, by enum termination */
	/* Total: sources whose rate was forgotten while it mattered, see source_rates.hpp. */
	std::uint64_t sources_forgotten = 0;
	std::uint64_t retries = 0; /* total: further tries after one that failed */
	/* Totals: TLS handshakes with clients, of which those of resumed sessions are cheap. */
	std::uint64_t tls_full = 0;
	std::uint64_t tls_resumed = 0;
	/* Totals: times that bytes had to wait for bandwidth, and the sum of these waits. */
	std::uint64_t throttled = 0;
	std::chrono::nanoseconds throttled_time{};
	both_ways throttled_now; /* connections that wait for bandwidth now */
	flow to_backend;         /* totals */
	flow to_client;
	datagram_counts datagrams; /* totals, of a listener of UDP */
	latencies times;           /* totals */
};

/* Whether an agent answers. */
enum class agent_contact : unsigned char { none, /* not asked yet */ good, lost };

constexpr const char *to_string(agent_contact is) noexcept
{
	return is == agent_contact::none ? "none" : is == agent_contact::good ? "good" : "lost";
}

/* What the agent of an endpoint has said, see agent_state.hpp. */
struct agent_snapshot {
	bool is_there = false; /* otherwise nothing of this means anything */
	agent_contact contact = agent_contact::none;
	std::uint32_t percent = 100; /* of the weight; of a name: on average */
	std::uint64_t limit = 0;     /* of connections; 0: none */
	const char *admin = "ready";
	const char *health = "up";
	std::string description; /* in its own words */
	std::string words;       /* what keeps clients away, and what is wrong with the agent */
};

/* One address that connections to a backend go to. */
struct endpoint_snapshot {
	std::string address; /* of a backend: as configured, unique within the group */
	health state = health::unchecked;
	std::uint32_t weight = 1;    /* of a backend: as configured; of an endpoint: within it */
	std::uint32_t priority = 0;  /* those of a lower value come first */
	std::uint64_t active = 0;    /* connections, including those being made */
	std::uint64_t limit = 0;     /* of those, by itself or by its agent; 0: none */
	std::uint64_t connected = 0; /* total: connections made */
	std::uint64_t failures = 0;  /* total: connections that could not be made */
	std::uint64_t ejections = 0; /* total: times that it was left out for a while */
	std::uint64_t throttled = 0; /* as for listeners, but only for its own bandwidth */
	std::chrono::nanoseconds throttled_time{};
	both_ways throttled_now;
	std::uint64_t checks = 0;         /* total: active checks that ended */
	std::uint64_t check_failures = 0; /* total, of those */
	/* When the last check ended, as time since 1970, 0 if none has; and its error as text,
	 * empty if it succeeded. */
	std::chrono::nanoseconds last_check{};
	std::string last_error;
	agent_snapshot agent;
	flow to_backend; /* totals */
	flow to_client;
};

/* All endpoints of a backend together: the sum of their numbers, also of those that are gone, and
 * the best of their states. */
struct backend_snapshot : endpoint_snapshot {
	std::string route;     /* the name of the group that it belongs to */
	bool is_named = false; /* its addresses are looked up */
	/* The results of its name's look-up, or its own; empty: it does not resolve, or not yet. */
	std::vector<std::string> addresses;
	/* One for each of these, and for those that are gone and still have connections. Empty if
	 * it is not named: then it is its only endpoint. */
	std::vector<endpoint_snapshot> endpoints;
	std::uint64_t resolve_failures = 0; /* total: look-ups of it that failed */
	bool is_resolve_failing = false;    /* the last look-up did */
};

/* Why a connection that was made ahead of clients was closed unused. Users see these names. */
enum class ready_end : unsigned char {
	closed,  /* by the backend */
	spoke,   /* the backend has sent bytes */
	age,     /* it has been kept for as long as it may be */
	backend, /* the backend is not given clients, or could not be connected to again */
	room,    /* descriptors or memory ran short */
	config,  /* it is not wanted any more: a reload, a handover, the end */
	count_
};

inline constexpr std::array<const char *, static_cast<std::size_t>(ready_end::count_)>
	ready_end_names = {"closed", "spoke", "age", "backend", "room", "config"};

using ready_discard_counts = std::array<std::uint64_t, static_cast<std::size_t>(ready_end::count_)>;

/* The clients that wait for a place at a backend, see queue.hpp. */
struct group_snapshot {
	std::string group;                /* as the backends have it */
	std::uint64_t queued = 0;         /* clients that wait now */
	std::uint64_t queue_limit = 0;    /* most of them; 0: none waits */
	std::uint64_t queue_waits = 0;    /* total: clients that had to wait */
	std::uint64_t queue_full = 0;     /* total: that were refused, because too many waited */
	std::uint64_t queue_timeouts = 0; /* total: that waited too long */
	std::uint64_t queue_left = 0;     /* total: that went away while they waited */
	std::chrono::nanoseconds queue_time{}; /* total: the sum of all waits that have ended */
	/* Connections that are made ahead of clients, see ready.hpp. */
	std::uint64_t ready_limit = 0; /* wanted for each endpoint; 0: there are none, nor totals */
	std::uint64_t ready = 0;       /* now */
	std::uint64_t ready_hits = 0;  /* total: that a client was given */
	std::uint64_t ready_misses = 0;         /* total: times that a client found none */
	std::uint64_t ready_failures = 0;       /* total: that could not be made */
	ready_discard_counts ready_discarded{}; /* total: closed unused, by enum ready_end */
};

/* A certificate that a listener or, as a client, a group shows. */
struct certificate_snapshot {
	bool is_listener = true;
	std::string owner;                /* the name of the listener or the group */
	std::string name;                 /* the first that it is for */
	std::chrono::seconds not_after{}; /* since 1970 */
};

/* A list in a file that a listener names, as it is in use. */
struct list_snapshot {
	std::string listener;
	std::string key; /* of the configuration */
	std::string file;
	std::uint64_t entries = 0;
	std::chrono::nanoseconds read{}; /* when, since 1970 */
};

struct snapshot {
	std::string version;
	std::chrono::nanoseconds time{};   /* of this snapshot, since 1970 */
	std::chrono::nanoseconds uptime{}; /* since this process began to serve */
	bool ready = false;                /* false before listening begins, and from the moment
					    * that draining begins */
	std::vector<listener_snapshot> listeners;
	std::vector<backend_snapshot> backends;
	std::vector<group_snapshot> groups;
	std::vector<certificate_snapshot> certificates; /* in use */
	std::vector<list_snapshot> lists;
	bool lists_refused = false; /* their files have changed, and cannot be used */
	/* For the whole process. */
	std::uint64_t active = 0;
	std::uint64_t limit = 0;           /* connections that the descriptors have room for */
	std::uint64_t accept_pauses = 0;   /* total: times that accepting waited for room */
	std::uint64_t reloads = 0;         /* total: that took effect */
	std::uint64_t reload_failures = 0; /* total: rejected; the old configuration stayed */
	std::uint64_t ejections = 0;       /* total, of all backends that ever were */
	std::uint64_t check_failures = 0;  /* total, of all backends that ever were */
	std::uint64_t log_dropped = 0;     /* total: access log lines that were dropped */
	std::uint64_t descriptors = 0;     /* open now */
	std::uint64_t descriptor_limit = 0;
	std::uint64_t pipes = 0; /* existing now, for splicing */
	std::uint64_t pipes_limit = 0;
	std::uint64_t pipes_missed = 0;      /* total: times that none was available */
	std::uint64_t tasks = 0;             /* alive in the runtime now */
	std::uint64_t events_suppressed = 0; /* total: over the limit of their kind */
	std::uint64_t events_lost = 0;       /* total: that could not be written */
	process_use process;
};

class history;

/* A source of snapshots. Any task may call read(), at any time; it parks only briefly. */
class snapshot_source
{
public:
	virtual snapshot read() const = 0;

	/* What came before; null: it is not kept. */
	virtual const history *past() const { return nullptr; }

protected:
	snapshot_source() = default;
	snapshot_source(const snapshot_source &) = default;
	snapshot_source &operator=(const snapshot_source &) = default;
	~snapshot_source() = default;
};

} // namespace relay

#endif
