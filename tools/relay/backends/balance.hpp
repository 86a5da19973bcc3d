/* SPDX-License-Identifier: MIT */
/*
 * A pool: the backends of a group while the relay runs, and the choice of one of their endpoints
 * (names.hpp) for a connection.
 *
 *  - round robin: smooth and weighted. Each choice gives every endpoint its weight and takes the
 *    sum of the weights from the one that has most. So in each `sum` choices every endpoint is
 *    chosen exactly as often as its weight says, spread as evenly as possible. Takes a mutex for
 *    some nanoseconds per connection.
 *  - least connections: the least (active + 1) / weight; among equals a different one goes first
 *    each time.
 *  - two choices: two at random, by weight, and of these the one with fewer connections for its
 *    weight. Does not look at all of them, and does not herd.
 *  - source hash: weighted rendezvous hashing of the client's address (without its port) with the
 *    endpoint's. An endpoint that leaves moves only its own clients. One that joins takes its
 *    share, weight / sum on average, of the others' clients and moves nothing else. The order of
 *    endpoints does not matter, nor whether they come from a name, and nothing is stored, so
 *    restarts do not matter either. Rejected: a ring. At 100 points per endpoint its shares are
 *    10 % off, and there are too few for O(log n) to pay.
 *
 * Ejection. An endpoint to which `eject_after` connection attempts in a row failed gets no
 * connections for `eject_for`. Then its weight grows evenly from a hundredth to all of it during
 * `slow_return`, so that a backend that has just started is not overrun; another failure before the
 * first success ejects it again immediately. If all remaining endpoints are ejected, they are tried
 * as if none were: an attempt can only help. Open connections are not affected. Relaxed: a choice
 * that sees an ejection a moment late is equivalent to a choice a moment earlier.
 *
 * Silence. An endpoint that has not answered an attempt to connect for `most_patience` gets only
 * one more each `silence_probed`, until it answers, unless there is no other of its priority with
 * room. Otherwise every client that gets a dead machine, before checks or failures show that, would
 * wait for it as long as the first. Relaxed, as for ejections.
 *
 * Checks. An endpoint whose checks failed `fall` times in a row is down, and is not chosen, not
 * even if all are down: checks are configured explicitly and mean what they say. After `rise`
 * consecutive successes it comes back, slowly as after an ejection. Before the first result it
 * counts as up, and the first result decides: `fall` is for those that were seen to work.
 *
 * Agents. What the agent of an endpoint has said (agent_state.hpp) counts beside what the operator,
 * the checks and the failures say: an endpoint is chosen only if none of them is against it. Its
 * weight is the product of the configured one, the agent's percentage, the weight of its SRV record
 * and what slow_return leaves of it; the first two together are no more than weight_max. Of the
 * limits of connections, the configured and the agent's, the lower one holds. An endpoint that
 * returns from its agent's "down" or "maint" does so slowly.
 *
 * Names. Each choice is made among the addresses of the latest look-up. A backend whose name has
 * never resolved has none.
 *
 * Priorities. Backends have a priority, and so have the hosts of a service within it. An endpoint
 * is available if it is not down, not ejected, not drained by its agent, and not yet tried by this
 * connection. The choice is made among the endpoints with the lowest value of which one is
 * available. One that is full is available, because backups are for what has failed: a database's
 * standby is no place for connections for which the primary has no room.
 *
 * A backend of weight 0 is never chosen. A successful choice counts as a connection of the endpoint
 * until its ticket is destroyed. The limit of connections is exact, because comparing and counting
 * are one atomic step. An endpoint that is full is passed over. Clients that find all of them full
 * wait in the group's queue (queue.hpp).
 *
 * Connections that are made ahead of clients (ready.hpp) have places too, but are no load. A client
 * that gets an endpoint with such a connection gets the connection and its place. Such connections
 * therefore take no place from a client, except while one is being made.
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
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace relay
{

/* Every network answers sooner, unless the answer was lost; as in RFC 8305, section 5. */
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

class pool;

/* The endpoints that a connection has tried. */
using tried_endpoints = std::vector<std::shared_ptr<endpoint>>;

/* A client that waits in the queue, and what it is given. The others refer to its session. */
class queued_choice final : public queue::waiter
{
public:
	queued_choice(std::uint64_t from, const tried_endpoints &in_vain)
	    : waiter(in_vain.empty()), source(from), tried(in_vain)
	{
	}

	const std::uint64_t source;
	const tried_endpoints &tried;
	/* Set with the place. The pool may be a later one than the client's. */
	std::shared_ptr<pool> of;
	ticket got;
};

class pool final : public queue::giver
{
public:
	/* The settings outlive the pool. The name is the one under which statistics appear. */
	pool(const group_config &settings, const std::string &name, registry::generation &counts);

	/*
	 * Chooses an endpoint that has not been tried, for a client whose address has that hash. An
	 * empty ticket if none is left that may have a connection.
	 */
	ticket choose(std::uint64_t source, const tried_endpoints &tried);

	/* The same for a client that may not overtake others: empty also while others wait. */
	ticket choose_in_turn(std::uint64_t source, const tried_endpoints &tried);

	/* From now on those that wait get places of this pool. */
	static void lead(const std::shared_ptr<pool> &which) noexcept;
	answer give_place(queue::waiter &to,
			  const std::shared_ptr<queue::giver> &itself) noexcept override;
	bool are_alike(const queue::waiter &a, const queue::waiter &b) const noexcept override;
	queue &line() const noexcept { return group_->line; }

	/* Records the result of connecting to an endpoint. failed() is true if that ejected it. */
	void succeeded(endpoint &at) noexcept;
	bool failed(endpoint &at) noexcept;

	/* Connections that are made ahead of clients (ready.hpp). */
	bool keeps_ready() const noexcept { return settings_.preconnect.most != 0; }
	ready_store &ready() const noexcept { return group_->ready; }

	/* Whether the endpoint may have such connections now: not if clients do not get it, or get
	 * it only when no other is left. */
	bool may_be_ready(const endpoint &one) const noexcept;

	/* How many connections it may have, by the configuration and its agent; 0: any number. */
	static std::uint64_t limit_of(const backend &of, const endpoint &one) noexcept
	{
		return lower_limit(of.settings.max_connections, one.agent.effect().limit);
	}

	/* Reserves a place for one more of them, unless it is the last free place, or a client
	 * waits for it or would be refused without it. */
	ticket reserve_ahead(const backend &of,
			     const std::shared_ptr<endpoint> &one) const noexcept;

	/*
	 * Records the result of a check, no error for success: true if the endpoint goes down or
	 * comes up by it. For one task at a time. unchecked(): there will be no more checks.
	 */
	bool checked(endpoint &at, const std::error_code &answer) noexcept;
	void unchecked() noexcept;

	/*
	 * Records what an agent has said of its endpoint. Throws std::bad_alloc. unheard(): no
	 * agent will be asked any more.
	 */
	agent_state::change heard(endpoint &at, const agent_id &agent, const agent_answer &answer);
	void unheard() noexcept;

	/* TLS to its backends; null: they have none. Before others know the pool. */
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

	/* Whether an endpoint that may be chosen and has a weight is left to try. */
	bool has_other(const tried_endpoints &tried) const;

	/*
	 * Waits for the first look-ups of names, until then, and only as long as gone() is false:
	 * while there is no endpoint to choose otherwise; or, if the source determines it, for all
	 * of them, so that clients get the one that they will always get. May park.
	 */
	void await_names(sn::deadline until, const std::function<bool()> &gone) const;

private:
	struct candidate {
		endpoint *to;
		std::uint64_t weight; /* in hundredths, at least 1 */
		const backend *of;
		const listed_endpoint *listed;

		std::uint64_t priority() const noexcept
		{
			return std::uint64_t{of->settings.priority} << 32 | listed->priority;
		}
	};
	using candidates = std::vector<candidate>;
	/* What candidates refer to. */
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

	ticket choose_from(candidates among, std::uint64_t source, std::int64_t now);
	bool may_be_chosen(const endpoint &one) const noexcept;
	bool lacks_names() const;

	const group_config &settings_;
	const std::string name_;
	std::shared_ptr<const tls_context> tls_;
	const std::shared_ptr<group_counters> group_;
	std::deque<backend> backends_;
	std::mutex lock_; /* of a choice in turn */
	std::atomic<std::uint64_t> turn_{0};
};

} // namespace relay

#endif
