/* SPDX-License-Identifier: MIT */
/*
 * The endpoints of a backend: its only address, or those of its name, which is looked up in the
 * background.
 *
 * A name is looked up when the relay starts, and again an interval after the previous lookup began.
 * A connection uses the latest result and never waits for the name service, except before the first
 * result. Each address is an endpoint of its own (endpoint.hpp): it is balanced, limited, checked
 * and ejected by itself. An endpoint that stays in the result keeps its state. One that is gone
 * from the result gets no new connections. Its open connections are not affected; with the last of
 * them it is forgotten, and its totals are added to the backend's. A name whose addresses keep
 * changing therefore takes no more memory than its present addresses and its connections do.
 *
 * The name of a service ("srv:_http._tcp.example.org") stands for all addresses of the hosts in its
 * SRV records, with their ports, weights and priorities (RFC 2782).
 *
 * A lookup that fails, or takes longer than its timeout, changes nothing: the addresses stay. The
 * answer that the name does not exist, or has no address, is different: somebody has removed the
 * name, and its addresses may belong to others now. The third such answer in a row removes the
 * addresses (resolver.cc). While there are no addresses, or no lookup has ever succeeded, the
 * backend is down. A failure is reported once, and so is its end. A lookup that takes too long
 * continues, because it cannot be interrupted, and its result counts when it arrives. Until then
 * the same name is not looked up again. 128 names are looked up at a time (lookup.hpp), so names
 * whose lookups hang delay others only if there are 128 of them.
 *
 * Any task or thread may call anything here, except that only tasks may wait.
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

/* A numeric address with its port, as a lookup has found it. */
struct found_endpoint {
	std::string address;
	std::uint32_t weight = 1;
	std::uint32_t priority = 0;

	bool operator==(const found_endpoint &) const = default;
};

/* The result of a lookup: at least one element, in any order, and possibly with duplicates. */
using found_endpoints = std::vector<found_endpoint>;

/* An endpoint, and its weight and priority in the latest lookup. */
struct listed_endpoint {
	std::shared_ptr<endpoint> at;
	std::uint32_t weight = 1;   /* within the backend; 0: the smallest */
	std::uint32_t priority = 0; /* a higher value is used when all lower ones fail */
};

/* The endpoints of a backend, without duplicates, in the order of their addresses. */
using endpoint_list = std::vector<listed_endpoint>;

class endpoints
{
public:
	/* Takes the address as configured. The only endpoint of a numeric address, or of a Unix
	 * socket, is the address itself. */
	explicit endpoints(std::string configured);

	/* Whether it is a name that must be looked up. */
	bool named() const noexcept { return named_; }

	/* Whether a lookup has ended. */
	bool known() const noexcept { return state_.load(std::memory_order_acquire) != unknown; }

	/* Whether lookups have ended, and there are no addresses. */
	bool down() const noexcept { return state_.load(std::memory_order_acquire) == none; }

	/* The latest result; empty if there is none. */
	std::shared_ptr<const endpoint_list> now() const;

	/* The same, without the lock if the list never changes; otherwise `keep` owns the list.
	 * Only the first one allocates memory. */
	const endpoint_list &now(std::vector<std::shared_ptr<const endpoint_list>> &keep) const;
	const endpoint_list &now(std::shared_ptr<const endpoint_list> &keep) const noexcept;

	/* Grows with each change of now(). */
	std::uint64_t changes() const noexcept { return changes_.load(std::memory_order_acquire); }

	/* Waits at most until then for changes() to differ from `seen`. Throws when the scope is
	 * cancelled. */
	void await_change(std::uint64_t seen, sn::deadline until);

	/*
	 * Records the result or the failure of a lookup. Returns true if it must be reported: it is
	 * the first success after a failure, or the first failure after a success.
	 */
	bool found(found_endpoints list);
	bool failed() noexcept;

	/* Removes all addresses, because the name does not exist any more. If it throws
	 * std::bad_alloc, nothing has changed. */
	void give_up();

	/* Whether the last lookup that has ended failed. */
	bool failing() const noexcept { return is_failing_.load(std::memory_order_relaxed); }

	std::uint64_t failures() const noexcept
	{
		return failures_.load(std::memory_order_relaxed);
	}

	/* Sets the limit of each endpoint, also of future ones. */
	void limit_bandwidth(const bandwidth_config &to);

	/* Resets the results of earlier checks. */
	void forget_checks() noexcept;

	/* Whether the answers of checks count from now on. If not, it also resets earlier ones. */
	void use_checks(bool are_used) noexcept;

	/* Whether endpoints get no connections before their first check (balance.hpp). Then one
	 * that returns to its name has to be checked again. */
	void start_down(bool is_so) noexcept;

	/* use_agent() sets the agent of each endpoint, also of future ones. forget_agent()
	 * resets its earlier answers. */
	void use_agent(const agent_id &agent) noexcept;
	void forget_agent() noexcept;

	/*
	 * Reads the state of all endpoints: their sum into `into`, and also each by itself if the
	 * backend is a name. Endpoints that are gone from the name and still have connections are
	 * `drained`. weight and limit: as configured.
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
	mutable std::mutex lock_; /* guards the fields below; held for microseconds */
	std::shared_ptr<const endpoint_list> list_;
	gone_endpoints gone_; /* gone endpoints that may have connections */
	endpoint_snapshot totals_of_forgotten_;
	bandwidth_config bandwidth_;
	agent_id agent_;
	bool starts_down_ = false;
	bool is_checked_ = true;

	std::atomic<state> state_{unknown};
	std::atomic<std::uint64_t> changes_{0}; /* under lock_ */
	std::atomic<std::uint64_t> failures_{0};
	std::atomic<bool> is_failing_{false};

	/* For await_change(): a waiter looks at changes_ under the mutex before it waits. */
	sn::mutex waiting_;
	sn::condition_variable changed_;
};

/* Who writes first on a connection. ours: the relay has bytes to write as soon as it is
 * connected (sn::unstable::connect_to_write()). */
enum class first_words { unknown, ours };

/* How long a connect without a deadline to a Unix socket waits for room in its backlog: about as
 * long as the kernel tries for TCP. */
inline constexpr std::chrono::minutes unix_connect_most{2};

/* Connects to an address. Fails as sn::tcp::connect() does, except that address_not_available
 * means only that no local port is free, which is not the endpoint's fault. If this machine has
 * no address to connect from, such as no IPv6 address, the error is network_unreachable. May
 * park. */
sn::result<sn::tcp> connect_to_endpoint(const std::string &address, sn::deadline until,
					first_words whose);

} // namespace relay

#endif
