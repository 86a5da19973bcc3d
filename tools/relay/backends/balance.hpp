/* SPDX-License-Identifier: MIT */
/*
 * A pool: the backends of a group while the relay runs, and the choice of one of their endpoints
 * (names.hpp) for a connection.
 *
 *  - round robin: smooth and weighted. Each choice adds to every endpoint's credit its weight,
 *    chooses the endpoint with the most credit, and takes the sum of all weights from it. In each
 *    `sum` choices every endpoint is therefore chosen exactly as often as its weight says, spread
 *    as evenly as possible. Takes a mutex for some nanoseconds per connection.
 *  - least connections: the endpoint with the least (active + 1) / weight; equals take turns.
 *  - two choices: draws two at random, by weight, and takes the one with fewer connections for its
 *    weight. It does not look at all endpoints, and does not herd.
 *  - source hash: weighted rendezvous hashing of the client's address (without its port) with the
 *    endpoint's. When an endpoint leaves, only its own clients move. When one joins, it takes its
 *    share, weight / sum on average, of the others' clients, and no other client moves. The order
 *    of endpoints does not matter, nor whether they come from a name. Nothing is stored, so
 *    restarts do not matter either. Rejected: a ring. At 100 points per endpoint its shares are 10
 *    % off, and there are too few for O(log n) to pay.
 *
 * Ejection. An endpoint to which `eject_after` connection attempts in a row failed gets no
 * connections for `eject_for`. Then its weight grows evenly from a hundredth to all of it during
 * `slow_return`, so that a backend that has just started is not overrun; another failure before the
 * first success ejects it again immediately. If all remaining endpoints are ejected, they are tried
 * as if none were, because an attempt can only help. Open connections are not affected. The
 * accesses are relaxed: a choice that sees an ejection a moment late is equivalent to a choice a
 * moment earlier.
 *
 * Silence. An endpoint that has not answered an attempt to connect for `most_patience` gets only
 * one more each `silence_probed`, until it answers, unless there is no other endpoint of its
 * priority with room. Without this rule, until checks or failures show that a machine is dead,
 * every client that gets it would wait as long as the first. The accesses are relaxed, as for
 * ejections. Sessions of UDP are chosen as if no endpoint were silent. Silence is about TCP, where
 * it may be only a full backlog, and a session that got the one attempt could not end the silence:
 * nothing has to answer a datagram, and an answer would say nothing of the backlog.
 *
 * Checks. An endpoint whose checks failed `fall` times in a row is down, and is not chosen, not
 * even if all are down: checks are configured explicitly and mean what they say. After `rise`
 * consecutive successes it comes back, slowly as after an ejection. The first result alone decides,
 * because `fall` is for endpoints that have been seen to work, and `rise` for those that have been
 * seen to fail.
 *
 * Before the first result an endpoint counts as up, or, if the checks are set to start with "down",
 * as full: no connection goes to it, clients wait for it in the queue, and it holds its priority,
 * because a backup is not wanted if the primary is only a moment late. If this machine lacked the
 * resources for its first check, it does not hold the priority any more.
 *
 * Agents. The answer of an endpoint's agent (agent_state.hpp) counts in addition to the
 * configuration, the checks and the failures: an endpoint is chosen only if none of these excludes
 * it. Its weight is the product of the configured one, the agent's percentage, the weight of its
 * SRV record and the fraction that slow_return allows; the product of the first two is capped at
 * weight_max. The lower of the configured and the agent's limit of connections applies. An endpoint
 * that returns from its agent's "down" or "maint" does so slowly.
 *
 * Names. Each choice is made among the addresses of the latest lookup. A backend whose name has
 * never resolved has no endpoints.
 *
 * Priorities. Backends have a priority, and so have the hosts of a service within it. An endpoint
 * is available if it is not down, not ejected, not drained by its agent, and not yet tried by this
 * connection. The choice is made among the endpoints of the lowest priority value that has an
 * available one. A full endpoint counts as available, because backups are for failures: a
 * database's standby must not get the connections for which the primary has no room.
 *
 * A backend of weight 0 is never chosen. A successful choice counts as a connection of the endpoint
 * until its ticket is destroyed. The limit of connections is exact, because comparing and counting
 * are one atomic step. An endpoint that is full is passed over. Clients that find all of them full
 * wait in the group's queue (queue.hpp).
 *
 * Connections that are made ahead of clients (ready.hpp) hold places too, but do not count as load.
 * A client that gets an endpoint with such a connection gets the connection and its place. Such
 * connections therefore take no place from a client, except while one is being made.
 *
 * The state of an endpoint (its connections, its failures) is in the registry, and so is shared by
 * the pools of a group before and after a reload.
 *
 * Any task may choose; none parks. The pool outlives its tickets.
 */
#ifndef RELAY_BALANCE_HPP
#define RELAY_BALANCE_HPP

#include "backends/endpoint.hpp"
#include "backends/names.hpp"
#include "backends/queue.hpp"
#include "backends/registry.hpp"
#include "backends/ticket.hpp"
#include "config/config.hpp"
#include "tls/tls_context.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace relay
{

/* In nanoseconds. Any network answers sooner, unless the answer was lost; as in RFC 8305,
 * section 5. */
constexpr std::int64_t most_patience = 250'000'000;
constexpr std::int64_t silence_probed = 1'000'000'000;

/* Hashes any bytes to 64 well-mixed bits, the same in every process. */
std::uint64_t hash_of(std::string_view bytes) noexcept;

/* A backend as configured. */
struct backend {
	backend(const backend_config &says, std::shared_ptr<backend_counters> counted)
	    : settings(says), shared(std::move(counted)), endpoints(shared->endpoints)
	{
	}

	const backend_config &settings;
	const std::shared_ptr<backend_counters> shared;
	relay::endpoints &endpoints;
};

/* What the result of a check has done. */
struct check_effect {
	bool is_recorded = false; /* it counts */
	bool is_change = false;   /* the endpoint goes down or comes up by it */

	explicit operator bool() const noexcept { return is_change; }
};

class pool;

/* The endpoints that a connection has tried. */
using tried_endpoints = std::vector<std::shared_ptr<endpoint>>;

/* A client that waits in the queue, and the place that it is given. The other members refer to
 * its session. */
class queued_choice final : public queue::waiter
{
public:
	queued_choice(std::uint64_t from, const tried_endpoints &in_vain)
	    : waiter(in_vain.empty()), source(from), tried(in_vain)
	{
	}

	const std::uint64_t source;
	const tried_endpoints &tried;
	/* The pool of the place, set together with it. It may be a later pool than the client's. */
	std::shared_ptr<pool> of;
	ticket got;
};

class pool final : public queue::giver
{
public:
	/* The settings must outlive the pool. Statistics appear under the name. */
	pool(const group_config &settings, const std::string &name, registry::generation &counts);

	/* What an endpoint is chosen for. */
	enum class use : unsigned char { connection, datagrams };

	/*
	 * Chooses an endpoint that has not been tried, for a client whose address has that hash.
	 * Returns an empty ticket if no endpoint is left that may have a connection.
	 */
	ticket choose(std::uint64_t source, const tried_endpoints &tried,
		      use wanted = use::connection);

	/* The same for a client that may not overtake others: the ticket is also empty while
	 * others wait. */
	ticket choose_in_turn(std::uint64_t source, const tried_endpoints &tried);

	/* Makes this the pool from which waiting clients get places. */
	static void lead(const std::shared_ptr<pool> &which) noexcept;
	answer give_place(queue::waiter &to,
			  const std::shared_ptr<queue::giver> &itself) noexcept override;
	bool has_awaited() const noexcept override;
	bool may_serve(const queue::waiter &which) const noexcept override;
	bool is_unwatched() const noexcept override { return is_unwatched_.load(); }
	bool are_alike(const queue::waiter &a, const queue::waiter &b) const noexcept override;
	/* Whether waiting clients get places from this pool; and the pool from which they do if
	 * that is another one. */
	bool leads() const noexcept { return line().latest().get() == this; }
	std::shared_ptr<pool> successor() const noexcept
	{
		auto latest = std::static_pointer_cast<pool>(line().latest());
		return latest.get() == this ? nullptr : std::move(latest);
	}
	queue &line() const noexcept { return group_->line; }

	/* Records the result of connecting to an endpoint. failed() is true if that ejected it. */
	void succeeded(endpoint &at) noexcept;
	bool failed(endpoint &at) noexcept;

	/* Connections that are made ahead of clients (ready.hpp). */
	bool keeps_ready() const noexcept { return settings_.preconnect.most != 0; }
	ready_store &ready() const noexcept { return group_->ready; }

	/* Whether the endpoint may have ready connections now. It may not if clients do not get
	 * it, or get it only when no other is left. */
	bool may_be_ready(const endpoint &one) const noexcept;

	/* How many connections the endpoint may have, by the configuration and its agent; 0: any
	 * number. */
	static std::uint64_t limit_of(const backend &of, const endpoint &one) noexcept
	{
		return lower_limit(of.settings.max_connections, one.agent.effect().limit);
	}

	/* Reserves a place for one more ready connection, unless it is the last free place, or a
	 * client waits for it or would be refused without it. */
	ticket reserve_ahead(const backend &of,
			     const std::shared_ptr<endpoint> &one) const noexcept;

	/*
	 * Records the result of a check; no error means success. not_checked(): this machine lacked
	 * a resource for the check, and the endpoint keeps its last result; true if the last check
	 * did not fail in the same way. unchecked(): there will be no more checks.
	 *
	 * returns: the endpoint's count when the check began. If its address was gone since, and
	 * has returned, nothing is recorded; nor is anything if its checks have been turned off.
	 */
	check_effect checked(endpoint &at, const std::error_code &answer,
			     std::optional<std::uint64_t> returns = std::nullopt) noexcept;
	bool not_checked(endpoint &at, const std::error_code &why,
			 std::optional<std::uint64_t> returns = std::nullopt) noexcept;
	void unchecked() noexcept;

	/*
	 * A reload has removed the group, and with it the checks and lookups. What is known of the
	 * backends stays, because one that is down may be a wrong one. Clients do not wait any
	 * longer for what is not known, or for a backend that is down.
	 */
	void end_watching() noexcept;

	/*
	 * Records the answer of an endpoint's agent. Throws std::bad_alloc. unheard(): no agent
	 * will be asked any more.
	 */
	agent_state::change heard(endpoint &at, const agent_id &agent, const agent_answer &answer);
	void unheard() noexcept;

	/* Sets the TLS context for its backends; null: they have no TLS. Call it before others
	 * know the pool. */
	void use_tls(std::shared_ptr<const tls_context> context) { tls_ = std::move(context); }
	const std::shared_ptr<const tls_context> &tls() const noexcept { return tls_; }

	const group_config &settings() const noexcept { return settings_; }
	const std::string &name() const noexcept { return name_; }
	std::deque<backend> &backends() noexcept { return backends_; }
	const std::deque<backend> &backends() const noexcept { return backends_; }

	/* Whether it has an endpoint at this numeric address. */
	bool has_endpoint(std::string_view address) const;

	/* Whether choose() needs the source. */
	bool by_source() const noexcept { return settings_.balance == balancing::source_hash; }

	/* Whether an endpoint that may be chosen, now or after its first check, and has a weight is
	 * left to try. may_get_other(): also one that a first lookup may find, if it will be
	 * checked first. */
	bool has_other(const tried_endpoints &tried) const noexcept;
	bool may_get_other(const tried_endpoints &tried) const noexcept
	{
		return has_other(tried) || (settings_.check.starts_down && lacks_a_name());
	}

	/* Whether the endpoints that clients would get, those of the best priority that is left,
	 * have still to pass a first check or to be looked up before it. */
	bool awaits_first_checks(const tried_endpoints &tried) const noexcept;
	bool awaits_first_checks() const noexcept override { return awaits_first_checks({}); }

	/*
	 * Waits for first lookups of names, until the deadline, or until gone() is true. Waits only
	 * while there is no endpoint to choose; or, if the source determines the endpoint, for the
	 * lookups of all names, so that clients get the endpoint that they will always get. May
	 * park.
	 */
	void await_names(sn::deadline until, const std::function<bool()> &gone) const;

private:
	static std::uint64_t priority_of(std::uint32_t of_backend, std::uint32_t listed) noexcept
	{
		return std::uint64_t{of_backend} << 32 | listed;
	}

	struct candidate {
		endpoint *to;
		std::uint64_t weight; /* in hundredths, at least 1 */
		const backend *of;
		const listed_endpoint *listed;

		std::uint64_t priority() const noexcept
		{
			return priority_of(of->settings.priority, listed->priority);
		}
	};
	using candidates = std::vector<candidate>;
	/* Owns the lists that candidates refer to. */
	using kept = std::vector<std::shared_ptr<const endpoint_list>>;

	candidates find_candidates(const tried_endpoints &tried, std::int64_t now,
				   kept &keep) const;
	std::uint64_t weight_at(const endpoint &of, std::uint64_t all,
				std::int64_t now) const noexcept;
	static bool less_loaded(const candidate &a, const candidate &b) noexcept;
	std::size_t round_robin(const candidates &among);
	std::size_t least_connections(const candidates &among);
	std::size_t two_choices(const candidates &among);
	static std::size_t source_hash(const candidates &among, std::uint64_t source);

	ticket choose_from(candidates among, std::uint64_t source, std::int64_t now, use wanted);
	enum class access { open, awaited, closed };
	access access_to(const endpoint &one) const noexcept;
	template <class Condition>
	bool has_left(const tried_endpoints &tried, Condition fits) const noexcept;
	bool starts_down() const noexcept;
	bool lacks_a_name() const noexcept;
	bool lacks_names() const noexcept
	{
		return lacks_a_name() && (by_source() || !has_other({}));
	}
	void forget_checks() noexcept;

	const group_config &settings_;
	const std::string name_;
	std::shared_ptr<const tls_context> tls_;
	const std::shared_ptr<group_counters> group_;
	std::deque<backend> backends_;
	std::mutex lock_; /* held during a round robin choice */
	std::atomic<std::uint64_t> turn_{0};
	std::atomic<bool> is_unchecked_{false}; /* the checks have ended */
	std::atomic<bool> is_unwatched_{false}; /* end_watching() was called */
};

} // namespace relay

#endif
