/* SPDX-License-Identifier: MIT */
/*
 * A pool: the backends of a group while the relay runs, and the choice of one for a connection.
 *
 *  - round robin: smooth and weighted. Each choice gives every backend its weight and takes the
 *    sum of the weights from the one that has most. So in each `sum` choices every backend is
 *    chosen exactly as often as its weight says, spread as evenly as possible. Takes a mutex for
 *    some nanoseconds per connection.
 *  - least connections: the least (active + 1) / weight; among equals a different one goes first
 *    each time.
 *  - two choices: two at random, by weight, and of these the one with fewer connections for its
 *    weight. Does not look at all of them, and does not herd.
 *  - source hash: weighted rendezvous hashing of the client's address (without its port) with the
 *    backend's. A backend that leaves moves only its own clients. One that joins takes its share,
 *    weight / sum on average, of the others' clients and moves nothing else. The order of
 *    backends does not matter and nothing is stored, so restarts do not matter either. Rejected:
 *    a ring. At 100 points per backend its shares are 10 % off, and there are too few backends
 *    for O(log n) to pay.
 *
 * Ejection. A backend to which `eject_after` connection attempts in a row failed gets no
 * connections for `eject_for`. Then its weight grows evenly from a hundredth to all of it during
 * `slow_return`, so that a backend that has just started is not overrun; another failure before the
 * first success ejects it again at once. If all backends that are left are ejected, they are tried
 * as if none were: an attempt can only help. Open connections are not affected. Relaxed: a choice
 * that sees an ejection a moment late is equivalent to a choice a moment earlier.
 *
 * Checks. A backend whose checks failed `fall` times in a row is down, and is not chosen, not even
 * if all are down: checks are configured explicitly and mean what they say. After `rise`
 * consecutive successes it comes back, slowly as after an ejection. Before the first result it
 * counts as up.
 *
 * Names. A backend whose name has never resolved (names.hpp) is down in the same way.
 *
 * A backend of weight 0 is never chosen. A successful choice counts as a connection of the backend
 * until its ticket is destroyed. The limit of connections is exact, because comparing and counting
 * are one atomic step. A backend that is full is passed over.
 *
 * The state of a backend (its connections, its failures) is in the registry, and so is shared by
 * the pools of a group before and after a reload. A reload restarts round robin.
 *
 * Any task may choose; none parks. The pool outlives its tickets.
 */
#ifndef RELAY_BALANCE_HPP
#define RELAY_BALANCE_HPP

#include "address.hpp"
#include "config.hpp"
#include "registry.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace relay
{

/* Hashes any bytes to 64 well-mixed bits, the same in every process. */
std::uint64_t hash_of(std::string_view bytes) noexcept;

struct backend {
	backend(const backend_config &says, std::shared_ptr<backend_counters> counted)
	    : settings(says), shared(std::move(counted)), counts(*shared),
	      is_local(is_unix(says.address)), hash(hash_of(says.address))
	{
	}

	const backend_config &settings;
	const std::shared_ptr<backend_counters> shared;
	backend_counters &counts;
	const bool is_local; /* a Unix socket */
	const std::uint64_t hash;
	std::int64_t credit = 0; /* for round robin; under the pool's lock */
};

/* Counts as a connection of the backend for as long as it lives. */
class ticket
{
public:
	ticket() = default;
	explicit ticket(backend &to) noexcept : to_(&to) {}
	ticket(ticket &&other) noexcept : to_(std::exchange(other.to_, nullptr)) {}
	ticket &operator=(ticket &&other) noexcept
	{
		std::swap(to_, other.to_);
		return *this;
	}
	~ticket()
	{
		if (to_)
			to_->counts.active.fetch_sub(1, std::memory_order_relaxed);
	}

	explicit operator bool() const noexcept { return to_ != nullptr; }
	backend *operator->() const noexcept { return to_; }
	backend *get() const noexcept { return to_; }

private:
	backend *to_ = nullptr;
};

class pool
{
public:
	/* The settings outlive the pool. The name is the one under which statistics appear. */
	pool(const group_config &settings, const std::string &name, registry::generation &counts);

	/*
	 * Chooses a backend that has not been tried, for a client whose address has that hash. An
	 * empty ticket if none is left that may have a connection.
	 */
	ticket choose(std::uint64_t source, const std::vector<backend *> &tried);

	/* Records the result of connecting to a backend. failed() is true if that ejected it. */
	void succeeded(backend &at) noexcept;
	bool failed(backend &at) noexcept;

	/*
	 * Records the result of a check, no error for success: true if the backend goes down or
	 * comes up by it. For one task at a time. unchecked(): there will be no more checks of it.
	 */
	bool checked(backend &at, const std::error_code &answer) noexcept;
	void unchecked(backend &at) noexcept;

	const group_config &settings() const noexcept { return settings_; }
	const std::string &name() const noexcept { return name_; }
	std::deque<backend> &backends() noexcept { return backends_; }

	/* Whether choose() needs the source. */
	bool by_source() const noexcept { return settings_.balance == balancing::source_hash; }

	/* Whether a backend that is not down and has a weight is left to try. */
	bool has_other(const std::vector<backend *> &tried) const noexcept;

private:
	struct candidate {
		backend *to;
		std::uint64_t weight; /* in hundredths, at least 1 */
	};
	using candidates = std::vector<candidate>;
	candidates find_candidates(const std::vector<backend *> &tried) const;
	std::uint64_t weight_at(const backend &of, std::int64_t now) const noexcept;
	static bool less_loaded(const candidate &a, const candidate &b) noexcept;
	std::size_t round_robin(const candidates &among);
	std::size_t least_connections(const candidates &among);
	std::size_t two_choices(const candidates &among);
	static std::size_t source_hash(const candidates &among, std::uint64_t source);

	bool may_be_chosen(const backend &one) const noexcept;

	const group_config &settings_;
	const std::string name_;
	mutable std::deque<backend> backends_;
	std::mutex lock_;
	std::atomic<std::uint64_t> turn_{0};
};

} // namespace relay

#endif
