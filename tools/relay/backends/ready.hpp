/* SPDX-License-Identifier: MIT */
/*
 * Connections to backends that are made ahead of clients (`preconnect`), so that a client does not
 * wait for the connect and the TLS handshake. Each connection is given to one client, and ends with
 * it.
 *
 * A store has the ready connections of a group, by endpoint. A keeper (ready_keeper.hpp) fills it.
 * Sessions take from it, the youngest connection first, because a backend is least likely to have
 * closed that one. A session checks the connection that it takes (look_at()): one that the backend
 * has closed, or has written to, is of no use to a client. A backend that writes first (SMTP, SSH,
 * MySQL) would have greeted nobody, and would soon stop waiting for an answer. Once that is
 * noticed, no more connections are made ahead to that endpoint, until another keeper begins. Bytes
 * that a backend writes when it ends a connection that was silent for long are not a greeting.
 *
 * Each ready connection holds a place of its endpoint (ticket.hpp), so max_connections limits ready
 * and used connections together. The store belongs to the registry, by the group's name, and so
 * outlives a reload: connections stay ready as long as some keeper wants that endpoint, and its TLS
 * context stays the same. The last keeper to leave an endpoint closes its remaining connections.
 *
 * No place is lost to clients in the queue: a keeper first puts a connection into the store (c) and
 * then checks whether a client waits (d), in the terms of queue.hpp; a client that has entered the
 * queue checks the store (b). The number of connections, which it checks first, is sequentially
 * consistent.
 *
 * The stock is all ready connections of the process. The limit of open files leaves room for two
 * descriptors per client connection. Ready connections use a part of this room while it is free,
 * and give it back when sessions come near the limit.
 *
 * Any task may call. Only look_at() parks. Locks are held for microseconds. A ticket is never
 * destroyed under one, because its destruction may serve the queue, which takes from a store.
 */
#ifndef RELAY_READY_HPP
#define RELAY_READY_HPP

#include "backends/ticket.hpp"
#include "base/client_wait.hpp"
#include "stats/counters.hpp"
#include "stats/sessions.hpp"
#include "stats/snapshot.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace relay
{

/* The state of a connection without a client. spoke: the backend has written to it. */
enum class ready_state : unsigned char { silent, closed, spoke };

/* Checks a connection. With TLS it also reads messages that have arrived, such as session
 * tickets, for which it may park for a moment and needs tls_stack. */
ready_state look_at(ready_connection &of) noexcept;

class ready_store
{
public:
	ready_store() = default;
	ready_store(const ready_store &) = delete;
	ready_store &operator=(const ready_store &) = delete;

	/* How long after the beginning of a connection bytes from the backend count as a
	 * greeting. */
	static constexpr std::chrono::seconds greeting_time{5};

	/* For sessions: takes a place with a ready connection to that endpoint; empty if there
	 * is none. */
	ticket take(const endpoint &of) noexcept;

	/* A connection that was taken has turned out to be usable. */
	void proved(const endpoint &of) noexcept;

	/* The backend has written to a connection of that age. Returns true if this shows that it
	 * writes first. */
	bool spoke(const endpoint &of, sn::clock::duration age) noexcept;

	/* For keepers. All of these are about an endpoint that the keeper has joined. */

	/* The bell rings whenever a connection is taken. */
	void join(const std::shared_ptr<endpoint> &which, bell &rings);
	void leave(const endpoint &which, const bell &rings) noexcept;

	/* Returns true if one more connection should be made, with at most `most` in all. Then
	 * the caller makes it, calls put() if that succeeds, and end() in any case. */
	bool begin(const endpoint &to, std::size_t most) noexcept;
	void end(const endpoint &to) noexcept;
	void put(ticket made);

	struct swept {
		std::list<ticket> suspect{}; /* bytes have arrived; to be checked */
		/* When to sweep again. */
		sn::clock::time_point next = sn::clock::time_point::max();
	};
	/* Closes connections that are too old, have another TLS context, exceed `most`, or make
	 * the endpoint exceed its limit of connections (0: none). Returns those on which bytes
	 * have arrived. */
	swept sweep(const endpoint &of, std::size_t most, std::uint64_t limit,
		    const std::shared_ptr<const tls_context> &tls,
		    sn::clock::time_point now) noexcept;

	/* Puts a suspect connection back after it was checked. */
	void put_back(std::list<ticket> &one) noexcept;

	/* Whether a connection has turned out to be usable since the last call. */
	bool was_proved(const endpoint &of) noexcept;

	/* Closes all ready connections of that endpoint. */
	void give_up(const endpoint &of, ready_end why) noexcept;

	/* For the stock: moves up to n connections into `into`, the oldest of each endpoint. */
	void give_up_some(std::list<ticket> &into, std::size_t n) noexcept;

	void discarded(ready_end why, std::uint64_t n = 1) noexcept
	{
		discarded_[static_cast<std::size_t>(why)].add(n);
	}

	/* Sets how many the configuration wants, for snapshots only. */
	void set_most(std::uint32_t most) noexcept { most_.store(most, std::memory_order_relaxed); }
	void read(group_snapshot &into) const noexcept;

	counter hits;
	counter misses;
	counter failures;

private:
	struct slot {
		std::list<ticket> idle; /* oldest first */
		std::size_t making = 0;
		std::vector<bell *> keepers; /* the bell of each */
		bool speaks_first = false;
		bool is_proved = false;
	};
	using list = std::list<ticket>;

	slot *find(const endpoint &of) noexcept;
	void count(std::ptrdiff_t more) noexcept;
	void move_out(slot &from, list::iterator one, list &to) noexcept;

	std::mutex lock_; /* guards slots_ */
	std::unordered_map<const endpoint *, slot> slots_;
	std::atomic<std::size_t> idle_{0}; /* in all slots; changed under the lock */
	std::atomic<std::uint32_t> most_{0};
	std::array<counter, static_cast<std::size_t>(ready_end::count_)> discarded_;
};

class ready_stock
{
public:
	explicit ready_stock(const sessions &of) noexcept : sessions_(of) {}
	ready_stock(const ready_stock &) = delete;
	ready_stock &operator=(const ready_stock &) = delete;

	/* The number of connections that exist, including those that are being made. */
	std::atomic<std::size_t> &open() noexcept { return open_; }

	/* Whether there may be one more. */
	bool has_room() const noexcept;

	/* Called when a session begins: closes ready connections whose descriptors it needs. */
	void make_room() noexcept;

	/* Closes all connections, because a resource has run short. */
	void give_up_all() noexcept;

	/* Closes all connections, and lets no more be made. */
	void close() noexcept;
	bool is_open() const noexcept { return !is_closed_.load(); }

	/* Adds or removes a store that has a keeper; called once for each of its keepers. */
	void enter(ready_store &one);
	void leave(const ready_store &one) noexcept;

private:
	std::size_t used() const noexcept;
	void give_up(std::size_t n, ready_end why) noexcept;

	const sessions &sessions_;
	std::atomic<std::size_t> open_{0};
	std::atomic<bool> is_closed_{false};
	std::mutex lock_; /* guards stores_ */
	std::vector<ready_store *> stores_;
};

} // namespace relay

#endif
