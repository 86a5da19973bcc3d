/* SPDX-License-Identifier: MIT */
/*
 * How a session waits while its client has no backend yet: until a bell rings, until a time, or
 * until the client goes away. The wait reads no bytes of the client.
 *
 * Which clients have gone away. A reset is certain, and so is a Unix socket that was closed. The
 * end of a TCP stream alone is not: the client may have closed its connection, or it may have sent
 * a request, ended its stream and be waiting for the answer. A client that ended its stream without
 * having sent a byte counts as gone, because there is nothing that a backend could answer. A client
 * that sent bytes before it ended its stream is served, unless the configuration says that clients
 * do not do that.
 */
#ifndef RELAY_CLIENT_WAIT_HPP
#define RELAY_CLIENT_WAIT_HPP

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <atomic>

namespace relay
{

/* Rings for one task. Any task may ring it, any number of times; the waiting task hears it once. */
class bell
{
public:
	/* Throws std::bad_alloc. */
	bell();
	bell(const bell &) = delete;
	bell &operator=(const bell &) = delete;
	~bell();

	/* Does not park. */
	void ring() noexcept;

	sn_chan *chan() const noexcept { return chan_; }

	/* For wait_for(). wake() lets the task receive from the channel without a ring; heard() is
	 * whether there has been a ring since the last call, and is_rung() does not count as a
	 * call. */
	void wake() noexcept;
	bool is_rung() const noexcept { return is_rung_.load(); }
	bool heard() noexcept { return is_rung_.exchange(false); }

private:
	sn_chan *chan_ = nullptr; /* room for one element of size 0 */
	std::atomic<bool> is_rung_{false};
};

/* Why a wait has ended. */
enum class woken { rung, client_left, late };

struct waiting_client {
	int fd;
	bool has_sent; /* whether the relay has read bytes of it */
	/* A client that has sent bytes and then ended its stream counts as gone too. */
	bool leaves_by_half_close;
};

/* Waits until the deadline for the bell, or for the client to leave. If memory or descriptors
 * are short, it waits for the bell alone, and looks at the client ten times a second; without
 * memory for a timer it may be a tenth of a second late (untimed.hpp). Call it in a task. May
 * park. */
woken wait_for(bell &rings, const waiting_client &client, sn::deadline until) noexcept;

} // namespace relay

#endif
