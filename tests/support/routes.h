// SPDX-License-Identifier: MIT
//
// Two TCP connections in a row: what is sent into the first is copied to the second, in one
// direction or in both.
#ifndef SENNIT_TESTS_SUPPORT_ROUTES_H
#define SENNIT_TESTS_SUPPORT_ROUTES_H

#include <memory>

#include <sennit/copy.h>
#include <sennit/relay.h>
#include <sennit/unstable.h>

#include "support/net.h"

namespace test
{

// source.client -> source.server, copied to sink.client -> sink.server.
struct CopyRoute {
	Listener listener;
	Pair source{listener}, sink{listener};
	// The copy must zero it.
	struct sn_copy_result result = {77, 77, SN_COPY_WRITE, 77, 77, 77};

	int copy(int64_t n = -1, sn_copy_progress *progress = nullptr, void *arg = nullptr)
	{
		return sn_copy(sn_tcp_stream(sink.client), sn_tcp_stream(source.server), n,
			       progress, arg, &result);
	}
};

// A relay between two pairs: from.client writes, to.server reads.
struct RelayRoute {
	void start()
	{
		options.tuning = &tuning;
		relay = std::make_unique<Task>([this] {
			return sn_relay(sn_tcp_stream(from.server), sn_tcp_stream(to.client),
					&result, &options);
		});
	}

	Listener listener;
	Pair from{listener}, to{listener};
	struct sn_relay_tuning tuning = {};
	struct sn_relay_options options = {};
	struct sn_relay_result result;
	std::unique_ptr<Task> relay;
};

} // namespace test

#endif
