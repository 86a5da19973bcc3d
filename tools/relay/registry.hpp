/* SPDX-License-Identifier: MIT */
/*
 * The registry of statistics: the counters of each listener and each backend, and the snapshot of
 * them.
 *
 * Both are opened by name for a configuration. Counters that exist under that name continue, so
 * totals only grow across a reload. Counters that the new configuration does not name are gone, and
 * appear in snapshots only for as long as a session still uses them; then their bytes are added to
 * the sum of all that went before. Sessions share ownership of their counters, and so need not know
 * of reloads.
 *
 * The task that accepts a connection counts `accepted`, and makes sure that exactly one of `ended`
 * is counted for it. As in counters.hpp, any task may count, without waiting; the lock is for the
 * lists and for the settings that appear in snapshots, which only reloads and snapshots use.
 */
#ifndef RELAY_REGISTRY_HPP
#define RELAY_REGISTRY_HPP

#include "bandwidth.hpp"
#include "config.hpp"
#include "counters.hpp"
#include "names.hpp"
#include "snapshot.hpp"
#include "sources.hpp"

#include <sennit/sennit.hpp>

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

struct flow_counters {
	busy_counter bytes;
	counter userspace;
	counter splice;

	void add_paths(const sn_copy_result &copied) noexcept
	{
		userspace.add(copied.bytes_userspace);
		splice.add(copied.bytes_spliced);
	}
	flow read() const noexcept { return {bytes.get(), userspace.get(), splice.get()}; }
};

struct listener_counters {
	explicit listener_counters(std::string called) : name(std::move(called)) {}

	const std::string name;

	/* Accepted and not refused, less ended. listener.hpp counts it, as it is also a limit. */
	std::atomic<std::uint64_t> active{0};
	/* Only connections accepted while such a limit was in effect. */
	relay::sources sources;
	relay::rate rate;
	/* For all its connections together, and for each. Reloads change both for open ones too. */
	buckets bandwidth;
	allowance bandwidth_per_connection;
	wait_counters throttled; /* by any bandwidth limit */
	counter accepted;
	counter retries;
	std::array<counter, terminations> ended{};
	flow_counters to_backend;
	flow_counters to_client;
	histogram connect;
	histogram first_byte;
	histogram duration;

private:
	friend class registry;
	/* Under the registry's lock. */
	std::string address_;
	std::uint64_t limit_ = 0;
	bool gone_ = false;
};

/* The result of active checks of a backend. */
enum class checked : unsigned char { unknown, up, down };

/* The result of a check of that address, or of connecting to it, in words. */
std::string check_error_text(int error, std::string_view address);

struct backend_counters {
	backend_counters(std::string of, std::string at)
	    : group(std::move(of)), address(std::move(at)), addresses(address)
	{
	}

	const std::string group;
	const std::string address;
	relay::addresses addresses; /* that the address resolves to */

	/* Connections, including those being made. balance.hpp counts it, as it is also a limit. */
	std::atomic<std::uint64_t> active{0};
	/* Ejected until the first, slow until the second; balance.hpp sets both. As of sn_now(). */
	std::atomic<std::int64_t> ejected_until{INT64_MIN};
	std::atomic<std::int64_t> slow_until{INT64_MIN};
	std::atomic<std::uint32_t> failures_in_a_row{0};
	/* Set by the task that checks (balance.hpp), one at a time. */
	std::atomic<relay::checked> check{relay::checked::unknown};
	std::atomic<std::uint32_t> answers_in_a_row{0}; /* that contradict `check` */
	std::atomic<int> last_error{0};                 /* 0: success */
	std::atomic<std::int64_t> last_check{0};        /* since 1970; 0: none yet */
	counter checks;
	counter check_failures;
	counter connected;
	counter failures;
	counter ejections;
	buckets bandwidth;
	wait_counters throttled; /* by its own limit */
	flow_counters to_backend;
	flow_counters to_client;

private:
	friend class registry;
	/* Under the registry's lock. */
	std::uint32_t weight_ = 0;
	std::uint64_t limit_ = 0;
	bool is_checked_ = false;
	bool gone_ = false;
};

class registry final : public snapshot_source
{
public:
	class generation;

	/* Bytes delivered by all listeners, to backends and to clients. */
	std::pair<std::uint64_t, std::uint64_t> bytes() const;

	/* Whether new connections are wanted from now on. */
	void set_ready(bool ready) noexcept { ready_.store(ready, std::memory_order_relaxed); }

	bool ready() const noexcept { return ready_.load(std::memory_order_relaxed); }

	/* Sets the function that fills in the process's own numbers. Before the first read(). */
	void set_process(std::function<void(snapshot &)> fill) { fill_ = std::move(fill); }

	snapshot read() const override;

private:
	void forget_gone() const;
	static listener_snapshot read_listener(const listener_counters &of);
	static backend_snapshot read_backend(const backend_counters &of);

	using listeners = std::list<std::shared_ptr<listener_counters>>;
	using backends = std::list<std::shared_ptr<backend_counters>>;

	/* Held for microseconds; a task does not park while holding it. */
	mutable std::mutex lock_;
	mutable listeners listeners_;
	mutable backends backends_;
	/* Of listeners that have been forgotten. */
	mutable std::pair<std::uint64_t, std::uint64_t> bytes_of_gone_{};
	std::atomic<bool> ready_{false};
	sn::clock::time_point began_ = sn::now();
	std::function<void(snapshot &)> fill_;
};

/*
 * The counters that one configuration needs. Everything that can fail comes before commit(): a
 * generation that is thrown away has changed nothing. One at a time.
 */
class registry::generation
{
public:
	explicit generation(registry &of) : of_(of) {}

	std::shared_ptr<listener_counters> open_listener(const std::string &name,
							 const std::string &address,
							 const listener_config &settings);
	/* Without checks, the results of earlier checks are forgotten. */
	std::shared_ptr<backend_counters>
	open_backend(const std::string &group, const backend_config &settings, bool is_checked);

	/* Snapshots have what was opened here from now on; everything else is gone. Once. */
	void commit() noexcept;

private:
	struct pending_listener {
		std::shared_ptr<listener_counters> counts;
		std::string address;
		std::uint64_t limit;
		bandwidth_config bandwidth;
		bandwidth_config bandwidth_per_connection;
	};
	struct pending_backend {
		std::shared_ptr<backend_counters> counts;
		std::uint32_t weight;
		std::uint64_t limit;
		bool is_checked;
		bandwidth_config bandwidth;
	};

	registry &of_;
	std::vector<pending_listener> listeners_;
	std::vector<pending_backend> backends_;
	listeners new_listeners_;
	backends new_backends_;
};

} // namespace relay

#endif
