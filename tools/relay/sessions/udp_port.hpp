/* SPDX-License-Identifier: MIT */
/*
 * The socket of a UDP listener and the table of its sessions, which answer through that socket. The
 * listener and its sessions share this object, so the socket stays open as long as there is a
 * session, even after a reload or a handover has ended the listener.
 *
 * A session is found by its client's address and port. At a listener of every address of the
 * machine, the address that the client sends to is a part of the key, because the answers come from
 * there.
 *
 * A session whose time is over ends under the lock under which datagrams find their session. A
 * datagram that comes at that moment therefore either keeps its session alive or finds it ended. A
 * session that has ended, for whatever reason, frees its places and then leaves the table. The
 * listener's task does the same with one that it finds until then, and begins another one, so that
 * the ended one does not count against it.
 *
 * Any task may call; none parks. The lock is held for one search, or for a walk over all sessions
 * when the relay stops.
 *
 * A task is woken by setting its deadline to a time that has passed. The task may replace that
 * deadline at the same moment, and checks only afterwards why it was woken. Therefore everything
 * that it checks, and the deadlines, are sequentially consistent: a task that overwrites the
 * deadline that was to wake it sees what was written before that deadline.
 */
#ifndef RELAY_UDP_PORT_HPP
#define RELAY_UDP_PORT_HPP

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace relay
{

struct shared;
class udp_session;

struct udp_key {
	sn::address client;
	sn::address local; /* none, unless the socket has several addresses */

	bool operator==(const udp_key &other) const noexcept
	{
		return client == other.client && local == other.local;
	}
};

/* Hashes with a secret key of this process, so that nobody can choose addresses that collide. */
struct udp_key_hash {
	std::size_t operator()(const udp_key &of) const noexcept;
};

class udp_port
{
public:
	enum class phase : unsigned char {
		open,
		retiring, /* serves the sessions that there are */
		given_up, /* another process, or another listener, receives: sessions only answer */
	};

	udp_port(shared &process, sn::udp opened);
	udp_port(const udp_port &) = delete;
	udp_port &operator=(const udp_port &) = delete;
	~udp_port();

	/* Finds the session of a client for a datagram that has come at that time; the datagram
	 * keeps the session alive, unless it has ended (is_ending()). Returns null if there is
	 * none. */
	std::shared_ptr<udp_session> find(const udp_key &key, std::int64_t now) noexcept;

	/* Adds a session, in place of one with the same key that is about to end. Throws
	 * std::bad_alloc. */
	void add(const std::shared_ptr<udp_session> &one);

	/* Takes the session out of the table, unless another one has taken its place. */
	void remove(const udp_session &one) noexcept;

	/* Ends the session if its time is over; returns false if it is not. */
	bool end_if_over(udp_session &one, std::int64_t now) noexcept;

	bool is_empty() const noexcept { return size_.load() == 0; }

	bool is(phase one) const noexcept { return phase_.load() == one; }

	/* Enters a phase. Does not wait. given_up is final. */
	void enter(phase next) noexcept;

	/* Retires, and ends the sessions that have nothing to do, because the relay stops. */
	void stop() noexcept;
	bool is_stopping() const noexcept { return is_stopping_.load(); }

	/* Whether nothing more is to be received here. */
	bool is_over() const noexcept
	{
		return is(phase::given_up) || (!is(phase::open) && is_empty());
	}

	/* Makes the listener's task look at is_over(). */
	void wake() noexcept
	{
		socket.set_read_deadline(sn::deadline(std::chrono::nanoseconds(1)));
	}

	shared &all;
	sn::udp socket;
	const sn::address bound;
	const bool has_every_address;

private:
	void erase(const udp_session &one) noexcept;

	std::mutex lock_; /* guards sessions_, and writes of the rest */
	std::unordered_map<udp_key, std::shared_ptr<udp_session>, udp_key_hash> sessions_;
	std::atomic<std::size_t> size_{0};
	std::atomic<phase> phase_{phase::open};
	std::atomic<bool> is_stopping_{false};
};

} // namespace relay

#endif
