/* SPDX-License-Identifier: MIT */
/*
 * The registry of statistics: the counters of each listener and each backend, and their snapshot. A
 * backend's counters are those of its endpoints (names.hpp).
 *
 * A configuration opens counters by name. Counters that exist under that name continue, so totals
 * only grow across a reload. Counters that the new configuration does not name appear in snapshots
 * only for as long as a session still uses them; then their bytes are added to the sum of all
 * forgotten counters. Sessions share ownership of their counters, and so need not know of reloads.
 *
 * The task that accepts a connection counts `accepted`, and makes sure that exactly one of the
 * counters in `ended` is counted for the connection. As in counters.hpp, any task may count,
 * without waiting; the lock is for the lists and for the settings that appear in snapshots, which
 * only reloads and snapshots use.
 */
#ifndef RELAY_REGISTRY_HPP
#define RELAY_REGISTRY_HPP

#include "backends/bandwidth.hpp"
#include "backends/endpoint.hpp"
#include "backends/names.hpp"
#include "backends/queue.hpp"
#include "backends/ready.hpp"
#include "backends/source_bandwidth.hpp"
#include "backends/source_rates.hpp"
#include "backends/sources.hpp"
#include "config/config.hpp"
#include "stats/counters.hpp"
#include "stats/history.hpp"
#include "stats/snapshot.hpp"
#include "stats/udp_counters.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace relay
{

struct listener_counters {
	explicit listener_counters(std::string called) : name(std::move(called)) {}

	const std::string name;

	/* Accepted and not refused, less ended. listener.hpp counts it, because it is also
	 * compared with a limit. */
	std::atomic<std::uint64_t> active{0};
	/* Has only connections that were accepted while a limit by source was in effect. */
	relay::sources sources;
	relay::rate rate;
	relay::source_rates source_rates;
	/* The limits of all connections together, of each source's connections, and of each
	 * connection. A reload changes them for open connections, too. */
	buckets bandwidth;
	allowance bandwidth_per_source;
	/* Has only connections that began while there was such a limit. */
	relay::source_bandwidths source_bandwidths{bandwidth_per_source};
	allowance bandwidth_per_connection;
	wait_counters throttled; /* by any bandwidth limit */
	counter accepted;
	counter retries;
	/* Complete TLS handshakes with clients: full ones, and resumptions of a session. */
	counter tls_full;
	counter tls_resumed;
	std::array<counter, terminations> ended{};
	flow_counters to_backend;
	flow_counters to_client;
	udp_counters datagrams; /* of a listener of UDP */
	histogram connect;
	histogram first_byte;
	histogram duration;

private:
	friend class registry;
	/* These change under the registry's lock. */
	std::string address_;
	std::uint64_t limit_ = 0;
	bool gone_ = false;
};

/* A backend as configured, with its endpoints, to which the counters belong. */
struct backend_counters {
	backend_counters(std::string of, std::string at)
	    : group(std::move(of)), address(at), endpoints(std::move(at))
	{
	}

	const std::string group;
	const std::string address;
	relay::endpoints endpoints;

private:
	friend class registry;
	/* These change under the registry's lock. */
	std::uint32_t weight_ = 0;
	std::uint32_t priority_ = 0;
	std::uint64_t limit_ = 0;
	bool is_checked_ = false;
	bool gone_ = false;
};

/* Whether a backend is checked, and what counts before its first check. */
enum class checking : unsigned char { none, starts_up, starts_down };

struct group_counters {
	explicit group_counters(std::string called) : name(std::move(called)) {}

	const std::string name;
	queue line;
	ready_store ready;

private:
	friend class registry;
	bool gone_ = false; /* under the registry's lock */
};

class registry final : public snapshot_source
{
public:
	class generation;

	/* Bytes delivered by all listeners, to backends and to clients. */
	std::pair<std::uint64_t, std::uint64_t> bytes() const;

	/* Whether new connections are wanted from now on. A snapshot is ready only when the checks
	 * for which clients had to wait at the start are over, too. */
	void set_ready(bool ready) noexcept { ready_.store(ready, std::memory_order_relaxed); }

	bool ready() const noexcept { return ready_.load(std::memory_order_relaxed); }

	/* Sets the function that fills in the process's own numbers. Before the first read(). */
	void set_process(std::function<void(snapshot &)> fill) { fill_ = std::move(fill); }

	snapshot read() const override;
	bool is_ready() const noexcept override;

	/* Adds a sample to the history, and forgets counters as read() does. Called by one task at
	 * a time. */
	void remember();

	/* Forgets the sources that no bandwidth limit needs to know any more. */
	void forget_sources() noexcept;

	const history *past() const override { return &past_; }

private:
	void forget_gone() const;
	bool first_checks_are_over() const noexcept;
	bool is_ready_now() const noexcept;
	static listener_snapshot read_listener(const listener_counters &of);
	static backend_snapshot read_backend(backend_counters &of);
	static group_snapshot read_group(const group_counters &of);

	using listeners = std::list<std::shared_ptr<listener_counters>>;
	using backends = std::list<std::shared_ptr<backend_counters>>;
	using groups = std::list<std::shared_ptr<group_counters>>;

	/* Guards the lists and bytes_of_gone_. Held for microseconds; a task does not park while
	 * holding it. */
	mutable std::mutex lock_;
	mutable listeners listeners_;
	mutable backends backends_;
	mutable groups groups_;
	/* The sum of the bytes of listeners that have been forgotten. */
	mutable std::pair<std::uint64_t, std::uint64_t> bytes_of_gone_{};
	std::atomic<bool> ready_{false};
	mutable bool first_checks_are_over_ = false; /* under lock_ */
	sn::clock::time_point began_ = sn::now();
	std::function<void(snapshot &)> fill_;
	history past_;
	histogram_counts connects_before_; /* as of the last remember() */
};

/*
 * The counters that one configuration needs. Everything that can fail comes before commit(), so a
 * generation that is discarded has changed nothing. There is one at a time.
 */
class registry::generation
{
public:
	explicit generation(registry &of) : of_(of) {}

	std::shared_ptr<listener_counters> open_listener(const std::string &name,
							 const std::string &address,
							 const listener_config &settings);
	/* Opens the counters of a backend. If it has no checks, the results of earlier checks
	 * are forgotten; so are those of a backend that was gone, if it may get no connections
	 * before a check. If it has another agent, or none, the answers of the earlier agent are
	 * forgotten. */
	std::shared_ptr<backend_counters> open_backend(const std::string &group,
						       const backend_config &settings, checking how,
						       const agent_id &agent);

	/* Opens the counters of a group. limit: for the queue of a new group; pool::lead() sets
	 * the limit of an existing one. */
	std::shared_ptr<group_counters> open_group(const std::string &name, std::uint64_t limit);

	/* Makes the counters that were opened here those of snapshots. Call it once. */
	void commit() noexcept;

private:
	struct pending_listener {
		std::shared_ptr<listener_counters> counts;
		std::string address;
		std::uint64_t limit;
		bandwidth_config bandwidth;
		bandwidth_config bandwidth_per_source;
		bandwidth_config bandwidth_per_connection;
	};
	struct pending_backend {
		std::shared_ptr<backend_counters> counts;
		std::uint32_t weight;
		std::uint32_t priority;
		std::uint64_t limit;
		checking how;
		bandwidth_config bandwidth;
		agent_id agent;
	};

	registry &of_;
	std::vector<pending_listener> listeners_;
	std::vector<pending_backend> backends_;
	std::vector<std::shared_ptr<group_counters>> groups_;
	listeners new_listeners_;
	backends new_backends_;
	groups new_groups_;
};

} // namespace relay

#endif
