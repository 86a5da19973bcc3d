// SPDX-License-Identifier: MIT
//
// A piece that a layer of dst has taken over in part when the copy ends: the layer will send these
// bytes, so they are not lost, and the result says so.
#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/socket.h>

#include <sennit/copy.h>
#include <sennit/layer.h>
#include <sennit/scope.h>

#include "support/streams.h"

namespace
{

// A layer that takes over the first bytes of what is written, and can send none of them, because
// nobody reads from its socket.
struct Stuck {
	int fd;
	size_t most;      // that it takes over
	size_t taken = 0; // that it has taken over, and not yet reported as written
};

ssize_t stuck_write(void *state, const void *, size_t size)
{
	auto *stuck = static_cast<Stuck *>(state);

	// Until the system call has said EAGAIN, as a layer must before it says so itself.
	while (send(stuck->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		continue;
	EXPECT_EQ(EAGAIN, errno);
	stuck->taken = std::min(size, stuck->most);
	return -EAGAIN;
}

struct sn_layer stuck_layer()
{
	struct sn_layer layer = {};

	layer.read = [](void *, void *, size_t) { return ssize_t(-EAGAIN); };
	layer.write = stuck_write;
	layer.settle = [](void *state) {
		return std::exchange(static_cast<Stuck *>(state)->taken, size_t(0));
	};
	layer.shutdown = [](void *, enum sn_stream_half) { return 0; };
	layer.close = [](void *, int) {};
	return layer;
}

TASK_TEST(CopyPiece, WhatALayerHasTakenOverCountsAsWritten)
{
	static const struct sn_layer layer = stuck_layer();

	for (const size_t most : {size_t(0), size_t(1), size_t(7), size_t(10)}) {
		const auto source = test::Ends::unix_sockets(), sink = test::Ends::unix_sockets();
		Stuck stuck = {sn_stream_fd(sink->to()), most};
		struct sn_copy_result result = {};
		uint64_t reported = 0;

		ASSERT_EQ(0, sn_layer_push(sink->to(), &layer, &stuck));
		ASSERT_EQ(10, sn_stream_write(source->to(), "0123456789", 10));
		sn_stream_set_write_deadline(sink->to(), sn_after(5 * test::ms));
		EXPECT_EQ(-ETIMEDOUT,
			  sn_copy(
				  sink->to(), source->from(), -1,
				  [](void *arg, size_t n) { *static_cast<uint64_t *>(arg) += n; },
				  &reported, &result));
		EXPECT_EQ(SN_COPY_WRITE, result.failed);
		EXPECT_EQ(10u, result.bytes_read);
		EXPECT_EQ(most, result.bytes_written);
		EXPECT_EQ(most, result.bytes_userspace);
		EXPECT_EQ(most, reported);
		sink->close_to();
	}
}

// The bytes are settled also if the copy is cancelled between a wait for room and the next attempt;
// and nobody writes in between, to whom the layer would report them.
TEST(CopyPiece, WhatALayerHasTakenOverIsNobodyElses)
{
	static const struct sn_layer layer = stuck_layer();

	test::run(1, [] {
		const auto source = test::Ends::unix_sockets(), sink = test::Ends::unix_sockets();
		Stuck stuck = {sn_stream_fd(sink->to()), 7};
		struct sn_copy_result result = {};
		sn_scope *scope;
		struct Copy {
			sn_stream *to, *from;
			struct sn_copy_result *result;
			int err;
		} copy = {sink->to(), source->from(), &result, 0};

		ASSERT_EQ(0, sn_layer_push(sink->to(), &layer, &stuck));
		ASSERT_EQ(10, sn_stream_write(source->to(), "0123456789", 10));
		ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		ASSERT_EQ(0, sn_scope_go(
				     scope,
				     [](void *arg) {
					     auto *c = static_cast<Copy *>(arg);

					     c->err = sn_copy(c->to, c->from, -1, nullptr, nullptr,
							      c->result);
					     return 0;
				     },
				     &copy));
		EXPECT_TRUE(test::someone_writes(sink->to()));
		// Another writer gets nothing of what the layer has taken over.
		EXPECT_EQ(-EBUSY, sn_stream_write(sink->to(), "abc", 3));
		probe_fd_wake(sink->to(), 1);
		EXPECT_EQ(-EBUSY, sn_stream_write(sink->to(), "abc", 3));
		sn_scope_cancel(scope);
		EXPECT_EQ(-ECANCELED, sn_scope_close(scope));
		EXPECT_EQ(-ECANCELED, copy.err);
		EXPECT_EQ(SN_COPY_WRITE, result.failed);
		EXPECT_EQ(10u, result.bytes_read);
		EXPECT_EQ(7u, result.bytes_written);
		EXPECT_EQ(0u, stuck.taken);
		sink->close_to();
	});
}

} // namespace
