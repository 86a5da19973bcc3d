/* SPDX-License-Identifier: MIT */
#include "base/client_wait.hpp"

#include "base/untimed.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <poll.h>
#include <sys/ioctl.h>

namespace relay
{
namespace
{

using namespace std::chrono_literals;

/* The kernel reports these whether they are asked for or not. */
constexpr int gone = POLLHUP | POLLERR | POLLNVAL;

/* Whether the kernel's report means that the client has gone. If the client has only ended its
 * stream, clears `events`, because the kernel would report that again and again. */
bool has_left(const waiting_client &client, int reported, int &events) noexcept
{
	if (reported < 0 || (reported & gone))
		return true;
	if (!(reported & POLLRDHUP))
		return false;
	int unread = 0;
	if (client.leaves_by_half_close ||
	    (!client.has_sent && ioctl(client.fd, FIONREAD, &unread) == 0 && unread == 0))
		return true;
	events = 0;
	return false;
}

class untimed_ring final : public untimed_wait
{
public:
	explicit untimed_ring(bell &rings) noexcept : rings_(rings) {}

private:
	void park() noexcept override { static_cast<void>(!sn_chan_recv(rings_.chan(), nullptr)); }
	void wake() noexcept override { rings_.wake(); }
	/* A ring may have come together with a wake-up, which took both from the channel. */
	bool is_over() noexcept override
	{
		return rings_.is_rung() || sn_chan_try_recv(rings_.chan(), nullptr) == 0;
	}

	bell &rings_;
};

} // namespace

bell::bell()
{
	if (sn_chan_new(&chan_, 0, 1) < 0)
		throw std::bad_alloc();
}

bell::~bell()
{
	sn_chan_unref(chan_);
}

void bell::ring() noexcept
{
	is_rung_.store(true); /* before the task is woken */
	wake();
}

void bell::wake() noexcept
{
	/* If the channel is full, the task has not heard the last ring yet, and hears both as
	 * one. */
	static_cast<void>(!sn_chan_try_send(chan_, nullptr));
}

woken wait_for(bell &rings, const waiting_client &client, sn::deadline until) noexcept
{
	for (int events = POLLRDHUP;;) {
		sn_case cases[2] = {};
		cases[0].chan = rings.chan();
		cases[0].op = SN_CASE_RECV;
		cases[1].poll = {client.fd, events};
		cases[1].op = SN_CASE_POLL;
		int done = sn_select(cases, 2, until.time_since_epoch().count());
		if (done == 0) {
			if (rings.heard())
				return woken::rung;
			continue; /* an earlier wait without a timer was woken just as it ended */
		}
		if (done == -ETIMEDOUT)
			return woken::late;
		if (done == 1) {
			if (has_left(client, cases[1].result, events))
				return woken::client_left;
			continue;
		}
		/* There is no descriptor or memory for a wait for the client. */
		sn::deadline pause = sn::after(100ms);
		if (until != sn::no_deadline)
			pause = std::min(pause, until);
		done = sn_chan_recv_until(rings.chan(), nullptr, pause.time_since_epoch().count());
		if (done == -ENOMEM)
			untimed_ring(rings).wait(pause);
		else if (done != 0 && done != -ETIMEDOUT)
			return woken::late;
		if (rings.heard())
			return woken::rung;
		if (until != sn::no_deadline && sn::now() >= until)
			return woken::late;
		pollfd look{client.fd, static_cast<short>(events), 0};
		if (poll(&look, 1, 0) > 0 && has_left(client, look.revents, events))
			return woken::client_left;
	}
}

} // namespace relay
