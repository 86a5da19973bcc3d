/* SPDX-License-Identifier: MIT */
/*
 * What is counted of each route, and the snapshot made of it.
 *
 * Routes are opened before the first client is accepted and stay where they are. Whoever accepts
 * calls accepted(), and whoever accepted sees to it that ended() is called, once. As in
 * counters.hpp, any task counts and nobody waits.
 */
#ifndef RELAY_BOOK_HPP
#define RELAY_BOOK_HPP

#include "counters.hpp"
#include "snapshot.hpp"

#include <sennit/sennit.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <string>

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

/* A route that has one listener and one backend. */
struct route_counters {
	route_counters(std::string listens, std::string connects)
	    : address(std::move(listens)), backend(std::move(connects))
	{
	}

	const std::string address;
	const std::string backend;

	counter accepted;
	std::array<counter, terminations> ended{};
	counter connecting; /* begun, less ended: connections to the backend now */
	counter connected;
	counter connect_failed;
	flow_counters to_backend;
	flow_counters to_client;
	histogram connect;
	histogram first_byte;
	histogram duration;
};

class book final : public snapshot_source
{
public:
	/* The name of the route is where it listens. Before clients are accepted. */
	route_counters &open(const std::string &listens, const std::string &connects)
	{
		return routes_.emplace_back(listens, connects);
	}

	/* From now on new connections are wanted, or are not. */
	void set_ready(bool ready) noexcept { ready_.store(ready, std::memory_order_relaxed); }

	bool ready() const noexcept { return ready_.load(std::memory_order_relaxed); }

	/* What is not of a route: fills in the process's numbers. Before the first read(). */
	void set_process(std::function<void(snapshot &)> fill) { fill_ = std::move(fill); }

	snapshot read() const override;

private:
	std::deque<route_counters> routes_;
	std::atomic<bool> ready_{false};
	sn::clock::time_point began_ = sn::now();
	std::function<void(snapshot &)> fill_;
};

} // namespace relay

#endif
