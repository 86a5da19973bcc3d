/* SPDX-License-Identifier: MIT */
/*
 * What is counted of each listener and each backend, and the snapshot made of it.
 *
 * Both are opened before the first client is accepted and stay where they are. Whoever accepts
 * counts accepted, and whoever accepted sees to it that one of ended is counted, once. As in
 * counters.hpp, any task counts and nobody waits.
 */
#ifndef RELAY_BOOK_HPP
#define RELAY_BOOK_HPP

#include "config.hpp"
#include "counters.hpp"
#include "snapshot.hpp"

#include <sennit/sennit.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <string>
#include <utility>

namespace relay
{

struct flow_counters {
	alignas(64) counter bytes; /* changes with every chunk */
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
	listener_counters(std::string called, std::string listens, std::uint64_t most)
	    : name(std::move(called)), address(std::move(listens)), limit(most)
	{
	}

	const std::string name;
	const std::string address;
	const std::uint64_t limit;

	counter accepted;
	std::array<counter, terminations> ended{};
	flow_counters to_backend;
	flow_counters to_client;
	histogram connect;
	histogram first_byte;
	histogram duration;
};

struct backend_counters {
	backend_counters(std::string of, backend_config says)
	    : group(std::move(of)), settings(std::move(says))
	{
	}

	const std::string group;
	const backend_config settings;

	/* Connections, those being made included; balance.hpp counts it, as it is also a limit. */
	std::atomic<std::uint64_t> active{0};
	/* Ejected before the first, slow before the second; balance.hpp sets both. On sn_now(). */
	std::atomic<std::int64_t> ejected_until{INT64_MIN};
	std::atomic<std::int64_t> slow_until{INT64_MIN};
	counter connected;
	counter failures;
	flow_counters to_backend;
	flow_counters to_client;
};

class book final : public snapshot_source
{
public:
	/* Before clients are accepted. */
	listener_counters &open_listener(const std::string &name, const std::string &address,
					 std::uint64_t limit)
	{
		return listeners_.emplace_back(name, address, limit);
	}
	backend_counters &open_backend(const std::string &group, const backend_config &settings)
	{
		return backends_.emplace_back(group, settings);
	}

	/* Bytes delivered by all listeners, to backends and to clients. */
	std::pair<std::uint64_t, std::uint64_t> bytes() const noexcept;

	/* From now on new connections are wanted, or are not. */
	void set_ready(bool ready) noexcept { ready_.store(ready, std::memory_order_relaxed); }

	bool ready() const noexcept { return ready_.load(std::memory_order_relaxed); }

	/* What is not of a route: fills in the process's numbers. Before the first read(). */
	void set_process(std::function<void(snapshot &)> fill) { fill_ = std::move(fill); }

	snapshot read() const override;

private:
	std::deque<listener_counters> listeners_;
	std::deque<backend_counters> backends_;
	std::atomic<bool> ready_{false};
	sn::clock::time_point began_ = sn::now();
	std::function<void(snapshot &)> fill_;
};

} // namespace relay

#endif
