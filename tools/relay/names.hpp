/* SPDX-License-Identifier: MIT */
/*
 * Backends that are given by name: their addresses, which are looked up in the background and kept.
 *
 * A name is looked up when the relay starts, and an interval after it was looked up last. Whoever
 * connects takes what was found last and never waits for the name service, save before the first
 * answer. The addresses are used in turn, and when one cannot be connected to, the next one; for
 * balancing by the source it is the source that says which is first. An address that is gone is not
 * used any more; connections to it do not notice.
 *
 * A look-up that fails, or takes longer than its time, changes nothing: the addresses stay. When
 * there are none, because no look-up has ever succeeded, the backend is down until one does. Either
 * is told once, and so is its end. One that takes too long goes on, as it cannot be interrupted, and
 * its answer counts when it comes; until then there is no second one of that name, so that a name
 * service that is stuck has a thread for each name at most, and sixteen in all.
 */
#ifndef RELAY_NAMES_HPP
#define RELAY_NAMES_HPP

#include <sennit/sennit.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace relay
{

/* Each with its port, numeric, and once. */
using address_list = std::vector<std::string>;

class addresses
{
public:
	/* "host:port", as configured. One that needs no look-up is its own address, for ever. */
	explicit addresses(const std::string &configured);

	/* Whether it is a name. */
	bool named() const noexcept { return named_; }

	/* Whether a look-up has ended; until then nobody knows. */
	bool known() const noexcept { return state_.load(std::memory_order_acquire) != unknown; }

	/* Whether all that have ended have failed. */
	bool down() const noexcept { return state_.load(std::memory_order_acquire) == none; }

	/* What was found last; empty when there is nothing. */
	std::shared_ptr<const address_list> now() const;

	/* Which of them is next. */
	std::size_t turn() noexcept { return turn_.fetch_add(1, std::memory_order_relaxed); }

	/*
	 * What a look-up has found, at least one; or that it has failed. True when that is news:
	 * the first answer after a failure, the first failure after an answer.
	 */
	bool found(address_list list);
	bool failed() noexcept;

	/* Whether the last look-up that has ended has failed. */
	bool failing() const noexcept { return is_failing_.load(std::memory_order_relaxed); }

	std::uint64_t failures() const noexcept
	{
		return failures_.load(std::memory_order_relaxed);
	}

private:
	enum state : unsigned char { unknown, none, some };

	const bool named_;
	mutable std::mutex lock_; /* of list_ */
	std::shared_ptr<const address_list> list_;
	std::atomic<state> state_{unknown};
	std::atomic<std::size_t> turn_{0};
	std::atomic<std::uint64_t> failures_{0};
	std::atomic<bool> is_failing_{false};
};

/* Whether something is at hand that will be written at once: sn::unstable::connect_to_write(). */
enum class first_words { unknown, ours };

/*
 * Connects to one of the addresses. source: who connects, where that is to say which is first. gone()
 * is asked while it waits for the first look-up: whether nobody wants the connection any more. Fails
 * as sn::tcp::connect() does, with no_such_file_or_directory when there is no address. May park.
 */
sn::result<sn::tcp> connect_to_any(addresses &of, std::optional<std::uint64_t> source,
				   sn::deadline until, first_words whose,
				   const std::function<bool()> &gone);

} // namespace relay

#endif
