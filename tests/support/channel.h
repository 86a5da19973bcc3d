// SPDX-License-Identifier: MIT
//
// A channel of the C interface for tests: typed, freed at the end, and able to say how many tasks
// wait in it.
#ifndef SENNIT_TESTS_SUPPORT_CHANNEL_H
#define SENNIT_TESTS_SUPPORT_CHANNEL_H

#include <functional>
#include <utility>

#include <sennit/channel.h>
#include <sennit/scope.h>

#include "support/internals.h"
#include "support/runtime.h"

namespace test
{

template <class T = int>
class Chan
{
public:
	explicit Chan(ssize_t capacity = 0)
	{
		if (sn_chan_new(&chan_, sizeof(T), capacity) != 0)
			abort(); // without this, nothing else in the test would make sense
	}
	~Chan() { sn_chan_unref(chan_); }
	Chan(const Chan &) = delete;
	Chan &operator=(const Chan &) = delete;

	sn_chan *get() const { return chan_; }
	int send(T value, int64_t deadline = SN_NO_DEADLINE)
	{
		return sn_chan_send_until(chan_, &value, deadline);
	}
	int recv(T *value, int64_t deadline = SN_NO_DEADLINE)
	{
		return sn_chan_recv_until(chan_, value, deadline);
	}
	// Receives a value. If there is none, the test fails.
	T get_one()
	{
		T value{};

		EXPECT_EQ(0, sn_chan_recv(chan_, &value));
		return value;
	}
	int try_send(T value) { return sn_chan_try_send(chan_, &value); }
	int try_recv(T *value) { return sn_chan_try_recv(chan_, value); }
	int close() { return sn_chan_close(chan_); }
	size_t size() const { return sn_chan_len(chan_); }

	sn_case recv_case(T *value) const { return {{chan_}, value, SN_CASE_RECV, 1}; }
	sn_case send_case(T *value) const { return {{chan_}, value, SN_CASE_SEND, 1}; }

	size_t receivers() const { return probe_chan_waiting(chan_, SN_CASE_RECV); }
	size_t senders() const { return probe_chan_waiting(chan_, SN_CASE_SEND); }
	// Waits until n tasks wait to receive from it.
	bool await_receivers(size_t n) const
	{
		return eventually([&] { return receivers() == n; });
	}
	bool await_senders(size_t n) const
	{
		return eventually([&] { return senders() == n; });
	}

private:
	sn_chan *chan_ = nullptr;
};

// Runs the body in a scope of the task's own.
template <class F>
int in_scope(F body, int64_t deadline = SN_NO_DEADLINE)
{
	sn_scope *scope = nullptr;

	EXPECT_EQ(0, sn_scope_open(&scope, deadline));
	body(scope);
	return sn_scope_close(scope);
}

} // namespace test

#endif
