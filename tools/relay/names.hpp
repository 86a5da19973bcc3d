/* SPDX-License-Identifier: MIT */
/*
 * Backends that are given by name: their addresses, which are looked up in the background and kept.
 *
 * A name is looked up when the relay starts, and again an interval after the previous look-up. A
 * connection uses the latest result and never waits for the name service, except before the first
 * result. The addresses are used in turn, and if one cannot be connected to, the next one is tried;
 * when balancing by source, the source determines which is first. An address that is gone is not
 * used any more; open connections to it are not affected.
 *
 * A look-up that fails, or takes longer than its timeout, changes nothing: the addresses stay. If
 * there are none, because no look-up has ever succeeded, the backend is down until one does. A
 * failure is reported once, and so is its end. A look-up that takes too long continues, because it
 * cannot be interrupted, and its result counts when it arrives. Until then the same name is not
 * looked up again. 128 names are looked up at a time (look_up.hpp), so names that hang delay others
 * only while so many of them hang: then the others wait for one of these to end.
 */
#ifndef RELAY_NAMES_HPP
#define RELAY_NAMES_HPP

#include <sennit/sennit.hpp>

#include <atomic>
#include <chrono>
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

/* Numeric addresses with ports, without duplicates; or the address of a Unix socket. */
using address_list = std::vector<std::string>;

class addresses
{
public:
	/* As configured. A numeric address, or a Unix socket's, is its own only result, for ever. */
	explicit addresses(const std::string &configured);

	/* Whether it is a name that must be looked up. */
	bool named() const noexcept { return named_; }

	/* Whether a look-up has ended. */
	bool known() const noexcept { return state_.load(std::memory_order_acquire) != unknown; }

	/* Whether look-ups have ended, and all of them have failed. */
	bool down() const noexcept { return state_.load(std::memory_order_acquire) == none; }

	/* The latest result; empty if there is none. */
	std::shared_ptr<const address_list> now() const;

	/* A running number, to use the addresses in turn. */
	std::size_t turn() noexcept { return turn_.fetch_add(1, std::memory_order_relaxed); }

	/*
	 * Records what a look-up has found (at least one address), or that it has failed. True when
	 * that is a change to report: the first success after a failure, the first failure after a
	 * success.
	 */
	bool found(address_list list);
	bool failed() noexcept;

	/* Whether the last look-up that has ended failed. */
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

/* ours: the relay has bytes that it will write as soon as it is connected
 * (sn::unstable::connect_to_write()). */
enum class first_words { unknown, ours };

/* For how long a connect to a Unix socket waits for room in its backlog if it may wait for ever:
 * about as long as the kernel tries for TCP. */
inline constexpr std::chrono::minutes unix_connect_most{2};

/*
 * Connects to one of the addresses. source: the hash of the client, if it is to determine the first
 * address. gone() is called while waiting for the first look-up, and returns whether the connection
 * is no longer wanted. Fails as sn::tcp::connect() does, with no_such_file_or_directory if there is
 * no address. May park.
 */
sn::result<sn::tcp> connect_to_any(addresses &of, std::optional<std::uint64_t> source,
				   sn::deadline until, first_words whose,
				   const std::function<bool()> &gone);

} // namespace relay

#endif
