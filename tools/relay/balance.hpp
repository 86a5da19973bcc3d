/* SPDX-License-Identifier: MIT */
/*
 * A pool: the backends of a group while the relay runs, and the choice of one for a connection.
 *
 *  - round robin: smooth and weighted. Each choice gives every backend its weight and takes the
 *    sum of weights from the one that has most, so that in each `sum` choices every backend is
 *    chosen exactly as often as its weight says, spread as evenly as can be. Under a mutex for some
 *    nanoseconds a connection.
 *  - least connections: the least (active + 1) / weight; among equals another one goes first each
 *    time.
 *  - two choices: two by chance, weights counting, of which the one with fewer connections, by
 *    weight. Does not look at all of them, and does not herd.
 *  - source hash: weighted rendezvous hashing of the client's address (without its port) with the
 *    backend's. A backend that leaves moves only its own clients; one that comes takes its share,
 *    weight / sum on average, of the others' and moves nothing else; order does not matter and
 *    nothing is stored, so restarts do not matter either. A ring was rejected: at 100 points for
 *    each backend its shares are 10 % off, and there are too few backends for O(log n) to pay.
 *
 * Ejection. A backend that could not be connected to `eject_after` times in a row gets no connections
 * for `eject_for`. Then its weight grows evenly from a hundredth to all of it for `slow_return`, so
 * that one that has just started is not overrun; another failure before the first success ejects it
 * again at once. When every backend that is left is ejected, they are tried as if none were: a try
 * can only help. Connections that are open do not notice any of it. Relaxed: that a choice sees an
 * ejection a moment late is as if it had come a moment earlier.
 *
 * Checks. A backend whose checks failed `fall` times in a row is down, and is not chosen, not even
 * when all are: checks are asked for and mean what they say. When `rise` in a row have succeeded it
 * comes back, slowly as after an ejection. Before the first answer it is taken for well.
 *
 * Names. A backend whose name has never resolved (names.hpp) is down in the same way.
 *
 * Weight 0 is never chosen. A choice that succeeds counts as a connection of the backend from then
 * on, until the ticket goes: the limit of connections is exact, as it is compared and counted in
 * one atomic step. One that is full is passed over.
 *
 * What is known of a backend (its connections, its failures) is in the book, and so the same for the
 * pools of a group before and after a reload. A reload makes round robin begin anew.
 *
 * Any task may choose; none parks. The pool outlives its tickets.
 */
#ifndef RELAY_BALANCE_HPP
#define RELAY_BALANCE_HPP

#include "book.hpp"
#include "config.hpp"

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

/* Any bytes to 64 well-mixed bits, the same ones in every process. */
std::uint64_t hash_of(std::string_view bytes) noexcept;

struct backend {
	backend(const backend_config &says, std::shared_ptr<backend_counters> counted)
	    : settings(says), shared(std::move(counted)), counts(*shared),
	      hash(hash_of(says.address))
	{
	}

	const backend_config &settings;
	const std::shared_ptr<backend_counters> shared;
	backend_counters &counts;
	const std::uint64_t hash;
	std::int64_t credit = 0; /* of round robin; under the pool's lock */
};

/* A connection that counts as the backend's for as long as this lives. */
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
	/* The settings outlive the pool. The name is that which the book is to tell. */
	pool(const group_config &settings, const std::string &name, book::edition &counts);

	/*
	 * One of the backends that have not been tried, for a client whose address has that hash.
	 * None when there is none left that may have a connection.
	 */
	ticket choose(std::uint64_t source, const std::vector<backend *> &tried);

	/* How connecting to one of the backends went. failed() is true when that ejected it. */
	void succeeded(backend &at) noexcept;
	bool failed(backend &at) noexcept;

	/*
	 * A check's answer, no error when all was well: true when the backend is down thereby, or up
	 * again. For one task at a time. unchecked(): nobody will ask it any more.
	 */
	bool checked(backend &at, const std::error_code &answer) noexcept;
	void unchecked(backend &at) noexcept;

	const group_config &settings() const noexcept { return settings_; }
	const std::string &name() const noexcept { return name_; }
	std::deque<backend> &backends() noexcept { return backends_; }

	/* Whether choose() needs the source. */
	bool by_source() const noexcept { return settings_.balance == balancing::source_hash; }

	/* Whether one that is not down and has a weight has not been tried. */
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
