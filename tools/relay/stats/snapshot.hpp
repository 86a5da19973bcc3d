/* SPDX-License-Identifier: MIT */
/*
 * The state of the relay at one moment: plain numbers and names, which the core fills in and the
 * outer parts (metrics, web page, JSON) only read. Nothing here refers to live objects, so a
 * snapshot can be kept and compared with a later one.
 *
 * The numbers are counted without a lock while connections come and go, and may be a moment apart.
 * A total only grows while the relay runs, also across a reload: a listener or backend keeps its
 * totals for as long as its name stays in the configuration. Byte counts are of bytes delivered.
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
	unknown,   /* no check has ended yet; see awaits_check below */
	up,        /* the last checks succeeded */
	slow,      /* has come back, and gets fewer connections for a while */
	down,      /* active checks fail, its agent says so, or its name has never resolved */
	ejected,   /* connections to it failed, so it is left out for a while */
	drained,   /* weight 0 or by its agent, or gone with connections still open */
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
	/* The delivered bytes by path. They are counted when a connection ends, so their sum
	 * lags. */
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
	std::uint64_t limit = 0;    /* limit of active; 0: only the process's */
	std::uint64_t accepted = 0; /* total; = active + the sum of ended */
	termination_counts ended{}; /* total, by enum termination */
	/* Total: sources whose rate or bandwidth was forgotten while it mattered, see
	 * source_rates.hpp and source_bandwidth.hpp. */
	std::uint64_t sources_forgotten = 0;
	std::uint64_t bandwidth_sources = 0; /* sources whose bandwidth is known now */
	std::uint64_t retries = 0;           /* total: further tries after one that failed */
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
	bool is_there = false; /* false: the other fields mean nothing */
	agent_contact contact = agent_contact::none;
	std::uint32_t percent = 100; /* of the weight; average for a name */
	std::uint64_t limit = 0;     /* of connections; 0: none */
	const char *admin = "ready";
	const char *health = "up";
	std::string description; /* in its own words */
	std::string words;       /* how it keeps clients away, what is wrong with it */
};

/* One address that connections to a backend go to. */
struct endpoint_snapshot {
	std::string address; /* of a backend: as configured, unique within the group */
	health state = health::unchecked;
	/* It gets no connections before its first check. False: nothing keeps it from them while
	 * its state is `unknown`. */
	bool awaits_check = false;
	std::uint32_t weight = 1;    /* of a backend: as configured; of an endpoint: within it */
	std::uint32_t priority = 0;  /* lower values come first */
	std::uint64_t active = 0;    /* connections, including those being made */
	std::uint64_t limit = 0;     /* limit of active, its own or the agent's; 0: none */
	std::uint64_t connected = 0; /* total: connections made */
	std::uint64_t failures = 0;  /* total: connections that could not be made */
	std::uint64_t ejections = 0; /* total: times that it was left out for a while */
	std::uint64_t throttled = 0; /* as for listeners, but only for its own bandwidth */
	std::chrono::nanoseconds throttled_time{};
	both_ways throttled_now;
	std::uint64_t checks = 0;         /* total: active checks that ended */
	std::uint64_t check_failures = 0; /* total: checks that failed */
	/* When the last check ended, as time since 1970, 0 if none has; and its error as text,
	 * empty if it succeeded. */
	std::chrono::nanoseconds last_check{};
	std::string last_error;
	agent_snapshot agent;
	flow to_backend; /* totals */
	flow to_client;
};

/* All endpoints of a backend together: the sums of their numbers, including endpoints that are
 * gone, and the best of their states. */
struct backend_snapshot : endpoint_snapshot {
	std::string route;     /* the name of the group that it belongs to */
	bool is_named = false; /* its addresses are looked up */
	/* The addresses of its name, or its own; empty if it does not resolve, or has not yet. */
	std::vector<std::string> addresses;
	/* One for each address, and for those that are gone and still have connections. Empty if
	 * the backend is not a name: then it is its only endpoint. */
	std::vector<endpoint_snapshot> endpoints;
	std::uint64_t resolve_failures = 0; /* total: lookups that failed */
	bool is_resolve_failing = false;    /* the last lookup failed */
};

/* Why a connection that was made ahead of clients was closed unused. Users see these names. */
enum class ready_end : unsigned char {
	closed,  /* by the backend */
	spoke,   /* the backend has sent bytes */
	age,     /* it had been kept for preconnect_age */
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
	std::string group;                     /* its name, as in backend_snapshot */
	std::uint64_t queued = 0;              /* clients that wait now */
	std::uint64_t queue_limit = 0;         /* most clients that may wait; 0: none */
	std::uint64_t queue_waits = 0;         /* total: clients that had to wait */
	std::uint64_t queue_full = 0;          /* total: clients refused because too many waited */
	std::uint64_t queue_timeouts = 0;      /* total: clients that waited too long */
	std::uint64_t queue_left = 0;          /* total: clients that left while they waited */
	std::chrono::nanoseconds queue_time{}; /* total: the sum of all waits that have ended */
	/* Connections that are made ahead of clients, see ready.hpp. */
	std::uint64_t ready_limit = 0;    /* wanted for each endpoint; 0: the rest is 0, too */
	std::uint64_t ready = 0;          /* now */
	std::uint64_t ready_hits = 0;     /* total: given to a client */
	std::uint64_t ready_misses = 0;   /* total: times that a client found none */
	std::uint64_t ready_failures = 0; /* total: that could not be made */
	ready_discard_counts ready_discarded{}; /* total: closed unused, by enum ready_end */
};

/* A certificate that a listener or, as a client, a group shows; or a revocation list of one. */
struct certificate_snapshot {
	bool is_listener = true;
	std::string owner;                /* the name of the listener or the group */
	std::string name;                 /* the first name that it is for, or the list's issuer */
	std::chrono::seconds not_after{}; /* since 1970 */
	bool is_list = false;
};

/* The content in use of a list file that a listener names. */
struct list_snapshot {
	std::string listener;
	std::string key; /* of the configuration */
	std::string file;
	std::uint64_t entries = 0;
	std::chrono::nanoseconds read{}; /* when, since 1970 */
};

struct snapshot {
	std::string version;
	std::chrono::nanoseconds time{};   /* of the snapshot, since 1970 */
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
	std::uint64_t certificates_left_out = 0; /* total: of PROXY headers */
	std::uint64_t log_dropped = 0;           /* total: access log lines that were dropped */
	std::uint64_t descriptors = 0;           /* open now */
	std::uint64_t descriptor_limit = 0;
	std::uint64_t pipes = 0; /* existing now, for splicing */
	std::uint64_t pipes_limit = 0;
	std::uint64_t pipes_missed = 0; /* total: times that none was available */
	/* Of the runtime, see <sennit/run.h>. */
	std::uint64_t tasks = 0;             /* alive now */
	std::uint64_t processors = 0;        /* in use now */
	std::uint64_t threads_blocking = 0;  /* in a call that blocks, now */
	std::uint64_t thread_limit_hits = 0; /* total: times that no thread could be started */
	std::uint64_t revocations = 0; /* total: processors taken from threads that kept them */
	std::uint64_t events_suppressed = 0; /* total: over the limit of their kind */
	std::uint64_t events_lost = 0;       /* total: that could not be written */
	process_use process;
};

class history;

/* A source of snapshots. Any task may call, at any time. */
class snapshot_source
{
public:
	/* Parks, because it looks at the process's descriptors. Throws if there is no memory or no
	 * thread. */
	virtual snapshot read() const = 0;

	/* What a snapshot's `ready` would be. It takes no memory and little time, because a probe
	 * that gets no answer in time gives the whole relay up. */
	virtual bool is_ready() const noexcept = 0;

	/* The history; null if none is kept. */
	virtual const history *past() const { return nullptr; }

protected:
	snapshot_source() = default;
	snapshot_source(const snapshot_source &) = default;
	snapshot_source &operator=(const snapshot_source &) = default;
	~snapshot_source() = default;
};

} // namespace relay

#endif
