/* SPDX-License-Identifier: MIT */
/*
 * The endpoints of a backend: its only address, or those of its name, which is looked up in the
 * background.
 *
 * A name is looked up when the relay starts, and again an interval after the previous look-up. A
 * connection uses the latest result and never waits for the name service, except before the first
 * result. Each address is an endpoint of its own (endpoint.hpp): it is balanced, limited, checked
 * and ejected by itself. One that stays in the result keeps all of that. One that is gone from it
 * gets no new connections; its open ones are not affected, and with the last of them it is
 * forgotten, except that its totals stay in the backend's. So a name whose addresses keep changing
 * takes no more memory than its addresses and its connections do.
 *
 * The name of a service ("srv:_http._tcp.example.org") stands for all addresses of the hosts in its
 * SRV records, with their ports, weights and priorities (RFC 2782).
 *
 * A look-up that fails, or takes longer than its timeout, changes nothing: the addresses stay. The
 * answer that there is no such name, or no address of it, is different: somebody has removed the
 * name, and its addresses may belong to others now. The third such answer in a row counts
 * (resolver.cc). If there are no addresses, or no look-up has ever succeeded, the backend is down
 * until one does. A failure is reported once, and so is its end. A look-up that takes too long
 * continues, because it cannot be interrupted, and its result counts when it arrives. Until then
 * the same name is not looked up again. 128 names are looked up at a time (look_up.hpp), so names
 * that hang delay others only while so many of them hang: then the others wait for one of these to
 * end.
 *
 * Any task or thread may call anything here, except that waiting is for tasks.
 */
#ifndef RELAY_NAMES_HPP
#define RELAY_NAMES_HPP

#include "backends/endpoint.hpp"
#include "config/config.hpp"
#include "stats/snapshot.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <atomic>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace relay
{

/* The most endpoints of a backend. A name with more addresses is used with some of them, always the
 * same ones. */
inline constexpr std::size_t most_endpoints = 256;

/* A numeric address with its port, as a look-up has found it. */
struct found_endpoint {
	std::string address;
	std::uint32_t weight = 1;
	std::uint32_t priority = 0;

	bool operator==(const found_endpoint &) const = default;
};

/* At least one element, in any order, and possibly with duplicates. */
using found_endpoints = std::vector<found_endpoint>;

/* An endpoint, and what the latest look-up says of it. */
struct listed_endpoint {
	std::shared_ptr<endpoint> at;
	std::uint32_t weight = 1;   /* within the backend; 0: the least that there is */
	std::uint32_t priority = 0; /* those of a higher value are for when these fail */
};

/* Without duplicates, in the order of their addresses. */
using endpoint_list = std::vector<listed_endpoint>;

class endpoints
{
public:
	/* As configured. A numeric address, or a Unix socket's, is its own only endpoint. */
	explicit endpoints(std::string configured);

	/* Whether it is a name that must be looked up. */
	bool named() const noexcept { return named_; }

	/* Whether a look-up has ended. */
	bool known() const noexcept { return state_.load(std::memory_order_acquire) != unknown; }

	/* Whether look-ups have ended, and all of them have failed. */
	bool down() const noexcept { return state_.load(std::memory_order_acquire) == none; }

	/* The latest result; empty if there is none. */
	std::shared_ptr<const endpoint_list> now() const;

	/* The same, without a lock where possible; otherwise `keep` owns the list. */
	const endpoint_list &now(std::vector<std::shared_ptr<const endpoint_list>> &keep) const;

	/* Grows with each change of now(). */
	std::uint64_t changes() const noexcept { return changes_.load(std::memory_order_acquire); }

	/* Waits at most until then for changes() to differ from `seen`. Throws when the scope is
	 * cancelled. */
	void await_change(std::uint64_t seen, sn::deadline until);

	/*
	 * Records what a look-up has found, or that it has failed. True when that is a change to
	 * report: the first success after a failure, the first failure after a success.
	 */
	bool found(found_endpoints list);
	bool failed() noexcept;

	/* The name does not exist any more, so it has no addresses. Throws std::bad_alloc, with
	 * nothing changed. */
	void give_up();

	/* Whether the last look-up that has ended failed. */
	bool failing() const noexcept { return is_failing_.load(std::memory_order_relaxed); }

	std::uint64_t failures() const noexcept
	{
		return failures_.load(std::memory_order_relaxed);
	}

	/* Limits each endpoint, also future ones. */
	void limit_bandwidth(const bandwidth_config &to);

	/* The results of earlier checks do not count any more. */
	void forget_checks() noexcept;

	/* Sets the agent of each endpoint, also of future ones. forget: its earlier answers do not
	 * count any more. */
	void use_agent(const agent_id &agent) noexcept;
	void forget_agent() noexcept;

	/*
	 * The state of all endpoints: their sum in *into, and each by itself if the backend is a
	 * name. Endpoints that are gone from the name and still have connections are `drained`.
	 * weight and limit: as configured.
	 */
	void read(backend_snapshot &into, std::uint32_t weight, std::uint64_t limit,
		  bool is_checked);

private:
	enum state : unsigned char { unknown, none, some };
	using gone_endpoints = std::map<std::string_view, std::shared_ptr<endpoint>>;

	bool replace(const found_endpoints &list);
	std::shared_ptr<endpoint> find_or_make(const std::string &address);
	void forget_gone();
	void notify() noexcept;

	const std::string configured_;
	const bool named_;
	mutable std::mutex lock_; /* of what follows; held for microseconds */
	std::shared_ptr<const endpoint_list> list_;
	gone_endpoints gone_; /* that may still have connections */
	endpoint_snapshot totals_of_forgotten_;
	bandwidth_config bandwidth_;
	agent_id agent_;

	std::atomic<state> state_{unknown};
	std::atomic<std::uint64_t> changes_{0}; /* under lock_ */
	std::atomic<std::uint64_t> failures_{0};
	std::atomic<bool> is_failing_{false};

	/* For await_change(). */
	sn::mutex waiting_;
	sn::condition_variable changed_;
};

/* ours: the relay has bytes that it will write as soon as it is connected
 * (sn::unstable::connect_to_write()). */
enum class first_words { unknown, ours };

/* For how long a connect to a Unix socket waits for room in its backlog if it may wait forever:
 * about as long as the kernel tries for TCP. */
inline constexpr std::chrono::minutes unix_connect_most{2};

/* Connects to an address. Fails as sn::tcp::connect() does, but with address_not_available only if
 * no local port is free, which is no fault of the endpoint: without an address of this machine to
 * connect from, such as one of IPv6, the network is unreachable. May park. */
sn::result<sn::tcp> connect_to_endpoint(const std::string &address, sn::deadline until,
					first_words whose);

} // namespace relay

#endif
